/* init_stream.c - init's channel over one byte stream, which carries the bytes of every process.
 *
 * The rest of init sees the messages and descriptors that it would get over a channel that passes
 * descriptors. */
#include <errno.h>
#include <linux/sockios.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "ipc/mux.h"
#include "ipc/mux_carry.h"
#include "loop/loop.h"
#include "proc/init/init.h"

#define PAUSE_NS 200000                 /* while the host has not read everything */
#define PAUSES 50000
#define LINGER_SECONDS 10

enum { MAIN, ERRORS, CARRIES };

struct carried {
	struct carried *next;
	uint32_t handle, streams[CARRIES];
	struct mux_carry carries[CARRIES];
	bool is_carried[CARRIES];
	bool has_exited;
	struct buf exited;              /* INIT_EXITED, while output is ahead of it */
};

static struct loop *loop;
static struct mux *mux;
static struct carried *all;
static struct loop_round round_end = { 0 };
static struct buf parts = { .max = IPC_MESSAGE_MAX };   /* of the next INIT_SPAWN */
/* In a copy of a machine, the agent's ends until they get new streams; -1: none. */
static struct { int from, to; } left[CARRIES] = { { -1, -1 }, { -1, -1 } };
static pid_t agent_pid;                 /* likewise */
static int ssh_listener = -1;
static bool is_ending;                  /* the agent has ended */

static const struct mux_carry_types types = { INIT_FRAME(INIT_END), INIT_FRAME(INIT_SHUT) };

static int open_mux(void);

static void
send_frame(const struct buf *message)
{
	OWN(buf_free) struct buf body;
	struct buf reader = *message;
	uint32_t type;

	buf_init(&body, MUX_FRAME_MAX);
	reader.pos = 0;
	if (buf_get_u32(&reader, &type) < 0)
		abort();
	buf_put(&body, reader.data + reader.pos, buf_left(&reader));
	mux_send(mux, 0, INIT_FRAME(type), &body);
	mux_flush(mux);
}

/* ---- the streams of a process ---- */

static struct carried *
find(uint32_t handle)
{
	struct carried *c = all;

	while (c != NULL && c->handle != handle)
		c = c->next;
	return c;
}

/* Whether this kernel ends a terminal when the last process has closed it.  Old versions of gVisor do not. */
static bool
terminals_end(void)
{
	static enum { UNKNOWN, NO, YES } known;
	OWN(closep) int master = known != UNKNOWN ? -1 : open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	int unlock = 0, slave = master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ? -1 : init_open_slave(master);
	struct pollfd at = { .fd = master, .events = POLLIN };

	if (known != UNKNOWN)
		return known == YES;
	known = YES;
	if (slave >= 0) {
		close(slave);
		known = poll(&at, 1, 0) > 0 ? YES : NO;
	}
	return known == YES;
}

/* Whether everything is read from C, to its end, before its exit is reported. */
static bool
is_read_to_the_end(const struct mux_carry *c)
{
	return is_ending && (!c->hangs_up || terminals_end());
}

static bool
is_reading(const struct carried *c)
{
	for (size_t i = 0; i < CARRIES; i++)
		if (c->is_carried[i] && (is_read_to_the_end(&c->carries[i]) ? c->carries[i].from.fd >= 0 : c->carries[i].last))
			return true;
	return false;
}

static bool
is_over(const struct carried *c)
{
	for (size_t i = 0; i < CARRIES; i++)
		if (c->is_carried[i] && !mux_carry_is_over(&c->carries[i]))
			return false;
	return true;
}

/* Sends exits that no output is ahead of any more, and frees what is over. */
static void
settle(void *arg)
{
	struct carried **at = &all, *c;

	(void)arg;
	while ((c = *at) != NULL) {
		if (c->exited.len > 0 && !is_reading(c)) {
			send_frame(&c->exited);
			buf_reset(&c->exited);
		}
		if (c->has_exited && c->exited.len == 0 && is_over(c)) {
			*at = c->next;
			for (size_t i = 0; i < CARRIES; i++)
				if (c->is_carried[i])
					mux_carry_drop(&c->carries[i]);
			buf_free(&c->exited);
			free(c);
		} else {
			at = &c->next;
		}
	}
}

static void
changed(void *arg)
{
	(void)arg;
	loop_at_round_end(loop, &round_end);
}

