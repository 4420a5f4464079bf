/* courier_event.c - tests of proc/courier/courier_event. */
#include "proc/courier/courier_event.h"

#include <sys/socket.h>

#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "test.h"

static const char *
escaped(const char *text, size_t len, size_t max)
{
	static struct buf b;

	buf_free(&b);
	buf_init(&b, 4096);
	json_escape_into(&b, text, len, max);
	buf_put(&b, "", 1);
	CHECK(!buf_failed(&b));
	return (const char *)b.data;
}

TEST(courier_event_escapes)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "",                     "" },
		{ "plain /path?x=1",      "plain /path?x=1" },
		{ "\"\\",                 "\\\"\\\\" },
		{ "a\nb\x1b[0m\x7f",      "a\\u000ab\\u001b[0m\\u007f" },
		{ "\xc2\x9b\xe2\x80\xae", "\\u009b\\u202e" },
		{ "\xf3\xa0\x81\x81",     "\\udb40\\udc41" },
		{ "na\xc3\xafve",         "na\xc3\xafve" },
		{ "a\xff\xc0\x80",        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(escaped(cases[i].text, strlen(cases[i].text), 1024), cases[i].want);
	CHECK_STR(escaped("a\0b", 3, 1024), "a\\u0000b");
	CHECK_STR(escaped("abcdef", 6, 3), "abc...");
	/* What is cut in the middle of a character is not one. */
	CHECK_STR(escaped("a\xc3\xaf", 3, 2), "a\xef\xbf\xbd...");
}

static int ends[2];
static struct events events;
static struct loop *loop;

static void
begin(void)
{
	CHECK_OK(loop_new(&loop, NULL));
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	events_init(&events, loop, ends[0]);
}

static void
end(void)
{
	events_free(&events);
	loop_free(loop);
	close(ends[0]);
	close(ends[1]);
}

/* How many are in the next message; *RET_LAST is the last of them. */
static uint32_t
receive(uint32_t *ret_refused, char ret_what[COURIER_WHAT_MAX + 1], char ret_last[1024])
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1 } };
	const char *what, *event;
	uint32_t n;

	CHECK_OK(ipc_receive(ends[1], &message, NULL));
	CHECK(message.type == COURIER_EVENTS);
	CHECK_OK(buf_get_u32(&message.body, &n));
	for (uint32_t i = 0; i < n; i++) {
		CHECK_OK(buf_get_u32(&message.body, ret_refused));
		CHECK_OK(buf_get_str(&message.body, &what));
		CHECK_OK(buf_get_str(&message.body, &event));
		snprintf(ret_what, COURIER_WHAT_MAX + 1, "%s", what);
		snprintf(ret_last, 1024, "%s", event);
	}
	CHECK(buf_left(&message.body) == 0);
	return n;
}

TEST(courier_event_members)
{
	static const char *const places[] = { "a:1:2", "b\":3:4" };
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused;

	begin();
	event_begin(&events, "http");
	event_str(&events, "verdict", "deny");
	event_str(&events, "rule", "");         /* left out */
	event_str(&events, "reason", NULL);
	event_u64(&events, "ms", 0);
	event_u64(&events, "sent", UINT64_MAX);
	event_true(&events, "query");
	event_text(&events, "path", "/a\nb", 4);
	event_list(&events, "logged", places, 2);
	event_done(&events, true, "GET a.example");
	events_flush(&events, false);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK(refused == 1);
	CHECK_STR(what, "GET a.example");
	CHECK_STR(text, "\"type\":\"http\",\"verdict\":\"deny\",\"ms\":0,"
	          "\"sent\":18446744073709551615,\"query\":true,\"path\":\"/a\\u000ab\","
	          "\"logged\":[\"a:1:2\",\"b\\\":3:4\"]");
	end();
}

TEST(courier_event_batches)
{
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused, n = 0, messages = 0;

	begin();
	for (size_t i = 0; i < 600; i++) {
		event_begin(&events, "dns");
		event_done(&events, false, "not said");
		if (events.n == COURIER_EVENTS_MAX) {
			events_flush(&events, true);
			n += receive(&refused, what, text);
			messages++;
		}
	}
	events_flush(&events, true);
	n += receive(&refused, what, text);
	CHECK_U64(n, 600);
	CHECK_U64(messages, 600 / COURIER_EVENTS_MAX);
	CHECK(refused == 0);
	CHECK_STR(what, "");
	end();
}

TEST(courier_event_of_the_largest_size)
{
	char *huge = malloc(100000);
	const char *list[8];
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused;

	begin();
	CHECK(huge != NULL);
	memset(huge, 1, 99999);
	huge[99999] = '\0';
	for (size_t i = 0; i < 8; i++)
		list[i] = huge;
	event_begin(&events, "http");
	for (size_t i = 0; i < 5; i++)
		event_str(&events, "long", huge);
	event_list(&events, "logged", list, 8);
	event_done(&events, true, huge);
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK(strlen(what) == COURIER_WHAT_MAX);
	free(huge);
	end();
}

static void
refuse(const char *host)
{
	event_begin(&events, "http");
	event_str(&events, "host", host);
	event_kind_ends(&events);
	event_u64(&events, "ms", 1);
	event_done(&events, true, host);
}

TEST(courier_event_repeats)
{
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused;

	begin();
	for (size_t i = 0; i < 100; i++)
		refuse("a");
	refuse("b");
	/* What is allowed is never counted with others. */
	for (size_t i = 0; i < 20; i++) {
		event_begin(&events, "http");
		event_done(&events, false, "");
	}
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), REPEATS_EACH + 1 + 20);
	events_finish(&events);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK(refused == 1);
	CHECK_STR(text, "\"type\":\"http\",\"host\":\"a\",\"count\":92");
	/* Then it begins anew. */
	refuse("a");
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK_STR(text, "\"type\":\"http\",\"host\":\"a\",\"ms\":1");
	end();
}

/* How many messages' worth of NEW kinds are told. */
static uint32_t
flood(size_t n, char ret_last[1024])
{
	char what[COURIER_WHAT_MAX + 1], host[32];
	uint32_t refused, told = 0;

	for (size_t i = 0; i < n; i++) {
		snprintf(host, sizeof(host), "h%zu", i);
		refuse(host);
		if (events.n == COURIER_EVENTS_MAX) {
			events_flush(&events, true);
			told += receive(&refused, what, ret_last);
		}
	}
	events_finish(&events);
	return told + receive(&refused, what, ret_last);
}

TEST(courier_event_floods)
{
	char text[1024];

	begin();
	CHECK_U64(flood(2000, text), REPEATS_ALL + 1);
	CHECK_STR(text, "\"type\":\"many\",\"verdict\":\"deny\",\"why\":\"many\",\"count\":1488,"
	          "\"note\":\"so many more were refused that they are not told one by one\"");
	CHECK_U64(flood(2000, text), REPEATS_ALL_AGAIN + 1);
	CHECK_U64(flood(10, text), 10);
	CHECK_U64(flood(600, text), REPEATS_ALL + 1);
	end();
}
