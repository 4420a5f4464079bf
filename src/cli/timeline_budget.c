/* timeline_budget.c - prints budget events for people. */
#include <jansson.h>
#include <string.h>

#include "base/text.h"
#include "cli/timeline.h"
#include "policy/policy_budget.h"

static uint64_t
number_of(const struct timeline_event *e, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(e->json, key));

	return n > 0 ? (uint64_t)n : 0;
}

static void
put_text(FILE *out, const struct timeline_event *e, const char *key)
{
	const char *text = json_string_value(json_object_get(e->json, key));

	if (text != NULL)
		text_print_safe(out, text, strlen(text), false);
}

void
timeline_print_raised(FILE *out, const struct timeline_event *e)
{
	const char *name = json_string_value(json_object_get(e->json, "kind"));
	int kind = name != NULL ? policy_kind_find(name) : -1;
	char limit[POLICY_AMOUNT_TEXT];

	fputc(' ', out);
	put_text(out, e, "budget");
	fputc(' ', out);
	put_text(out, e, "kind");
	if (kind >= 0)
		fprintf(out, " to %s", policy_amount_format(limit, (enum policy_kind)kind, number_of(e, "limit")));
}

static void
print_budget(FILE *out, const struct timeline_event *e)
{
	const char *name = json_string_value(json_object_get(e->json, "kind"));
	int kind = name != NULL ? policy_kind_find(name) : -1;
	char used[POLICY_AMOUNT_TEXT], limit[POLICY_AMOUNT_TEXT];

	fputs("budget ", out);
	put_text(out, e, "budget");
	fprintf(out, " %s", strcmp(e->did, "reached") == 0 ? "used up: " : "nearly used up: ");
	put_text(out, e, "kind");
	if (kind >= 0)
		fprintf(out, " %s of %s", policy_amount_format(used, (enum policy_kind)kind, number_of(e, "used")),
		        policy_amount_format(limit, (enum policy_kind)kind, number_of(e, "limit")));
}

void
timeline_print_cost(FILE *out, const struct timeline_event *e)
{
	uint64_t in = number_of(e, "input_tokens") + number_of(e, "cache_read_tokens") +
	              number_of(e, "cache_write_tokens");
	char price[POLICY_AMOUNT_TEXT];

	if (json_object_get(e->json, "nano_usd") == NULL)
		return;
	fputs("  (", out);
	put_text(out, e, "model");
	fprintf(out, "%s%llu tokens in, %llu out, %s%s)", json_object_get(e->json, "model") != NULL ? ": " : "",
	        (unsigned long long)in, (unsigned long long)number_of(e, "output_tokens"),
	        policy_amount_format(price, POLICY_MONEY, number_of(e, "nano_usd")),
	        json_is_true(json_object_get(e->json, "estimated")) ? ", estimated" : "");
}

bool
timeline_is_of_budget(const struct timeline_event *e)
{
	return strcmp(e->type, "budget") == 0 || strcmp(e->type, "usage") == 0;
}

void
timeline_print_budget(FILE *out, const struct timeline_event *e)
{
	if (strcmp(e->type, "budget") == 0) {
		print_budget(out, e);
		return;
	}
	fputs("model's answer at ", out);
	put_text(out, e, "host");
	timeline_print_cost(out, e);
}
