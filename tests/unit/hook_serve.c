/* hook_serve.c - tests of cloister-hook: couriers that ask over their channels. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "policy_lab.h"
#include "proc/hook/hook.h"
#include "test.h"

#define ID "0123456789abcdef0123456789abcdef"
#define QUESTION "{\"id\":\"" ID "\",\"q\":"

/* A courier, as cloister-hook sees it. */
struct client {
	struct rig *rig;
	int fd;
	struct mux *mux;
	bool is_gone;
	size_t n_answers;
	uint32_t id, result;            /* of the last answer */
	char text[256];
};

struct rig {
	struct loop *loop;
	struct loop_timer guard;
	struct hook_server server;
};

static int
client_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct client *c = arg;
	const char *text;

	CHECK(type == HOOK_ANSWER);
	CHECK_OK(buf_get_u32(body, &c->result));
	CHECK_OK(buf_get_str(body, &text));
	CHECK(buf_left(body) == 0);
	snprintf(c->text, sizeof(c->text), "%s", text);
	/* The hooks here say something in the member "a". */
	if (c->result == HOOK_ANSWERED)
		CHECK(sscanf(text, "{\"id\":\"" ID "\",\"a\":\"%255[^\"]", c->text) == 1);
	c->id = id;
	c->n_answers++;
	if (stream != NULL)
		mux_close(stream);
	loop_quit(c->rig->loop);
	return 0;
}

static int
client_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	(void)arg, (void)stream, (void)data, (void)len;
	return -EBADMSG;
}

static void
client_writable(void *arg, struct mux_stream *stream)
{
	(void)arg, (void)stream;
}

static void
client_ended(void *arg, int error)
{
	struct client *c = arg;

	(void)error;
	c->is_gone = true;
	loop_quit(c->rig->loop);
}

static void
guard_due(void *arg)
{
	(void)arg;
	test_fail(__FILE__, __LINE__, "nothing happens");
}

static void
rig_start(struct rig *rig, const char *rules)
{
	*rig = (struct rig){ .guard = { .due = guard_due } };
	signal(SIGPIPE, SIG_IGN);
	CHECK(setenv("HOME", test_dir(), 1) == 0 && setenv("XDG_STATE_HOME", test_dir(), 1) == 0 &&
	      setenv("XDG_RUNTIME_DIR", test_dir(), 1) == 0 && setenv("XDG_DATA_HOME", test_dir(), 1) == 0);
	CHECK_OK(loop_new(&rig->loop, NULL));
	rig->server.loop = rig->loop;
	CHECK_OK(hook_pool_new(rig->loop, lab_rules(rules), &rig->server.pool, NULL));
	loop_set_timer(rig->loop, &rig->guard, 60 * 1000);
}

static void
rig_end(struct rig *rig)
{
	hook_serve_end(&rig->server);
	CHECK(rig->server.n_couriers == 0 && rig->server.couriers == NULL);
	hook_pool_free(rig->server.pool);
	loop_cancel_timer(rig->loop, &rig->guard);
	loop_free(rig->loop);
}

static void
client_start(struct client *c, struct rig *rig)
{
	static const struct mux_handler handler = {
		.frame = client_frame, .data = client_data, .writable = client_writable,
		.ended = client_ended,
	};
	int ends[2];

	*c = (struct client){ .rig = rig };
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	c->fd = ends[0];
	CHECK_OK(mux_new(rig->loop, c->fd, &handler, c, &c->mux, NULL));
	CHECK_OK(hook_serve(&rig->server, ends[1], NULL));
}

static void
client_end(struct client *c)
{
	mux_free(c->mux);
	close(c->fd);
}

/* Begin a question to the hook of RULE. */
static struct mux_stream *
client_ask(struct client *c, const struct policy *p, int rule, uint64_t timeout_ms)
{
	OWN(buf_free) struct buf b;
	struct mux_stream *stream = mux_open(c->mux, NULL);

	buf_init(&b, MUX_FRAME_MAX);
	buf_put_u64(&b, timeout_ms);
	policy_hook_put_call(&b, policy_hook_of(p, rule));
	mux_send(c->mux, stream->id, HOOK_ASK, &b);
	return stream;
}

static void
client_send(struct client *c, struct mux_stream *stream, const char *text)
{
	CHECK(mux_send_data(stream, text, strlen(text)) == strlen(text));
	mux_send(c->mux, stream->id, HOOK_END, NULL);
}

/* They answer with a letter and the text of the question. */
#define HOOK(letter) "[/bin/sh, -c, 'while read -r q; do q=${q#*,?q??}; " \
	"echo \"{\\\"id\\\":\\\"" ID "\\\",\\\"a\\\":\\\"" letter " ${q%?}\\\"}\"; done']"
#define RULES "- {allow: a.x, hook: " HOOK("a") "}\n- {allow: b.x, hook: " HOOK("b") "}\n"
/* It answers with the number of characters of the question. */
#define COUNTS "- {allow: a.x, hook: [/bin/sh, -c, 'q=$(head -n 1); " \
	"echo \"{\\\"id\\\":\\\"" ID "\\\",\\\"a\\\":\\\"${#q}\\\"}\"']}\n"

