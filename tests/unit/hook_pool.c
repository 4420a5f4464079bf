/* hook_pool.c - tests of cloister-hook: questions to real programs and to a real service. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "policy_lab.h"
#include "proc/hook/hook.h"
#include "test.h"
#include "trust/trust.h"

#define ASKED_MAX 40

struct asked {
	struct lab *lab;
	struct hook_question *question;
	bool done;
	enum hook_result result;
	char text[600];
};

struct lab {
	struct loop *loop;
	struct hook_pool *pool;
	struct loop_timer guard;
	struct asked asked[ASKED_MAX];
	size_t n, n_done, until;
};

static void
guard_due(void *arg)
{
	(void)arg;
	test_fail(__FILE__, __LINE__, "no answer");
}

static void
answered(void *arg, enum hook_result result, const char *text)
{
	struct asked *a = arg;

	CHECK(!a->done);
	a->done = true;
	a->result = result;
	/* The lab's hooks say something in the member "a". */
	if (result == HOOK_ANSWERED && sscanf(text, "{\"id\":\"%*[0-9a-f]\",\"a\":\"%599[^\"]", a->text) == 1)
		text = a->text;
	memmove(a->text, text, strnlen(text, sizeof(a->text) - 1) + 1);
	if (++a->lab->n_done == a->lab->until)
		loop_quit(a->lab->loop);
}

/* A pool for the one HOOK of a policy: "[/bin/sh, -c, ...]". */
static void
lab_start(struct lab *lab, const char *hook)
{
	OWN(freep) char *rules = str_format("- {allow: a.x, hook: %s}\n", hook);

	*lab = (struct lab){ .guard = { .due = guard_due } };
	signal(SIGPIPE, SIG_IGN);
	CHECK(setenv("HOME", test_dir(), 1) == 0 && setenv("XDG_STATE_HOME", test_dir(), 1) == 0 &&
	      setenv("XDG_RUNTIME_DIR", test_dir(), 1) == 0 && setenv("XDG_DATA_HOME", test_dir(), 1) == 0);
	CHECK_OK(loop_new(&lab->loop, NULL));
	CHECK_OK(hook_pool_new(lab->loop, lab_rules(rules), &lab->pool, NULL));
	loop_set_timer(lab->loop, &lab->guard, 60 * 1000);
}

static void
lab_end(struct lab *lab)
{
	CHECK(lab->pool->n_questions == 0 && lab->pool->held == 0);
	hook_pool_free(lab->pool);
	loop_cancel_timer(lab->loop, &lab->guard);
	loop_free(lab->loop);
}

/* A question about TEXT, which ends with a newline. */
static struct asked *
lab_ask(struct lab *lab, const char *text, uint64_t timeout_ms)
{
	const struct buf *name = &lab->pool->hooks[0].name;
	struct asked *a = &lab->asked[lab->n++];
	char id[64];
	int n = snprintf(id, sizeof(id), "{\"id\":\"%032zu\",\"q\":\"", lab->n);

	CHECK(lab->n <= ASKED_MAX);
	a->lab = lab;
	CHECK_OK(hook_question_new(lab->pool, name->data, name->len, timeout_ms, answered, a,
	                           &a->question, NULL));
	CHECK_OK(hook_question_add(a->question, id, (size_t)n));
	CHECK_OK(hook_question_add(a->question, text, strlen(text) - 1));
	CHECK_OK(hook_question_add(a->question, "\"}\n", 3));
	CHECK_OK(hook_question_end(a->question));
	return a;
}

/* Until N more are answered. */
static void
lab_await(struct lab *lab, size_t n)
{
	lab->until = lab->n_done + n;
	CHECK_OK(loop_run(lab->loop, NULL));
}

/* The answer to one question. */
static struct asked *
lab_one(struct lab *lab, const char *text)
{
	struct asked *a = lab_ask(lab, text, 30 * 1000);

	lab_await(lab, 1);
	CHECK(a->done);
	return a;
}

/* Run the loop until no worker is left. */
static void
look_for_end(void *arg)
{
	struct lab *lab = arg;
	static struct loop_timer again;

	if (lab->pool->hooks[0].n_workers == 0) {
		loop_quit(lab->loop);
		return;
	}
	again = (struct loop_timer){ .due = look_for_end, .arg = lab };
	loop_set_timer(lab->loop, &again, 5);
}