static int
set_nonblocking(int fd)
{
	return fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* Takes the descriptors. */
static int
carry(struct carried *c, size_t which, int from, int to, bool is_terminal)
{
	struct mux_stream *stream = mux_open_as(mux, c->streams[which], NULL);

	if (stream == NULL)
		return -EBADMSG;
	c->carries[which] = (struct mux_carry){ .hangs_up = is_terminal, .emptied = changed, .written = changed };
	c->is_carried[which] = true;
	mux_carry_start(&c->carries[which], loop, stream, &types, from, to);
	return 0;
}

static int
make_pipe(int ret_ends[2], int ours)
{
	return pipe2(ret_ends, O_CLOEXEC) < 0 || set_nonblocking(ret_ends[ours]) < 0 ? -errno : 0;
}

/* Makes the pipes of a process, and puts its ends into MESSAGE. */
static int
make_pipes(struct carried *c, bool is_terminal, struct ipc_message *message)
{
	int in[2], out[2], errors[2], r;
	const bool apart = c->streams[ERRORS] != 0 && c->streams[ERRORS] != c->streams[MAIN];

	if (!is_terminal) {
		if (make_pipe(in, 1) < 0 || make_pipe(out, 0) < 0)
			return -errno;
		r = carry(c, MAIN, out[0], in[1], false);
		if (r < 0)
			return r;
		message->fds[message->n_fds++] = in[0];
		message->fds[message->n_fds++] = out[1];
		if (!apart)
			message->fds[message->n_fds++] = fcntl(out[1], F_DUPFD_CLOEXEC, 3);
	}
	if (!apart)
		return 0;
	r = make_pipe(errors, 0);
	if (r == 0)
		r = carry(c, ERRORS, errors[0], -1, false);
	if (r == 0)
		message->fds[message->n_fds++] = errors[1];
	return r;
}

/* ---- from the supervisor ---- */

/* In a copy, the agent goes on with new streams. */
static int
adopt(struct carried *c)
{
	OWN(buf_free) struct buf message = {0};
	int r = agent_pid == 0 ? -EBADMSG : 0;

	for (size_t i = 0; r == 0 && i < CARRIES; i++) {
		if (c->streams[i] == 0 || (i == ERRORS && c->streams[ERRORS] == c->streams[MAIN]))
			continue;
		r = carry(c, i, TAKE_FD(left[i].from), TAKE_FD(left[i].to), false);
	}
	if (r < 0)
		return r;
	ipc_begin(&message, INIT_SPAWNED);
	buf_put_u32(&message, INIT_HANDLE_AGENT);
	buf_put_u32(&message, 0);
	buf_put_u32(&message, (uint32_t)agent_pid);
	agent_pid = 0;
	send_frame(&message);
	return 0;
}

/* BODY is INIT_SPAWN's: its streams, and the last bytes of its description. */
static int
take_spawn(struct buf *body)
{
	OWN(ipc_message_free) struct ipc_message message = { .type = INIT_SPAWN, .fds = { -1, -1, -1, -1, -1 } };
	struct carried *c = calloc(1, sizeof(*c));
	struct buf reader;
	uint32_t flags;
	int r;

	if (c == NULL)
		return -ENOMEM;
	buf_init(&c->exited, IPC_MESSAGE_MAX);
	c->next = all;
	all = c;
	if (buf_get_u32(body, &c->streams[MAIN]) < 0 || buf_get_u32(body, &c->streams[ERRORS]) < 0)
		return -EBADMSG;
	buf_put(&parts, body->data + body->pos, buf_left(body));
	if (buf_failed(&parts))
		return -EBADMSG;
	message.body = parts;
	parts = (struct buf){ .max = IPC_MESSAGE_MAX };
	reader = message.body;
	if (buf_get_u32(&reader, &c->handle) < 0 || buf_get_u32(&reader, &flags) < 0)
		return -EBADMSG;
	if ((flags & INIT_ADOPT) != 0)
		return c->handle == INIT_HANDLE_AGENT ? adopt(c) : -EBADMSG;
	r = make_pipes(c, (flags & INIT_TTY) != 0, &message);
	return r < 0 ? r : init_take(&message);
}

static int
take_resize(struct buf *body)
{
	uint32_t handle, rows, columns;
	struct winsize size;
	struct carried *c;

	if (buf_get_u32(body, &handle) < 0 || buf_get_u32(body, &rows) < 0 || buf_get_u32(body, &columns) < 0 ||
	    buf_left(body) != 0)
		return -EBADMSG;
	c = find(handle);
	size = (struct winsize){ .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
	if (c != NULL && c->is_carried[MAIN] && c->carries[MAIN].from.fd >= 0)
		(void)ioctl(c->carries[MAIN].from.fd, TIOCSWINSZ, &size);
	return 0;
}

/* Nothing of a stream is lost that this side has read, but what the agent has yet to read. */
static void
keep_ends(const struct carried *c)
{
	for (size_t i = 0; i < CARRIES; i++) {
		left[i].from = !c->is_carried[i] || c->carries[i].from.fd < 0 ? -1 : fcntl(c->carries[i].from.fd, F_DUPFD_CLOEXEC, 3);
		left[i].to = !c->is_carried[i] || c->carries[i].to.fd < 0 ? -1 : fcntl(c->carries[i].to.fd, F_DUPFD_CLOEXEC, 3);
	}
}

/* This machine is a copy, and its supervisor another one. */
static int
begin_anew(void)
{
	OWN(buf_free) struct buf ready;
	struct carried *c;

	agent_pid = init_forget_execs();
	loop_cancel_round(loop, &round_end);
	init_connect_close();
	while ((c = all) != NULL) {
		all = c->next;
		if (c->handle == INIT_HANDLE_AGENT && !c->has_exited)
			keep_ends(c);
		for (size_t i = 0; i < CARRIES; i++)
			if (c->is_carried[i])
				mux_carry_drop(&c->carries[i]);
		buf_free(&c->exited);
		free(c);
	}
	mux_free(TAKE(mux));
	ipc_begin(&ready, INIT_READY);
	if (init_stream_send(&ready, NULL, 0) < 0)
		_exit(125);
	return open_mux();
}

static int
hold(void)
{
	int r;

	mux_finish(mux);
	r = init_fork_hold();
	return r == 1 ? begin_anew() : r;
}

static int
take_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct ipc_message message = { .type = type - INIT_FRAME(0), .body = *body };

	(void)arg;
	switch (message.type) {
	case INIT_END:
		if (stream != NULL)
			mux_carry_ended(stream->arg);
		return id == 0 ? -EBADMSG : 0;
	case INIT_SHUT:
		if (stream != NULL)
			mux_carry_shut(stream->arg);
		return id == 0 ? -EBADMSG : 0;
	case INIT_PART:
		buf_put(&parts, body->data + body->pos, buf_left(body));
		return buf_failed(&parts) ? -EBADMSG : 0;
	case INIT_SPAWN:
		return take_spawn(body);
	case INIT_RESIZE:
		return take_resize(body);
	case INIT_CONNECT:
		return init_connect_take(body);
	case INIT_ACCEPT:
		return init_accept_take(body);
	case INIT_HOLD:
		return id != 0 || buf_left(body) != 0 ? -EBADMSG : hold();
	default:
		return init_take(&message);
	}
}

/* If the supervisor is gone, so is the cell. */
static void
mux_ended(void *arg, int error)
{
	(void)arg;
	(void)error;
	_exit(125);
}

/* ---- to the supervisor ---- */

/* The near side of a terminal is carried here.  Until then its bytes wait in the kernel. */
static int
take_terminal(const struct buf *message, int master)
{
	struct buf reader = *message;
	uint32_t type, handle;
	struct carried *c;
	int from, to;

	reader.pos = 0;
	if (buf_get_u32(&reader, &type) < 0 || buf_get_u32(&reader, &handle) < 0 || (c = find(handle)) == NULL)
		return -EBADMSG;
	from = fcntl(master, F_DUPFD_CLOEXEC, 3);
	to = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (from < 0 || to < 0 || set_nonblocking(from) < 0)
		return -errno;
	return carry(c, MAIN, from, to, true);
}

/* A process that does not run has no streams. */
static void
forget_unstarted(const struct buf *message)
{
	struct buf reader = *message;
	uint32_t type, handle, error;
	struct carried *c;

	reader.pos = 0;
	if (buf_get_u32(&reader, &type) < 0 || type != INIT_SPAWNED || buf_get_u32(&reader, &handle) < 0 ||
	    buf_get_u32(&reader, &error) < 0 || error == 0 || (c = find(handle)) == NULL)
		return;
	for (size_t i = 0; i < CARRIES; i++)
		if (c->is_carried[i])
			mux_carry_cut(&c->carries[i]);
	c->has_exited = true;
	changed(NULL);
}

int
init_stream_send(const struct buf *message, const int *fds, size_t n_fds)
{
	int r;

	if (mux == NULL)
		return ipc_write(INIT_CHANNEL_FD, message, NULL);
	r = n_fds == 1 ? take_terminal(message, fds[0]) : 0;
	if (r < 0)
		return r;
	send_frame(message);
	forget_unstarted(message);
	return 0;
}

void
init_stream_exited(uint32_t handle, const struct buf *message)
{
	struct carried *c = find(handle);

	if (c == NULL) {
		send_frame(message);
		return;
	}
	buf_put(&c->exited, message->data, message->len);
	c->has_exited = true;
	/* Once the agent has ended, its output is read to the end. */
	is_ending = is_ending || handle == INIT_HANDLE_AGENT;
	for (size_t i = 0; i < CARRIES; i++)
		if (c->is_carried[i] && !is_read_to_the_end(&c->carries[i])) {
			c->carries[i].last = true;
			mux_carry_drain(&c->carries[i]);
		}
	settle(NULL);
	mux_flush(mux);
}

/* The channel of a virtual machine is a device, or a socket of its own kind. */
static bool
is_device(void)
{
	struct stat st;

	return fstat(INIT_CHANNEL_FD, &st) == 0 && S_ISCHR(st.st_mode);
}

static bool
is_vsock(void)
{
	socklen_t len = sizeof(int);
	int domain = 0;

	return getsockopt(INIT_CHANNEL_FD, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_VSOCK;
}

static uint64_t
count_killed_for_memory(void)
{
	static const char label[] = "\noom_kill ";
	OWN(freep) char *text = NULL;
	const char *at;

	if (read_file_at(AT_FDCWD, "/proc/vmstat", 1 << 16, &text, NULL, NULL) < 0 || (at = strstr(text, label)) == NULL)
		return 0;
	return strtoull(at + sizeof(label) - 1, NULL, 10);
}

/* Home, /tmp and the rest are folders of one file system. */
static bool
is_scratch_full(void)
{
	struct statvfs fs;

	return statvfs("/tmp", &fs) == 0 && (fs.f_bavail == 0 || fs.f_favail == 0);
}

/* An engine removes the cgroup of a container whose init has ended, and the host counts there first. */
static void
await_reader(void)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	int unread = 0;

	for (int i = 0; i < PAUSES && ioctl(INIT_CHANNEL_FD, SIOCOUTQ, &unread) == 0 && unread > 0; i++)
		nanosleep(&pause, NULL);
}

/* The end of a virtual machine takes with it what its host has not read yet.  When the host has read
 * everything, a write to a device that blocks returns, and so does closing a socket that lingers. */
static void
await_host(void)
{
	static const struct linger patience = { .l_onoff = 1, .l_linger = LINGER_SECONDS };
	OWN(buf_free) struct buf over = {0};

	await_reader();
	if ((!is_device() && !is_vsock()) || fcntl(INIT_CHANNEL_FD, F_SETFL, 0) < 0)
		return;
	ipc_begin(&over, INIT_OVER);
	buf_put_u64(&over, count_killed_for_memory());
	buf_put_u32(&over, is_scratch_full());
	send_frame(&over);
	if (setsockopt(INIT_CHANNEL_FD, SOL_SOCKET, SO_LINGER, &patience, sizeof(patience)) == 0)
		close(INIT_CHANNEL_FD);
}

static void
exit_if_done(void)
{
	const struct carried *agent = find(INIT_HANDLE_AGENT);

	if (is_ending && (agent == NULL || (agent->exited.len == 0 && !is_reading(agent))) && mux_is_flushed(mux)) {
		await_host();
		_exit(0);
	}
}

void
init_stream_end(void)
{
	is_ending = true;
	/* Everything that could still write to the agent's streams. */
	(void)kill(-1, SIGKILL);
	exit_if_done();
}

static int
open_mux(void)
{
	static const struct mux_handler handler = { take_frame, mux_carry_data, mux_carry_writable, mux_ended };
	int r = mux_new(loop, INIT_CHANNEL_FD, &handler, NULL, &mux, NULL);

	if (r == 0 && is_device())
		mux_set_device(mux);
	if (r == 0)
		init_connect_open(loop, mux, &types, ssh_listener);
	return r;
}

int
init_stream_open(int ssh)
{
	int r = loop_new(&loop, NULL);

	ssh_listener = ssh;
	loop_prepare_round(&round_end, settle, NULL);
	return r < 0 ? r : open_mux();
}

int
init_stream_fd(void)
{
	return loop_fd(loop);
}

int
init_stream_turn(void)
{
	int r = loop_turn(loop, NULL);

	if (is_ending)
		settle(NULL);
	exit_if_done();
	return r;
}
