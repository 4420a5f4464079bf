/* objects_text.c - prints registered objects, for people and for programs. */
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/canon.h"
#include "proc/registry/registry_proc.h"
#include "registry/object.h"

#define TEXT_MAX (2 * OBJECT_TEXT_MAX)  /* of anything printed */
#define DIGITS 12                       /* of a hash in a list */

int
objects_print_canonical(json_t *value, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = canon_dump(value, TEXT_MAX, &text, &len, err);

	if (r == 0)
		fwrite(text, 1, len, stdout);
	return r;
}

int
objects_print_json(json_t *value, struct err *err)
{
	OWN(json_decrefp) json_t *taken = value;
	int r = objects_print_canonical(taken, err);

	if (r == 0)
		putchar('\n');
	return r;
}

static void
print_time(const char *time)
{
	printf("%.10s %.8s", time, *time != '\0' ? time + 11 : "");
}

void
objects_print_page(const struct registry_page *page, bool history)
{
	int width = 4;

	for (size_t i = 0; i < page->n; i++)
		if ((int)strlen(page->at[i].name) > width)
			width = (int)strlen(page->at[i].name);
	if (page->n > 0)
		printf("%-*s  %-7s  %-*s  %s\n", history ? 0 : width, history ? "" : "NAME", "VERSION",
		       (int)strlen(HASH_PREFIX) + DIGITS, "HASH", "REGISTERED");
	for (size_t i = 0; i < page->n; i++) {
		const struct registry_version *v = &page->at[i];

		printf("%-*s  %7llu  %.*s  ", history ? 0 : width, history ? "" : v->name,
		       (unsigned long long)v->number, (int)strlen(HASH_PREFIX) + DIGITS, v->hash);
		print_time(v->created);
		if (*v->retired != '\0') {
			printf("  retired ");
			print_time(v->retired);
		} else if (history && v->newest) {
			printf("  newest");
		}
		putchar('\n');
	}
}

void
objects_print_one(const struct registry_version *v, json_t *content)
{
	printf("%-10s %s\n%-10s %s\n%-10s %llu%s\n%-10s ", registry_kinds[v->kind], v->name, "hash",
	       v->hash, "version", (unsigned long long)v->number, v->newest ? ", the newest" : "",
	       "registered");
	print_time(v->created);
	if (*v->retired != '\0') {
		printf("\n%-10s ", "retired");
		print_time(v->retired);
	}
	puts("\n");
	json_dumpf(content, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
	putchar('\n');
}

void
objects_print_status(const json_t *status)
{
	const char *error = json_string_value(json_object_get(status, "error"));

	if (!json_is_object(status))
		return;
	printf("\n%-10s %lld, %lld wanted\n", "workers", (long long)json_integer_value(json_object_get(status, "workers")),
	       (long long)json_integer_value(json_object_get(status, "wanted")));
	if (json_integer_value(json_object_get(status, "reserved")) > 0)
		printf("%-10s %lld slots, %lld free\n", "reserved", (long long)json_integer_value(json_object_get(status, "reserved")),
		       (long long)json_integer_value(json_object_get(status, "free")));
	if (error != NULL)
		printf("%-10s %s\n", "failing", error);
}

static int
print_change(const char *sign, const char *path, json_t *value, struct err *err)
{
	if (value == NULL)
		return 0;
	printf("%s ", sign);
	text_print_safe(stdout, path, strlen(path), false);
	printf(" ");
	return objects_print_json(json_incref(value), err);
}

int
objects_print_diff(json_t *diff, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < json_array_size(diff); i++) {
		json_t *entry = json_array_get(diff, i);
		const char *path = json_string_value(json_object_get(entry, "path"));

		r = print_change("-", path, json_object_get(entry, "from"), err);
		r = r == 0 ? print_change("+", path, json_object_get(entry, "to"), err) : r;
	}
	return r;
}
