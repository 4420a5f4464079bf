/* exec.c - `cloister exec`: runs another command in a running cell. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "boundary/boundary.h"
#include "cell/cell_control.h"
#include "cell/cell_exec_error.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "ipc/control_channel.h"
#include "ipc/init_channel.h"
#include "loop/stdio.h"

enum { OPT_ENV, OPT_TTY, OPT_NO_TTY };

struct exec {
	struct run run;                 /* environment and terminal, as for `run` */
	struct loop *loop;
	struct stdio stdio;
	struct loop_source cell;        /* the connection to its supervisor */
	struct cell_spec granted;       /* the cell's grants */
	struct cell_entry entry;
	const char *command;
	bool exited;
	int status;
	struct err err;
};

const struct cli_option cli_exec_options[] = {
	{ "env", 'e', "NAME[=VALUE]", "set a variable, or pass the operator's own", OPT_ENV },
	{ "tty", 't', NULL, "give the command a terminal (default on a terminal)", OPT_TTY },
	{ "no-tty", 'T', NULL, "give the command no terminal", OPT_NO_TTY },
	{ "clipboard", 0, NULL, "let the command set this terminal's clipboard",
	  CLI_FLAG(struct exec, run.spec.clipboard) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct exec *exec = arg;

	if (option->id == OPT_ENV)
		return run_add_env(&exec->run, value, NULL, err);
	if (option->id >= 0)
		exec->run.tty = option->id == OPT_TTY ? RUN_TTY_YES : RUN_TTY_NO;
	return 0;
}

static void
check_end(void *arg)
{
	struct exec *exec = arg;

	if (exec->exited && (stdio_finish(&exec->stdio) || stdio_is_idle(&exec->stdio)))
		loop_quit(exec->loop);
}

static void
fail(struct exec *exec, int code, const char *text)
{
	(void)err_set(&exec->err, code, "%s", text);
	loop_quit(exec->loop);
}

static void
take_started(struct exec *exec, struct ipc_message *message)
{
	uint32_t error;

	if (buf_get_u32(&message->body, &error) < 0) {
		fail(exec, EBADMSG, "the cell's supervisor is of another version");
		return;
	}
	if (error != 0) {
		exec->status = cell_explain_exec_error(&exec->granted, exec->command, (int)error, &exec->err);
		loop_quit(exec->loop);
		return;
	}
	if (exec->run.spec.tty &&
	    stdio_carry_terminal(&exec->stdio, ipc_take_fd(message, 0), exec->run.spec.clipboard,
	                         &exec->err) < 0)
		loop_quit(exec->loop);
}

static void
say(const struct exec *exec, const char *text)
{
	fputs("cloister: ", stderr);
	text_print_safe(stderr, text, strlen(text), false);
	fputs(exec->stdio.raw ? "\r\n" : "\n", stderr);
}

/* If its lock is free, the cell has ended. */
static void
explain_hang_up(struct exec *exec)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	if (runtime < 0 || !cell_is_alive(runtime, &exec->entry)) {
		fail(exec, EPIPE, "the cell has ended");
		return;
	}
	(void)cell_is_silent(&exec->entry, &exec->err);
	loop_quit(exec->loop);
}

static void
cell_ready(void *arg, uint32_t events)
{
	struct exec *exec = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *text;
	uint32_t number;
	int r = ipc_receive(exec->cell.fd, &message, &exec->err);

	(void)events;
	if (r < 0) {
		explain_hang_up(exec);
	} else if (message.type == CONTROL_STARTED) {
		take_started(exec, &message);
	} else if (message.type == CONTROL_EXITED && buf_get_u32(&message.body, &number) == 0) {
		exec->exited = true;
		exec->status = WIFSIGNALED((int)number) ? 128 + WTERMSIG((int)number)
		                                        : WEXITSTATUS((int)number);
		loop_unwatch(exec->loop, &exec->cell);
		check_end(exec);
	} else if (message.type == CONTROL_SAYS && buf_get_str(&message.body, &text) == 0) {
		say(exec, text);
	} else if (message.type == CONTROL_REFUSED && buf_get_u32(&message.body, &number) == 0 &&
	           buf_get_str(&message.body, &text) == 0) {
		fail(exec, (int)number, text);
	} else {
		fail(exec, EBADMSG, "the cell's supervisor is of another version");
	}
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct exec *exec = arg;
	OWN(buf_free) struct buf message = {0};

	if (info->ssi_signo == SIGWINCH) {
		stdio_resize(&exec->stdio);
		return;
	}
	steer_put(&message, &(struct steer_request){ .verb = VERB_SIGNAL, .n = { info->ssi_signo } });
	(void)ipc_send(exec->cell.fd, &message, NULL, 0, NULL);
}

