/* process_attacker.c - races the porter of a cell without namespaces: one thread connects and sends, another rewrites the
 * address meanwhile.
 *
 * process_attacker connect PORT ROUNDS: between a server of its own on loopback, and PORT of the machine's.
 * process_attacker unix PATH ROUNDS: between a socket of its own, and PATH.
 * process_attacker send PORT ROUNDS: datagrams, with the address in sendto(2), sendmsg(2) and sendmmsg(2).
 * process_attacker swap FOLDER ROUNDS: puts FOLDER/daemon, a socket of the machine's, in the place of one that it has just
 * bound there.
 * process_attacker stuck - 1: keeps the porter waiting in a connect(2), for good.  Prints "stuck" then.
 * process_attacker foreign - 1: the calls of other tables, each in a process of its own.
 * Prints how many calls reported success. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static union {
	struct sockaddr_in in;
	struct sockaddr_un un;
	unsigned char bytes[sizeof(struct sockaddr_un)];
} shared, good, bad;
static volatile int over;

static void *
rewrite(void *arg)
{
	(void)arg;
	while (!over) {
		memcpy(&shared, &bad, sizeof(shared));
		__asm__ volatile("" ::: "memory");
		memcpy(&shared, &good, sizeof(shared));
		__asm__ volatile("" ::: "memory");
	}
	return NULL;
}

static void
name_port(struct sockaddr_in *in, int port)
{
	*in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
	inet_pton(AF_INET, "127.0.0.1", &in->sin_addr);
}

static int
serve(int family, struct sockaddr *at, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, at, len) < 0 || listen(fd, 128) < 0) {
		perror("serve");
		exit(1);
	}
	return fd;
}

static void *
accept_all(void *arg)
{
	int fd = (int)(long)arg, client;

	while ((client = accept(fd, NULL, NULL)) >= 0)
		close(client);
	return NULL;
}

static long
connect_often(int family, socklen_t len, int rounds)
{
	long done = 0;

	for (int i = 0; i < rounds; i++) {
		int fd = socket(family, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&shared, len) == 0) {
			done++;
			(void)!write(fd, "raced", 5);
		}
		close(fd);
	}
	return done;
}

static long
send_often(int rounds)
{
	long done = 0;

	for (int i = 0; i < rounds; i++) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		char said[] = "raced raced raced";
		struct iovec part = { said, sizeof(said) - 1 };
		struct mmsghdr both = { .msg_hdr = { .msg_name = &shared, .msg_namelen = sizeof(shared.in),
		                                     .msg_iov = &part, .msg_iovlen = 1 } };

		done += sendto(fd, "raced raced raced", 17, 0, (struct sockaddr *)&shared, sizeof(shared.in)) > 0;
		done += sendmsg(fd, &both.msg_hdr, 0) > 0;
		done += sendmmsg(fd, &both, 1, 0) > 0;
		close(fd);
	}
	return done;
}

/* ---- another socket in the place of the one that was bound ---- */

static char place[100], other[100], daemon_path[100];

static void *
swap(void *arg)
{
	(void)arg;
	while (!over)
		if (access(place, F_OK) == 0)
			(void)rename(other, place);
	return NULL;
}

static long
swap_often(const char *folder, int rounds)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	pthread_t thread;
	long done = 0;

	snprintf(place, sizeof(place), "%s/place", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	snprintf(daemon_path, sizeof(daemon_path), "%s/daemon", folder);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", place);
	pthread_create(&thread, NULL, swap, NULL);
	for (int i = 0; i < rounds; i++) {
		int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);

		(void)!link(daemon_path, other);
		if (bind(server, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(server, 1) == 0 &&
		    connect(client, (struct sockaddr *)&at, sizeof(at)) == 0) {
			done++;
			(void)!write(client, "raced", 5);
		}
		close(client);
		close(server);
		unlink(place);
		unlink(other);
	}
	over = 1;
	pthread_join(thread, NULL);
	return done;
}

/* ---- a porter that waits ---- */

static int waits_for;

