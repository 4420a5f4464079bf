/* helper.c - finds the programs that cloister becomes or starts. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/cli.h"

/* They stand in libexec/ beside cloister where it was built, and in ../libexec/cloister
 * where it is installed. */
int
cli_become(const char *helper, char *const *env, struct err *err)
{
	static const char *const places[] = { "libexec", "../libexec/cloister" };
	char exe[PATH_MAX], path[PATH_MAX + 64], name[64];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *argv[] = { name, NULL };
	const char *dir;

	if (n < 0)
		return err_errno(err, "cannot find cloister's own folder (is /proc mounted?)");
	exe[n] = '\0';
	dir = dirname(exe);
	snprintf(name, sizeof(name), "%s", helper);
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof(path), "%s/%s/%s", dir, places[i], helper);
		execve(path, argv, env);
		if (errno != ENOENT && errno != ENOTDIR)
			break;
	}
	return err_errno(err, "cannot run '%s'", path);
}
