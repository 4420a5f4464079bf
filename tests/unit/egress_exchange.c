/* egress_exchange.c - tests of exchanges between a gate and a server. */
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "egress_lab.h"
#include "test.h"

#define RULE "  - allow: " LAB_HOST ":PORT\n"
/* Whose body need not be searched is not held. */
#define STREAMS RULE "    secrets: allow\n"

static struct lab lab;

static bool
is_asked(struct lab *l)
{
	return lab_heard(l, "\r\n\r\n");
}

static bool
is_over(struct lab *l)
{
	return l->streams[1].ended || l->streams[1].is_reset;
}

static bool
second_is_over(struct lab *l)
{
	return l->streams[2].ended || l->streams[2].is_reset;
}

static bool
is_routed(struct lab *l)
{
	return l->streams[1].routed != 0;
}

TEST(courier_carries)
{
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, is_asked);
	CHECK(lab_heard(&lab, "GET /x?y HTTP/1.1\r\nhost: " LAB_HOST ":"));
	lab_answer(&lab, "HTTP/1.1 200 OK\r\nalt-svc: h3\r\ncontent-length: 5\r\n\r\nhello");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 200 && !lab.streams[1].is_reset);
	CHECK_STR(lab_data(&lab, 1), "hello");
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"rule\":\"t.yaml:3:5\""));
	CHECK(lab_recorded(&lab, "\"query\":true"));
	CHECK(lab_recorded(&lab, "\"received\":5"));
	lab_end(&lab);
}

TEST(courier_refuses)
{
	lab_start(&lab, "  - deny: " LAB_HOST ":PORT\n    reason: not \"today\"\n");
	lab_ask(&lab, 1, "DELETE", 0);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403);
	CHECK(strstr(lab_data(&lab, 1), "\"reason\":\"not \\\"today\\\"\"") != NULL);
	CHECK(strstr(lab_data(&lab, 1), "\"rule\":\"t.yaml:3:5\"") != NULL);
	lab_ask_for(&lab, 2, "GET", "other.example", "other.example", 0);
	lab_run(&lab, second_is_over);
	CHECK(lab.streams[2].status == 403);
	CHECK(strstr(lab_data(&lab, 2), "\"rule\":null") != NULL);
	CHECK(lab_recorded(&lab, "\"why\":\"rule\"") && lab_recorded(&lab, "\"why\":\"no-rule\""));
	CHECK(lab.connections == 0);
	lab_end(&lab);
}

TEST(courier_refuses_another_name)
{
	lab_start(&lab, RULE);
	lab_ask_for(&lab, 1, "GET", LAB_HOST, "other.example", 0);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && lab_recorded(&lab, "\"why\":\"mismatch\""));
	CHECK(lab.connections == 0);
	lab_end(&lab);
}

TEST(courier_sends_a_body)
{
	char body[2000];

	memset(body, 'b', sizeof(body));
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "POST", sizeof(body));
	lab_send(&lab, 1, MUX_DATA, body, sizeof(body));
	lab_send_end(&lab, 1);
	lab_run(&lab, is_asked);
	CHECK(lab_heard(&lab, "content-length: 2000\r\n"));
	lab_settle(&lab);
	CHECK(lab.heard.len > 2000 && lab.heard.data[lab.heard.len - 2000] == 'b');
	lab_answer(&lab, "HTTP/1.1 204 No Content\r\n\r\n");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 204 && !lab.streams[1].has_body);
	lab_end(&lab);
}

/* Nothing of it reaches the server, though it comes in pieces. */
TEST(courier_holds_secrets_back)
{
	static const char begin[] = "a=b&key=-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1L";
	static const char rest[] = "fVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLwvXm9YTrnnP+G1ArV\n";

	lab_start(&lab, RULE "    body: {max: 64M}\n");
	/* It is too large to be held. */
	lab_ask(&lab, 1, "POST", COURIER_LOOK_HELD + 1);
	lab_run(&lab, is_asked);
	lab_send(&lab, 1, MUX_DATA, begin, 20);
	lab_settle(&lab);
	lab_send(&lab, 1, MUX_DATA, begin + 20, sizeof(begin) - 21);
	lab_send(&lab, 1, MUX_DATA, rest, sizeof(rest) - 1);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && lab_recorded(&lab, "\"why\":\"secret\""));
	CHECK(!lab_heard(&lab, "PRIVATE"));
	lab_end(&lab);
}

