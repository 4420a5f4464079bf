/* body_jsonrpc.c - matches the methods that a JSON-RPC 2.0 body calls. */
#include "inspect/body.h"

#include <string.h>

struct tally { size_t found, fit; };

static bool
is_version_2(const json_t *message)
{
	const char *version = json_string_value(json_object_get(message, "jsonrpc"));

	return version != NULL && strcmp(version, "2.0") == 0;
}

/* A call or a notification has a method; a response, which clients send too, has none. */
static bool
count_message(const json_t *message, const struct policy_list *methods, struct tally *tally)
{
	bool odd = false;
	const json_t *method = body_json_get(message, "method", &odd);
	bool answers = json_object_get(message, "result") != NULL ||
	               json_object_get(message, "error") != NULL;

	if (!json_is_object(message) || !is_version_2(message) || odd)
		return false;
	if (method == NULL)
		return answers;
	if (!json_is_string(method) || answers)
		return false;
	tally->found++;
	tally->fit += methods->n == 0 || body_glob_any(methods, json_string_value(method),
	                                               json_string_length(method));
	return true;
}

enum body_fit
body_jsonrpc_fits(const json_t *root, const struct policy_body *rule, bool every)
{
	struct tally tally = {0};
	size_t n = json_array_size(root);

	if (!json_is_array(root) && !count_message(root, &rule->jsonrpc_methods, &tally))
		return BODY_UNREADABLE;
	if (json_is_array(root) && n == 0)
		return BODY_UNREADABLE;
	for (size_t i = 0; i < n; i++)
		if (!count_message(json_array_get(root, i), &rule->jsonrpc_methods, &tally))
			return BODY_UNREADABLE;
	return (every ? tally.fit == tally.found : tally.fit > 0) ? BODY_FITS : BODY_MISFITS;
}
