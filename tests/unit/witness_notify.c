/* witness_notify.c - tests of the source that reads notifications: honest agents, and those that hide. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"
#include "witness_lab.h"

static struct witness_lab lab;

#define CHECK_HAS(part) \
	do { \
		if (!witness_lab_has(&lab, part)) \
			test_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", part, lab.log); \
	} while (0)

static int
end_of(int (*agent)(void))
{
	witness_lab_start(&lab, agent);
	witness_lab_run(&lab);
	CHECK(!lab.failed);
	witness_lab_close(&lab);
	CHECK(WIFEXITED(lab.status));
	return WEXITSTATUS(lab.status);
}

/* ---- honest agents ---- */

static int
run_script(void)
{
	execl("/bin/sh", "sh", "-c", "echo x > made; ln -s made link; echo y >> link; /bin/mkdir d; mv made 'd/a\nb'; "
	      "rm 'd/a\nb'; chmod 700 d; ./script; sh -c 'kill -9 $$'; exit 7", NULL);
	return 99;
}

TEST(notify_sees_a_script)
{
	FILE *file;

	CHECK(chdir(test_dir()) == 0);
	file = fopen("script", "w");
	CHECK(file != NULL && fputs("#!/bin/sh\nexit 3\n", file) > 0 && fclose(file) == 0 && chmod("script", 0755) == 0);
	CHECK(end_of(run_script) == 7);
	CHECK_HAS("argv=sh\\00-c\\00echo");
	CHECK_HAS("file create path=/");
	CHECK_HAS("/made asked\n");
	CHECK_HAS("/made to=");
	/* The link is followed. */
	CHECK(witness_lab_count(&lab, "file write path=") >= 1 && !witness_lab_has(&lab, "/link asked\nfile write"));
	CHECK_HAS("argv=/bin/mkdir\\00d\\00");
	CHECK_HAS("/d/a\\0ab");
	CHECK_HAS("file remove");
	CHECK_HAS("file mode");
	CHECK_HAS("/script argv=./script\\00 n=1\n");
	CHECK_HAS("exit status=3\n");
	CHECK_HAS("exit signal=9\n");
	CHECK_HAS("exit status=7\n");
}

