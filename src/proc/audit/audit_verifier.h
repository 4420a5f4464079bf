/* audit_verifier.h - what the parts of `cloister audit verify` share. */
#ifndef CLOISTER_AUDIT_VERIFIER_H
#define CLOISTER_AUDIT_VERIFIER_H
#include "base/json.h"
#include "proc/audit/audit_proc.h"

struct audit_verifier {
	const struct audit_args *args;
	struct audit_cells cells;
	int operator;                   /* folder, or -1 */
	const char *untied;             /* why cells may not be known from there; NULL: they are */
	bool *there;                    /* by a cell's number in CELLS, which it keeps when these are
	                                 * read again: its own timeline was found */
	size_t n_there;
	/* From operator's timelines among the files that were given: */
	struct audit_cells given;
	uint64_t given_through;         /* of the one being read: the last record that is signed */
	bool is_given, is_given_bad;
	const char *name;               /* of the cell that is told of, or NULL */
	struct json out;
	unsigned found, timelines, old;         /* OLD: recorded before records were chained */
	unsigned trees, bad_trees;              /* capabilities' folders, and those that were changed */
};

/* Tell what was found, or that nothing was.  DIR: where its files are, or -1 if that is gone too. */
void audit_tell(struct audit_verifier *v, const struct audit_check *check, int dir, const char *state);

/* audit_files.c: files that somebody was given. */

/* Whether the first record in it is the operator's. */
bool audit_is_operators(const char *path);
/* A proof, or exported timelines, one behind the other.  IS_OPERATORS: as that tells; what it says of
 * cells is for the files that come later. */
int audit_verify_file(struct audit_verifier *v, const char *path, bool is_operators, struct err *err);

/* audit_trees.c: tells of every folder of a capability that is not what was registered. */
int audit_verify_trees(struct audit_verifier *v, struct err *err);
#endif
