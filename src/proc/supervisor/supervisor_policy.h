/* supervisor_policy.h - the policy of a running cell: handed out, and replaced. */
#ifndef CLOISTER_SUPERVISOR_POLICY_H
#define CLOISTER_SUPERVISOR_POLICY_H
#include <stdbool.h>
#include <stdint.h>

#include "canon/hash.h"

struct client;
struct ipc_message;
struct supervisor;

/* Memory files, whose content is not the supervisor's to understand. */
struct cell_policy {
	int policy;                     /* policy_put() */
	int text;                       /* the same for people: YAML that includes nothing */
	int counts;                     /* a u64 for each rule; the courier counts in it */
	uint64_t times;                 /* that it was set */
	bool narrowed;                  /* once at least, as far as can be told */
	bool changing;                  /* another one is on its way to the courier */
	char hash[HASH_NAME + 1];       /* of POLICY; "" until it is asked for */
};

const char *supervisor_policy_hash(struct supervisor *sv);
/* CONTROL_SET_POLICY and CONTROL_GET_POLICY. */
int supervisor_answer_set_policy(struct client *client, struct ipc_message *message);
int supervisor_answer_get_policy(struct client *client, struct ipc_message *message);
/* For supervisor_steer.c: what a courier gets that is started. */
int supervisor_policy_tell(struct supervisor *sv);
#endif
