/* policy_loading.h - a policy while it is loaded; shared by policy_load.c and policy_load_parts.c. */
#ifndef CLOISTER_POLICY_LOADING_H
#define CLOISTER_POLICY_LOADING_H
#include "policy/policy.h"

struct err;
struct node;

struct policy_loading {
	struct policy *p;
	struct policy_limits limits;
	int dirfd;                      /* -1: no files */
	unsigned n_files;
	const struct policy_reader *reader;     /* or NULL */
	struct policy_faults *faults;   /* NULL: stop at the first error */
	struct err *err;
};

/* Record the error R.  Returns 0 if loading may continue, because the error does not affect the
 * rest. */
int policy_note_fault(struct policy_loading *l, int r);

/* Each loads the part of one file that its name gives.  Values of nearer files win. */
int policy_load_limits(struct policy_loading *l, const struct node *node);
int policy_load_exfiltration(struct policy_loading *l, const struct node *node);
/* BEFORE is the nearer files' setting for exfiltration.  If one file sets it twice, the stricter
 * one counts. */
int policy_load_tripwires(struct policy_loading *l, const struct node *node,
                          enum policy_exfiltration before);
/* A runtime goes with its file's boundary.  Either may be NULL. */
int policy_load_boundary(struct policy_loading *l, const struct node *node, const struct node *runtime);
int policy_load_images(struct policy_loading *l, const struct node *node);
/* Checks the name of the agent.  Only `cloister run` without a name uses it. */
int policy_load_run(struct policy_loading *l, const struct node *node);
int policy_load_audit(struct policy_loading *l, const struct node *node);
int policy_load_record(struct policy_loading *l, const struct node *node);
#endif
