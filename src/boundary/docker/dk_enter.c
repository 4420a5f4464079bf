/* dk_enter.c - the process that builds a cell's file system inside a container.
 *
 * It has all rights in the container's namespaces.  Init waits there, and nothing else runs. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/docker/dk.h"

static int
open_of(pid_t pid, const char *kind)
{
	char path[40];

	if (pid == 0)
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kind);
	else
		snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
	return open(path, O_RDONLY | O_CLOEXEC);
}

int
dk_open_namespace(pid_t pid, const char *kind, int *ret_fd, struct err *err)
{
	OWN(closep) int fd = open_of(pid, kind), own = open_of(0, kind);
	struct stat a, b;

	if (fd < 0 || own < 0 || fstat(fd, &a) < 0 || fstat(own, &b) < 0)
		return err_errno(err, "cannot look at the container's namespaces");
	if (a.st_ino == b.st_ino && a.st_dev == b.st_dev)
		return err_set(err, ENOTSUP, "the engine's container has no '%s' namespace of its own", kind);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int
enter(int fd, int what, struct err *err)
{
	return setns(fd, what) < 0 ? err_errno(err, "cannot enter the container's namespaces") : 0;
}

/* An ordinary user can take mounts of the host's only with rights over a copy of its mount namespace. */
static int
copy_grants(struct ns_plan *plan, struct err *err)
{
	if (plan->range)
		return 0;
	if (unshare(CLONE_NEWNS) < 0)
		return err_errno(err, "cannot copy the grants");
	for (size_t i = 0; i < plan->spec->n_grants; i++) {
		plan->grants[i] = mounts_copy_tree(AT_FDCWD, plan->spec->grants[i].host, err);
		if (plan->grants[i] < 0)
			return plan->grants[i];
	}
	return 0;
}

/* From here on it is a process of the container: its /proc shows only those. */
static int
build_inside(struct ns_plan *plan, int mntns, struct err *err)
{
	int r = enter(mntns, CLONE_NEWNS, err);

	if (r < 0)
		return r;
	/* Without what the engine has mounted in it. */
	plan->layers[0] = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (plan->layers[0] < 0)
		return err_errno(err, "cannot take the container's root");
	return ns_build_root(plan, err);
}

struct namespaces {
	int user, mnt, pid;
};

_Noreturn static void
run(struct ns_plan *plan, const struct namespaces *ns)
{
	struct err err = {0};
	int status = 0, r = ns->user < 0 ? 0 : enter(ns->user, CLONE_NEWUSER, &err);
	pid_t pid;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	umask(022);
	if (r == 0 && ns->user >= 0)
		r = ns_become_inner_root(plan, &err);
	if (r == 0)
		r = copy_grants(plan, &err);
	if (r == 0)
		r = enter(ns->pid, CLONE_NEWPID, &err);
	pid = r < 0 ? -1 : fork();
	if (pid == 0) {
		if (build_inside(plan, ns->mnt, &err) < 0)
			ns_child_fail(plan, &err);
		_exit(0);
	}
	if (r == 0 && (pid < 0 || waitpid(pid, &status, 0) != pid))
		r = err_errno(&err, "cannot start a process in the container");
	if (r < 0)
		ns_child_fail(plan, &err);
	_exit(status == 0 ? 0 : 125);
}

static int
make_plan(const struct cell_spec *spec, const struct boundary_ground *ground, const struct dk_container *c,
          struct ns_plan *ret_plan, struct err *err)
{
	struct ns_plan plan = ns_new_plan(spec, ground, NULL);

	plan.base = c->base;
	plan.keeps_proc = true;
	*ret_plan = plan;
	return ns_prepare_grants(ret_plan, err);
}

/* The image is the container's own root. */
int
dk_build(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w, struct err *err)
{
	static char root[] = "/", *layers[] = { root, NULL };
	const struct dk_container *c = w->container;
	struct namespaces ns = { .user = c->userns, .mnt = -1, .pid = -1 };
	struct cell_spec as_image = *spec;
	struct ns_plan plan;
	int ends[2], status = 0, r;
	pid_t pid = -1;

	r = make_plan(spec, ground, c, &plan, err);
	if (r == 0)
		r = dk_open_namespace(w->init, "mnt", &ns.mnt, err);
	if (r == 0)
		r = dk_open_namespace(w->init, "pid", &ns.pid, err);
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		r = err_errno(err, "cannot make a channel to the cell");
	if (r == 0) {
		as_image.image.layers = layers;
		plan.spec = &as_image;
		plan.channel = ends[1];
		w->channel = ends[0];
		pid = fork();
		if (pid == 0) {
			close(ends[0]);
			run(&plan, &ns);
		}
		close(ends[1]);
		if (pid < 0)
			r = err_errno(err, "cannot start the process that builds the cell's file system");
	}
	if (r == 0)
		r = ns_await_ready(spec, w, true, err);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && r == 0 && status != 0)
		r = err_set(err, EIO, "the process that builds the cell's file system died");
	closep(&w->channel);
	w->channel = -1;
	closep(&ns.mnt);
	closep(&ns.pid);
	ns_close_plan(&plan);
	return r;
}
