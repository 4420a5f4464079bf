/* tools_call.c - the requests and notifications of the agent. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "base/version.h"
#include "proc/tools/tools_worker.h"
#include "tools/definition.h"
#include "tools/scope_hold.h"

/* ---- answers ---- */

void
call_free(struct call *c)
{
	struct call **at = &c->session->calls;
	struct instance *only = c->instance != NULL && c->instance->only == c ? c->instance : NULL;

	if (c->ask != NULL)
		ask_drop(c->ask, "the client has gone");
	result_drop(c);
	gateway_scope_end(c);
	if (c->listing != NULL)
		tools_listing_free(c->listing);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->session->n_calls--;
	if (only != NULL)
		instance_end(only);
	json_decref(c->id);
	json_decref(c->token);
	json_decref(c->params);
	free(c->of);
	free(c->tool);
	free(c);
}

void
call_finish(struct call *c, json_t *message)
{
	struct channel *channel = c->channel;

	c->ask = NULL;
	call_free(c);
	channel_finish(channel, message);
}

void
call_result(struct call *c, json_t *result)
{
	call_finish(c, jsonrpc_result(c->id, result));
}

void
call_error(struct call *c, int code, const char *fmt, ...)
{
	OWN(freep) char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	call_finish(c, jsonrpc_error(c->id, code, "%s", text != NULL ? text : "out of memory"));
}

void
call_fail_all(const struct instance *i, const char *why)
{
	struct call *c, *next;

	for (c = i->session != NULL ? i->session->calls : NULL; c != NULL; c = next) {
		next = c->next;
		if (c->instance == i)
			call_error(c, GATEWAY_FAILED, "%s", why);
	}
}

/* No rule decides on the client's reason, so it is not passed on. */
void
call_cancel(struct call *c)
{
	struct channel *channel = c->channel;

	if (c->ask != NULL)
		ask_drop(TAKE(c->ask), "cancelled by the client");
	call_free(c);
	/* No answer is due, but an HTTP request needs one. */
	channel_finish(channel, NULL);
}

struct call *
call_find(const struct session *s, const json_t *id)
{
	for (struct call *c = s->calls; c != NULL; c = c->next)
		if (json_equal(c->id, id))
			return c;
	return NULL;
}

/* ---- one server ---- */

static void
answered(void *arg, json_t *result, json_t *error, bool is_ours)
{
	struct call *c = arg;

	c->ask = NULL;
	if (result != NULL) {
		names_mark_result(c->instance->server, result);
		result_give(c, jsonrpc_result(c->id, json_incref(result)));
	} else {
		json_t *message = json_pack("{s:s, s:O, s:O}", "jsonrpc", "2.0", "id", c->id, "error", error);

		if (is_ours)
			call_finish(c, message);
		else
			result_give(c, message);
	}
}

uint64_t
call_time(const struct call *c)
{
	uint64_t most = c->instance->server->timeout_ms, time = c->locked != NULL ? scope_hold_time(c->locked) : 0;

	return time > 0 && time < most ? time : most;
}

/* Takes ownership of PARAMS. */
static void
ask_server(struct call *c, const char *method, json_t *params)
{
	struct instance *i = c->instance;

	c->ask = instance_ask(i, method, params, call_time(c), c, answered, c);
	if (c->ask == NULL) {
		call_error(c, GATEWAY_FAILED, "the server '%s' does not take the call", i->server->name);
		return;
	}
	c->ask->result_max = i->server->result_max;
	/* The token that the server sees is the id of our question. */
	if (c->token != NULL && c->ask->params != NULL)
		(void)json_object_set_new(c->ask->params, "_meta", json_pack("{s:I}", "progressToken", (json_int_t)c->ask->id));
}

/* The cell that C is for.  False: C has failed. */
static bool
find_server(struct call *c, int index)
{
	const struct policy_tools_server *server = &gateway_tools->servers[index];

	c->server = server;
	c->instance = server->per_call ? instance_new(c->session, (size_t)index, c) :
	              gateway_session_instance(c->session, (size_t)index);
	if (c->instance == NULL)
		call_error(c, GATEWAY_BUSY, "there are too many servers' cells");
	else if (c->instance->frozen[0] != '\0')
		call_error(c, GATEWAY_FAILED, "the server '%s' stands still: %s", server->name, c->instance->frozen);
	else
		return true;
	return false;
}

/* The parameters that rules are about: what is called, by its own name, and the arguments.  NULL: out of memory. */
static json_t *
plain_params(const json_t *params, const char *key, const char *name)
{
	return json_pack("{s:s, s:O*}", key, name, "arguments", json_object_get(params, "arguments"));
}

/* ---- tools/call ---- */

void
call_tool(struct call *c)
{
	ask_server(c, "tools/call", TAKE(c->params));
}

