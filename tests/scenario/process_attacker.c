/* process_attacker.c - races the porter of a cell without namespaces: one thread connects and sends, another rewrites the
 * address meanwhile.
 *
 * process_attacker connect PORT ROUNDS: between a server of its own on loopback, and PORT of the machine's.
 * process_attacker unix PATH ROUNDS: between a socket of its own, and PATH.
 * process_attacker send PORT ROUNDS: datagrams, with the address in sendto(2), sendmsg(2) and sendmmsg(2).
 * Prints how many calls reported success. */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

int
main(int argc, char **argv)
{
	const int rounds = argc > 3 ? atoi(argv[3]) : 1;
	pthread_t thread, server;
	long done;
	int fd = -1;

	if (argc < 4)
		return 2;
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
	signal(SIGPIPE, SIG_IGN);
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
