/* policy_loading.h - a policy while it is loaded; shared by policy_load.c and policy_load_parts.c. */
#ifndef CLOISTER_POLICY_LOADING_H
#define CLOISTER_POLICY_LOADING_H
#include <sys/types.h>

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

/* A text that policies are loaded from. */
struct policy_load_source {
	const char *name;               /* the path, or "preset:NAME": for errors */
	const char *shown;              /* its name in places, without the machine's folders */
	const char *text;
	size_t len;
	const struct node *root;        /* in place of TEXT */
	dev_t dev;
	ino_t ino;
	const struct policy_load_source *from;      /* the source that names it */
	unsigned depth;
};

/* ---- policy_load_files.c ---- */

/* Read the file SOURCE->name of at most MAX bytes, if only the operator could have written it. */
int policy_load_read(struct policy_loading *l, struct policy_load_source *source, off_t max, char **ret_text);
/* Ask the reader whether the file PATH, which NODE names, may be read. */
int policy_load_may_read(struct policy_loading *l, const struct node *node, const char *path);
/* PATH relative to the folder of FILE; NULL: out of memory. */
const char *policy_load_beside(struct policy_loading *l, const char *file, const char *path);
const char *policy_load_last_part(const char *path);

/* ---- policy_load_tools.c ---- */

int policy_load_tools(struct policy_loading *l, const struct policy_load_source *source, const struct node *node);

/* ---- policy_load_parts.c ---- */

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
int policy_load_states(struct policy_loading *l, const struct node *node);
int policy_load_volumes(struct policy_loading *l, const struct node *node);
int policy_load_caches(struct policy_loading *l, const struct node *node);
/* Checks the name of the agent.  Only `cloister run` without a name uses it. */
int policy_load_run(struct policy_loading *l, const struct node *node);
int policy_load_audit(struct policy_loading *l, const struct node *node);
int policy_load_record(struct policy_loading *l, const struct node *node);
#endif
