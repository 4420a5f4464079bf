/* review_print.c - prints a permission review, for people and for programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/review.h"

static void
put(const char *text)
{
	text_print_safe(stdout, text, strlen(text), false);
}

static void
put_uses(const struct review *v, const struct review_item *item, const char *what)
{
	printf("%" PRIu64 " %s%s in %u of %u run%s", item->uses, what, text_plural(item->uses), item->runs, v->n_runs, text_plural(v->n_runs));
}

static void
put_names(const char *before, const struct review_names *names)
{
	if (names->n > 0)
		fputs(before, stdout);
	for (size_t i = 0; i < names->n; i++) {
		fputs(i > 0 ? ", " : "", stdout);
		put(names->at[i]);
	}
	fputs(names->more ? ", ..." : "", stdout);
}

/* ---- for people ---- */

static void
print_rule(const struct review *v, const struct review_item *rule)
{
	fputs("  ", stdout);
	put(rule->key);
	fputs("  ", stdout);
	put(rule->text);
	fputs("\n      ", stdout);
	if (rule->uses == 0) {
		puts("never used");
		return;
	}
	put_uses(v, rule, "request");
	put_names("; methods ", &rule->methods);
	put_names("; hosts ", &rule->hosts);
	putchar('\n');
	if (rule->approved > 0 && rule->refused == 0)
		printf("      approved every time (%" PRIu64 "): an `allow` rule would do the same\n", rule->approved);
	else if (rule->approved + rule->refused > 0)
		printf("      approved %" PRIu64 " time%s, and %" PRIu64 " not\n", rule->approved, text_plural(rule->approved), rule->refused);
}

static void
print_rules(const struct review *v)
{
	bool headed = false;

	puts("\nRules");
	for (size_t i = 0; i < v->rules.n; i++)
		if (v->rules.at[i].is_given)
			print_rule(v, &v->rules.at[i]);
	if (v->rules.n == 0)
		puts("  none");
	for (size_t i = 0; i < v->rules.n; i++) {
		if (v->rules.at[i].is_given)
			continue;
		if (!headed)
			puts("  and rules that the policy no longer has, or that it includes:");
		headed = true;
		print_rule(v, &v->rules.at[i]);
	}
}

static void
print_refusals(const struct review *v)
{
	if (v->refusals.n > 0)
		puts("\nRefused");
	for (size_t i = 0; i < v->refusals.n; i++) {
		const struct review_item *item = &v->refusals.at[i];

		fputs("  ", stdout);
		put(item->key);
		fputs(item->text[0] != '\0' ? " " : "", stdout);
		put(item->text);
		fputs("  ", stdout);
		put_uses(v, item, "time");
		putchar('\n');
	}
}

static void
print_grants(const struct review *v)
{
	if (v->grants.n > 0)
		puts("\nGrants");
	for (size_t i = 0; i < v->grants.n; i++) {
		const struct review_item *item = &v->grants.at[i];

		fputs("  ", stdout);
		put(item->key);
		printf(" (%s)  ", item->access);
		if (v->n_recorded == 0)
			puts("use not recorded");
		else if (item->uses == 0)
			puts("never used");
		else if (item->writes == 0 && strcmp(item->access, "ro") != 0)
			puts("only read: `ro` is enough");
		else
			printf("used in %u of %u run%s\n", item->runs, v->n_runs, text_plural(v->n_runs));
	}
}

static void
print_secrets(const struct review *v)
{
	if (v->secrets.n > 0)
		puts("\nSecrets");
	for (size_t i = 0; i < v->secrets.n; i++) {
		fputs("  ", stdout);
		put(v->secrets.at[i].key);
		fputs("  ", stdout);
		if (v->secrets.at[i].uses == 0)
			fputs("never used", stdout);
		else
			put_uses(v, &v->secrets.at[i], "request");
		putchar('\n');
	}
}

static const char *
amount(enum review_limit limit, uint64_t n, char text[NUM_TEXT_MAX])
{
	if (limit == REVIEW_MEMORY)
		return num_format_size(text, n);
	if (limit == REVIEW_TIME)
		return num_format_duration(text, n);
	snprintf(text, NUM_TEXT_MAX, "%" PRIu64, n);
	return text;
}

