/* store.h - keeps images in DATA/images: a valid OCI image layout, its layers unpacked, and who uses them.
 *
 *     oci-layout, index.json, blobs/sha256/HEX    as the OCI image specification says; a descriptor of
 *                                                 index.json has a full name as its annotation, or none
 *     layers/HEX/fs/                              the tree of the layer with the diff id HEX
 *     uses/HEX                                    an empty file; a running cell of the manifest HEX holds
 *                                                 a shared lock on it
 *     parts/HEX                                   a blob that is not whole yet
 *     signatures/HEX                              the signatures of a manifest or index
 *     made/HEX                                    which image was made of a file
 *     lock, adding                                locks: for index.json, and for adding against sweeping
 *
 * Everything that others can see appears by rename, whole.  A process that is killed leaves parts and
 * layers/.new-*, which store_sweep() removes.
 *
 * To add an image: store_adding(), its blobs, store_set() with its manifest, and close what
 * store_adding() returned.  Until then nothing of it is swept.
 *
 * A digest is a text "sha256:HEX" (canon/hash.h). */
#ifndef CLOISTER_IMAGE_STORE_H
#define CLOISTER_IMAGE_STORE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "image/manifest.h"

struct err;
struct store;                           /* opaque */
struct store_blob;                      /* a blob that is being written; opaque */

#define STORE_FOLDER "images"           /* in the data folder */
#define STORE_IMAGES_MAX IMAGE_INDEX_MAX
#define STORE_LAYER_FS "fs"             /* the tree, in a layer's folder */
#define STORE_SIGNATURES "signatures"   /* a folder of the store's, made when it is needed */

/* Open the store.  Without MAKE, -ENOENT if there is none yet. */
int store_open(bool make, struct store **ret_store, struct err *err);
void store_close(struct store *s);      /* NULL is fine */
OWN_BY(store_closep, struct store *, store_close)
/* Its absolute path, and its descriptor; both stay the store's. */
const char *store_path(const struct store *s);
int store_folder(const struct store *s);
/* In that folder: the steps of builds, each a small JSON file with the `digest` of its layer. */
#define STORE_BUILDS "builds"

/* While the returned descriptor is open, nothing is swept.  Waits for a sweep that runs. */
int store_adding(struct store *s, struct err *err);

/* ---- blobs ---- */

bool store_has_blob(const struct store *s, const char *digest);
/* Open it for reading: a descriptor; -ENOENT if it is missing. */
int store_open_blob(const struct store *s, const char *digest, uint64_t *ret_size, struct err *err);
/* A document, checked against its digest; the caller owns *ret_text, which ends with a NUL. */
int store_read_blob(const struct store *s, const char *digest, size_t max, char **ret_text,
                    size_t *ret_len, struct err *err);

#define STORE_SIZE_ANY UINT64_MAX
/* Begin a blob of SIZE bytes (STORE_SIZE_ANY: up to IMAGE_BLOB_MAX).  DIGEST may be NULL: then the blob gets
 * the name of what was written.  If an earlier attempt at DIGEST was suspended, its bytes are kept, and
 * store_blob_offset() of them are there.  -EBUSY: another process writes it. */
int store_blob_begin(struct store *s, const char *digest, uint64_t size, struct store_blob **ret_blob,
                     struct err *err);
uint64_t store_blob_offset(const struct store_blob *b);
/* Forget the bytes that are there, for a server that begins anew. */
int store_blob_restart(struct store_blob *b, struct err *err);
int store_blob_write(struct store_blob *b, const void *data, size_t len, struct err *err);
/* Check size and digest, sync, and put it in its place.  RET_DIGEST may be NULL.  B is freed, whatever the
 * result; if it is wrong, nothing is stored. */
int store_blob_finish(struct store_blob *b, char ret_digest[HASH_NAME + 1], struct err *err);
/* Drop what was written; NULL is fine. */
void store_blob_abort(struct store_blob *b);
OWN_BY(store_blob_abortp, struct store_blob *, store_blob_abort)
/* Keep what was written for the next attempt. */
void store_blob_suspend(struct store_blob *b);
/* Make the file FD a blob without copying it; it must be on the store's file system, and nobody else may be able
 * to write it.  DIGEST may be NULL.  -EBADMSG: it has another digest or size. */
