/* warm.c - see warm.h. */
#include "proc/serve/warm.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/own.h"
#include "ipc/warm_channel.h"
#include "loop/child.h"
#include "loop/loop.h"
#include "store/keyless.h"

#define AGAIN_MS 1000                   /* after one that did not become ready, and twice that after the next */
#define AGAIN_MAX_MS (5 * 60 * 1000)

/* One machine, or the place for one. */
struct place {
	struct warm *warm;
	struct loop_source line;        /* a socket, the other end of which is its supervisor's; fd 0: none */
	bool ready;
};

struct warm {
	struct loop *loop;
	const struct serve_options *options;
	struct child starter;           /* `cloister vm wait` */
	struct loop_timer again;
	unsigned failures;              /* consecutive */
	size_t n;
	struct place places[];
};

static void fill(void *arg);

static void
empty(struct place *place)
{
	loop_unwatch(place->warm->loop, &place->line);
	close_fd(&place->line.fd);
	place->ready = false;
}

/* A start costs much, so there is one at a time. */
static bool
is_starting(const struct warm *warm)
{
	for (size_t i = 0; i < warm->n; i++)
		if (warm->places[i].line.fd > 0 && !warm->places[i].ready)
			return true;
	return child_runs(&warm->starter);
}

static void
try_later(struct warm *warm)
{
	unsigned wait = AGAIN_MS;

	for (unsigned i = 0; i < warm->failures && wait < AGAIN_MAX_MS; i++)
		wait *= 2;
	warm->failures++;
	loop_set_timer(warm->loop, &warm->again, wait < AGAIN_MAX_MS ? wait : AGAIN_MAX_MS);
}

/* Its supervisor is ready, has a cell, or has ended. */
static void
line_ready(void *arg, uint32_t events)
{
	struct place *place = arg;
	struct warm *warm = place->warm;
	bool was_ready = place->ready;
	char word;
	ssize_t n = recv(place->line.fd, &word, 1, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && word == WARM_READY) {
		place->ready = true;
		warm->failures = 0;
		fill(warm);
		return;
	}
	empty(place);
	if (n == 1 && word == WARM_GONE)
		fill(warm);
	/* Even those that were ready must not be replaced in a hurry: something may kill them all. */
	else if (!was_ready || warm->again.at_ms == 0)
		try_later(warm);
}

static void
starter_ended(void *arg, bool exited, int status)
{
	(void)exited;
	(void)status;
	fill(arg);
}

static int
start(struct warm *warm, struct place *place, struct err *err)
{
	const struct serve_options *o = warm->options;
	char program[] = "cloister", command[] = "vm", verb[] = "wait", memory[] = "--memory", cpus[] = "--cpus";
	char *argv[8] = { program, command, verb }, path[PATH_MAX];
	OWN(freep) char **inherited = NULL;
	int ends[2], n = 3, r = exe_find_cloister(path, err);
	struct spawn_fd fds[] = { { -1, 0 }, { SPAWN_NULL, 1 } };

	r = r == 0 ? keyless_env(&inherited, err) : r;
	if (r < 0)
		return r;
	if (o->warm_memory != NULL) {
		argv[n++] = memory;
		argv[n++] = (char *)(uintptr_t)o->warm_memory;
	}
	if (o->warm_cpus != NULL) {
		argv[n++] = cpus;
		argv[n++] = (char *)(uintptr_t)o->warm_cpus;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a socket");
	place->line.fd = ends[0];
	fds[0].fd = ends[1];
	r = loop_watch(warm->loop, &place->line, EPOLLIN, err);
	if (r == 0)
		r = child_start(&warm->starter, warm->loop, &(struct spawn){ .argv = argv, .path = path, .cwd = "/",
			.env = inherited, .fds = fds, .n_fds = ARRAY_LEN(fds), .flags = SPAWN_APART }, err);
	close(ends[1]);
	if (r < 0 && r != -EINPROGRESS)
		empty(place);
	return r;
}

static void
fill(void *arg)
{
	struct warm *warm = arg;
	struct err err = {0};

	if (is_starting(warm) || warm->again.at_ms != 0)
		return;
	for (size_t i = 0; i < warm->n; i++) {
		int r;

		if (warm->places[i].line.fd > 0)
			continue;
		r = start(warm, &warm->places[i], &err);
		if (r < 0 && r != -EINPROGRESS) {
			fprintf(stderr, "cloister: no virtual machine waits: %s\n", err.text);
			try_later(warm);
		}
		return;
	}
}

int
warm_start(struct loop *loop, const struct serve_options *options, struct warm **ret_warm, struct err *err)
{
	struct warm *warm = calloc(1, sizeof(*warm) + options->warm * sizeof(warm->places[0]));

	if (warm == NULL)
		return err_set(err, ENOMEM, "out of memory");
	warm->loop = loop;
	warm->options = options;
	warm->n = options->warm;
	warm->starter = (struct child){ .ended = starter_ended, .arg = warm };
	loop_prepare_timer(&warm->again, fill, warm);
	for (size_t i = 0; i < warm->n; i++)
		warm->places[i] = (struct place){ .warm = warm,
			.line = { .ready = line_ready, .arg = &warm->places[i] } };
	fill(warm);
	*ret_warm = warm;
	return 0;
}

void
warm_stop(struct warm *warm)
{
	if (warm == NULL)
		return;
	for (size_t i = 0; i < warm->n; i++)
		if (warm->places[i].line.fd > 0)
			empty(&warm->places[i]);
	loop_cancel_timer(warm->loop, &warm->again);
	child_drop(&warm->starter);
	free(warm);
}
