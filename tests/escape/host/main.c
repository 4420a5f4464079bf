/* main.c - holds what a probe might reach: memory, keys, segments, queues. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

#define KEY_ALL_BUT_OTHERS 0x3f3f0000   /* possessor and owner: everything */

int
host_fail(const char *what)
{
	fprintf(stderr, "host: %s: %s\n", what, strerror(errno));
	return 1;
}

void
host_hold(void)
{
	char byte;
	ssize_t n;

	fflush(stdout);
	do
		n = read(0, &byte, 1);
	while (n > 0 || (n < 0 && errno == EINTR));
}

static void
on_signal(int sig)
{
	static const char text[] = "signalled\n";

	(void)sig;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(1);
}

/* TOKEN: a process with TOKEN in its memory, that tells when it is signalled. */
static int
host_victim(int argc, char **argv)
{
	static char memory[64];

	(void)argc;
	snprintf(memory, sizeof(memory), "%s", argv[0]);
	signal(SIGURG, on_signal);
	printf("%d %p\n", (int)getpid(), (void *)memory);
	host_hold();
	return 0;
}

/* NAME TOKEN: a key in the user's keyring. */
static int
host_key(int argc, char **argv)
{
	long serial;

	(void)argc;
	serial = syscall(SYS_add_key, "user", argv[0], argv[1], strlen(argv[1]),
	                 KEY_SPEC_USER_KEYRING);
	if (serial < 0)
		return host_fail("add_key");
	if (syscall(SYS_keyctl, KEYCTL_SETPERM, serial, KEY_ALL_BUT_OTHERS) < 0)
		return host_fail("setperm");
	printf("%ld\n", serial);
	host_hold();
	syscall(SYS_keyctl, KEYCTL_UNLINK, serial, KEY_SPEC_USER_KEYRING);
	return 0;
}

int
host_session_key(const char *name, const char *text)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		return -1;
	return syscall(SYS_add_key, "user", name, text, strlen(text), KEY_SPEC_SESSION_KEYRING) < 0
	       ? -1 : 0;
}

/* KEY TOKEN */
static int
host_shm(int argc, char **argv)
{
	int id = shmget((key_t)strtoul(argv[0], NULL, 0), 4096, IPC_CREAT | IPC_EXCL | 0666);
	char *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	(void)argc;
	if (at == (void *)-1)
		return host_fail("shm");
	snprintf(at, 4096, "%s", argv[1]);
	printf("%d\n", id);
	host_hold();
	shmctl(id, IPC_RMID, NULL);
	return 0;
}

/* NAME TOKEN */
static int
host_mqueue(int argc, char **argv)
{
	struct mq_attr attr = { .mq_maxmsg = 4, .mq_msgsize = 256 };
	mqd_t q;

	(void)argc;
	umask(0);
	q = mq_open(argv[0], O_RDWR | O_CREAT | O_EXCL, 0666, &attr);
	if (q == (mqd_t)-1 || mq_send(q, argv[1], strlen(argv[1]), 0) < 0)
		return host_fail("mqueue");
	puts("ready");
	host_hold();
	mq_unlink(argv[0]);
	return 0;
}

/* PATH: its handle, as TYPE HEX. */
static int
host_handle(int argc, char **argv)
{
	struct { struct file_handle head; unsigned char bytes[128]; } h = { .head.handle_bytes = 128 };
	int mount_id;

	(void)argc;
	if (name_to_handle_at(AT_FDCWD, argv[0], &h.head, &mount_id, 0) < 0)
		return host_fail("name_to_handle_at");
	printf("%d ", h.head.handle_type);
	for (unsigned i = 0; i < h.head.handle_bytes; i++)
		printf("%02x", h.head.f_handle[i]);
	putchar('\n');
	return 0;
}

static int
queue_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	return sigqueue(getpid(), SIGRTMIN, (union sigval){ .sival_int = 1 });
}

/* KIND: whether one more of it is to be had. */
static int
host_have(int argc, char **argv)
{
	struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	char name[64];
	int r = -1;

	(void)argc;
	snprintf(name, sizeof(name), "/have-%d", (int)getpid());
	if (strcmp(argv[0], "inotify") == 0)
		r = inotify_init1(IN_CLOEXEC);
	else if (strcmp(argv[0], "queues") == 0)
		r = (int)mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	else if (strcmp(argv[0], "signals") == 0)
		r = queue_blocked();
	mq_unlink(name);
	puts(r < 0 ? "no" : "yes");
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	int min_args;
} commands[] = {
	{ "launch", host_launch, 1 }, { "world",  host_world,  1 }, { "victim", host_victim, 1 },
	{ "key",    host_key,    2 }, { "shm",    host_shm,    2 }, { "mqueue", host_mqueue, 2 },
	{ "handle", host_handle, 1 }, { "have",   host_have,   1 },
	{ "inject", host_inject, 3 },
};

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (argc - 2 >= commands[i].min_args && strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 2, argv + 2);
	fprintf(stderr, "usage: host launch|world|victim|key|shm|mqueue|handle|have|inject ARG...\n");
	return 2;
}
