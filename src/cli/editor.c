/* editor.c - starts the operator's editor. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "trust/trust.h"

static const char *
find_editor(void)
{
	static const char *const names[] = { "VISUAL", "EDITOR" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (getenv(names[i]) != NULL && getenv(names[i])[0] != '\0')
			return getenv(names[i]);
	return "vi";
}

/* The shell starts the editor, which is one of the programs that the script names. */
static int
check_program(void *arg, const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0 ? trust_program(path, arg) : 0;
}

/* The editor may be given with arguments of its own. */
int
cli_run_editor(const char *path, struct err *err)
{
	const char *editor = find_editor();
	OWN(freep) char *script = str_format("exec %s \"$1\"", editor);
	char shell[] = "/bin/sh", program[PATH_MAX];
	int r;

	if (script == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = trust_command(TRUST_EDITOR, (char *[]){ shell, script, NULL }, program, err);
	r = r == 0 ? trust_each_path((char *[]){ shell, script, NULL }, check_program, err) : r;
	if (r < 0)
		return r;
	/* Some editors obey files in the current folder. */
	r = spawn_run(&(struct spawn){ .argv = (char *[]){ (char[]){ "sh" }, (char[]){ "-c" }, script,
		(char[]){ "sh" }, (char *)(uintptr_t)path, NULL }, .path = program,
		.cwd = trust_here() || path[0] != '/' ? NULL : "/" }, err);
	if (r < 0)
		return r;
	if (r != 0)
		return err_set(err, ECANCELED, "the editor '%s' failed, so nothing was changed: set "
		               "VISUAL or EDITOR to another one", editor);
	return 0;
}