/* Of what can be held nothing leaves before all of it was looked at, wherever the key stands. */
TEST(courier_holds_bodies)
{
	static const char key[] = "\n-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1L"
		"fVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gunVTLwvXm9YTrnnP+G1ArV\n";
	static char piece[50000];
	const size_t n = 24;

	memset(piece, 'p', sizeof(piece));
	for (int known = 0; known < 2; known++) {
		lab_start(&lab, RULE);
		lab_ask(&lab, 1, "POST", known ? n * sizeof(piece) + sizeof(key) - 1 : HTTP_LENGTH_UNKNOWN);
		for (size_t i = 0; i < n; i++) {
			lab_send(&lab, 1, MUX_DATA, piece, sizeof(piece));
			lab_settle(&lab);
		}
		CHECK_U64(lab.connections, 0);
		lab_send(&lab, 1, MUX_DATA, key, sizeof(key) - 1);
		lab_send_end(&lab, 1);
		lab_run(&lab, is_over);
		CHECK(lab.streams[1].status == 403 && lab_recorded(&lab, "\"why\":\"secret\""));
		CHECK_U64(lab.connections, 0);
		lab_end(&lab);
	}
}

TEST(courier_ends_a_gate_that_lies)
{
	static const char more[] = "GET /smuggled HTTP/1.1\r\n\r\n";

	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "POST", 4);
	lab_send(&lab, 1, MUX_DATA, more, sizeof(more) - 1);
	lab_settle(&lab);
	CHECK(lab.courier.gate_error == -EBADMSG);
	CHECK(!lab_heard(&lab, "smuggled"));
	lab_end(&lab);
}

/* The server answers before it has the whole body, and the agent reads none of the answer
 * but goes on sending. */
TEST(courier_answers_early_to_a_busy_agent)
{
	static char answer[400000], piece[50000];
	int n = snprintf(answer, sizeof(answer), "HTTP/1.1 413 Too Large\r\ncontent-length: "
	                 "300000\r\nconnection: close\r\n\r\n");

	memset(answer + n, 'a', 300000);
	memset(piece, 'p', sizeof(piece));
	lab_start(&lab, STREAMS);
	lab_ask(&lab, 1, "POST", HTTP_LENGTH_UNKNOWN);
	lab_run(&lab, is_asked);
	CHECK(send(lab.server, answer, (size_t)n + 300000, MSG_NOSIGNAL) > 0);
	lab_settle(&lab);
	lab_settle(&lab);
	CHECK(lab.streams[1].data.len == MUX_WINDOW);
	for (size_t i = 0; i < 3; i++)
		lab_send(&lab, 1, MUX_DATA, piece, sizeof(piece));
	lab_settle(&lab);
	CHECK(!lab.gone && !is_over(&lab));
	lab_give_credit(&lab, 1, MUX_WINDOW);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].data.len == 300000 && !lab.streams[1].is_reset);
	CHECK(lab.courier.n_exchanges == 1);
	lab_send_end(&lab, 1);
	lab_settle(&lab);
	CHECK(lab.courier.n_exchanges == 0);
	lab_end(&lab);
}

static void
ask_and_answer(uint32_t id, const char *answer)
{
	buf_reset(&lab.heard);
	lab_ask(&lab, id, "GET", 0);
	lab_run(&lab, is_asked);
	lab_answer(&lab, answer);
	lab_run(&lab, id == 1 ? is_over : second_is_over);
}

