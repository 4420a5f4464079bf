/* port_stream.c - a port over one byte stream: it carries the bytes of every process itself. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/port/port_parts.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "ipc/mux.h"
#include "ipc/mux_carry.h"
#include "loop/loop.h"

#define PART_MAX (32 * 1024)            /* of a description, in one frame */
#define FIRST_MAX 4096                  /* bytes of init's first message */

enum { MAIN, ERRORS, CARRIES };

/* A process that was started: its streams, and what init said of it. */
struct process {
	struct by_stream *p;
	struct process *next;
	uint32_t handle;
	/* Until init knows of the process: what is to be carried. */
	struct {
		struct mux_stream *stream;
		int from, to;
	} plans[CARRIES];
	struct mux_carry carries[CARRIES];
	bool is_carried[CARRIES];
	int terminal;                   /* the other end of the socket that stands for it; or -1 */
	bool has_exited, is_told;       /* it has exited, and the handler knows */
	uint32_t status;
};

struct by_stream {
	struct port port;
	int socket;
	struct mux *mux;
	struct port_connections *connections;
	struct process *processes;
	struct loop_round round;        /* reports exits and frees processes, outside of callbacks */
	bool over;                      /* the mux has ended */
	bool is_told;                   /* INIT_OVER has come */
	bool finishing;                 /* port_finish() was called */
	bool holds, is_held;            /* see port_hold() */
};

static const struct mux_carry_types carry_types = { INIT_FRAME(INIT_END), INIT_FRAME(INIT_SHUT) };

/* ---- processes ---- */

static struct process *
find_process(struct by_stream *p, uint32_t handle)
{
	struct process *process = p->processes;

	while (process != NULL && process->handle != handle)
		process = process->next;
	return process;
}

static bool
is_carrying(const struct process *process, bool output_alone)
{
	for (size_t i = 0; i < CARRIES; i++) {
		const struct mux_carry *c = &process->carries[i];

		if (process->is_carried[i] && (output_alone ? buf_left(&c->pending) > 0 : !mux_carry_is_over(c)))
			return true;
	}
	return false;
}

static void
free_process(struct process *process)
{
	for (size_t i = 0; i < CARRIES; i++) {
		if (process->is_carried[i])
			mux_carry_drop(&process->carries[i]);
		else if (process->plans[i].stream != NULL)
			mux_close(process->plans[i].stream);
		closep(&process->plans[i].from);
		closep(&process->plans[i].to);
	}
	closep(&process->terminal);
	free(process);
}

static void
tell_exited(struct by_stream *p, struct process *process)
{
	process->is_told = true;
	if (p->port.handler->exited(p->port.arg, process->handle, process->status) < 0)
		p->port.handler->broken(p->port.arg);
}

/* An exit is reported behind all output that came before it, unless the cell has ended. */
static void
settle(void *arg)
{
	struct by_stream *p = arg;
	struct process **at = &p->processes, *process;

	while ((process = *at) != NULL) {
		if (process->has_exited && !process->is_told && (p->over || !is_carrying(process, true))) {
			/* The handler may have started another. */
			tell_exited(p, process);
			at = &p->processes;
			continue;
		}
		if ((process->is_told || p->over) && !is_carrying(process, false)) {
			*at = process->next;
			free_process(process);
		} else {
			at = &process->next;
		}
	}
}

static void
carried(void *arg)
{
	struct process *process = arg;

	loop_at_round_end(process->p->port.loop, &process->p->round);
}

static int
take_copy(int fd, struct err *err)
{
	struct stat st;
	OWN(closep) int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0 || fstat(copy, &st) < 0)
		return err_errno(err, "cannot carry a process's input and output");
	/* A pipe is ours alone; /dev/null never blocks. */
	if (S_ISFIFO(st.st_mode))
		(void)fcntl(copy, F_SETFL, O_NONBLOCK);
	return TAKE_FD(copy);
}

