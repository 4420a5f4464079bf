/* main.c - cloister-plan: `cloister plan` and `cloister rebuild`, which become it.
 *
 * It has its operator's rights, because it signs plans and starts other commands of cloister.  It parses no byte of an
 * agent's: it copies files and hashes them (plan/plan_files.h).  See base/args.h for its arguments. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/progress.h"
#include "base/tell.h"
#include "proc/plan/plan_proc.h"

static int
run(int argc, char **argv, struct err *err)
{
	struct args args;

	if (!args_parse(argc, argv, &args))
		return err_set(err, EINVAL, "cloister-plan is started by cloister only");
	return strcmp(args.command, "rebuild") == 0 ? cmd_rebuild(&args, err) : cmd_plan(&args, err);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	int status;

	/* It has some open for each folder on the way down. */
	io_raise_files();
	status = run(argc, argv, &err);
	progress_end();
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_set(&err, EIO, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}