static void
lab_await_end(struct lab *lab)
{
	look_for_end(lab);
	if (lab->pool->hooks[0].n_workers > 0)
		CHECK_OK(loop_run(lab->loop, NULL));
}

/* In a script, `say TEXT` answers the question $q. */
#define SAY "say() { i=${q#???????}; i=${i%%\\\"*}; echo \"{\\\"id\\\":\\\"$i\\\",\\\"a\\\":\\\"$1\\\"}\"; }; "
#define ECHO "while read -r q; do w=${q##*:\\\"}; w=${w%%\\\"*}; say \"$$ $w\"; done"
#define SH(script) "[/bin/sh, -c, '" SAY script "']"

/* ---- programs ---- */

TEST(hook_program_is_asked_again)
{
	struct lab lab;
	struct asked *a, *b;

	lab_start(&lab, SH(ECHO));
	a = lab_one(&lab, "one\n");
	b = lab_one(&lab, "two\n");
	CHECK(a->result == HOOK_ANSWERED && b->result == HOOK_ANSWERED);
	CHECK_STR(strchr(a->text, ' '), " one");
	CHECK_STR(strchr(b->text, ' '), " two");
	/* The same process. */
	CHECK(atol(a->text) == atol(b->text) && atol(a->text) > 0);
	CHECK(lab.pool->hooks[0].n_workers == 1);
	lab_end(&lab);
}

TEST(hook_programs_are_few)
{
	struct lab lab;
	long pids[HOOK_PROGRAMS_MAX] = {0};
	size_t n = 0;

	lab_start(&lab, SH(ECHO));
	for (size_t i = 0; i < ASKED_MAX; i++)
		lab_ask(&lab, "x\n", 30 * 1000);
	lab_await(&lab, ASKED_MAX);
	for (size_t i = 0; i < ASKED_MAX; i++) {
		long pid = atol(lab.asked[i].text);
		size_t k = 0;

		CHECK(lab.asked[i].result == HOOK_ANSWERED);
		while (k < n && pids[k] != pid)
			k++;
		CHECK(k < HOOK_PROGRAMS_MAX);
		pids[k] = pid;
		n = k == n ? n + 1 : n;
	}
	CHECK(n == HOOK_PROGRAMS_MAX && lab.pool->hooks[0].n_workers == HOOK_PROGRAMS_MAX);
	lab_end(&lab);
}

