/* mcp_child.c - see mcp_child.h. */
#include "proc/serve/mcp_child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "dispatch/dispatch.h"
#include "ipc/mcp_channel.h"
#include "loop/loop.h"
#include "serve/serve.h"
#include "store/keyless.h"

#define AGAIN_MS 1000                   /* after it was killed */
#define PORT_TRIES 100
#define PORT_PAUSE_NS 20000000

struct mcp_child {
	struct loop *loop;
	int listener, announced;
	uint16_t port;
	struct loop_source child;       /* a pidfd */
	struct loop_timer again;
};

/* Signals from the terminal are for the service, which ends the child. */
static int
spawn(struct mcp_child *b, struct err *err)
{
	char port[32], parent[32], program[] = "cloister-mcp", command[] = "mcp", end[] = "--";
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { b->listener, MCP_GIVEN_FD } };
	struct spawn how = { .argv = (char *[]){ program, command, port, parent, end, NULL }, .fds = fds,
		.n_fds = ARRAY_LEN(fds), .flags = SPAWN_APART };
	OWN(freep) char **inherited = NULL;
	pid_t pid;
	int r = keyless_env(&inherited, err);

	if (r < 0)
		return r;
	how.env = inherited;
	snprintf(port, sizeof(port), "--serve-port=%u", b->port);
	snprintf(parent, sizeof(parent), "--parent=%d", getpid());
	pid = spawn_start(&how, &b->child.fd, err);
	return pid < 0 ? pid : loop_watch(b->loop, &b->child, EPOLLIN, err);
}

static void
start_again(void *arg)
{
	struct mcp_child *b = arg;
	struct err err = {0};

	if (spawn(b, &err) == 0)
		return;
	fprintf(stderr, "cloister: %s\n", err.text);
	loop_set_timer(b->loop, &b->again, AGAIN_MS);
}

static void
reap(struct mcp_child *b)
{
	siginfo_t info = {0};

	loop_unwatch(b->loop, &b->child);
	(void)waitid(P_PIDFD, (id_t)b->child.fd, &info, WEXITED);
	close_fd(&b->child.fd);
}

static void
ended(void *arg, uint32_t events)
{
	struct mcp_child *b = arg;

	(void)events;
	reap(b);
	fputs("cloister: cloister-mcp has ended, and is started again\n", stderr);
	loop_set_timer(b->loop, &b->again, AGAIN_MS);
}

/* The port that cells know; after a killed service it may only be free in a moment. */
static int
listen_again(const char *host, int host_len, uint16_t last, uint16_t *ret_port)
{
	const struct timespec pause = { .tv_nsec = PORT_PAUSE_NS };
	char address[64];
	int fd = -1;

	snprintf(address, sizeof(address), "%.*s:%u", host_len, host, last);
	for (int i = 0; i < PORT_TRIES; i++) {
		fd = serve_listen_tcp(address, ret_port, NULL);
		if (fd != -EADDRINUSE)
			break;
		nanosleep(&pause, NULL);
	}
	return fd;
}

static int
listen_at(struct mcp_child *b, const char *address, struct err *err)
{
	const char *colon = strrchr(address, ':');
	uint16_t last = dispatch_mcp_last();

	/* Cells connect to 127.0.0.1 first: any process that listened there would get their tokens. */
	if (strncmp(address, "127.0.0.1:", 10) != 0)
		return err_set(err, EINVAL, "--mcp '%s': use 127.0.0.1:PORT, where cells can reach "
		               "it", address);
	if (colon != NULL && strcmp(colon, ":0") == 0 && last != 0)
		b->listener = listen_again(address, (int)(colon - address), last, &b->port);
	if (b->listener <= 0)
		b->listener = serve_listen_tcp(address, &b->port, err);
	return b->listener < 0 ? err_wrap(err, "--mcp") : 0;
}

int
mcp_child_start(struct loop *loop, const char *address, struct mcp_child **ret_child, struct err *err)
{
	struct mcp_child *b = calloc(1, sizeof(*b));
	int r;

	if (b == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*b = (struct mcp_child){ .loop = loop,
		.child = { .ready = ended, .arg = b }, .again = { .due = start_again, .arg = b } };
	r = listen_at(b, address, err);
	r = r == 0 ? spawn(b, err) : r;
	if (r == 0) {
		b->announced = dispatch_mcp_announce(b->port, err);
		r = b->announced < 0 ? b->announced : 0;
	}
	if (r < 0) {
		mcp_child_stop(b);
		return r;
	}
	fprintf(stderr, "cloister: agents in cells find MCP at port %u\n", b->port);
	*ret_child = b;
	return 0;
}

void
mcp_child_stop(struct mcp_child *b)
{
	if (b == NULL)
		return;
	close_fd(&b->announced);
	loop_cancel_timer(b->loop, &b->again);
	if (b->child.fd > 0) {
		(void)syscall(SYS_pidfd_send_signal, b->child.fd, SIGKILL, NULL, 0);
		reap(b);
	}
	close_fd(&b->listener);
	free(b);
}
