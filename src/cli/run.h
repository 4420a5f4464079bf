/* run.h - the parts of `cloister run`. */
#ifndef CLOISTER_CLI_RUN_H
#define CLOISTER_CLI_RUN_H
#include "cell/cell_spec.h"

struct err;

struct run {
	struct cell_spec spec;
	enum { RUN_TTY_AUTO, RUN_TTY_YES, RUN_TTY_NO } tty;
	bool has_workspace;
	char **given;                   /* -e NAME=VALUE, in order */
	size_t n_given;
};
void run_free(struct run *run);         /* for OWN() too */

/* run_grants.c */
int run_add_workspace(struct run *run, const char *text, struct err *err);
int run_add_volume(struct run *run, const char *text, struct err *err);

/* run_env.c */
int run_add_env(struct run *run, const char *text, struct err *err);
/* The agent's whole environment: the documented few, and what -e gave. */
int run_finish_env(struct run *run, struct err *err);
#endif
