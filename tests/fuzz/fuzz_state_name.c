/* fuzz_state_name.c - names of files and targets of links that an agent wants in its state: a path, a newline, a target. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "state/state_parts.h"

/* Where TARGET leads from the folder of PATH, if no name on the way is a link: how many folders deep, or below zero. */
static long
depth_of(const char *path, const char *target)
{
	long depth = 0, least = 0;

	for (const char *p = path; (p = strchr(p, '/')) != NULL; p++)
		depth++;
	least = depth;
	for (const char *p = target; *p != '\0'; p += strcspn(p, "/"), p += *p == '/') {
		size_t n = strcspn(p, "/");

		depth += n == 2 && memcmp(p, "..", 2) == 0 ? -1 : n == 0 || (n == 1 && *p == '.') ? 0 : 1;
		least = depth < least ? depth : least;
	}
	return least;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *path = malloc(size + 1);
	char *target;

	assert(path != NULL);
	memcpy(path, data, size);
	path[size] = '\0';
	target = strchr(path, '\n');
	(void)state_is_name(path);
	if (state_refuses_name((const char *)data, size) == NULL) {
		assert(size > 0 && size <= 255 && memchr(data, '/', size) == NULL && memchr(data, '\0', size) == NULL);
		assert(size != 4 || strncasecmp((const char *)data, ".git", 4) != 0);
	}
	if (target == NULL || strlen(path) != size)
		return 0;
	*target++ = '\0';
	if (!state_link_leads_out(path, target, strlen(target)))
		assert(*target != '/' && depth_of(path, target) >= 0);
	return 0;
}
