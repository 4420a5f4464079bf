/* egress_wire.c - tests of logins to Postgres and Redis, also with a compromised gate. */
#include <errno.h>
#include <sys/mman.h>

#include "base/err.h"
#include "egress_lab.h"
#include "test.h"
#include "wire/pg.h"
#include "wire/redis.h"

#define RULE "  - allow: " LAB_HOST ":PORT\n    protocol: tcp\n"
#define FAKE "fake-password-of-the-cell"
#define REAL "real-password-of-the-server"
#define CALL(name, ...) static bool name(struct lab *l) { return __VA_ARGS__; }

static struct lab lab;

CALL(is_routed, l->streams[1].routed != 0)
CALL(is_over, l->streams[1].ended || l->streams[1].is_reset)
CALL(is_gone, l->courier.gate_error != 0)
CALL(hears_login, lab_heard(l, "AUTH"))
CALL(hears_start, lab_heard(l, "database"))
CALL(hears_password, lab_heard(l, "md5"))
CALL(hears_ping, lab_heard(l, "PING"))
CALL(has_data, l->streams[1].data.len >= 8)

/* A cell with one secret, for the server. */
static void
start(const char *scheme)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values values = {0};
	struct placeholder fake = { .field = { [SECRET_SECRET] = (char *)(uintptr_t)FAKE } };
	struct err err = {0};
	char text[256];
	int fd = memfd_create("bound", MFD_CLOEXEC);

	lab_start(&lab, RULE);
	snprintf(text, sizeof(text), "version: 1\nsecrets:\n  DB: {scheme: %s, hosts: ["
	         LAB_HOST ":%u], with: {tls: 'off'}}\n", scheme, lab.port);
	CHECK_OK(secret_load_text("t.yaml", text, strlen(text), &list, &err));
	CHECK_OK(guard_copy(&values.field[SECRET_SECRET], REAL, strlen(REAL), NULL));
	CHECK_OK(bound_write(fd, list.at[0], &fake, &values, NULL));
	CHECK_OK(secrets_open(&lab.courier.secrets, fd, NULL));
	close(fd);
	lab_route(&lab, 1, EGRESS_LOOKS_OTHER, "");
	lab_run(&lab, is_routed);
}

static void
end(void)
{
	lab_end(&lab);
}

static void
send_redis(const char *password)
{
	struct redis_login login = { .password = { password, strlen(password) } };
	OWN(buf_free) struct buf b;

	buf_init(&b, 65536);
	redis_login_encode(&b, &login);
	lab_send(&lab, 1, EGRESS_LOGIN, b.data, b.len);
}

static void
send_postgres(const char *password, const char *application)
{
	struct pg_start s = { .user = "me", .database = "app", .n = 1,
	                      .parameters = { { "application_name", application } } };
	OWN(buf_free) struct buf b;

	buf_init(&b, 65536);
	pg_start_encode(&b, &s, password);
	lab_send(&lab, 1, EGRESS_LOGIN, b.data, b.len);
}

TEST(courier_redis_logs_in)
{
	start("redis");
	CHECK(lab.streams[1].routed == EGRESS_REDIS + 1);
	send_redis(FAKE);
	lab_run(&lab, hears_login);
	lab_settle(&lab);
	CHECK(lab_heard(&lab, "*2\r\n$4\r\nAUTH\r\n$27\r\n" REAL "\r\n") && !lab_heard(&lab, FAKE));
	CHECK(lab.streams[1].logged == 1);
	/* What it says of it is taken out again, at the same length. */
	lab_answer(&lab, "+I was told " REAL "!\r\n");
	lab_run(&lab, has_data);
	lab_settle(&lab);
	CHECK_STR(lab_data(&lab, 1), "+I was told " FAKE "xx!\r\n");
	/* In its order among the bytes. */
	lab_send(&lab, 1, MUX_DATA, "ONE\r\n", 5);
	send_redis(FAKE);
	lab_settle(&lab);
	lab_send(&lab, 1, MUX_DATA, "PING\r\n", 6);
	lab_run(&lab, hears_ping);
	CHECK(lab_heard(&lab, "ONE\r\n*2\r\n$4\r\nAUTH\r\n$27\r\n" REAL "\r\nPING\r\n"));
	end();
}

