/* loop.c - tests of loop/loop and loop/relay. */
#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/io.h"
#include "loop/relay.h"
#include "test.h"

struct order {
	struct loop *loop;
	char text[16];
	size_t n;
};

struct due {
	struct order *order;
	char letter;
	bool last;
};

static void
note(void *arg)
{
	struct due *due = arg;

	due->order->text[due->order->n++] = due->letter;
	if (due->last)
		loop_quit(due->order->loop);
}

TEST(loop_timers_in_order)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct order order = {0};
	struct due a = { &order, 'a', false }, b = { &order, 'b', false },
	           c = { &order, 'c', false }, d = { &order, 'd', true };
	struct loop_timer ta = { .due = note, .arg = &a }, tb = { .due = note, .arg = &b },
	                  tc = { .due = note, .arg = &c }, td = { .due = note, .arg = &d };

	CHECK_OK(loop_new(&loop, NULL));
	order.loop = loop;
	loop_set_timer(loop, &td, 3);
	loop_set_timer(loop, &tb, 2);
	loop_set_timer(loop, &ta, 0);
	loop_set_timer(loop, &tc, 1000);
	loop_set_timer(loop, &tc, 1);           /* moved */
	loop_set_timer(loop, &tb, 100000);
	loop_cancel_timer(loop, &tb);
	CHECK_OK(loop_run(loop, NULL));
	CHECK_STR(order.text, "acd");
}

struct two {
	struct loop *loop;
	struct loop_source sources[2];
};

static void
forget_both(void *arg, uint32_t events)
{
	struct two *two = arg;

	(void)events;
	/* Both are ready; whichever comes first takes the other out. */
	loop_unwatch(two->loop, &two->sources[0]);
	loop_unwatch(two->loop, &two->sources[1]);
	loop_quit(two->loop);
}

TEST(loop_source_may_remove_another)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct two two = {0};
	int ends[2];

	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(pipe(ends));
	CHECK(write(ends[1], "x", 1) == 1);
	two.loop = loop;
	for (int i = 0; i < 2; i++)
		two.sources[i] = (struct loop_source){ .fd = ends[i], .ready = forget_both, .arg = &two };
	CHECK_OK(loop_watch(loop, &two.sources[0], EPOLLIN, NULL));
	CHECK_OK(loop_watch(loop, &two.sources[1], EPOLLOUT, NULL));
	CHECK_OK(loop_run(loop, NULL));
	CHECK(two.sources[0].events == 0 && two.sources[1].events == 0);
	close(ends[0]);
	close(ends[1]);
}

static void
relay_over(void *arg, struct relay *relay)
{
	(void)relay;
	loop_quit(arg);
}

/* File to file: nothing that epoll could watch. */
TEST(relay_regular_files)
{
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(freep) char *text = malloc(300001), *got = NULL;
	OWN(closep) int from = -1, to = -1;
	struct relay relay = {0};
	size_t len;

	memset(text, 'q', 300000);
	text[300000] = '\0';
	CHECK_OK(create_file_at(dir, "from", 0600, text, NULL));
	CHECK_OK(create_file_at(dir, "to", 0600, "", NULL));
	from = openat(dir, "from", O_RDONLY | O_CLOEXEC);
	to = openat(dir, "to", O_WRONLY | O_CLOEXEC);
	CHECK_OK(loop_new(&loop, NULL));
	relay.done = relay_over;
	relay.arg = loop;
	CHECK_OK(relay_start(&relay, loop, from, to, NULL));
	CHECK_OK(loop_run(loop, NULL));
	CHECK(relay.data == NULL);
	CHECK_OK(read_file_at(dir, "to", 1 << 20, &got, &len, NULL));
	CHECK(len == 300000 && memcmp(got, text, len) == 0);
}

/* A full pipe must not block the loop, and nothing may be lost. */
TEST(relay_waits_for_its_reader)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct relay relay = {0};
	char block[4096] = {0};
	int in[2], out[2];
	size_t sent = 0, got = 0;
	ssize_t n;

	CHECK_OK(pipe2(in, O_NONBLOCK | O_CLOEXEC));
	CHECK_OK(pipe2(out, O_CLOEXEC));
	CHECK_OK(loop_new(&loop, NULL));
	relay.done = relay_over;
	relay.arg = loop;
	CHECK_OK(relay_start(&relay, loop, in[0], out[1], NULL));
	for (int i = 0; i < 200; i++) {
		n = write(in[1], block, sizeof(block));
		if (n > 0)
			sent += (size_t)n;
		relay_flush(&relay);
	}
	CHECK(sent > 65536 * 2);
	close(in[1]);
	CHECK_OK(fcntl(out[0], F_SETFL, O_NONBLOCK));
	for (int i = 0; i < 10000 && got < sent; i++) {
		n = read(out[0], block, sizeof(block));
		if (n > 0)
			got += (size_t)n;
		relay_flush(&relay);
	}
	CHECK(got == sent);
	close(in[0]);
	close(out[0]);
	close(out[1]);
}
