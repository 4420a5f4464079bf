/* child.c - see child.h. */
#include "loop/child.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/own.h"

static void
ready(void *arg, uint32_t events)
{
	struct child *child = arg;
	siginfo_t info = {0};

	(void)events;
	if (waitid(P_PIDFD, (id_t)child->source.fd, &info, WEXITED) < 0)
		return;
	child_drop(child);
	child->ended(child->arg, info.si_code == CLD_EXITED, info.si_status);
}

int
child_start(struct child *child, struct loop *loop, const struct spawn *how, struct err *err)
{
	int fd, r = spawn_start(how, &fd, err);

	if (r < 0)
		return r;
	child->loop = loop;
	child->source = (struct loop_source){ .fd = fd, .ready = ready, .arg = child };
	if (loop_watch(loop, &child->source, EPOLLIN, err) == 0)
		return 0;
	child_drop(child);
	return err_set(err, EINPROGRESS, "cannot wait for '%s'", how->argv[0]);
}

void
child_drop(struct child *child)
{
	if (child->loop == NULL)
		return;
	loop_unwatch(child->loop, &child->source);
	close_fd(&child->source.fd);
	child->loop = NULL;
}

bool
child_runs(const struct child *child)
{
	return child->loop != NULL;
}
