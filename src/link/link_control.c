/* link_control.c - see link_control.h: messages, in both directions. */
#include "link/link_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "link/link_lanes.h"

struct link_control {
	struct loop *loop;
	struct loop_source socket;      /* owns its descriptor; -1: it is over */
	struct link_talk *talk;         /* NULL: it is over */
	struct link_lanes lanes;
	struct loop_round rest;
	const struct link_control_handler *handler;
	void *arg;
	bool told, over;                /* the peer knows that the socket is over */
	/* The end of a process, which waits for its last output. */
	struct buf late_out, late_in;   /* empty: none waits */
	bool hangs;                     /* the socket is over after LATE_IN */
};

/* ---- its end ---- */

static void
tell_over(void *arg)
{
	struct link_control *c = arg;

	if (c->talk != NULL)
		link_talk_finish(TAKE(c->talk));
	c->handler->over(c->arg);
}

/* Not from within a callback of the talk. */
static void
end(struct link_control *c)
{
	if (c->over)
		return;
	c->over = true;
	loop_at_round_end(c->loop, &c->rest);
}

static void
drop_socket(struct link_control *c)
{
	loop_unwatch(c->loop, &c->socket);
	close_fd(&c->socket.fd);
	c->socket.fd = -1;
}

/* What waited for output, once that has left. */
static void
send_late(struct link_control *c)
{
	if (link_lanes_are_due(&c->lanes))
		return;
	if (c->late_out.len > 0 && c->talk != NULL) {
		link_talk_send(c->talk, &c->late_out);
		buf_reset(&c->late_out);
		if (c->socket.fd >= 0)
			(void)loop_watch(c->loop, &c->socket, EPOLLIN, NULL);
	}
	if (c->late_in.len > 0) {
		if (c->socket.fd >= 0)
			(void)ipc_send(c->socket.fd, &c->late_in, NULL, 0, NULL);
		buf_reset(&c->late_in);
		if (c->hangs && c->socket.fd >= 0)
			drop_socket(c);
	}
}

static void
check_over(struct link_control *c)
{
	send_late(c);
	if (c->socket.fd < 0 && link_lanes_are_over(&c->lanes))
		end(c);
}

static void
hang_up(struct link_control *c)
{
	OWN(buf_free) struct buf message = {0};

	if (c->socket.fd >= 0)
		drop_socket(c);
	ipc_begin(&message, WORKER_HANGUP);
	if (!c->told && c->talk != NULL)
		link_talk_send(c->talk, &message);
	c->told = true;
	check_over(c);
}

static void
hang_up_later(struct link_control *c)
{
	c->hangs = true;
	if (c->socket.fd >= 0 && c->late_in.len == 0)
		drop_socket(c);
}

static void
break_off(struct link_control *c)
{
	if (c->socket.fd >= 0)
		drop_socket(c);
	end(c);
}

/* ---- descriptors ---- */

static int
put_file(struct buf *b, int fd, const struct stat *st)
{
	int seals = fcntl(fd, F_GET_SEALS);
	unsigned char *at;

	if (st->st_size > WORKER_FILE_MAX)
		return -E2BIG;
	buf_put_u32(b, WORKER_FD_FILE);
	buf_put_u32(b, seals < 0 ? 0 : (uint32_t)seals);
	buf_put_u32(b, (uint32_t)st->st_size);
	at = buf_add(b, (size_t)st->st_size);
	return at != NULL && pread(fd, at, (size_t)st->st_size, 0) == (ssize_t)st->st_size ? 0 : -EBADMSG;
}

/* What a descriptor becomes on the other side. */
static enum worker_fd
kind_of(int fd, const struct stat *st)
{
	int mode = fcntl(fd, F_GETFL) & O_ACCMODE;

	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3))
		return WORKER_FD_NULL;
	if (S_ISREG(st->st_mode))
		return WORKER_FD_FILE;
	if (S_ISFIFO(st->st_mode))
		return mode == O_RDONLY ? WORKER_FD_READ : WORKER_FD_WRITE;
	return S_ISSOCK(st->st_mode) || isatty(fd) ? WORKER_FD_BOTH : 0;
}

static int
put_fd(struct link_control *c, struct buf *b, int fd)
{
	struct stat st;
	enum worker_fd kind = fstat(fd, &st) < 0 ? 0 : kind_of(fd, &st);
	uint32_t lane = 0;

	if (kind == 0)
		return -EBADMSG;
	if (kind == WORKER_FD_FILE)
		return put_file(b, fd, &st);
	if (kind != WORKER_FD_NULL) {
		int r = link_lanes_add(&c->lanes, fd, kind != WORKER_FD_WRITE, kind != WORKER_FD_READ, 0, &lane);

		if (r < 0)
			return r;
	}
	buf_put_u32(b, kind);
	buf_put_u32(b, lane);
	return 0;
}

