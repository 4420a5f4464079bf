/* main.c - cloister-link: the stream between a service and its workers, as far as it is TLS.
 *
 *   cloister-link serve -- ADDRESS            the service's end, started by cloister-serve
 *   cloister-link dial                        a worker's end, started by `cloister worker`
 *   cloister-link join -- TOKEN HOME POOL     makes a worker known to a service, once
 *   cloister-link worker ... -- VERB          `cloister worker token`, `list` and `remove`
 *
 * The first three read what comes from the network.  They have their keys in memory and their folders open, and lock
 * themselves down before the first byte.  What is inside the stream, others read: ipc/link_channel.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/args.h"
#include "base/tell.h"
#include "confine/lockdown.h"
#include "ipc/link_channel.h"
#include "proc/link/link_proc.h"

static void
parent_left(void *arg, uint32_t events)
{
	(void)events;
	loop_quit(arg);
}

int
link_watch_parent(struct loop *loop, struct err *err)
{
	static struct loop_source parent;

	parent = (struct loop_source){ .fd = LINK_CHANNEL_FD, .ready = parent_left, .arg = loop };
	return loop_watch(loop, &parent, EPOLLIN | EPOLLRDHUP, err);
}

int
link_lock_down(const char *const *readable, const char *const *writable, struct err *err)
{
	/* All descriptors that are open now are our own. */
	return lockdown_enter(&(struct lockdown){ .filter = FILTER_LINK, .network = true, .readable = readable,
	                                          .writable = writable }, INT_MAX, err);
}

static int
run(const struct args *args, struct err *err)
{
	if (strcmp(args->command, "serve") == 0 && args->n_words == 1)
		return link_serve(args->words[0], err);
	if (strcmp(args->command, "dial") == 0 && args->n_words == 0)
		return link_dial(err);
	if (strcmp(args->command, "join") == 0 && args->n_words == 3)
		return link_join(args->words[0], args->words[1], args->words[2], err);
	if (strcmp(args->command, "worker") == 0)
		return link_admin(args, err);
	return err_set(err, EINVAL, "cloister-link is started by cloister only");
}

int
main(int argc, char **argv)
{
	struct args args;
	struct err err = {0};

	signal(SIGPIPE, SIG_IGN);
	if (!args_parse(argc, argv, &args)) {
		(void)err_set(&err, EINVAL, "cloister-link is started by cloister only");
		return tell_error(&err);
	}
	return run(&args, &err) < 0 ? tell_error(&err) : 0;
}
