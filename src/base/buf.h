/* buf.h - a byte buffer with a hard maximum, and the fields of our messages.
 *
 * A buf grows up to its max and then fails.  A failed put sticks (buf_failed), so a message is
 * written field by field and checked once.  Reading never goes past the end: a get that finds too
 * few bytes returns -EBADMSG.  Numbers are little-endian; a string is u32 length, bytes, NUL. */
#ifndef CLOISTER_BUF_H
#define CLOISTER_BUF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct buf {
	unsigned char *data;
	size_t len, cap, max;
	size_t pos;                 /* read position */
	bool borrowed, failed;
	bool wipes;                 /* memory is wiped before it is freed or reused: for secrets */
	size_t high;                /* the most bytes in it since the last wipe */
};

/* An empty buffer; BUF_SECRET wipes itself, for secrets. */
#define BUF(bytes) ((struct buf){ .max = (bytes) })
#define BUF_SECRET(bytes) ((struct buf){ .max = (bytes), .wipes = true })
void buf_init(struct buf *b, size_t max);
void buf_init_secret(struct buf *b, size_t max);
/* Read from DATA, which stays the caller's and must outlive B. */
void buf_init_borrowed(struct buf *b, const void *data, size_t len);
void buf_free(struct buf *b);       /* for OWN() too */
void buf_reset(struct buf *b);      /* empty again, keeps the memory */
bool buf_failed(const struct buf *b);

void buf_put(struct buf *b, const void *data, size_t len);
/* LEN more bytes at the end, for the caller to fill in; NULL if it fails. */
unsigned char *buf_add(struct buf *b, size_t len);
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_str(struct buf *b, const char *s);
/* The bytes of TEXT alone; a number in decimal digits. */
void buf_put_text(struct buf *b, const char *text);
void buf_put_decimal(struct buf *b, uint64_t n);
/* A NULL-terminated list of strings. */
void buf_put_strv(struct buf *b, char *const *v);

size_t buf_left(const struct buf *b);   /* bytes not read yet */
int buf_get_u32(struct buf *b, uint32_t *ret_v);
int buf_get_u64(struct buf *b, uint64_t *ret_v);
/* Points into the buffer; the string has no NUL inside it. */
int buf_get_str(struct buf *b, const char **ret_s);
/* As buf_get_str, copied; the caller owns *ret_s. */
int buf_dup_str(struct buf *b, char **ret_s);
/* At most MAX strings; the caller owns *ret_v (strv_free). */
int buf_dup_strv(struct buf *b, size_t max, char ***ret_v);

void strv_free(char **v);               /* NULL is fine */
OWN_BY(strv_freep, char **, strv_free)
size_t strv_len(char *const *v);
#endif
