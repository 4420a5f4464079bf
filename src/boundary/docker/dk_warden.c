/* dk_warden.c - the process that ends a container, with rights that the supervisor gives up.
 *
 * It has the engine's socket, a descriptor of the container's first process, its cgroup and a channel.  One byte there
 * is an order.  The end of the channel, also by the supervisor's death, is the order to remove the container. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/docker/dk.h"
#include "confine/filter.h"

enum { ORDER_KILL = 'k', ORDER_REMOVE = 'r', DONE = 'd', FAILED = 'f' };

#define REMOVE_MS 30000                 /* more than engine_remove() takes */

/* It signals the agent, who is another user, and thaws its group. */
static int
drop_rights(void)
{
	const unsigned kept = geteuid() == 0 ? 1u << CAP_KILL | 1u << CAP_DAC_OVERRIDE : 0;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { kept, kept, 0 }, { 0, 0, 0 } };

	return prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	       syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Signals go to the supervisor, which knows what they mean. */
static void
leave_group(void)
{
	sigset_t all;

	(void)setsid();
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static int
by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Nothing else of the supervisor's stays open. */
static int
close_others(const struct walls *w, int channel)
{
	int kept[2 + CGROUP_FOLDERS_MAX] = { channel, w->pidfd }, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	size_t n = 2 + cgroup_folders(w->cgroup, kept + 2);
	unsigned next = 3;

	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return -errno;
	qsort(kept, n, sizeof(kept[0]), by_number);
	for (size_t i = 0; i < n; next = (unsigned)kept[i++] + 1)
		if ((unsigned)kept[i] > next)
			(void)close_range(next, (unsigned)kept[i] - 1, 0);
	return close_range(next, ~0u, 0) < 0 ? -errno : 0;
}

/* A group frozen by version 1 dies only when it is thawed, and runs not one instruction more. */
static void
kill_all(const struct walls *w)
{
	(void)syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0);
	(void)cgroup_freeze(w->cgroup, false, NULL);
}

_Noreturn static void
watch_over(const struct walls *w, int channel)
{
	const struct dk_container *c = w->container;
	char order, answer = DONE;

	leave_group();
	if (close_others(w, channel) < 0 || drop_rights() < 0 || filter_load(FILTER_WARDEN, NULL) < 0)
		_exit(125);
	(void)!send(channel, &answer, 1, MSG_NOSIGNAL);
	while (read(channel, &order, 1) == 1 && order == ORDER_KILL)
		kill_all(w);
	kill_all(w);
	answer = engine_remove(c->engine, c->name, NULL) == 0 ? DONE : FAILED;
	(void)!send(channel, &answer, 1, MSG_NOSIGNAL);
	_exit(0);
}

int
dk_start_warden(struct walls *w, struct err *err)
{
	struct dk_container *c = w->container;
	int ends[2];
	char ready;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel to the container's warden");
	c->warden_pid = cgroup_fork(c->own);
	if (c->warden_pid == 0) {
		close(ends[0]);
		(void)cgroup_enter_self(c->own, NULL);
		watch_over(w, ends[1]);
	}
	close(ends[1]);
	c->warden = ends[0];
	if (c->warden_pid < 0 || read(c->warden, &ready, 1) != 1)
		return err_set(err, EIO, "cannot start the container's warden");
	return 0;
}

void
dk_warden_kill(const struct walls *w)
{
	(void)!send(w->container->warden, &(char){ ORDER_KILL }, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int
dk_warden_remove(struct walls *w)
{
	struct dk_container *c = w->container;
	char answer = FAILED;

	if (send(c->warden, &(char){ ORDER_REMOVE }, 1, MSG_NOSIGNAL) != 1 ||
	    !io_is_readable(c->warden, io_now_ms() + REMOVE_MS) || read(c->warden, &answer, 1) != 1)
		answer = FAILED;
	close(c->warden);
	c->warden = -1;
	if (answer == DONE)
		(void)waitpid(c->warden_pid, NULL, 0);
	return answer == DONE ? 0 : -EBUSY;
}
