/* git_refs.h - what git's own text files say of refs, without asking git.
 *
 * Pure.  An agent may have written any of it: what is not exactly as git writes it is refused. */
#ifndef CLOISTER_GIT_REFS_H
#define CLOISTER_GIT_REFS_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define GIT_REF_MAX 1024                /* bytes of a name, or of what a ref is, with the NUL */

/* Whether NAME can be that of a ref: "HEAD", or beneath "refs/" and as git-check-ref-format(1) has it. */
bool git_ref_is_name(const char *name);

/* The text of a ref's own file: an object's id in hex, or "ref: " and the name of another ref.
 * *ret_value is the id, or that name; untouched if it is neither. */
bool git_ref_parse(const char *text, size_t len, char ret_value[GIT_REF_MAX]);

/* The file packed-refs.  Names and ids point into TEXT. */
struct git_packed {
	char *text;
	struct git_packed_ref {
		const char *name, *id;
	} *refs;                        /* by the bytes of their names */
	size_t n;
};
/* TEXT (LEN bytes and a NUL) is taken over, whatever comes of it.  -EINVAL: it is not as git writes it. */
int git_packed_parse(char *text, size_t len, struct git_packed *ret_packed, struct err *err);
void git_packed_free(struct git_packed *packed);        /* for OWN() too */
const char *git_packed_find(const struct git_packed *packed, const char *name);     /* or NULL */

/* How many lines at the end of a ref's log lead from the id OLD (NULL: there was none) to NEW; 0 if
 * they do not. */
size_t git_log_steps(const char *text, size_t len, const char *old, const char *new);
#endif
