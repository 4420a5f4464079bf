/* mcp_steps.c - the requests of each tool to the service, and its results from the responses. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "canon/canon.h"
#include "mcp/mcp_parts.h"

static const char *
arg_text(const struct mcp_call *call, const char *name)
{
	return json_string_value(json_object_get(call->args, name));
}

static json_int_t
arg_number(const struct mcp_call *call, const char *name, json_int_t otherwise)
{
	const json_t *value = json_object_get(call->args, name);

	return value != NULL ? json_integer_value(value) : otherwise;
}

/* A JSON response, or NULL with the call failed, with the service's explanation. */
static json_t *
read_json(struct mcp_call *call, const struct mcp_answer *answer)
{
	json_t *root = canon_value(answer->body, answer->len);
	const char *message = json_string_value(json_object_get(json_object_get(root, "error"), "message"));

	if (answer->status >= 200 && answer->status < 300 && json_is_object(root))
		return root;
	(void)(message != NULL ? mcp_call_fail(call, "%s", message) :
	       mcp_call_fail(call, "the service answered %u where something else was expected",
	                     answer->status));
	json_decref(root);
	return NULL;
}

/* The part of a dispatch that a model needs. */
static void
show_dispatch(struct mcp_call *call, const json_t *from)
{
	static const char *const members[] = { "id", "state", "exit_code", "reason", "attempts" };
	json_t *agent = json_object_get(from, "agent"), *value;

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		value = json_object_get(from, members[i]);
		/* Empty members are left out. */
		if (value != NULL && !json_is_null(value))
			(void)json_object_set(call->out, members[i], value);
	}
	if (json_is_string(json_object_get(agent, "name")))
		(void)json_object_set(call->out, "agent", json_object_get(agent, "name"));
	if (json_is_string(json_object_get(agent, "hash")))
		(void)json_object_set(call->out, "hash", json_object_get(agent, "hash"));
}

static bool
is_over(const struct mcp_call *call)
{
	const char *state = json_string_value(json_object_get(call->out, "state"));

	return state == NULL || (strcmp(state, "queued") != 0 && strcmp(state, "starting") != 0 &&
	                         strcmp(state, "running") != 0);
}

/* ---- list_agents ---- */

enum mcp_next
mcp_step_agents(struct mcp_call *call, const struct mcp_answer *answer)
{
	static const char *const members[] = { "name", "hash", "description" };
	OWN(json_decrefp) json_t *root = NULL;
	const char *after = arg_text(call, "after");
	json_t *list, *item, *one;
	char name[3 * 64 + 4];
	size_t i;

	if (answer == NULL)
		return mcp_call_get(call, MCP_JSON_MAX, "/v1/agents?limit=%d%s%s",
		                    (int)arg_number(call, "limit", 100), after != NULL ? "&after=" : "",
		                    after != NULL ? mcp_escape(after, name, sizeof(name)) : "");
	root = read_json(call, answer);
	if (root == NULL)
		return MCP_DONE;
	list = json_array();
	json_array_foreach (json_object_get(root, "items"), i, item) {
		one = json_object();
		for (size_t k = 0; k < ARRAY_LEN(members); k++)
			if (json_is_string(json_object_get(item, members[k])))
				(void)json_object_set(one, members[k], json_object_get(item, members[k]));
		(void)json_array_append_new(list, one);
	}
	(void)json_object_set_new(call->out, "agents", list);
	if (json_is_string(json_object_get(root, "next")))
		(void)json_object_set(call->out, "next", json_object_get(root, "next"));
	return MCP_DONE;
}

/* ---- dispatch ---- */

enum { ASKED, FOLLOWS, LOOKS, STDOUT, STDERR, FILES };

static enum mcp_next
ask_dispatch(struct mcp_call *call)
{
	OWN(json_decrefp) json_t *wait = json_incref(json_object_get(call->args, "wait"));
	json_t *body = json_pack("{s:s}", "agent", arg_text(call, "agent"));
	static const char *const as_they_are[] = { "input", "env", "retries", "idempotency_key" };

	call->waits = wait == NULL || json_is_true(wait);
	for (size_t i = 0; i < ARRAY_LEN(as_they_are); i++)
		if (json_object_get(call->args, as_they_are[i]) != NULL)
			(void)json_object_set(body, as_they_are[i], json_object_get(call->args, as_they_are[i]));
	if (json_object_get(call->args, "timeout_seconds") != NULL)
		(void)json_object_set_new(body, "timeout", json_sprintf("%ds",
			(int)arg_number(call, "timeout_seconds", 0)));
	/* The process that starts this server sets it; no agent can. */
	if (call->config->principal[0] != '\0')
		(void)json_object_set_new(body, "on_behalf_of", json_string(call->config->principal));
	return mcp_call_post(call, body, "/v1/dispatches");
}

