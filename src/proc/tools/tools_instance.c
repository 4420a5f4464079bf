/* tools_instance.c - one server in its cell: asks it, and takes what it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/version.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_worker.h"

static struct instance *instances[TOOLS_INSTANCES_MAX];

/* ---- asks ---- */

static void
ask_free(struct ask *a)
{
	struct ask **at = &a->instance->asks;

	loop_cancel_timer(gateway_loop, &a->late);
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	json_decref(a->params);
	free(a);
}

static void
wait_idle(struct instance *i)
{
	if (i->asks == NULL && i->step == INSTANCE_READY)
		loop_set_timer(gateway_loop, &i->idle, i->server->idle_ms);
}

static void
ask_end(struct ask *a, json_t *result, json_t *error, bool is_ours)
{
	struct instance *i = a->instance;
	ask_answered *answered = a->answered;
	void *arg = a->arg;

	ask_free(a);
	wait_idle(i);
	answered(arg, result, error, is_ours);
}

static void
ask_fail(struct ask *a, int code, const char *why)
{
	OWN(json_decrefp) json_t *error = json_pack("{s:i, s:s}", "code", code, "message", why);

	ask_end(a, NULL, error, true);
}

static void
tell_cancelled(struct ask *a, const char *reason)
{
	/* It may not have heard of it yet, and `initialize` cannot be cancelled. */
	if (a->params == NULL && a->instance->step == INSTANCE_READY)
		instance_send(a->instance, jsonrpc_notification("notifications/cancelled",
			json_pack("{s:I, s:s}", "requestId", (json_int_t)a->id, "reason", reason)));
}

void
ask_drop(struct ask *a, const char *reason)
{
	struct instance *i = a->instance;

	if (reason != NULL)
		tell_cancelled(a, reason);
	ask_free(a);
	wait_idle(i);
}

static void
ask_late(void *arg)
{
	struct ask *a = arg;
	char why[160];

	tell_cancelled(a, "timeout");
	snprintf(why, sizeof(why), "the server '%s' did not answer in time", a->instance->server->name);
	ask_fail(a, GATEWAY_FAILED, why);
}

void
ask_renew(struct ask *a, uint64_t timeout_ms)
{
	loop_set_timer(gateway_loop, &a->late, timeout_ms);
}

static void
ask_send(struct ask *a)
{
	json_t *params = TAKE(a->params);
	OWN(json_decrefp) json_t *message = json_pack("{s:s, s:I, s:s, s:o*}", "jsonrpc", "2.0", "id", (json_int_t)a->id,
	                                              "method", a->method, "params", params);
	OWN(freep) char *text = message == NULL ? NULL : jsonrpc_write(message);

	loop_set_timer(gateway_loop, &a->late, a->timeout_ms);
	if (text == NULL || !lines_put(a->instance, text))
		ask_fail(a, GATEWAY_FAILED, "the server does not read its messages");
}

/* Those that came before the server was ready. */
static void
send_waiting(void *arg)
{
	struct instance *i = arg;
	struct ask *first;

	/* In their order: the newest are first in the list.  Sending one may end others. */
	do {
		first = NULL;
		for (struct ask *a = i->asks; a != NULL && i->step == INSTANCE_READY; a = a->next)
			if (a->params != NULL)
				first = a;
		if (first != NULL)
			ask_send(first);
	} while (first != NULL);
}

struct ask *
instance_ask(struct instance *i, const char *method, json_t *params, uint64_t timeout_ms, struct call *call,
             ask_answered *answered, void *arg)
{
	struct ask *a = calloc(1, sizeof(*a));

	if (a == NULL || i->step == INSTANCE_ENDS) {
		json_decref(params);
		free(a);
		return NULL;
	}
	*a = (struct ask){ .next = i->asks, .instance = i, .id = ++i->n_asks, .method = method, .answered = answered,
	                   .params = params != NULL ? params : json_object(), .arg = arg, .call = call, .timeout_ms = timeout_ms,
	                   .late = { .due = ask_late, .arg = a } };
	i->asks = a;
	loop_cancel_timer(gateway_loop, &i->idle);
	/* Starting takes time of its own. */
	loop_set_timer(gateway_loop, &a->late, timeout_ms + (i->step == INSTANCE_READY ? 0 : GATEWAY_START_MS));
	loop_at_round_end(gateway_loop, &i->next);
	return a;
}