static bool
is_same(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Takes the descriptors. */
static int
plan(struct process *process, size_t which, int from, int to, struct err *err)
{
	process->plans[which].from = from;
	process->plans[which].to = to;
	process->plans[which].stream = mux_open(process->p->mux, NULL);
	if (process->plans[which].stream == NULL)
		return err_set(err, EAGAIN, "too many processes run in the cell");
	return 0;
}

static void
carry_all(struct process *process)
{
	for (size_t i = 0; i < CARRIES; i++) {
		struct mux_carry *c = &process->carries[i];

		if (process->plans[i].stream == NULL)
			continue;
		*c = (struct mux_carry){ .written = carried, .arg = process };
		process->is_carried[i] = true;
		mux_carry_start(c, process->p->port.loop, process->plans[i].stream, &carry_types,
		                TAKE_FD(process->plans[i].from), TAKE_FD(process->plans[i].to));
	}
}

/* FDS are those of INIT_SPAWN. */
static int
plan_process(struct process *process, const int *fds, size_t n_fds, struct err *err)
{
	int ends[2], from, to, r;

	if (n_fds == 3) {
		from = take_copy(fds[0], err);
		to = take_copy(fds[1], err);
		r = plan(process, MAIN, from, to, err);
		if (from < 0 || to < 0)
			return from < 0 ? from : to;
		if (r == 0 && !is_same(fds[1], fds[2])) {
			to = take_copy(fds[2], err);
			r = to < 0 ? to : plan(process, ERRORS, -1, to, err);
		}
		return r;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot make a terminal's socket");
	process->terminal = ends[1];
	r = plan(process, MAIN, ends[0], fcntl(ends[0], F_DUPFD_CLOEXEC, 3), err);
	if (r == 0 && n_fds == 1) {
		to = take_copy(fds[0], err);
		r = to < 0 ? to : plan(process, ERRORS, -1, to, err);
	}
	return r;
}

/* ---- to init ---- */

static void
put_stream(struct buf *frame, const struct process *process, size_t which)
{
	buf_put_u32(frame, process->plans[which].stream != NULL ? process->plans[which].stream->id : 0);
}

static int
send_spawn(struct by_stream *p, const struct buf *message, const int *fds, size_t n_fds, struct err *err)
{
	OWN(buf_free) struct buf frame;
	struct process *process = calloc(1, sizeof(*process));
	struct buf reader = *message;
	uint32_t type, handle;
	int r;

	buf_init(&frame, PART_MAX + 8);
	if (process == NULL)
		return err_set(err, ENOMEM, "out of memory");
	reader.pos = 0;
	if (buf_get_u32(&reader, &type) < 0 || buf_get_u32(&reader, &handle) < 0)
		abort();
	*process = (struct process){ .p = p, .handle = handle, .terminal = -1,
	                             .plans = { { NULL, -1, -1 }, { NULL, -1, -1 } } };
	r = plan_process(process, fds, n_fds, err);
	if (r < 0) {
		free_process(process);
		return r;
	}
	process->next = p->processes;
	p->processes = process;
	reader.pos = sizeof(type);
	while (buf_left(&reader) > PART_MAX) {
		buf_put(&frame, reader.data + reader.pos, PART_MAX);
		mux_send(p->mux, 0, INIT_FRAME(INIT_PART), &frame);
		buf_reset(&frame);
		reader.pos += PART_MAX;
	}
	put_stream(&frame, process, MAIN);
	put_stream(&frame, process, process->plans[ERRORS].stream == NULL && n_fds == 3 ? MAIN : ERRORS);
	buf_put(&frame, reader.data + reader.pos, buf_left(&reader));
	mux_send(p->mux, 0, INIT_FRAME(type), &frame);
	/* Nothing of a stream comes before init knows it. */
	carry_all(process);
	mux_flush(p->mux);
	return 0;
}

static int
send_message(struct port *port, const struct buf *message, const int *fds, size_t n_fds, struct err *err)
{
	struct by_stream *p = (struct by_stream *)port;
	struct buf reader = *message;
	OWN(buf_free) struct buf frame;
	uint32_t type;

	buf_init(&frame, PART_MAX);
	reader.pos = 0;
	if (buf_get_u32(&reader, &type) < 0)
		abort();
	if (p->over)
		return err_set(err, EPIPE, "the cell has ended");
	if (type == INIT_SPAWN)
		return send_spawn(p, message, fds, n_fds, err);
	buf_put(&frame, reader.data + reader.pos, buf_left(&reader));
	mux_send(p->mux, 0, INIT_FRAME(type), &frame);
	mux_flush(p->mux);
	return 0;
}

/* ---- from init ---- */

static int
take_spawned(struct by_stream *p, struct ipc_message *message)
{
	struct buf reader = message->body;
	struct process *process;
	uint32_t handle, error;

	if (buf_get_u32(&reader, &handle) < 0 || buf_get_u32(&reader, &error) < 0 ||
	    (process = find_process(p, handle)) == NULL)
		return -EBADMSG;
	if (process->terminal >= 0 && error == 0)
		message->fds[message->n_fds++] = TAKE_FD(process->terminal);
	/* A process that does not run has no output: it is over. */
	if (error != 0) {
		for (size_t i = 0; i < CARRIES; i++)
			if (process->is_carried[i])
				mux_carry_cut(&process->carries[i]);
		process->is_told = true;
		carried(process);
	}
	return port_take(&p->port, message);
}

static int
take_exited(struct by_stream *p, struct buf *body)
{
	struct process *process;
	uint32_t handle, status;

	if (buf_get_u32(body, &handle) < 0 || buf_get_u32(body, &status) < 0 || status > 0xffff ||
	    buf_left(body) != 0 || (process = find_process(p, handle)) == NULL || process->has_exited)
		return -EBADMSG;
	process->has_exited = true;
	process->status = status;
	carried(process);
	return 0;
}

/* Init may not use the stream of a connection that it has yet to make. */
static bool
is_used(const struct mux_stream *stream)
{
	return stream->arg != NULL;
}

static int
take_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	return is_used(stream) ? mux_carry_data(arg, stream, data, len) : -EBADMSG;
}

static void
take_writable(void *arg, struct mux_stream *stream)
{
	if (is_used(stream))
		mux_carry_writable(arg, stream);
}

static int
take_over(struct by_stream *p, struct buf *body)
{
	uint64_t killed;
	uint32_t full;

	if (p->is_told || buf_get_u64(body, &killed) < 0 || buf_get_u32(body, &full) < 0 || buf_left(body) != 0 || full > 1)
		return -EBADMSG;
	p->is_told = true;
	p->port.handler->limits(p->port.arg, killed, full != 0);
	return 0;
}

static int
take_held(struct by_stream *p, struct buf *body)
{
	if (!p->holds || p->is_held || p->port.handler->held == NULL || buf_left(body) != 0)
		return -EBADMSG;
	p->is_held = true;
	p->port.handler->held(p->port.arg);
	return 0;
}

static void
hold(struct port *port, bool on)
{
	struct by_stream *p = (struct by_stream *)port;
	const uint32_t go_on = 0;

	p->holds = on;
	p->is_held = false;
	if (on) {
		mux_send(p->mux, 0, INIT_FRAME(INIT_HOLD), NULL);
		mux_hold(p->mux);
		return;
	}
	/* The socket is empty: the guest has read all that came before. */
	(void)!send(p->socket, &go_on, sizeof(go_on), MSG_NOSIGNAL | MSG_DONTWAIT);
	mux_release(p->mux);
}

static int
take_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct ipc_message message = { .type = type - INIT_FRAME(0), .body = *body };
	struct by_stream *p = arg;
	int r;

	if (id == 0 && message.type == INIT_SPAWNED) {
		memset(message.fds, -1, sizeof(message.fds));
		r = take_spawned(p, &message);
		for (size_t i = 0; i < message.n_fds; i++)
			closep(&message.fds[i]);
		return r;
	}
	if (id == 0 && message.type == INIT_EXITED)
		return take_exited(p, body);
	if (id == 0 && message.type == INIT_CONNECTED)
		return port_connections_take(p->connections, body);
	if (id == 0 && message.type == INIT_OVER)
		return take_over(p, body);
	if (id == 0 && message.type == INIT_HELD)
		return take_held(p, body);
	if (id == 0 || buf_left(body) != 0 || (stream != NULL && !is_used(stream)))
		return -EBADMSG;
	/* A frame for a stream that is already closed here came too late. */
	if (message.type == INIT_END && stream != NULL)
		mux_carry_ended(stream->arg);
	else if (message.type == INIT_SHUT && stream != NULL)
		mux_carry_shut(stream->arg);
	return message.type == INIT_END || message.type == INIT_SHUT ? 0 : -EBADMSG;
}

