/* policy_flat.h - writes a loaded policy out as one text that names no files.
 *
 * A policy_reader's `rule` and `part` callbacks fill it while the policy is loaded.  Equal parts of
 * two policies are written identically, whatever their files look like. */
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
	struct buf text;                /* its value; for a merged list or map, the members */
	struct buf loose;               /* members of `limits` that the courier enforces; they can
	                                 * change while a cell runs */
	bool is_list, is_map;           /* merged from several files */
};

struct policy_flat {
	struct buf rules;               /* items of `egress` */
	struct policy_flat_part parts[POLICY_FLAT_PARTS_MAX];
	size_t n_parts;
	struct buf seen;                /* names already merged: "limits memory\n" */
};

void policy_flat_init(struct policy_flat *f);
void policy_flat_free(struct policy_flat *f);           /* for OWN() too */
/* The policy_reader's `rule` and `part` callbacks. */
int policy_flat_rule(struct policy_flat *f, const struct node *rule, struct err *err);
int policy_flat_part(struct policy_flat *f, const struct node *key, const struct node *value,
                     struct err *err);
/* Add a rule that is one line of YAML: "{allow: 'a.example'}". */
int policy_flat_line(struct policy_flat *f, const char *line, struct err *err);
/* The part called KEY, or NULL. */
const struct policy_flat_part *policy_flat_find(const struct policy_flat *f, const char *key);
/* Append the part's value as text. */
void policy_flat_put_part(struct buf *b, const struct policy_flat_part *part);
/* Replace F's part KEY by FROM's.  F keeps its own LOOSE members, if it has any. */
int policy_flat_take(struct policy_flat *f, const struct policy_flat *from, const char *key,
                     struct err *err);

/* Append the whole policy as YAML. */
void policy_flat_put(struct buf *b, const struct policy_flat *f);

/* Parse TEXT, which names no files, into F and *ret_policy.  Places use NAME for the file.  It may
 * have any hooks: a caller that puts *ret_policy into force checks them.  Covered
 * rules are not an error: a rule inserted in front of them later may cover them.  FAULTS and
 * RET_POLICY may be NULL. */
int policy_flat_load(struct policy_flat *f, const char *name, const char *text, size_t len,
                     struct policy_faults *faults, struct policy **ret_policy, struct err *err);

/* Append NODE on one line. */
void policy_flat_put_node(struct buf *b, const struct node *node);
#endif