void
instance_send(struct instance *i, json_t *message)
{
	OWN(freep) char *text = message == NULL ? NULL : jsonrpc_write(message);

	json_decref(message);
	if (text != NULL && i->step != INSTANCE_ENDS)
		(void)lines_put(i, text);
}

bool
instance_can(const struct instance *i, const char *ability)
{
	return json_object_get(i->abilities, ability) != NULL;
}

/* ---- begin ---- */

static void
begun(void *arg, json_t *result, json_t *error, bool is_ours)
{
	struct instance *i = arg;
	const char *version = json_string_value(json_object_get(result, "protocolVersion"));

	(void)is_ours;
	if (error != NULL || version == NULL) {
		const char *why = json_string_value(json_object_get(error, "message"));

		if (why == NULL)
			why = "its answer to initialize has no version";
		gateway_record(i->server, i->cell, "failed", NULL, why);
		snprintf(i->failed, sizeof(i->failed), "%s", why);
		instance_fail(i);
		return;
	}
	i->abilities = json_incref(json_object_get(result, "capabilities"));
	i->step = INSTANCE_READY;
	instance_send(i, jsonrpc_notification("notifications/initialized", json_object()));
	if (i->session != NULL && i->session->level != NULL && instance_can(i, "logging"))
		instance_send(i, json_pack("{s:s, s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "id", "level", "method",
		                           "logging/setLevel", "params", "level", i->session->level));
	gateway_scope_rest(i);
	send_waiting(i);
	wait_idle(i);
}

/* Of what the agent's client can do, only what the protocol knows: no rule decides on the rest, which may be anything. */
static json_t *
copy_abilities(const json_t *from)
{
	static const char *const passed[][3] = { { "sampling", "context", "tools" }, { "elicitation", "form", "url" },
	                                         { "roots", "listChanged", NULL } };
	json_t *to = json_object();

	for (size_t n = 0; n < ARRAY_LEN(passed); n++) {
		const json_t *one = json_object_get(from, passed[n][0]);
		json_t *copy = one != NULL ? json_object() : NULL;

		for (size_t k = 1; k < ARRAY_LEN(passed[n]) && passed[n][k] != NULL; k++) {
			const json_t *part = json_object_get(one, passed[n][k]);

			if (part != NULL)
				(void)json_object_set_new(copy, passed[n][k], json_is_object(part) ? json_object() :
				                          json_boolean(json_is_true(part)));
		}
		if (copy != NULL)
			(void)json_object_set_new(to, passed[n][0], copy);
	}
	return to;
}

/* The server sees what the agent's client can do, and answers to it. */
static void
begin(struct instance *i)
{
	json_t *abilities = copy_abilities(i->session->abilities);
	struct ask *a;

	a = instance_ask(i, "initialize", json_pack("{s:s, s:o, s:{s:s, s:s}}", "protocolVersion", i->session->version,
	                 "capabilities", abilities, "clientInfo", "name", "cloister-tools", "version", CLOISTER_VERSION),
	                 GATEWAY_START_MS, NULL, begun, i);
	if (a != NULL)
		ask_send(a);
}

void
instance_started(unsigned number, const char *cell, int fds[3])
{
	struct instance *i = number < TOOLS_INSTANCES_MAX ? instances[number] : NULL;

	if (i == NULL || i->step != INSTANCE_STARTS)
		return;
	snprintf(i->cell, sizeof(i->cell), "%s", cell);
	i->step = INSTANCE_BEGINS;
	if (!lines_begin(i, fds))
		instance_end(i);
	else
		begin(i);
}

static void
idle_due(void *arg)
{
	instance_end(arg);
}