static void
mux_ended(void *arg, int error)
{
	struct by_stream *p = arg;

	p->over = true;
	for (struct process *process = p->processes; process != NULL; process = process->next)
		for (size_t i = 0; i < CARRIES; i++)
			if (process->is_carried[i])
				mux_carry_cut(&process->carries[i]);
	port_connections_end(p->connections);
	settle(p);
	if (error != 0 && error != -ECONNRESET)
		p->port.handler->broken(p->port.arg);
	if (p->finishing)
		p->port.handler->finished(p->port.arg);
}

/* ---- the port ---- */

static int
watch(struct port *port, struct err *err)
{
	(void)port;
	(void)err;
	return 0;
}

static bool
finish(struct port *port)
{
	struct by_stream *p = (struct by_stream *)port;

	p->finishing = !p->over;
	return p->over;
}

static void
free_port(struct port *port)
{
	struct by_stream *p = (struct by_stream *)port;
	struct process *process;

	loop_cancel_round(port->loop, &p->round);
	while ((process = p->processes) != NULL) {
		p->processes = process->next;
		free_process(process);
	}
	port_connections_free(p->connections);
	mux_free(p->mux);
	close(p->socket);
	free(p);
}

static struct port_connections *
connections(const struct port *port)
{
	return ((const struct by_stream *)port)->connections;
}

