/* exe.c - see exe.h. */
#include "base/exe.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

int
exe_folder(char ret_path[PATH_MAX], struct err *err)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return err_errno(err, "cannot find cloister's own folder (is /proc mounted?)");
	exe[n] = '\0';
	snprintf(ret_path, PATH_MAX, "%s", dirname(exe));
	return 0;
}

/* In a build it is beside libexec/, in an installation in bin/; and it finds itself. */
int
exe_find_cloister(char ret_path[PATH_MAX], struct err *err)
{
	static const char *const places[] = { "cloister", "../cloister", "../../bin/cloister" };
	char dir[PATH_MAX], path[PATH_MAX + 32] = "";
	struct stat st;
	int r = exe_folder(dir, err);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, places[i]);
		/* In an installation, the second candidate is the helpers' own folder. */
		if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
			return realpath(path, ret_path) != NULL ? 0 : err_errno(err, "cannot find cloister");
	}
	return r < 0 ? r : err_errno(err, "cannot find '%s'", path);
}

/* A helper is beside the other helpers.  `cloister` has them in libexec/ where it was built, and in
 * ../libexec/cloister where it is installed. */
int
exe_find_helper(const char *name, char ret_path[PATH_MAX], struct err *err)
{
	static const char *const places[] = { ".", "libexec", "../libexec/cloister" };
	char dir[PATH_MAX];
	int r = exe_folder(dir, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (snprintf(ret_path, PATH_MAX, "%s/%s/%s", dir, places[i], name) < PATH_MAX &&
		    access(ret_path, F_OK) == 0)
			return 0;
	return err_errno(err, "cannot find '%.200s'", name);
}
