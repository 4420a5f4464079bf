/* ns_entries.c - the entries of a root file system that are a cell's programs. */
#include <string.h>

#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/overlay/overlay.h"

bool
ns_is_programs(const char *name)
{
	static const char *const others[] = { ".", "..", "dev", "etc", "home", "proc", "run", "sys", "tmp", "var",
	                                      OVERLAY_CHANGES, OVERLAY_LOWER };

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (strcmp(name, others[i]) == 0)
			return false;
	return true;
}
