/* egress_ask.c - tests of egress/ask: which requests wait for approval, and what follows. */
#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "egress_lab.h"
#include "ipc/ipc.h"
#include "test.h"

#define RULE "  - ask: " LAB_HOST ":PORT\n    timeout: 1h\n"
/* Whose body need not be searched is not held. */
#define STREAMS RULE "    secrets: allow\n"

static struct lab lab;

static bool
is_heard(struct lab *l)
{
	return lab_heard(l, "\r\n\r\n");
}

static bool
is_over(struct lab *l)
{
	return l->streams[1].ended || l->streams[1].is_reset;
}

static bool
waits(struct lab *l)
{
	return l->courier.asks.n_waiting > 0;
}

static bool
waits_no_more(struct lab *l)
{
	return l->courier.asks.n_waiting == 0;
}

static int
answer(uint64_t number, uint32_t yes, const char *text)
{
	OWN(ipc_message_free) struct ipc_message m = { .fds = { -1, -1, -1, -1 } };

	buf_init(&m.body, IPC_MESSAGE_MAX);
	buf_put_u64(&m.body, number);
	buf_put_u32(&m.body, yes);
	buf_put_str(&m.body, "ab12cd34-1");
	buf_put_str(&m.body, "user:ann");
	buf_put_str(&m.body, text);
	return courier_take_answer(&lab.courier, 0, &m, NULL);
}

/* The rule that the first exchange waits for. */
static int
open_rule(uint64_t ms)
{
	OWN(ipc_message_free) struct ipc_message m = { .fds = { -1, -1, -1, -1 } };
	struct ask_rule rule = lab.courier.exchanges->ask->rule;

	buf_init(&m.body, IPC_MESSAGE_MAX);
	buf_put(&m.body, rule.hash, sizeof(rule.hash));
	buf_put_u64(&m.body, ms);
	return courier_take_open(&lab.courier, 0, &m, NULL);
}

TEST(courier_asks_and_goes_on)
{
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, waits);
	lab_settle(&lab);
	CHECK_U64(lab.connections, 0);
	CHECK(lab_recorded(&lab, "ask " LAB_HOST));
	/* One that is not asked for changes nothing. */
	CHECK_OK(answer(7, 1, ""));
	CHECK(waits(&lab));
	CHECK_OK(answer(1, 1, ""));
	lab_run(&lab, is_heard);
	lab_answer(&lab, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
	lab_run(&lab, is_over);
	CHECK_STR(lab_data(&lab, 1), "hello");
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"approved_by\":\"user:ann\""));
	CHECK(lab_recorded(&lab, "\"approval\":\"ab12cd34-1\""));
	lab_end(&lab);
}

TEST(courier_asks_and_is_refused)
{
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, waits);
	CHECK_OK(answer(1, 0, "user:ann refused this: no"));
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403);
	CHECK(strstr(lab_data(&lab, 1), "\"reason\":\"user:ann refused this: no\"") != NULL);
	lab_settle(&lab);
	CHECK(lab_recorded(&lab, "\"verdict\":\"ask\"") && lab_recorded(&lab, "\"refused_by\""));
	lab_end(&lab);
}

/* A body stays with the gate, but for what its window holds. */
TEST(courier_asks_before_a_body)
{
	static const char piece[1000];
	lab_start(&lab, STREAMS);
	lab_ask(&lab, 1, "PUT", 2000);
	lab_run(&lab, waits);
	lab_send(&lab, 1, MUX_DATA, piece, sizeof(piece));
	lab_send(&lab, 1, MUX_DATA, piece, sizeof(piece));
	lab_send_end(&lab, 1);
	lab_settle(&lab);
	CHECK_U64(lab.connections, 0);
	CHECK_OK(answer(1, 1, ""));
	lab_run(&lab, is_heard);
	CHECK(lab_heard(&lab, "content-length: 2000\r\n"));
	lab_end(&lab);
}

TEST(courier_asks_withdraws)
{
	static const unsigned char why[4] = { EGRESS_RESET_CANCEL };

	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, waits);
	lab_send(&lab, 1, EGRESS_RESET, why, sizeof(why));
	lab_run(&lab, waits_no_more);
	/* The answer was on its way. */
	CHECK_OK(answer(1, 1, ""));
	lab_settle(&lab);
	CHECK_U64(lab.connections, 0);
	lab_end(&lab);
}

/* A client that has closed its side may have gone, before it is asked for or meanwhile. */
TEST(courier_asks_nothing_for_a_client_that_has_gone)
{
	lab_start(&lab, STREAMS);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, waits);
	lab_send(&lab, 1, EGRESS_SHUT, "", 0);
	lab_run(&lab, waits_no_more);
	CHECK_OK(answer(1, 1, ""));
	lab_run(&lab, is_over);
	CHECK(lab.streams[1].status == 403 && strstr(lab_data(&lab, 1), "closed its side") != NULL);
	lab_settle(&lab);
	CHECK_U64(lab.connections, 0);
	lab_end(&lab);

	lab_start(&lab, STREAMS);
	lab_ask(&lab, 1, "PUT", 4);
	lab_run(&lab, waits);
	lab_send(&lab, 1, EGRESS_SHUT, "", 0);
	lab_run(&lab, waits_no_more);
	lab_send(&lab, 1, EGRESS_SHUT, "", 0);
	lab_settle(&lab);
	/* Twice is once too often. */
	CHECK(lab.gone);
	lab_end(&lab);
}

TEST(courier_asks_for_open_rules)
{
	lab_start(&lab, RULE);
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, waits);
	CHECK_OK(open_rule(0));
	/* That one has its own answer; the next needs none. */
	lab_ask(&lab, 2, "GET", 0);
	lab_run(&lab, is_heard);
	CHECK_U64(lab.courier.asks.n, 1);
	lab_end(&lab);
}

/* Too many wait: the next is refused, and none of the others. */
TEST(courier_asks_for_so_many)
{
	lab_start(&lab, RULE);
	lab.courier.asks.n_waiting = COURIER_ASKS_MAX;
	lab_ask(&lab, 1, "GET", 0);
	lab_run(&lab, is_over);
	CHECK(strstr(lab_data(&lab, 1), "too many requests wait") != NULL);
	lab.courier.asks.n_waiting = 0;
	lab_end(&lab);
}

TEST(courier_asks_distrusts)
{
	OWN(ipc_message_free) struct ipc_message m = { .fds = { -1, -1, -1, -1 } };

	lab_start(&lab, RULE);
	buf_init(&m.body, IPC_MESSAGE_MAX);
	CHECK_ERR(courier_take_answer(&lab.courier, 0, &m, NULL), EBADMSG);
	CHECK_ERR(courier_take_open(&lab.courier, 0, &m, NULL), EBADMSG);
	CHECK_ERR(answer(0, 1, ""), EBADMSG);
	CHECK_ERR(answer(1, 2, ""), EBADMSG);
	lab_end(&lab);
}
