/* ns_wait.c - the process that joins walls which have waited for their cell. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/namespace/ns_plan.h"

static int
enter(pid_t init, const char *kind, int what, struct err *err)
{
	OWN(closep) int fd = -1;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)init, kind);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || setns(fd, what) < 0 ? err_errno(err, "cannot enter the cell's namespaces") : 0;
}

/* All but the mounts: what it mounts must be seen by nobody else. */
static int
enter_all(int userns, int netns, pid_t init, struct err *err)
{
	int r = setns(userns, CLONE_NEWUSER) < 0 ? err_errno(err, "cannot enter the cell's namespaces") : 0;

	if (r == 0 && CONTROL_ON("pidns"))
		r = enter(init, "pid", CLONE_NEWPID, err);
	if (r == 0 && CONTROL_ON("ipcns"))
		r = enter(init, "ipc", CLONE_NEWIPC, err);
	if (r == 0 && CONTROL_ON("utsns"))
		r = enter(init, "uts", CLONE_NEWUTS, err);
	if (r == 0 && CONTROL_ON("netns") && setns(netns, CLONE_NEWNET) < 0)
		r = err_errno(err, "cannot enter the cell's network");
	return r;
}

static int
join(struct ns_plan *plan, struct err *err)
{
	int r = ns_become_inner_root(plan, err);

	if (r == 0 && unshare(CLONE_NEWNS | (CONTROL_ON("cgroupns") ? CLONE_NEWCGROUP : 0)) < 0)
		r = err_errno(err, "cannot make the cell's namespaces");
	return r < 0 ? r : plan->inside->join(plan, err);
}

/* Goes on in a child.  The parent ends, and if it WAITS then after the child. */
static void
go_on_in_child(const struct ns_plan *plan, bool waits, struct err *err)
{
	pid_t pid = fork();

	if (pid == 0)
		return;
	if (pid < 0) {
		(void)err_errno(err, "cannot start a process of the cell");
		ns_child_fail(plan, err);
	}
	if (waits)
		(void)waitpid(pid, NULL, 0);
	_exit(0);
}

void
ns_join_run(struct ns_plan *plan, int userns, int netns, pid_t init)
{
	struct err err = {0};
	sigset_t none;
	int r;

	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	r = cgroup_enter_self(plan->cgroup, &err);
	if (r == 0)
		r = enter_all(userns, netns, init, &err);
	if (r < 0)
		ns_child_fail(plan, &err);
	go_on_in_child(plan, true, &err);
	/* In the cell now.  Its first process takes over those whose parent has ended in there, so nobody outside
	 * has to wait for them. */
	go_on_in_child(plan, false, &err);
	/* No signal of its to its group reaches the supervisor. */
	(void)setsid();
	(void)join(plan, &err);
	ns_child_fail(plan, &err);
}
