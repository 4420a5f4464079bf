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

const char *
target_pool(const char *target)
{
	return strncmp(target, TARGET_POOL, sizeof(TARGET_POOL) - 1) == 0 ? target + sizeof(TARGET_POOL) - 1 : NULL;
}

static int
find_pool(const char *name, const struct target **ret_target, struct err *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > TARGET_POOL_NAME_MAX || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return err_set(err, EINVAL, "'%.64s' is no name of a pool: use 1 to %d of a-z, 0-9 and '-'", name,
		               TARGET_POOL_NAME_MAX);
	*ret_target = &target_local;
	return 0;
}

int
target_find(const char *name, const struct target **ret_target, struct err *err)
{
	char known[TARGETS_MAX * 16] = "";
	size_t len = 0;

	if (target_pool(name) != NULL)
		return find_pool(target_pool(name), ret_target, err);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		if (strcmp(targets[i]->name, name) == 0) {
			*ret_target = targets[i];
			return 0;
		}
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%.13s", i > 0 ? ", " : "", targets[i]->name);
	}
	return err_set(err, EINVAL, "there is no target '%.64s': there is %s, and " TARGET_POOL "NAME for workers", name,
	               known);
}
