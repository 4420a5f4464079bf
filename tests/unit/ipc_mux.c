/* ipc_mux.c - tests of ipc/mux: two of them over a socket that cuts as it likes. */
#include "ipc/mux.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include "test.h"

enum { WORD = MUX_TYPES, BYE };

static uint32_t
draw(uint32_t *state, uint32_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % below;
}

/* ---- between the two: a carrier that passes bytes on in pieces of any size ---- */

struct carrier {
	struct loop *loop;
	struct loop_source from;
	int to;
	uint32_t *state;
};

static void
carrier_ready(void *arg, uint32_t events)
{
	static unsigned char piece[40000];
	struct carrier *c = arg;
	size_t want = 1 + draw(c->state, draw(c->state, 4) == 0 ? 30 : sizeof(piece));
	ssize_t n = recv(c->from.fd, piece, want, MSG_PEEK | MSG_DONTWAIT);

	(void)events;
	if (n > 0)
		n = send(c->to, piece, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n > 0)
		CHECK(recv(c->from.fd, piece, (size_t)n, MSG_DONTWAIT) == n);
}

static void
carrier_start(struct carrier *c, struct loop *loop, int from, int to, uint32_t *state)
{
	*c = (struct carrier){ .loop = loop, .to = to, .state = state,
	                       .from = { .fd = from, .ready = carrier_ready, .arg = c } };
	CHECK_OK(loop_watch(loop, &c->from, EPOLLIN, NULL));
}

/* ---- the two sides, and their parts of the streams ---- */

struct side {
	struct rig *rig;
	struct mux *mux;
	int fd;
	bool slow;                      /* gets rid of data only now and then */
	struct flow *flows;
};

struct flow {
	struct side *side;
	struct mux_stream *stream;
	uint32_t id;
	uint64_t to_send, sent, got;
	size_t held;
	bool said_bye, heard_bye;
	struct flow *next;
};

struct rig {
	struct loop *loop;
	struct side a, b;
	struct carrier there, back;
	struct loop_timer later;
	uint32_t state;
	int byes, want_byes;
};

static unsigned char
byte_at(uint32_t id, uint64_t offset)
{
	return (unsigned char)(id * 31 + offset * 7 + (offset >> 8));
}

/* Returns how many of WANT went. */
static size_t
flow_send_some(struct flow *f, size_t want)
{
	unsigned char piece[9000], *room;
	bool copied = draw(&f->side->rig->state, 2) == 0;
	size_t n = sizeof(piece);

	room = copied ? piece : mux_reserve(f->stream, &n);
	if (room == NULL)
		return 0;
	CHECK(n > 0 && n <= MUX_FRAME_MAX);
	n = n < want ? n : want;
	for (size_t i = 0; i < n; i++)
		room[i] = byte_at(f->id, f->sent + i);
	if (copied)
		n = mux_send_data(f->stream, piece, n);
	else
		mux_commit(f->stream, n);
	f->sent += n;
	return n;
}

static void
flow_push(struct flow *f)
{
	size_t want, n = 1;

	while (n > 0 && f->sent < f->to_send) {
		want = 1 + draw(&f->side->rig->state, 9000);
		n = flow_send_some(f, want < f->to_send - f->sent ? want : (size_t)(f->to_send - f->sent));
	}
	if (f->sent == f->to_send && !f->said_bye) {
		f->said_bye = true;
		mux_send(f->side->mux, f->id, BYE, NULL);
	}
}

static struct flow *
flow_new(struct side *side, struct mux_stream *stream, uint64_t to_send)
{
	struct flow *f = calloc(1, sizeof(*f));

	CHECK(f != NULL && stream != NULL);
	*f = (struct flow){ .side = side, .stream = stream, .id = stream->id, .to_send = to_send,
	                    .next = side->flows };
	stream->arg = f;
	side->flows = f;
	return f;
}

static int
side_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct side *side = arg;
	struct flow *f;
	uint32_t size;

	if (type == WORD) {
		CHECK(stream == NULL);
		CHECK_OK(buf_get_u32(body, &size));
		flow_push(flow_new(side, mux_open_as(side->mux, id, NULL), size));
		return 0;
	}
	CHECK(type == BYE && stream != NULL && buf_left(body) == 0);
	f = stream->arg;
	CHECK(!f->heard_bye);
	f->heard_bye = true;
	if (++side->rig->byes == side->rig->want_byes)
		loop_quit(side->rig->loop);
	return 0;
}

static void
flow_consume(struct flow *f)
{
	mux_consumed(f->stream, f->held);
	f->held = 0;
}