static void
print_limits(const struct review *v)
{
	char used[NUM_TEXT_MAX], given[NUM_TEXT_MAX], lower[NUM_TEXT_MAX];

	puts("\nLimits");
	for (int i = 0; i < REVIEW_LIMITS; i++) {
		const enum review_limit limit = (enum review_limit)i;
		uint64_t enough = review_lower(limit, v->limits[i].given, v->limits[i].used);

		if (v->limits[i].given == 0)
			continue;
		printf("  %s  ", review_limit_names[i]);
		if (v->limits[i].known)
			printf("at most %s of %s", amount(limit, v->limits[i].used, used), amount(limit, v->limits[i].given, given));
		else
			printf("%s; use not recorded", amount(limit, v->limits[i].given, given));
		if (enough > 0)
			printf(": never near; %s is enough", amount(limit, enough, lower));
		putchar('\n');
	}
}

void
review_print(const struct review *v, const char *diff, const char *no_diff)
{
	printf("%u run%s, %.10s to %.10s", v->n_runs, text_plural(v->n_runs), v->first, v->last);
	if (v->n_recorded < v->n_runs)
		printf("; %u of them without a record of processes", v->n_runs - v->n_recorded);
	putchar('\n');
	print_rules(v);
	print_refusals(v);
	print_grants(v);
	print_secrets(v);
	print_limits(v);
	if (diff != NULL && diff[0] != '\0') {
		puts("\nThis would have been enough:\n");
		text_print_safe(stdout, diff, strlen(diff), true);
	} else if (diff != NULL) {
		puts("\nNo rule or limit can be narrowed.");
	} else if (no_diff != NULL) {
		fputs("\nNo narrower policy: ", stdout);
		put(no_diff);
		putchar('\n');
	}
}

/* ---- for programs ---- */

static void
put_list(struct json *w, const char *key, const struct review_names *names)
{
	json_open(w, key, '[');
	for (size_t i = 0; i < names->n; i++)
		json_str(w, NULL, names->at[i]);
	json_close(w, ']');
}

/* KEY and TEXT: the names of the items' members. */
static void
put_items(struct json *w, const char *name, const struct review_list *list, const char *key, const char *text)
{
	const bool rules = strcmp(name, "rules") == 0, grants = strcmp(name, "grants") == 0;

	json_open(w, name, '[');
	for (size_t i = 0; i < list->n; i++) {
		const struct review_item *item = &list->at[i];

		json_open(w, NULL, '{');
		json_str(w, key, item->key);
		if (text != NULL)
			json_str(w, text, item->text);
		json_u64(w, "uses", item->uses);
		json_u64(w, "runs", item->runs);
		if (grants) {
			json_str(w, "access", item->access);
			json_u64(w, "writes", item->writes);
		}
		if (rules) {
			json_bool(w, "in_policy", item->is_given);
			put_list(w, "methods", &item->methods);
			put_list(w, "hosts", &item->hosts);
			json_u64(w, "approved", item->approved);
			json_u64(w, "refused", item->refused);
		}
		json_close(w, '}');
	}
	json_close(w, ']');
}

void
review_print_json(const struct review *v, const char *diff, const char *no_diff)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_u64(&w, "runs", v->n_runs);
	json_u64(&w, "recorded", v->n_recorded);
	json_str(&w, "first", v->first);
	json_str(&w, "last", v->last);
	put_items(&w, "rules", &v->rules, "rule", "text");
	put_items(&w, "refusals", &v->refusals, "why", "of");
	put_items(&w, "grants", &v->grants, "path", "host");
	put_items(&w, "secrets", &v->secrets, "name", NULL);
	json_open(&w, "limits", '{');
	for (int i = 0; i < REVIEW_LIMITS; i++) {
		uint64_t enough = review_lower((enum review_limit)i, v->limits[i].given, v->limits[i].used);

		json_open(&w, review_limit_names[i], '{');
		json_u64(&w, "given", v->limits[i].given);
		if (v->limits[i].known)
			json_u64(&w, "used", v->limits[i].used);
		else
			json_none(&w, "used");
		if (enough > 0)
			json_u64(&w, "enough", enough);
		else
			json_none(&w, "enough");
		json_close(&w, '}');
	}
	json_close(&w, '}');
	json_str(&w, "diff", diff);
	json_str(&w, "no_diff", no_diff);
	json_close(&w, '}');
	putchar('\n');
}