TEST(hook_program_breaks_the_protocol)
{
	static const struct { const char *hook, *why; } cases[] = {
		{ SH("read q; exit 3"), "ended with status 3 before it answered" },
		{ SH("read q; kill -9 $$"), "ended with signal 9 before it answered" },
		{ SH("read q; exec 1>&-; sleep 100"), "ended with signal 9 before it answered" },
		{ SH("read q; printf half"), "ended with status 0 before it answered" },
		{ SH("read q; printf \"a\\nb\\n\"; sleep 100"), "answered with more than one line" },
		{ SH("read q; printf \"a\\nb\"; sleep 100"), "answered with more than one line" },
		{ SH("read q; printf \"a\\000b\\n\"; sleep 100"), "answered with a zero byte" },
		{ SH("read q; yes | tr -d \"\\n\"; sleep 100"), "answered with too much: an answer is at most 32 KiB" },
		{ SH("read q; echo allow; sleep 100"), "answered with something that is not one JSON object" },
		{ SH("read q; echo {}; sleep 100"), "answered without the id of the question" },
		{ SH("read q; q=0000000$q; say x; sleep 100"), "answered another question" },
		{ SH("read q; q=${q%%1*}2; say x; sleep 100"), "answered another question" },
		{ "/nonexistent/hook", "No such file" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct lab lab;
		struct asked *a;

		lab_start(&lab, cases[i].hook);
		a = lab_one(&lab, "x\n");
		CHECK(a->result == HOOK_FAILED);
		if (strstr(a->text, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", cases[i].hook, a->text);
		/* Whatever it did, it is gone. */
		lab_await_end(&lab);
		lab_end(&lab);
	}
}

/* It answers each question as it did the one before. */
TEST(hook_program_answers_late)
{
	struct lab lab;
	struct asked *a, *b, *c;

	lab_start(&lab, SH("read -r q; say $$; read -r other; say $$; sleep 100"));
	a = lab_one(&lab, "x\n");
	b = lab_one(&lab, "y\n");
	CHECK(a->result == HOOK_ANSWERED && b->result == HOOK_FAILED);
	CHECK(strstr(b->text, "answered another question") != NULL);
	/* The next one gets another process. */
	c = lab_one(&lab, "z\n");
	CHECK(c->result == HOOK_ANSWERED && atol(c->text) > 0 && atol(c->text) != atol(a->text));
	lab_end(&lab);
}

/* What it writes without a question is not the next question's answer. */
TEST(hook_program_speaks_unasked)
{
	struct lab lab;
	struct asked *a;

	lab_start(&lab, SH("read q; echo \"$q\"; read q < fifo; echo allow; sleep 100"));
	CHECK(chdir(test_dir()) == 0 && mkfifo("fifo", 0600) == 0);
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_ANSWERED);
	CHECK_OK(create_file_at(AT_FDCWD, "fifo", 0600, "go\n", NULL));
	lab_await_end(&lab);
	lab_end(&lab);
}

/* A program that reads nothing cannot have understood the question. */
TEST(hook_program_answers_too_early)
{
	static char question[256 * 1024];
	struct lab lab;
	struct asked *a;

	memset(question, 'q', sizeof(question) - 2);
	question[sizeof(question) - 2] = '\n';
	lab_start(&lab, SH("echo allow; sleep 100"));
	a = lab_one(&lab, question);
	CHECK(a->result == HOOK_FAILED);
	CHECK(strstr(a->text, "answered before it had the whole question") != NULL);
	lab_end(&lab);
}

TEST(hook_program_gets_all_of_a_question)
{
	static char question[1024 * 1024 + 2];
	struct lab lab;
	struct asked *a;

	memset(question, 'q', sizeof(question) - 2);
	question[sizeof(question) - 2] = '\n';
	lab_start(&lab, SH("q=$(head -n 1); n=${#q}; q=$(echo \"$q\" | cut -c -60); say $n"));
	a = lab_one(&lab, question);
	/* With 46 bytes before the text, and two behind it. */
	CHECK(a->result == HOOK_ANSWERED && atol(a->text) == (long)sizeof(question) - 2 + 48);
	lab_end(&lab);
}

TEST(hook_program_is_late)
{
	struct lab lab;
	struct asked *a, *b;

	lab_start(&lab, SH("read q; sleep 100 & wait"));
	a = lab_ask(&lab, "x\n", 100);
	lab_await(&lab, 1);
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "did not answer in time") != NULL);
	/* The next one gets another process. */
	b = lab_ask(&lab, "x\n", 100);
	lab_await(&lab, 1);
	CHECK(b->result == HOOK_FAILED);
	lab_await_end(&lab);
	lab_end(&lab);
}

/* Its deadline counts while it waits in line. */
TEST(hook_question_waits_too_long)
{
	struct lab lab;

	lab_start(&lab, SH("read q; sleep 100"));
	for (size_t i = 0; i < HOOK_PROGRAMS_MAX; i++)
		lab_ask(&lab, "x\n", 30 * 1000);
	lab_ask(&lab, "x\n", 50);
	lab_await(&lab, 1);
	CHECK(lab.asked[HOOK_PROGRAMS_MAX].done);
	CHECK(strstr(lab.asked[HOOK_PROGRAMS_MAX].text, "all its workers are busy") != NULL);
	for (size_t i = 0; i < HOOK_PROGRAMS_MAX; i++)
		hook_question_drop(lab.asked[i].question);
	/* They are in the hands of workers, which must still answer. */
	CHECK(lab.pool->n_questions == HOOK_PROGRAMS_MAX);
	hook_pool_free(lab.pool);
	loop_cancel_timer(lab.loop, &lab.guard);
	loop_free(lab.loop);
}