static void
no_such_tool(struct call *c)
{
	OWN(freep) char *tool = strdup(c->tool);
	const struct policy_tools_server *server = c->instance->server;

	gateway_record(server, c->instance->cell, "unknown", tool, "it called a tool that does not exist for it");
	call_error(c, JSONRPC_BAD_PARAMS, "Unknown tool: %s.%s", server->name, tool != NULL ? tool : "");
}

static void
know_tools(void *arg, json_t *items, const char *why)
{
	struct call *c = arg;

	if (items == NULL) {
		call_error(c, GATEWAY_FAILED, "the server '%s' did not list its tools: %s", c->instance->server->name, why);
		return;
	}
	json_decref(listing_tools(c->instance, items));
	if (json_object_get(c->instance->known, c->tool) == NULL)
		no_such_tool(c);
	else if (!gateway_scope_begin(c))
		call_tool(c);
}

/* With a lock, only a tool that has been compared with it exists. */
static void
begin_tool(struct call *c, const json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "name")), *tool = NULL;
	int index = name != NULL ? names_split(name, '.', &tool) : -1;

	if (index < 0 || !definition_is_name(tool)) {
		call_error(c, JSONRPC_BAD_PARAMS, "Unknown tool: %.200s", name != NULL ? name : "");
		return;
	}
	c->tool = strdup(tool);
	c->of = str_format("tool:%s", name);
	c->params = plain_params(params, "name", tool);
	if (c->tool == NULL || c->of == NULL || c->params == NULL) {
		call_error(c, GATEWAY_FAILED, "out of memory");
		return;
	}
	c->locked = gateway_tools->has_lock ? policy_tools_locked(gateway_tools, name) : NULL;
	if (!find_server(c, index))
		return;
	if (!gateway_tools->has_lock)
		call_tool(c);
	else if (c->instance->known != NULL)
		know_tools(c, c->instance->known, NULL);
	else if (fetch_begin(c->instance, "tools/list", "tools", c, know_tools, c) == NULL)
		call_error(c, GATEWAY_FAILED, "out of memory");
}

/* ---- what belongs to one server by its name ---- */

static char *
name_of(const struct policy_tools_server *server, char separator, const char *name)
{
	return str_format("%s:%s%c%s", separator == '/' ? "resource" : "prompt", server->name, separator, name);
}

static void
begin_named(struct call *c, const char *method, const json_t *params, const char *key, char separator, int code)
{
	const char *name = json_string_value(json_object_get(params, key)), *rest = NULL;
	int index = name != NULL ? names_split(name, separator, &rest) : -1;
	json_t *copy;

	if (index < 0) {
		call_error(c, code, "there is no such %s here: %.200s", key, name != NULL ? name : "");
		return;
	}
	if (!find_server(c, index))
		return;
	copy = plain_params(params, key, rest);
	c->of = name_of(c->server, separator, rest);
	if (copy == NULL || c->of == NULL)
		call_error(c, GATEWAY_FAILED, "out of memory");
	else
		ask_server(c, method, copy);
}

static void
begin_read(struct call *c, const char *method, const json_t *params)
{
	begin_named(c, method, params, "uri", '/', GATEWAY_NO_RESOURCE);
}

static void
begin_prompt(struct call *c, const char *method, const json_t *params)
{
	begin_named(c, method, params, "name", '.', JSONRPC_BAD_PARAMS);
}

static void
begin_complete(struct call *c, const char *method, const json_t *params)
{
	const json_t *ref = json_object_get(params, "ref");
	const bool is_prompt = json_object_get(ref, "name") != NULL;
	const char *key = is_prompt ? "name" : "uri", *rest = NULL;
	const char *name = json_string_value(json_object_get(ref, key));
	int index = name != NULL ? names_split(name, is_prompt ? '.' : '/', &rest) : -1;
	json_t *copy;

	if (index < 0) {
		call_error(c, JSONRPC_BAD_PARAMS, "there is nothing to complete by that name");
		return;
	}
	if (!find_server(c, index))
		return;
	c->of = name_of(c->server, is_prompt ? '.' : '/', rest);
	copy = c->of != NULL ? json_deep_copy(params) : NULL;
	if (copy == NULL) {
		call_error(c, GATEWAY_FAILED, "out of memory");
		return;
	}
	(void)json_object_set_new(json_object_get(copy, "ref"), key, json_string(rest));
	ask_server(c, method, copy);
}

/* ---- all servers ---- */

static void
begin_tools(struct call *c, const char *method, const json_t *params)
{
	listing_begin(c, method, "tools", params);
}

static void
begin_resources(struct call *c, const char *method, const json_t *params)
{
	listing_begin(c, method, "resources", params);
}

static void
begin_templates(struct call *c, const char *method, const json_t *params)
{
	listing_begin(c, method, "resourceTemplates", params);
}

static void
begin_prompts(struct call *c, const char *method, const json_t *params)
{
	listing_begin(c, method, "prompts", params);
}

