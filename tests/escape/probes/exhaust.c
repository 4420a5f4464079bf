/* exhaust.c - uses up what the kernel counts for a whole user, or for the whole
 * machine, and what would leave the user's other programs without. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

#define AIO_BATCH 1000
#define PTYS_EACH 900

static int
take_inotify(int i)
{
	(void)i;
	return inotify_init1(IN_CLOEXEC);
}

static int
take_aio(int i)
{
	aio_context_t context = 0;

	(void)i;
	return (int)syscall(SYS_io_setup, AIO_BATCH, &context);
}

static int
take_queue(int i)
{
	struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	char name[64];

	snprintf(name, sizeof(name), "/%s-%d", probe_nonce, i);
	if (mq_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600, &attr) == (mqd_t)-1)
		return -1;
	/* Outside a box nothing else would take it away. */
	mq_unlink(name);
	return 0;
}

static int
take_signal(int i)
{
	return sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = i });
}

static int
take_pty(int i)
{
	if (i > 0 && i % PTYS_EACH == 0 && fork() != 0)
		hold();
	return open("/dev/ptmx", O_RDWR | O_NOCTTY);
}

static const struct {
	const char *name;
	int (*take)(int i);
	int each;                       /* how many one of these counts for */
} kinds[] = {
	{ "inotify", take_inotify, 1 }, { "queues", take_queue, 1 }, { "signals", take_signal, 1 },
	{ "ptys", take_pty, 1 }, { "aio", take_aio, AIO_BATCH },
};

static void
all_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* KIND N: take that many, or until there is no more, and keep it. */
static int
probe_exhaust(int argc, char **argv)
{
	sigset_t all;

	(void)argc;
	all_descriptors();
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		int n = 0;

		if (strcmp(kinds[k].name, argv[0]) != 0)
			continue;
		report_ready();
		while (n * kinds[k].each < atoi(argv[1]) && kinds[k].take(n) >= 0)
			n++;
		report_lost(argv[0]);
		fprintf(stderr, "@made %d\n", n);
		return hold();
	}
	return 2;
}

const struct probe probes_exhaust[] = {
	{ "exhaust", "KIND N", probe_exhaust, 2 },
	{ 0 }
};
