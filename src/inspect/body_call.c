/* body_call.c - matches calls of MCP tools: one JSON-RPC 2.0 message, its name and its arguments. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "inspect/body.h"
#include "inspect/body_shape.h"
#include "policy/policy_tools.h"

/* Methods that call nothing.  Any other is refused: it may be a call in a later version. */
static const char *const others[] = { "initialize", "ping", "notifications/**", "*/list", "resources/templates/list",
                                      "logging/setLevel",
                                      /* Newer clients ask first; the gateway answers that it wants `initialize`. */
                                      "server/discover" };
static const struct {
	const char *method, *member;
	enum policy_call_kind kind;
} calls[] = {
	{ "tools/call", "name", POLICY_CALL_TOOL },
	{ "prompts/get", "name", POLICY_CALL_PROMPT },
	{ "resources/read", "uri", POLICY_CALL_RESOURCE },
	{ "resources/subscribe", "uri", POLICY_CALL_RESOURCE },
	{ "resources/unsubscribe", "uri", POLICY_CALL_RESOURCE },
};
#define PROMPT 1
#define RESOURCE 2

/* ---- reading ---- */

static bool
is_other(const char *method, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (policy_glob(others[i], method, len, '/'))
			return true;
	return false;
}

/* What is called: a text of PARAMS.  A resource's name is its URI without BODY_RESOURCE. */
static bool
read_name(const json_t *params, size_t i, struct body_call *call)
{
	bool odd = false;
	const json_t *name = body_json_get(params, calls[i].member, &odd);
	size_t skip = calls[i].kind == POLICY_CALL_RESOURCE ? strlen(BODY_RESOURCE) : 0;

	if (odd || !json_is_string(name) || json_string_length(name) == skip ||
	    strncmp(json_string_value(name), BODY_RESOURCE, skip) != 0)
		return false;
	call->kind = calls[i].kind;
	call->name = json_string_value(name) + skip;
	call->n_name = json_string_length(name) - skip;
	call->args = body_json_get(params, "arguments", &odd);
	/* No arguments are none that a condition fits. */
	return !odd && (call->args == NULL || json_is_object(call->args));
}

/* Completing is a use of the prompt or of the resource: its server gets what was typed so far. */
static bool
read_completed(const json_t *params, struct body_call *call)
{
	bool odd = false;
	const json_t *ref = body_json_get(params, "ref", &odd);
	size_t i = body_json_get(ref, "name", &odd) != NULL ? PROMPT : RESOURCE;

	return !odd && read_name(ref, i, call);
}

bool
body_call_read(const json_t *root, struct body_call *ret_call)
{
	bool odd = false;
	const json_t *method = body_json_get(root, "method", &odd), *id = body_json_get(root, "id", &odd);
	const json_t *params = body_json_get(root, "params", &odd), *version = body_json_get(root, "jsonrpc", &odd);
	bool answers = body_json_get(root, "result", &odd) != NULL || body_json_get(root, "error", &odd) != NULL;

	*ret_call = (struct body_call){ .kind = POLICY_CALL_OTHER };
	if (!json_is_object(root) || odd || !json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0 ||
	    (params != NULL && !json_is_object(params)))
		return false;
	if (method == NULL) {
		ret_call->permitted = answers && id != NULL;
		return answers;
	}
	if (answers || !json_is_string(method))
		return false;
	ret_call->method = json_string_value(method);
	ret_call->n_method = json_string_length(method);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (strlen(calls[i].method) == ret_call->n_method && strcmp(calls[i].method, ret_call->method) == 0)
			return id != NULL && read_name(params, i, ret_call);
	if (strcmp(ret_call->method, "completion/complete") == 0)
		return id != NULL && read_completed(params, ret_call);
	ret_call->permitted = is_other(ret_call->method, ret_call->n_method);
	return true;
}

/* ---- matching ---- */

static bool
fits_pattern(const struct policy_call *rule, const struct body_call *call)
{
	for (size_t i = 0; i < rule->n; i++)
		if (rule->at[i].kind == call->kind &&
		    policy_glob(rule->at[i].glob, call->name, call->n_name, call->kind == POLICY_CALL_RESOURCE ? '/' : '.'))
			return true;
	return false;
}

