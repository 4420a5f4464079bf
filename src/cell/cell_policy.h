/* cell_policy.h - the policy of a running cell: what it is, and another one in its place. */
#ifndef CLOISTER_CELL_POLICY_H
#define CLOISTER_CELL_POLICY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/hash.h"
#include "cell/cell_steer.h"

struct err;
struct policy;

/* As CONTROL_GET_POLICY gives it. */
struct cell_policy_now {
	char hash[HASH_NAME + 1];       /* of all layers, as the timeline names it */
	uint64_t times;                 /* that it was set since the cell was started */
	struct policy *policy;          /* with its layers */
	char *text;                     /* of the first: YAML that includes nothing */
	size_t len;
	uint64_t *counts;               /* how often each rule decided */
	size_t n_counts;                /* as many as there are rules, of all layers */
};
int cell_policy_get(int socket, struct cell_policy_now *ret_now, struct err *err);
void cell_policy_now_free(struct cell_policy_now *now);         /* for OWN() too */

/* Memory files for a cell: counts of N rules, sealed in size; and sealed TEXT. */
int cell_policy_counts(const uint64_t *counts, size_t n, struct err *err);
int cell_policy_seal(const char *name, const void *data, size_t len, struct err *err);

/* POLICY, with its layers and bound to whom it is for, takes the place of NOW.  TEXT is that of
 * its first layer. */
int cell_policy_put(int socket, const struct cell_policy_now *now, const struct policy *policy,
                    const char *text, size_t len, bool cut, const struct cell_steer_who *who,
                    char ret_hash[HASH_NAME + 1], struct err *err);
#endif
