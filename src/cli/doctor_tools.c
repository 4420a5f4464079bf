/* doctor_tools.c - see doctor.h: the executables that run MCP servers, each in a cell of its own. */
#include <stdint.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/findings.h"
#include "cli/doctor.h"

#define REFUSES 125                     /* each of them, if nobody starts it as it has to be */

/* It is there, and the libraries that it needs are. */
static bool
starts(const char *name)
{
	char *argv[] = { (char *)(uintptr_t)name, NULL };

	return spawn_run(&(struct spawn){ .argv = argv, .n_fds = 3, .fds = (struct spawn_fd[]){
		{ SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		{ SPAWN_NULL, STDERR_FILENO } }, .flags = SPAWN_DIES | SPAWN_ONLY }, NULL) == REFUSES;
}

void
doctor_tools(struct findings *f)
{
	static const char *const helpers[] = { "cloister-tools", "cloister-lock", "cloister-stdio" };
	const struct finding *obstacle = findings_obstacle(f);

	for (size_t i = 0; i < ARRAY_LEN(helpers); i++)
		if (!starts(helpers[i])) {
			findings_advise(findings_add(f, "tools", FINDING_MISSING, "%s does not start", helpers[i]),
			                "reinstall cloister, with the libraries that its package names");
			return;
		}
	if (obstacle != NULL)
		findings_add(f, "tools", FINDING_MISSING, "no MCP server, because '%s' is missing", obstacle->name);
	else
		findings_add(f, "tools", FINDING_OK, "each MCP server can run in a cell of its own");
}
