/* boundary.c - the kinds of walls. */
#include "boundary/boundary.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

static const struct boundary *const kinds[] = {
	&boundary_namespace,
	&boundary_oci,
	&boundary_gvisor,
	&boundary_microvm,
	&boundary_docker,
	&boundary_process,
#ifdef CLOISTER_MUTANT
	&boundary_stream,
#endif
};

const struct boundary *
boundary_find(const char *name, struct err *err)
{
	if (name[0] == '\0')
		name = BOUNDARY_DEFAULT;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i]->name, name) == 0)
			return kinds[i];
	(void)policy_boundary_check_name(name, err);
	return NULL;
}

const struct boundary *
boundary_of(int entry)
{
	OWN(freep) char *name = NULL;
	int r = entry < 0 ? -ENOENT : read_file_at(entry, CELL_BOUNDARY, CELL_BOUNDARY_MAX, &name, NULL, NULL);

	return r == -ENOENT ? boundary_find("", NULL) : r < 0 ? NULL : boundary_find(name, NULL);
}
