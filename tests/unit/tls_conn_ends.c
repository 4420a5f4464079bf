/* tls_conn_ends.c - tests of tls/conn: how connections end, and those that do not begin. */
#include "tls/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls_lab.h"

/* ---- ends that are none ---- */

static void
forget(struct side *s)
{
	shutdown(s->conn.source.fd, SHUT_WR);
}

TEST(conn_truncated_tls)
{
	lab_tls_up();
	for (int lenient = 0; lenient <= 1; lenient++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		if (lenient)
			SSL_CTX_set_options(lab_client_ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
		scene_up(&scene);
		lab_pair(ends);
		scene_talking(&scene, sides, ends, true);
		sides[1]->to_send = 1000;
		side_push(sides[1]);
		/* The FIN comes without a goodbye. */
		forget(sides[1]);
		scene_run(&scene);
		CHECK(sides[0]->got == 1000 && sides[0]->broken == 0);
		CHECK(sides[0]->heard_end == (lenient == 1));
		CHECK(sides[0]->read_error == (lenient ? 0 : -ECONNRESET));
		scene_down(&scene);
	}
	lab_tls_over();
}

TEST(conn_half_closes)
{
	lab_tls_up();
	for (int tls = 0; tls <= 1; tls++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_tcp_pair(ends);
		scene_talking(&scene, sides, ends, tls);
		conn_shut(&sides[0]->conn);
		CHECK_ERR(conn_write(&sides[0]->conn, "x", 1), EPIPE);
		scene_run(&scene);
		CHECK(sides[1]->heard_end && !sides[0]->heard_end);
		/* The other way it still goes. */
		sides[1]->to_send = 300000;
		sides[1]->shuts = true;
		side_push(sides[1]);
		scene_run(&scene);
		CHECK(sides[0]->heard_end && sides[0]->got == 300000);
		CHECK(sides[0]->broken == 0 && sides[1]->broken == 0);
		scene_down(&scene);
	}
	lab_tls_over();
}

TEST(conn_reset_while_paused)
{
	struct side *sides[2];
	struct scene scene;
	int ends[2];

	scene_up(&scene);
	lab_tcp_pair(ends);
	scene_talking(&scene, sides, ends, false);
	conn_pause_reading(&sides[0]->conn);
	conn_close(&sides[1]->conn, true);
	scene_run(&scene);
	CHECK(sides[0]->broken == ECONNRESET);
	CHECK_ERR(conn_write(&sides[0]->conn, "x", 1), EPIPE);
	scene_down(&scene);
}

/* The end of a peer that nobody reads is told, and what it sent before is there to be read. */
TEST(conn_shut_while_paused)
{
	for (size_t sends = 0; sends <= 1000; sends += 1000) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_tcp_pair(ends);
		scene_talking(&scene, sides, ends, false);
		conn_pause_reading(&sides[0]->conn);
		sides[1]->to_send = sends;
		sides[1]->shuts = true;
		side_push(sides[1]);
		scene_run(&scene);
		CHECK(sides[0]->shut_told == 1 && !sides[0]->heard_end && sides[0]->got == 0);
		conn_resume_reading(&sides[0]->conn);
		scene_run(&scene);
		CHECK(sides[0]->shut_told == 1 && sides[0]->heard_end && sides[0]->got == sends);
		scene_down(&scene);
	}
}

TEST(conn_write_to_nobody)
{
	lab_tls_up();
	for (int way = 0; way < 4; way++) {
		const bool tls = way & 1, paused = way & 2;
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_pair(ends);
		scene_talking(&scene, sides, ends, tls);
		if (paused)
			conn_pause_reading(&sides[0]->conn);
		conn_close(&sides[1]->conn, true);
		CHECK_OK(conn_write(&sides[0]->conn, "x", 1));
		CHECK_OK(conn_write(&sides[0]->conn, "x", 1));
		scene_run(&scene);
		if (paused)
			CHECK(sides[0]->broken == EPIPE && sides[0]->read_error == 0);
		else
			CHECK(sides[0]->broken == 0 && sides[0]->read_error == (tls ? -ECONNRESET : -EPIPE));
		scene_down(&scene);
	}
	lab_tls_over();
}

/* An answer, and then a reset while the question was still being sent. */
TEST(conn_last_words)
{
	lab_tls_up();
	for (int tls = 0; tls <= 1; tls++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_tcp_pair(ends);
		scene_talking(&scene, sides, ends, tls);
		sides[1]->to_send = 60000;
		side_push(sides[1]);
		conn_close(&sides[1]->conn, true);
		CHECK_OK(conn_write(&sides[0]->conn, "x", 1));
		scene_run(&scene);
		CHECK(sides[0]->got == 60000 && sides[0]->broken == 0 && sides[0]->read_error < 0);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* What was not all said, or whose process dies, is not to be taken for the end. */
TEST(conn_resets)
{
	static const struct {
		size_t sends;
		bool shuts, closes;     /* otherwise it dies */
		bool want_end;
	} cases[] = {
		{ 100000, false, false, false },
		{ 100000, true, false, true },
		{ 100000, false, true, true },
		{ SIZE_MAX, false, true, false },
		{ SIZE_MAX, true, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct linger reset = { .l_onoff = 1 };
		const int little = 8192, much = 1 << 20;
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_tcp_pair(ends);
		/* So that the kernel has most of it when it ends. */
		CHECK_OK(setsockopt(ends[0], SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)));
		CHECK_OK(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &much, sizeof(much)));
		CHECK_OK(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)));
		scene_talking(&scene, sides, ends, false);
		sides[1]->conn.resets = true;
		sides[0]->stopped = true;
		sides[1]->to_send = cases[i].sends;
		if (cases[i].sends == SIZE_MAX)
			side_fill(sides[1]);
		else
			side_push(sides[1]);
		CHECK((sides[1]->conn.out.len > sides[1]->conn.out_at) == (cases[i].sends == SIZE_MAX));
		if (cases[i].shuts)
			conn_shut(&sides[1]->conn);
		if (cases[i].closes)
			conn_close(&sides[1]->conn, false);
		else
			CHECK_OK(dup3(open("/dev/null", O_RDWR | O_CLOEXEC), sides[1]->conn.source.fd, O_CLOEXEC));
		sides[0]->stopped = false;
		conn_resume_reading(&sides[0]->conn);
		for (int k = 0; k < 1000 && !sides[0]->heard_end && sides[0]->read_error == 0; k++)
			scene_run(&scene);
		CHECK(sides[0]->heard_end == cases[i].want_end);
		CHECK((sides[0]->read_error == -ECONNRESET) == !cases[i].want_end);
		CHECK(!cases[i].want_end || sides[0]->got == cases[i].sends);
		scene_down(&scene);
	}
}

