/* fuzz_port.c - the bytes of a hostile init on the port of a cell whose walls pass no descriptors.
 *
 * The first byte says how the rest is cut, the second one what this side does.  Whatever comes, each
 * question is answered once, and few clients wait for the gate. */
#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/port/port.h"
#include "fuzz.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"

#define PIECE_MAX 4096
#define CONNECTS 3

enum { STARTS = 1, ACCEPTS = 2, WRITES = 4, HOLDS = 8, GOES_ON = 16 };

struct state {
	struct loop *loop;
	struct port *port;
	struct loop_round feeds;
	int peer, gate;
	unsigned char cut, does;
	const uint8_t *data;
	size_t left;
	bool over;
	unsigned asked, answered;
	int held[CONNECTS];
};

static void
swallow(int fd)
{
	unsigned char piece[PIECE_MAX];

	while (recv(fd, piece, sizeof(piece), MSG_DONTWAIT) > 0)
		;
}

/* What reached the gate. */
static void
take_clients(const struct state *s)
{
	for (size_t n = 0;; n++) {
		OWN(ipc_message_free) struct ipc_message message = {0};

		if (ipc_receive(s->gate, &message, NULL) < 0)
			return;
		assert(message.n_fds == 1 && n < 2 * PORT_CLIENTS_MAX && (s->does & ACCEPTS) != 0);
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
	swallow(s->peer);
	if ((s->does & HOLDS) == 0)
		take_clients(s);
	if (len == 0) {
		shutdown(s->peer, SHUT_WR);
		if (port_finish(s->port))
			loop_quit(s->loop);
		return;
	}
	n = send(s->peer, s->data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0) {
		s->data += n;
		s->left -= (size_t)n;
	}
	loop_at_round_end(s->loop, &s->feeds);
}

static int
started(void *arg, uint32_t handle, uint32_t error, int terminal)
{
	(void)arg;
	assert(handle == 7 && error <= 4095 && terminal < 0);
	return 0;
}

static int
exited(void *arg, uint32_t handle, uint32_t status)
{
	(void)arg;
	assert(handle == 7 && status <= 0xffff);
	return 0;
}

static void
connected(void *arg, uint32_t number, uint32_t error, int fd)
{
	struct state *s = arg;

	assert(number < s->asked && s->answered < s->asked && (error == 0) == (fd >= 0));
	s->answered++;
	if (fd >= 0 && (s->does & WRITES) != 0)
		(void)!send(fd, "words", 5, MSG_NOSIGNAL);
	if (number < CONNECTS && (s->does & HOLDS) != 0)
		s->held[number] = fd;
	else
		closep(&fd);
	if ((s->does & GOES_ON) != 0 && port_connect(s->port, s->asked, 80, NULL) == 0)
		s->asked++;
}

static void
limits(void *arg, uint64_t killed, bool full)
{
	(void)arg, (void)killed, (void)full;
}

static void
over(void *arg)
{
	struct state *s = arg;

	s->over = true;
	loop_quit(s->loop);
}

static void
start_process(struct port *port)
{
	OWN(buf_free) struct buf spawn;
	int in[2], out[2];

	ipc_begin(&spawn, INIT_SPAWN);
	buf_put_u32(&spawn, 7);
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
	    port_start(port, &spawn, (const int[]){ in[0], out[1], out[1] }, 3, NULL) < 0)
		abort();
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
}

static void
open_port(struct state *s)
{
	static const struct port_handler handler = { started, exited, connected, limits, over, over, over };
	OWN(buf_free) struct buf ready;
	int ends[2], gate[2];

	ipc_begin(&ready, INIT_READY);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, gate) < 0 ||
	    ipc_write(ends[1], &ready, NULL) < 0 || port_by_stream(s->loop, ends[0], 0, &s->port, NULL) < 0 ||
	    port_watch(s->port, &handler, s, NULL) < 0)
		abort();
	s->peer = ends[1];
	s->gate = gate[0];
	if ((s->does & STARTS) != 0)
		start_process(s->port);
	for (; s->asked < CONNECTS; s->asked++)
		if (port_connect(s->port, s->asked, 80, NULL) < 0)
			abort();
	if ((s->does & ACCEPTS) != 0)
		port_accept(s->port, gate[1]);
	else
		close(gate[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct state s = { .held = { -1, -1, -1 } };

	if (size < 2)
		return 0;
	s.cut = data[0];
	s.does = data[1];
	s.data = data + 2;
	s.left = size - 2;
	s.feeds = (struct loop_round){ .run = feed, .arg = &s };
	/* As the supervisor does. */
	signal(SIGPIPE, SIG_IGN);
	if (loop_new(&s.loop, NULL) < 0)
		abort();
	open_port(&s);
	loop_at_round_end(s.loop, &s.feeds);
	if (loop_run(s.loop, NULL) < 0)
		abort();
	take_clients(&s);
	loop_cancel_round(s.loop, &s.feeds);
	port_free(s.port);
	for (size_t i = 0; i < CONNECTS; i++)
		closep(&s.held[i]);
	close(s.peer);
	close(s.gate);
	loop_free(s.loop);
	return 0;
}