static int
connect_somewhere(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int listening = socket(AF_INET, SOCK_STREAM, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
	struct pollfd wait = { .fd = -1 };

	if (bind(listening, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(listening, 1) < 0 ||
	    getsockname(listening, (struct sockaddr *)&at, &len) < 0 || connect(fd, (struct sockaddr *)&at, len) < 0)
		return 1;
	/* Any other call that is reported comes after the connection. */
	(void)chmod("/", 0755);
	return poll(&wait, 1, 0);
}

TEST(notify_sees_connections)
{
	CHECK(end_of(connect_somewhere) == 0);
	CHECK_HAS("net bind 127.0.0.1 port=0 asked");
	CHECK_HAS("net listen");
	CHECK_HAS("net connect 127.0.0.1 port=");
	CHECK_HAS(" local\n");
}

static int
try_refused(void)
{
	struct { long nr, arg; int want; } calls[] = {
		{ SYS_unshare, CLONE_NEWUSER, EPERM }, { SYS_bpf, 0, EPERM }, { SYS_socket, AF_PACKET, EAFNOSUPPORT },
		{ 425 /* io_uring_setup */, 1, ENOSYS }, { 9999, 0, ENOSYS },
	};

	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (syscall(calls[i].nr, calls[i].arg, SOCK_RAW, 0) != -1 || errno != calls[i].want)
			return 10 + (int)i;
	return memfd_create("some", MFD_CLOEXEC) < 0 || syscall(SYS_chroot, "/nowhere") != -1 || errno != EPERM;
}

TEST(notify_sees_refused_and_dangerous_calls)
{
	char want[64];

	CHECK(end_of(try_refused) == 0);
	snprintf(want, sizeof(want), "refused nr=%ld error=1\n", (long)SYS_unshare);
	CHECK_HAS(want);
	CHECK_HAS("refused nr=425 error=38");
	CHECK_HAS("refused nr=9999 error=38");
	snprintf(want, sizeof(want), "danger nr=%ld text=some", (long)SYS_memfd_create);
	CHECK_HAS(want);
	CHECK_HAS("text=/nowhere error=1");
}

static int
try_taken_away(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM || syscall(SYS_shmget, 0, 1, 0) >= 0 || errno != ENOSYS ||
	       /* Of two errors that of the policy's own counts; and this one is allowed. */
	       syscall(SYS_bpf, 0, NULL, 0) >= 0 || errno != ENOSYS || memfd_create("x", 0) < 0;
}

/* Calls that the policy's `syscalls` takes away. */
TEST(notify_sees_what_the_policy_refuses)
{
	char want[64];

	call_set_add(lab.calls.denied, SYS_socket);
	call_set_add(lab.calls.absent, SYS_shmget);
	call_set_add(lab.calls.absent, SYS_bpf);
	CHECK(end_of(try_taken_away) == 0);
	snprintf(want, sizeof(want), "refused nr=%ld error=1\n", (long)SYS_socket);
	CHECK_HAS(want);
	snprintf(want, sizeof(want), "refused nr=%ld error=38\n", (long)SYS_shmget);
	CHECK_HAS(want);
	lab.calls = (struct call_set){0};
}

/* ---- agents that hide ---- */

static int
hide_path(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || munmap(page + 4096, 4096) < 0)
		return 1;
	memset(page, 'a', 4096);
	/* The end cannot be read; nothing can be read; it is longer than any path. */
	if (open(page + 4000, O_WRONLY) >= 0 || open((char *)16, O_WRONLY) >= 0)
		return 2;
	page[4095] = '\0';
	memset(page, '/', 4095);
	return open(page, O_WRONLY) >= 0 || syscall(SYS_connect, 0, 16, 16) >= 0 ||
	       syscall(SYS_execve, 16, 16, NULL) >= 0 || syscall(SYS_openat, 77, "x", O_WRONLY) >= 0 ? 3 : 0;
}

TEST(notify_reports_paths_it_cannot_read)
{
	CHECK(end_of(hide_path) == 0);
	CHECK_HAS("aaaa... unknown asked");
	CHECK_HAS("file write path=... error=14 asked");
	CHECK_HAS("net connect error=14 asked");
	CHECK_HAS("exec path=... argv=... n=0 error=14 asked");
	/* Where it is relative to is not known: that is said. */
	CHECK_HAS("file write path=x unknown asked\n");
}

#define MANY 100000
static int
run_many(void)
{
	static char *argv[MANY + 2], word[] = "0123456";

	for (size_t i = 0; i < MANY; i++)
		argv[i] = word;
	execv("/bin/true", argv);
	return 1;
}

TEST(notify_bounds_long_argument_lists)
{
	CHECK(end_of(run_many) == 0);
	CHECK_HAS("... n=100000");
	CHECK_U64(witness_lab_count(&lab, "0123456"), ACT_ARGV_MAX / 8);
}

static int
run_memory(void)
{
	int from = open("/bin/true", O_RDONLY), to = (int)syscall(SYS_memfd_create, "pro\ngram", MFD_CLOEXEC);
	char *argv[] = { (char[]){ "hidden" }, NULL };

	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	syscall(SYS_execveat, to, "", argv, NULL, AT_EMPTY_PATH);
	return 1;
}

TEST(notify_sees_programs_in_memory)
{
	CHECK(end_of(run_memory) == 0);
	CHECK_HAS("exec path=/memfd:pro\\0agram");
	CHECK_HAS("argv=hidden\\00 n=1 memory\n");
}

/* One thread asks for a program, and another changes its name meanwhile. */
static char raced[16];

static void *
race(void *arg)
{
	(void)arg;
	for (;;) {
		memcpy(raced, "/bin/false", 11);
		memcpy(raced, "/bin/true\0", 11);
	}
	return NULL;
}

static int
run_raced(void)
{
	int status, n_false = 0;

	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pthread_t thread;
			char *argv[] = { (char[]){ "raced" }, NULL };

			if (pthread_create(&thread, NULL, race, NULL) == 0)
				execv(raced, argv);
			_exit(77);
		}
		if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
			return 100;
		n_false += WEXITSTATUS(status) == 1;
	}
	return n_false;
}

TEST(notify_confirms_executions)
{
	int n_false = end_of(run_raced);

	CHECK(n_false < 100);
	/* Whatever was asked for: a program that is not marked is the one that ran. */
	CHECK(witness_lab_count(&lab, "false argv=raced\\00 n=1\n") <= (size_t)n_false);
	CHECK(witness_lab_count(&lab, "argv=raced") >= 40);
}

static int
fork_many(void)
{
	for (int i = 0; i < 300; i++)
		if (fork() == 0) {
			for (int j = 0; j < 20; j++)
				close(open("/dev/null", O_WRONLY));
			kill(getpid(), SIGKILL);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}

TEST(notify_survives_a_crowd)
{
	CHECK(end_of(fork_many) == 0);
	CHECK_U64(witness_lab_count(&lab, "file write path=/dev/null asked"), 6000);
	CHECK_U64(witness_lab_count(&lab, "exit signal=9") + witness_lab_count(&lab, "exit unknown"), 300);
}

#if defined(__x86_64__)
static int
make_foreign_call(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(open("/dev/null", O_WRONLY));
		/* getpid() of i386. */
		__asm__ volatile ("int $0x80" : : "a" (20) : "memory");
		_exit(1);
	}
	return waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS;
}

TEST(notify_sees_calls_that_kill)
{
	CHECK(end_of(make_foreign_call) == 0);
	CHECK_HAS("refused nr=4294967295 unknown\nexit signal=31\n");
}
#endif

static int
open_often(void)
{
	for (int i = 0; i < 300; i++)
		close(open("/dev/null", O_WRONLY));
	return 0;
}

