/* image_proc.h - what the parts of cloister-image share. */
#ifndef CLOISTER_IMAGE_PROC_H
#define CLOISTER_IMAGE_PROC_H
#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "base/own.h"
#include "image/ref.h"
#include "image/store.h"

struct err;

/* ---- unpacking ---- */

/* Have cloister-unpack turn the bytes of FD into the tree beneath FOLDER.  DIFF_ID is what they must hash to;
 * NULL: anything.  TOTAL is the number of bytes, for progress, or 0. */
int unpack_into(int fd, int folder, const char *diff_id, bool keeps_owners, uint64_t total, struct err *err);
/* Unpack those layers of the image that are not there yet.  The caller holds store_adding(). */
int unpack_image(struct store *s, const struct store_image *image, struct err *err);

/* ---- sources ---- */

/* Where an image is loaded from: a folder with its files. */
struct source {
	int dir;
	bool is_ours;                   /* a folder of the store's: its files may become blobs as they are */
	struct store_layer layer;       /* that folder */
	struct store *store;
};
void source_close(struct source *src);          /* for OWN() too */
/* Open what REF names; archives and engines are unpacked first. */
int source_open(struct store *s, const struct image_ref *ref, struct source *ret_source, struct err *err);
/* A file of it, with no link that leaves the folder: a descriptor. */
int source_open_file(const struct source *src, const char *path, struct err *err);
int source_read(const struct source *src, const char *path, char **ret_text, size_t *ret_len, struct err *err);
bool source_has(const struct source *src, const char *path);
/* Put the file PATH into the store.  DIGEST may be NULL, SIZE may be STORE_SIZE_ANY. */
int source_store(const struct source *src, const char *path, const char *digest, uint64_t size,
                 char ret_digest[HASH_NAME + 1], struct err *err);

/* ---- loading ---- */

/* Load the image that REF names into the store, and unpack it.  NAME: its full name there; NULL: the one it
 * brings, if any, and no digest in it; "": none.  The caller owns *ret_image (store_image_free) and *ret_name, which may be NULL. */
int image_load(struct store *s, const struct image_ref *ref, const char *name, struct store_image *ret_image,
               char **ret_name, struct err *err);
/* The two forms of an image in a folder; DESCRIPTOR gets a name only if the image brings one.  The blobs are in
 * the store then. */
int load_layout(struct store *s, const struct source *src, const char *tag, struct image_descriptor *ret,
                struct err *err);
int load_dir(struct store *s, const struct source *src, struct image_descriptor *ret, struct err *err);
int load_docker(struct store *s, const struct source *src, const struct image_name *name,
                struct image_descriptor *ret, struct err *err);
/* The manifest TEXT and everything that it names; PATH_OF gives the path of a blob. */
typedef void path_of_blob(const char *digest, char ret_path[IMAGE_REF_MAX]);
int load_manifest(struct store *s, const struct source *src, const char *text, size_t len, path_of_blob *path_of,
                  struct image_descriptor *ret, struct err *err);
/* The minimal image of our own: made if the store does not have it. */
int minimal_load(struct store *s, struct store_image *ret_image, struct err *err);
/* Ask the engine for the image NAME: a socket that its archive comes from. */
int daemon_get(const char *name, struct err *err);

/* ---- finding ---- */

/* The image that WORD names: a name, or else a digest or at least IMAGE_PREFIX_MIN digits of one.  An image that is
 * found by a name with a digest has that digest, or is of the index that has it.  *ret_name is its full name or NULL,
 * the caller's. */
int image_find(const struct store *s, const char *word, struct store_image *ret_image, char **ret_name,
               struct err *err);
/* The same for any reference; what is missing is loaded or pulled.  The layers are unpacked.  An image that is loaded
 * gets no name: whoever made it chose the one that it brings. */
int image_resolve(struct store *s, const char *word, struct store_image *ret_image, char **ret_name,
                  struct err *err);
/* Have cloister-pull bring NAME into the store, with the options of ARGS (may be NULL), and unpack it.  *RET_IMAGE is
 * the image that it brought, whichever has the name by then. */
int image_pull(struct store *s, const struct image_name *name, const struct args *args,
               struct store_image *ret_image, struct err *err);
/* Run cloister-pull with these options.  RET_DIGEST: the image that it brought or checked.  If it fails, it has printed
 * why, and this process ends. */
int run_pull(const struct image_name *name, const struct args *args, char ret_digest[HASH_NAME + 1], struct err *err);
/* Bytes of its blobs. */
uint64_t image_size(const struct store_image *image);

/* ---- commands: an exit status, or negative ---- */

typedef int image_command(struct store *s, const struct args *args, struct err *err);
image_command cmd_load, cmd_pull, cmd_list, cmd_show, cmd_diff, cmd_remove, cmd_prune, cmd_save;
/* `cloister-image --resolve [--require REQUIRE] REF`; REQUIRE may be NULL. */
int resolve(struct store *s, const char *word, const char *require, struct err *err);

/* ---- require.c ---- */

/* Check that the image WORD has what policies require (policy_images_parse()), and fetch it if it is missing and a
 * signature is required.  RET_DIGEST: the image whose signature was checked, the only one to use, and *RET_NAME its
 * full name, the caller's; or "" and NULL. */
int require_check(struct store *s, const char *word, const char *require, char ret_digest[HASH_NAME + 1],
                  char **ret_name, struct err *err);
#endif
