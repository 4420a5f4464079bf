/* ipc_mux_rules.c - tests of ipc/mux: one of them, and a peer that is just a socket and
 * keeps no rules. */
#include "ipc/mux.h"

#include <endian.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "test.h"

enum { WORD = MUX_TYPES, BYE };

struct lone {
	struct loop *loop;
	struct mux *mux;
	int fd, peer;
	int frames, nameless, told, ends, error;
	size_t got;
	/* What the next callback of this kind does. */
	char does;                      /* 'f'rame, 'd'ata, 'w'ritable, 'e'nd */
	enum { NOTHING, FREES, CLOSES, REFUSES } what;
	struct mux_stream *victim;      /* NULL: those that are writable */
	struct loop_timer swallows;
};

static int
lone_act(struct lone *l, char kind)
{
	if (l->does != kind)
		return 0;
	if (l->what == REFUSES)
		return -EXFULL;
	if (l->what == CLOSES) {
		mux_close(l->victim);
	} else {
		mux_free(l->mux);
		l->mux = NULL;
		loop_quit(l->loop);
	}
	l->does = '\0';
	return 0;
}

static int
lone_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct lone *l = arg;

	(void)id;
	(void)body;
	l->frames++;
	l->nameless += stream == NULL;
	if (type == BYE)
		loop_quit(l->loop);
	return lone_act(l, 'f');
}

static int
lone_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct lone *l = arg;

	(void)stream;
	(void)data;
	l->got += len;
	return lone_act(l, 'd');
}

static void
lone_writable(void *arg, struct mux_stream *stream)
{
	struct lone *l = arg;

	l->told++;
	if (l->what == CLOSES && l->victim == NULL)
		mux_close(stream);
	else
		(void)lone_act(l, 'w');
}

static void
lone_ended(void *arg, int error)
{
	struct lone *l = arg;

	l->ends++;
	l->error = error;
	loop_quit(l->loop);
	(void)lone_act(l, 'e');
}

static const struct mux_handler lone_handler = { lone_frame, lone_data, lone_writable,
                                                 lone_ended };

static void
lone_up(struct lone *l)
{
	int ends[2];

	*l = (struct lone){ .error = 1 };
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	l->fd = ends[0];
	l->peer = ends[1];
	CHECK_OK(loop_new(&l->loop, NULL));
	CHECK_OK(mux_new(l->loop, l->fd, &lone_handler, l, &l->mux, NULL));
}

static void
lone_down(struct lone *l)
{
	mux_free(l->mux);
	close(l->fd);
	if (l->peer >= 0)
		close(l->peer);
	loop_free(l->loop);
}

/* The peer says a frame; of its LEN bytes only as many as are in BODY. */
static void
say(struct lone *l, uint32_t id, uint32_t type, uint32_t len, const void *body, size_t there)
{
	uint32_t header[3] = { htole32(id), htole32(type), htole32(len) };

	CHECK(send(l->peer, header, sizeof(header), 0) == sizeof(header));
	if (there > 0)
		CHECK(send(l->peer, body, there, 0) == (ssize_t)there);
}

static const char zeros[MUX_FRAME_MAX + 1];

static const struct {
	const char *what;
	uint32_t id, type, len;
	const char *body;
	size_t there;
	int want;
} rules[] = {
	{ "a type of nobody's",      1, 0, 0, "", 0, -EBADMSG },
	{ "a type to come",          1, 7, 0, "", 0, -EBADMSG },
	{ "too long",                1, WORD, MUX_FRAME_MAX + 1, "", 0, -EBADMSG },
	{ "much too long",           1, WORD, UINT32_MAX, "", 0, -EBADMSG },
	{ "data too long",           1, MUX_DATA, MUX_FRAME_MAX + 1, "", 0, -EBADMSG },
	{ "no data",                 1, MUX_DATA, 0, "", 0, -EBADMSG },
	{ "no data for nobody",      9, MUX_DATA, 0, "", 0, -EBADMSG },
	{ "credit beyond the window", 1, MUX_CREDIT, 4, "\1\0\0\0", 4, -EBADMSG },
	{ "no credit",               2, MUX_CREDIT, 4, "\0\0\0\0", 4, -EBADMSG },
	{ "no credit for nobody",    9, MUX_CREDIT, 4, "\0\0\0\0", 4, -EBADMSG },
	{ "credit that wraps",       2, MUX_CREDIT, 4, "\377\377\377\377", 4, -EBADMSG },
	{ "credit of five bytes",    2, MUX_CREDIT, 5, "\1\0\0\0\0", 5, -EBADMSG },
	{ "cut in a frame",          1, WORD, 5, "abc", 3, -ECONNRESET },
	{ "cut in data",             1, MUX_DATA, 5, "abc", 3, -ECONNRESET },
	{ "some credit",             2, MUX_CREDIT, 4, "\144\0\0\0", 4, 0 },
	{ "credit for nobody",       9, MUX_CREDIT, 4, "\144\0\0\0", 4, 0 },
	{ "data for nobody",         9, MUX_DATA, 3, "abc", 3, 0 },
	{ "a word",                  1, WORD, 3, "abc", 3, 0 },
};

