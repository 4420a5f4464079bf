/* manifest.h - reads the documents of an image: index, manifest and configuration, of OCI and of Docker.
 *
 * Pure: no I/O.  The documents are a stranger's: every size, count and digest is checked here. */
#ifndef CLOISTER_IMAGE_MANIFEST_H
#define CLOISTER_IMAGE_MANIFEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "canon/hash.h"

struct err;

#define IMAGE_DOCUMENT_MAX (4u << 20)   /* bytes of an index, a manifest or a configuration */
#define IMAGE_LAYERS_MAX 128
#define IMAGE_INDEX_MAX 1024            /* descriptors of an index */
#define IMAGE_BLOB_MAX (UINT64_C(64) << 30)     /* bytes of a layer as it is stored */
#define IMAGE_TEXT_MAX 256              /* bytes of a media type, a platform's word */

#define IMAGE_TYPE_OCI_INDEX "application/vnd.oci.image.index.v1+json"
#define IMAGE_TYPE_OCI_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define IMAGE_TYPE_OCI_CONFIG "application/vnd.oci.image.config.v1+json"
#define IMAGE_TYPE_OCI_LAYER "application/vnd.oci.image.layer.v1.tar"
#define IMAGE_TYPE_OCI_LAYER_GZIP "application/vnd.oci.image.layer.v1.tar+gzip"
#define IMAGE_TYPE_OCI_LAYER_ZSTD "application/vnd.oci.image.layer.v1.tar+zstd"
#define IMAGE_TYPE_DOCKER_LIST "application/vnd.docker.distribution.manifest.list.v2+json"
#define IMAGE_TYPE_DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define IMAGE_TYPE_DOCKER_CONFIG "application/vnd.docker.container.image.v1+json"
#define IMAGE_TYPE_DOCKER_LAYER_GZIP "application/vnd.docker.image.rootfs.diff.tar.gzip"
#define IMAGE_TYPE_DOCKER_LAYER_ZSTD "application/vnd.docker.image.rootfs.diff.tar.zstd"
#define IMAGE_TYPE_DOCKER_LAYER "application/vnd.docker.image.rootfs.diff.tar"

#define IMAGE_ANNOTATION_NAME "org.opencontainers.image.ref.name"
/* Of a layer that a cell made: its id, the hash of its policy, and that of its timeline's last record. */
#define IMAGE_ANNOTATION_CELL "io.cloister.build.cell"
#define IMAGE_ANNOTATION_POLICY "io.cloister.build.policy"
#define IMAGE_ANNOTATION_TIMELINE "io.cloister.build.timeline"
#define IMAGE_ANNOTATION_INDEX "io.cloister.index"      /* the index that a name's manifest was chosen from */

struct image_descriptor {
	char media_type[IMAGE_TEXT_MAX + 1];
	char digest[HASH_NAME + 1];
	uint64_t size;
	char os[IMAGE_TEXT_MAX + 1], architecture[IMAGE_TEXT_MAX + 1], variant[IMAGE_TEXT_MAX + 1];
	char *name;                     /* the annotation IMAGE_ANNOTATION_NAME; NULL if there is none */
	char index[HASH_NAME + 1];      /* the annotation IMAGE_ANNOTATION_INDEX; "" if there is none */
	/* The annotations IMAGE_ANNOTATION_CELL and so on; "" if there is none. */
	char cell[IMAGE_TEXT_MAX + 1], policy[IMAGE_TEXT_MAX + 1], timeline[IMAGE_TEXT_MAX + 1];
};

struct image_index {
	struct image_descriptor *list;
	size_t n;
};

struct image_manifest {
	char media_type[IMAGE_TEXT_MAX + 1];
	struct image_descriptor config;
	struct image_descriptor *layers;        /* lowest first */
	size_t n_layers;
};

struct image_config {
	char os[IMAGE_TEXT_MAX + 1], architecture[IMAGE_TEXT_MAX + 1], variant[IMAGE_TEXT_MAX + 1];
	char created[IMAGE_TEXT_MAX + 1];       /* as it stands there; "" if absent */
	char (*diff_ids)[HASH_NAME + 1];        /* lowest first */
	size_t n_diff_ids;
	char *config;                           /* the member "config" as canonical JSON; "{}" if absent */
};

enum image_document { IMAGE_DOCUMENT_INDEX, IMAGE_DOCUMENT_MANIFEST };

/* Whether TEXT is an index or a manifest: by its own mediaType, else by MEDIA_TYPE (what a server or a
 * descriptor calls it; NULL: unknown), else by its members. */
int image_document_kind(const char *text, size_t len, const char *media_type,
                        enum image_document *ret_kind, struct err *err);

/* The caller owns what RET_... points to, and frees it with the functions below. */
int image_index_parse(const char *text, size_t len, struct image_index *ret_index, struct err *err);
int image_manifest_parse(const char *text, size_t len, struct image_manifest *ret_manifest,
                         struct err *err);
int image_config_parse(const char *text, size_t len, struct image_config *ret_config, struct err *err);
void image_index_free(struct image_index *index);               /* for OWN() too */
void image_manifest_free(struct image_manifest *manifest);
void image_config_free(struct image_config *config);

/* Whether the two belong together: as many layers as diff ids. */
int image_config_check(const struct image_config *config, const struct image_manifest *manifest,
                       struct err *err);

/* The name that Go and OCI have for this machine's architecture: "amd64", "arm64". */
const char *image_architecture(void);
/* The manifest of INDEX for Linux on ARCHITECTURE; attestations and the like are no images.  The error
 * lists the platforms that there are. */
int image_index_choose(const struct image_index *index, const char *architecture,
                       const struct image_descriptor **ret_chosen, struct err *err);
/* An image of another architecture is refused, unless it names none. */
int image_config_runs_here(const struct image_config *config, struct err *err);
#endif