static int
find_number(void)
{
	for (unsigned n = 0; n < TOOLS_INSTANCES_MAX; n++)
		if (instances[n] == NULL)
			return (int)n;
	return -1;
}

/* Whose scope the cell gets, for the keeper. */
static uint32_t
tool_of(const struct call *only)
{
	if (only == NULL || only->listing != NULL)
		return TOOLS_NO_TOOL;
	if (only->locked != NULL)
		return (uint32_t)(only->locked - gateway_tools->locked);
	return gateway_tools->has_lock ? TOOLS_NO_TOOL : TOOLS_UNLOCKED;
}

struct instance *
instance_new(struct session *s, size_t index, struct call *only)
{
	OWN(buf_free) struct buf message = {0};
	struct instance *i = calloc(1, sizeof(*i));
	int number = find_number();

	if (i == NULL || number < 0) {
		free(i);
		return NULL;
	}
	*i = (struct instance){ .number = (unsigned)number, .index = index, .server = &gateway_tools->servers[index],
		.session = s, .only = only, .in = { .fd = -1 }, .out = { .fd = -1 }, .err = { .fd = -1 },
		.idle = { .due = idle_due, .arg = i }, .next = { .run = send_waiting, .arg = i } };
	instances[number] = i;
	ipc_begin(&message, TOOLS_START);
	buf_put_u32(&message, i->number);
	buf_put_u32(&message, (uint32_t)index);
	buf_put_u32(&message, tool_of(only));
	worker_send(&message);
	return i;
}

void
instance_each(const struct session *s, void (*each)(struct instance *i, void *arg), void *arg)
{
	for (unsigned n = 0; n < TOOLS_INSTANCES_MAX; n++)
		if (instances[n] != NULL && instances[n]->session == s)
			each(instances[n], arg);
}

/* ---- end ---- */

static void
fail_all(struct instance *i, const char *state, const char *why)
{
	char text[TOOLS_WHY_MAX];

	snprintf(text, sizeof(text), "the server '%s' %s: %s", i->server->name, state, why);
	reverse_drop_instance(i);
	while (i->asks != NULL) {
		tell_cancelled(i->asks, "nobody waits any more");
		ask_fail(i->asks, GATEWAY_FAILED, text);
	}
	/* They waited for their scopes. */
	call_fail_all(i, text);
}

static void
leave_session(struct instance *i)
{
	if (i->session != NULL && i->session->instances[i->index] == i)
		i->session->instances[i->index] = NULL;
}

static void
stop(struct instance *i, enum tools_stop how)
{
	OWN(buf_free) struct buf message = {0};

	if (i->step == INSTANCE_ENDS)
		return;
	i->step = INSTANCE_ENDS;
	loop_cancel_timer(gateway_loop, &i->idle);
	loop_cancel_round(gateway_loop, &i->next);
	lines_close(i);
	leave_session(i);
	ipc_begin(&message, TOOLS_STOP);
	buf_put_u32(&message, i->number);
	buf_put_u32(&message, how);
	worker_send(&message);
}

void
instance_end(struct instance *i)
{
	stop(i, TOOLS_STOP_UNUSED);
}

/* The keeper counts it, and starts no others without end. */
void
instance_fail(struct instance *i)
{
	stop(i, TOOLS_STOP_FAILED);
}

/* The keeper knows its status soon. */
void
instance_closed(struct instance *i)
{
	stop(i, TOOLS_STOP_CLOSED);
}

void
instance_ended(unsigned number, const char *why)
{
	struct instance *i = number < TOOLS_INSTANCES_MAX ? instances[number] : NULL;

	if (i == NULL)
		return;
	instances[number] = NULL;
	i->step = INSTANCE_ENDS;
	loop_cancel_timer(gateway_loop, &i->idle);
	loop_cancel_round(gateway_loop, &i->next);
	lines_close(i);
	leave_session(i);
	fail_all(i, "is gone", i->failed[0] != '\0' ? i->failed : why);
	json_decref(i->abilities);
	json_decref(i->known);
	free(i);
}

