/* audit_verifier.h - shared by the parts of `cloister audit verify`. */
#ifndef CLOISTER_AUDIT_VERIFIER_H
#define CLOISTER_AUDIT_VERIFIER_H
#include "base/json.h"
#include "proc/audit/audit_proc.h"
#include "state/state.h"

/* The programs that dispatches ran, from the operator's timeline: "HASH FILE", each once. */
#define AUDIT_PROGRAMS_MAX 4096
struct audit_programs {
	char *lines[AUDIT_PROGRAMS_MAX];
	size_t n;
	bool has_more;                  /* than these */
	char *store;                    /* the path of the store of images; NULL: there is no data folder */
};

/* Where each branch and tag of a versioned state is, as the operator's timeline has it. */
#define AUDIT_STATE_REFS_MAX 100000
struct audit_states {
	struct audit_state_ref {
		char state[STATE_NAME_MAX], ref[STATE_REF_MAX], commit[STATE_ID + 1];   /* "": removed */
	} *at;
	size_t n;
	bool has_more;                  /* than these */
	bool is_whole;                  /* the timeline still has its first record */
};

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
	struct audit_programs programs;
	struct audit_states states;
	unsigned bad_states;                    /* refs that are not where they were recorded */
	unsigned bad_programs;                  /* of the store, and changed */
	unsigned lost_programs;                 /* replaced or removed, so that their hashes cannot be computed again */
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

/* audit_states.c: reports every ref of a state that is not where its last record has it. */
int audit_verify_states(struct audit_verifier *v, struct err *err);
int audit_states_note(void *arg, const struct audit_record *record);
void audit_states_free(struct audit_states *s);
/* Reads them from the operator's timeline again. */
int audit_see_states(struct audit_verifier *v);

/* audit_programs.c: reports every program of a dispatch that is another one by now. */
int audit_verify_programs(struct audit_verifier *v, struct err *err);
void audit_programs_begin(struct audit_programs *p);
/* For struct audit_seen: collects them; ARG is a struct audit_programs. */
int audit_programs_note(void *arg, const struct audit_record *record, const char *line, size_t len);
void audit_programs_free(struct audit_programs *p);
#endif
