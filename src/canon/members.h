/* members.h - collects the members of one JSON object in any order, and writes them sorted, in
 * canonical form (RFC 8785).
 *
 * Supports only the values of our records: texts, numbers up to 2^53-1, true and false, lists of
 * texts, and objects built here before.  A text is UTF-8.  Invalid UTF-8, NUL, and characters that
 * could control a terminal and have no escape become U+FFFD. */
#ifndef CLOISTER_MEMBERS_H
#define CLOISTER_MEMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define MEMBERS_MAX 40
#define MEMBERS_KEY_MAX 32
#define MEMBERS_STR_MAX 1024            /* bytes that members_str() takes */
#define MEMBERS_NUMBER_MAX ((1ULL << 53) - 1)   /* larger ones are written as this */

struct members {
	struct buf text;                /* "KEY":VALUE in the order given */
	struct member {
		uint32_t at, key_len, len;      /* in TEXT, from the opening quote on */
	} at[MEMBERS_MAX];
	size_t n;
};

void members_init(struct members *m, size_t max);
void members_free(struct members *m);   /* for OWN() too */
void members_reset(struct members *m);
/* Too much was written: the result must not be used. */
bool members_failed(const struct members *m);

/* KEY is our own text: lower case, digits, "_", unique in M.  At most MAX bytes of TEXT are used; a
 * cut text ends in "...". */
void members_text(struct members *m, const char *key, const char *text, size_t len, size_t max);
/* Adds nothing if TEXT is NULL or "". */
void members_str(struct members *m, const char *key, const char *text);
void members_u64(struct members *m, const char *key, uint64_t value);
void members_bool(struct members *m, const char *key, bool value);
void members_list(struct members *m, const char *key, const char *const *texts, size_t n,
                  size_t max);
/* VALUE must be canonical JSON. */
void members_raw(struct members *m, const char *key, const void *value, size_t len);

/* Replace all of M, which was initialised, by the first N members of FROM. */
void members_copy(struct members *m, const struct members *from, size_t n);
/* Write the members sorted, with commas between them, without braces. */
void members_put(const struct members *m, struct buf *out);
/* The same as an object. */
void members_put_object(const struct members *m, struct buf *out);

/* Append TEXT as the inside of a string, cut as above. */
void members_escape(struct buf *b, const char *text, size_t len, size_t max);

/* Whether members_put() could have written TEXT, without nested objects: for text from a process
 * that may be compromised.  *ret_type is the value of "type" in TEXT, which is required. */
bool members_check(const char *text, size_t len, const char **ret_type, size_t *ret_type_len);
/* The number of the member KEY in TEXT, which members_check() took; false: it has none. */
bool members_find_u64(const char *text, size_t len, const char *key, uint64_t *ret_value);
/* Writes TEXT, likewise, with one more member in its place.  If it has one of that name, TEXT as it is. */
void members_add_u64(struct buf *out, const char *text, size_t len, const char *key, uint64_t value);
#endif
