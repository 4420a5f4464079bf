/* dispatch_spawn.c - starts the programs that do the work. */
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "dispatch/dispatch_parts.h"

/* Signals from the terminal must not reach it. */
int
dispatch_spawn(const char *path, char *const *argv, const int fds[DISPATCH_SPAWN_FDS], struct err *err)
{
	struct spawn_fd places[DISPATCH_SPAWN_FDS];
	const struct spawn how = { .argv = argv, .path = path, .cwd = "/", .fds = places,
		.n_fds = ARRAY_LEN(places), .flags = SPAWN_APART };
	int pidfd, r;

	for (int i = 0; i < DISPATCH_SPAWN_FDS; i++)
		places[i] = (struct spawn_fd){ fds[i] < 0 && i <= STDERR_FILENO ? SPAWN_NULL : fds[i], i };
	r = spawn_start(&how, &pidfd, err);
	return r < 0 ? r : pidfd;
}

int
dispatch_prune_start(uint64_t older_ms, struct err *err)
{
	char older[48];

	snprintf(older, sizeof(older), "--older=%llums", (unsigned long long)older_ms);
	return dispatch_spawn(NULL, (char *[]){ (char[]){ "cloister-dispatch" },
		(char[]){ "dispatches" }, older, (char[]){ "--" }, (char[]){ "prune" }, NULL },
		(const int[]){ -1, -1, -1, -1 }, err);
}
