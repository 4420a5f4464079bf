/* exec.c - see exec.h. */
#include "boundary/exec.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "base/spawn.h"
#include "boundary/boundary.h"
#include "cell/cell_call.h"
#include "cell/cell_control.h"
#include "cell/cell_exec_error.h"
#include "ipc/init_channel.h"

static void
fail(struct exec *exec, int code, const char *text)
{
	(void)err_set(&exec->err, code, "%s", text);
	loop_quit(exec->loop);
}

static void
check_end(void *arg)
{
	struct exec *exec = arg;

	if (exec->exited && (stdio_finish(&exec->stdio) || stdio_is_idle(&exec->stdio)))
		loop_quit(exec->loop);
}

/* ---- answers of the supervisor ---- */

static void
take_started(struct exec *exec, struct cell_answer *answer)
{
	if (answer->number != 0)
		exec->status = cell_explain_exec_error(exec->cell, exec->argv[0], (int)answer->number, &exec->err);
	else if (exec->tty)
		(void)stdio_carry_terminal(&exec->stdio, ipc_take_fd(&answer->message, 0), exec->clipboard, &exec->err);
	if (exec->err.code != 0)
		loop_quit(exec->loop);
	else if (exec->started != NULL)
		exec->started(exec->arg);
}

static void
take_exited(struct exec *exec, int status)
{
	exec->exited = true;
	exec->status = WIFSIGNALED(status) ? SPAWN_KILLED + WTERMSIG(status) : WEXITSTATUS(status);
	loop_unwatch(exec->loop, &exec->source);
	check_end(exec);
}

/* If its lock is free, the cell has ended. */
static void
explain_hang_up(struct exec *exec)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	exec->is_cell_gone = runtime < 0 || !cell_is_alive(runtime, &exec->entry);
	if (exec->is_cell_gone)
		(void)err_set(&exec->err, EPIPE, "the cell has ended");
	else
		(void)cell_is_silent(&exec->entry, &exec->err);
	loop_quit(exec->loop);
}

static void
cell_ready(void *arg, uint32_t events)
{
	struct exec *exec = arg;
	OWN(cell_answer_free) struct cell_answer answer;
	int r = cell_call_receive(exec->source.fd, &answer, &exec->err);

	(void)events;
	if (r < 0 && r != -EBADMSG)
		explain_hang_up(exec);
	else if (r < 0 || answer.kind == CELL_ANSWER_ENDED)
		fail(exec, EBADMSG, "the cell's supervisor is of another version");
	else if (answer.kind == CELL_ANSWER_STARTED)
		take_started(exec, &answer);
	else if (answer.kind == CELL_ANSWER_EXITED)
		take_exited(exec, (int)answer.number);
	else if (answer.kind == CELL_ANSWER_REFUSED)
		fail(exec, (int)answer.number, answer.text);
	else if (exec->says != NULL)
		exec->says(exec, answer.text);
}

/* ---- requests ---- */

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct exec *exec = arg;

	if (info->ssi_signo == SIGWINCH)
		stdio_resize(&exec->stdio);
	else
		cell_call_signal(exec->source.fd, (int)info->ssi_signo);
}

static int
catch_signals(struct exec *exec, struct err *err)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sigaddset(&set, numbers[i]);
	signal(SIGPIPE, SIG_IGN);
	return loop_catch(exec->loop, &set, caught, exec, err);
}

static void
resize(void *arg, unsigned rows, unsigned columns)
{
	const struct exec *exec = arg;

	cell_call_resize(exec->source.fd, rows, columns);
}

static int
send_exec(struct exec *exec, struct err *err)
{
	const struct boundary *boundary = boundary_find(exec->cell->boundary, err);
	struct winsize size = { .ws_row = (unsigned short)exec->rows, .ws_col = (unsigned short)exec->columns };
	struct cell_call call = { .cwd = exec->cwd, .argv = exec->argv, .env = exec->env };
	const bool tty = exec->tty;
	int inside[3], r = boundary == NULL ? -EINVAL : stdio_open(&exec->stdio, tty, inside, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++)
		boundary->give_to_agent(inside[i], exec->entry.slot, exec->cell);
	if (tty)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	call.flags = tty ? INIT_TTY : 0;
	call.rows = size.ws_row;
	call.columns = size.ws_col;
	r = cell_call_exec(exec->source.fd, &call, tty ? &inside[2] : inside, tty ? (inside[2] >= 0 ? 1 : 0) : 3, err);
	for (int i = 0; i < 3; i++)
		closep(&inside[i]);
	return r;
}

void
exec_run(struct exec *exec, int socket)
{
	struct err *err = &exec->err;
	int r = loop_new(&exec->loop, err);

	if (r < 0)
		return;
	stdio_init(&exec->stdio, exec->loop, check_end, exec);
	exec->stdio.resize = resize;
	exec->source = (struct loop_source){ .ready = cell_ready, .arg = exec, .fd = socket };
	r = catch_signals(exec, err);
	r = r == 0 ? send_exec(exec, err) : r;
	r = r == 0 ? loop_watch(exec->loop, &exec->source, EPOLLIN, err) : r;
	if (r == 0)
		(void)loop_run(exec->loop, err);
	stdio_close(&exec->stdio);
}
