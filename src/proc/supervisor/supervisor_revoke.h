/* supervisor_revoke.h - the names of a cell's secrets, and which were revoked or replaced.
 *
 * The supervisor never reads their values. */
#ifndef CLOISTER_SUPERVISOR_REVOKE_H
#define CLOISTER_SUPERVISOR_REVOKE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/cell_spec.h"

struct client;
struct ipc_message;
struct steer_call;
struct supervisor;

#define REVOKED_WHY_MAX 159

/* In the order of spec.secrets. */
struct cell_secrets {
	struct {
		bool revoked, quiet;    /* QUIET: the refusal looks as if it came from the service */
		char why[REVOKED_WHY_MAX + 1];  /* shown to the agent */
		bool rotated;
		int value;              /* with ROTATED: a memory file that the courier reads */
		uint64_t used, used_before;     /* by this courier; by those before it */
	} at[CELL_SECRETS_MAX];
};

/* CONTROL_REVOKE and what follows it. */
int supervisor_answer_revoke(struct client *client, struct steer_call *call);
int supervisor_answer_rotate(struct client *client, struct steer_call *call);
int supervisor_answer_secrets(struct client *client, struct steer_call *call);
int supervisor_answer_ttl(struct client *client, struct steer_call *call);
/* COURIER_USED. */
int supervisor_secrets_used(struct supervisor *sv, struct ipc_message *message);
/* The number of the secret NAME; false: the cell has none. */
bool supervisor_find_secret(const struct supervisor *sv, const char *name, size_t *ret_at);
/* For supervisor_courier_start.c: what a new courier gets. */
int supervisor_secrets_tell(struct supervisor *sv);
void supervisor_secrets_close(struct supervisor *sv);
#endif
