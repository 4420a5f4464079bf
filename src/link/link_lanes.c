/* link_lanes.c - see link_lanes.h. */
#include "link/link_lanes.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "ipc/ipc.h"
#include "loop/relay.h"

#define PIECE 32768
#define GIVE_BACK (WORKER_LANE_WINDOW / 4)

static void
say_of(struct link_lane *lane, uint32_t type, uint32_t number, bool has_number)
{
	OWN(buf_free) struct buf message = {0};

	ipc_begin(&message, type);
	buf_put_u32(&message, lane->id);
	if (has_number)
		buf_put_u32(&message, number);
	(void)lane->lanes->say(lane->lanes->arg, &message);
}

static void
set_events(struct link_lane *lane)
{
	struct link_lanes *l = lane->lanes;
	uint32_t events = 0;

	if (lane->reads && lane->may_send > 0 && l->say(l->arg, NULL))
		events |= EPOLLIN;
	if (lane->writes && buf_left(&lane->out) > 0)
		events |= EPOLLOUT;
	if (events != lane->fd.events && loop_watch(l->loop, &lane->fd, events, NULL) < 0)
		lane->reads = lane->writes = false;
}

/* Once both directions are over. */
static void
check_lane(struct link_lane *lane)
{
	struct link_lanes *l = lane->lanes;

	if (lane->id == 0)
		return;
	if (lane->reads || lane->writes) {
		set_events(lane);
		return;
	}
	loop_unwatch(l->loop, &lane->fd);
	close_fd(&lane->fd.fd);
	buf_free(&lane->out);
	lane->id = 0;
	l->changed(l->arg);
}

static void
pass_on(struct link_lane *lane, size_t n)
{
	if (lane->due == 0)
		return;
	lane->due -= n < lane->due ? n : lane->due;
	if (lane->due == 0)
		lane->lanes->changed(lane->lanes->arg);
}

static void
stop_reading(struct link_lane *lane)
{
	if (!lane->reads)
		return;
	lane->reads = false;
	say_of(lane, WORKER_END, 0, false);
	pass_on(lane, lane->due);
}

static void
stop_writing(struct link_lane *lane)
{
	if (!lane->writes)
		return;
	lane->writes = false;
	buf_reset(&lane->out);
	pass_on(lane, lane->due);
	/* The other direction of a terminal goes on. */
	if (lane->reads && !lane->is_terminal)
		(void)shutdown(lane->fd.fd, SHUT_WR);
	/* Whoever writes there finds out. */
	if (!lane->finishing)
		say_of(lane, WORKER_END, 0, false);
}

static void
flush(struct link_lane *lane)
{
	while (lane->writes && buf_left(&lane->out) > 0) {
		ssize_t n = write(lane->fd.fd, lane->out.data + lane->out.pos, buf_left(&lane->out));

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			stop_writing(lane);
			return;
		}
		lane->out.pos += (size_t)n;
		lane->written += (uint32_t)n;
		if (!lane->reads)
			pass_on(lane, (size_t)n);
	}
	if (buf_left(&lane->out) == 0)
		buf_reset(&lane->out);
	if (lane->written >= GIVE_BACK || (lane->written > 0 && buf_left(&lane->out) == 0)) {
		say_of(lane, WORKER_CREDIT, lane->written, true);
		lane->written = 0;
	}
	if (lane->finishing && buf_left(&lane->out) == 0)
		stop_writing(lane);
}

static void
read_some(struct link_lane *lane)
{
	OWN(buf_free) struct buf message = BUF(PIECE + 16);
	size_t max = lane->may_send < PIECE ? lane->may_send : PIECE;
	unsigned char *at;
	ssize_t n;

	buf_put_u32(&message, WORKER_DATA);
	buf_put_u32(&message, lane->id);
	at = max > 0 ? buf_add(&message, max) : NULL;
	if (at == NULL)
		return;
	n = read(lane->fd.fd, at, max);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* A terminal ends with an error. */
	if (n <= 0) {
		stop_reading(lane);
		return;
	}
	message.len -= max - (size_t)n;
	lane->may_send -= (uint32_t)n;
	(void)lane->lanes->say(lane->lanes->arg, &message);
	pass_on(lane, (size_t)n);
}

static void
lane_ready(void *arg, uint32_t events)
{
	struct link_lane *lane = arg;

	if ((events & (EPOLLOUT | EPOLLERR)) != 0)
		flush(lane);
	if ((events & EPOLLERR) != 0 && !lane->reads)
		stop_writing(lane);
	if (lane->reads && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && lane->may_send > 0)
		read_some(lane);
	check_lane(lane);
}

/* ---- from the peer ---- */

static struct link_lane *
find(struct link_lanes *l, uint32_t id)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++)
		if (id != 0 && l->at[i].id == id)
			return &l->at[i];
	return NULL;
}

/* The peer can neither send nor receive more. */
static void
peer_ended(struct link_lane *lane)
{
	lane->finishing = true;
	if (lane->writes)
		flush(lane);
	else
		lane->reads = false;
}

