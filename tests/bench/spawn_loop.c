/* spawn_loop.c - starts commands and times them, with next to no cost of its own.
 *
 * spawn_loop [-n ROUNDS] [-w WARMUP] [-l NS] [-p] [-t] SEP CMD... [SEP CMD...]...
 *	Runs the commands in turn, A B A B, ROUNDS times, after WARMUP untimed
 *	rounds.  Prints "which wall_ns cpu_ns status" for each one timed.  With -t all
 *	that once for each byte of standard input, when it comes.  With -l in slices
 *	of NS nanoseconds, as a cell's processes ask for.
 * spawn_loop -j WORKERS [-n TOTAL | -s MILLISECONDS] [-p] SEP CMD...
 *	Keeps WORKERS of them running until TOTAL are done, or the time is over.
 *	Prints "done failed elapsed_ns".
 *
 * SEP is the first word that is no option; it separates the commands.  They get
 * /dev/null for all three streams, or with -p pipes: an empty one to read, and
 * one that nobody reads. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMMANDS_MAX 16

struct sample {
	int64_t wall, cpu;
	int status;
};

struct tally {
	atomic_long begun, done, failed;
};

extern char **environ;

static char **commands[COMMANDS_MAX];
static size_t n_commands;
static posix_spawn_file_actions_t streams;

static void
die(const char *what)
{
	perror(what);
	exit(2);
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t
tv_ns(struct timeval tv)
{
	return (int64_t)tv.tv_sec * 1000000000 + (int64_t)tv.tv_usec * 1000;
}

static struct sample
run(char **argv)
{
	struct sample s = { .status = 127 };
	struct rusage ru;
	int64_t begin = now();
	pid_t pid;
	int status;

	if (posix_spawnp(&pid, argv[0], &streams, NULL, argv, environ) != 0)
		return s;
	if (wait4(pid, &status, 0, &ru) != pid)
		die("wait4");
	s.wall = now() - begin;
	s.cpu = tv_ns(ru.ru_utime) + tv_ns(ru.ru_stime);
	s.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return s;
}

static void
in_turn(long rounds, long warmup)
{
	for (long i = -warmup; i < rounds; i++) {
		for (size_t c = 0; c < n_commands; c++) {
			struct sample s = run(commands[c]);

			if (i >= 0)
				printf("%zu %lld %lld %d\n", c, (long long)s.wall,
				       (long long)s.cpu, s.status);
		}
	}
}

static void
work(struct tally *tally, long total, int64_t deadline)
{
	while (now() < deadline && atomic_fetch_add(&tally->begun, 1) < total) {
		struct sample s = run(commands[0]);

		atomic_fetch_add(&tally->done, 1);
		if (s.status != 0)
			atomic_fetch_add(&tally->failed, 1);
	}
}

static void
in_parallel(long workers, long total, int64_t ns)
{
	struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE,
	                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int64_t begin = now();

	if (tally == MAP_FAILED)
		die("mmap");
	for (long i = 0; i < workers; i++) {
		pid_t pid = fork();

		if (pid < 0)
			die("fork");
		if (pid == 0) {
			work(tally, total, begin + ns);
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
	printf("%ld %ld %lld\n", atomic_load(&tally->done), atomic_load(&tally->failed),
	       (long long)(now() - begin));
}

static void
set_streams(int piped)
{
	int in[2], out[2];

	posix_spawn_file_actions_init(&streams);
	if (piped) {
		if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
			die("pipe2");
		close(in[1]);
	} else {
		in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		out[1] = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (in[0] < 0 || out[1] < 0)
			die("/dev/null");
	}
	posix_spawn_file_actions_adddup2(&streams, in[0], 0);
	posix_spawn_file_actions_adddup2(&streams, out[1], 1);
	posix_spawn_file_actions_adddup2(&streams, out[1], 2);
}

static void
set_slices(uint64_t ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr;

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0)
		die("sched_getattr");
	attr.runtime = ns;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		die("sched_setattr");
}

static void
split_commands(char **argv)
{
	const char *sep = argv[0];

	for (char **a = argv; *a != NULL; a++) {
		if (strcmp(*a, sep) != 0)
			continue;
		if (n_commands == COMMANDS_MAX)
			exit(2);
		commands[n_commands++] = a + 1;
		/* `sep` still points at the word itself. */
		*a = NULL;
		if (a[1] == NULL)
			exit(2);
		a++;
	}
}

int
main(int argc, char **argv)
{
	long rounds = -1, warmup = 0, workers = 0, ms = 0;
	int piped = 0, turns = 0, opt;
	char byte;

	while ((opt = getopt(argc, argv, "+n:w:j:s:l:pt")) != -1) {
		switch (opt) {
		case 'n': rounds = atol(optarg); break;
		case 'w': warmup = atol(optarg); break;
		case 'j': workers = atol(optarg); break;
		case 's': ms = atol(optarg); break;
		case 'l': set_slices(strtoull(optarg, NULL, 10)); break;
		case 'p': piped = 1; break;
		case 't': turns = 1; break;
		default: return 2;
		}
	}
	if (optind >= argc)
		return 2;
	split_commands(argv + optind);
	set_streams(piped);
	if (workers > 0)
		in_parallel(workers, rounds < 0 ? INT32_MAX : rounds,
		            ms > 0 ? ms * 1000000 : INT64_MAX / 2);
	else
		do {
			if (turns && read(STDIN_FILENO, &byte, 1) != 1)
				break;
			in_turn(rounds < 0 ? 1 : rounds, warmup);
			fflush(stdout);
		} while (turns);
	return 0;
}
