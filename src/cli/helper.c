/* helper.c - waits for a helper that reports its own errors. */
#include <stdlib.h>

#include "base/spawn.h"
#include "cli/cli.h"

int
cli_await_vault(pid_t pid, struct err *err)
{
	int status = spawn_await(pid, err);

	if (status > 0)
		exit(CLI_FAILED);
	return status;
}
