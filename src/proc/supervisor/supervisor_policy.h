/* supervisor_policy.h - the policy of a running cell: handed out, and replaced. */
#ifndef CLOISTER_SUPERVISOR_POLICY_H
#define CLOISTER_SUPERVISOR_POLICY_H
#include <stdbool.h>
#include <stdint.h>

#include "canon/hash.h"

struct client;
struct steer_call;
struct supervisor;

/* Memory files.  The supervisor does not parse their content. */
struct cell_policy {
	int policy;                     /* policy_put() */
	int text;                       /* the same for people: YAML without includes */
	int counts;                     /* a u64 for each rule; the courier counts in it */
	uint64_t times;                 /* how often it was replaced */
	bool narrowed;                  /* a replacement may have taken rights away, at least once */
	bool changing;                  /* the courier has yet to confirm the next one */
	char hash[HASH_NAME + 1];       /* of POLICY; "" until it is first needed */
};

/* supervisor_policy_hash.c: the first fills in P->hash; the second answers the cell's own. */
void cell_policy_hash(struct cell_policy *p);
const char *supervisor_policy_hash(struct supervisor *sv);
/* CONTROL_SET_POLICY and CONTROL_GET_POLICY. */
int supervisor_answer_set_policy(struct client *client, struct steer_call *call);
int supervisor_answer_get_policy(struct client *client, struct steer_call *call);
/* For supervisor_courier_start.c: what a new courier gets. */
int supervisor_policy_tell(struct supervisor *sv);
#endif