TEST(hook_question_dropped)
{
	struct lab lab;
	struct asked *a, *b;

	lab_start(&lab, SH(ECHO));
	a = lab_ask(&lab, "x\n", 30 * 1000);
	hook_question_drop(a->question);
	b = lab_one(&lab, "y\n");
	CHECK(!a->done && b->result == HOOK_ANSWERED);
	CHECK_STR(strchr(b->text, ' '), " y");
	lab_end(&lab);
}

TEST(hook_idle_program_ends)
{
	struct lab lab;

	lab_start(&lab, SH(ECHO));
	lab.pool->idle_ms = 10;
	CHECK(lab_one(&lab, "x\n")->result == HOOK_ANSWERED);
	lab_await_end(&lab);
	CHECK(lab_one(&lab, "y\n")->result == HOOK_ANSWERED);
	lab_end(&lab);
}

/* Whether the process PID is gone, or waits for somebody else to reap it. */
static bool
is_dead(long pid)
{
	OWN(freep) char *path = str_format("/proc/%ld/stat", pid);
	OWN(freep) char *text = NULL;

	return read_file_at(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0 || strstr(text, ") Z ") != NULL;
}

/* With the pool, everything that a program started ends. */
TEST(hook_programs_end_with_the_pool)
{
	int64_t deadline = io_now_ms() + 30 * 1000;
	struct lab lab;
	long pid;

	lab_start(&lab, SH("read q; sleep 1000 <&- >&- & say $!; wait"));
	CHECK(lab_one(&lab, "x\n")->result == HOOK_ANSWERED);
	pid = atol(lab.asked[0].text);
	CHECK(pid > 0 && !is_dead(pid));
	lab_end(&lab);
	while (!is_dead(pid))
		CHECK(io_now_ms() < deadline);
}

/* It has the standard descriptors and no others, no new privileges, and a group of its own. */
TEST(hook_program_inherits_nothing)
{
	struct lab lab;
	struct asked *a;
	int leak = fcntl(STDIN_FILENO, F_DUPFD, 50), fds = 0, privs = 0, group = 0, pid = 1;

	CHECK(leak >= 50);
	/* `ls` has one more: the folder that it lists. */
	lab_start(&lab, SH("read q; set -- $(ls /proc/self/fd); n=$(grep NoNewPrivs /proc/$$/status); "
	                   "say \"$# ${n#*:?} $(cut -d\\  -f5 /proc/$$/stat) $$\""));
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_ANSWERED);
	CHECK(sscanf(a->text, "%d %d %d %d", &fds, &privs, &group, &pid) == 4);
	CHECK(fds == 4 && privs == 1 && group == pid);
	close(leak);
	lab_end(&lab);
}

/* ---- questions ---- */

TEST(hook_question_is_one_line)
{
	static const char *const bad[][2] = {
		{ "a\nb\n", NULL }, { "a\n", "b\n" }, { "\n", "\n" }, { "a\nb", "\n" },
	};
	struct lab lab;
	struct buf *name;
	struct hook_question *q;

	lab_start(&lab, SH(ECHO));
	name = &lab.pool->hooks[0].name;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		int r;

		CHECK_OK(hook_question_new(lab.pool, name->data, name->len, 1000, answered, NULL, &q, NULL));
		r = hook_question_add(q, bad[i][0], strlen(bad[i][0]));
		if (r == 0 && bad[i][1] != NULL)
			r = hook_question_add(q, bad[i][1], strlen(bad[i][1]));
		CHECK_ERR(r, EBADMSG);
		hook_question_drop(q);
	}
	CHECK_OK(hook_question_new(lab.pool, name->data, name->len, 1000, answered, NULL, &q, NULL));
	CHECK_ERR(hook_question_end(q), EBADMSG);
	CHECK_OK(hook_question_add(q, "no end", 6));
	CHECK_ERR(hook_question_end(q), EBADMSG);
	hook_question_drop(q);
	CHECK_OK(hook_question_new(lab.pool, name->data, name->len, 1000, answered, NULL, &q, NULL));
	CHECK_OK(hook_question_add(q, "{\"no\":\"id\"}\n", 12));
	CHECK_ERR(hook_question_end(q), EBADMSG);
	hook_question_drop(q);
	lab_end(&lab);
}

