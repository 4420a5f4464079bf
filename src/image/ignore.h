/* ignore.h - the patterns of a .dockerignore, and of sources in COPY.
 *
 * Pure.  A path is relative, without "." and "..".  "*" and "?" match within one part of a path, "**" matches any
 * number of parts, "[a-z]" matches one character, and "\" quotes one. */
#ifndef CLOISTER_IGNORE_H
#define CLOISTER_IGNORE_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define IGNORE_FILE_MAX (256u << 10)    /* bytes */
#define IGNORE_PATTERNS_MAX 4096
#define IGNORE_STEPS_MAX 100000         /* of one match: a pattern may come from a stranger */

struct ignore {
	struct ignore_pattern {
		char *text;
		bool except;            /* "!": what matches is in again */
	} *list;
	size_t n;
};

/* Parse the lines of TEXT.  The caller frees *ret_ignore. */
int ignore_parse(const char *text, size_t len, struct ignore *ret_ignore, struct err *err);
void ignore_free(struct ignore *ignore);        /* for OWN() too */
/* Whether PATH, or a folder that it is in, is left out.  The last pattern that matches decides. */
bool ignore_is_out(const struct ignore *ignore, const char *path);
/* Whether something beneath the folder PATH, which is left out, could be in again. */
bool ignore_may_return(const struct ignore *ignore, const char *path);

bool ignore_is_pattern(const char *text);       /* it has "*", "?" or "[" */
bool ignore_match(const char *pattern, const char *path);
#endif
