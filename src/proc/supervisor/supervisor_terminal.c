/* supervisor_terminal.c - the terminal of a detached cell's agent: several people may be at it, or nobody.
 *
 * The bytes are carried as they are, and never looked at.  All clients see the same output, and may type.  The
 * terminal has the size of the client that took its seat, or was resized, last. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"

struct seat {
	struct client *client;
	struct relay in;                /* what the client types, to the terminal */
	int from, to;                   /* of that relay */
	struct loop_source out;         /* watched while output waits for the client */
	unsigned char *waits;           /* RELAY_BUFFER bytes, and the part of them that waits */
	size_t start, len;
	struct loop_timer patience;
	bool closed;                    /* it takes no more output */
	char by[CONTROL_BY_MAX + 1];
};

static bool
is_waiting(const struct supervisor *sv)
{
	for (const struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->seat != NULL && c->seat->len > 0)
			return true;
	return false;
}

bool
supervisor_terminal_is_idle(const struct supervisor *sv)
{
	return !is_waiting(sv);
}

/* ---- output ---- */

static size_t
send_some(struct seat *seat, const unsigned char *data, size_t len)
{
	ssize_t n = seat->closed ? (ssize_t)len : send(seat->out.fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		seat->closed = true;
		n = (ssize_t)len;
	}
	return n < 0 ? 0 : (size_t)n;
}

static void
out_ready(void *arg, uint32_t events)
{
	struct seat *seat = arg;
	struct supervisor *sv = seat->client->sv;
	size_t n = send_some(seat, seat->waits + seat->start, seat->len);

	(void)events;
	seat->start += n;
	seat->len -= n;
	if (n > 0)
		loop_set_timer(sv->loop, &seat->patience, SUPERVISOR_SEAT_MS);
	if (seat->len > 0)
		return;
	loop_cancel_timer(sv->loop, &seat->patience);
	loop_unwatch(sv->loop, &seat->out);
	if (!is_waiting(sv))
		stdio_flush(&sv->stdio);
	supervisor_check_end(sv);
}

/* A client that is stopped, or whose connection is broken, must not hold up the agent. */
static void
patience_over(void *arg)
{
	struct seat *seat = arg;
	struct client *client = seat->client;
	struct supervisor *sv = client->sv;
	struct err err;

	(void)err_set(&err, ETIMEDOUT, "detached from cell %s: this terminal took no output for %d seconds", sv->spec.id,
	              SUPERVISOR_SEAT_MS / 1000);
	supervisor_client_refuse(client, &err);
	supervisor_client_drop(client);
	supervisor_check_end(sv);
}

static void
send_to(struct seat *seat, const unsigned char *data, size_t len)
{
	struct supervisor *sv = seat->client->sv;
	size_t n = send_some(seat, data, len);

	if (n == len)
		return;
	memcpy(seat->waits, data + n, len - n);
	seat->start = 0;
	seat->len = len - n;
	loop_set_timer(sv->loop, &seat->patience, SUPERVISOR_SEAT_MS);
	(void)loop_watch(sv->loop, &seat->out, EPOLLOUT, NULL);
}

/* The log has all that was sent to anybody. */
static ssize_t
terminal_sink(void *arg, const unsigned char *data, size_t len)
{
	struct supervisor *sv = arg;

	if (is_waiting(sv)) {
		errno = EAGAIN;
		return -1;
	}
	(void)supervisor_log(sv, data, len);
	for (const struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->seat != NULL)
			send_to(c->seat, data, len);
	return (ssize_t)len;
}

int
supervisor_terminal_begin(struct supervisor *sv, int master, struct err *err)
{
	return stdio_carry_sink(&sv->stdio, master, &(struct stdio_sink){ terminal_sink, sv }, err);
}

/* ---- seats ---- */