TEST(courier_keeps_connections)
{
	lab_start(&lab, RULE);
	ask_and_answer(1, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na");
	ask_and_answer(2, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb");
	CHECK_STR(lab_data(&lab, 2), "b");
	CHECK_U64(lab.connections, 1);
	lab_end(&lab);
}

/* What a server says unasked must not be taken for the next answer. */
TEST(courier_does_not_believe_a_second_answer)
{
	lab_start(&lab, RULE);
	ask_and_answer(1, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na"
	               "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
	ask_and_answer(2, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb");
	CHECK_STR(lab_data(&lab, 2), "b");
	CHECK_U64(lab.connections, 2);
	lab_end(&lab);
}

static bool
asked_again(struct lab *l)
{
	return l->connections == 2 && lab_heard(l, "\r\n\r\n");
}

/* A kept connection that the server closes in that very moment. */
TEST(courier_tries_once_more)
{
	lab_start(&lab, RULE);
	ask_and_answer(1, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na");
	buf_reset(&lab.heard);
	lab_ask(&lab, 2, "GET", 0);
	lab_run(&lab, is_asked);
	CHECK_U64(lab.connections, 1);
	lab_hang_up(&lab);
	lab_run(&lab, asked_again);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nb");
	lab_run(&lab, second_is_over);
	CHECK(lab.streams[2].status == 200);
	/* On a new one it is the server's fault. */
	lab_hang_up(&lab);
	lab.streams[1] = (struct lab_stream){ .data = lab.streams[1].data };
	lab_settle(&lab);
	buf_reset(&lab.heard);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, is_asked);
	lab_hang_up(&lab);
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 502);
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"why\":\"unreachable\""));
	lab_end(&lab);
}

TEST(courier_cuts_a_broken_answer)
{
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, is_asked);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
	lab_settle(&lab);
	lab_hang_up(&lab);
	lab_run(&lab, is_over);
	CHECK_STR(lab_data(&lab, 1), "half");
	CHECK(lab.streams[1].is_reset && lab.streams[1].reset == EGRESS_RESET_UPSTREAM);
	lab_end(&lab);
}

static bool
heard_hello(struct lab *l)
{
	return lab_heard(l, "hello");
}

static bool
got_bye(struct lab *l)
{
	return l->streams[1].ended && strcmp(lab_data(l, 1), "bye") == 0;
}

TEST(courier_tunnels)
{
	lab_start(&lab, RULE "    protocol: tcp\n");
	lab_route(&lab, 1, EGRESS_LOOKS_UNKNOWN, "");
	lab_run(&lab, is_routed);
	CHECK(lab.streams[1].routed - 1 == EGRESS_TUNNEL);
	lab_send(&lab, 1, MUX_DATA, "hello", 5);
	lab_send_end(&lab, 1);
	lab_run(&lab, heard_hello);
	/* One side has ended, the other goes on. */
	lab_settle(&lab);
	lab_answer(&lab, "bye");
	lab_hang_up(&lab);
	lab_run(&lab, got_bye);
	lab_settle(&lab);
	CHECK(lab.courier.n_exchanges == 0);
	CHECK(lab_recorded(&lab, "\"type\":\"tcp\""));
	CHECK(lab_recorded(&lab, "\"received\":3") && lab_recorded(&lab, "\"sent\":5"));
	lab_end(&lab);
}

