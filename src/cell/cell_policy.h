/* cell_policy.h - reads and replaces the policy of a running cell.
 *
 * Only the cell's own policy can change.  The policies around it (run --within, and those of the
 * agent that dispatched it) stay, and so do its principal and chain. */
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

#define CELL_POLICY_LIVE "live policy"   /* the file name in places of a text that was never a file */
#define CELL_POLICY_TRIES 8             /* attempts to add a rule while others change the policy too */

/* The answer to CONTROL_GET_POLICY. */
struct cell_policy_now {
	char hash[HASH_NAME + 1];       /* over all layers, as in the timeline */
	uint64_t times;                 /* how often it was set since the cell's start */
	char *principal, *chain;
	struct policy *policy;          /* with its layers */
	char *text;                     /* the first layer's: YAML that names no files */
	size_t len;
	uint64_t *counts;               /* how often each rule decided */
	size_t n_counts;                /* the number of rules in all layers */
};
int cell_policy_get(int runtime, const struct cell_entry *entry, struct cell_policy_now *ret_now,
                    struct err *err);
void cell_policy_now_free(struct cell_policy_now *now);         /* for OWN() too */
/* Append its text, with each rule's count in a comment behind it, "# hits: 3". */
void cell_policy_annotate(struct buf *b, const struct cell_policy_now *now);

/* {"hash", "times", "text", "rules": [{"n", "layer", "verb", "text", "place", "hits", "reason"}]} */
void cell_policy_json(struct json *w, const struct cell_policy_now *now);

/* A rule's position in words: "live policy, line 9"; a position in a file stays as it is. */
#define CELL_POLICY_PLACE 512
char *cell_policy_place(char text[CELL_POLICY_PLACE], const char *place);

/* Create memory files for a cell: counts of N rules (NULL: all 0), sealed in size; and fully sealed
 * data. */
int cell_policy_counts(const uint64_t *counts, size_t n, struct err *err);
int cell_policy_seal(const char *name, const void *data, size_t len, struct err *err);

/* Whether the KEY of a policy is settled when a cell starts. */
bool cell_policy_is_fixed(const char *key);

/* A planned change.  Nothing has changed yet. */
struct cell_policy_plan {
	struct cell_policy_now now;     /* the current policy */
	struct policy *policy;          /* the new policy, with its layers */
	char *text;                     /* the new policy's own text */
	size_t len;
	char *diff;                     /* from lines_diff(); "": nothing would change */
};
void cell_policy_plan_free(struct cell_policy_plan *plan);      /* for OWN() too */

/* Plan to replace the cell's own policy by TEXT, which names no files.  NAME is its name in places
 * (NULL: CELL_POLICY_LIVE).  `limits`, `secrets`, `exfiltration` and `audit` are fixed when a cell
 * starts: if TEXT leaves them out they stay, and changing them is an error.  FAULTS may be NULL. */
int cell_policy_plan_text(int runtime, const struct cell_entry *entry, const char *name,
                          const char *text, size_t len, struct policy_faults *faults,
                          struct cell_policy_plan *ret_plan, struct err *err);
/* Plan to put RULE in front: a short form as for `run --allow`, or a map in one line, such as
 * "{allow: api.example.com, methods: [GET]}".  VERB is VERB_ALLOW or VERB_DENY.  If the rule is in
 * front already, nothing changes. */
int cell_policy_plan_rule(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                          const char *rule, struct cell_policy_plan *ret_plan, struct err *err);
/* Carry the plan out.  CUT: cut off requests in flight that it refuses.  VERB is VERB_POLICY,
 * VERB_ALLOW or VERB_DENY; RULE is the added rule or "", for the timeline.  -ESTALE: the policy has changed
 * since, so plan again. */
struct cell_policy_order {
	bool cut;
	enum steer_verb verb;
	const char *rule;
	struct cell_steer_who who;
};
int cell_policy_carry_out(int runtime, const struct cell_entry *entry,
                          const struct cell_policy_plan *plan, const struct cell_policy_order *order,
                          char ret_hash[HASH_NAME + 1], struct err *err);
/* Plan a rule and carry it out, and try again if somebody else was first.  *RET_PLAN is the plan
 * carried out.  A plan that changes nothing is carried out only with CUT. */
int cell_policy_add_rule(int runtime, const struct cell_entry *entry, enum steer_verb verb,
                         const char *rule, bool cut, const struct cell_steer_who *who,
                         struct cell_policy_plan *ret_plan, char ret_hash[HASH_NAME + 1],
                         struct err *err);
#endif
