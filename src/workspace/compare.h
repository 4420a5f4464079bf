/* compare.h - compares two texts line by line, as a unified diff.
 *
 * Pure: no I/O.  Any bytes are fine.  Time grows with the square root of the number of differences,
 * so that large texts can be compared too.  For these, more lines may be shown than necessary. */
#ifndef CLOISTER_COMPARE_H
#define CLOISTER_COMPARE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPARE_CONTEXT 3               /* lines around each change */
#define COMPARE_LINES_MAX (1 << 29)     /* of a text */
#define COMPARE_SNIFF 8000              /* bytes at the start of a file that decide whether it is text */

struct compare_text {
	const char *at;                 /* borrowed */
	size_t len;
};
struct compare_count {
	uint64_t added, removed;        /* lines */
};

/* Whether a file that begins with these bytes is binary, by git's test. */
bool compare_is_binary(const char *start, size_t len);

/* TAKE gets the hunks in pieces, without the two lines that name the files.  A negative value from
 * TAKE ends it and is returned.  If TAKE is NULL, lines are only counted.  -ENOMEM or -E2BIG: too
 * large. */
int compare_texts(struct compare_text old, struct compare_text new,
                  int (*take)(void *arg, const char *data, size_t len), void *arg,
                  struct compare_count *ret_count);

/* *ret_common is the number of bytes in lines that both have, in whatever order.  -ENOMEM. */
int compare_likeness(struct compare_text a, struct compare_text b, uint64_t *ret_common);
#endif