static int
make_file(struct buf *b, uint32_t seals)
{
	OWN(closep) int fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint32_t len;

	if (fd < 0 || buf_get_u32(b, &len) < 0 || len > WORKER_FILE_MAX || len > buf_left(b) ||
	    write_all(fd, b->data + b->pos, len, NULL) < 0)
		return -EBADMSG;
	b->pos += len;
	if (lseek(fd, 0, SEEK_SET) < 0 || (seals != 0 && fcntl(fd, F_ADD_SEALS, (int)seals) < 0))
		return -EBADMSG;
	return TAKE_FD(fd);
}

/* A descriptor for this machine's process, in place of the peer's. */
static int
make_lane(struct link_control *c, uint32_t kind, uint32_t lane)
{
	int ends[2], r;
	bool reads = kind != WORKER_FD_READ, writes = kind != WORKER_FD_WRITE;
	OWN(closep) int ours = -1, theirs = -1;

	if (kind == WORKER_FD_BOTH ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0 : pipe2(ends, O_CLOEXEC) < 0)
		return -EBADMSG;
	/* ends[0] of a pipe is what is read from. */
	theirs = ends[kind == WORKER_FD_WRITE];
	ours = ends[kind != WORKER_FD_WRITE];
	r = link_lanes_add(&c->lanes, ours, reads, writes, lane, &lane);
	if (r < 0)
		return r;
	if (c->handler->made != NULL)
		c->handler->made(c->arg, theirs);
	return TAKE_FD(theirs);
}

static int
get_fd(struct link_control *c, struct buf *b)
{
	uint32_t kind, number;

	if (buf_get_u32(b, &kind) < 0 || buf_get_u32(b, &number) < 0)
		return -EBADMSG;
	switch (kind) {
	case WORKER_FD_NULL:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	case WORKER_FD_FILE:
		return make_file(b, number);
	case WORKER_FD_READ: case WORKER_FD_WRITE: case WORKER_FD_BOTH:
		return make_lane(c, kind, number);
	default:
		return -EBADMSG;
	}
}

/* A client does not wait for output after that: what there is of it must be there before. */
static bool
is_end(uint32_t type)
{
	return type == CONTROL_EXITED || type == CONTROL_ENDED;
}

/* ---- to the peer ---- */

static int
pass_out(struct link_control *c, struct ipc_message *m, struct err *err)
{
	OWN(buf_free) struct buf message = BUF(WORKER_MESSAGE_MAX), body = BUF(IPC_MESSAGE_MAX);
	size_t n_fds = m->n_fds;
	int r;

	buf_put(&body, m->body.data + m->body.pos, buf_left(&m->body));
	r = c->handler->check(c->arg, true, m->type, &body, m->n_fds, err);
	if (r < 0)
		return r;
	n_fds = r > 0 ? 0 : n_fds;
	buf_put_u32(&message, WORKER_MESSAGE);
	buf_put_u32(&message, (uint32_t)n_fds);
	for (size_t i = 0; r == 0 && i < n_fds; i++)
		r = put_fd(c, &message, m->fds[i]);
	buf_put_u32(&message, m->type);
	buf_put(&message, body.data, body.len);
	if (r < 0 || buf_failed(&body) || buf_failed(&message))
		return -EBADMSG;
	if (is_end(m->type) && c->late_out.len == 0) {
		link_lanes_mark(&c->lanes);
		if (link_lanes_are_due(&c->lanes)) {
			buf_put(&c->late_out, message.data, message.len);
			/* Its end of file comes after that. */
			return loop_watch(c->loop, &c->socket, 0, NULL);
		}
	}
	link_talk_send(c->talk, &message);
	return 0;
}

static void
refuse(struct link_control *c, const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_REFUSED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)ipc_send(c->socket.fd, &message, NULL, 0, NULL);
	hang_up(c);
}

static void
socket_ready(void *arg, uint32_t events)
{
	struct link_control *c = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct err err = {0};
	int r;

	(void)events;
	if (c->talk == NULL || c->over)
		return;
	r = ipc_receive(c->socket.fd, &message, NULL);
	if (r == -EAGAIN)
		return;
	if (r == -EPIPE || r == -ECONNRESET) {
		hang_up(c);
		return;
	}
	r = r < 0 ? r : pass_out(c, &message, &err);
	if (r == -EPERM && err.code != 0)
		refuse(c, &err);
	else if (r < 0)
		break_off(c);
}

/* ---- from the peer ---- */

