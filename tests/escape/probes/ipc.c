/* ipc.c - reaches for the host's processes and for what listens there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe.h"

/* PID...: a signal that nobody minds, to these and to everything. */
static int
probe_signal(int argc, char **argv)
{
	report_ready();
	if (kill(-1, SIGURG) < 0)
		report_lost("kill -1");
	for (int i = 0; i < argc; i++)
		if (kill(atoi(argv[i]), SIGURG) < 0)
			report_lost(argv[i]);
	return 0;
}

/* KEY ID: a System V shared memory segment. */
static int
probe_shm(int argc, char **argv)
{
	int ids[] = { shmget((key_t)strtoul(argv[0], NULL, 0), 0, 0), atoi(argv[1]) };

	(void)argc;
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		char *at = shmat(ids[i], NULL, SHM_RDONLY);

		if (at == (void *)-1)
			report_lost("shmat");
		else
			printf("%.100s\n", at);
	}
	fflush(stdout);
	return 0;
}

/* NAME: a POSIX message queue. */
static int
probe_mqueue(int argc, char **argv)
{
	char text[8193] = "";
	mqd_t q;

	(void)argc;
	report_ready();
	q = mq_open(argv[0], O_RDONLY | O_NONBLOCK);
	if (q == (mqd_t)-1)
		return report_lost("mq_open");
	if (mq_receive(q, text, sizeof(text) - 1, NULL) > 0)
		puts(text);
	fflush(stdout);
	return 0;
}

static int
dial(const char *name, int abstract)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	struct timeval patience = { 1, 0 };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(name) >= sizeof(to.sun_path) - 1)
		return -1;
	memcpy(to.sun_path + (abstract ? 1 : 0), name, strlen(name));
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len + 1) < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void
use_socket(const char *name, int abstract)
{
	int fd = dial(name, abstract);

	if (fd < 0) {
		report_lost(name);
		return;
	}
	put(fd, probe_nonce);
	spill_fd(fd, 256);
	close(fd);
}

static int
probe_abstract(int argc, char **argv)
{
	report_ready();
	for (int i = 0; i < argc; i++)
		use_socket(argv[i], 1);
	return 0;
}

static int
probe_unix(int argc, char **argv)
{
	report_ready();
	for (int i = 0; i < argc; i++)
		use_socket(argv[i], 0);
	return 0;
}

/* PATH: as above, but it must be there: what counts is who the peer sees. */
static int
probe_granted_socket(int argc, char **argv)
{
	(void)argc;
	if (access(argv[0], F_OK) < 0)
		return report_lost(argv[0]);
	report_ready();
	use_socket(argv[0], 0);
	return 0;
}

static int
probe_names(int argc, char **argv)
{
	char name[256] = "";

	(void)argc, (void)argv;
	report_ready();
	gethostname(name, sizeof(name) - 1);
	puts(name);
	if (getdomainname(name, sizeof(name) - 1) == 0)
		puts(name);
	fflush(stdout);
	spill_path("/proc/sys/kernel/hostname");
	return 0;
}

const struct probe probes_ipc[] = {
	{ "signal",         "PID...",  probe_signal,         0 },
	{ "shm",            "KEY ID",  probe_shm,            2 },
	{ "mqueue",         "NAME",    probe_mqueue,         1 },
	{ "abstract",       "NAME...", probe_abstract,       1 },
	{ "unix",           "PATH...", probe_unix,           1 },
	{ "granted-socket", "PATH",    probe_granted_socket, 1 },
	{ "names",          "",        probe_names,          0 },
	{ 0 }
};
