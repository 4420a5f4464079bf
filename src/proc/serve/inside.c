/* inside.c - see inside.h. */
#include "proc/serve/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/boundary.h"
#include "cell/cell_call.h"
#include "cell/cell_control.h"
#include "cell/cell_dirs.h"
#include "cell/cell_screen.h"
#include "ipc/control_channel.h"
#include "ipc/init_channel.h"

int
inside_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- starting ---- */

/* One pipe; ENDS[MINE] is the service's. */
static int
make_pipe(int ends[2], int mine, struct err *err)
{
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	return fcntl(ends[mine], F_SETFL, O_NONBLOCK) < 0 ? err_errno(err, "cannot prepare a pipe") : 0;
}

/* THEIRS are the ends that the process gets; the caller closes them. */
static int
make_pipes(struct inside *s, int theirs[3], struct err *err)
{
	int *const mine[] = { &s->to, &s->from[INSIDE_OUT], &s->from[INSIDE_ERR] };

	for (int i = 0; i < 3; i++) {
		int ends[2] = { -1, -1 }, own = i == 0 ? 1 : 0;
		int r = make_pipe(ends, own, err);

		*mine[i] = ends[own] > 0 ? ends[own] : 0;
		theirs[i] = ends[1 - own];
		if (r < 0)
			return r;
	}
	return 0;
}

/* The agent's environment, in which MORE goes first.  The caller frees the list alone. */
static char **
join_env(char *const *agents, char *const *more)
{
	char **all = calloc(strv_len(agents) + (more != NULL ? strv_len(more) : 0) + 1, sizeof(char *));
	size_t n = 0;

	for (; all != NULL && *agents != NULL; agents++) {
		size_t len = strcspn(*agents, "=") + 1, i = 0;

		while (more != NULL && more[i] != NULL && strncmp(more[i], *agents, len) != 0)
			i++;
		if (more == NULL || more[i] == NULL)
			all[n++] = *agents;
	}
	for (; all != NULL && more != NULL && *more != NULL; more++)
		all[n++] = *more;
	return all;
}

static int
ask(int socket, const struct inside_order *order, const struct cell_spec *spec, const int *fds, size_t n_fds,
    struct err *err)
{
	OWN(freep) char **env = join_env(spec->env, order->env);

	if (env == NULL)
		return err_set(err, ENOMEM, "out of memory");
	return cell_call_exec(socket, &(struct cell_call){
		.flags = order->tty ? INIT_TTY : order->own ? INIT_OWN : 0, .rows = order->rows, .columns = order->columns,
		.cwd = order->cwd != NULL ? order->cwd : spec->cwd, .argv = order->argv, .env = env, .by = order->by,
	}, fds, n_fds, err);
}

static int
start(struct inside *s, int runtime, const struct cell_entry *entry, const struct inside_order *order, struct err *err)
{
	int theirs[3] = { -1, -1, -1 };
	struct cell_info info = {0};
	const struct boundary *boundary = NULL;
	int r = cell_control_info(runtime, entry, &info, err);

	if (r < 0)
		return r;
	if (info.state == CONTROL_STATE_SILENT)
		r = cell_is_silent(entry, err);
	boundary = r == 0 ? boundary_find(info.spec.boundary, err) : NULL;
	r = r == 0 && boundary == NULL ? -EINVAL : r;
	r = r == 0 && !order->tty ? make_pipes(s, theirs, err) : r;
	for (int i = 0; r == 0 && i < 3 && !order->tty; i++)
		boundary->give_to_agent(theirs[i], entry->slot, &info.spec);
	r = r == 0 ? cell_connect(runtime, entry, err) : r;
	if (r >= 0) {
		s->source.fd = r;
		r = ask(s->source.fd, order, &info.spec, theirs, order->tty ? 0 : 3, err);
	}
	for (int i = 0; i < 3; i++)
		closep(&theirs[i]);
	cell_spec_free(&info.spec);
	return r;
}