static enum mcp_next
was_asked(struct mcp_call *call, const struct mcp_answer *answer)
{
	OWN(json_decrefp) json_t *root = read_json(call, answer);
	const char *id = json_string_value(json_object_get(root, "id"));

	if (root == NULL)
		return MCP_DONE;
	if (id == NULL || strlen(id) >= sizeof(call->dispatch) ||
	    strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != strlen(id))
		return mcp_call_fail(call, "the service gave the dispatch no name");
	memcpy(call->dispatch, id, strlen(id) + 1);
	show_dispatch(call, root);
	if (call->cancelled && call->waits)
		return mcp_call_cancel(call);
	if (!call->waits)
		return MCP_DONE;
	call->step = FOLLOWS;
	(void)mcp_call_get(call, MCP_TEXT_MAX, "/v1/dispatches/%s/events", call->dispatch);
	call->ask.lines = true;
	return MCP_ASK;
}

static enum mcp_next
look(struct mcp_call *call)
{
	call->step = LOOKS;
	return mcp_call_get(call, MCP_JSON_MAX, "/v1/dispatches/%s", call->dispatch);
}

static enum mcp_next
has_looked(struct mcp_call *call, const struct mcp_answer *answer)
{
	OWN(json_decrefp) json_t *root = NULL;

	/* The service went away during the request. */
	if (answer->status == 0)
		return look(call);
	root = read_json(call, answer);
	if (root == NULL)
		return MCP_DONE;
	show_dispatch(call, root);
	if (!is_over(call)) {
		if (++call->broken > MCP_BROKEN_MAX)
			return mcp_call_fail(call, "the service does not tell how '%s' goes on: ask for its "
			                     "status", call->dispatch);
		call->step = FOLLOWS;
		(void)mcp_call_get(call, MCP_TEXT_MAX, "/v1/dispatches/%s/events", call->dispatch);
		call->ask.lines = true;
		return MCP_ASK;
	}
	call->step = STDOUT;
	return mcp_call_get(call, MCP_TEXT_SHOWN, "/v1/dispatches/%s/output?stream=stdout",
	                    call->dispatch);
}

static void
show_stream(struct mcp_call *call, const char *name, const struct mcp_answer *answer)
{
	char truncated[32];

	if (answer->status != 200)
		return;
	snprintf(truncated, sizeof(truncated), "%s_truncated", name);
	(void)json_object_set_new(call->out, name, mcp_text(answer->body, answer->len));
	(void)json_object_set_new(call->out, truncated, json_boolean(answer->is_cut));
}

static void
show_files(struct mcp_call *call, const json_t *root)
{
	static const char *const members[] = { "path", "size", "hash" };
	json_t *list = json_array(), *item, *one;
	bool is_cut = json_is_true(json_object_get(root, "truncated"));
	size_t i;

	json_array_foreach (json_object_get(root, "files"), i, item) {
		if (i == MCP_FILES_SHOWN) {
			is_cut = true;
			break;
		}
		one = json_object();
		for (size_t k = 0; k < ARRAY_LEN(members); k++)
			if (json_object_get(item, members[k]) != NULL)
				(void)json_object_set(one, members[k], json_object_get(item, members[k]));
		(void)json_array_append_new(list, one);
	}
	(void)json_object_set_new(call->out, "files", list);
	(void)json_object_set_new(call->out, "files_truncated", json_boolean(is_cut));
}

static enum mcp_next
collect(struct mcp_call *call, const struct mcp_answer *answer)
{
	json_t *root;

	switch (call->step++) {
	case STDOUT:
		show_stream(call, "stdout", answer);
		return mcp_call_get(call, MCP_TEXT_SHOWN, "/v1/dispatches/%s/output?stream=stderr",
		                    call->dispatch);
	case STDERR:
		show_stream(call, "stderr", answer);
		return mcp_call_get(call, MCP_JSON_MAX, "/v1/dispatches/%s/files", call->dispatch);
	default:
		root = answer->status == 200 ? canon_value(answer->body, answer->len) : NULL;
		if (root != NULL)
			show_files(call, root);
		json_decref(root);
		return MCP_DONE;
	}
}

enum mcp_next
mcp_step_dispatch(struct mcp_call *call, const struct mcp_answer *answer)
{
	if (answer == NULL)
		return ask_dispatch(call);
	/* Its cancellation was requested. */
	if (call->cancelled && call->dispatch[0] != '\0' && !call->waits)
		return MCP_DONE;
	switch (call->step) {
	case ASKED:
		return was_asked(call, answer);
	case FOLLOWS:
		return look(call);
	case LOOKS:
		return has_looked(call, answer);
	default:
		return collect(call, answer);
	}
}

/* ---- status, cancel ---- */

static char *
escape_id(const struct mcp_call *call, char out[3 * 64 + 4])
{
	return mcp_escape(arg_text(call, "id"), out, 3 * 64 + 4);
}

/* "." and ".." are no names, but have a meaning in a path. */
static bool
is_dots(const char *segment, size_t len)
{
	return (len == 1 && segment[0] == '.') || (len == 2 && segment[0] == '.' && segment[1] == '.');
}

static enum mcp_next
no_such(struct mcp_call *call, const char *what)
{
	return mcp_call_fail(call, "there is no such %s", what);
}

