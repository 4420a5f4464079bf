/* approvals_print.c - see approvals.h. */
#include "cli/approvals.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/canon.h"
#include "cell/cell_policy.h"

static const char *
text_of(const json_t *at, const char *key)
{
	const char *text = json_string_value(json_object_get(at, key));

	return text != NULL ? text : "";
}

static void
safe(const char *text)
{
	text_print_safe(stdout, text, strlen(text), false);
}

static void
line(const char *name, const char *text)
{
	if (text[0] == '\0')
		return;
	printf("    %-8s ", name);
	safe(text);
	printf("\n");
}

/* Prints each line of TEXT behind the name, or beneath it. */
static void
lines(const char *name, const char *text)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");

		printf("    %-8s ", name);
		text_print_safe(stdout, text, n, false);
		printf("\n");
		text += n + (text[n] == '\n');
		name = "";
	}
}

static void
words(const char *name, const json_t *list)
{
	const json_t *word;
	size_t i;

	if (json_array_size(list) == 0)
		return;
	printf("    %-8s ", name);
	json_array_foreach(list, i, word) {
		printf("%s", i > 0 ? ", " : "");
		safe(json_is_string(word) ? json_string_value(word) : text_of(word, "by"));
	}
	printf("\n");
}

static void
print_head(const json_t *a)
{
	const char *method = text_of(a, "method"), *scheme = text_of(a, "scheme");
	json_int_t port = json_integer_value(json_object_get(a, "port"));
	bool usual = port == (strcmp(scheme, "https") == 0 ? 443 : strcmp(scheme, "http") == 0 ? 80 : 0);

	printf("%s  ", text_of(a, "id"));
	safe(method[0] != '\0' ? method : text_of(a, "protocol"));
	printf(" %s%s", scheme, scheme[0] != '\0' ? "://" : "");
	safe(text_of(a, "host"));
	if (!usual)
		printf(":%lld", (long long)port);
	safe(text_of(a, "path"));
	if (strcmp(text_of(a, "state"), "pending") != 0)
		printf("  %s", strcmp(text_of(a, "state"), "timed_out") == 0 ? "timed out" :
		       text_of(a, "state"));
	printf("\n");
}

static void
print_whom(const json_t *a)
{
	const char *name = text_of(a, "name"), *principal = text_of(a, "principal");
	const char *chain = text_of(a, "chain");

	printf("    %-8s ", "cell");
	safe(name[0] != '\0' ? name : text_of(a, "cell"));
	if (principal[0] != '\0') {
		printf(", for ");
		safe(principal);
	}
	if (chain[0] != '\0') {
		printf(", through ");
		safe(chain);
	}
	printf("\n");
}

static void
print_body(const json_t *a)
{
	const json_t *body = json_object_get(a, "body"), *size = json_object_get(body, "size");
	const char *type = text_of(body, "type");

	if (type[0] == '\0' && json_integer_value(size) == 0)
		return;
	printf("    %-8s ", "body");
	safe(type[0] != '\0' ? type : "of no type");
	if (json_is_integer(size))
		printf(", %" JSON_INTEGER_FORMAT " byte%s", json_integer_value(size),
		       json_integer_value(size) == 1 ? "" : "s");
	printf("\n");
	lines("", text_of(body, "shape"));
}

/* Prints the time until the timeout. */
static void
print_left(const json_t *a)
{
	struct tm tm = {0};
	char time_text[NUM_TEXT_MAX];
	time_t until, now = time(NULL);

	if (strptime(text_of(a, "until"), "%Y-%m-%dT%H:%M:%S", &tm) == NULL)
		return;
	until = timegm(&tm);
	printf("    %-8s %s%s\n", "left", num_format_duration(time_text, until > now ?
	       (uint64_t)(until - now) * 1000 : 0), json_is_true(json_object_get(a, "frozen")) ?
	       ", and the cell is frozen" : "");
}

static void
print_answers(const json_t *a)
{
	const json_t *answer = json_object_get(a, "answer");
	json_int_t needs = json_integer_value(json_object_get(a, "needs"));

	words("asks", json_object_get(a, "approvers"));
	if (needs > 1)
		printf("    %-8s %" JSON_INTEGER_FORMAT " of them\n", "needs", needs);
	words("approved", json_object_get(a, "given"));
	if (answer == NULL) {
		print_left(a);
		return;
	}
	line("by", text_of(answer, "by"));
	line("why", text_of(answer, "why"));
}

void
approvals_print(const char *json, bool behind_others)
{
	json_t *a = canon_value(json, strlen(json));
	char place[CELL_POLICY_PLACE];

	if (a == NULL)
		return;
	printf("%s", behind_others ? "\n" : "");
	print_head(a);
	print_whom(a);
	lines("query", text_of(a, "query"));
	lines("headers", text_of(a, "headers"));
	print_body(a);
	words("secrets", json_object_get(a, "secrets"));
	line("rule", text_of(a, "rule"));
	line("at", cell_policy_place(place, text_of(a, "place")));
	line("reason", text_of(a, "reason"));
	print_answers(a);
	json_decref(a);
}