TEST(courier_routes)
{
	static const struct {
		const char *rules;
		enum egress_looks looks;
		const char *sni;
		enum egress_routed want;
	} cases[] = {
		{ RULE, EGRESS_LOOKS_UNKNOWN, "", EGRESS_LOOK },
		{ RULE, EGRESS_LOOKS_TLS, LAB_HOST, EGRESS_SPEAK },
		{ RULE, EGRESS_LOOKS_TLS, "", EGRESS_SPEAK },
		{ RULE, EGRESS_LOOKS_TLS, "front.example", EGRESS_REFUSED },
		{ RULE, EGRESS_LOOKS_HTTP, "", EGRESS_SPEAK },
		{ RULE, EGRESS_LOOKS_OTHER, "", EGRESS_REFUSED },
		{ "  []\n", EGRESS_LOOKS_TLS, LAB_HOST, EGRESS_SPEAK },
		{ "  []\n", EGRESS_LOOKS_OTHER, "", EGRESS_REFUSED },
		{ RULE "    protocol: tls\n", EGRESS_LOOKS_UNKNOWN, "", EGRESS_LOOK },
		{ RULE "    protocol: tls\n", EGRESS_LOOKS_TLS, LAB_HOST, EGRESS_TUNNEL },
		{ RULE "    protocol: tls\n", EGRESS_LOOKS_TLS, "front.example", EGRESS_REFUSED },
		{ RULE "    protocol: tls\n", EGRESS_LOOKS_TLS, "", EGRESS_REFUSED },
		{ RULE "    protocol: tls\n", EGRESS_LOOKS_OTHER, "", EGRESS_REFUSED },
		{ RULE "    protocol: tcp\n", EGRESS_LOOKS_OTHER, "", EGRESS_TUNNEL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		lab_start(&lab, cases[i].rules);
		lab_route(&lab, 1, cases[i].looks, cases[i].sni);
		lab_run(&lab, is_routed);
		if (lab.streams[1].routed - 1 != cases[i].want)
			test_fail(__FILE__, __LINE__, "case %zu: %u", i, lab.streams[1].routed - 1);
		lab_end(&lab);
	}
}

static bool
intends(struct lab *l)
{
	return lab_recorded(l, "\"type\":\"intent\"");
}

/* ---- nothing leaves without a record ---- */

TEST(courier_waits_for_the_record)
{
	lab_start(&lab, RULE);
	lab.courier.strict = true;
	lab_ask(&lab, 1, "POST", 5);
	lab_send(&lab, 1, MUX_DATA, "hello", 5);
	lab_send_end(&lab, 1);
	lab_run(&lab, intends);
	CHECK(lab_recorded(&lab, "\"request\":1"));
	lab_settle(&lab);
	CHECK(lab.connections == 0);
	/* The record of another one is none of its own. */
	courier_recorded(&lab.courier, 0);
	lab_settle(&lab);
	CHECK(lab.connections == 0);
	courier_recorded(&lab.courier, 1);
	lab_run(&lab, heard_hello);
	lab_answer(&lab, "HTTP/1.1 204 No Content\r\n\r\n");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 204);
	lab_end(&lab);
}

TEST(courier_waits_for_the_record_of_a_tunnel)
{
	lab_start(&lab, RULE "    protocol: tcp\n");
	lab.courier.strict = true;
	lab_route(&lab, 1, EGRESS_LOOKS_UNKNOWN, "");
	lab_run(&lab, intends);
	lab_settle(&lab);
	CHECK(lab.connections == 0 && lab.streams[1].routed == 0);
	courier_recorded(&lab.courier, 1);
	lab_run(&lab, is_routed);
	CHECK(lab.streams[1].routed - 1 == EGRESS_TUNNEL);
	lab_end(&lab);
}

TEST(courier_is_gone_before_its_record)
{
	lab_start(&lab, RULE);
	lab.courier.strict = true;
	lab_ask(&lab, 1, "GET", 0);
	lab_ask(&lab, 2, "GET", 0);
	lab_run(&lab, intends);
	lab_send(&lab, 1, EGRESS_RESET, "\0\0\0\0", 4);
	lab_settle(&lab);
	courier_recorded(&lab.courier, 2);
	lab_run(&lab, is_asked);
	CHECK(lab.connections == 1 && lab.courier.awaits == NULL);
	lab_end(&lab);
}

TEST(courier_is_halted)
{
	lab_start(&lab, RULE);
	lab.courier.strict = true;
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, intends);
	courier_halt(&lab.courier, "the disk is full");
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403);
	CHECK(strstr(lab_data(&lab, 1), "\"reason\":\"the disk is full\"") != NULL);
	lab_ask(&lab, 2, "GET", 0);
	lab_run(&lab, second_is_over);
	CHECK(lab.streams[2].status == 403 && lab.connections == 0);
	CHECK(!lab_recorded(&lab, "\"why\":\"audit\""));
	courier_halt(&lab.courier, "");
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"count\":2,\"type\":\"many\",\"verdict\":\"deny\",\"why\":\"audit\""));
	lab_ask(&lab, 3, "GET", 0);
	lab_settle(&lab);
	courier_recorded(&lab.courier, 2);
	lab_run(&lab, is_asked);
	lab_end(&lab);
}

/* ---- bodies that rules change ---- */

/* The test plays cloister-inspect, on the descriptor that is returned. */
static int
play_inspect(void)
{
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK_OK(mux_new(lab.loop, ends[0], &courier_inspect_handler, &lab.courier, &lab.courier.inspect,
	                 NULL));
	return ends[1];
}

