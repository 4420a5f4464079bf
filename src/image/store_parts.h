/* store_parts.h - what the files of the store share. */
#ifndef CLOISTER_IMAGE_STORE_PARTS_H
#define CLOISTER_IMAGE_STORE_PARTS_H
#include "image/store.h"

#define STORE_LOCK "lock"
#define STORE_ADDING "adding"
#define STORE_INDEX "index.json"
#define STORE_NEW ".new-"               /* begins the name of what is not whole yet, or is being removed */
#define STORE_MADE "made"               /* a folder, made when it is needed */
#define STORE_SWEEP_WAIT_MS 500         /* for a process that is about to be done with the store */

struct store {
	char *path;
	int top, blobs, layers, uses, parts;    /* descriptors of folders */
};

/* The 64 digits of a digest, which must be one. */
const char *store_hex(const char *digest);
/* A new name that begins with STORE_NEW. */
int store_new_name(char ret_name[STORE_NEW_MAX], struct err *err);
/* Take the lock HOW (LOCK_SH, LOCK_EX, LOCK_NB) on the file NAME: a descriptor, or negative. */
int store_lock(const struct store *s, const char *name, int how, struct err *err);
/* The image in the entry HEX of STORE_MADE; false if it is malformed. */
bool store_made_digest(const struct store *s, const char *hex, char ret_digest[HASH_NAME + 1]);
/* Write index.json.  The caller holds STORE_LOCK. */
int store_write_index(struct store *s, const struct image_index *index, struct err *err);
#endif
