/* mcp_call.c - the life of a call: from its arguments, through requests to the service, to its result. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "canon/canon.h"
#include "mcp/mcp_parts.h"

#define MESSAGE_MAX 200                 /* bytes of a progress message */

struct mcp_call *
mcp_call_find(const struct mcp_peer *peer, const json_t *id)
{
	for (struct mcp_call *call = peer->calls; call != NULL; call = call->next)
		if (json_equal(call->id, id))
			return call;
	return NULL;
}

static void
leave(struct mcp_call *call)
{
	if (call->peer == NULL)
		return;
	*call->at = call->next;
	if (call->next != NULL)
		call->next->at = call->at;
	call->peer->n_calls--;
	call->peer = NULL;
}

void
mcp_peer_leave(struct mcp_peer *peer)
{
	while (peer->calls != NULL)
		leave(peer->calls);
}

void
mcp_call_free(struct mcp_call *call)
{
	if (call == NULL)
		return;
	leave(call);
	free(call->ask.body);
	json_decref(call->id);
	json_decref(call->token);
	json_decref(call->args);
	json_decref(call->out);
	free(call);
}

static enum mcp_next
begin(struct mcp_call *call)
{
	OWN(json_decrefp) json_t *schema = mcp_tool_input(call->tool);
	struct err err = {0};

	if (mcp_schema_check(schema, call->args, call->tool->name, &err) < 0)
		return mcp_call_fail(call, "%s", err.text);
	return call->tool->step(call, NULL);
}

struct mcp_call *
mcp_call_new(const struct mcp_config *config, struct mcp_peer *peer, const struct mcp_tool *tool,
             json_t *id, json_t *token, json_t *args, bool modern)
{
	struct mcp_call *call = calloc(1, sizeof(*call));

	if (call == NULL)
		return NULL;
	call->config = config;
	call->tool = tool;
	call->modern = modern;
	call->id = json_incref(id);
	call->token = json_incref(token);
	call->args = args != NULL ? json_incref(args) : json_object();
	call->out = json_object();
	call->peer = peer;
	call->at = &peer->calls;
	call->next = peer->calls;
	if (call->next != NULL)
		call->next->at = &call->next;
	peer->calls = call;
	peer->n_calls++;
	if (call->args == NULL || call->out == NULL) {
		mcp_call_free(call);
		return NULL;
	}
	/* A call that is already done sends no request. */
	if (begin(call) == MCP_DONE)
		call->ask.method = NULL;
	return call;
}

enum mcp_next
mcp_call_fail(struct mcp_call *call, const char *fmt, ...)
{
	va_list args;

	call->failed = true;
	json_decref(call->out);
	va_start(args, fmt);
	call->out = json_vsprintf(fmt, args);
	va_end(args);
	if (call->out == NULL)
		call->out = json_string("this failed");
	return MCP_DONE;
}

/* ---- requests ---- */

static void
ask(struct mcp_call *call, const char *method, size_t max, const char *fmt, va_list args)
{
	free(call->ask.body);
	call->ask = (struct mcp_ask){ .method = method, .max = max };
	/* Names are already escaped, and longer ones were refused. */
	(void)vsnprintf(call->ask.path, sizeof(call->ask.path), fmt, args);
}

enum mcp_next
mcp_call_get(struct mcp_call *call, size_t max, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	ask(call, "GET", max, fmt, args);
	va_end(args);
	return MCP_ASK;
}

enum mcp_next
mcp_call_post(struct mcp_call *call, json_t *body, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	ask(call, "POST", MCP_JSON_MAX, fmt, args);
	va_end(args);
	call->ask.body = jsonrpc_write(body);
	json_decref(body);
	return call->ask.body != NULL ? MCP_ASK : mcp_call_fail(call, "out of memory");
}

enum mcp_next
mcp_call_answer(struct mcp_call *call, const struct mcp_answer *answer)
{
	return call->tool->step(call, answer);
}

/* The wait is restarted: the service may have been restarted, and the dispatch goes on. */
enum mcp_next
mcp_call_broken(struct mcp_call *call, const struct err *why)
{
	const struct mcp_answer nothing = {0};

	if (call->waits && call->dispatch[0] != '\0' && ++call->broken <= MCP_BROKEN_MAX)
		return call->tool->step(call, &nothing);
	return mcp_call_fail(call, "%s", why->text);
}