struct judging {
	const struct policy_arg *arg;
	const json_t *schema;           /* parsed */
	struct body_regex_time *time;
	bool unreadable;
};

/* One value at the pointer of an argument without values of its own; NULL: there is none. */
static bool
value_fits(void *data, const json_t *got)
{
	struct judging *j = data;
	const struct policy_arg *arg = j->arg;
	const struct policy_list pattern = { &arg->pattern, 1 };
	enum body_fit fit;

	if (got == NULL)
		return false;
	if (arg->has_min || arg->has_max)
		return json_is_number(got) && (!arg->has_min || json_number_value(got) >= arg->min) &&
		       (!arg->has_max || json_number_value(got) <= arg->max);
	if (*arg->pattern != '\0' && !json_is_string(got))
		return false;
	fit = *arg->pattern != '\0' ? body_regex_fits(json_string_value(got), json_string_length(got), &pattern, j->time) :
	                              body_schema_fits(j->schema, got, j->time);
	j->unreadable = j->unreadable || fit == BODY_UNREADABLE;
	return fit == BODY_FITS;
}

static enum body_fit
fits_arg(const struct policy_arg *arg, const json_t *args, bool every, struct body_regex_time *time)
{
	OWN(body_json_freep) json_t *schema = *arg->schema != '\0' ? body_json_parse(arg->schema, strlen(arg->schema)) : NULL;
	struct judging j = { .arg = arg, .schema = schema, .time = time };
	enum body_fit fit;

	if (*arg->schema != '\0' && schema == NULL)
		return BODY_UNREADABLE;
	fit = body_json_fits_at(args, &arg->json, every, arg->json.n_values > 0 ? NULL : value_fits, &j);
	return j.unreadable ? BODY_UNREADABLE : fit;
}

enum body_fit
body_call_fits(const json_t *root, const struct policy_call *rule, bool every, struct body_regex_time *time)
{
	OWN(body_json_freep) json_t *none = NULL;
	struct body_call call;
	const json_t *args;

	if (!body_call_read(root, &call))
		return BODY_UNREADABLE;
	if (call.kind == POLICY_CALL_OTHER)
		return rule->others == POLICY_OTHERS_MESSAGES && call.permitted ? BODY_FITS : BODY_MISFITS;
	if (!fits_pattern(rule, &call))
		return BODY_MISFITS;
	args = call.args;
	if (args == NULL)
		args = none = json_object();
	for (size_t i = 0; i < rule->n_args; i++) {
		enum body_fit fit = args == NULL ? BODY_UNREADABLE : fits_arg(&rule->args[i], args, every, time);

		if (fit != BODY_FITS)
			return fit;
	}
	return BODY_FITS;
}

/* ---- describing ---- */

bool
body_call_shape(const char *text, size_t len, char ret_shape[INSPECT_SHAPE_MAX])
{
	static const char type[] = "application/json";
	/* Numbers as they are written, not as fractions. */
	OWN(body_json_freep) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	OWN(freep) char *args = NULL;
	struct body_call call;

	if (!body_call_read(root, &call) || call.kind == POLICY_CALL_OTHER)
		return false;
	args = call.args != NULL ? json_dumps(call.args, JSON_COMPACT) : NULL;
	if (args == NULL)
		return false;
	body_shape((struct http_text){ type, sizeof(type) - 1 }, args, strlen(args), ret_shape);
	return true;
}

void
body_call_describe(const json_t *root, char ret_call[INSPECT_CALL_MAX])
{
	static const char *const kinds[] = { "tool", "prompt", "resource", "method" };
	struct body_call call;
	const char *text;
	size_t len, at;

	ret_call[0] = '\0';
	if (!body_call_read(root, &call))
		return;
	text = call.kind == POLICY_CALL_OTHER ? call.method : call.name;
	len = call.kind == POLICY_CALL_OTHER ? call.n_method : call.n_name;
	at = (size_t)snprintf(ret_call, INSPECT_CALL_MAX, "%s ", kinds[call.kind]);
	/* Of a response, which has no method, nothing but that. */
	for (size_t i = 0; i < len && at < INSPECT_CALL_MAX - 1; i++)
		ret_call[at++] = text[i] > 0x20 && text[i] < 0x7f ? text[i] : '?';
	ret_call[at] = '\0';
}
