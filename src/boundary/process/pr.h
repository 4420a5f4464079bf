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
/* The cell's own folder has its home, its temporary files and its certificates; and those of a dispatch what it was
 * given (CAPABILITIES), and its result (OUT), which stays until the supervisor has collected it. */
#define PR_FOLDER_MAX 64
#define PR_CA "ca.crt"                  /* in etc/ */
#define PR_BUNDLE "ca-certificates.crt"
#define PR_WGETRC "wgetrc"              /* wget has no variable for certificates */
#define PR_OUT "out"
#define PR_CAPABILITIES "capabilities"

const char *pr_folder(const char *id, char path[PR_FOLDER_MAX]);

struct pr_plan {
	const struct cell_spec *spec;
	const struct boundary_ground *ground;
	char folder[PR_FOLDER_MAX], home[PR_FOLDER_MAX + 8], tmp[PR_FOLDER_MAX + 8], etc[PR_FOLDER_MAX + 8];
	char capabilities[PR_FOLDER_MAX + sizeof(PR_CAPABILITIES)], out[PR_FOLDER_MAX + sizeof(PR_OUT)];
	bool has_own_uid;               /* the cell's user is nobody else's */
	uid_t uid;
	/* The porter's ends of its channels, and init's; -1: none. */
	int control, channel, gate, dns;
	int init_exe;
};

/* pr_files.c: makes the folder, and what is in it; and the rulesets of the agent and of the porter. */
int pr_make_folder(const struct pr_plan *plan, struct walls *w, struct err *err);
int pr_make_rulesets(const struct pr_plan *plan, int *ret_agents, int *ret_porters, struct err *err);
/* Paths that the agent may change; ends with NULL. */
void pr_list_writable(const struct pr_plan *plan, const char **ret_list);
/* pr_places.c: boundary.settle() */
int pr_settle(const char *id, char **argv, char ***env, char **cwd, struct err *err);

/* pr_child.c: the porter, and within it the cell's first process.  Never returns. */
_Noreturn void pr_child_run(const struct pr_plan *plan);

/* What a dispatch is given, beneath DIR, which is the cell's folder. */
int pr_make_places(const struct pr_plan *plan, int dir, uid_t uid, struct walls *w, struct err *err);
bool pr_is_capability(const struct cell_grant *grant);
bool pr_is_out(const struct cell_grant *grant);

/* pr_examine.c */
bool pr_has_own_uid(void);
int pr_able(bool emulated, struct err *err);
void pr_examine(struct findings *f);
int pr_check(const struct cell_spec *spec, struct err *err);
/* Refuses grants that show one of the folders HIDDEN, which are cloister's own. */
int pr_check_hidden(const struct cell_spec *spec, const char *const *hidden, struct err *err);
#endif
