/* fuzz_plan_listing.c - bytes that may be the listing of a tree: each path is beneath the folder, and they ascend. */
#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "fuzz.h"
#include "plan/plan_files.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct plan_listing l = { .at = (const char *)data, .end = (const char *)data + size };
	const char *before = NULL;
	struct plan_entry e;
	struct err err = {0};
	int r;

	while ((r = plan_next_entry(&l, &e, &err)) == 1) {
		assert(before == NULL || strcmp(before, e.path) < 0);
		assert(e.path[0] != '/' && strlen(e.path) < PLAN_PATH_MAX && strlen(e.hash) == HASH_HEX);
		assert(strncmp(e.path, "../", 3) != 0 && strcmp(e.path, "..") != 0 && strstr(e.path, "/../") == NULL);
		assert((e.mode & ~(mode_t)S_IFMT) <= 0777);
		before = e.path;
	}
	assert((r == 0) == (err.text[0] == '\0'));
	assert(r < 0 || l.at == l.end);
	return 0;
}
