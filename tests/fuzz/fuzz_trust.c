/* fuzz_trust.c - lists of mounts, and the words of commands: every path that is found is absolute. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "trust/trust.h"

#define WORDS_MAX 16

static int
take_path(void *arg, const char *path)
{
	(void)arg;
	assert((path[0] == '/' || path[0] == '\0') && strlen(path) < PATH_MAX);
	return 0;
}

static int
take_alias(void *arg, const char *path)
{
	(void)arg;
	assert(strlen(path) < PATH_MAX);
	return 0;
}

static void
look_at_mounts(char *text)
{
	struct trust_mounts *m = NULL;

	if (trust_mounts_parse(text, &m, NULL) < 0)
		return;
	for (int below = 0; below < 2; below++) {
		(void)trust_mounts_each(m, "/a/b", below != 0, take_alias, NULL);
		(void)trust_mounts_each(m, "", below != 0, take_alias, NULL);
	}
	trust_mounts_freep(&m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text, *words[WORDS_MAX + 1] = {0};
	size_t n = 0;

	if (size < 2 || size > 8192)
		return 0;
	text = malloc(size);
	assert(text != NULL);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if ((data[0] & 1) != 0) {
		look_at_mounts(text);
		return 0;
	}
	for (char *at = text; n < WORDS_MAX && at < text + size; at += strlen(at) + 1)
		words[n++] = at;
	(void)trust_each_path(words, take_path, NULL);
	free(text);
	return 0;
}