TEST(mux_rules)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct lone l;

		lone_up(&l);
		/* Stream 1 has all of its credit, stream 2 has used 100 of it. */
		mux_open(l.mux, NULL);
		CHECK(mux_send_data(mux_open(l.mux, NULL), zeros, 100) == 100);
		say(&l, rules[i].id, rules[i].type, rules[i].len, rules[i].body, rules[i].there);
		shutdown(l.peer, SHUT_WR);
		CHECK_OK(loop_run(l.loop, NULL));
		if (l.ends != 1 || l.error != rules[i].want)
			test_fail(__FILE__, __LINE__, "%s: %d", rules[i].what, l.error);
		lone_down(&l);
	}
}

/* The peer guesses the number of the next stream, and begins before it exists. */
TEST(mux_data_for_a_stream_to_come_is_dropped)
{
	struct lone l;

	lone_up(&l);
	say(&l, 2, BYE, 0, "", 0);
	say(&l, 1, MUX_DATA, 1000, zeros, 10);
	CHECK_OK(loop_run(l.loop, NULL));
	mux_open(l.mux, NULL);
	CHECK(send(l.peer, zeros, 990, 0) == 990);
	say(&l, 1, MUX_DATA, 5, "hello", 5);
	say(&l, 2, BYE, 0, "", 0);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.got == 5 && l.ends == 0);
	lone_down(&l);
}

TEST(mux_peer_may_not_exceed_its_credit)
{
	for (int over = 0; over <= 1; over++) {
		struct lone l;

		lone_up(&l);
		mux_open(l.mux, NULL);
		for (int i = 0; i < MUX_WINDOW / MUX_FRAME_MAX; i++) {
			/* Read as it comes: the socket does not hold it all. */
			say(&l, 1, MUX_DATA, MUX_FRAME_MAX, zeros, MUX_FRAME_MAX);
			say(&l, 1, BYE, 0, "", 0);
			CHECK_OK(loop_run(l.loop, NULL));
		}
		CHECK(l.got == MUX_WINDOW && l.ends == 0);
		if (over)
			say(&l, 1, MUX_DATA, 1, "x", 1);
		shutdown(l.peer, SHUT_WR);
		CHECK_OK(loop_run(l.loop, NULL));
		CHECK(l.ends == 1 && l.error == (over ? -EBADMSG : 0) && l.got == MUX_WINDOW);
		lone_down(&l);
	}
}

TEST(mux_credit_comes_in_portions)
{
	struct mux_stream *stream;
	unsigned char answer[64];
	struct lone l;

	lone_up(&l);
	stream = mux_open(l.mux, NULL);
	say(&l, 1, MUX_DATA, MUX_FRAME_MAX, zeros, MUX_FRAME_MAX);
	say(&l, 1, BYE, 0, "", 0);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.got == MUX_FRAME_MAX && stream->may_receive == MUX_WINDOW - MUX_FRAME_MAX);
	mux_consumed(stream, MUX_WINDOW / 4 - 1);
	mux_flush(l.mux);
	CHECK(recv(l.peer, answer, sizeof(answer), MSG_DONTWAIT) == -1);
	mux_consumed(stream, 1);
	mux_flush(l.mux);
	CHECK(recv(l.peer, answer, sizeof(answer), MSG_DONTWAIT) == 16);
	CHECK(memcmp(answer, "\1\0\0\0\2\0\0\0\4\0\0\0\0\0\1\0", 16) == 0);
	CHECK(stream->may_receive == MUX_WINDOW);
	lone_down(&l);
}

