/* fuzz_shape.c - shapes: TEXT, a newline and a value. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "credential/shape.h"
#include "fuzz.h"
#include "vault/source.h"

static size_t
length_of(const struct shape *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->items[i].min;
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\n', size);
	OWN(freep) char *text = strndup((const char *)data, end != NULL ? (size_t)(end - data) : size);
	const char *value = end != NULL ? (const char *)end + 1 : "";
	size_t len = end != NULL ? size - (size_t)(value - (const char *)data) : 0;
	struct shape shape, exact, guessed;
	struct source_words words;
	struct err err = {0};
	int r;

	if (text == NULL)
		return 0;
	r = shape_parse(text, &shape, &err);
	assert((r == 0) == (err.text[0] == '\0'));
	if (r == 0 && shape_fit(&shape, value, len, &exact))
		assert(length_of(&exact) == len);
	shape_guess(value, len, &guessed);
	/* What is guessed fits, but for characters of no alphabet. */
	if (guessed.kind == SHAPE_ITEMS && len > 0)
		assert(length_of(&guessed) == len || len > SHAPE_TEXT_MAX);
	if (source_split(text, &words, NULL) == 0)
		assert(words.n > 0 && words.at[words.n] == NULL);
	return 0;
}