int
link_lanes_hear(struct link_lanes *l, uint32_t type, struct buf *body)
{
	struct link_lane *lane;
	uint32_t id, n;

	if (buf_get_u32(body, &id) < 0)
		return -EBADMSG;
	lane = find(l, id);
	/* It is over here, which the peer does not know yet. */
	if (lane == NULL)
		return type == WORKER_DATA || type == WORKER_END || type == WORKER_CREDIT ? 0 : -EBADMSG;
	switch (type) {
	case WORKER_DATA:
		if (lane->finishing || buf_left(&lane->out) + buf_left(body) + lane->written > WORKER_LANE_WINDOW)
			return -EBADMSG;
		if (lane->writes && lane->out.pos > 0) {
			memmove(lane->out.data, lane->out.data + lane->out.pos, buf_left(&lane->out));
			lane->out.len -= lane->out.pos;
			lane->out.pos = 0;
		}
		if (lane->writes)
			buf_put(&lane->out, body->data + body->pos, buf_left(body));
		flush(lane);
		break;
	case WORKER_END:
		if (buf_left(body) != 0)
			return -EBADMSG;
		peer_ended(lane);
		break;
	case WORKER_CREDIT:
		if (buf_get_u32(body, &n) < 0 || buf_left(body) != 0 || n > WORKER_LANE_WINDOW - lane->may_send)
			return -EBADMSG;
		lane->may_send += n;
		break;
	default:
		return -EBADMSG;
	}
	check_lane(lane);
	return 0;
}

void
link_lanes_go_on(struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++)
		check_lane(&l->at[i]);
}

bool
link_lanes_resize(struct link_lanes *l, const struct buf *body)
{
	struct buf b = *body;
	struct winsize size = {0};
	uint32_t rows, columns;

	for (size_t i = 0; i < ARRAY_LEN(l->at); i++) {
		if (l->at[i].id == 0 || !l->at[i].is_terminal)
			continue;
		if (buf_get_u32(&b, &rows) == 0 && buf_get_u32(&b, &columns) == 0) {
			size.ws_row = (unsigned short)rows;
			size.ws_col = (unsigned short)columns;
			(void)ioctl(l->at[i].fd.fd, TIOCSWINSZ, &size);
		}
		return true;
	}
	return false;
}

/* ---- the whole ---- */

/* Others may share the file of a pipe, and expect it to block. */
static int
open_own(int fd, bool is_ours)
{
	int own = is_ours ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : relay_reopen(fd, fcntl(fd, F_GETFL) & O_ACCMODE);
	int flags = own < 0 ? -1 : fcntl(own, F_GETFL);

	if (flags >= 0 && fcntl(own, F_SETFL, flags | O_NONBLOCK) == 0)
		return own;
	if (own >= 0)
		close(own);
	return -1;
}

void
link_lanes_begin(struct link_lanes *l, struct loop *loop, bool theirs, bool (*say)(void *arg, const struct buf *message),
                 void (*changed)(void *arg), void *arg)
{
	*l = (struct link_lanes){ .loop = loop, .last = theirs, .say = say, .changed = changed, .arg = arg };
}

void
link_lanes_free(struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++) {
		struct link_lane *lane = &l->at[i];

		if (lane->id == 0)
			continue;
		loop_unwatch(l->loop, &lane->fd);
		close_fd(&lane->fd.fd);
		buf_free(&lane->out);
		lane->id = 0;
	}
}

int
link_lanes_add(struct link_lanes *l, int fd, bool reads, bool writes, uint32_t id, uint32_t *ret_id)
{
	struct link_lane *lane = NULL;
	int own;

	if (id != 0 && find(l, id) != NULL)
		return -EBADMSG;
	for (size_t i = 0; lane == NULL && i < ARRAY_LEN(l->at); i++)
		lane = l->at[i].id == 0 ? &l->at[i] : NULL;
	own = lane == NULL ? -1 : open_own(fd, reads && writes);
	if (own < 0)
		return -EMFILE;
	l->last += id == 0 ? 2 : 0;
	*lane = (struct link_lane){ .lanes = l, .id = id != 0 ? id : l->last, .reads = reads, .writes = writes, .both = reads && writes,
		.fd = { .fd = own, .ready = lane_ready, .arg = lane }, .is_terminal = isatty(own),
		.may_send = WORKER_LANE_WINDOW, .out = BUF(2 * WORKER_LANE_WINDOW) };
	*ret_id = lane->id;
	check_lane(lane);
	return 0;
}

void
link_lanes_mark(struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++) {
		struct link_lane *lane = &l->at[i];
		int n = 0;

		if (lane->id == 0)
			continue;
		/* Of a terminal only what comes from it is due. */
		lane->due = lane->reads && ioctl(lane->fd.fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n :
		            lane->reads ? 0 : buf_left(&lane->out);
	}
}

bool
link_lanes_are_due(const struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++)
		if (l->at[i].id != 0 && l->at[i].due > 0)
			return true;
	return false;
}

void
link_lanes_finish(struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++) {
		struct link_lane *lane = &l->at[i];

		lane->reads = false;
		lane->finishing = true;
		if (lane->id != 0 && lane->writes)
			flush(lane);
		check_lane(lane);
	}
}

void
link_lanes_drop_terminals(struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++)
		if (l->at[i].id != 0 && l->at[i].both) {
			l->at[i].reads = l->at[i].writes = false;
			check_lane(&l->at[i]);
		}
}

bool
link_lanes_are_over(const struct link_lanes *l)
{
	for (size_t i = 0; i < ARRAY_LEN(l->at); i++)
		if (l->at[i].id != 0)
			return false;
	return true;
}
