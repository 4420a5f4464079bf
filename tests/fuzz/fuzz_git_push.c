/* fuzz_git_push.c - the body of a push: pkt-lines and a pack; the first byte says how it
 * is cut and whether secrets are looked for. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "inspect/git.h"

static int
read_push(const uint8_t *data, size_t size, size_t step, bool secrets, struct git_push **ret)
{
	int r = git_push_new(secrets, ret);

	for (size_t i = 0; r == 0 && i < size; i += step)
		r = git_push_feed(*ret, data + i, size - i < step ? size - i : step);
	return r == 0 ? git_push_finish(*ret) : r;
}

static void
compare(const struct git_push *a, const struct git_push *b)
{
	assert(a->n_commands == b->n_commands);
	for (size_t i = 0; i < a->n_commands; i++) {
		assert(strcmp(a->commands[i].ref, b->commands[i].ref) == 0);
		assert(a->commands[i].kind == b->commands[i].kind);
		assert(a->commands[i].descends == b->commands[i].descends);
		assert(!a->commands[i].descends || a->commands[i].kind == GIT_UPDATE);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(git_push_freep) struct git_push *whole = NULL, *cut = NULL;
	bool secrets;
	size_t step;
	int r;

	if (size < 2)
		return 0;
	secrets = (data[0] & 1) != 0;
	step = (size_t)(data[0] >> 1) + 1;
	data++;
	size--;
	r = read_push(data, size, size, secrets, &whole);
	assert(read_push(data, size, step, secrets, &cut) == r);
	if (r == 0)
		compare(whole, cut);
	return 0;
}
