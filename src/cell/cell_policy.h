/* cell_policy.h - the policy of a running cell: what it is, and another one in its place.
 *
 * What can be changed is the cell's own policy: those that it lies within (run --within, and what
 * an agent that dispatched it is held to) stay around it, and whom it is for stays who it is. */
#ifndef CLOISTER_CELL_POLICY_H
#define CLOISTER_CELL_POLICY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/hash.h"
#include "cell/cell_dirs.h"
#include "cell/cell_steer.h"

struct err;
struct json;
struct policy;
struct policy_faults;

#define CELL_POLICY_LIVE "live policy"   /* what places in a text that was never a file are called */
#define CELL_POLICY_TRIES 8             /* of a rule, while others change the policy too */

/* As CONTROL_GET_POLICY gives it. */
struct cell_policy_now {
	char hash[HASH_NAME + 1];       /* of all layers, as the timeline names it */
	uint64_t times;                 /* that it was set since the cell was started */
	char *principal, *chain;
	struct policy *policy;          /* with its layers */
	char *text;                     /* of the first: YAML that names no files */
	size_t len;
	uint64_t *counts;               /* how often each rule decided */
	size_t n_counts;                /* as many as there are rules, of all layers */
};
int cell_policy_get(int runtime, const struct cell_entry *entry, struct cell_policy_now *ret_now,
                    struct err *err);
void cell_policy_now_free(struct cell_policy_now *now);         /* for OWN() too */
/* Its text, with what each rule of it counted in a comment behind it, "# hits: 3". */
void cell_policy_annotate(struct buf *b, const struct cell_policy_now *now);

/* {"hash", "times", "text", "rules": [{"n", "layer", "verb", "text", "place", "hits", "reason"}]} */
void cell_policy_json(struct json *w, const struct cell_policy_now *now);

/* Where a rule stands, in words: "live policy, line 9"; what is in a file is called as it was. */
#define CELL_POLICY_PLACE 512
char *cell_policy_place(char text[CELL_POLICY_PLACE], const char *place);

/* Memory files for a cell: counts of N rules (NULL: all 0), sealed in size; and what is sealed
 * altogether. */
int cell_policy_counts(const uint64_t *counts, size_t n, struct err *err);
int cell_policy_seal(const char *name, const void *data, size_t len, struct err *err);

/* What would be changed.  Nothing has been. */
struct cell_policy_plan {
	struct cell_policy_now now;     /* what it was */
	struct policy *policy;          /* what it would be, with its layers */
	char *text;                     /* its own text */
	size_t len;
	char *diff;                     /* as lines_diff() gives it; "": nothing would change */
};
void cell_policy_plan_free(struct cell_policy_plan *plan);      /* for OWN() too */

/* TEXT, which names no files, in place of the cell's own policy; NAME is what places in it are
 * called (NULL: CELL_POLICY_LIVE).  `limits`, `secrets`, `exfiltration` and `audit` are settled
 * when a cell starts: left out they stay, and changed they are an error.  FAULTS may be NULL. */
int cell_policy_plan_text(int runtime, const struct cell_entry *entry, const char *name,
                          const char *text, size_t len, struct policy_faults *faults,
                          struct cell_policy_plan *ret_plan, struct err *err);
/* RULE in front of it: a short form as for `run --allow`, or a map in one line, such as
 * "{allow: api.example.com, methods: [GET]}".  VERB is "allow" or "deny".  A rule that stands in
 * front already leaves all as it is. */
int cell_policy_plan_rule(int runtime, const struct cell_entry *entry, const char *verb,
                          const char *rule, struct cell_policy_plan *ret_plan, struct err *err);
/* Carry it out.  CUT: what is under way and would be refused is cut off.  DID is "policy", "allow"
 * or "deny", RULE what was put in front or "", both for the record.  -ESTALE: somebody else was
 * first, so that it has to be planned again. */
struct cell_policy_order {
	bool cut;
	const char *did, *rule;
	struct cell_steer_who who;
};
int cell_policy_carry_out(int runtime, const struct cell_entry *entry,
                          const struct cell_policy_plan *plan, const struct cell_policy_order *order,
                          char ret_hash[HASH_NAME + 1], struct err *err);
/* Plan a rule and carry it out, again if somebody else was first.  *RET_PLAN is what was done; one
 * that leaves all as it is is carried out only with CUT. */
int cell_policy_add_rule(int runtime, const struct cell_entry *entry, const char *verb,
                         const char *rule, bool cut, const struct cell_steer_who *who,
                         struct cell_policy_plan *ret_plan, char ret_hash[HASH_NAME + 1],
                         struct err *err);
#endif