/* The witness works for a part of the time, and misses nothing. */
TEST(notify_bounds_its_own_time)
{
	struct notify_budget b;
	struct notify *n;
	uint64_t began;

	notify_budget_begin(&b);
	CHECK_U64(notify_budget_spend(&b), 0);
	b.left_ns = -1000000;
	CHECK(notify_budget_spend(&b) <= NOTIFY_CPU_SHARE + 1);
	b.left_ns = -INT64_C(1000000000000);
	CHECK_U64(notify_budget_spend(&b), 1001);

	witness_lab_start(&lab, open_often);
	n = lab.state;
	n->budget.left_ns = -INT64_C(300000000);
	began = notify_now_ns();
	witness_lab_run(&lab);
	CHECK(notify_now_ns() - began >= UINT64_C(300000000) * NOTIFY_CPU_SHARE - 50000000);
	CHECK_U64(witness_lab_count(&lab, "file write path=/dev/null"), 300);
	witness_lab_close(&lab);
}

/* ---- dead halves ---- */

static int
try_both(void)
{
	int fd = open("/dev/null", O_WRONLY);

	return fd < 0 ? 1 : syscall(SYS_bpf, 0, NULL, 0) != -1 || errno != EPERM ? 2 : 0;
}

/* Without its reader the answerer goes on, and refuses what it refused. */
TEST(notify_answers_without_a_reader)
{
	struct notify *n;

	witness_lab_start(&lab, try_both);
	n = lab.state;
	loop_unwatch(lab.loop, &n->calls);
	CHECK(shutdown(n->pair, SHUT_RDWR) == 0);
	CHECK_OK(loop_run(lab.loop, NULL));
	CHECK(WIFEXITED(lab.status) && WEXITSTATUS(lab.status) == 0);
	CHECK_U64(lab.len, 0);
	witness_lab_close(&lab);
}

static int
try_after_death(void)
{
	char go;

	/* Closed by the test once the answerer is dead. */
	(void)!read(STDIN_FILENO, &go, 1);
	return open("/dev/null", O_WRONLY) >= 0 || errno != ENOSYS || syscall(SYS_bpf, 0, NULL, 0) != -1 || errno != ENOSYS;
}

/* Without its answerer nothing is opened, and the source says so. */
TEST(notify_without_an_answerer_opens_nothing)
{
	int ends[2];

	CHECK(pipe2(ends, O_CLOEXEC) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
	witness_lab_start(&lab, try_after_death);
	CHECK(kill(((struct notify *)lab.state)->answerer, SIGKILL) == 0);
	while (!lab.failed)
		CHECK_OK(loop_turn(lab.loop, NULL));
	/* Both the child and this test hold the writing end. */
	CHECK(write(ends[1], "", 1) == 1);
	witness_lab_run(&lab);
	CHECK(WIFEXITED(lab.status) && WEXITSTATUS(lab.status) == 0);
	witness_lab_close(&lab);
}

static int
open_null(void)
{
	return open("/dev/null", O_WRONLY) < 0;
}

/* A caller that is killed while it waits holds nobody up, and has done nothing. */
TEST(notify_goes_on_when_a_caller_dies)
{
	struct pollfd died = { .events = POLLIN };
	struct notify_call call;

	witness_lab_start(&lab, open_null);
	/* The answerer has asked the reader, which has yet to look. */
	CHECK(recv(((struct notify *)lab.state)->pair, &call, sizeof(call), MSG_PEEK) == sizeof(call));
	died.fd = (int)syscall(SYS_pidfd_open, call.tid, 0);
	CHECK(died.fd >= 0 && kill(call.tid, SIGKILL) == 0 && poll(&died, 1, -1) == 1);
	witness_lab_run(&lab);
	CHECK(WIFEXITED(lab.status) && WEXITSTATUS(lab.status) == 128 + SIGKILL);
	CHECK(!lab.failed && !witness_lab_has(&lab, "file"));
	witness_lab_close(&lab);
}

/* ---- numbers ---- */

TEST(notify_parses_status)
{
	struct notify_ids ids;

	CHECK_OK(notify_parse_status("Name:\tTgid:\\n1\nTgid:\t30\nPid:\t31\nPPid:\t7\nNStgid:\t30\t4\t1\n", 1, &ids));
	CHECK(ids.host == 30 && ids.host_parent == 7 && ids.pid == 4);
	CHECK_OK(notify_parse_status("Tgid:\t30\nPPid:\t7\nNStgid:\t30\t4\t1\n", 2, &ids));
	CHECK(ids.pid == 1);
	CHECK_ERR(notify_parse_status("Tgid:\t30\nPPid:\t7\nNStgid:\t30\t4\t1\n", 3, &ids), EBADMSG);
	CHECK_ERR(notify_parse_status("Tgid:\t30\nPPid:\t7\n", 0, &ids), EBADMSG);
	CHECK_ERR(notify_parse_status("", 0, &ids), EBADMSG);
	CHECK(notify_parse_levels("Tgid:\t30\nNStgid:\t30\t4\t1\nNSpid:\t9\n") == 3);
	CHECK(notify_parse_levels("NStgid:\t30\n") == 1 && notify_parse_levels("NSpid:\t30\n") == 0);
	CHECK_ERR(notify_parse_status("Tgid:\t0\nPPid:\t7\nNStgid:\t30\n", 0, &ids), EBADMSG);
}
