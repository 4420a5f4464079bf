/* tls_conn.c - tests of tls/conn: two of them talking, plain and over TLS. */
#include "tls/conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>

#include "tls_lab.h"

/* ---- conversations ---- */

static void
converse(bool tls, uint32_t seed, size_t pairs, size_t size_max)
{
	struct scene scene;
	int ends[2];

	scene_up(&scene);
	for (size_t i = 0; i < pairs; i++) {
		struct side *a = side_new(&scene, seed * 100 + (uint32_t)i);
		struct side *b = side_new(&scene, seed * 200 + (uint32_t)i);

		for (int k = 0; k < 2; k++) {
			struct side *s = k == 0 ? a : b;

			s->to_send = lab_draw(&s->state, 5) == 0 ? 0 : lab_draw(&s->state, size_max);
			s->corks = lab_draw(&s->state, 2) == 0;
			s->pauses = lab_draw(&s->state, 2) == 0;
			s->read_max = lab_draw(&s->state, 3) == 0 ? 1 + lab_draw(&s->state, 2000) : 0;
		}
		if (i % 2 == 0)
			lab_pair(ends);
		else
			lab_tcp_pair(ends);
		side_start(a, ends[0], tls ? lab_client(LAB_NAME) : NULL);
		side_start(b, ends[1], tls ? lab_server() : NULL);
	}
	CHECK_OK(loop_run(scene.loop, NULL));
	for (size_t i = 0; i < scene.n; i++) {
		const struct side *s = scene.sides[i], *other = scene.sides[i ^ 1];

		CHECK(s->broken == 0 && s->read_error == 0 && s->heard_end);
		CHECK(s->readies == (tls ? 1 : 0));
		CHECK_U64(s->got, other->to_send);
	}
	scene_down(&scene);
}

TEST(conn_plain_conversations)
{
	for (uint32_t seed = 1; seed <= 20; seed++)
		converse(false, seed, 1 + seed % 5, seed % 5 == 0 ? 900000 : 30000);
}

TEST(conn_tls_conversations)
{
	lab_tls_up();
	for (uint32_t seed = 1; seed <= 20; seed++) {
		SSL_CTX_set_max_proto_version(lab_client_ctx, seed % 3 == 0 ? TLS1_2_VERSION : 0);
		converse(true, seed, 1 + seed % 6, seed % 5 == 0 ? 900000 : 30000);
	}
	lab_tls_over();
}

/* ---- back-pressure ---- */

