/* fuzz_text.c - an agent's bytes made safe for a terminal, and put into JSON. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "base/utf8.h"
#include "fuzz.h"

/* Nothing in it may do more than show. */
static void
check_harmless(const char *s, size_t len, bool keep_lines)
{
	uint32_t code;
	size_t n;

	for (; len > 0; s += n, len -= n) {
		n = utf8_next(s, len, &code);
		assert(n > 0);
		assert(!utf8_is_control(code) || (keep_lines && (code == '\n' || code == '\t')));
	}
}

static void
check_safe(const char *s, size_t len, bool keep_lines)
{
	OWN(freep) char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	assert(out != NULL);
	text_print_safe(out, s, len, keep_lines);
	fclose(out);
	assert(size >= len && size <= 4 * len);
	check_harmless(text, size, keep_lines);
}

static void
check_json(const char *s)
{
	OWN(freep) char *text = NULL;
	size_t size = 0;
	struct json w = { .out = open_memstream(&text, &size) };

	assert(w.out != NULL);
	json_str(&w, NULL, s);
	fclose(w.out);
	check_harmless(text, size, false);
	assert(size >= 2 && text[0] == '"' && text[size - 1] == '"');
	for (size_t i = 1; i < size - 1; i++) {
		assert(text[i] != '"');
		if (text[i] == '\\') {
			i++;
			assert(i < size - 1 && strchr("\"\\bfnrtu", text[i]) != NULL);
		}
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "run", "--memory", "discard", NULL };
	OWN(freep) char *text = malloc(size + 1);

	if (text == NULL)
		return 0;
	check_safe((const char *)data, size, true);
	check_safe((const char *)data, size, false);
	memcpy(text, data, size);
	text[size] = '\0';
	check_json(text);
	text_nearest(text, names);
	return 0;
}