/* ---- closing in a callback ---- */

TEST(conn_closed_in_any_callback)
{
	static const char kinds[] = "hrwb";

	lab_tls_up();
	for (int i = 0; kinds[i] != '\0'; i++) {
		struct side *sides[2];
		struct scene scene;
		int ends[2];

		scene_up(&scene);
		lab_tcp_pair(ends);
		if (kinds[i] == 'h') {
			for (int k = 0; k < 2; k++)
				sides[k] = side_new(&scene, 3);
			sides[0]->closes_in = 'h';
			side_start(sides[0], ends[0], lab_client(LAB_NAME));
			side_start(sides[1], ends[1], lab_server());
		} else {
			scene_talking(&scene, sides, ends, true);
			sides[0]->closes_in = kinds[i];
			if (kinds[i] == 'r') {
				sides[1]->to_send = 100000;
				side_push(sides[1]);
			} else if (kinds[i] == 'w') {
				sides[1]->stopped = true;
				side_fill(sides[0]);
				scene_run(&scene);
				sides[1]->stopped = false;
				conn_resume_reading(&sides[1]->conn);
			} else {
				conn_pause_reading(&sides[0]->conn);
				conn_close(&sides[1]->conn, true);
			}
		}
		CHECK_OK(loop_run(scene.loop, NULL));
		CHECK(scene.sides[0] == NULL && scene.sides[1] != NULL);
		scene_run(&scene);
		scene_down(&scene);
	}
	lab_tls_over();
}

/* ---- handshakes that fail ---- */

static const struct {
	const char *what, *name;
	bool is_expired, is_unknown, is_plain, hangs_up;
	int code;
	const char *text;
} failures[] = {
	{ "another name", "other.test", .code = EKEYREJECTED, .text = "ostname mismatch" },
	{ "expired", LAB_NAME, .is_expired = true, .code = EKEYREJECTED, .text = "has expired" },
	{ "unknown", LAB_NAME, .is_unknown = true, .code = EKEYREJECTED, .text = "self" },
	{ "no TLS", LAB_NAME, .is_plain = true, .code = EPROTO, .text = "wrong version number" },
	{ "nothing", LAB_NAME, .hangs_up = true, .code = ECONNRESET, .text = "closed" },
};

TEST(conn_handshakes_that_fail)
{
	for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
		struct side *sides[2];
		struct scene scene;
		SSL_CTX *ctx;
		int ends[2];

		lab_tls_up();
		scene_up(&scene);
		lab_pair(ends);
		for (int k = 0; k < 2; k++) {
			sides[k] = side_new(&scene, 3);
			sides[k]->to_send = 10;
		}
		if (failures[i].is_expired)
			CHECK(SSL_CTX_use_certificate(lab_server_ctx, lab_expired) == 1);
		if (failures[i].is_unknown) {
			ctx = SSL_CTX_new(TLS_client_method());
			SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
			SSL_CTX_free(lab_client_ctx);
			lab_client_ctx = ctx;
		}
		side_start(sides[0], ends[0], lab_client(failures[i].name));
		if (failures[i].is_plain || failures[i].hangs_up) {
			conn_init(&sides[1]->conn, scene.loop, ends[1], NULL, &side_handler, sides[1]);
			conn_pause_reading(&sides[1]->conn);
			if (failures[i].is_plain)
				CHECK_OK(conn_write(&sides[1]->conn, "HTTP/1.1 400 Bad\r\n\r\n", 20));
			else
				conn_shut(&sides[1]->conn);
		} else {
			side_start(sides[1], ends[1], lab_server());
		}
		scene_run(&scene);
		if (sides[0]->broken != failures[i].code || sides[0]->readies != 0 ||
		    strstr(sides[0]->text, failures[i].text) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %d, %s", failures[i].what, sides[0]->broken,
			          sides[0]->text);
		/* The alert has come, and says why. */
		if (failures[i].code == EKEYREJECTED)
			CHECK(sides[1]->readies == 1 ? sides[1]->read_error == -EPROTO :
			      sides[1]->broken == EPROTO && strstr(sides[1]->text, "alert") != NULL);
		scene_down(&scene);
		lab_tls_down();
	}
	OPENSSL_cleanup();
}
