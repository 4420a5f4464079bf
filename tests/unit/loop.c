/* loop.c - tests of loop/loop and loop/relay. */
#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(loop_timer_prepared_while_it_is_set)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct order order = {0};
	struct due a = { &order, 'a', false }, b = { &order, 'b', false }, c = { &order, 'c', false },
	           d = { &order, 'd', true }, other = { &order, 'o', false };
	struct loop_timer ta = {0}, tb = {0}, tc = {0}, td = {0};

	CHECK_OK(loop_new(&loop, NULL));
	order.loop = loop;
	loop_prepare_timer(&ta, note, &a);
	loop_prepare_timer(&tb, note, &b);
	loop_prepare_timer(&tc, note, &c);
	loop_prepare_timer(&td, note, &d);
	loop_set_timer(loop, &ta, 0);
	loop_set_timer(loop, &td, 30);
	loop_set_timer(loop, &tc, 20);
	loop_set_timer(loop, &tb, 10);
	loop_prepare_timer(&ta, note, &other);  /* the others hang below it, and must not be lost */
	loop_prepare_timer(&tc, note, &c);
	loop_set_timer(loop, &tc, 21);
	CHECK_OK(loop_run(loop, NULL));
	CHECK_STR(order.text, "obcd");
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

/* ---- batches ---- */

enum { MANY = 100 };

struct crowd {
	struct loop *loop;
	struct member { struct crowd *crowd; struct loop_source source; int ends[2]; } *members[MANY];
	int called;
};

static void
remove_all_but(struct crowd *crowd, const struct member *kept)
{
	for (int i = 0; i < MANY; i++) {
		struct member *m = crowd->members[i];

		if (m == NULL || m == kept)
			continue;
		loop_unwatch(crowd->loop, &m->source);
		close(m->ends[0]);
		close(m->ends[1]);
		free(m);
		crowd->members[i] = NULL;
	}
}

static void
member_ready(void *arg, uint32_t events)
{
	struct member *m = arg;
	struct crowd *crowd = m->crowd;

	(void)events;
	if (crowd->called++ == 0) {
		remove_all_but(crowd, m);
	} else {
		remove_all_but(crowd, NULL);
		loop_quit(crowd->loop);
	}
}

/* All are ready at once; the first frees the rest of the batch, later itself. */
TEST(loop_callback_frees_the_batch)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct crowd crowd = {0};

	CHECK_OK(loop_new(&loop, NULL));
	crowd.loop = loop;
	for (int i = 0; i < MANY; i++) {
		struct member *m = calloc(1, sizeof(*m));

		crowd.members[i] = m;
		m->crowd = &crowd;
		CHECK_OK(pipe2(m->ends, O_CLOEXEC));
		CHECK(write(m->ends[1], "x", 1) == 1);
		m->source = (struct loop_source){ .fd = m->ends[0], .ready = member_ready, .arg = m };
		CHECK_OK(loop_watch(loop, &m->source, EPOLLIN, NULL));
	}
	CHECK_OK(loop_run(loop, NULL));
	CHECK(crowd.called == 2);
}

struct pair {
	struct loop *loop;
	struct loop_source sources[2];
	int called[2];
};

static void
hush_the_other(struct pair *pair, int self, uint32_t events)
{
	CHECK((events & ~pair->sources[self].events) == 0);
	pair->called[self]++;
	/* The other one waits for room only, which it does not have. */
	CHECK_OK(loop_watch(pair->loop, &pair->sources[!self], EPOLLPRI, NULL));
	if (pair->called[self] == 3)
		loop_quit(pair->loop);
}

static void
first_ready(void *arg, uint32_t events)
{
	hush_the_other(arg, 0, events);
}

static void
second_ready(void *arg, uint32_t events)
{
	hush_the_other(arg, 1, events);
}

TEST(loop_change_of_mind_within_a_batch)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct pair pair = {0};
	int ends[2][2];

	CHECK_OK(loop_new(&loop, NULL));
	pair.loop = loop;
	for (int i = 0; i < 2; i++) {
		CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]));
		CHECK(write(ends[i][1], "x", 1) == 1);
		pair.sources[i] = (struct loop_source){ .fd = ends[i][0], .arg = &pair,
			.ready = i == 0 ? first_ready : second_ready };
		CHECK_OK(loop_watch(loop, &pair.sources[i], EPOLLIN, NULL));
	}
	CHECK_OK(loop_run(loop, NULL));
	CHECK(pair.called[0] + pair.called[1] == 3 && pair.called[0] * pair.called[1] == 0);
	for (int i = 0; i < 4; i++)
		close(ends[i / 2][i % 2]);
}

/* ---- rounds ---- */

struct rounds {
	struct loop *loop;
	struct loop_source source;
	struct loop_round a, b, c;
	struct loop_timer timer;
	char text[32];
	size_t n;
};

static void
rounds_note(struct rounds *r, char letter)
{
	CHECK(r->n + 1 < sizeof(r->text));
	r->text[r->n++] = letter;
}

