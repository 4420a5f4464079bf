/* policy_loading.h - a policy while it is loaded: between policy_load.c and policy_load_parts.c. */
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
	struct policy_faults *faults;   /* NULL: the first one ends it */
	struct err *err;
};

/* Whether to go on after R: what is wrong was noted, and says nothing about the rest. */
int policy_note_fault(struct policy_loading *l, int r);

/* Each is the part of one file that its name says.  The nearer file has said so first. */
int policy_load_limits(struct policy_loading *l, const struct node *node);
int policy_load_exfiltration(struct policy_loading *l, const struct node *node);
/* BEFORE is what nearer files say of exfiltration; of one file, which may say so twice, the
 * stricter counts. */
int policy_load_tripwires(struct policy_loading *l, const struct node *node,
                          enum policy_exfiltration before);
int policy_load_audit(struct policy_loading *l, const struct node *node);
#endif