TEST(hook_questions_have_limits)
{
	static char piece[1024 * 1024];
	struct hook_question *all[HOOK_QUESTIONS_MAX], *q;
	struct lab lab;
	struct buf *name;
	struct err err = {0};
	struct asked *a;

	lab_start(&lab, SH(ECHO));
	name = &lab.pool->hooks[0].name;
	CHECK_ERR(hook_question_new(lab.pool, name->data, name->len - 1, 1000, answered, NULL, &q, &err),
	          ENOENT);
	CHECK(strstr(err.text, "not started with this hook") != NULL);
	for (size_t i = 0; i < HOOK_QUESTIONS_MAX; i++)
		CHECK_OK(hook_question_new(lab.pool, name->data, name->len, 1000, answered, NULL, &all[i],
		                           NULL));
	CHECK_ERR(hook_question_new(lab.pool, name->data, name->len, 1000, answered, NULL, &q, NULL),
	          EBUSY);
	for (size_t i = 0; i < HOOK_QUESTIONS_MAX; i++)
		hook_question_drop(all[i]);

	memset(piece, 'x', sizeof(piece));
	a = &lab.asked[0];
	a->lab = &lab;
	CHECK_OK(hook_question_new(lab.pool, name->data, name->len, 1000, answered, a, &q, NULL));
	for (size_t i = 0; !a->done; i++) {
		CHECK(i <= POLICY_HOOK_QUESTION_MAX / sizeof(piece));
		CHECK_OK(hook_question_add(q, piece, sizeof(piece)));
	}
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "too large") != NULL);
	lab_end(&lab);
}

/* Rules that call the same program in the same way share its workers. */
TEST(hook_pool_joins_the_same)
{
	struct loop *loop = NULL;
	struct hook_pool *pool = NULL;

	CHECK_OK(loop_new(&loop, NULL));
	CHECK_OK(hook_pool_new(loop, lab_rules("- {allow: a.x, hook: /bin/a}\n"
	                                       "- {allow: b.x}\n"
	                                       "- {allow: c.x, hook: [/bin/a, x]}\n"
	                                       "- {allow: d.x, hook: 'unix:/bin/a'}\n"
	                                       "- {allow: e.x, hook: {call: /bin/a, timeout: 1s}}\n"),
	                       &pool, NULL));
	CHECK(pool->n_hooks == 3);
	CHECK_STR(pool->hooks[0].call->argv[0], "/bin/a");
	CHECK_STR(pool->hooks[1].call->argv[1], "x");
	CHECK_STR(pool->hooks[2].call->socket, "/bin/a");
	hook_pool_free(pool);
	loop_free(loop);
}

/* ---- trust ---- */

/* An agent can write the test's folder from now on. */
static void
distrust(void)
{
	/* cloister's own folders are elsewhere: those count as covered. */
	CHECK(setenv("XDG_STATE_HOME", "/nonexistent/state", 1) == 0);
	CHECK(setenv("XDG_RUNTIME_DIR", "/nonexistent/runtime", 1) == 0);
	CHECK(setenv("XDG_DATA_HOME", "/nonexistent/data", 1) == 0);
	trust_also(test_dir());
}

/* A program that an agent could have changed since the policy was loaded is not run. */
TEST(hook_program_is_not_trusted)
{
	OWN(freep) char *path = str_format("%s/hook", test_dir());
	struct lab lab;
	struct asked *a;

	CHECK_OK(create_file_at(AT_FDCWD, path, 0700, "#!/bin/sh\nwhile read -r q; do echo allow; done\n",
	                        NULL));
	lab_start(&lab, path);
	distrust();
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_FAILED);
	CHECK(strstr(a->text, path) != NULL);
	CHECK(lab.pool->hooks[0].n_workers == 0);
	lab_end(&lab);
}

/* ---- services ---- */

/* A service answers each line with the number of its connection. */
static void *
serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg;
	OWN(fclosep) FILE *in = fdopen(fd, "r");
	char line[256];

	while (fgets(line, sizeof(line), in) != NULL) {
		char id[POLICY_HOOK_ID + 1], word[64];

		CHECK(sscanf(line, "{\"id\":\"%32[0-9]\",\"q\":\"%63[a-z]", id, word) == 2);
		if (strcmp(word, "bye") == 0)
			break;
		if (strcmp(word, "twice") == 0)
			CHECK(send(fd, "a\nb\n", 4, MSG_NOSIGNAL) == 4);
		else
			CHECK(dprintf(fd, "{\"id\":\"%s\",\"a\":\"%d %s\"}\n", strcmp(word, "other") == 0 ?
			              "00000000000000000000000000000000" : id, fd, word) > 0);
	}
	return NULL;
}

