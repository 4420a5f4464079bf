/* audit_verifier.h - shared by the parts of `cloister audit verify`. */
#ifndef CLOISTER_AUDIT_VERIFIER_H
#define CLOISTER_AUDIT_VERIFIER_H
#include "base/json.h"
#include "proc/audit/audit_proc.h"

struct audit_verifier {
	const struct audit_args *args;
	struct audit_cells cells;
	int operator;                   /* folder, or -1 */
	const char *untied;             /* why cells may be missing there; NULL: they are not */
	bool *there;                    /* by a cell's index in CELLS, which stays when these are
	                                 * read again: its own timeline was found */
	size_t n_there;
	/* From operator's timelines among the files that were given: */
	struct audit_cells given;
	uint64_t given_through;         /* in the current one: the last signed record */
	bool is_given, is_given_bad;
	const char *name;               /* of the current cell, or NULL */
	struct json out;
	unsigned found, timelines, old;         /* OLD: recorded before records were chained */
	unsigned trees, bad_trees;              /* capabilities' folders; those that were changed */
};

/* Prints the finding, or that there is none.  DIR: the folder of its files, or -1 if that is gone too. */
void audit_tell(struct audit_verifier *v, const struct audit_check *check, int dir, const char *state);

/* audit_files.c: files given on the command line. */

/* Whether its first record is the operator's. */
bool audit_is_operators(const char *path);
/* Verifies a proof, or exported timelines, one after the other.  IS_OPERATORS: the result of the
 * function above; then its records about cells apply to later files. */
int audit_verify_file(struct audit_verifier *v, const char *path, bool is_operators, struct err *err);

/* audit_trees.c: reports every folder of a capability that is not what was registered. */
int audit_verify_trees(struct audit_verifier *v, struct err *err);
#endif