/* What waits for it ends, and so does what comes, until it goes on. */
void
instance_frozen(unsigned number, const char *why)
{
	struct instance *i = number < TOOLS_INSTANCES_MAX ? instances[number] : NULL;

	if (i == NULL || i->step == INSTANCE_ENDS)
		return;
	snprintf(i->frozen, sizeof(i->frozen), "%s", why);
	if (why[0] != '\0')
		fail_all(i, "stands still", i->frozen);
}

void
instance_held(unsigned number, const char *why)
{
	struct instance *i = number < TOOLS_INSTANCES_MAX ? instances[number] : NULL;

	if (i != NULL)
		gateway_scope_held(i, why);
}

/* ---- what it says ---- */

static struct ask *
find_ask(const struct instance *i, const json_t *id)
{
	for (struct ask *a = i->asks; a != NULL; a = a->next)
		if (json_is_integer(id) && (json_int_t)a->id == json_integer_value(id) && a->params == NULL)
			return a;
	return NULL;
}

static void
hear_answer(struct instance *i, const struct jsonrpc *m, size_t len)
{
	json_t *result = json_object_get(m->root, "result"), *error = json_object_get(m->root, "error");
	struct ask *a = find_ask(i, m->id);
	char why[160];

	if (json_is_string(m->id) && strcmp(json_string_value(m->id), "level") == 0)
		return;
	if (a == NULL) {
		gateway_record(i->server, i->cell, "stray", NULL, "it answered a question that is not open");
		return;
	}
	if (len > (a->result_max > 0 ? a->result_max : GATEWAY_MESSAGE_MAX)) {
		snprintf(why, sizeof(why), "the result of the server '%s' is longer than its `result` allows",
		         i->server->name);
		gateway_record(i->server, i->cell, "cut", a->call != NULL ? a->call->tool : NULL, "the result is too long");
		ask_fail(a, GATEWAY_FAILED, why);
	} else if (result != NULL && json_is_object(result)) {
		ask_end(a, result, NULL, false);
	} else if (json_is_object(error) && json_is_integer(json_object_get(error, "code")) &&
	           json_is_string(json_object_get(error, "message"))) {
		ask_end(a, NULL, error, false);
	} else {
		ask_fail(a, GATEWAY_FAILED, "the server's answer is neither a result nor an error");
	}
}

/* NULL: it is none. */
static json_t *
number_in(const json_t *params, const char *key)
{
	json_t *value = json_object_get(params, key);

	return json_is_number(value) ? value : NULL;
}

static void
hear_progress(struct instance *i, const struct jsonrpc *m)
{
	struct ask *a = find_ask(i, json_object_get(m->params, "progressToken"));

	if (a == NULL || a->call == NULL || a->call->token == NULL)
		return;
	(void)json_object_set(m->params, "progressToken", a->call->token);
	if (result_is_withheld(m->root))
		(void)json_object_set_new(m->root, "params", json_pack("{s:O, s:O*, s:O*}", "progressToken", a->call->token,
			"progress", number_in(m->params, "progress"), "total", number_in(m->params, "total")));
	if (!channel_send(a->call->channel, json_incref(m->root)))
		gateway_record(i->server, i->cell, "flood", NULL, "the agent does not take its notifications");
}

static void
hear_changed(struct instance *i, const struct jsonrpc *m)
{
	if (strcmp(m->method, "notifications/tools/list_changed") == 0) {
		json_decref(i->known);
		i->known = NULL;
	}
}

/* A flood is not passed on. */
static bool
is_flood(struct instance *i)
{
	uint64_t now = loop_now_ms();

	if (now - i->notes_ms >= 1000) {
		i->notes_ms = now;
		i->n_notes = 0;
	}
	if (++i->n_notes == GATEWAY_NOTES_MAX + 1)
		gateway_record(i->server, i->cell, "flood", NULL, "over 1000 notifications in a second: the rest is dropped");
	return i->n_notes > GATEWAY_NOTES_MAX;
}

