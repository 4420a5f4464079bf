/* fuzz_git_refs.c - files of git's refs: whatever they are, what is told of them are ids and names, and
 * what was told is told again when it is written plainly. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "workspace/git_refs.h"

static bool
is_id(const char *s)
{
	size_t len = strlen(s);

	return (len == 40 || len == 64) && strspn(s, "0123456789abcdef") == len;
}

static void
try_ref(const char *text, size_t size)
{
	char value[GIT_REF_MAX], again[GIT_REF_MAX], plain[GIT_REF_MAX + 8];
	int n;

	if (!git_ref_parse(text, size, value))
		return;
	assert(is_id(value) || git_ref_is_name(value));
	n = snprintf(plain, sizeof(plain), "%s%s\n", is_id(value) ? "" : "ref: ", value);
	assert((size_t)n == size && memcmp(plain, text, size) == 0);
	assert(git_ref_parse(plain, (size_t)n, again) && strcmp(value, again) == 0);
}

static int
parse(const void *text, size_t size, struct git_packed *ret)
{
	char *copy = malloc(size + 1);

	if (copy == NULL)
		return -1;
	memcpy(copy, text, size);
	copy[size] = '\0';
	return git_packed_parse(copy, size, ret, NULL);
}

static void
try_packed(const char *text, size_t size)
{
	OWN(git_packed_free) struct git_packed first = {0}, second = {0};
	OWN(buf_free) struct buf plain = {0};

	if (size == 0 || parse(text, size, &first) < 0)
		return;
	buf_init(&plain, 1 << 24);
	for (size_t i = 0; i < first.n; i++) {
		const struct git_packed_ref *ref = &first.refs[i];

		assert(is_id(ref->id) && git_ref_is_name(ref->name));
		assert(git_packed_find(&first, ref->name) != NULL);
		assert(i == 0 || strcmp(first.refs[i - 1].name, ref->name) <= 0);
		buf_put(&plain, ref->id, strlen(ref->id));
		buf_put(&plain, " ", 1);
		buf_put(&plain, ref->name, strlen(ref->name));
		buf_put(&plain, "\n", 1);
	}
	assert(plain.len <= size);
	if (first.n == 0)
		return;
	assert(parse(plain.data, plain.len, &second) == 0 && second.n == first.n);
	for (size_t i = 0; i < first.n; i++)
		assert(strcmp(first.refs[i].name, second.refs[i].name) == 0);
}

/* The ids are of the input, so that some of it leads somewhere. */
static void
try_log(const char *text, size_t size)
{
	char old[41] = "", new[41] = "";
	size_t lines = 0;

	for (size_t i = 0; i < size; i++)
		lines += text[i] == '\n';
	if (size >= 40)
		memcpy(old, text, 40);
	for (size_t i = size; i >= 82; i--)
		if (new[0] == '\0' && (i == 82 || text[i - 83] == '\n'))
			memcpy(new, text + i - 41, 40);
	assert(git_log_steps(text, size, old, new) <= lines);
	assert(git_log_steps(text, size, NULL, new) <= lines);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of its very size, so that a byte too far is seen. */
	OWN(freep) char *text = malloc(size == 0 ? 1 : size);

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	try_ref(text, size);
	try_packed(text, size);
	try_log(text, size);
	return 0;
}
