/* cell_rlimits.c - see cell_rlimits.h. */
#include "cell/cell_rlimits.h"

#include <string.h>
#include <sys/resource.h>

const char *const cell_rlimit_names[] = {
	[RLIMIT_CPU] = "RLIMIT_CPU", [RLIMIT_FSIZE] = "RLIMIT_FSIZE", [RLIMIT_DATA] = "RLIMIT_DATA",
	[RLIMIT_STACK] = "RLIMIT_STACK", [RLIMIT_CORE] = "RLIMIT_CORE", [RLIMIT_RSS] = "RLIMIT_RSS",
	[RLIMIT_NPROC] = "RLIMIT_NPROC", [RLIMIT_NOFILE] = "RLIMIT_NOFILE", [RLIMIT_MEMLOCK] = "RLIMIT_MEMLOCK",
	[RLIMIT_AS] = "RLIMIT_AS", [RLIMIT_LOCKS] = "RLIMIT_LOCKS", [RLIMIT_SIGPENDING] = "RLIMIT_SIGPENDING",
	[RLIMIT_MSGQUEUE] = "RLIMIT_MSGQUEUE", [RLIMIT_NICE] = "RLIMIT_NICE", [RLIMIT_RTPRIO] = "RLIMIT_RTPRIO",
	[RLIMIT_RTTIME] = "RLIMIT_RTTIME", [RLIMIT_NLIMITS] = NULL,
};

int
cell_rlimit_find(const char *name)
{
	for (int i = 0; cell_rlimit_names[i] != NULL; i++)
		if (strcmp(cell_rlimit_names[i], name) == 0)
			return i;
	return -1;
}
