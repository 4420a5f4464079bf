/* tools_result.c - results that a person sees before the agent does: `results: ask` and `injection: ask`.
 *
 * A result waits here, and the server's work is done.  Other text of a server's, such as its log, cannot wait: where
 * a person would have to see it, the agent does not get it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "inspect/body_shape.h"
#include "inspect/injection.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_worker.h"

#define LATE_MS (60 * 1000)             /* longer than the supervisor's own timeout */
#define KINDS_MAX 200

static struct call *waiting[TOOLS_ASKS_MAX];
static uint64_t n_questions;

/* ---- what has to be asked about ---- */

/* What in TEXT looks like instructions to the model; "": nothing. */
static void
find_kinds(const char *text, char ret_kinds[KINDS_MAX])
{
	struct injection in = {0};
	size_t len = 0;

	ret_kinds[0] = '\0';
	injection_feed(&in, text, strlen(text));
	for (size_t k = 0; k < injection_n_kinds; k++)
		if ((in.found >> k & 1) != 0 && len < KINDS_MAX)
			len += (size_t)snprintf(ret_kinds + len, KINDS_MAX - len, "%s%s", len > 0 ? ", " : "", injection_kinds[k]);
}

/* A cell that learns has no rules yet. */
static bool
asks_about(const char *text, char ret_kinds[KINDS_MAX])
{
	ret_kinds[0] = '\0';
	if (gateway_policy == NULL)
		return false;
	if (gateway_tools->injection != POLICY_INJECTION_OFF)
		find_kinds(text, ret_kinds);
	return gateway_tools->ask_results || (gateway_tools->injection == POLICY_INJECTION_ASK && ret_kinds[0] != '\0');
}

static bool
may_ask(void)
{
	return gateway_policy != NULL && (gateway_tools->ask_results || gateway_tools->injection == POLICY_INJECTION_ASK);
}

bool
result_is_withheld(const json_t *one)
{
	OWN(freep) char *text = may_ask() ? jsonrpc_write(one) : NULL;
	char kinds[KINDS_MAX];

	return may_ask() && (text == NULL || asks_about(text, kinds));
}

bool
result_is_suspect(const json_t *one)
{
	OWN(freep) char *text = NULL;
	char kinds[KINDS_MAX];

	if (gateway_policy == NULL || gateway_tools->injection != POLICY_INJECTION_ASK)
		return false;
	text = jsonrpc_write(one);
	if (text != NULL)
		find_kinds(text, kinds);
	return text == NULL || kinds[0] != '\0';
}

/* ---- the question ---- */

static void
withhold(struct call *c, const char *why)
{
	gateway_record(c->server, NULL, "withheld", c->tool, why);
	call_error(c, GATEWAY_FAILED, "the result is withheld: %s", why);
}

static void
late(void *arg)
{
	withhold(arg, "nobody answered whether the agent may see it");
}

static size_t
find_room(void)
{
	size_t i = 0;

	while (i < ARRAY_LEN(waiting) && waiting[i] != NULL)
		i++;
	return i;
}

/* The server has done its work, and another call may have it. */
static void
release(struct call *c)
{
	struct instance *only = c->instance != NULL && c->instance->only == c ? c->instance : NULL;

	gateway_scope_end(c);
	c->instance = NULL;
	if (only != NULL)
		instance_end(only);
}

static void
ask(struct call *c, const char *text, const char *kinds)
{
	OWN(buf_free) struct buf message = {0};
	char shape[INSPECT_SHAPE_MAX];

	body_shape_result(text, strlen(text), shape);
	c->question = ++n_questions;
	loop_prepare_timer(&c->late, late, c);
	loop_set_timer(gateway_loop, &c->late, gateway_tools->ask_ms + LATE_MS);
	ipc_begin(&message, TOOLS_ASK);
	buf_put_u64(&message, c->question);
	buf_put_u32(&message, (uint32_t)(c->server - gateway_tools->servers));
	buf_put_str(&message, c->of);
	buf_put_str(&message, kinds);
	buf_put_u64(&message, strlen(text));
	buf_put_str(&message, shape);
	worker_send(&message);
}

/* What a person sees of MESSAGE: its result, or its error. */
static char *
shown(const json_t *message)
{
	const json_t *result = json_object_get(message, "result");

	return jsonrpc_write(result != NULL ? result : json_object_get(message, "error"));
}

void
result_give(struct call *c, json_t *message)
{
	OWN(freep) char *text = message != NULL && may_ask() ? shown(message) : NULL;
	char kinds[KINDS_MAX] = "";
	size_t room = find_room();

	if (!may_ask() || (text != NULL && !asks_about(text, kinds))) {
		call_finish(c, message);
		return;
	}
	c->held = message;
	release(c);
	if (text == NULL) {
		withhold(c, "out of memory");
	} else if (strlen(c->of) > TOOLS_OF_MAX) {
		withhold(c, "a person has to approve it, and its name is too long to be shown");
	} else if (room == ARRAY_LEN(waiting)) {
		withhold(c, "too many results wait for approval already");
	} else {
		waiting[room] = c;
		ask(c, text, kinds);
	}
}

/* ---- the answer ---- */

static bool
forget(struct call *c)
{
	loop_cancel_timer(gateway_loop, &c->late);
	for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
		if (waiting[i] == c) {
			waiting[i] = NULL;
			return true;
		}
	return false;
}

void
result_drop(struct call *c)
{
	OWN(buf_free) struct buf message = {0};

	json_decref(TAKE(c->held));
	if (c->question == 0 || !forget(c))
		return;
	ipc_begin(&message, TOOLS_WITHDRAW);
	buf_put_u64(&message, c->question);
	worker_send(&message);
}

void
result_answered(uint64_t number, bool yes, const char *why)
{
	struct call *c = NULL;

	for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
		if (waiting[i] != NULL && waiting[i]->question == number)
			c = waiting[i];
	/* It was withdrawn in between. */
	if (c == NULL)
		return;
	(void)forget(c);
	if (yes)
		call_finish(c, TAKE(c->held));
	else
		withhold(c, why);
}
