/* egress_event.c - tests of egress/event. */
#include "egress/event.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "test.h"

static int ends[2];
static uint64_t last_awaited;
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
	uint64_t awaited;
	uint32_t n;

	CHECK_OK(ipc_receive(ends[1], &message, NULL));
	CHECK(message.type == COURIER_EVENTS);
	CHECK_OK(buf_get_u32(&message.body, &n));
	CHECK_OK(buf_get_u64(&message.body, &awaited));
	last_awaited = awaited;
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
	CHECK_STR(text, "\"logged\":[\"a:1:2\",\"b\\\":3:4\"],\"ms\":0,\"path\":\"/a\\nb\",\"query\":true,"
	          "\"sent\":9007199254740991,\"type\":\"http\",\"verdict\":\"deny\"");
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
		event_str(&events, (const char *[]){ "a", "b", "c", "d", "e" }[i], huge);
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
	CHECK_STR(text, "\"count\":92,\"host\":\"a\",\"type\":\"http\"");
	/* Then it begins anew. */
	refuse("a");
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK_STR(text, "\"host\":\"a\",\"ms\":1,\"type\":\"http\"");
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
	CHECK_STR(text, "\"count\":1488,\"note\":\"so many more were refused that they are not told one by "
	          "one\",\"type\":\"many\",\"verdict\":\"deny\",\"why\":\"many\"");
	CHECK_U64(flood(2000, text), REPEATS_ALL_AGAIN + 1);
	CHECK_U64(flood(10, text), 10);
	CHECK_U64(flood(600, text), REPEATS_ALL + 1);
	end();
}

TEST(courier_event_awaited)
{
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused;

	begin();
	event_begin(&events, "dns");
	event_done(&events, false, NULL);
	event_begin(&events, "intent");
	event_done_awaited(&events, 7);
	/* At once, whatever is waited for otherwise. */
	events.sent_ms = loop_now_ms();
	events_flush(&events, false);
	CHECK_U64(receive(&refused, what, text), 2);
	CHECK_U64(last_awaited, 7);
	event_begin(&events, "dns");
	event_done(&events, false, NULL);
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK_U64(last_awaited, 0);
	end();
}

TEST(courier_event_halted)
{
	char what[COURIER_WHAT_MAX + 1], text[1024];
	uint32_t refused;

	begin();
	events_halt(&events, true);
	for (size_t i = 0; i < 1000; i++)
		refuse("a");
	events_flush(&events, true);
	CHECK_U64(events.n, 0);
	events_halt(&events, false);
	refuse("a");
	events_flush(&events, true);
	CHECK_U64(receive(&refused, what, text), 2);
	events_halt(&events, true);
	refuse("a");
	events_finish(&events);
	CHECK_U64(receive(&refused, what, text), 1);
	CHECK_STR(text, "\"count\":1,\"type\":\"many\",\"verdict\":\"deny\",\"why\":\"audit\"");
	end();
}

/* For the rest of the process's life. */
static void
let_no_send_have_memory(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOBUFS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_LEN(code), .filter = code };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Memory comes back, and what was recorded is still there. */
TEST(courier_event_without_memory)
{
	int status;
	pid_t pid;

	begin();
	event_begin(&events, "http");
	event_done(&events, false, "");
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		let_no_send_have_memory();
		events_flush(&events, false);
		_exit(events.n == 1 && events.timer.at_ms != 0 ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	end();
}