TEST(mux_late_frames)
{
	struct mux_stream *stream;
	struct lone l;

	lone_up(&l);
	stream = mux_open(l.mux, NULL);
	mux_close(stream);
	say(&l, 1, MUX_DATA, 3, "abc", 3);
	say(&l, 1, MUX_CREDIT, 4, "\1\0\0\0", 4);
	say(&l, 1, WORD, 3, "abc", 3);
	say(&l, 0, WORD, 0, "", 0);
	shutdown(l.peer, SHUT_WR);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.ends == 1 && l.error == 0 && l.frames == 2 && l.nameless == 2 && l.got == 0);
	lone_down(&l);
}

/* Closed in the middle of a frame, of which the rest comes later. */
TEST(mux_closed_in_mid_data)
{
	struct lone l;

	lone_up(&l);
	l.victim = mux_open(l.mux, NULL);
	l.does = 'd';
	l.what = CLOSES;
	say(&l, 1, MUX_DATA, 10, "abc", 3);
	say(&l, 2, BYE, 0, "", 0);              /* is data: there are seven left */
	shutdown(l.peer, SHUT_WR);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.got == 10 || l.got == 3);
	CHECK(l.ends == 1 && l.error == -ECONNRESET && l.frames == 0);
	lone_down(&l);
}

TEST(mux_freed_in_any_callback)
{
	static const char kinds[] = { 'f', 'd', 'w', 'e' };

	for (size_t i = 0; i < sizeof(kinds); i++) {
		struct mux_stream *stream;
		struct lone l;

		lone_up(&l);
		l.does = kinds[i];
		l.what = FREES;
		stream = mux_open(l.mux, NULL);
		mux_open(l.mux, NULL);
		CHECK(mux_send_data(stream, zeros, MUX_FRAME_MAX) == MUX_FRAME_MAX);
		stream->may_send = 0;
		if (kinds[i] == 'f')
			say(&l, 1, WORD, 0, "", 0);
		if (kinds[i] == 'd')
			say(&l, 1, MUX_DATA, 3, "abc", 3);
		if (kinds[i] == 'w')
			say(&l, 1, MUX_CREDIT, 4, "\1\0\0\0", 4);
		say(&l, 1, WORD, 0, "", 0);
		shutdown(l.peer, SHUT_WR);
		CHECK_OK(loop_run(l.loop, NULL));
		CHECK(l.mux == NULL && l.ends == (kinds[i] == 'e'));
		lone_down(&l);
	}
}

TEST(mux_handlers_may_refuse)
{
	for (int data = 0; data <= 1; data++) {
		struct lone l;

		lone_up(&l);
		mux_open(l.mux, NULL);
		l.does = data ? 'd' : 'f';
		l.what = REFUSES;
		say(&l, 1, data ? MUX_DATA : WORD, 3, "abc", 3);
		say(&l, 1, data ? MUX_DATA : WORD, 3, "abc", 3);
		CHECK_OK(loop_run(l.loop, NULL));
		CHECK(l.ends == 1 && l.error == -EXFULL && l.got + (size_t)l.frames <= 3);
		/* What is sent to it goes nowhere, and nothing breaks. */
		mux_send(l.mux, 1, WORD, NULL);
		mux_flush(l.mux);
		lone_down(&l);
	}
}

static size_t
swallow(struct lone *l)
{
	static char hole[1 << 16];
	size_t all = 0;
	ssize_t n;

	while ((n = recv(l->peer, hole, sizeof(hole), MSG_DONTWAIT)) > 0)
		all += (size_t)n;
	return all;
}

static void
swallow_later(void *arg)
{
	struct lone *l = arg;

	(void)swallow(l);
	if (l->told > 0)
		loop_quit(l->loop);
	else
		loop_set_timer(l->loop, &l->swallows, 1);
}

static void
stop(void *arg)
{
	loop_quit(arg);
}

/* How many milliseconds of the processor's time the next MS take. */
static long
busy_ms(struct lone *l, uint64_t ms)
{
	struct loop_timer timer = { .due = stop, .arg = l->loop };
	clock_t before = clock();

	loop_set_timer(l->loop, &timer, ms);
	CHECK_OK(loop_run(l->loop, NULL));
	return (clock() - before) * 1000 / CLOCKS_PER_SEC;
}