int store_adopt_blob(struct store *s, int fd, const char *digest, uint64_t size, char ret_digest[HASH_NAME + 1],
                     struct err *err);
/* All of a small blob at once. */
int store_put_blob(struct store *s, const void *data, size_t len, char ret_digest[HASH_NAME + 1],
                   struct err *err);

/* ---- images ---- */

/* index.json: one descriptor per name; see manifest.h.  Free it with image_index_free(). */
int store_list(const struct store *s, struct image_index *ret_index, struct err *err);
/* The manifest of the full name NAME, or of a digest; -ENOENT.  The caller frees it with
 * store_found_free(). */
int store_find(const struct store *s, const char *name, struct image_descriptor *ret_found,
               struct err *err);
void store_found_free(struct image_descriptor *found);          /* for OWN() too */
/* Give DESCRIPTOR its name, or list it without one (name NULL).  An image that had the name stays without it.
 * The manifest, its configuration and its layers must be in the store. */
int store_set(struct store *s, const struct image_descriptor *descriptor, struct err *err);
/* Take the name NAME away; the image stays without a name unless another has it.  -ENOENT. */
int store_unset(struct store *s, const char *name, struct err *err);
/* Drop all names of the manifest DIGEST and the image itself; -EBUSY if a cell runs it, -ENOENT.
 * Its blobs and layers go with the next store_sweep(). */
int store_drop(struct store *s, const char *digest, struct err *err);

/* The manifest and configuration of the image DIGEST, checked. */
struct store_image {
	char digest[HASH_NAME + 1];
	struct image_manifest manifest;
	struct image_config config;
};
int store_load(const struct store *s, const char *digest, struct store_image *ret_image, struct err *err);
void store_image_free(struct store_image *image);               /* for OWN() too */

/* ---- layers ---- */

bool store_has_layer(const struct store *s, const char *diff_id);
/* The absolute path of its tree, whether it exists or not; the caller owns it.  NULL: out of memory. */
char *store_layer_path(const struct store *s, const char *diff_id);
#define STORE_NEW_MAX 32
struct store_layer {
	char name[STORE_NEW_MAX];       /* in layers/ */
	int fs;                         /* its empty tree: a descriptor of the layer's */
};
int store_layer_begin(struct store *s, struct store_layer *ret_layer, struct err *err);
/* Sync it and give it its name; if another process was first, that one's stays. */
int store_layer_finish(struct store *s, struct store_layer *layer, const char *diff_id, struct err *err);
void store_layer_abort(struct store *s, struct store_layer *layer);

/* ---- images of files ---- */

/* A file as it is now, read as KIND. */
struct store_key {
	char hex[HASH_HEX + 1];
};
int store_made_key(const char *kind, const char *path, struct store_key *ret_key);
/* The image that was made of it and still is in the store, under the name that it got then; -ENOENT.  Free it with
 * store_found_free(). */
int store_made_find(const struct store *s, const struct store_key *key, struct image_descriptor *ret_found);
/* NAME may be NULL.  A note that cannot be written only costs time. */
void store_made_note(const struct store *s, const struct store_key *key, const char *digest, const char *name);

/* ---- use and removal ---- */

/* Hold the image DIGEST: while *ret_fd is open, in any process, it is not removed.  Then check with
 * store_has_layer() that its layers are still there. */
int store_use(struct store *s, const char *digest, int *ret_fd, struct err *err);
/* Whether a cell runs it. */
bool store_is_used(const struct store *s, const char *digest);

struct store_swept {
	uint64_t blobs, layers, leftovers;      /* how many were removed */
	uint64_t bytes;                         /* of blobs and parts */
};
/* Remove blobs, layers and signatures of no image, and what killed processes left.  With UNNAMED, also images without
 * a name that no cell runs.  PROGRESS (NULL: none) gets the bytes so far, now and then.  -EBUSY: an image is being
 * added now. */
int store_sweep(struct store *s, bool unnamed, void (*progress)(uint64_t bytes), struct store_swept *ret_swept,
                struct err *err);
#endif
