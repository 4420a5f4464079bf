/* fuzz_profile.c - profiles: whatever is read stays within its limits, and no path leaves the home folder. */
#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "fuzz.h"
#include "profile/profile.h"

static void
check_paths(char *const *list)
{
	assert(list == NULL || strv_len(list) <= PROFILE_LIST_MAX);
	for (; list != NULL && *list != NULL; list++) {
		assert((*list)[0] != '/' && (*list)[0] != '\0' && strlen(*list) <= PROFILE_PATH_MAX);
		assert(strstr(*list, "//") == NULL && strstr(*list, "/../") == NULL && strncmp(*list, "../", 3) != 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(profile_freep) struct profile *p = NULL;
	struct err err = {0};
	int r = profile_read("fuzz", (const char *)data, size, &p, &err);

	assert((r == 0) == (err.text[0] == '\0') && (r == 0) == (p != NULL));
	if (r < 0)
		return 0;
	assert(p->program[0] != '\0' && (p->program[0] == '/' || strchr(p->program, '/') == NULL));
	check_paths(p->keep);
	check_paths(p->read);
	for (size_t i = 0; i < p->n_secrets; i++)
		assert(p->secrets[i][0] != NULL);
	for (char **v = p->env; v != NULL && *v != NULL; v++)
		assert(strchr(*v, '=') > *v);
	for (size_t i = 0; i < p->mcp.n; i++)
		assert((p->mcp.servers[i].url != NULL) == (p->mcp.servers[i].allow != NULL) &&
		       (p->mcp.servers[i].url == NULL) == (p->mcp.servers[i].command != NULL));
	return 0;
}
