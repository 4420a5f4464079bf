/* exec.c - `cloister exec`: runs another command in a running cell. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "boundary/exec.h"
#include "cell/cell_control.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "ipc/control_channel.h"

enum { OPT_ENV, OPT_TTY, OPT_NO_TTY };

struct asked {
	struct run run;                 /* environment and terminal, as for `run` */
	struct cell_spec cell;          /* the cell's own description */
	struct exec exec;
};

const struct cli_option cli_exec_options[] = {
	{ "env", 'e', "NAME[=VALUE]", "set a variable, or pass the operator's own", OPT_ENV },
	{ "tty", 't', NULL, "give the command a terminal (default on a terminal)", OPT_TTY },
	{ "no-tty", 'T', NULL, "give the command no terminal", OPT_NO_TTY },
	{ "clipboard", 0, NULL, "let the command set this terminal's clipboard",
	  CLI_FLAG(struct asked, run.spec.clipboard) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct asked *asked = arg;

	if (option->id == OPT_ENV)
		return run_add_env(&asked->run, value, NULL, err);
	if (option->id >= 0)
		asked->run.tty = option->id == OPT_TTY ? RUN_TTY_YES : RUN_TTY_NO;
	return 0;
}

static void
say(struct exec *exec, const char *text)
{
	fputs("cloister: ", stderr);
	text_print_safe(stderr, text, strlen(text), false);
	fputs(exec->stdio.raw ? "\r\n" : "\n", stderr);
}

/* The cell's own description: where the command runs and as which user. */
static int
ask_spec(const char *word, struct cell_spec *ret_spec, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, err);
	struct cell_info info;
	int r = runtime < 0 ? runtime : cell_control_info(runtime, &entry, &info, err);

	if (r < 0)
		return r;
	*ret_spec = info.spec;
	return info.state == CONTROL_STATE_SILENT ? cell_is_silent(&entry, err) : 0;
}

/* The placeholders of the cell's secrets, as the agent has them. */
static int
take_placeholders(struct run *run, const struct cell_spec *cell, struct err *err)
{
	size_t n = 0;

	run->placeholders = calloc(strv_len(cell->placeholders) + 1, sizeof(char *));
	if (run->placeholders == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (char **name = cell->placeholders; *name != NULL; name++) {
		size_t len = strlen(*name);
		char **entry = cell->env;

		while (*entry != NULL && (strncmp(*entry, *name, len) != 0 || (*entry)[len] != '='))
			entry++;
		if (*entry == NULL)
			continue;
		run->placeholders[n] = strdup(*entry);
		if (run->placeholders[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int
prepare(struct asked *asked, const char *word, struct err *err)
{
	struct cell_spec *cell = &asked->cell;
	int r = ask_spec(word, cell, err);

	if (r < 0)
		return r;
	asked->run.spec.root = cell->root;
	asked->run.spec.has_policy = cell->has_policy;
	memcpy(asked->run.spec.id, cell->id, sizeof(cell->id));
	r = take_placeholders(&asked->run, cell, err);
	r = r == 0 ? run_copy_git(&asked->run, cell->env, err) : r;
	return r < 0 ? r : run_finish_env(&asked->run, err);
}

/* Its exit status. */
static int
run_in(struct asked *asked, const char *word, char **argv)
{
	struct exec *exec = &asked->exec;
	struct err err = {0};
	int r = prepare(asked, word, &err);
	int socket = r < 0 ? r : cli_connect(word, &exec->entry, &err);

	if (socket < 0)
		return cli_fail(&err);
	exec->argv = argv;
	exec->env = asked->run.spec.env;
	exec->cwd = asked->cell.cwd;
	exec->tty = asked->run.spec.tty;
	exec->clipboard = asked->run.spec.clipboard;
	exec->cell = &asked->cell;
	exec->says = say;
	exec_run(exec, socket);
	if (exec->err.code == 0)
		return exec->status;
	(void)cli_fail(&exec->err);
	return exec->status != 0 ? exec->status : CLI_FAILED;
}

int
cmd_exec(int argc, char **argv)
{
	static struct asked asked;
	struct err err = {0};
	int rest, status;

	if (cli_parse(cli_exec_options, argc, argv, false, take_option, &asked, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest + 1 < argc && strcmp(argv[rest + 1], "--") == 0) {
		argv[rest + 1] = argv[rest];
		rest++;
	}
	if (argc - rest == 1)
		return cli_failf("no command is given for cell '%s': cloister exec [OPTION...] CELL "
		                 "[--] CMD...", argv[rest]);
	if (argc - rest < 2)
		return cli_failf("no cell is given, and no command: cloister exec [OPTION...] CELL "
		                 "[--] CMD...");
	if (asked.run.tty == RUN_TTY_YES && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return cli_failf("-t needs a terminal as standard input and output");
	asked.run.spec.tty = asked.run.tty != RUN_TTY_NO && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	status = run_in(&asked, argv[rest], argv + rest + 1);
	cell_spec_free(&asked.cell);
	return status;
}