enum mcp_next
mcp_call_cancel(struct mcp_call *call)
{
	call->cancelled = true;
	/* Frees its id. */
	leave(call);
	if (!call->waits)
		return MCP_DONE;
	/* Its id is not known before the service has answered. */
	if (call->dispatch[0] == '\0')
		return MCP_WAIT;
	call->waits = false;
	return mcp_call_post(call, json_object(), "/v1/dispatches/%s/cancel", call->dispatch);
}

bool
mcp_call_is_begun(const struct mcp_call *call)
{
	return call->dispatch[0] != '\0';
}

/* ---- progress ---- */

static json_t *
describe(const char *event, const json_t *root)
{
	static const struct { const char *event, *says; } words[] = {
		{ "dispatch.queued", "it is queued" }, { "dispatch.resolved", "it is known what it gets" },
		{ "cell.boot", "its cell runs" }, { "setup.ran", "a setup program has run" },
		{ "approval.asked", "it waits for a person's approval" },
		{ "dispatch.finished", "it is over" },
	};
	const char *text = json_string_value(json_object_get(root, "text"));
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(event, words[i].event) == 0)
			return json_string(words[i].says);
	if (text == NULL)
		return json_string(event);
	/* The end of the message: its last line is the newest. */
	len = strlen(text);
	return mcp_text(len > MESSAGE_MAX ? text + len - MESSAGE_MAX : text,
	                len > MESSAGE_MAX ? MESSAGE_MAX : len);
}

void
mcp_call_line(struct mcp_call *call, const char *line, size_t len, uint64_t now_ms,
              json_t **ret_progress)
{
	OWN(json_decrefp) json_t *root = canon_value(line, len);
	const char *event = json_string_value(json_object_get(root, "event"));
	const json_t *n = json_object_get(root, "n");
	bool is_output;

	*ret_progress = NULL;
	if (event == NULL)
		return;
	call->broken = 0;
	/* After a restart of the wait, earlier events come again. */
	if (json_is_integer(n) && json_integer_value(n) <= (json_int_t)call->event_n)
		return;
	call->event_n = json_is_integer(n) ? (uint64_t)json_integer_value(n) : call->event_n;
	is_output = strcmp(event, "agent.output") == 0;
	if (call->token == NULL || (is_output && call->spoke_ms != 0 &&
	                            now_ms - call->spoke_ms < MCP_PROGRESS_MS))
		return;
	call->spoke_ms = is_output ? now_ms : call->spoke_ms;
	*ret_progress = jsonrpc_notification("notifications/progress",
		json_pack("{s:O, s:i, s:o}", "progressToken", call->token, "progress", ++call->n_progress,
		          "message", describe(event, root)));
}

/* ---- results ---- */

json_t *
mcp_call_result(struct mcp_call *call)
{
	OWN(freep) char *text = call->failed ? NULL : jsonrpc_write(call->out);
	json_t *result = json_pack("{s:[{s:s, s:s}], s:b}", "content", "type", "text", "text",
	                           call->failed ? json_string_value(call->out) : text, "isError",
	                           call->failed);

	if (result == NULL)
		return NULL;
	if (!call->failed)
		(void)json_object_set(result, "structuredContent", call->out);
	if (call->modern) {
		(void)json_object_set_new(result, "resultType", json_string("complete"));
		(void)json_object_set_new(result, "_meta", json_pack("{s:{s:s, s:s}}",
			"io.modelcontextprotocol/serverInfo", "name", "cloister", "version",
			call->config->version));
	}
	return jsonrpc_result(call->id, result);
}

/* ---- checking a token ---- */

static enum mcp_next
step_check(struct mcp_call *call, const struct mcp_answer *answer)
{
	if (answer == NULL)
		return mcp_call_get(call, MCP_JSON_MAX, "/v1/version");
	call->step = (int)answer->status;
	return MCP_DONE;
}

struct mcp_call *
mcp_call_check(const struct mcp_config *config, struct mcp_peer *peer)
{
	static const struct mcp_tool tool = { .name = "", .input = "{\"type\":\"object\"}",
	                                      .step = step_check };

	return mcp_call_new(config, peer, &tool, NULL, NULL, NULL, false);
}

unsigned
mcp_call_checked(const struct mcp_call *call)
{
	return call->failed || (call->step != 200 && call->step != 401) ? 503 : (unsigned)call->step;
}
