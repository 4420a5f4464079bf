/* policy_flat.h - a policy as one text that names no files: what was read, written down again.
 *
 * Filled by a policy_reader's `rule` and `part` while a policy is loaded.  What the texts of two
 * policies have in common is written alike, whatever their files look like. */
#ifndef CLOISTER_POLICY_FLAT_H
#define CLOISTER_POLICY_FLAT_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct err;
struct node;
struct policy;
struct policy_faults;

#define POLICY_FLAT_PARTS_MAX 32
#define POLICY_FLAT_MAX (4 * 1024 * 1024)

struct policy_flat_part {
	char *key;
	struct buf text;                /* its value; of a list or a map that is merged, what is in it */
	struct buf loose;               /* of `limits`, what is the courier's to keep: it can be changed
	                                 * while a cell runs */
	bool is_list, is_map;           /* it is merged */
};

struct policy_flat {
	struct buf rules;               /* items of `egress` */
	struct policy_flat_part parts[POLICY_FLAT_PARTS_MAX];
	size_t n_parts;
	struct buf seen;                /* names of what is merged: "limits memory\n" */
};

void policy_flat_init(struct policy_flat *f);
void policy_flat_free(struct policy_flat *f);           /* for OWN() too */
/* For a policy_reader's `rule` and `part`. */
int policy_flat_rule(struct policy_flat *f, const struct node *rule, struct err *err);
int policy_flat_part(struct policy_flat *f, const struct node *key, const struct node *value,
                     struct err *err);
/* A rule that is one line of YAML: "{allow: 'a.example'}". */
int policy_flat_line(struct policy_flat *f, const char *line, struct err *err);
/* What stands for KEY, or NULL. */
const struct policy_flat_part *policy_flat_find(const struct policy_flat *f, const char *key);
/* Its value, as it is written down. */
void policy_flat_put_part(struct buf *b, const struct policy_flat_part *part);
/* A part of FROM takes the place of what F has; of one that has only what is loose, the rest. */
int policy_flat_take(struct policy_flat *f, const struct policy_flat *from, const char *key,
                     struct err *err);

/* All of it as YAML. */
void policy_flat_put(struct buf *b, const struct policy_flat *f);

/* TEXT, which names no files, read into F, and the policy that it is; NAME is what places call
 * it.  Rules that nothing is left for are no error: what was put in front of them later took it.
 * FAULTS may be NULL, as may RET_POLICY. */
int policy_flat_load(struct policy_flat *f, const char *name, const char *text, size_t len,
                     struct policy_faults *faults, struct policy **ret_policy, struct err *err);

/* NODE on one line. */
void policy_flat_put_node(struct buf *b, const struct node *node);
#endif