static void
put_rewritten(int fd, uint32_t id, const char *body)
{
	OWN(buf_free) struct buf b;
	size_t len = strlen(body);

	buf_init(&b, 4096);
	buf_put_u32(&b, id);
	buf_put_u32(&b, MUX_DATA);
	buf_put_u32(&b, (uint32_t)len);
	buf_put(&b, body, len);
	buf_put_u32(&b, id);
	buf_put_u32(&b, INSPECT_REWRITTEN);
	buf_put_u32(&b, 4 + 1 + 8 + 8);
	buf_put_str(&b, "");
	buf_put_u64(&b, 1);
	buf_put_u64(&b, 0);
	CHECK(!buf_failed(&b) && send(fd, b.data, b.len, MSG_NOSIGNAL) == (ssize_t)b.len);
	lab_settle(&lab);
}

#define CHANGES "    secrets: allow\n    rewrite: {json: {set: {/a: 1}}}\n"

/* The memory for a body counts as long as it is there, and once. */
TEST(courier_counts_rewritten_bodies)
{
	static const char made[] = "{\"b\":2}", first[] = "{\"b\":2,\"a\":1}", last[] = "{\"a\":1}";
	OWN(policy_freep) struct policy *outer = NULL;
	struct policy_limits limits;
	char text[512];
	int inspect;

	lab_start(&lab, RULE CHANGES);
	snprintf(text, sizeof(text), "version: 1\negress:\n  - allow: " LAB_HOST ":%u\n" CHANGES, lab.port);
	CHECK_OK(policy_load_text("o.yaml", text, strlen(text), &outer, &limits, NULL));
	CHECK_OK(policy_within(lab.courier.policy->policy, &outer, NULL));
	inspect = play_inspect();
	lab_ask(&lab, 1, "POST", strlen(made));
	lab_send(&lab, 1, MUX_DATA, made, strlen(made));
	lab_send_end(&lab, 1);
	lab_settle(&lab);
	CHECK_U64(lab.courier.held, strlen(made));
	/* The body as the agent made it is kept for its signature, beside the changed one. */
	put_rewritten(inspect, 1, first);
	CHECK_U64(lab.courier.held, strlen(made) + strlen(first));
	put_rewritten(inspect, 2, last);
	CHECK_U64(lab.courier.held, strlen(made) + strlen(last));
	lab_run(&lab, is_asked);
	CHECK(lab_heard(&lab, "content-length: 7\r\n"));
	lab_answer(&lab, "HTTP/1.1 204 No Content\r\n\r\n");
	lab_run(&lab, is_over);
	lab_settle(&lab);
	CHECK_U64(lab.courier.held, 0);
	lab_end(&lab);
	close(inspect);
}

/* ---- states ---- */

/* Whether exchange_set() ends the process. */
static bool
aborts(enum exchange_state from, enum exchange_state to)
{
	static struct exchange ex;
	const struct rlimit none = {0};
	int status = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		/* The message of the assertion, and a core file. */
		close(STDERR_FILENO);
		setrlimit(RLIMIT_CORE, &none);
		ex.state = from;
		exchange_set(&ex, to);
		_exit(ex.state != to);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status);
}

TEST(courier_exchange_states)
{
	/* From each state, to NEW, HOLDS, WAITS, SENT, PASSES, DRAINS, OVER. */
	static const char *const may[] = {
		[EXCHANGE_NEW] = ".yyy.yy", [EXCHANGE_HOLDS] = ".yyy.yy", [EXCHANGE_WAITS] = "..yyyyy",
		[EXCHANGE_SENT] = "..y.yyy", [EXCHANGE_PASSES] = ".....yy", [EXCHANGE_DRAINS] = ".....yy",
		[EXCHANGE_OVER] = ".......",
	};

	for (unsigned from = 0; from <= EXCHANGE_OVER; from++)
		for (unsigned to = 0; to <= EXCHANGE_OVER; to++)
			if (aborts(from, to) != (may[from][to] == '.'))
				test_fail(__FILE__, __LINE__, "from state %u to state %u", from, to);
}
