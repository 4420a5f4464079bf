/* state.h - shared by the verbs of `cloister state`. */
#ifndef CLOISTER_CLI_STATE_H
#define CLOISTER_CLI_STATE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "state/state.h"

struct state_words {
	char **words;                   /* behind the verb */
	int n;
	bool json, remove, bundle, yes, names;
	const char *branch;             /* NULL: STATE_MAIN */
	const char *ref;                /* of a repository to import */
	uint64_t limit;                 /* of commits to print */
	struct state_limits limits;     /* 0: not given */
};

/* Each returns an exit status, or negative with ERR. */
typedef int state_verb(const struct state_words *words, struct err *err);
state_verb state_do_create, state_do_import, state_do_export, state_do_remove, state_do_tag, state_do_branch, state_do_rollback,
	state_do_merge, state_do_signers, state_do_list, state_do_show, state_do_log, state_do_verify, state_do_files, state_do_cat,
	state_do_diff, state_do_checkpoint, state_do_review, state_do_accept, state_do_refuse, state_do_drift, state_do_limit;

#define STATE_PATHS_MAX 1002            /* words of a verb that takes paths */

/* state_print.c */

/* Text of an agent's, on standard output. */
void state_print(const char *text);
/* A commit that was made, in words or as JSON. */
void state_print_committed(const struct state_words *words, const struct state_committed *c, const char *done);
/* Its files that are not committed, each on a line. */
void state_print_refused(FILE *out, const struct state_committed *c);
/* The name of the user, for records and messages. */
void state_person(char ret_name[STATE_TEXT_MAX]);
/* Prints the differences between two commits, escaped for a terminal. */
int state_print_diffs(struct state *state, const char *old, const char *new, bool names, struct err *err);
/* The commit that WORDS[I] names, or the branch's head. */
int state_word(struct state *state, const struct state_words *words, int i, char ret_commit[STATE_ID + 1], struct err *err);
#endif