static void
resize(void *arg, unsigned rows, unsigned columns)
{
	struct exec *exec = arg;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_RESIZE);
	buf_put_u32(&message, rows);
	buf_put_u32(&message, columns);
	(void)ipc_send(exec->cell.fd, &message, NULL, 0, NULL);
}

static int
send_exec(struct exec *exec, const struct cell_spec *cell, char **argv, struct err *err)
{
	struct winsize size = {0};
	OWN(buf_free) struct buf message = {0};
	const struct boundary *boundary = boundary_find(cell->boundary, err);
	bool tty = exec->run.spec.tty;
	int inside[3], r;

	if (boundary == NULL)
		return -EINVAL;
	r = stdio_open(&exec->stdio, tty, inside, err);
	for (int i = 0; i < 3; i++)
		boundary->give_to_agent(inside[i], exec->entry.slot, cell);
	if (tty)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	steer_put(&message, &(struct steer_request){ .verb = VERB_EXEC });
	buf_put_u32(&message, tty ? INIT_TTY : 0);
	buf_put_u32(&message, size.ws_row);
	buf_put_u32(&message, size.ws_col);
	buf_put_str(&message, cell->cwd);
	buf_put_strv(&message, argv);
	buf_put_strv(&message, exec->run.spec.env);
	if (r == 0)
		r = ipc_send(exec->cell.fd, &message, tty ? &inside[2] : inside,
		             tty ? (inside[2] >= 0 ? 1 : 0) : 3, err);
	for (int i = 0; i < 3; i++)
		closep(&inside[i]);
	return r;
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

static int
catch_signals(struct exec *exec, struct err *err)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGWINCH);
	signal(SIGPIPE, SIG_IGN);
	return loop_catch(exec->loop, &set, caught, exec, err);
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
start(struct exec *exec, const char *word, char **argv, struct err *err)
{
	struct cell_spec *cell = &exec->granted;
	int r;

	r = ask_spec(word, cell, err);
	if (r < 0)
		return r;
	exec->run.spec.root = cell->root;
	exec->run.spec.has_policy = cell->has_policy;
	memcpy(exec->run.spec.id, cell->id, sizeof(cell->id));
	r = take_placeholders(&exec->run, cell, err);
	if (r == 0)
		r = run_finish_env(&exec->run, err);
	if (r == 0)
		r = loop_new(&exec->loop, err);
	if (r < 0)
		return r;
	stdio_init(&exec->stdio, exec->loop, check_end, exec);
	exec->stdio.resize = resize;
	exec->cell = (struct loop_source){ .ready = cell_ready, .arg = exec,
	                                   .fd = cli_connect(word, &exec->entry, err) };
	if (exec->cell.fd < 0)
		return exec->cell.fd;
	r = catch_signals(exec, err);
	if (r == 0)
		r = send_exec(exec, cell, argv, err);
	return r < 0 ? r : loop_watch(exec->loop, &exec->cell, EPOLLIN, err);
}

int
cmd_exec(int argc, char **argv)
{
	static struct exec exec;
	struct err err = {0};
	int rest, r;

	exec.cell.fd = -1;
	if (cli_parse(cli_exec_options, argc, argv, false, take_option, &exec, &rest, &err) < 0)
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
	exec.command = argv[rest + 1];
	if (exec.run.tty == RUN_TTY_YES && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
		return cli_failf("-t needs a terminal as standard input and output");
	exec.run.spec.tty = exec.run.tty != RUN_TTY_NO && isatty(STDIN_FILENO) &&
	                    isatty(STDOUT_FILENO);
	exec.status = CLI_FAILED;
	r = start(&exec, argv[rest], argv + rest + 1, &err);
	if (r == 0)
		r = loop_run(exec.loop, &err);
	if (exec.loop != NULL)
		stdio_close(&exec.stdio);
	cell_spec_free(&exec.granted);
	if (r < 0)
		return cli_fail(&err);
	if (exec.err.code != 0)
		(void)cli_fail(&exec.err);
	return exec.status;
}
