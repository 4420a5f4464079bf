/* supervisor_approvals_list.c - shows approvals to clients, and each change to those that follow. */
#include <errno.h>
#include <stdbool.h>

#include "base/own.h"
#include "proc/supervisor/supervisor.h"

/* The approval that changed first after SEEN. */
static struct approval *
next_change(struct supervisor *sv, uint64_t seen)
{
	struct approval *next = NULL;

	for (struct approval *a = sv->approvals.first; a != NULL; a = a->next)
		if (a->change > seen && (next == NULL || a->change < next->change))
			next = a;
	return next;
}

/* False if the client has seen every change. */
static bool
show_next(struct client *client)
{
	struct approval *a = next_change(client->sv, client->seen);
	OWN(buf_free) struct buf answer, json;

	ipc_begin(&answer, CONTROL_APPROVAL);
	buf_init(&json, IPC_MESSAGE_MAX);
	if (a == NULL)
		return false;
	approval_json(a, &json);
	buf_put(&json, "", 1);
	buf_put_u64(&answer, a->change);
	buf_put_str(&answer, buf_failed(&json) ? "{}" : (char *)json.data);
	supervisor_client_send(client, &answer, NULL, 0);
	client->follows = false;
	return true;
}

int
supervisor_answer_approvals(struct client *client, struct steer_call *call)
{
	OWN(buf_free) struct buf answer = {0};
	uint64_t wait = call->q.n[1];

	if (wait > 1)
		return -EBADMSG;
	client->seen = call->q.n[0];
	client->follows = wait == 1;
	ipc_begin(&answer, CONTROL_DONE);
	if (!show_next(client) && wait == 0)
		supervisor_client_send(client, &answer, NULL, 0);
	return 0;
}

void
supervisor_tell_approvals(struct supervisor *sv)
{
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->request == CONTROL_APPROVALS && c->follows)
			(void)show_next(c);
}
