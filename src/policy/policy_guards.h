/* policy_guards.h - the guards of a versioned state: what a cell's changes may be committed without a person.
 *
 * As text, which policies and cell documents have, they are lines: "protect PATH", "ask PATH", "size N", "files N",
 * "growth N", "secrets WORD", "injection WORD", "binary WORD".  A check without a line has its default.
 *
 * Pure. */
#ifndef CLOISTER_POLICY_GUARDS_H
#define CLOISTER_POLICY_GUARDS_H
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct err;

/* The stricter, the greater. */
enum policy_guard { POLICY_GUARD_ALLOW, POLICY_GUARD_FLAG, POLICY_GUARD_ASK, POLICY_GUARD_REFUSE };
extern const char *const policy_guard_words[];          /* in that order; ends with NULL */

/* What is looked for in each changed file. */
enum policy_check { POLICY_CHECK_SECRETS, POLICY_CHECK_INJECTION, POLICY_CHECK_BINARY, POLICY_CHECKS };
extern const char *const policy_check_words[];          /* in that order; ends with NULL */
enum policy_guard policy_check_default(enum policy_check check);

struct policy_guards {
	struct policy_guard_path {
		enum policy_guard guard;        /* ASK or REFUSE */
		char *glob;                     /* folded, owned */
	} *paths;
	size_t n_paths;
	uint64_t bytes, files;          /* of a commit; 0: only the state's own limits hold */
	uint64_t growth;                /* bytes that a session may add; 0: any */
	enum policy_guard checks[POLICY_CHECKS];
};

/* On success the caller owns what *ret_guards has (policy_guards_free).  -EINVAL. */
int policy_guards_read(const char *text, struct policy_guards *ret_guards, struct err *err);
void policy_guards_free(struct policy_guards *guards);  /* for OWN() too; {0} is fine */

/* The guard of PATH: of itself, or of a folder that it is in.  Names count as the same if some file system takes them for the
 * same: in another case, another form of Unicode, with characters that nobody sees, or with blanks and dots at the end. */
enum policy_guard policy_guards_path(const struct policy_guards *guards, const char *path);
/* The same for a link at PATH: also of whatever would have a guard if PATH were a folder, because the link would take its place. */
enum policy_guard policy_guards_link(const struct policy_guards *guards, const char *path);
/* The common form of all such names.  RET has room for as many bytes as TEXT. */
void policy_guards_fold(const char *text, char *ret);
#endif
