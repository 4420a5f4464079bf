/* git_refs.h - parses git's text files of refs, without running git.
 *
 * Pure.  An agent may have written any of it: anything that differs from git's own format is
 * refused. */
#ifndef CLOISTER_GIT_REFS_H
#define CLOISTER_GIT_REFS_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define GIT_REF_MAX 1024                /* bytes of a name or a value of a ref, with the NUL */

/* Whether NAME is valid for a ref: "HEAD", or beneath "refs/" and valid by git-check-ref-format(1). */
bool git_ref_is_name(const char *name);

/* Parse a ref's own file: an object's id in hex, or "ref: " and the name of another ref.
 * *ret_value is the id or that name; untouched if it is neither. */
bool git_ref_parse(const char *text, size_t len, char ret_value[GIT_REF_MAX]);

/* The file packed-refs.  Names and ids point into TEXT. */
struct git_packed {
	char *text;
	struct git_packed_ref {
		const char *name, *id;
	} *refs;                        /* sorted by the bytes of their names */
	size_t n;
};
/* Takes ownership of TEXT (LEN bytes and a NUL), even on failure.  -EINVAL: it is not in git's
 * format. */
int git_packed_parse(char *text, size_t len, struct git_packed *ret_packed, struct err *err);
void git_packed_free(struct git_packed *packed);        /* for OWN() too */
const char *git_packed_find(const struct git_packed *packed, const char *name);     /* or NULL */

/* The number of lines at the end of a ref's log that lead from the id OLD (NULL: none) to NEW; 0 if
 * they do not. */
size_t git_log_steps(const char *text, size_t len, const char *old, const char *new);
#endif