/* Nobody reads: data stops at one mark, words at the next, and that is the end. */
TEST(mux_full)
{
	struct mux_stream *streams[20];
	OWN(buf_free) struct buf word;
	struct lone l;
	size_t sent = 0, n;

	lone_up(&l);
	l.swallows = (struct loop_timer){ .due = swallow_later, .arg = &l };
	for (size_t i = 0; i < ARRAY_LEN(streams); i++) {
		streams[i] = mux_open(l.mux, NULL);
		while ((n = mux_send_data(streams[i], zeros, sizeof(zeros))) > 0)
			sent += n;
	}
	CHECK(mux_is_full(l.mux) && sent > MUX_OUT_FULL && sent < MUX_OUT_FULL + (1 << 20));
	CHECK(mux_reserve(streams[19], &n) == NULL);
	l.does = 'w';
	l.what = CLOSES;
	l.victim = streams[19];
	swallow_later(&l);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(!mux_is_full(l.mux));
	/* All that have credit left; one was closed, before its turn or in it. */
	n = 0;
	for (size_t i = 0; i < ARRAY_LEN(streams) - 1; i++)
		n += streams[i]->may_send > 0;
	CHECK(n > 5 && (l.told == (int)n || l.told == (int)n + 1));
	buf_init(&word, MUX_FRAME_MAX);
	buf_put(&word, zeros, MUX_FRAME_MAX);
	for (int i = 0; i < 2 * MUX_OUT_MAX / MUX_FRAME_MAX; i++)
		mux_send(l.mux, 1, WORD, &word);
	CHECK(l.ends == 0);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.ends == 1 && l.error == -ENOBUFS);
	lone_down(&l);
}

TEST(mux_each_is_notified_once_when_no_longer_full)
{
	struct lone l;
	int with_credit = 0;

	lone_up(&l);
	l.swallows = (struct loop_timer){ .due = swallow_later, .arg = &l };
	for (int i = 0; i < 1000; i++) {
		struct mux_stream *s = mux_open(l.mux, NULL);

		(void)mux_send_data(s, zeros, 10000);
		if (i % 10 == 0)
			s->may_send = 0;
		with_credit += s->may_send > 0;
	}
	CHECK(mux_is_full(l.mux));
	swallow_later(&l);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.told == with_credit);
	/* When all is written there is nothing to do. */
	do
		(void)busy_ms(&l, 1);
	while (swallow(&l) > 0);
	CHECK(busy_ms(&l, 60) < 4);
	lone_down(&l);
}

/* All in one place of the table, and each closes itself. */
TEST(mux_notified_and_gone)
{
	struct lone l;

	lone_up(&l);
	l.what = CLOSES;
	for (uint32_t i = 0; i < 20; i++)
		(void)mux_send_data(mux_open_as(l.mux, i * 256 + 1, NULL), zeros, 60000);
	CHECK(mux_is_full(l.mux));
	l.swallows = (struct loop_timer){ .due = swallow_later, .arg = &l };
	swallow_later(&l);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.told == 20);
	lone_down(&l);
}

/* What the peer said before it went away is heard, also when writing fails first. */
TEST(mux_last_words)
{
	struct lone l;

	lone_up(&l);
	mux_open(l.mux, NULL);
	say(&l, 1, WORD, 3, "abc", 3);
	say(&l, 1, MUX_DATA, 3, "abc", 3);
	close(l.peer);
	l.peer = -1;
	mux_send(l.mux, 1, WORD, NULL);
	mux_flush(l.mux);
	CHECK_OK(loop_run(l.loop, NULL));
	CHECK(l.ends == 1 && l.error == 0 && l.frames == 1 && l.got == 3);
	lone_down(&l);
}

TEST(mux_streams_have_a_maximum)
{
	struct mux_stream *last = NULL;
	struct lone l;

	lone_up(&l);
	CHECK(mux_open_as(l.mux, 0, NULL) == NULL);
	for (int i = 0; i < MUX_STREAMS_MAX; i++)
		CHECK((last = mux_open_as(l.mux, (uint32_t)(i * 256 + 1), NULL)) != NULL);
	CHECK(mux_open(l.mux, NULL) == NULL && mux_open_as(l.mux, 2, NULL) == NULL);
	mux_close(last);
	CHECK((last = mux_open(l.mux, NULL)) != NULL && last->id != 1);
	lone_down(&l);
}
