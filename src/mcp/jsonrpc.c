/* jsonrpc.c - see jsonrpc.h. */
#include "mcp/jsonrpc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "http/json_walk.h"

void
jsonrpc_free(struct jsonrpc *message)
{
	json_decref(message->root);
}

/* Checks the depth and the number of values before anything is built. */
static const char *
what_is_wrong(const char *text, size_t len, size_t max)
{
	struct json_walk_item item;
	struct json_walk walk;
	size_t n = 0;
	int r;

	if (len > JSONRPC_MESSAGE_MAX)
		return "the message is over 8 MiB";
	json_walk_begin(&walk, (struct http_text){ text, len });
	while ((r = json_walk_next(&walk, &item)) > 0)
		if (item.kind != JSON_WALK_CLOSE && ++n > max)
			return max == JSONRPC_VALUES_MAX ? "the message has over 10000 values" :
			       "the message has over 100000 values";
	if (r == -E2BIG)
		return "the message is nested over 32 deep";
	return r < 0 ? "this is not JSON" : NULL;
}

static bool
is_id(const json_t *id)
{
	return json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= JSONRPC_ID_MAX);
}

static int
refuse(json_t *root, int code, const char *why, json_t **ret_error)
{
	json_t *id = json_object_get(root, "id");

	*ret_error = jsonrpc_error(is_id(id) ? id : NULL, code, "%s", why);
	return -EBADMSG;
}

static const char *
sort_out(struct jsonrpc *m)
{
	const json_t *version = json_object_get(m->root, "jsonrpc");
	json_t *method = json_object_get(m->root, "method"), *id = json_object_get(m->root, "id");
	bool answers = json_object_get(m->root, "result") != NULL ||
	               json_object_get(m->root, "error") != NULL;

	if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
		return "'jsonrpc' is not \"2.0\"";
	m->params = json_object_get(m->root, "params");
	if (m->params != NULL && !json_is_object(m->params))
		return "'params' is no object";
	if (id != NULL && !is_id(id))
		return "'id' is neither an integer nor a string of at most 256 bytes";
	m->id = id;
	if (method == NULL && answers) {
		m->kind = JSONRPC_RESPONSE;
		return NULL;
	}
	if (!json_is_string(method) || json_string_length(method) > JSONRPC_METHOD_MAX || answers)
		return "there is no 'method' in it";
	m->method = json_string_value(method);
	m->kind = id == NULL ? JSONRPC_NOTIFICATION : JSONRPC_REQUEST;
	return NULL;
}

static int
read_message(const char *text, size_t len, size_t max, struct jsonrpc *ret_message, json_t **ret_error)
{
	const char *why = what_is_wrong(text, len, max);
	OWN(json_decrefp) json_t *root = NULL;
	struct jsonrpc m = {0};
	json_error_t error;

	if (why != NULL)
		return refuse(NULL, JSONRPC_BAD_JSON, why, ret_error);
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (root == NULL)
		return refuse(NULL, JSONRPC_BAD_JSON,
		              json_error_code(&error) == json_error_duplicate_key ?
		              "a name is twice in one object" :
		              json_error_code(&error) == json_error_numeric_overflow ?
		              "a number is too large" : "this cannot be read", ret_error);
	if (json_is_array(root))
		return refuse(NULL, JSONRPC_BAD_REQUEST,
		              "batches are no part of MCP since 2025-06-18: send one message at a time",
		              ret_error);
	m.root = root;
	why = json_is_object(root) ? sort_out(&m) : "a message is an object";
	if (why != NULL)
		return refuse(root, JSONRPC_BAD_REQUEST, why, ret_error);
	root = NULL;
	*ret_message = m;
	return 0;
}

int
jsonrpc_read(const char *text, size_t len, struct jsonrpc *ret_message, json_t **ret_error)
{
	return read_message(text, len, JSONRPC_VALUES_MAX, ret_message, ret_error);
}

int
jsonrpc_read_big(const char *text, size_t len, struct jsonrpc *ret_message, json_t **ret_error)
{
	return read_message(text, len, JSONRPC_VALUES_BIG, ret_message, ret_error);
}

/* ---- writing ---- */

json_t *
jsonrpc_result(json_t *id, json_t *result)
{
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *
jsonrpc_error(json_t *id, int code, const char *fmt, ...)
{
	OWN(json_decrefp) json_t *message = NULL;
	va_list args;

	va_start(args, fmt);
	message = json_vsprintf(fmt, args);
	va_end(args);
	/* A quotation from the other side may be cut within a character. */
	if (message == NULL)
		message = json_string("this cannot be done as it was asked");
	return json_pack("{s:s, s:O*, s:{s:i, s:O}}", "jsonrpc", "2.0", "id", id, "error", "code", code,
	                 "message", message);
}

json_t *
jsonrpc_notification(const char *method, json_t *params)
{
	return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params);
}

char *
jsonrpc_write(const json_t *message)
{
	return message == NULL ? NULL : json_dumps(message, JSON_COMPACT);
}
