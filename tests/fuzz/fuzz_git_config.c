/* fuzz_git_config.c - a git configuration: whatever it is, what is told of it is text, and what
 * was told is told again when it is written plainly. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"
#include "workspace/git_config.h"

struct told {
	struct buf plain;               /* a configuration that says the same */
	size_t n, same;
};

static void
put_quoted(struct buf *b, const char *value)
{
	buf_put(b, "\"", 1);
	for (; *value != '\0'; value++) {
		if (strchr("\"\\\n", *value) != NULL)
			buf_put(b, "\\", 1);
		buf_put(b, *value == '\n' ? "n" : value, 1);
	}
	buf_put(b, "\"\n", 2);
}

static int
take(void *arg, const char *section, const char *key, const char *value)
{
	struct told *told = arg;

	assert(strlen(section) < GIT_CONFIG_NAME_MAX && strlen(key) < GIT_CONFIG_NAME_MAX);
	told->n++;
	if (key[0] == '\0')
		return 0;
	told->same++;
	buf_put(&told->plain, "[", 1);
	buf_put(&told->plain, section, strlen(section));
	buf_put(&told->plain, "]", 1);
	buf_put(&told->plain, key, strlen(key));
	buf_put(&told->plain, "=", 1);
	put_quoted(&told->plain, value);
	return 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	struct told first = {0}, second = {0};

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	buf_init(&first.plain, 1 << 24);
	buf_init(&second.plain, 1 << 24);
	(void)git_config_each(text, size, take, &first, NULL);
	assert(first.n <= size);
	if (!buf_failed(&first.plain) && first.same > 0) {
		assert(git_config_each((const char *)first.plain.data, first.plain.len, take, &second,
		                       NULL) == 0);
		assert(second.n == first.same && second.plain.len == first.plain.len &&
		       memcmp(second.plain.data, first.plain.data, first.plain.len) == 0);
	}
	buf_free(&first.plain);
	buf_free(&second.plain);
	return 0;
}