/* Reads all of LEN bytes before the time UNTIL_MS (0: none) comes. */
static int
read_before(int socket, void *data, size_t len, int64_t until_ms)
{
	unsigned char *at = data;

	while (len > 0) {
		int r = io_await(socket, until_ms);
		ssize_t n = r < 0 ? -1 : recv(socket, at, len, MSG_DONTWAIT);

		if (r < 0)
			return r;
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return -EPIPE;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Waits for INIT_READY, or the reason why it does not come. */
static int
await_ready(int socket, int64_t until_ms, struct err *err)
{
	unsigned char bytes[FIRST_MAX];
	struct buf message;
	const char *text;
	uint32_t len = 0, type = 0, code;
	int r = read_before(socket, &len, sizeof(len), until_ms);

	len = le32toh(len);
	if (r == 0)
		r = len > sizeof(bytes) ? -EPIPE : read_before(socket, bytes, len, until_ms);
	if (r == -ETIMEDOUT)
		return err_set(err, ETIMEDOUT, "the cell's first process was not ready in time");
	if (r == -EINTR)
		return err_set(err, EINTR, "interrupted before the cell was ready");
	if (r < 0)
		return err_set(err, EPIPE, "the cell's first process died before it was ready");
	buf_init_borrowed(&message, bytes, len);
	if (buf_get_u32(&message, &type) == 0 && type == INIT_READY && buf_left(&message) == 0)
		return 0;
	if (type == INIT_FAILED && buf_get_u32(&message, &code) == 0 && buf_get_str(&message, &text) == 0 &&
	    code > 0 && code < 4096)
		return err_set(err, (int)code, "%s", text);
	return err_set(err, EBADMSG, "the cell's first process sent something unexpected");
}

int
port_by_stream(struct loop *loop, int socket, int64_t until_ms, struct port **ret_port, struct err *err)
{
	static const struct port_maker maker = { .connections = connections, .send = send_message, .watch = watch,
	                                         .finish = finish, .free = free_port, .hold = hold, .resizes = true };
	static const struct mux_handler handler = { take_frame, take_data, take_writable, mux_ended };
	int r = await_ready(socket, until_ms, err);
	struct by_stream *p = r < 0 ? NULL : calloc(1, sizeof(*p));

	if (p == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	p->port = (struct port){ .maker = &maker, .loop = loop };
	p->socket = socket;
	loop_prepare_round(&p->round, settle, p);
	r = mux_new(loop, socket, &handler, p, &p->mux, err);
	if (r == 0)
		r = port_connections_new(&p->port, p->mux, &carry_types, &p->connections, err);
	if (r < 0) {
		mux_free(p->mux);
		free(p);
		return r;
	}
	*ret_port = &p->port;
	return 0;
}
