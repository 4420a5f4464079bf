/* fuzz_port_process.c - the bytes of a hostile virtual machine on its port, as the supervisor takes them.
 *
 * The first byte says how the rest is cut, the second one what the supervisor does.  Two processes were
 * started: handle 0 with pipes, handle 1 with a terminal.  Whatever comes, each of them exits once at
 * most, nothing but them is spoken of, and the port can be finished and freed. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/port/port.h"
#include "fuzz.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"

#define PIECE_MAX 4096
#define PROCESSES 2

/* SAYS_READY: init's first message is not part of the bytes. */
enum { SAYS_READY = 1, READS = 2, WRITES = 4, STARTS_MORE = 8, SIGNALS = 16 };

struct state {
	struct loop *loop;
	struct port *port;
	struct loop_round feeds;
	int peer;
	int input[2], output[2], terminal;
	unsigned char cut, does;
	const uint8_t *data;
	size_t left;
	bool is_broken, is_finished, has_exited[PROCESSES];
	int more;
};

static int
start(struct state *s, uint32_t handle, const int *fds, size_t n_fds)
{
	OWN(buf_free) struct buf spawn;

	ipc_begin(&spawn, INIT_SPAWN);
	buf_put_u32(&spawn, handle);
	buf_put_str(&spawn, "the rest is for init");
	return port_start(s->port, &spawn, fds, n_fds, NULL);
}

static int
on_started(void *arg, uint32_t handle, uint32_t error, int terminal)
{
	struct state *s = arg;

	assert(!s->is_broken && handle < PROCESSES && error < 4096);
	assert(terminal < 0 || handle == 1);
	if (terminal >= 0) {
		assert(s->terminal < 0);
		s->terminal = terminal;
	}
	return 0;
}

static int
on_exited(void *arg, uint32_t handle, uint32_t status)
{
	struct state *s = arg;

	assert(handle < PROCESSES && status <= 0xffff && !s->has_exited[handle]);
	s->has_exited[handle] = true;
	/* One that is over makes room for another of its name. */
	if ((s->does & STARTS_MORE) != 0 && handle == 0 && s->more++ < 3) {
		const int fds[] = { s->input[0], s->output[1], s->output[1] };

		s->has_exited[0] = start(s, 0, fds, 3) < 0;
	}
	return 0;
}

static void
on_broken(void *arg)
{
	struct state *s = arg;

	s->is_broken = true;
}

static void
on_limits(void *arg, uint64_t killed, bool full)
{
	(void)arg, (void)killed, (void)full;
}

static void
on_finished(void *arg)
{
	struct state *s = arg;

	assert(!s->is_finished);
	s->is_finished = true;
	loop_quit(s->loop);
}

static void
swallow(int fd)
{
	char piece[PIECE_MAX];

	while (fd >= 0 && read(fd, piece, sizeof(piece)) > 0)
		;
}

static void
act(struct state *s)
{
	swallow(s->peer);
	if ((s->does & READS) != 0) {
		swallow(s->output[0]);
		swallow(s->terminal);
	}
	if ((s->does & WRITES) != 0) {
		(void)!write(s->input[1], "typed\n", 6);
		if (s->terminal >= 0)
			(void)!send(s->terminal, "typed\n", 6, MSG_NOSIGNAL);
	}
	if ((s->does & SIGNALS) != 0) {
		port_signal(s->port, 0, 2);
		port_resize(s->port, 1, 24, 80);
		port_limit(s->port, 1000);
	}
}

static void
feed(void *arg)
{
	struct state *s = arg;
	size_t len = s->cut == 0 ? PIECE_MAX : s->cut;
	ssize_t n;

	if (len > s->left)
		len = s->left;
	act(s);
	if (len == 0) {
		/* The cell is dead. */
		shutdown(s->peer, SHUT_RDWR);
		if (port_finish(s->port))
			on_finished(s);
		return;
	}
	n = send(s->peer, s->data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	s->data += n > 0 ? n : 0;
	s->left -= n > 0 ? (size_t)n : n < 0 && s->is_broken ? s->left : 0;
	loop_at_round_end(s->loop, &s->feeds);
}

static void
send_ready(int peer)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_READY);
	if (ipc_write(peer, &message, NULL) < 0)
		abort();
}

/* Without SAYS_READY all bytes are there at once: the port waits for no more than its first message. */
static int
make_port(struct state *s, int ends[2])
{
	static const struct port_handler handler = { .started = on_started, .exited = on_exited, .broken = on_broken,
	                                             .limits = on_limits, .finished = on_finished };
	size_t len = s->left > PIECE_MAX ? PIECE_MAX : s->left;

	if ((s->does & SAYS_READY) != 0) {
		send_ready(s->peer);
	} else {
		if (send(s->peer, s->data, len, 0) != (ssize_t)len)
			abort();
		s->left = 0;
		shutdown(s->peer, SHUT_WR);
	}
	if (port_by_stream(s->loop, ends[0], 0, &s->port, NULL) < 0)
		return -1;
	if (port_watch(s->port, &handler, s, NULL) < 0)
		abort();
	return 0;
}

static void
use_port(struct state *s)
{
	const int fds[] = { s->input[0], s->output[1], s->output[1] };

	if (start(s, 0, fds, 3) < 0 || start(s, 1, NULL, 0) < 0)
		abort();
	loop_at_round_end(s->loop, &s->feeds);
	if (loop_run(s->loop, NULL) < 0)
		abort();
	assert(s->is_finished);
	port_free(s->port);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = { .terminal = -1 };
	int ends[2];

	if (size < 2)
		return 0;
	s.cut = data[0];
	s.does = data[1];
	s.data = data + 2;
	s.left = size - 2;
	s.feeds = (struct loop_round){ .run = feed, .arg = &s };
	if (loop_new(&s.loop, NULL) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ||
	    pipe2(s.input, O_NONBLOCK) < 0 || pipe2(s.output, O_NONBLOCK) < 0)
		abort();
	s.peer = ends[1];
	if (make_port(&s, ends) == 0 && fcntl(s.peer, F_SETFL, O_NONBLOCK) == 0)
		use_port(&s);
	else
		close(ends[0]);
	close(s.peer);
	closep(&s.terminal);
	for (int i = 0; i < 2; i++) {
		closep(&s.input[i]);
		closep(&s.output[i]);
	}
	loop_free(s.loop);
	return 0;
}
