/* main.c - cloister-registry: the commands that read and change registered objects.
 *
 * `cloister` becomes it; see base/args.h for its arguments. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "proc/registry/registry_proc.h"

static const struct {
	const char *name;
	registry_command *run;
} commands[] = {
	{ "capability", cmd_objects },
	{ "agent", cmd_objects },
	{ "env", cmd_objects },
	{ "policy", cmd_objects },
	{ "target", cmd_objects },
	{ "assign", cmd_assign },
	{ "store", cmd_store },
	{ "doctor", cmd_doctor },
};

static int
run(int argc, char **argv, struct err *err)
{
	struct args args;

	if (!args_parse(argc, argv, &args))
		return err_set(err, EINVAL, "cloister-registry is started by cloister only");
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, args.command) == 0)
			return commands[i].run(&args, err);
	return err_set(err, EINVAL, "cloister-registry has no command '%.64s'", args.command);
}

int
main(int argc, char **argv)
{
	struct err err = {0};
	int status = run(argc, argv, &err);

	if (status < 0)
		return tell_error(&err);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		err_set(&err, EIO, "cannot write all of the output");
		return tell_error(&err);
	}
	return status;
}
