/* compare.h - the lines by which two texts differ, as a unified diff shows them.
 *
 * Pure: no I/O.  Any bytes are fine.  Time grows with the square root of how much differs, so that
 * large texts are compared too; then more lines may be shown than would be necessary. */
#ifndef CLOISTER_COMPARE_H
#define CLOISTER_COMPARE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMPARE_CONTEXT 3               /* lines around each change */
#define COMPARE_LINES_MAX (1 << 29)     /* of a text */
#define COMPARE_SNIFF 8000              /* bytes at the start of a file that say what it is */

struct compare_text {
	const char *at;                 /* borrowed */
	size_t len;
};
struct compare_count {
	uint64_t added, removed;        /* lines */
};

/* Whether a file that begins with these bytes has no lines, as git decides it. */
bool compare_is_binary(const char *start, size_t len);

/* TAKE gets the hunks, in pieces, without the two lines that name the files; a negative value of
 * it ends this and is returned.  NULL: they are only counted.  -ENOMEM or -E2BIG: too large. */
int compare_texts(struct compare_text old, struct compare_text new,
                  int (*take)(void *arg, const char *data, size_t len), void *arg,
                  struct compare_count *ret_count);
#endif
