/* boundary_names.c - the names of the kinds of walls. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "boundary/boundary.h"

const char *const boundary_names[] = {
	BOUNDARY_DEFAULT,
	BOUNDARY_MICROVM,
#ifdef CLOISTER_MUTANT
	BOUNDARY_STREAM,
#endif
	NULL
};

int
boundary_check_name(const char *name, struct err *err)
{
	char list[128] = "";
	size_t len = 0;

	for (size_t i = 0; boundary_names[i] != NULL; i++) {
		if (strcmp(name, boundary_names[i]) == 0)
			return 0;
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", i == 0 ? "" :
		                        boundary_names[i + 1] == NULL ? " or " : ", ", boundary_names[i]);
	}
	return err_set(err, EINVAL, "there is no boundary '%s': use %s", name, list);
}