static int
pass_in(struct link_control *c, struct buf *b)
{
	OWN(buf_free) struct buf message = {0}, body = BUF(IPC_MESSAGE_MAX);
	int fds[IPC_FDS_MAX], r = 0;
	uint32_t n, type;
	size_t made = 0;

	if (buf_get_u32(b, &n) < 0 || n > IPC_FDS_MAX)
		return -EBADMSG;
	while (r == 0 && made < n) {
		fds[made] = get_fd(c, b);
		r = fds[made] < 0 ? -EBADMSG : 0;
		made += r == 0;
	}
	if (r == 0 && (buf_get_u32(b, &type) < 0 || buf_left(b) > IPC_MESSAGE_MAX - sizeof(type)))
		r = -EBADMSG;
	if (r == 0) {
		buf_put(&body, b->data + b->pos, buf_left(b));
		r = c->handler->check(c->arg, false, type, &body, made, NULL);
	}
	/* A terminal of ours: nobody else can give it another size. */
	if (r == 0 && type == CONTROL_RESIZE && link_lanes_resize(&c->lanes, &body))
		r = 1;
	if (r == 0 && c->socket.fd >= 0) {
		ipc_begin(&message, type);
		buf_put(&message, body.data, body.len);
		if (is_end(type))
			link_lanes_mark(&c->lanes);
		if (is_end(type) && c->late_in.len == 0 && link_lanes_are_due(&c->lanes))
			buf_put(&c->late_in, message.data, message.len);
		else
			r = ipc_send(c->socket.fd, &message, fds, made, NULL);
		/* It may have been answered and closed just now. */
		r = r == -EPIPE || r == -ECONNRESET ? 0 : r;
	}
	for (size_t i = 0; i < made; i++)
		close(fds[i]);
	return r < 0 ? -EBADMSG : 0;
}

static void
heard(void *arg, uint32_t type, struct buf *body)
{
	struct link_control *c = arg;
	int r;

	if (c->over)
		return;
	if (type == WORKER_MESSAGE) {
		r = pass_in(c, body);
	} else if (type == WORKER_HANGUP) {
		c->told = true;
		hang_up_later(c);
		if (c->talk->theirs)
			link_lanes_drop_terminals(&c->lanes);
		r = 0;
	} else {
		r = link_lanes_hear(&c->lanes, type, body);
	}
	if (r < 0)
		break_off(c);
	else
		check_over(c);
}

static void
talk_closed(void *arg)
{
	struct link_control *c = arg;

	c->talk = NULL;
	hang_up_later(c);
	/* What has come may still be on its way to a slow reader. */
	link_lanes_finish(&c->lanes);
	check_over(c);
}

static void
drained(void *arg)
{
	struct link_control *c = arg;

	link_lanes_go_on(&c->lanes);
}

/* ---- lanes ---- */

static bool
lanes_say(void *arg, const struct buf *message)
{
	struct link_control *c = arg;

	if (c->talk == NULL || c->over)
		return false;
	if (message != NULL)
		link_talk_send(c->talk, message);
	return c->talk != NULL && !link_talk_is_full(c->talk);
}

static void
lanes_changed(void *arg)
{
	check_over(arg);
}

/* ---- the whole ---- */

void
link_control_pass(struct link_control *c, uint32_t type, const struct buf *body, const int *fds, size_t n_fds)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, type);
	buf_put(&message, body->data, body->len);
	/* It may have closed just now: then it says so. */
	if (c->socket.fd >= 0 && !c->over)
		(void)ipc_send(c->socket.fd, &message, fds, n_fds, NULL);
}

void
link_control_refuse(struct link_control *c, const struct err *err)
{
	OWN(buf_free) struct buf message = BUF(IPC_MESSAGE_MAX);

	buf_put_u32(&message, WORKER_MESSAGE);
	buf_put_u32(&message, 0);
	buf_put_u32(&message, CONTROL_REFUSED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	if (c->talk != NULL && !c->over && !buf_failed(&message))
		link_talk_send(c->talk, &message);
	hang_up(c);
}

int
link_control_new(struct loop *loop, int socket, struct link_talk *talk, const struct link_control_handler *handler,
                 void *arg, struct link_control **ret_control, struct err *err)
{
	struct link_control *c = calloc(1, sizeof(*c));
	int flags = fcntl(socket, F_GETFL), r;

	if (c == NULL) {
		close(socket);
		return err_set(err, ENOMEM, "out of memory");
	}
	*c = (struct link_control){ .loop = loop, .talk = talk, .handler = handler, .arg = arg,
		.socket = { .fd = socket, .ready = socket_ready, .arg = c }, .late_out = BUF(WORKER_MESSAGE_MAX),
		.late_in = BUF(IPC_MESSAGE_MAX) };
	loop_prepare_round(&c->rest, tell_over, c);
	link_lanes_begin(&c->lanes, loop, talk->theirs, lanes_say, lanes_changed, c);
	talk->heard = heard;
	talk->closed = talk_closed;
	talk->drained = drained;
	talk->arg = c;
	r = flags < 0 || fcntl(socket, F_SETFL, flags | O_NONBLOCK) < 0 ? err_errno(err, "cannot prepare a socket") :
	    loop_watch(loop, &c->socket, EPOLLIN, err);
	if (r < 0) {
		link_control_free(c);
		return r;
	}
	*ret_control = c;
	return 0;
}

void
link_control_forget(struct link_control *c)
{
	c->talk = NULL;
	break_off(c);
}

void
link_control_free(struct link_control *c)
{
	if (c == NULL)
		return;
	if (c->talk != NULL)
		link_talk_close(c->talk);
	if (c->socket.fd >= 0)
		drop_socket(c);
	link_lanes_free(&c->lanes);
	buf_free(&c->late_out);
	buf_free(&c->late_in);
	loop_cancel_round(c->loop, &c->rest);
	free(c);
}