static void
consume_later(void *arg)
{
	struct rig *rig = arg;

	for (struct flow *f = rig->b.flows; f != NULL; f = f->next)
		flow_consume(f);
	loop_set_timer(rig->loop, &rig->later, 2);
}

static int
side_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct side *side = arg;
	struct flow *f = stream->arg;

	CHECK(len > 0 && !f->heard_bye);
	for (size_t i = 0; i < len; i++)
		CHECK(data[i] == byte_at(f->id, f->got + i));
	f->got += len;
	f->held += len;
	CHECK(f->held <= MUX_WINDOW);
	if (!side->slow)
		flow_consume(f);
	return 0;
}

static void
side_writable(void *arg, struct mux_stream *stream)
{
	struct side *side = arg;

	CHECK(stream->may_send > 0 && !mux_is_full(side->mux));
	flow_push(stream->arg);
}

static void
side_ended(void *arg, int error)
{
	(void)arg;
	test_fail(__FILE__, __LINE__, "ended: %d", error);
}

static const struct mux_handler side_handler = { side_frame, side_data, side_writable,
                                                 side_ended };

static void
side_down(struct side *side)
{
	struct flow *f;

	while ((f = side->flows) != NULL) {
		side->flows = f->next;
		mux_close(f->stream);
		free(f);
	}
	mux_free(side->mux);
	close(side->fd);
}

static void
rig_up(struct rig *rig, uint32_t seed)
{
	int one[2], two[2];

	*rig = (struct rig){ .state = seed, .a = { .rig = rig }, .b = { .rig = rig },
	                     .later = { .due = consume_later, .arg = rig } };
	CHECK_OK(loop_new(&rig->loop, NULL));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, one));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two));
	rig->a.fd = one[0];
	rig->b.fd = two[1];
	carrier_start(&rig->there, rig->loop, one[1], two[0], &rig->state);
	carrier_start(&rig->back, rig->loop, two[0], one[1], &rig->state);
	CHECK_OK(mux_new(rig->loop, rig->a.fd, &side_handler, &rig->a, &rig->a.mux, NULL));
	CHECK_OK(mux_new(rig->loop, rig->b.fd, &side_handler, &rig->b, &rig->b.mux, NULL));
}

static void
rig_down(struct rig *rig)
{
	side_down(&rig->a);
	side_down(&rig->b);
	close(rig->there.from.fd);
	close(rig->back.from.fd);
	loop_free(rig->loop);
}

/* A opens a stream, says how much it wants to have back, and sends SIZE itself. */
static void
ask(struct rig *rig, uint32_t size, uint32_t back)
{
	OWN(buf_free) struct buf word;
	struct flow *f = flow_new(&rig->a, mux_open(rig->a.mux, NULL), size);

	buf_init(&word, 4);
	buf_put_u32(&word, back);
	mux_send(rig->a.mux, f->id, WORD, &word);
	flow_push(f);
}

static void
exchange(struct rig *rig, size_t n, uint32_t size_max)
{
	struct flow *b;

	rig->want_byes = (int)(2 * n);
	for (size_t i = 0; i < n; i++)
		ask(rig, draw(&rig->state, size_max), draw(&rig->state, size_max));
	CHECK_OK(loop_run(rig->loop, NULL));
	for (struct flow *a = rig->a.flows; a != NULL; a = a->next) {
		for (b = rig->b.flows; b != NULL && b->id != a->id;)
			b = b->next;
		CHECK(b != NULL && a->heard_bye && b->heard_bye);
		CHECK_U64(a->got, b->to_send);
		CHECK_U64(b->got, a->to_send);
	}
}

TEST(mux_exchange_in_any_pieces)
{
	for (uint32_t seed = 1; seed <= 12; seed++) {
		struct rig rig;

		rig_up(&rig, seed);
		exchange(&rig, 1 + draw(&rig.state, 40), seed % 4 == 0 ? 700000 : 20000);
		rig_down(&rig);
	}
}

/* More than fits the mux's own buffer on all streams together. */
TEST(mux_many_large_streams)
{
	struct rig rig;

	rig_up(&rig, 5);
	exchange(&rig, 60, 200000);
	rig_down(&rig);
}

TEST(mux_slow_receiver_holds_one_window)
{
	struct rig rig;

	rig_up(&rig, 9);
	rig.b.slow = true;
	consume_later(&rig);
	exchange(&rig, 3, 2000000);
	loop_cancel_timer(rig.loop, &rig.later);
	rig_down(&rig);
}
