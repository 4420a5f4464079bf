/* s3.h - blobs in S3, through cloister-blobs: starts it, asks it, and believes it no content.
 *
 * Everything here blocks.  A handle belongs to one thread. */
#ifndef CLOISTER_STORE_S3_H
#define CLOISTER_STORE_S3_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "store/s3_xml.h"

struct err;
struct s3;                              /* opaque */

#define S3_WORKERS 8                    /* processes of one handle, when many blobs are put */

/* The place that CLOISTER_BLOBS names.  *ret_s3 is NULL if it is not set.  Starts nothing yet. */
int s3_open(struct s3 **ret_s3, struct err *err);
void s3_close(struct s3 *s);            /* NULL is fine */
OWN_BY(s3_closep, struct s3 *, s3_close)
/* "s3://BUCKET/PREFIX" */
const char *s3_place_text(const struct s3 *s);
/* How long a request may move nothing: the place's `timeout`. */
unsigned s3_stall_s(const struct s3 *s);

/* Put N blobs, several at a time.  GIVE opens the I-th: its hash, its size and a descriptor, which is closed afterwards. */
struct s3_put {
	unsigned char hash[HASH_LEN];
	uint64_t size;
	int fd;
};
int s3_put_all(struct s3 *s, size_t n, int (*give)(void *arg, size_t i, struct s3_put *ret_put, struct err *err), void *arg,
               struct err *err);
/* Write it to FD, an empty file.  The caller checks its hash.  -ENOENT. */
int s3_get(struct s3 *s, const unsigned char hash[HASH_LEN], int fd, struct err *err);
/* Something is about to refer to it: it will not be collected soon.  -ENOENT. */
int s3_touch(struct s3 *s, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
/* Move it to the trash.  -EBUSY: somebody has put it again. */
int s3_remove(struct s3 *s, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err);
/* Remove it from the trash; with PUT_BACK, it is among the blobs then. */
int s3_purge(struct s3 *s, const unsigned char hash[HASH_LEN], bool put_back, struct err *err);
/* Whether the place belongs to the database ID, which it does from now on if it is nobody's.  -EPERM. */
int s3_own(struct s3 *s, const unsigned char id[HASH_LEN], struct err *err);
/* A page of the blobs or of the TRASH, in their order, behind AFTER (NULL: from the first).  *RET_NOW: the server's time. */
int s3_list(struct s3 *s, bool trash, const unsigned char *after, struct s3_page *ret_page, int64_t *ret_now,
            struct err *err);
#endif
