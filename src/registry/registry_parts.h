/* registry_parts.h - shared only by the files of the registry. */
#ifndef CLOISTER_REGISTRY_PARTS_H
#define CLOISTER_REGISTRY_PARTS_H
#include "store/db.h"
#include "registry/registry.h"
#include "store/s3.h"

#define REGISTRY_TMP_MAX 48

struct registry {
	int folder, blobs, trees, tmp;  /* descriptors of folders */
	char *path;                     /* FOLDER's */
	struct db *db;
	/* Blobs in tmp/ that do not have their names yet, and folders of blobs that may not be on
	 * the disk as a whole. */
	struct registry_staged {
		char tmp[REGISTRY_TMP_MAX];     /* "": it is in blobs/ already, and may be missing in S3 */
		unsigned char hash[HASH_LEN];
	} *staged;
	size_t n_staged;
	bool unsynced[256];
	/* NULL: the folder has all blobs.  Otherwise S3 has them, and the folder those that this machine has needed. */
	struct s3 *s3;
	bool owns_place;                /* S3 has agreed that it is this database's */
	/* Of blobs that are in S3 and were just put or touched there. */
	struct registry_marks {
		unsigned char (*at)[HASH_LEN];  /* open addressing; an all-zero entry is free */
		size_t n, cap;
	} known;
	int64_t known_since;            /* io_now_ms(), of the first of them */
};

extern const struct db_migrations registry_migrations;

/* ---- registry_note.c ---- */

/* Within a transaction: stores NOTE (NULL: none) with the change. */
int registry_note(struct registry *r, const char *note, struct err *err);

/* ---- registry_open.c ---- */

/* A unique name in tmp/. */
int registry_tmp_name(char ret_name[REGISTRY_TMP_MAX], struct err *err);
/* Opens the database STORE (NULL: db.sqlite), which may be another one than R's. */
int registry_open_db(struct registry *r, const char *store, struct db **ret_db, struct err *err);

/* ---- registry_blob.c ---- */

#define REGISTRY_BLOB_PATH_MAX (HASH_HEX + 2)
/* The path of a blob in blobs/: "ab/cdef..."; its folder is "ab". */
void registry_blob_path(const unsigned char hash[HASH_LEN], char ret_path[REGISTRY_BLOB_PATH_MAX]);
/* Marks the blob as recently used, because something is about to refer to it.  -ENOENT. */
int registry_touch_blob(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
/* Gives the blobs in tmp/ their names. */
int registry_keep_staged(struct registry *r, struct err *err);

/* ---- registry_s3.c ---- */

/* What is staged is in S3 afterwards. */
int registry_put_staged(struct registry *r, struct err *err);
/* Bring the blob into blobs/.  -ENOENT: it is not in S3; -EUCLEAN: it has another content there. */
int registry_fetch_blob(struct registry *r, const unsigned char hash[HASH_LEN], struct err *err);
/* As registry_touch_blob(), in S3. */
int registry_touch_s3(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
/* Check that S3 has the blob with its content. */
int registry_verify_s3(struct registry *r, const unsigned char hash[HASH_LEN], struct err *err);
/* Agree with S3 that the place is this database's.  -EPERM. */
int registry_own_place(struct registry *r, struct err *err);
/* Whether the blob was put or touched in S3 a short while ago. */
bool registry_is_known(struct registry *r, const unsigned char hash[HASH_LEN]);
/* Sweep S3 as registry_collect() sweeps the folder: what it removes counts. */
int registry_sweep_s3(struct registry *r, const struct registry_marks *marks, bool dry_run,
                      struct registry_collected *collected, struct err *err);

/* Opens a blob in blobs/ for s3_put_all(). */
int registry_open_put(struct registry *r, const unsigned char hash[HASH_LEN], struct s3_put *ret_put, struct err *err);

/* ---- registry_copy_rows.c ---- */

/* -EBUSY: a dispatch is not over. */
int registry_check_over(struct db *db, struct err *err);
/* -EEXIST: a table has rows. */
int registry_check_empty(struct db *db, struct err *err);
/* Within a transaction of TO: -EIO if it does not give back what was put. */
int registry_copy_rows(struct db *from, struct db *to, void (*show)(const char *what, uint64_t done, uint64_t total),
                       struct registry_copied *copied, struct err *err);

/* ---- registry_collect.c ---- */

bool registry_marks_has(const struct registry_marks *m, const unsigned char hash[HASH_LEN]);
int registry_marks_add(struct registry_marks *m, const unsigned char hash[HASH_LEN], struct err *err);
void registry_marks_free(struct registry_marks *m);     /* for OWN() too */
#endif