TEST(conn_kept_up_to_a_maximum)
{
	lab_tls_up();
	for (int way = 0; way < 4; way++) {
		const bool tls = way & 1, corked = way & 2;
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_pair(ends);
		scene_talking(&scene, sides, ends, tls);
		sides[1]->stopped = true;
		if (corked)
			conn_cork(&sides[0]->conn);
		side_fill(sides[0]);
		CHECK(sides[0]->sent >= CONN_OUT_MAX - 20000 && conn_is_full(&sides[0]->conn));
		CHECK(sides[0]->sent < CONN_OUT_MAX + 1000000);
		if (corked)
			conn_uncork(&sides[0]->conn);
		scene_run(&scene);
		CHECK(sides[0]->writables == 0 && sides[1]->got == 0);
		sides[1]->stopped = false;
		conn_resume_reading(&sides[1]->conn);
		scene_run(&scene);
		CHECK(sides[0]->writables >= 1 && sides[1]->got == sides[0]->sent);
		CHECK(sides[0]->conn.out.data == NULL);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* All that was collected goes at once, and whoever waits for room is still told. */
TEST(conn_full_only_while_corked)
{
	struct side *sides[2];
	struct scene scene;
	int ends[2];
	unsigned char data[CONN_OUT_FULL / 16];

	scene_up(&scene);
	lab_pair(ends);
	scene_talking(&scene, sides, ends, false);
	conn_cork(&sides[0]->conn);
	for (size_t sent = 0; sent < CONN_OUT_FULL; sent += sizeof(data)) {
		for (size_t i = 0; i < sizeof(data); i++)
			data[i] = lab_byte(sent + i);
		CHECK_OK(conn_write(&sides[0]->conn, data, sizeof(data)));
	}
	CHECK(conn_is_full(&sides[0]->conn));
	CHECK(recv(ends[1], &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
	conn_uncork(&sides[0]->conn);
	CHECK(!conn_is_full(&sides[0]->conn) && sides[0]->writables == 0);
	scene_run(&scene);
	CHECK(sides[0]->writables == 1 && sides[1]->got == CONN_OUT_FULL);
	scene_down(&scene);
}

/* ---- reading that stops and goes on ---- */

static void
read_a_little(struct side *s)
{
	unsigned char piece[10];

	CHECK(conn_read(&s->conn, piece, sizeof(piece)) == sizeof(piece));
	CHECK(piece[9] == lab_byte(9));
	s->got += sizeof(piece);
}

/* What OpenSSL or we have in hand already is not forgotten, though the socket is silent. */
TEST(conn_paused_with_data_in_hand)
{
	lab_tls_up();
	for (int others = 0; others <= 1; others++) {
		struct side *sides[2], *more[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_pair(ends);
		scene_talking(&scene, sides, ends, true);
		conn_pause_reading(&sides[1]->conn);
		sides[0]->to_send = 30000;
		side_push(sides[0]);
		scene_run(&scene);
		CHECK(sides[1]->got == 0);
		conn_resume_reading(&sides[1]->conn);
		read_a_little(sides[1]);
		conn_pause_reading(&sides[1]->conn);
		CHECK(recv(ends[1], &(char){ 0 }, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
		if (others) {
			/* They use the same buffers. */
			lab_pair(ends);
			scene_talking(&scene, more, ends, true);
			more[0]->to_send = 50000;
			side_push(more[0]);
			scene_run(&scene);
			CHECK(more[1]->got == 50000);
		}
		scene_run(&scene);
		CHECK(sides[1]->got == 10);
		conn_resume_reading(&sides[1]->conn);
		scene_run(&scene);
		CHECK(sides[1]->got == 30000);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* One readable() reads one piece and returns: the rest is told without being asked for. */
static void
lazy_readable(void *arg)
{
	struct side *s = arg;
	unsigned char piece[100];
	ssize_t n = conn_read(&s->conn, piece, sizeof(piece));

	if (n > 0)
		s->got += (size_t)n;
}

TEST(conn_lazy_reader_is_notified_again)
{
	struct conn_handler lazy = side_handler;

	lazy.readable = lazy_readable;
	lab_tls_up();
	for (int tls = 0; tls <= 1; tls++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_pair(ends);
		scene_talking(&scene, sides, ends, tls);
		sides[1]->conn.handler = &lazy;
		sides[0]->to_send = 20000;
		side_push(sides[0]);
		scene_run(&scene);
		CHECK(sides[1]->got == 20000);
		scene_down(&scene);
	}
	lab_tls_over();
}

static void
stop(void *arg)
{
	loop_quit(arg);
}

/* How many milliseconds of the processor's time the next 60 ms take. */
static long
busy_ms(struct scene *scene)
{
	struct loop_timer timer = { .due = stop, .arg = scene->loop };
	clock_t before = clock();

	loop_set_timer(scene->loop, &timer, 60);
	CHECK_OK(loop_run(scene->loop, NULL));
	return (clock() - before) * 1000 / CLOCKS_PER_SEC;
}

/* Unread data, the end, or a hang-up are not told again and again. */
TEST(conn_waits_quietly)
{
	for (int tcp = 0; tcp <= 1; tcp++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		if (tcp)
			lab_tcp_pair(ends);
		else
			lab_pair(ends);
		scene_talking(&scene, sides, ends, false);
		sides[1]->stopped = true;
		sides[0]->to_send = 2000000;
		side_push(sides[0]);
		scene_run(&scene);
		CHECK(busy_ms(&scene) < 4);
		sides[1]->stopped = false;
		conn_resume_reading(&sides[1]->conn);
		scene_run(&scene);
		CHECK(sides[1]->got == 2000000 && busy_ms(&scene) < 4);
		conn_shut(&sides[0]->conn);
		scene_run(&scene);
		CHECK(sides[1]->heard_end && busy_ms(&scene) < 4);
		conn_shut(&sides[1]->conn);
		scene_run(&scene);
		CHECK(sides[0]->heard_end && busy_ms(&scene) < 4);
		scene_down(&scene);
	}
}

/* ---- from plain to TLS ---- */

TEST(conn_start_tls_later)
{
	struct side *sides[2];
	struct scene scene;
	int ends[2];

	lab_tls_up();
	scene_up(&scene);
	lab_tcp_pair(ends);
	scene_talking(&scene, sides, ends, false);
	sides[0]->to_send = sides[1]->to_send = 100;
	side_push(sides[0]);
	side_push(sides[1]);
	scene_run(&scene);
	CHECK(sides[0]->got == 100 && sides[1]->got == 100);
	sides[0]->sent = sides[1]->got = 0;
	/* The first words of TLS wait in the socket until they are wanted. */
	conn_pause_reading(&sides[1]->conn);
	conn_start_tls(&sides[0]->conn, lab_client(LAB_NAME));
	scene_run(&scene);
	conn_start_tls(&sides[1]->conn, lab_server());
	conn_resume_reading(&sides[1]->conn);
	sides[0]->to_send = 5000;
	side_push(sides[0]);                    /* before the handshake is done */
	CHECK(sides[0]->sent == 5000);
	sides[0]->shuts = true;
	side_push(sides[0]);
	scene_run(&scene);
	CHECK(sides[0]->readies == 1 && sides[1]->readies == 1);
	CHECK(sides[1]->got == 5000 && sides[1]->heard_end);
	scene_down(&scene);
	lab_tls_over();
}

/* ---- corked before the handshake is done ---- */

static void
check_heard(const struct scene *scene, size_t size)
{
	for (int i = 0; i < 2; i++) {
		const struct side *s = scene->sides[i];

		CHECK(s->broken == 0 && s->read_error == 0 && s->readies == 1 && s->heard_end);
		CHECK_U64(s->got, size);
	}
}

/* Both sides have written, uncorked and said the end before either heard of the other. */
TEST(conn_uncorked_during_the_handshake)
{
	static const size_t sizes[] = { 1, 3000, 60000, 300000 };

	lab_tls_up();
	for (size_t i = 0; i < 2 * ARRAY_LEN(sizes); i++) {
		struct scene scene;
		int ends[2];

		SSL_CTX_set_max_proto_version(lab_client_ctx, i % 2 == 0 ? TLS1_2_VERSION : 0);
		scene_up(&scene);
		lab_tcp_pair(ends);
		for (int k = 0; k < 2; k++) {
			struct side *s = side_new(&scene, (uint32_t)i + 1);

			s->corks = true;
			s->to_send = sizes[i / 2];
			side_start(s, ends[k], k == 0 ? lab_client(LAB_NAME) : lab_server());
			side_push(s);
			CHECK(s->conn.handshaking && !s->conn.corked && s->sent > 0);
			CHECK_U64(s->conn.held.len, s->sent);
		}
		CHECK_OK(loop_run(scene.loop, NULL));
		check_heard(&scene, sizes[i / 2]);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* The cork outlives the handshake: nothing is said until it is taken out, not even the end. */
TEST(conn_uncorked_after_the_handshake)
{
	struct scene scene;
	int ends[2];

	lab_tls_up();
	scene_up(&scene);
	lab_tcp_pair(ends);
	for (int k = 0; k < 2; k++) {
		struct side *s = side_new(&scene, 5);

		s->to_send = 3000;
		side_start(s, ends[k], k == 0 ? lab_client(LAB_NAME) : lab_server());
		conn_cork(&s->conn);
		side_push(s);
	}
	scene_run(&scene);
	for (int k = 0; k < 2; k++) {
		CHECK(scene.sides[k]->readies == 1 && scene.sides[k]->got == 0);
		CHECK(!scene.sides[k]->heard_end);
	}
	conn_uncork(&scene.sides[0]->conn);
	conn_uncork(&scene.sides[1]->conn);
	CHECK_OK(loop_run(scene.loop, NULL));
	check_heard(&scene, 3000);
	scene_down(&scene);
	lab_tls_over();
}

/* ---- one write, one record, one send ---- */

TEST(conn_cork)
{
	lab_tls_up();
	for (int tls = 0; tls <= 1; tls++) {
		struct side *sides[2];
		struct scene scene;
		unsigned char sent[1000], got[1000];
		ssize_t n;
		int ends[2];

		/* One send is one message, so it can be told. */
		CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
		scene_up(&scene);
		scene_talking(&scene, sides, ends, tls);
		conn_pause_reading(&sides[1]->conn);
		conn_cork(&sides[0]->conn);
		for (int i = 0; i < 3; i++)
			CHECK_OK(conn_write(&sides[0]->conn, "abc", 3));
		CHECK(recv(ends[1], sent, sizeof(sent), MSG_PEEK | MSG_DONTWAIT) < 0);
		conn_uncork(&sides[0]->conn);
		n = recv(ends[1], sent, sizeof(sent), MSG_PEEK | MSG_DONTWAIT);
		CHECK(tls ? n > 14 && sent[0] == 23 && n == 5 + sent[3] * 256 + sent[4] : n == 9);
		conn_resume_reading(&sides[1]->conn);
		sides[1]->conn.drained = false;
		CHECK(conn_read(&sides[1]->conn, got, sizeof(got)) == 9 && memcmp(got, "abcabcabc", 9) == 0);
		CHECK(conn_read(&sides[1]->conn, got, sizeof(got)) == -EAGAIN);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* Several records, encrypted as they were written, are one message. */
TEST(conn_cork_large)
{
	struct side *sides[2];
	struct scene scene;
	unsigned char piece[16 * 1024];
	int ends[2];

	lab_tls_up();
	CHECK_OK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	scene_up(&scene);
	scene_talking(&scene, sides, ends, true);
	conn_pause_reading(&sides[1]->conn);
	conn_cork(&sides[0]->conn);
	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = lab_byte(sides[0]->sent + i);
		CHECK_OK(conn_write(&sides[0]->conn, piece, sizeof(piece)));
		sides[0]->sent += sizeof(piece);
	}
	CHECK(recv(ends[1], piece, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
	conn_uncork(&sides[0]->conn);
	CHECK(recv(ends[1], piece, 1, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) > 3 * (ssize_t)sizeof(piece));
	conn_resume_reading(&sides[1]->conn);
	scene_run(&scene);
	CHECK_U64(sides[1]->got, sides[0]->sent);
	scene_down(&scene);
	lab_tls_over();
}

static void
write_next(struct side *s, size_t n)
{
	unsigned char piece[20000];

	CHECK(n <= sizeof(piece));
	for (size_t i = 0; i < n; i++)
		piece[i] = lab_byte(s->sent + i);
	CHECK_OK(conn_write(&s->conn, piece, n));
	s->sent += n;
}

/* What one has collected is not lost, nor sent to another's peer, when others write or end. */
TEST(conn_corked_at_the_same_time)
{
	struct side *pairs[3][2];
	struct scene scene;
	uint32_t state = 5;
	int ends[2];

	lab_tls_up();
	scene_up(&scene);
	for (int i = 0; i < 3; i++) {
		lab_pair(ends);
		scene_talking(&scene, pairs[i], ends, true);
		conn_cork(&pairs[i][0]->conn);
	}
	for (int k = 0; k < 60; k++)
		write_next(pairs[lab_draw(&state, 3)][0], 1 + lab_draw(&state, k % 2 == 0 ? 20000 : 300));
	write_next(pairs[2][0], 20000);
	conn_close(&pairs[2][0]->conn, true);
	for (int i = 0; i < 2; i++) {
		write_next(pairs[i][0], 20000);
		conn_uncork(&pairs[i][0]->conn);
	}
	scene_run(&scene);
	for (int i = 0; i < 2; i++)
		CHECK_U64(pairs[i][1]->got, pairs[i][0]->sent);
	CHECK(pairs[2][1]->got < pairs[2][0]->sent);
	scene_down(&scene);
	lab_tls_over();
}
