/* members.h - the members of one JSON object in canonical form (RFC 8785), written in any
 * order and put out sorted.
 *
 * Only what our records hold: texts, numbers up to 2^53-1, true and false, lists of texts,
 * and objects that were put together here before.  A text is UTF-8; what is not, NUL, and
 * what could steer a terminal and has no escape of its own, becomes U+FFFD. */
#ifndef CLOISTER_MEMBERS_H
#define CLOISTER_MEMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MEMBERS_MAX 40
#define MEMBERS_KEY_MAX 32
#define MEMBERS_STR_MAX 1024            /* of what members_str() takes */
#define MEMBERS_NUMBER_MAX ((1ULL << 53) - 1)   /* larger ones are written as this */

struct members {
	struct buf text;                /* "KEY":VALUE one after the other, as they were given */
	struct member {
		uint32_t at, key_len, len;      /* in TEXT, from its quote on */
	} at[MEMBERS_MAX];
	size_t n;
};

void members_init(struct members *m, size_t max);
void members_free(struct members *m);   /* for OWN() too */
void members_reset(struct members *m);
/* Too much was written: then nothing of it is to be used. */
bool members_failed(const struct members *m);

/* A KEY is ours: lower case, digits, "_", and no other of M's.  At most MAX bytes of TEXT are
 * taken; what is cut ends in "...". */
void members_text(struct members *m, const char *key, const char *text, size_t len, size_t max);
/* Nothing, if it is NULL or "". */
void members_str(struct members *m, const char *key, const char *text);
void members_u64(struct members *m, const char *key, uint64_t value);
void members_bool(struct members *m, const char *key, bool value);
void members_list(struct members *m, const char *key, const char *const *texts, size_t n,
                  size_t max);
/* VALUE is canonical JSON already. */
void members_raw(struct members *m, const char *key, const void *value, size_t len);

/* The first N of FROM become all of M, which was initialised. */
void members_copy(struct members *m, const struct members *from, size_t n);
/* Sorted, with commas between them and no braces around them. */
void members_put(const struct members *m, struct buf *out);
/* The same as an object. */
void members_put_object(const struct members *m, struct buf *out);

/* TEXT as the inside of a string, cut as above. */
void members_escape(struct buf *b, const char *text, size_t len, size_t max);

/* Whether TEXT is what members_put() could have written, without nested objects: for what comes
 * from a process that may have been taken over.  *ret_type is the value of "type" in TEXT, which
 * has to be there. */
bool members_check(const char *text, size_t len, const char **ret_type, size_t *ret_type_len);
#endif
