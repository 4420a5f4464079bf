/* syscall_loop.c - what one system call costs where this runs: "name ns" lines,
 * the fastest of many short batches, so that a busy machine hardly matters. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 400
#define CALLS 500

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void
call_getpid(void)
{
	syscall(SYS_getpid);
}

static void
call_read(void)
{
	static int fd = -1;
	char c;

	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY);
	if (read(fd, &c, 1) != 1)
		_exit(2);
}

static void
call_stat(void)
{
	struct stat st;

	if (stat("/usr/bin/env", &st) != 0)
		_exit(2);
}

static void
call_open(void)
{
	int fd = open("/usr/bin/env", O_RDONLY);

	if (fd < 0)
		_exit(2);
	close(fd);
}

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {
	{ "getpid", call_getpid },
	{ "read", call_read },
	{ "stat", call_stat },
	{ "open+close", call_open },
};

int
main(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int64_t best = INT64_MAX;

		for (int b = 0; b < BATCHES; b++) {
			int64_t begin = now(), took;

			for (int c = 0; c < CALLS; c++)
				calls[i].call();
			took = now() - begin;
			if (took < best)
				best = took;
		}
		printf("%s %.1f\n", calls[i].name, (double)best / CALLS);
	}
	return 0;
}
