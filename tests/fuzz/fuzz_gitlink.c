/* fuzz_gitlink.c - the one line of a .git file. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "workspace/worktree.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	const char *path;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	path = worktree_parse_link(text);
	assert(path == NULL || (*path != '\0' && strchr(path, '\n') == NULL));
	return 0;
}
