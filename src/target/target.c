/* target.c - the list of targets. */
#include "target/target.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

static const struct target *const targets[] = { &target_local, &target_docker };

static_assert(ARRAY_LEN(targets) <= TARGETS_MAX, "a dispatcher has room for all");

const struct target *
target_nth(size_t i)
{
	return i < ARRAY_LEN(targets) ? targets[i] : NULL;
}

int
target_find(const char *name, const struct target **ret_target, struct err *err)
{
	char known[TARGETS_MAX * 16] = "";
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		if (strcmp(targets[i]->name, name) == 0) {
			*ret_target = targets[i];
			return 0;
		}
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%.13s", i > 0 ? ", " : "", targets[i]->name);
	}
	return err_set(err, EINVAL, "there is no target '%.64s': there is %s", name, known);
}
