/* resources.c - takes more than was given.  Each stops at a bound of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

/* N: that many processes at once. */
static int
probe_forks(int argc, char **argv)
{
	int n = atoi(argv[0]), made = 0;

	(void)argc;
	report_ready();
	while (made < n) {
		pid_t pid = fork();

		if (pid == 0)
			return hold();
		if (pid < 0) {
			report_lost("fork");
			break;
		}
		made++;
	}
	fprintf(stderr, "@made %d\n", made);
	return hold();
}

/* HOW MIB: memory, touched. */
static int
probe_memory(int argc, char **argv)
{
	size_t size = (size_t)atoi(argv[1]) << 20;
	int fd = -1;
	char *at;

	(void)argc;
	report_ready();
	if (strcmp(argv[0], "memfd") == 0) {
		fd = memfd_create("fill", 0);
		if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
			return report_lost("memfd");
	}
	at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	          fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return report_lost("mmap");
	for (size_t i = 0; i < size; i += 4096)
		at[i] = 1;
	report_won("%s", argv[1]);
	return hold();
}

static long
fill_one(const char *dir, long mib)
{
	static char block[1 << 20];
	char path[4096];
	long done = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/fill", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	memset(block, 'x', sizeof(block));
	while (fd >= 0 && done < mib && write(fd, block, sizeof(block)) == (ssize_t)sizeof(block))
		done++;
	if (done < mib)
		report_lost(dir);
	return done;
}

/* MIB DIR...: fill each. */
static int
probe_fill(int argc, char **argv)
{
	long total = 0;

	report_ready();
	for (int i = 1; i < argc; i++)
		total += fill_one(argv[i], atol(argv[0]));
	fprintf(stderr, "@made %ld\n", total);
	return hold();
}

/* N DIR: that many files. */
static int
probe_inodes(int argc, char **argv)
{
	int n = atoi(argv[0]), made = 0;
	char path[4096];

	(void)argc;
	report_ready();
	for (; made < n; made++) {
		int fd;

		if (made % 1000 == 0) {
			snprintf(path, sizeof(path), "%s/i%d", argv[1], made / 1000);
			mkdir(path, 0755);
		}
		snprintf(path, sizeof(path), "%s/i%d/%d", argv[1], made / 1000, made);
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0) {
			report_lost("create");
			break;
		}
		close(fd);
	}
	fprintf(stderr, "@made %d\n", made);
	return hold();
}

/* MIB: lines on standard output. */
static int
probe_flood(int argc, char **argv)
{
	static char line[4096];
	long left = atol(argv[0]) * 256;

	(void)argc;
	memset(line, 'f', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	report_ready();
	while (left-- > 0)
		if (write(1, line, sizeof(line)) < 0)
			return report_lost("write");
	/* The first word of it may be gone from a log that has an end. */
	report_ready();
	return report_won("all of it");
}

static void
deaf(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_IGN);
}

/* Leave a child behind that belongs to no session, hears no signal and holds
 * nothing open. */
static int
probe_daemon(int argc, char **argv)
{
	(void)argc, (void)argv;
	report_ready();
	if (fork() != 0)
		return 0;
	setsid();
	if (fork() != 0)
		_exit(0);
	deaf();
	syscall(SYS_close_range, 0, ~0U, 0);
	return hold();
}

/* Stay, and hear nothing. */
static int
probe_deaf(int argc, char **argv)
{
	(void)argc, (void)argv;
	deaf();
	report_ready();
	return hold();
}

/* N SECONDS: that many processes computing. */
static int
probe_burn(int argc, char **argv)
{
	time_t end = time(NULL) + atoi(argv[1]);

	(void)argc;
	report_ready();
	for (int i = 1; i < atoi(argv[0]); i++)
		if (fork() == 0)
			break;
	while (time(NULL) < end)
		;
	return hold();
}

/* Die in a way that makes the kernel dump core. */
static int
probe_crash(int argc, char **argv)
{
	(void)argc, (void)argv;
	report_ready();
	abort();
}

const struct probe probes_resources[] = {
	{ "forks",  "N",         probe_forks,  1 },
	{ "memory", "HOW MIB",   probe_memory, 2 },
	{ "fill",   "MIB DIR...", probe_fill,  2 },
	{ "inodes", "N DIR",     probe_inodes, 2 },
	{ "flood",  "MIB",       probe_flood,  1 },
	{ "daemon", "",          probe_daemon, 0 },
	{ "deaf",   "",          probe_deaf,   0 },
	{ "burn",   "N SECONDS", probe_burn,   2 },
	{ "crash",  "",          probe_crash,  0 },
	{ 0 }
};
