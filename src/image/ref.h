/* ref.h - parses references to images: names in a registry, and images in files, folders and engines.
 *
 * Pure: no I/O.
 *
 *     debian:12, docker://debian:12       docker.io/library/debian:12 of a registry
 *     oci:DIR[:TAG]                       an OCI image layout
 *     oci-archive:FILE[:TAG]              the same in a tar archive
 *     docker-archive:FILE[:NAME]          what `docker save` writes
 *     docker-daemon:NAME                  an image of a Docker engine
 *     containers-storage:NAME             an image of Podman and its kin
 *     dir:DIR                             a folder of blobs, as `skopeo copy` writes it
 *     minimal:                            cloister's own, with busybox alone
 */
#ifndef CLOISTER_IMAGE_REF_H
#define CLOISTER_IMAGE_REF_H
#include <stdbool.h>

#include "canon/hash.h"

struct err;

#define IMAGE_REF_MAX 1024              /* bytes of a reference */
#define IMAGE_NAME_MAX 512              /* bytes of a full name */
#define IMAGE_TAG_MAX 128
#define IMAGE_REPOSITORY_MAX 255
#define IMAGE_PREFIX_MIN 6              /* digits of a digest that stand for all of them */

#define IMAGE_HUB "docker.io"           /* the registry of names without one */
#define IMAGE_HUB_FOLDER "library/"     /* and its folder of names without one */
#define IMAGE_TAG_DEFAULT "latest"
#define IMAGE_OWN "cloister.internal"   /* the registry of cloister's own names, which nobody else gives */
#define IMAGE_MINIMAL IMAGE_OWN "/minimal:latest"

enum image_ref_kind {
	IMAGE_REF_REGISTRY, IMAGE_REF_OCI, IMAGE_REF_OCI_ARCHIVE, IMAGE_REF_DOCKER_ARCHIVE,
	IMAGE_REF_DOCKER_DAEMON, IMAGE_REF_CONTAINERS_STORAGE, IMAGE_REF_DIR, IMAGE_REF_MINIMAL,
};

/* A name in a registry. */
struct image_name {
	char registry[IMAGE_REPOSITORY_MAX + 1];        /* "docker.io", "localhost:5000", "[::1]:5000" */
	char repository[IMAGE_REPOSITORY_MAX + 1];      /* "library/debian" */
	char tag[IMAGE_TAG_MAX + 1];                    /* "" if only a digest was given */
	char digest[HASH_NAME + 1];                     /* "sha256:..." or "" */
	/* All of it: REGISTRY/REPOSITORY[:TAG][@DIGEST]. */
	char full[IMAGE_NAME_MAX + 1];
};

struct image_ref {
	enum image_ref_kind kind;
	char path[IMAGE_REF_MAX + 1];           /* of files and folders */
	char tag[IMAGE_REF_MAX + 1];            /* of layouts, archives and engines; "" if none was given */
	struct image_name name;                 /* of registries and minimal; else what the image is
	                                         * called once it is loaded, or "" */
};

/* Parse a reference of any kind. */
int image_ref_parse(const char *text, struct image_ref *ret_ref, struct err *err);
/* "sha256:" and IMAGE_PREFIX_MIN digits or more: a digest or the beginning of one, which is never a name. */
bool image_ref_is_digest(const char *text);
/* Parse a name alone, with the defaults of Docker's. */
int image_name_parse(const char *text, struct image_name *ret_name, struct err *err);
/* The same for a name that an image gets: it has no digest.  Nobody gives the names of IMAGE_OWN. */
int image_name_parse_new(const char *text, struct image_name *ret_name, struct err *err);
/* -EPERM for names of IMAGE_OWN. */
int image_name_check_giver(const struct image_name *name, struct err *err);

/* "docker", "oci" ...: what stands before the colon. */
const char *image_ref_kind_word(enum image_ref_kind kind);
#endif
