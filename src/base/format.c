/* format.c - see format.h. */
#include "base/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"

#define NAME_MAX_LEN 128

int
format_check(const char *template, struct err *err)
{
	for (const char *at = template; *at != '\0'; at++) {
		const char *end;

		if (*at != '{')
			continue;
		if (at[1] == '{') {
			at++;
			continue;
		}
		end = strchr(at, '}');
		if (end == NULL || end == at + 1 || end - at > NAME_MAX_LEN)
			return err_set(err, EINVAL, "--format '%.64s' has a brace without a name: write '{cell} {state}', with names "
			               "of --json, and '{{' for a brace", template);
		at = end;
	}
	return 0;
}

static void
print_value(FILE *out, const json_t *value)
{
	const char *text = json_string_value(value);
	OWN(freep) char *dumped = NULL;

	if (json_is_array(value) && json_array_size(value) > 0) {
		for (size_t i = 0; i < json_array_size(value); i++) {
			if (i > 0)
				putc(' ', out);
			print_value(out, json_array_get(value, i));
		}
	} else if (text != NULL) {
		text_print_safe(out, text, strlen(text), false);
	} else if (value == NULL || json_is_null(value) || json_is_array(value)) {
		putc('-', out);
	} else {
		dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
		fputs(dumped != NULL ? dumped : "-", out);
	}
}

static const json_t *
find(const json_t *object, const char *name, size_t len)
{
	char path[NAME_MAX_LEN + 1], *rest = path, *part;

	snprintf(path, sizeof(path), "%.*s", (int)len, name);
	/* A cell's id is its member "cell". */
	if (strcmp(path, "id") == 0 && json_object_get(object, "id") == NULL)
		return json_object_get(object, "cell");
	while (object != NULL && (part = strsep(&rest, ".")) != NULL)
		object = json_object_get(object, part);
	return object;
}

void
format_print(FILE *out, const char *template, const json_t *object)
{
	for (const char *at = template; *at != '\0'; at++) {
		if (*at == '{' && at[1] != '{') {
			size_t len = strcspn(at + 1, "}");

			print_value(out, find(object, at + 1, len));
			at += len + 1;
		} else if (*at == '\\' && (at[1] == 't' || at[1] == 'n')) {
			putc(*++at == 't' ? '\t' : '\n', out);
		} else {
			at += *at == '{' || (*at == '}' && at[1] == '}');
			putc(*at, out);
		}
	}
	putc('\n', out);
}
