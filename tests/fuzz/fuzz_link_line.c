/* fuzz_link_line.c - the frames of a worker, or of a service: talks that it opens, their messages and their ends.
 *
 * The first byte says how the rest is cut and whose it is, the second one what the owner does. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "ipc/ipc.h"
#include "link/link_line.h"

enum { ANSWERS = 1, CLOSES = 2, FINISHES = 4, REFUSES = 16 };

#define ONES_MAX 8192

struct state {
	struct loop *loop;
	struct link_line *line;
	struct loop_round feeds;
	int peer;
	unsigned char cut, does;
	const uint8_t *data;
	size_t left, open, n;
	bool ended;
};

static void
closed(void *arg)
{
	struct state *s = arg;

	assert(s->open > 0);
	s->open--;
}

struct one {
	struct state *s;
	struct link_talk *talk;
};
static struct one ones[ONES_MAX];

static void
one_closed(void *arg)
{
	closed(((struct one *)arg)->s);
}

static void
one_heard(void *arg, uint32_t type, struct buf *body)
{
	struct one *one = arg;
	OWN(buf_free) struct buf message;

	assert(!one->s->ended && body->len <= WORKER_MESSAGE_MAX);
	if ((one->s->does & ANSWERS) != 0) {
		ipc_begin(&message, type);
		link_talk_send(one->talk, &message);
	} else {
		buf_init(&message, 1);
	}
	if (type == 7 && (one->s->does & (CLOSES | FINISHES)) != 0 && !one->talk->dead) {
		(one->s->does & CLOSES) != 0 ? link_talk_close(one->talk) : link_talk_finish(one->talk);
		closed(one->s);
	}
}

static int
opened(void *arg, struct link_talk *talk, struct buf *body)
{
	struct state *s = arg;
	uint32_t word = 0;

	assert(!s->ended);
	if ((s->does & REFUSES) != 0 && buf_get_u32(body, &word) < 0)
		return -EPROTO;
	assert(s->open <= LINK_TALKS_MAX);
	if (s->n >= ONES_MAX)
		return -EPROTO;
	ones[s->n] = (struct one){ s, talk };
	talk->heard = one_heard;
	talk->closed = one_closed;
	talk->arg = &ones[s->n++];
	s->open++;
	return 0;
}

static void
ended(void *arg)
{
	struct state *s = arg;

	s->ended = true;
	loop_quit(s->loop);
}

static void
feed(void *arg)
{
	struct state *s = arg;
	unsigned char piece[4096];
	size_t len = s->cut == 0 ? sizeof(piece) : s->cut;
	ssize_t n;

	while (recv(s->peer, piece, sizeof(piece), MSG_DONTWAIT) > 0)
		;
	if (len > s->left)
		len = s->left;
	if (len == 0) {
		shutdown(s->peer, SHUT_WR);
		return;
	}
	n = send(s->peer, s->data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0) {
		s->data += n;
		s->left -= (size_t)n;
	}
	loop_at_round_end(s->loop, &s->feeds);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct link_line_handler handler = { opened, ended };
	struct state s = {0};
	int ends[2];

	if (size < 2)
		return 0;
	s.cut = data[0] >> 1;
	s.does = data[1];
	s.data = data + 2;
	s.left = size - 2;
	s.feeds = (struct loop_round){ .run = feed, .arg = &s };
	if (loop_new(&s.loop, NULL) < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		abort();
	s.peer = ends[1];
	if (link_line_new(s.loop, ends[0], (data[0] & 1) != 0, &handler, &s, &s.line, NULL) < 0)
		abort();
	loop_at_round_end(s.loop, &s.feeds);
	if (loop_run(s.loop, NULL) < 0)
		abort();
	assert(s.ended);
	link_line_free(s.line);
	close(s.peer);
	loop_free(s.loop);
	return 0;
}
