/* egress_revoke.c - tests of secrets that are revoked or replaced while requests use them. */
#include <errno.h>
#include <sys/mman.h>

#include "base/err.h"
#include "egress_lab.h"
#include "test.h"
#include "wire/redis.h"

#define RULE "  - allow: " LAB_HOST ":PORT\n"
/* Whose body need not be searched is not held. */
#define STREAMS RULE "    secrets: allow\n"
#define FAKE "fake-value-of-the-cell"
#define REAL "real-value-of-the-operator"
#define CALL(name, ...) static bool name(struct lab *l) { return __VA_ARGS__; }

static struct lab lab;

CALL(is_asked, lab_heard(l, "\r\n\r\n"))
CALL(is_over, l->streams[1].ended || l->streams[1].is_reset)
CALL(second_is_over, l->streams[2].ended || l->streams[2].is_reset)
CALL(third_is_over, l->streams[3].ended || l->streams[3].is_reset)
CALL(has_data, l->streams[1].data.len >= 5)
CALL(is_routed, l->streams[1].routed != 0)
CALL(hears_login, lab_heard(l, "AUTH"))

static void
start(const char *rule, const char *definition)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values values = {0};
	struct placeholder fake = { .field = { [SECRET_SECRET] = (char *)(uintptr_t)FAKE } };
	struct err err = {0};
	char text[256];
	int fd = memfd_create("bound", MFD_CLOEXEC);

	lab_start(&lab, rule);
	snprintf(text, sizeof(text), "version: 1\nsecrets:\n  KEY: {hosts: [" LAB_HOST ":%u], %s}\n",
	         lab.port, definition);
	CHECK_OK(secret_load_text("t.yaml", text, strlen(text), &list, &err));
	CHECK_OK(guard_copy(&values.field[SECRET_SECRET], REAL, strlen(REAL), NULL));
	CHECK_OK(bound_write(fd, list.at[0], &fake, &values, NULL));
	CHECK_OK(secrets_open(&lab.courier.secrets, fd, NULL));
	close(fd);
}

static void
ask(uint32_t id, const char *value, uint64_t length)
{
	OWN(buf_free) struct buf frame;
	static struct http_head head;

	head = (struct http_head){ .method = { "POST", 4 }, .host = { LAB_HOST, strlen(LAB_HOST) },
	                           .path = { "/x", 2 }, .port = lab.port, .length = length, .n_fields = 1,
	                           .fields = { { { "authorization", 13 }, { value, strlen(value) } } } };
	buf_init(&frame, MUX_FRAME_MAX);
	buf_put_str(&frame, LAB_HOST);
	buf_put_str(&frame, "");
	buf_put_u32(&frame, lab.port);
	buf_put_u32(&frame, EGRESS_TRANSPARENT);
	buf_put_u32(&frame, 11);
	buf_put_u32(&frame, length != 0 ? EGRESS_HAS_BODY : 0);
	http_head_encode(&frame, &head);
	lab_send(&lab, id, EGRESS_REQUEST, frame.data, frame.len);
}

static void
put_value(const char *value, int fd)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(secret_values_free) struct secret_values values = {0};
	struct placeholder fake = { .field = { [SECRET_SECRET] = (char *)(uintptr_t)FAKE } };
	static const char text[] = "version: 1\nsecrets:\n  KEY: {hosts: [a.example]}\n";

	CHECK_OK(secret_load_text("t.yaml", text, strlen(text), &list, NULL));
	CHECK_OK(guard_copy(&values.field[SECRET_SECRET], value, strlen(value), NULL));
	CHECK_OK(bound_write(fd, list.at[0], &fake, &values, NULL));
}

static void
rotate(const char *value, int want)
{
	OWN(closep) int fd = memfd_create("value", MFD_CLOEXEC);
	struct err err = {0};

	put_value(value, fd);
	CHECK(courier_rotate(&lab.courier, fd, &err) == want);
}

static void
take_back(void)
{
	CHECK_OK(courier_revoke(&lab.courier, "KEY", "it leaked", false, NULL, NULL));
}

TEST(courier_revoke_refuses_later_requests)
{
	struct err err = {0};

	start(RULE, "plain: true");
	CHECK_ERR(courier_revoke(&lab.courier, "OTHER", "", false, NULL, &err), ENOENT);
	take_back();
	take_back();
	ask(1, "Bearer " FAKE, 0);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && lab.connections == 0);
	CHECK(strstr(lab_data(&lab, 1), "the secret 'KEY' has been revoked: it leaked") != NULL);
	CHECK(lab_recorded(&lab, "\"why\":\"revoked\""));
	/* Others go, and what the server has of it stays out of the cell. */
	ask(2, "Bearer something-else", 0);
	lab_run(&lab, is_asked);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 32\r\n\r\nkept: " REAL);
	lab_run(&lab, second_is_over);
	CHECK(lab.streams[2].status == 200 && strstr(lab_data(&lab, 2), "real") == NULL);
	lab_end(&lab);
}