static void *
serve(void *arg)
{
	int listener = (int)(intptr_t)arg, fd;
	pthread_t thread;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		CHECK(pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) == 0);
	return NULL;
}

static int
lab_listen(struct lab *lab)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(freep) char *hook = str_format("'unix:%s/sock'", test_dir());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	lab_start(lab, hook);
	CHECK((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", test_dir()) <
	      sizeof(address.sun_path));
	CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 16) == 0);
	return fd;
}

TEST(hook_service)
{
	struct lab lab;
	int fd = lab_listen(&lab);
	struct asked *a, *b;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
	a = lab_one(&lab, "one\n");
	b = lab_one(&lab, "two\n");
	CHECK(a->result == HOOK_ANSWERED && b->result == HOOK_ANSWERED);
	CHECK_STR(strchr(a->text, ' '), " one");
	CHECK_STR(strchr(b->text, ' '), " two");
	/* The same connection. */
	CHECK(atol(a->text) == atol(b->text) && lab.pool->hooks[0].n_workers == 1);

	for (size_t i = 2; i < ASKED_MAX - 4; i++)
		lab_ask(&lab, "x\n", 30 * 1000);
	lab_await(&lab, ASKED_MAX - 6);
	for (size_t i = 0; i < ASKED_MAX - 4; i++)
		CHECK(lab.asked[i].result == HOOK_ANSWERED);
	CHECK(lab.pool->hooks[0].n_workers == HOOK_CONNECTIONS_MAX);

	a = lab_one(&lab, "twice\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "more than one line") != NULL);
	a = lab_one(&lab, "other\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "answered another question") != NULL);
	a = lab_one(&lab, "bye\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "closed the connection") != NULL);
	a = lab_one(&lab, "again\n");
	CHECK(a->result == HOOK_ANSWERED);
	lab_end(&lab);
}

/* An agent could have put a socket of its own in its place. */
TEST(hook_service_is_not_trusted)
{
	struct lab lab;
	int fd = lab_listen(&lab);
	struct asked *a;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
	distrust();
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "/sock") != NULL);
	CHECK(lab.pool->hooks[0].n_workers == 0);
	lab_end(&lab);
}

TEST(hook_service_is_not_there)
{
	struct lab lab;
	int fd = lab_listen(&lab);
	struct asked *a;

	close(fd);
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "cannot connect to the hook") != NULL);
	lab_end(&lab);
}

static void
accept_now(void *arg)
{
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, serve, arg) == 0);
}

/* A service that accepts no more connections gets the questions on those that it has. */
TEST(hook_service_is_busy)
{
	struct lab lab;
	int fd = lab_listen(&lab);
	struct loop_timer later = { .due = accept_now, .arg = (void *)(intptr_t)fd };

	CHECK(listen(fd, 0) == 0);
	for (size_t i = 0; i < HOOK_CONNECTIONS_MAX; i++)
		lab_ask(&lab, "x\n", 30 * 1000);
	loop_set_timer(lab.loop, &later, 50);
	lab_await(&lab, HOOK_CONNECTIONS_MAX);
	for (size_t i = 0; i < HOOK_CONNECTIONS_MAX; i++)
		CHECK(lab.asked[i].result == HOOK_ANSWERED);
	lab_end(&lab);
}

/* Only the operator or root may serve a hook. */
TEST(hook_service_of_somebody_else)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct lab lab;
	OWN(freep) char *hook = str_format("'unix:%s/sock'", test_dir());
	struct asked *a;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (geteuid() != 0)
		test_skip("only root can be somebody else");
	lab_start(&lab, hook);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/sock", test_dir());
	CHECK(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	CHECK(seteuid(65534) == 0 && listen(fd, 4) == 0 && seteuid(0) == 0);
	a = lab_one(&lab, "x\n");
	CHECK(a->result == HOOK_FAILED && strstr(a->text, "only you or root may serve it") != NULL);
	lab_end(&lab);
}
