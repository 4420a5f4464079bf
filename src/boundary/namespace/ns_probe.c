/* ns_probe.c - see ns_probe.h. */
#include "boundary/namespace/ns_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/capture/capture.h"
#include "boundary/namespace/ns_plan.h"

/* No child may take longer. */
#define CHILD_SECONDS 10

static int
errno_of(int r)
{
	return r < 0 ? errno : 0;
}

static int
try_pty(void)
{
	OWN(closep) int master = -1;
	int unlock = 0;

	if (mkdir("pts", 0755) < 0 ||
	    mount("devpts", "pts", "devpts", MS_NOSUID | MS_NOEXEC,
	          "newinstance,ptmxmode=0666,mode=620") < 0)
		return errno;
	master = open("pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return errno;
	return 0;
}

/* Tests user attributes on the upper folder, then an overlay that keeps its marks in them, then an
 * operation that needs a mark: removing a lower file. */
static void
try_overlay(struct ns_probe *p)
{
	if (mkdir("lower", 0755) < 0 || mkdir("lower/gone", 0755) < 0 ||
	    mkdir("upper", 0755) < 0 || mkdir("work", 0755) < 0 || mkdir("merged", 0755) < 0) {
		p->overlay = errno;
		return;
	}
	p->user_xattr = errno_of(setxattr("upper", "user.cloister", "", 0, 0));
	if (mount("overlay", "merged", "overlay", 0,
	          "lowerdir=lower,upperdir=upper,workdir=work,userxattr") < 0)
		p->overlay = errno;
	else
		p->overlay = errno_of(rmdir("merged/gone"));
}

static void
child_steps(struct ns_probe *p)
{
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") < 0 ||
	    chdir("/tmp") < 0) {
		p->tmpfs = errno;
		return;
	}
	p->tmpfs = 0;
	p->others = errno_of(unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
	                             CLONE_NEWCGROUP | CLONE_NEWPID));
	p->pty = try_pty();
	if (p->others == 0) {
		bool ipv6 = false;

		p->nftables = -capture_try(&ipv6);
		p->ipv6 = p->nftables != 0 ? NS_PROBE_NOT_TRIED : ipv6 ? 0 : EAFNOSUPPORT;
	}
	try_overlay(p);
}

static pid_t
clone_with(uint64_t flags)
{
	struct clone_args args = { .flags = flags, .exit_signal = SIGCHLD };
	int pidfd = -1;
	pid_t pid;

	if ((flags & CLONE_PIDFD) != 0)
		args.pidfd = (uint64_t)(uintptr_t)&pidfd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid != 0)
		closep(&pidfd);
	return pid;
}

static int
write_maps(pid_t child)
{
	unsigned inner = 0, count = 1, uid = geteuid(), gid = getegid();
	char path[64];
	int r = 0;

	if (ns_has_range()) {
		uid = gid = NS_RANGE_FIRST;
		count = NS_RANGE_SIZE;
	} else {
		snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)child);
		r = write_file_at(AT_FDCWD, path, "deny", NULL);
	}
	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)child);
	if (r == 0)
		r = write_filef_at(AT_FDCWD, path, NULL, "%u %u %u", inner, uid, count);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)child);
	if (r == 0)
		r = write_filef_at(AT_FDCWD, path, NULL, "%u %u %u", inner, gid, count);
	return -r;
}

/* An id-mapped copy of a mount; NAMESPACE is the child's user namespace. */
static int
try_idmap(pid_t child)
{
	OWN(closep) int tree = -1;
	OWN(closep) int namespace = -1;
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)child);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	tree = (int)syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (namespace < 0 || tree < 0)
		return errno;
	attr.userns_fd = (uint64_t)namespace;
	return errno_of((int)syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr,
	                             sizeof(attr)));
}

/* Runs in the child, which continues once the pipe is closed. */
static void
child_main(struct ns_probe *shared, const int go[2])
{
	char c;

	alarm(CHILD_SECONDS);
	close(go[1]);
	if (read(go[0], &c, 1) == 1 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) == 0)
		child_steps(shared);
	_exit(0);
}

static void
try_cell(struct ns_probe *shared)
{
	int go[2], status;
	pid_t child;

	if (pipe2(go, O_CLOEXEC) < 0) {
		shared->userns = errno;
		return;
	}
	child = clone_with(CLONE_NEWUSER | CLONE_NEWNS);
	if (child == 0)
		child_main(shared, go);
	shared->userns = errno_of((int)child);
	if (child > 0) {
		shared->maps = write_maps(child);
		if (shared->maps == 0 && ns_has_range())
			shared->idmap = try_idmap(child);
		if (shared->maps == 0)
			(void)!write(go[1], "", 1);
	}
	close(go[1]);
	if (child > 0)
		waitpid(child, &status, 0);
	close(go[0]);
}

void
ns_probe_run(struct ns_probe *ret_probe)
{
	struct ns_probe *shared;
	pid_t child;

	memset(ret_probe, 0xff, sizeof(*ret_probe));    /* NS_PROBE_NOT_TRIED */
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	              -1, 0);
	if (shared == MAP_FAILED)
		return;
	*shared = *ret_probe;
	child = clone_with(CLONE_PIDFD);
	if (child == 0)
		_exit(0);
	shared->clone = errno_of((int)child);
	if (child > 0)
		waitpid(child, NULL, 0);
	try_cell(shared);
	*ret_probe = *shared;
	munmap(shared, sizeof(*shared));
}