TEST(courier_revoke_cuts_requests_under_way)
{
	start(STREAMS, "plain: true");
	ask(1, "Bearer " FAKE, 1000);
	lab_send(&lab, 1, MUX_DATA, "half", 4);
	lab_run(&lab, is_asked);
	CHECK(lab_heard(&lab, REAL));
	take_back();
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && !lab.streams[1].is_reset);
	lab_settle(&lab);
	errno = 0;
	CHECK(recv(lab.server, (char[1]){0}, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	lab_end(&lab);
}

TEST(courier_revoke_cuts_an_answer)
{
	start(RULE, "plain: true");
	ask(1, "Bearer " FAKE, 0);
	lab_run(&lab, is_asked);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun");
	lab_run(&lab, has_data);
	take_back();
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].is_reset && lab.streams[1].reset == EGRESS_RESET_POLICY);
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"why\":\"revoked\""));
	lab_end(&lab);
}

TEST(courier_revoke_leaves_others_alone)
{
	start(RULE, "plain: true");
	ask(1, "Bearer nothing-of-ours", 0);
	lab_run(&lab, is_asked);
	take_back();
	lab_settle(&lab);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 200);
	lab_end(&lab);
}

/* A body that began before. */
TEST(courier_revoke_stops_a_placeholder_that_follows)
{
	start(STREAMS, "plain: true, in: [body]");
	ask(1, "none", HTTP_LENGTH_UNKNOWN);
	lab_send(&lab, 1, MUX_DATA, "half", 4);
	lab_run(&lab, is_asked);
	take_back();
	lab_send(&lab, 1, MUX_DATA, FAKE, strlen(FAKE));
	lab_send_end(&lab, 1);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && !lab_heard(&lab, REAL));
	CHECK(lab_recorded(&lab, "\"why\":\"revoked\""));
	lab_end(&lab);
}

TEST(courier_revoke_spares_its_cause)
{
	start(RULE, "plain: true");
	ask(1, "Bearer " FAKE, 0);
	lab_run(&lab, is_asked);
	CHECK_OK(courier_revoke(&lab.courier, "KEY", "", false, lab.courier.exchanges, NULL));
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 200);
	lab_end(&lab);
}

TEST(courier_revoke_cuts_a_login)
{
	struct redis_login login = { .password = { FAKE, strlen(FAKE) } };
	OWN(buf_free) struct buf b;

	start("  - allow: " LAB_HOST ":PORT\n    protocol: tcp\n", "scheme: redis, with: {tls: 'off'}");
	lab_route(&lab, 1, EGRESS_LOOKS_OTHER, "");
	lab_run(&lab, is_routed);
	buf_init(&b, 65536);
	redis_login_encode(&b, &login);
	lab_send(&lab, 1, EGRESS_LOGIN, b.data, b.len);
	lab_run(&lab, hears_login);
	take_back();
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].is_reset);
	lab_route(&lab, 2, EGRESS_LOOKS_OTHER, "");
	lab_settle(&lab);
	lab_send(&lab, 2, EGRESS_LOGIN, b.data, b.len);
	lab_run(&lab, second_is_over);
	CHECK(strstr(lab_data(&lab, 2), "has been revoked") != NULL);
	CHECK(!lab_heard(&lab, "AUTH"));
	lab_end(&lab);
}

TEST(courier_rotate_loses_nothing)
{
	start(RULE, "plain: true");
	ask(1, "Bearer " FAKE, 0);
	lab_run(&lab, is_asked);
	rotate("second-value-of-it", 0);
	rotate("third-value-of-it", 0);
	rotate("fourth-value-of-it", 0);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 26\r\n\r\n" REAL);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 200 && strstr(lab_data(&lab, 1), "real") == NULL);
	buf_reset(&lab.heard);
	ask(2, "Bearer " FAKE, 0);
	lab_run(&lab, is_asked);
	CHECK(lab_heard(&lab, "fourth-value-of-it") && !lab_heard(&lab, REAL));
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 37\r\n\r\nsecond-value-of-it fourth-value-of-it");
	lab_run(&lab, second_is_over);
	CHECK(strstr(lab_data(&lab, 2), "second") == NULL && strstr(lab_data(&lab, 2), "fourth") == NULL);
	/* One without a value, and one that is revoked. */
	rotate("", -EINVAL);
	take_back();
	rotate("fifth-value-of-it", -EPERM);
	ask(3, "Bearer " FAKE, 0);
	lab_run(&lab, third_is_over);
	CHECK(lab.streams[3].status == 403);
	CHECK_U64(lab.courier.secrets.used[0], 2);
	lab_end(&lab);
}