/* A note that a person would have to see first passes only if it says nothing of its own. */
static bool
strip_note(const struct instance *i, const struct jsonrpc *m)
{
	static const char changed[] = "/list_changed";
	size_t len = strlen(m->method);

	if (len >= sizeof(changed) && strcmp(m->method + len - (sizeof(changed) - 1), changed) == 0) {
		(void)json_object_set_new(m->root, "params", json_object());
		return true;
	}
	gateway_record(i->server, i->cell, "withheld", NULL, m->method);
	return false;
}

static void
hear_note(struct instance *i, const struct jsonrpc *m)
{
	static const char *const passed[] = { "notifications/message", "notifications/resources/updated",
		"notifications/resources/list_changed", "notifications/tools/list_changed",
		"notifications/prompts/list_changed", "notifications/elicitation/complete" };

	if (is_flood(i) || i->session == NULL)
		return;
	if (strcmp(m->method, "notifications/progress") == 0) {
		hear_progress(i, m);
		return;
	}
	if (strcmp(m->method, "notifications/cancelled") == 0) {
		reverse_cancel(i, json_object_get(m->params, "requestId"),
		               json_string_value(json_object_get(m->params, "reason")));
		return;
	}
	hear_changed(i, m);
	names_mark(i->server, m->params, "uri", '/');
	if (result_is_withheld(m->root) && !strip_note(i, m))
		return;
	for (size_t n = 0; n < ARRAY_LEN(passed); n++)
		if (strcmp(m->method, passed[n]) == 0)
			gateway_session_tell(i->session, i, json_incref(m->root));
}

static void
hear_broken(struct instance *i, const char *text, size_t len, json_t *error)
{
	char why[200];
	const char *what = json_string_value(json_object_get(json_object_get(error, "error"), "message"));

	snprintf(why, sizeof(why), "%s: %.*s", what != NULL ? what : "no message", (int)(len < 80 ? len : 80), text);
	gateway_record(i->server, i->cell, "broken", NULL, why);
	if (++i->n_broken >= GATEWAY_BROKEN_MAX)
		instance_fail(i);
}

void
instance_hear(struct instance *i, const char *text, size_t len)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	OWN(json_decrefp) json_t *error = NULL;

	if (len > 0 && text[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	if (jsonrpc_read_big(text, len, &m, &error) < 0) {
		hear_broken(i, text, len, error);
		return;
	}
	switch (m.kind) {
	case JSONRPC_RESPONSE:
		hear_answer(i, &m, len);
		return;
	case JSONRPC_NOTIFICATION:
		hear_note(i, &m);
		return;
	default:
		reverse_ask(i, &m);
	}
}

/* Whose answer it was, is at one of its ends. */
static struct ask *
find_cut(const struct instance *i, const char *text)
{
	const char *at = strstr(text, "\"id\":");
	json_int_t id = at == NULL ? 0 : strtoll(at + 5, NULL, 10);

	for (struct ask *a = i->asks; a != NULL; a = a->next)
		if (id > 0 && (json_int_t)a->id == id)
			return a;
	return NULL;
}

void
instance_hear_cut(struct instance *i, const char *head, const char *tail)
{
	struct ask *a = find_cut(i, tail);
	char why[160];

	if (a == NULL)
		a = find_cut(i, head);
	if (a == NULL && i->asks != NULL && i->asks->next == NULL)
		a = i->asks;
	gateway_record(i->server, i->cell, "cut", a != NULL && a->call != NULL ? a->call->tool : NULL,
	               "a message is too long");
	snprintf(why, sizeof(why), "the result of the server '%s' is longer than its `result` allows", i->server->name);
	if (a != NULL)
		ask_fail(a, GATEWAY_FAILED, why);
}

void
instance_hear_error(struct instance *i, const char *text, size_t len)
{
	char line[1001];

	snprintf(line, sizeof(line), "%.*s", (int)len, text);
	gateway_record(i->server, i->cell, "stderr", NULL, line);
}