int
inside_open(const char *cell, const struct inside_order *order, struct inside **ret_inside, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	struct inside *s = calloc(1, sizeof(*s));
	struct cell_entry entry;
	int r = runtime;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->source.fd = -1;
	s->tty = order->tty;
	s->name = strdup(order->argv[0]);
	r = r >= 0 ? cell_find(runtime, true, cell, &entry, err) : r;
	r = r >= 0 ? start(s, runtime, &entry, order, err) : r;
	if (r < 0) {
		inside_free(s);
		return r;
	}
	*ret_inside = s;
	return 0;
}

/* ---- a terminal ---- */

/* TERMINAL is a socket that stands for it. */
static int
take_terminal(struct inside *s, int terminal, struct err *err)
{
	s->to = terminal < 0 ? 0 : fcntl(terminal, F_DUPFD_CLOEXEC, 3);
	s->from[INSIDE_OUT] = terminal < 0 ? 0 : terminal;
	if (s->to <= 0 || fcntl(terminal, F_SETFL, O_NONBLOCK) < 0)
		return err_set(err, EIO, "the terminal cannot be used");
	return 0;
}

static int
take_seat(struct inside *s, const struct inside_order *order, uint64_t *ret_log_size, struct err *err)
{
	const struct timeval patience = { .tv_sec = CELL_ANSWER_MS / 1000 };
	OWN(cell_answer_free) struct cell_answer answer = {0};
	int r;

	(void)setsockopt(s->source.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	cell_call_attach(s->source.fd, order->rows, order->columns, order->by);
	r = cell_call_receive(s->source.fd, &answer, err);
	if (r < 0)
		return r == -EBADMSG ? r : err_set(err, EAGAIN, "the supervisor of the cell does not answer");
	if (answer.kind == CELL_ANSWER_REFUSED)
		return err_set(err, (int)answer.number, "%s", answer.text);
	if (answer.kind != CELL_ANSWER_STARTED || !answer.has_log || answer.message.n_fds != 1)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	*ret_log_size = answer.log_size;
	return take_terminal(s, ipc_take_fd(&answer.message, 0), err);
}

int
inside_attach(const char *cell, const struct inside_order *order, struct inside **ret_inside, struct buf *before,
              struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	struct inside *s = calloc(1, sizeof(*s));
	struct screen screen = {0};
	struct cell_entry entry;
	uint64_t size = 0;
	int r = runtime;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->source.fd = -1;
	s->tty = s->attached = s->has_started = true;
	r = r >= 0 ? cell_find(runtime, true, cell, &entry, err) : r;
	r = r >= 0 ? s->source.fd = cell_connect(runtime, &entry, err) : r;
	r = r >= 0 ? take_seat(s, order, &size, err) : r;
	if (r < 0) {
		inside_free(s);
		return r;
	}
	cell_screen_show(entry.id, size, &screen, before);
	*ret_inside = s;
	return 0;
}

/* ---- its life ---- */

static void
lose(struct inside *s, int code, const char *text)
{
	struct err error = {0};

	(void)err_set(&error, code, "%s", text);
	loop_unwatch(s->loop, &s->source);
	s->has_ended = true;
	if (s->has_started)
		s->ended(s->arg, 0, &error);
	else
		s->started(s->arg, &error);
}

static void
refuse(struct inside *s, int error)
{
	struct err text = {0};

	if (error == ENOENT)
		(void)err_set(&text, EINVAL, "cannot run '%.200s': there is no such command in the cell, or no such folder to work in", s->name);
	else if (error == EAGAIN)
		(void)err_set(&text, EBUSY, "too many commands run in the cell: end some of them");
	else
		(void)err_set(&text, EINVAL, "cannot run '%.200s': %s", s->name, strerrordesc_np(error) != NULL ? strerrordesc_np(error) : "unknown error");
	lose(s, text.code, text.text);
}

static void
take_started(struct inside *s, struct cell_answer *answer)
{
	struct err err = {0};

	if (answer->number != 0) {
		refuse(s, (int)answer->number);
		return;
	}
	if (s->tty && take_terminal(s, ipc_take_fd(&answer->message, 0), &err) < 0) {
		lose(s, err.code, err.text);
		return;
	}
	s->has_started = true;
	s->started(s->arg, NULL);
}

static void
take_exited(struct inside *s, int status)
{
	loop_unwatch(s->loop, &s->source);
	s->has_ended = true;
	s->ended(s->arg, status, NULL);
}

/* The cell's status is already that of a shell. */
static void
take_cell_end(struct inside *s, const struct cell_answer *answer)
{
	snprintf(s->cause, sizeof(s->cause), "%s", answer->text);
	take_exited(s, W_EXITCODE((int)(answer->number & 0xff), 0));
}

static void
ready(void *arg, uint32_t events)
{
	struct inside *s = arg;
	OWN(cell_answer_free) struct cell_answer answer;
	int r = cell_call_receive(s->source.fd, &answer, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 && r != -EBADMSG)
		lose(s, EALREADY, "the cell has ended");
	else if (r == 0 && answer.kind == CELL_ANSWER_STARTED && !s->has_started)
		take_started(s, &answer);
	else if (r == 0 && answer.kind == CELL_ANSWER_EXITED && s->has_started && !s->attached)
		take_exited(s, (int)answer.number);
	else if (r == 0 && answer.kind == CELL_ANSWER_ENDED && s->attached)
		take_cell_end(s, &answer);
	else if (r == 0 && answer.kind == CELL_ANSWER_REFUSED)
		lose(s, (int)answer.number, answer.text);
	else if (r < 0 || answer.kind != CELL_ANSWER_SAYS)
		lose(s, EBADMSG, "the cell's supervisor is of another version");
}

int
inside_watch(struct inside *s, struct loop *loop, struct err *err)
{
	s->loop = loop;
	s->source.ready = ready;
	s->source.arg = s;
	/* A supervisor that does not read must not hold up the loop. */
	if (fcntl(s->source.fd, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "cannot prepare a socket");
	return loop_watch(loop, &s->source, EPOLLIN, err);
}

void
inside_signal(struct inside *s, int number)
{
	if (!s->has_ended && !s->attached)
		cell_call_signal(s->source.fd, number);
}

void
inside_resize(struct inside *s, unsigned rows, unsigned columns)
{
	const struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };

	if (s->has_ended || !s->tty || s->from[INSIDE_OUT] <= 0)
		return;
	/* A socket may stand for the terminal. */
	if (s->attached)
		cell_call_attach(s->source.fd, rows, columns, NULL);
	else if (ioctl(s->from[INSIDE_OUT], TIOCSWINSZ, &size) < 0)
		cell_call_resize(s->source.fd, rows, columns);
}

ssize_t
inside_read(struct inside *s, enum inside_stream stream, void *data, size_t len)
{
	ssize_t n;

	if (s->from[stream] <= 0)
		return 0;
	do
		n = read(s->from[stream], data, len);
	while (n < 0 && errno == EINTR);
	/* A terminal whose processes are gone fails with EIO. */
	return n >= 0 ? n : errno == EAGAIN ? -EAGAIN : 0;
}

ssize_t
inside_write(struct inside *s, const void *data, size_t len)
{
	ssize_t n;

	if (s->to <= 0)
		return -EPIPE;
	do
		n = write(s->to, data, len);
	while (n < 0 && errno == EINTR);
	return n >= 0 ? n : errno == EAGAIN ? -EAGAIN : -EPIPE;
}

void
inside_close_input(struct inside *s)
{
	close_fd(&s->to);
}

void
inside_free(struct inside *s)
{
	if (s == NULL)
		return;
	if (s->source.fd >= 0) {
		inside_signal(s, SIGKILL);
		if (s->loop != NULL)
			loop_unwatch(s->loop, &s->source);
		close(s->source.fd);
	}
	close_fd(&s->to);
	close_fd(&s->from[INSIDE_OUT]);
	close_fd(&s->from[INSIDE_ERR]);
	free(s->name);
	free(s);
}
