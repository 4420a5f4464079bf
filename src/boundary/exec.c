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
#include "cell/cell_control.h"
#include "cell/cell_exec_error.h"
#include "ipc/control_channel.h"
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
take_started(struct exec *exec, struct ipc_message *message)
{
	uint32_t error;

	if (buf_get_u32(&message->body, &error) < 0)
		(void)err_set(&exec->err, EBADMSG, "the cell's supervisor is of another version");
	else if (error != 0)
		exec->status = cell_explain_exec_error(exec->cell, exec->argv[0], (int)error, &exec->err);
	else if (exec->tty)
		(void)stdio_carry_terminal(&exec->stdio, ipc_take_fd(message, 0), exec->clipboard, &exec->err);
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
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *text;
	uint32_t number;

	(void)events;
	if (ipc_receive(exec->source.fd, &message, &exec->err) < 0) {
		explain_hang_up(exec);
	} else if (message.type == CONTROL_STARTED) {
		take_started(exec, &message);
	} else if (message.type == CONTROL_EXITED && buf_get_u32(&message.body, &number) == 0) {
		take_exited(exec, (int)number);
	} else if (message.type == CONTROL_SAYS && buf_get_str(&message.body, &text) == 0) {
		if (exec->says != NULL)
			exec->says(exec, text);
	} else if (message.type == CONTROL_REFUSED && buf_get_u32(&message.body, &number) == 0 &&
	           buf_get_str(&message.body, &text) == 0) {
		fail(exec, (int)number, text);
	} else {
		fail(exec, EBADMSG, "the cell's supervisor is of another version");
	}
}

/* ---- requests ---- */

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
	(void)ipc_send(exec->source.fd, &message, NULL, 0, NULL);
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
	struct exec *exec = arg;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_RESIZE);
	buf_put_u32(&message, rows);
	buf_put_u32(&message, columns);
	(void)ipc_send(exec->source.fd, &message, NULL, 0, NULL);
}

static int
send_exec(struct exec *exec, struct err *err)
{
	const struct boundary *boundary = boundary_find(exec->cell->boundary, err);
	struct winsize size = { .ws_row = (unsigned short)exec->rows, .ws_col = (unsigned short)exec->columns };
	OWN(buf_free) struct buf message = {0};
	const bool tty = exec->tty;
	int inside[3], r = boundary == NULL ? -EINVAL : stdio_open(&exec->stdio, tty, inside, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++)
		boundary->give_to_agent(inside[i], exec->entry.slot, exec->cell);
	if (tty)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	steer_put(&message, &(struct steer_request){ .verb = VERB_EXEC });
	buf_put_u32(&message, tty ? INIT_TTY : 0);
	buf_put_u32(&message, size.ws_row);
	buf_put_u32(&message, size.ws_col);
	buf_put_str(&message, exec->cwd);
	buf_put_strv(&message, exec->argv);
	buf_put_strv(&message, exec->env);
	r = ipc_send(exec->source.fd, &message, tty ? &inside[2] : inside, tty ? (inside[2] >= 0 ? 1 : 0) : 3, err);
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