TEST(hook_serve_answers)
{
	OWN(policy_freep) struct policy *other = lab_rules(RULES "- {allow: c.x, hook: /bin/other}\n");
	struct client one, two;
	struct rig rig;

	rig_start(&rig, RULES);
	client_start(&one, &rig);
	client_start(&two, &rig);
	client_send(&one, client_ask(&one, other, 0, 30 * 1000), QUESTION "1}\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(one.result == HOOK_ANSWERED && one.id == 1);
	CHECK_STR(one.text, "a 1");
	client_send(&two, client_ask(&two, other, 1, 30 * 1000), QUESTION "2}\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(two.result == HOOK_ANSWERED && one.n_answers == 1);
	CHECK_STR(two.text, "b 2");
	/* The cell was not started with this one. */
	client_send(&one, client_ask(&one, other, 2, 30 * 1000), QUESTION "3}\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(one.result == HOOK_FAILED && one.id == 2 && !one.is_gone);
	CHECK(strstr(one.text, "not started with this hook") != NULL);
	client_end(&one);
	client_end(&two);
	rig_end(&rig);
}

static void
stop_loop(void *arg)
{
	loop_quit(arg);
}

/* A large question comes in many frames, each with new credit. */
TEST(hook_serve_large_question)
{
	static char text[MUX_WINDOW];
	struct client c;
	struct rig rig;
	OWN(policy_freep) struct policy *p = lab_rules(COUNTS);
	struct mux_stream *stream;

	memset(text, 'q', sizeof(text));
	memcpy(text, QUESTION, strlen(QUESTION));
	rig_start(&rig, COUNTS);
	client_start(&c, &rig);
	stream = client_ask(&c, p, 0, 30 * 1000);
	for (size_t left = sizeof(text); left > 0;) {
		left -= mux_send_data(stream, text, left);
		mux_flush(c.mux);
	}
	/* Without credit for more, the peer has to take some. */
	while (stream->may_send == 0) {
		struct loop_timer soon = { .due = stop_loop, .arg = rig.loop };

		loop_set_timer(rig.loop, &soon, 1);
		CHECK_OK(loop_run(rig.loop, NULL));
		loop_cancel_timer(rig.loop, &soon);
	}
	client_send(&c, stream, "end\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(c.result == HOOK_ANSWERED && atol(c.text) == MUX_WINDOW + 3);
	client_end(&c);
	rig_end(&rig);
}

TEST(hook_serve_drops)
{
	OWN(policy_freep) struct policy *p = lab_rules(RULES);
	struct client c, other;
	struct mux_stream *stream;
	struct rig rig;

	rig_start(&rig, RULES);
	client_start(&c, &rig);
	client_start(&other, &rig);
	stream = client_ask(&c, p, 0, 30 * 1000);
	mux_send(c.mux, stream->id, HOOK_DROP, NULL);
	mux_close(stream);
	/* Its later frames are ignored. */
	mux_send(c.mux, 1, HOOK_END, NULL);
	mux_send(c.mux, 1, HOOK_DROP, NULL);
	client_send(&c, client_ask(&c, p, 0, 30 * 1000), QUESTION "x}\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(c.n_answers == 1 && c.id == 2 && c.result == HOOK_ANSWERED);
	/* A courier that is gone takes its questions along, and no others. */
	(void)client_ask(&c, p, 0, 30 * 1000);
	client_send(&c, client_ask(&c, p, 1, 30 * 1000), QUESTION "y}\n");
	mux_flush(c.mux);
	client_end(&c);
	client_send(&other, client_ask(&other, p, 0, 30 * 1000), QUESTION "z}\n");
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK_STR(other.text, "a z");
	CHECK(rig.server.n_couriers == 1);
	client_end(&other);
	rig_end(&rig);
}

TEST(hook_serve_is_late)
{
	struct client c;
	struct rig rig;
	OWN(policy_freep) struct policy *p = lab_rules(RULES);

	rig_start(&rig, RULES);
	client_start(&c, &rig);
	(void)client_ask(&c, p, 0, 20);
	CHECK_OK(loop_run(rig.loop, NULL));
	CHECK(c.result == HOOK_FAILED && strstr(c.text, "did not reach the hook in time") != NULL);
	client_end(&c);
	rig_end(&rig);
}

/* Each of these ends the channel. */
TEST(hook_serve_bad_peer)
{
	OWN(policy_freep) struct policy *p = lab_rules(RULES);

	for (int i = 0; i < 9; i++) {
		struct client c;
		struct rig rig;
		struct mux_stream *stream = NULL;

		rig_start(&rig, RULES);
		client_start(&c, &rig);
		if (i >= 3)
			stream = client_ask(&c, p, 0, i == 3 ? 0 : i == 4 ? HOOK_TIMEOUT_MAX_MS + 1 : 1000);
		switch (i) {
		case 0: mux_send(c.mux, 1, HOOK_ANSWER, NULL); break;
		case 1: mux_send(c.mux, 1, HOOK_ASK, NULL); break;
		case 2: mux_send(c.mux, 1, HOOK_DROP + 1, NULL); break;
		case 5: mux_send(c.mux, stream->id, HOOK_END, NULL); break;
		case 6: client_send(&c, stream, QUESTION "a}\nb\n"); break;
		case 8: client_send(&c, stream, "{\"q\":1}\n"); break;
		case 7:
			client_send(&c, stream, QUESTION "a}\n");
			CHECK(mux_send_data(stream, "b\n", 2) == 2);
			break;
		}
		CHECK_OK(loop_run(rig.loop, NULL));
		CHECK(c.is_gone && c.n_answers == 0);
		client_end(&c);
		rig_end(&rig);
	}
}

TEST(hook_serve_has_few_couriers)
{
	struct client c[HOOK_COURIERS_MAX];
	struct rig rig;
	int ends[2];
	char byte;

	rig_start(&rig, RULES);
	for (size_t i = 0; i < HOOK_COURIERS_MAX; i++)
		client_start(&c[i], &rig);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK_ERR(hook_serve(&rig.server, ends[1], NULL), EBUSY);
	/* Its end is closed. */
	CHECK(read(ends[0], &byte, 1) == 0);
	close(ends[0]);
	for (size_t i = 0; i < HOOK_COURIERS_MAX; i++)
		client_end(&c[i]);
	rig_end(&rig);
}
