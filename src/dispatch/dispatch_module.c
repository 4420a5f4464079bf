/* dispatch_module.c - capabilities of type `wasm`: the agent gets their tools, and nothing else of them. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy_tools.h"

bool
dispatch_is_module(const json_t *capability)
{
	return strcmp(dispatch_text(capability, "type"), "wasm") == 0;
}

json_t *
dispatch_module_rules(const json_t *capability, json_t *owned)
{
	json_t *rules = json_pack("[{s:o}]", "allow", json_sprintf("tool:%s.**", dispatch_text(capability, "name")));

	return json_array_append_new(owned, rules) < 0 ? NULL : rules;
}

/* Its rules, secrets and limits are those of the module's own cells. */
static json_t *
server_of(const json_t *content, const char *hash)
{
	static const char *const keys[][2] = { { "rules", "egress" }, { "secrets", "secrets" }, { "limits", "limits" } };
	json_t *policy = json_object();
	int failed = 0;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *value = json_object_get(content, keys[i][0]);

		if (json_array_size(value) > 0 || json_object_size(value) > 0)
			failed |= json_object_set(policy, keys[i][1], value);
	}
	if (failed != 0 || json_object_size(policy) == 0) {
		json_decref(policy);
		policy = NULL;
	}
	return failed != 0 ? NULL : json_pack("{s:o,s:o*}", "wasm", json_sprintf(POLICY_TOOLS_CAPABILITY "%s", hash), "policy",
	                                      policy);
}

int
dispatch_module_servers(json_t *const *contents, const json_t *named, json_t *policy, struct err *err)
{
	OWN(json_decrefp) json_t *servers = json_object(), *tools = NULL;

	for (size_t i = 0; i < json_array_size(named); i++) {
		const json_t *one = json_array_get(named, i);

		if (dispatch_is_module(contents[i]) &&
		    json_object_set_new(servers, dispatch_text(one, "name"), server_of(contents[i], dispatch_text(one, "hash"))) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	if (json_object_size(servers) == 0)
		return 0;
	tools = json_pack("{s:O}", "servers", servers);
	return json_object_set(policy, "tools", tools) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}
