/* fuzz_link_control.c - what a worker sends of a cell: messages with their files, and the bytes of pipes and terminals.
 *
 * The input is a row of messages: a byte for the type, u16 length, and the fields.  A type over 127: the command on this
 * machine does something. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "link/link_control.h"
#include "proc/serve/workers_answers.h"

enum { READS = 128, ASKS, LEAVES };

struct state {
	struct loop *loop;
	struct link_line *line;
	struct link_control *control;
	int peer, near;
	bool over;
};

static int
opened(void *arg, struct link_talk *talk, struct buf *body)
{
	(void)arg, (void)talk, (void)body;
	return -EPROTO;
}

static void
ended(void *arg)
{
	(void)arg;
}

static int
check(void *arg, bool out, uint32_t type, struct buf *body, size_t n_fds, struct err *err)
{
	(void)arg;
	return out ? workers_check_request("uid 1", type, body, n_fds, err) : workers_check_answer("c0000001", type, body, n_fds);
}

static void
over(void *arg)
{
	struct state *s = arg;

	assert(!s->over);
	s->over = true;
}

/* A command that runs another one. */
static void
ask(const struct state *s)
{
	OWN(buf_free) struct buf message;
	int in[2], out[2];

	if (pipe(in) < 0 || pipe(out) < 0)
		abort();
	ipc_begin(&message, CONTROL_EXEC);
	for (int i = 0; i < 3; i++)
		buf_put_u32(&message, 0);
	buf_put_str(&message, "/");
	buf_put_u32(&message, 1);
	buf_put_str(&message, "true");
	buf_put_u32(&message, 0);
	(void)ipc_send(s->near, &message, (const int[]){ in[0], out[1], out[1] }, 3, NULL);
	(void)!write(in[1], "said", 4);
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(out[i]);
	}
}

static void
act(struct state *s, unsigned char what)
{
	OWN(ipc_message_free) struct ipc_message message = {0};

	if (s->near < 0)
		return;
	if (what == READS)
		(void)ipc_receive(s->near, &message, NULL);
	else if (what == ASKS)
		ask(s);
	else if (what == LEAVES) {
		close(s->near);
		s->near = -1;
	}
}

static void
turn(struct state *s)
{
	unsigned char piece[65536];

	for (int i = 0; i < 4; i++) {
		if (loop_turn(s->loop, NULL) < 0)
			abort();
		while (recv(s->peer, piece, sizeof(piece), MSG_DONTWAIT) > 0)
			;
	}
}

static void
run(struct state *s, struct link_talk *talk, const uint8_t *data, size_t size)
{
	while (size >= 3 && !s->over && !talk->dead) {
		size_t len = data[1] | (size_t)data[2] << 8;
		OWN(freep) void *copy = NULL;
		struct buf body;

		len = len > size - 3 ? size - 3 : len;
		copy = malloc(len + 1);
		memcpy(copy, data + 3, len);
		buf_init_borrowed(&body, copy, len);
		if (data[0] >= READS)
			act(s, data[0]);
		else
			talk->heard(talk->arg, data[0], &body);
		turn(s);
		data += 3 + len;
		size -= 3 + len;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct link_line_handler of_line = { opened, ended };
	static const struct link_control_handler handler = { .check = check, .over = over };
	struct state s = {0};
	struct link_talk *talk;
	int ends[2], client[2];

	signal(SIGPIPE, SIG_IGN);
	if (loop_new(&s.loop, NULL) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, client) < 0)
		abort();
	s.peer = ends[1];
	s.near = client[1];
	if (link_line_new(s.loop, ends[0], true, &of_line, &s, &s.line, NULL) < 0 ||
	    (talk = link_line_open(s.line, WORKER_CONTROL, NULL)) == NULL ||
	    link_control_new(s.loop, client[0], talk, &handler, &s, &s.control, NULL) < 0)
		abort();
	run(&s, talk, data, size);
	link_control_free(s.control);
	turn(&s);
	link_line_free(s.line);
	close(s.peer);
	if (s.near >= 0)
		close(s.near);
	loop_free(s.loop);
	return 0;
}