enum mcp_next
mcp_step_status(struct mcp_call *call, const struct mcp_answer *answer)
{
	OWN(json_decrefp) json_t *root = NULL;
	char id[3 * 64 + 4];

	if (answer == NULL)
		return is_dots(arg_text(call, "id"), strlen(arg_text(call, "id"))) ?
		       no_such(call, "dispatch") :
		       mcp_call_get(call, MCP_JSON_MAX, "/v1/dispatches/%s", escape_id(call, id));
	root = read_json(call, answer);
	if (root != NULL)
		show_dispatch(call, root);
	return MCP_DONE;
}

enum mcp_next
mcp_step_cancel(struct mcp_call *call, const struct mcp_answer *answer)
{
	char id[3 * 64 + 4];

	if (answer == NULL && !is_dots(arg_text(call, "id"), strlen(arg_text(call, "id"))))
		return mcp_call_post(call, json_object(), "/v1/dispatches/%s/cancel", escape_id(call, id));
	if (answer == NULL)
		return no_such(call, "dispatch");
	if (call->step++ > 0)
		return mcp_step_status(call, answer);
	/* If it is already over, shows how it ended. */
	if (answer->status != 409) {
		json_t *root = read_json(call, answer);

		if (root == NULL)
			return MCP_DONE;
		json_decref(root);
	}
	return mcp_call_get(call, MCP_JSON_MAX, "/v1/dispatches/%s", escape_id(call, id));
}

/* ---- output, result_files ---- */

static enum mcp_next
ask_page(struct mcp_call *call)
{
	call->ask.skip = (uint64_t)arg_number(call, "offset", 0);
	call->ask.max = (size_t)arg_number(call, "max_bytes", MCP_TEXT_SHOWN);
	return MCP_ASK;
}

static enum mcp_next
show_page(struct mcp_call *call, const struct mcp_answer *answer)
{
	json_int_t offset = arg_number(call, "offset", 0);
	size_t used;

	if (answer->status != 200) {
		json_decref(read_json(call, answer));
		return call->failed ? MCP_DONE : no_such(call, "output");
	}
	if (mcp_put_bytes(call->out, answer->body, answer->len, answer->is_cut, &used) < 0)
		return mcp_call_fail(call, "out of memory");
	(void)json_object_set_new(call->out, "offset", json_integer(offset));
	if (answer->is_cut)
		(void)json_object_set_new(call->out, "next_offset", json_integer(offset + (json_int_t)used));
	(void)json_object_set_new(call->out, "id", json_string(arg_text(call, "id")));
	return MCP_DONE;
}

enum mcp_next
mcp_step_output(struct mcp_call *call, const struct mcp_answer *answer)
{
	const char *stream = arg_text(call, "stream");
	char id[3 * 64 + 4];

	if (stream == NULL)
		stream = "stdout";
	if (answer == NULL && is_dots(arg_text(call, "id"), strlen(arg_text(call, "id"))))
		return no_such(call, "dispatch");
	if (answer == NULL) {
		(void)mcp_call_get(call, 0, "/v1/dispatches/%s/output?stream=%s", escape_id(call, id), stream);
		return ask_page(call);
	}
	if (answer->status == 200)
		(void)json_object_set_new(call->out, "stream", json_string(stream));
	return show_page(call, answer);
}

/* The path of a file as the end of a URL's; false: no file can have such a path. */
static bool
escape_path(const char *path, char *out, size_t size)
{
	char segment[256], coded[3 * 256 + 4];
	size_t len = 0, n;

	for (;; path += n + 1) {
		n = strcspn(path, "/");
		if (n == 0 || n >= sizeof(segment) || is_dots(path, n))
			return false;
		memcpy(segment, path, n);
		segment[n] = '\0';
		len += (size_t)snprintf(out + len, size - len, "/%s", mcp_escape(segment, coded,
		                                                                sizeof(coded)));
		if (len >= size)
			return false;
		if (path[n] == '\0')
			return true;
	}
}

static enum mcp_next
ask_files(struct mcp_call *call)
{
	const char *path = arg_text(call, "path");
	char id[3 * 64 + 4], end[MCP_PATH_MAX - 512];

	if (is_dots(arg_text(call, "id"), strlen(arg_text(call, "id"))))
		return no_such(call, "dispatch");
	if (path == NULL)
		return mcp_call_get(call, MCP_JSON_MAX, "/v1/dispatches/%s/files", escape_id(call, id));
	if (!escape_path(path, end, sizeof(end)))
		return no_such(call, "file");
	(void)mcp_call_get(call, 0, "/v1/dispatches/%s/files%s", escape_id(call, id), end);
	return ask_page(call);
}

enum mcp_next
mcp_step_files(struct mcp_call *call, const struct mcp_answer *answer)
{
	OWN(json_decrefp) json_t *root = NULL;

	if (answer == NULL)
		return ask_files(call);
	if (arg_text(call, "path") != NULL) {
		if (answer->status == 200)
			(void)json_object_set(call->out, "path", json_object_get(call->args, "path"));
		return show_page(call, answer);
	}
	root = read_json(call, answer);
	if (root == NULL)
		return MCP_DONE;
	(void)json_object_set(call->out, "id", json_object_get(call->args, "id"));
	show_files(call, root);
	return MCP_DONE;
}
