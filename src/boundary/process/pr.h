/* pr.h - the parts of the boundary without namespaces: see process.c. */
#ifndef CLOISTER_PR_H
#define CLOISTER_PR_H
#include <stdbool.h>
#include <sys/types.h>

#include "boundary/boundary.h"
#include "boundary/findings.h"

struct err;
struct walls;

#define PR_NAME "cloister-porter"       /* what its process is called */
/* The cell's own folder has its home, its temporary files and its certificates. */
#define PR_FOLDER_MAX 64

const char *pr_folder(const char *id, char path[PR_FOLDER_MAX]);

struct pr_plan {
	const struct cell_spec *spec;
	const struct boundary_ground *ground;
	char folder[PR_FOLDER_MAX], home[PR_FOLDER_MAX + 8], tmp[PR_FOLDER_MAX + 8], etc[PR_FOLDER_MAX + 8];
	bool has_own_uid;               /* the cell's user is nobody else's */
	uid_t uid;
	/* The porter's ends of its channels, and init's; -1: none. */
	int control, channel, gate, dns;
	int init_exe;
};

/* pr_files.c: makes the folder, and what is in it; and the rulesets of the agent and of the porter. */
int pr_make_folder(const struct pr_plan *plan, struct err *err);
int pr_make_rulesets(const struct pr_plan *plan, int *ret_agents, int *ret_porters, struct err *err);
/* Paths that the agent may change; ends with NULL. */
void pr_list_writable(const struct pr_plan *plan, const char **ret_list);
/* boundary.settle() */
int pr_settle(const char *id, char ***env, char **cwd, struct err *err);

/* pr_child.c: the porter, and within it the cell's first process.  Never returns. */
_Noreturn void pr_child_run(const struct pr_plan *plan);

/* pr_examine.c */
bool pr_has_own_uid(void);
int pr_able(bool emulated, struct err *err);
void pr_examine(struct findings *f);
int pr_check(const struct cell_spec *spec, struct err *err);
#endif
