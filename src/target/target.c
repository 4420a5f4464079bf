/* target.c - the list of targets. */
#include "target/target.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

static const struct target *const targets[] = { &target_local };

int
target_find(const char *name, const struct target **ret_target, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		if (strcmp(targets[i]->name, name) == 0) {
			*ret_target = targets[i];
			return 0;
		}
	return err_set(err, EINVAL, "there is no target '%.64s': there is local", name);
}