static void
set_level(struct instance *i, void *arg)
{
	const char *level = arg;

	if (i->step == INSTANCE_READY && instance_can(i, "logging"))
		instance_send(i, json_pack("{s:s, s:s, s:s, s:{s:s}}", "jsonrpc", "2.0", "id", "level", "method",
		                           "logging/setLevel", "params", "level", level));
}

static void
begin_level(struct call *c, const char *method, const json_t *params)
{
	static const char *const levels[] = { "debug", "info", "notice", "warning", "error", "critical", "alert",
	                                      "emergency" };
	const char *level = json_string_value(json_object_get(params, "level"));

	(void)method;
	for (size_t i = 0; level != NULL && i < ARRAY_LEN(levels); i++) {
		if (strcmp(level, levels[i]) != 0)
			continue;
		free(c->session->level);
		c->session->level = strdup(level);
		instance_each(c->session, set_level, (void *)(uintptr_t)levels[i]);
		call_result(c, json_object());
		return;
	}
	call_error(c, JSONRPC_BAD_PARAMS, "there is no such level");
}

static void
begin_ping(struct call *c, const char *method, const json_t *params)
{
	(void)method, (void)params;
	call_result(c, json_object());
}

static void
begin_call(struct call *c, const char *method, const json_t *params)
{
	(void)method;
	begin_tool(c, params);
}

static const struct {
	const char *method;
	void (*begin)(struct call *c, const char *method, const json_t *params);
} methods[] = {
	{ "ping", begin_ping },
	{ "tools/list", begin_tools },
	{ "tools/call", begin_call },
	{ "resources/list", begin_resources },
	{ "resources/templates/list", begin_templates },
	{ "resources/read", begin_read },
	{ "resources/subscribe", begin_read },
	{ "resources/unsubscribe", begin_read },
	{ "prompts/list", begin_prompts },
	{ "prompts/get", begin_prompt },
	{ "completion/complete", begin_complete },
	{ "logging/setLevel", begin_level },
};

void
call_begin(struct session *s, struct channel *channel, const struct jsonrpc *m)
{
	json_t *token = json_object_get(json_object_get(m->params, "_meta"), "progressToken");
	struct call *c = s->n_calls < GATEWAY_CALLS_MAX && call_find(s, m->id) == NULL ? calloc(1, sizeof(*c)) : NULL;

	if (c == NULL) {
		channel_finish(channel, jsonrpc_error(m->id, GATEWAY_BUSY, "%s", s->n_calls < GATEWAY_CALLS_MAX ?
		               "a request with this id is under way" : "too many requests are under way"));
		return;
	}
	*c = (struct call){ .next = s->calls, .session = s, .channel = channel, .id = json_incref(m->id),
	                    .token = json_is_string(token) || json_is_integer(token) ? json_incref(token) : NULL };
	s->calls = c;
	s->n_calls++;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strcmp(methods[i].method, m->method) == 0) {
			methods[i].begin(c, methods[i].method, m->params);
			return;
		}
	call_error(c, JSONRPC_NO_METHOD, "there is no method '%s'", m->method);
}

/* ---- initialize, notifications ---- */

json_t *
call_welcome(struct session *s, const struct jsonrpc *m)
{
	static const char *const versions[] = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05" };
	const char *wanted = json_string_value(json_object_get(m->params, "protocolVersion"));
	json_t *abilities = json_object_get(m->params, "capabilities");

	if (wanted == NULL)
		return jsonrpc_error(m->id, JSONRPC_BAD_PARAMS, "'protocolVersion' is missing");
	s->version = versions[0];
	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		if (strcmp(wanted, versions[i]) == 0)
			s->version = versions[i];
	s->abilities = json_is_object(abilities) ? json_incref(abilities) : json_object();
	s->client = json_incref(json_object_get(m->params, "clientInfo"));
	return jsonrpc_result(m->id, json_pack("{s:s, s:{s:{s:b}, s:{s:b, s:b}, s:{s:b}, s:{}, s:{}}, s:{s:s, s:s, s:s}}",
		"protocolVersion", s->version, "capabilities", "tools", "listChanged", 1, "resources", "subscribe", 1,
		"listChanged", 1, "prompts", "listChanged", 1, "logging", "completions", "serverInfo", "name",
		"cloister-tools", "title", "cloister: tools", "version", CLOISTER_VERSION));
}

/* As it is in the protocol, without what the agent may have added. */
static void
tell_roots(struct instance *i, void *arg)
{
	(void)arg;
	if (i->step == INSTANCE_READY)
		instance_send(i, jsonrpc_notification("notifications/roots/list_changed", json_object()));
}

void
call_note(struct session *s, const struct jsonrpc *m)
{
	struct call *c;

	if (strcmp(m->method, "notifications/cancelled") == 0) {
		c = call_find(s, json_object_get(m->params, "requestId"));
		if (c != NULL)
			call_cancel(c);
	} else if (strcmp(m->method, "notifications/roots/list_changed") == 0) {
		instance_each(s, tell_roots, NULL);
	}
}
