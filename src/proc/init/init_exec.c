/* init_exec.c - executes a program where a policy forbids that to everyone else. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/init/init.h"

static void
execute(const char *file, char *const *argv, char *const *env, const uint64_t pass[FILTER_OWN_PASS])
{
	syscall(SYS_execve, file, argv, env, pass[0], pass[1], pass[2]);
}

/* Whether the next folder of PATH may have it. */
static bool
goes_on(int error)
{
	return error == ENOENT || error == ENOTDIR || error == EACCES || error == ESTALE || error == ENODEV || error == ETIMEDOUT ||
	       error == ENAMETOOLONG;
}

void
init_exec(char *const *argv, char *const *env, const uint64_t pass[FILTER_OWN_PASS])
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];
	bool is_denied = false;

	if (argv[0][0] == '\0') {
		errno = ENOENT;
		return;
	}
	if (strchr(argv[0], '/') != NULL) {
		execute(argv[0], argv, env, pass);
		return;
	}
	while (path != NULL) {
		size_t len = strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)len, path, len > 0 ? "/" : "", argv[0]);

		errno = ENAMETOOLONG;
		if (n >= 0 && (size_t)n < sizeof(file))
			execute(file, argv, env, pass);
		if (!goes_on(errno))
			return;
		is_denied |= errno == EACCES;
		path = path[len] == ':' ? path + len + 1 : NULL;
	}
	errno = is_denied ? EACCES : ENOENT;
}
