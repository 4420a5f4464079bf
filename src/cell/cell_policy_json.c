/* cell_policy_json.c - writes the policy of a running cell, for `policy show --json` and the API. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cell/cell_policy.h"
#include "policy/policy.h"

static void
put_rule(struct json *w, const struct cell_policy_now *now, size_t i, unsigned layer)
{
	const char *text = policy_rule_text(now->policy, (int)i);
	char verb[8] = "";
	size_t n = strcspn(text, " ");

	if (n < sizeof(verb))
		memcpy(verb, text, n);
	json_open(w, NULL, '{');
	json_u64(w, "n", i);
	json_u64(w, "layer", layer);
	json_str(w, "verb", verb);
	json_str(w, "text", text);
	json_str(w, "place", policy_rule_place(now->policy, (int)i));
	json_u64(w, "hits", i < now->n_counts ? now->counts[i] : 0);
	if (policy_rule_reason(now->policy, (int)i) != NULL)
		json_str(w, "reason", policy_rule_reason(now->policy, (int)i));
	json_close(w, '}');
}

char *
cell_policy_place(char text[CELL_POLICY_PLACE], const char *place)
{
	size_t n = strlen(CELL_POLICY_LIVE ":");
	size_t digits = strncmp(place, CELL_POLICY_LIVE ":", n) == 0 ? strspn(place + n, "0123456789") : 0;

	if (digits > 0 && place[n + digits] == ':')
		snprintf(text, CELL_POLICY_PLACE, CELL_POLICY_LIVE ", line %.*s", (int)digits, place + n);
	else
		snprintf(text, CELL_POLICY_PLACE, "%s", place);
	return text;
}

void
cell_policy_json(struct json *w, const struct cell_policy_now *now)
{
	const struct policy *layer = now->policy;
	size_t i = 0, end = 0;

	json_open(w, NULL, '{');
	json_str(w, "hash", now->hash);
	json_u64(w, "times", now->times);
	json_str(w, "text", now->text);
	json_open(w, "rules", '[');
	for (unsigned n = 0; layer != NULL; n++, layer = policy_outer(layer))
		for (end += policy_n_own(layer); i < end; i++)
			put_rule(w, now, i, n);
	json_close(w, ']');
	json_close(w, '}');
}