/* The porter limits how long it waits; the limit is the socket's, which both have. */
static void *
wait_for_ever(void *arg)
{
	const struct timeval none = {0};

	(void)arg;
	for (;;)
		(void)setsockopt(waits_for, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none));
	return NULL;
}

static void *
connect_once(void *arg)
{
	(void)connect(waits_for, (struct sockaddr *)&good.un, sizeof(good.un));
	(void)arg;
	over = 1;
	return NULL;
}

static void
stick(void)
{
	pthread_t racer, caller;
	int full[2];

	good.un.sun_family = AF_UNIX;
	snprintf(good.un.sun_path, sizeof(good.un.sun_path), "%s/own", getenv("TMPDIR"));
	full[0] = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(full[0], (struct sockaddr *)&good.un, sizeof(good.un)) < 0 || listen(full[0], 0) < 0)
		exit(1);
	full[1] = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)connect(full[1], (struct sockaddr *)&good.un, sizeof(good.un));
	waits_for = socket(AF_UNIX, SOCK_STREAM, 0);
	pthread_create(&racer, NULL, wait_for_ever, NULL);
	for (;;) {
		over = 0;
		pthread_create(&caller, NULL, connect_once, NULL);
		for (int i = 0; i < 20 && !over; i++)
			usleep(100000);
		if (!over) {
			puts("stuck");
			fflush(stdout);
			pause();
		}
		pthread_join(caller, NULL);
	}
}

/* ---- calls of other tables ---- */

#ifdef __x86_64__
static long
call_i386(long number, long a, long b, long c)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return r;
}
#endif

static void
call_foreign(void)
{
#ifdef __x86_64__
	for (int i = 0; i < 3; i++) {
		const pid_t pid = fork();
		int status = 0;

		if (pid == 0)
			/* socket() and socketcall() of i386, and socket() of x32. */
			_exit((i == 0 ? call_i386(359, AF_INET, SOCK_STREAM, 0) :
			       i == 1 ? call_i386(102, 1, 0, 0) : syscall(0x40000000 + 41, AF_INET, SOCK_STREAM, 0)) >= 0 ? 1 : 0);
		(void)waitpid(pid, &status, 0);
		printf("%s\n", WIFSIGNALED(status) ? "killed" : WEXITSTATUS(status) == 1 ? "made" : "refused");
	}
#endif
}

int
main(int argc, char **argv)
{
	const int rounds = argc > 3 ? atoi(argv[3]) : 1;
	pthread_t thread, server;
	long done;
	int fd = -1;

	if (argc < 4)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	if (strcmp(argv[1], "stuck") == 0)
		stick();
	if (strcmp(argv[1], "foreign") == 0) {
		call_foreign();
		return 0;
	}
	if (strcmp(argv[1], "swap") == 0) {
		printf("%ld\n", swap_often(argv[2], rounds));
		return 0;
	}
	if (strcmp(argv[1], "unix") == 0) {
		good.un.sun_family = bad.un.sun_family = AF_UNIX;
		snprintf(good.un.sun_path, sizeof(good.un.sun_path), "%s/own", getenv("TMPDIR"));
		snprintf(bad.un.sun_path, sizeof(bad.un.sun_path), "%s", argv[2]);
		fd = serve(AF_UNIX, (struct sockaddr *)&good.un, sizeof(good.un));
	} else {
		name_port(&bad.in, atoi(argv[2]));
		name_port(&good.in, strcmp(argv[1], "send") == 0 ? 53 : 7777);
		if (strcmp(argv[1], "connect") == 0)
			fd = serve(AF_INET, (struct sockaddr *)&good.in, sizeof(good.in));
	}
	shared = good;
	if (fd >= 0)
		pthread_create(&server, NULL, accept_all, (void *)(long)fd);
	pthread_create(&thread, NULL, rewrite, NULL);
	done = strcmp(argv[1], "unix") == 0 ? connect_often(AF_UNIX, sizeof(shared.un), rounds) :
	       fd >= 0 ? connect_often(AF_INET, sizeof(shared.in), rounds) : send_often(rounds);
	over = 1;
	pthread_join(thread, NULL);
	printf("%ld\n", done);
	return 0;
}