static void
run_a(void *arg)
{
	struct rounds *r = arg;

	rounds_note(r, 'a');
	/* B is asked for here and runs before the next wait, A itself only after it. */
	loop_at_round_end(r->loop, &r->b);
	loop_at_round_end(r->loop, &r->a);
	loop_at_round_end(r->loop, &r->a);
}

static void
run_b(void *arg)
{
	rounds_note(arg, 'b');
}

static void
run_c(void *arg)
{
	(void)arg;
	CHECK(!"cancelled");
}

static void
rounds_ready(void *arg, uint32_t events)
{
	struct rounds *r = arg;

	(void)events;
	rounds_note(r, 'e');
	loop_at_round_end(r->loop, &r->c);
	loop_at_round_end(r->loop, &r->a);
	loop_cancel_round(r->loop, &r->c);
	if (r->n > 8)
		loop_quit(r->loop);
}

TEST(loop_rounds)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct rounds r = {0};
	int ends[2];

	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(pipe(ends));
	r.loop = loop;
	r.a = (struct loop_round){ .run = run_a, .arg = &r };
	r.b = (struct loop_round){ .run = run_b, .arg = &r };
	r.c = (struct loop_round){ .run = run_c, .arg = &r };
	r.source = (struct loop_source){ .fd = ends[1], .ready = rounds_ready, .arg = &r };
	CHECK_OK(loop_watch(loop, &r.source, EPOLLOUT, NULL));
	CHECK_OK(loop_run(loop, NULL));
	CHECK_STR(r.text, "eabeabeabe");
	CHECK(r.a.at != NULL && r.b.at == NULL && r.c.at == NULL);
	loop_cancel_round(loop, &r.a);
	close(ends[0]);
	close(ends[1]);
}

static void
rounds_quit(void *arg)
{
	loop_quit(arg);
}

static void
set_timer(void *arg)
{
	struct rounds *r = arg;

	loop_set_timer(r->loop, &r->timer, 1);
}

/* A round that sets a timer must not find the loop asleep for longer. */
TEST(loop_round_sets_a_timer)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct rounds r = {0};

	CHECK_OK(loop_new(&loop, NULL));
	r.loop = loop;
	r.a = (struct loop_round){ .run = set_timer, .arg = &r };
	r.timer = (struct loop_timer){ .due = rounds_quit, .arg = loop };
	loop_at_round_end(loop, &r.a);
	CHECK_OK(loop_run(loop, NULL));
}

TEST(loop_cancelled_rounds_leave_the_list_whole)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct rounds r = {0};

	CHECK_OK(loop_new(&loop, NULL));
	r.loop = loop;
	r.a = (struct loop_round){ .run = run_c, .arg = &r };
	r.b = (struct loop_round){ .run = run_b, .arg = &r };
	r.c = (struct loop_round){ .run = rounds_quit, .arg = loop };
	for (int i = 0; i < 3; i++) {
		loop_at_round_end(loop, &r.a);
		loop_at_round_end(loop, &r.b);
		loop_cancel_round(loop, i == 0 ? &r.b : &r.a);
		loop_cancel_round(loop, &r.a);
	}
	loop_at_round_end(loop, &r.c);
	CHECK_OK(loop_run(loop, NULL));
	CHECK_STR(r.text, "b");
}

/* ---- many timers ---- */

enum { TIMERS = 5000 };

struct many {
	struct loop *loop;
	uint64_t last;
	int left;
	struct tick { struct many *many; struct loop_timer timer; uint64_t want; } ticks[TIMERS];
};

static void
tick_due(void *arg)
{
	struct tick *tick = arg;
	struct many *many = tick->many;

	CHECK(tick->timer.at_ms == 0 && tick->want != 0);
	CHECK(loop_now_ms() >= tick->want);
	/* Of what is due in one go the earlier still comes first. */
	CHECK(tick->want >= many->last);
	many->last = tick->want;
	tick->want = 0;
	if (--many->left == 0)
		loop_quit(many->loop);
}

static uint32_t
next_number(uint32_t *state)
{
	return *state = *state * 1664525u + 1013904223u;
}

TEST(loop_many_timers)
{
	OWN(loop_freep) struct loop *loop = NULL;
	OWN(freep) struct many *many = calloc(1, sizeof(*many));
	uint32_t state = 7;

	CHECK_OK(loop_new(&loop, NULL));
	many->loop = loop;
	for (int i = 0; i < TIMERS; i++)
		many->ticks[i] = (struct tick){ many, { .due = tick_due, .arg = &many->ticks[i] }, 0 };
	/* Set, moved both ways and cancelled in any order. */
	for (int i = 0; i < 10 * TIMERS; i++) {
		struct tick *tick = &many->ticks[(next_number(&state) >> 8) % TIMERS];
		uint32_t kind = (next_number(&state) >> 16) % 4;

		if (kind == 0) {
			loop_cancel_timer(loop, &tick->timer);
			tick->want = 0;
		} else {
			loop_set_timer(loop, &tick->timer, (next_number(&state) >> 16) % 50);
			tick->want = tick->timer.at_ms;
		}
	}
	for (int i = 0; i < TIMERS; i++)
		many->left += many->ticks[i].want != 0;
	CHECK(many->left > TIMERS / 2);
	CHECK_OK(loop_run(loop, NULL));
	for (int i = 0; i < TIMERS; i++)
		CHECK(many->ticks[i].want == 0);
}

