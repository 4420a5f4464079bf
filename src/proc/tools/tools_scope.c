/* tools_scope.c - with a lock: which scopes a server's cell is held to, for the worker.
 *
 * A call waits until its scope is in force.  Calls that overlap get the scopes of all of them together. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_worker.h"

static uint32_t
number_of(const struct call *c)
{
	return (uint32_t)(c->locked - gateway_tools->locked);
}

/* Hold I to the scopes of all calls that it works for.  The keeper is asked for one thing at a time, so that neither
 * has to wait for the other to read, however many calls there are. */
static void
hold(struct instance *i)
{
	uint32_t tools[TOOLS_HOLD_MAX], n = 0;
	OWN(buf_free) struct buf message = {0};

	i->holds_again = i->n_holds > i->n_held;
	if (i->holds_again)
		return;
	for (const struct call *c = i->session->calls; c != NULL && n < TOOLS_HOLD_MAX; c = c->next)
		if (c->instance == i && c->hold > 0)
			tools[n++] = number_of(c);
	if (n > 1)
		gateway_record(i->server, i->cell, "held", NULL, "calls overlap: the scopes of all of them hold together");
	ipc_begin(&message, TOOLS_HOLD);
	buf_put_u32(&message, i->number);
	buf_put_u32(&message, n);
	for (uint32_t k = 0; k < n; k++)
		buf_put_u32(&message, tools[k]);
	worker_send(&message);
	i->n_holds++;
}

/* A cell of one call is held from its start, and a server elsewhere does not work in its cell. */
static bool
is_held(const struct instance *i)
{
	return gateway_tools->has_lock && !i->server->per_call && i->server->url == NULL;
}

void
gateway_scope_rest(struct instance *i)
{
	if (is_held(i) && i->session != NULL && i->step == INSTANCE_READY)
		hold(i);
}

bool
gateway_scope_begin(struct call *c)
{
	if (c->locked == NULL || !is_held(c->instance))
		return false;
	c->hold = c->instance->n_holds + 1;
	hold(c->instance);
	return true;
}

void
gateway_scope_end(struct call *c)
{
	if (c->hold == 0)
		return;
	c->hold = 0;
	if (c->instance->step == INSTANCE_READY && c->instance->session != NULL)
		hold(c->instance);
}

void
gateway_scope_held(struct instance *i, const char *why)
{
	struct call *c, *next;

	i->n_held++;
	for (c = i->session != NULL ? i->session->calls : NULL; c != NULL; c = next) {
		next = c->next;
		if (c->instance != i || c->hold != i->n_held)
			continue;
		if (why[0] != '\0')
			call_error(c, GATEWAY_FAILED, "the scope of the tool could not be put in force: %s", why);
		else
			call_tool(c);
	}
	if (i->holds_again && i->session != NULL && i->step == INSTANCE_READY)
		hold(i);
}