void
supervisor_seat_free(struct client *client)
{
	struct seat *seat = client->seat;
	struct supervisor *sv = client->sv;
	char by[CONTROL_BY_MAX + 1];

	if (seat == NULL)
		return;
	relay_drop(&seat->in);
	loop_cancel_timer(sv->loop, &seat->patience);
	loop_unwatch(sv->loop, &seat->out);
	closep(&seat->from);
	closep(&seat->to);
	closep(&seat->out.fd);
	snprintf(by, sizeof(by), "%s", seat->by);
	free(seat->waits);
	free(seat);
	client->seat = NULL;
	/* The others need not wait for it. */
	if (!is_waiting(sv))
		stdio_flush(&sv->stdio);
	if (!sv->dead && by[0] != '\0')
		supervisor_record(sv, "detached", by, "");
}

static size_t
count_seats(const struct supervisor *sv)
{
	size_t n = 0;

	for (const struct client *c = sv->clients; c != NULL; c = c->next)
		n += c->seat != NULL;
	return n;
}

static int
may_sit(const struct supervisor *sv, struct err *err)
{
	const char *id = sv->spec.id;

	if (sv->spec.tty && !sv->spec.detached)
		return err_set(err, ENOTTY, "the terminal of cell %s is the one of its `cloister run`: start a cell with -d "
		               "-t, or with --detach-keys, to attach to it", id);
	if (!sv->spec.tty)
		return err_set(err, ENOTTY, "cell %s has no terminal: start a cell with -d -t to attach to it; `cloister "
		               "logs -f %s` follows its output", id, id);
	if (sv->stdio.out_fd < 0)
		return err_set(err, ESRCH, "the cell is ending");
	if (count_seats(sv) == SUPERVISOR_SEATS_MAX)
		return err_set(err, EBUSY, "%d clients are attached to cell %s already: end one of them", SUPERVISOR_SEATS_MAX,
		               id);
	return 0;
}

/* *RET_THEIRS is the client's end. */
static int
make_seat(struct client *client, int *ret_theirs, struct err *err)
{
	struct supervisor *sv = client->sv;
	struct seat *seat = calloc(1, sizeof(*seat));
	int ends[2];

	if (seat == NULL || (seat->waits = malloc(RELAY_BUFFER)) == NULL ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		free(seat != NULL ? seat->waits : NULL);
		free(seat);
		return err_errno(err, "cannot carry the terminal");
	}
	client->seat = seat;
	*ret_theirs = ends[1];
	seat->client = client;
	seat->out = (struct loop_source){ .fd = ends[0], .ready = out_ready, .arg = seat };
	loop_prepare_timer(&seat->patience, patience_over, seat);
	/* Epoll needs a descriptor for each. */
	seat->from = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
	seat->to = fcntl(sv->stdio.out_fd, F_DUPFD_CLOEXEC, 3);
	if (seat->from < 0 || seat->to < 0)
		return err_errno(err, "cannot carry the terminal");
	return relay_start(&seat->in, sv->loop, seat->from, seat->to, err);
}

static void
resize(struct supervisor *sv, uint64_t rows, uint64_t columns)
{
	const struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };

	if (rows == 0 || columns == 0 || rows > UINT16_MAX || columns > UINT16_MAX)
		return;
	if (ioctl(sv->stdio.out_fd, TIOCSWINSZ, &size) < 0)
		port_resize(sv->boundary->port(sv->walls), INIT_HANDLE_AGENT, (uint32_t)rows, (uint32_t)columns);
}

int
supervisor_answer_attach(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	OWN(closep) int theirs = -1;
	OWN(buf_free) struct buf answer = {0};
	struct err err = {0};

	if (client->seat == NULL) {
		if (may_sit(sv, &err) < 0 || make_seat(client, &theirs, &err) < 0)
			return steer_refuse(client, &err);
		snprintf(client->seat->by, sizeof(client->seat->by), "%s", call->who.by);
		ipc_begin(&answer, CONTROL_STARTED);
		buf_put_u32(&answer, 0);
		buf_put_u64(&answer, sv->spec.streams ? sv->streams[0].size : sv->log_size);
		supervisor_client_send(client, &answer, &theirs, 1);
		supervisor_record(sv, "attached", call->who.by, "");
		/* Of two sizes one is new, so the agent draws its screen again. */
		resize(sv, call->q.n[0] + 1, call->q.n[1]);
	}
	if (sv->stdio.out_fd >= 0)
		resize(sv, call->q.n[0], call->q.n[1]);
	return 0;
}