static void
relay_over(void *arg, struct relay *relay)
{
	(void)relay;
	loop_quit(arg);
}

/* File to file: nothing that epoll could watch. */
struct echo {
	struct loop *loop;
	struct loop_source source;
	int left;
	bool timed;
};

static void
echo_came(void *arg, uint32_t events)
{
	struct echo *echo = arg;
	char byte;

	(void)events;
	CHECK(read(echo->source.fd, &byte, 1) == 1);
	if (--echo->left == 0)
		loop_quit(echo->loop);
	else
		CHECK(write(echo->source.fd, &byte, 1) == 1);
}

static void
echo_again(void *arg)
{
	struct echo *echo = arg;

	echo->timed = true;
	echo->left = 100;
	CHECK(write(echo->source.fd, "b", 1) == 1);
}

TEST(loop_that_lingers_misses_nothing)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct echo echo = { .left = 2000 };
	struct loop_timer timer = { .due = echo_again, .arg = &echo };
	char byte;
	int ends[2];
	pid_t child;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(ends[0]);
		while (read(ends[1], &byte, 1) == 1 && write(ends[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	close(ends[1]);
	CHECK_OK(loop_new(&loop, NULL));
	loop_linger(loop);
	echo.loop = loop;
	echo.source = (struct loop_source){ .fd = ends[0], .ready = echo_came, .arg = &echo };
	CHECK_OK(loop_watch(loop, &echo.source, EPOLLIN, NULL));
	CHECK(write(ends[0], "a", 1) == 1);
	CHECK_OK(loop_run(loop, NULL));
	CHECK(echo.left == 0);
	/* Quiet for longer than it lingers, then as before. */
	loop_set_timer(loop, &timer, 5);
	CHECK_OK(loop_run(loop, NULL));
	CHECK(echo.timed && echo.left == 0);
	close(ends[0]);
	CHECK(waitpid(child, NULL, 0) == child);
}

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

/* ---- where epoll has no room: the kernel counts by user, and another process may have it all ---- */

/* From now on, nothing can be added. */
static void
exhaust_epoll(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_epoll_ctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EPOLL_CTL_ADD, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSPC),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	CHECK_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK_OK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

struct seen {
	struct loop *loop;
	struct loop_source source;
	uint32_t events;
	size_t n;
};

static void
see(void *arg, uint32_t events)
{
	struct seen *s = arg;
	char c;

	s->events |= events;
	s->n += (events & EPOLLIN) != 0 && read(s->source.fd, &c, 1) == 1;
	loop_quit(s->loop);
}

static void
end_loop(void *arg)
{
	loop_quit(arg);
}

TEST(loop_without_room_in_epoll)
{
	OWN(loop_freep) struct loop *loop = NULL;
	struct seen before = { .n = 0 }, after[200] = { { .n = 0 } };
	struct loop_timer quit = { .due = end_loop };
	int ends[2], others[200][2];
	size_t n = 0;

	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	before = (struct seen){ loop, { .fd = ends[0], .ready = see, .arg = &before }, 0, 0 };
	CHECK_OK(loop_watch(loop, &before.source, EPOLLIN, NULL));
	exhaust_epoll();
	for (size_t i = 0; i < 200; i++) {
		CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, others[i]));
		after[i] = (struct seen){ loop, { .fd = others[i][0], .ready = see, .arg = &after[i] }, 0, 0 };
		CHECK_OK(loop_watch(loop, &after[i].source, EPOLLIN, NULL));
		CHECK(write(others[i][1], "x", 1) == 1);
	}
	/* All have their turn, whoever else is ready all the time. */
	CHECK(write(ends[1], "x", 1) == 1);
	for (int turn = 0; turn < 2000 && n < 201; turn++) {
		CHECK_OK(loop_run(loop, NULL));
		n = before.n;
		for (size_t i = 0; i < 200; i++)
			n += after[i].n;
	}
	CHECK_U64(n, 201);
	/* What is waited for can be changed, and a hang-up is told. */
	CHECK_OK(loop_watch(loop, &after[7].source, EPOLLIN | EPOLLOUT, NULL));
	CHECK_OK(loop_run(loop, NULL));
	CHECK(after[7].events == (EPOLLIN | EPOLLOUT));
	CHECK_OK(loop_watch(loop, &after[7].source, EPOLLIN, NULL));
	close(others[7][1]);
	CHECK_OK(loop_run(loop, NULL));
	CHECK((after[7].events & EPOLLHUP) != 0);
	/* Those that are taken out are not called any more, and timers are kept. */
	for (size_t i = 0; i < 200; i++)
		loop_unwatch(loop, &after[i].source);
	CHECK(write(others[3][1], "x", 1) == 1);
	quit.arg = loop;
	loop_set_timer(loop, &quit, 1);
	CHECK_OK(loop_run(loop, NULL));
	CHECK_U64(after[3].n, 1);
}