TEST(courier_redis_refuses)
{
	start("redis");
	send_redis("guess");
	lab_run(&lab, is_over);
	CHECK(strncmp(lab_data(&lab, 1), "-WRONGPASS refused by cloister", 30) == 0);
	CHECK(lab_recorded(&lab, "\"why\":\"login\"") && !lab_heard(&lab, "guess"));
	end();
	start("redis");
	send_redis("x" FAKE);
	lab_run(&lab, is_over);
	CHECK(lab_recorded(&lab, "\"why\":\"exfiltration\"") && !lab_heard(&lab, "AUTH"));
	end();
	start("redis");
	lab_send(&lab, 1, MUX_DATA, "SET a fake-password-", 20);
	lab_send(&lab, 1, MUX_DATA, "of-the-cell\r\n", 13);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].is_reset && lab.streams[1].data.len == 0);
	CHECK(lab_recorded(&lab, "\"why\":\"exfiltration\""));
	end();
}

TEST(courier_postgres_logs_in)
{
	static const char ok[] = "R\0\0\0\x08\0\0\0\0Z\0\0\0\5I";

	start("postgres");
	CHECK(lab.streams[1].routed == EGRESS_POSTGRES + 1 && lab.connections == 0);
	send_postgres(FAKE, "t");
	/* Bytes that come too early wait. */
	lab_send(&lab, 1, MUX_DATA, "PING", 4);
	lab_run(&lab, hears_start);
	lab_settle(&lab);
	CHECK(!lab_heard(&lab, "PING") && !lab_heard(&lab, FAKE));
	CHECK(send(lab.server, "R\0\0\0\x0c\0\0\0\5salt", 13, 0) == 13);
	lab_run(&lab, hears_password);
	CHECK(send(lab.server, ok, sizeof(ok) - 1, 0) == sizeof(ok) - 1);
	lab_run(&lab, hears_ping);
	lab_run(&lab, has_data);
	CHECK(lab.streams[1].data.len == sizeof(ok) - 1 &&
	      memcmp(lab.streams[1].data.data, ok, sizeof(ok) - 1) == 0);
	lab_hang_up(&lab);
	lab_send_end(&lab, 1);
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"secret\":\"DB\"") && lab_recorded(&lab, "\"user\":\"me\"") &&
	      lab_recorded(&lab, "\"service\":\"postgres\"") &&
	      lab_recorded(&lab, "\"database\":\"app\""));
	CHECK(!lab_recorded(&lab, REAL) && !lab_recorded(&lab, FAKE));
	end();
}

TEST(courier_postgres_refuses)
{
	start("postgres");
	send_postgres("guess", "t");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].data.data[0] == 'E' && lab.connections == 0);
	CHECK(lab_recorded(&lab, "\"why\":\"login\""));
	end();
	start("postgres");
	send_postgres(FAKE, "my " FAKE);
	lab_run(&lab, is_over);
	CHECK(lab.connections == 0 && lab_recorded(&lab, "\"why\":\"exfiltration\""));
	end();
	/* A server that wants the password itself, in the clear. */
	start("postgres");
	send_postgres(FAKE, "t");
	lab_run(&lab, hears_start);
	CHECK(send(lab.server, "R\0\0\0\x08\0\0\0\3", 9, 0) == 9);
	lab_run(&lab, is_over);
	CHECK(!lab_heard(&lab, REAL) && lab.streams[1].data.data[0] == 'E');
	end();
}

/* What only a gate that was taken over sends ends the channel. */
TEST(courier_wire_believes_no_gate)
{
	for (int i = 0; i < 8; i++) {
		start(i < 4 ? "redis" : "postgres");
		switch (i) {
		case 0:
			lab_send(&lab, 1, EGRESS_LOGIN, "\1", 1);
			break;
		case 1:
			lab_send(&lab, 1, EGRESS_CANCEL, "\0\0\0\0key", 7);
			break;
		case 2:
			lab_send(&lab, 7, EGRESS_LOGIN, "", 0);
			lab_settle(&lab);
			CHECK(!lab.gone);       /* it may have been over */
			lab_send_end(&lab, 1);
			send_redis(FAKE);
			break;
		case 3:
			lab_send(&lab, 1, EGRESS_LOGGED, "", 0);
			break;
		case 4:
			lab_send(&lab, 1, MUX_DATA, "x", 1);
			break;
		case 5:
			lab_send_end(&lab, 1);
			break;
		case 6:
			lab_send(&lab, 1, EGRESS_CANCEL, "\0\0\0\0", 4);
			break;
		default:
			send_postgres(FAKE, "t");
			send_postgres(FAKE, "t");
		}
		lab_run(&lab, is_gone);
		end();
	}
}
