/* lockdown.c - see lockdown.h. */
#include "confine/lockdown.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "confine/landlock.h"
#include "confine/mounts.h"

/* Maps each id to itself: nothing in the namespace belongs to anybody else. */
static int
map_self(uid_t uid, gid_t gid, struct err *err)
{
	int r = CONTROL_ON("helper-map") ? write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", err) : -EACCES;

	if (r == 0)
		r = write_filef_at(AT_FDCWD, "/proc/self/uid_map", err, "%u %u 1\n", uid, uid);
	if (r == 0)
		r = write_filef_at(AT_FDCWD, "/proc/self/gid_map", err, "%u %u 1\n", gid, gid);
	return r;
}

/* Becomes root in the user namespace, if it has one: nobody outside has that id. */
static int
join_namespaces(const struct lockdown *l, struct err *err)
{
	const int others = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | (l->network ? 0 : CLONE_NEWNET);

	if (setns(l->user_namespace, CLONE_NEWUSER) < 0)
		return err_errno(err, "cannot join the cell's user namespace");
	(void)!setgroups(0, NULL);
	if (geteuid() != 0 && setresgid(0, 0, 0) == 0 && setresuid(0, 0, 0) < 0)
		return err_errno(err, "cannot become root of the cell's user namespace");
	return unshare(others) == 0 ? 1 : 0;
}

/* 1: namespaces of its own; 0: this machine forbids them, and the other restrictions have to suffice. */
static int
leave_namespaces(const struct lockdown *l, struct err *err)
{
	const int others = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS |
	                   (l->network ? 0 : CLONE_NEWNET);
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r;

	if (l->looks)
		return l->user_namespace > 0 ? join_namespaces(l, err) : 0;
	if (unshare(CLONE_NEWUSER | others) == 0) {
		r = map_self(uid, gid, err);
		/* AppArmor can take away every right in it (Ubuntu, without a profile for
		 * cloister).  Then nothing can be mounted, but these namespaces are new all the
		 * same. */
		return r == -EACCES || r == -EPERM ? 0 : r < 0 ? r : 1;
	}
	/* Root of a user namespace that may have none beneath it can do without one. */
	return unshare(others) == 0 ? 1 : 0;
}

/* Shows a path as it is seen from here, at the same place in the new root. */
static int
show(int root, const char *path, struct err *err)
{
	OWN(freep) char *real = realpath(path, NULL);
	OWN(closep) int mount = -1, target = -1;
	struct stat st;
	int r;

	if (real == NULL)
		return 0;
	mount = mounts_copy_tree(AT_FDCWD, real, err);
	if (mount < 0)
		return mount;
	r = mounts_set_attrs(mount, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, true, err);
	if (r < 0)
		return r;
	if (fstat(mount, &st) < 0)
		return err_errno(err, "cannot look at '%s'", path);
	target = mounts_follow_target(root, path, !S_ISDIR(st.st_mode), (uid_t)-1, err);
	return target < 0 ? target : mounts_attach(mount, target, "", err);
}

/* The new root is mounted over "/", which this process does not see until it enters it, so paths
 * can still be opened. */
static int
change_root(const char *const *readable, struct err *err)
{
	const char *const options[] = { "mode", "0555", "size", "64k", "nr_inodes", "64", NULL };
	OWN(closep) int root = -1;
	int r;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private");
	root = mounts_new_fs("tmpfs", options, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC, err);
	r = root < 0 ? root : mounts_attach(root, AT_FDCWD, "/", err);
	/* mounts_follow_target() expects this in a root. */
	if (r == 0 && readable != NULL && mkdirat(root, MOUNTS_SCRATCH, 0555) < 0)
		r = err_errno(err, "cannot make the new root");
	for (; r == 0 && readable != NULL && *readable != NULL; readable++)
		r = show(root, *readable, err);
	if (r < 0)
		return r;
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return err_errno(err, "cannot let go of the host's files");
	return mounts_set_attrs(root, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, false, err);
}

static int
drop_capabilities(uint32_t kept, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct rest[2] = { { kept, kept, 0 }, { 0, 0, 0 } };

	/* Without the right to drop them, an exec cannot bring any back either. */
	for (int cap = 0; cap <= 63 && prctl(PR_CAPBSET_DROP, cap) == 0; cap++)
		;
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (CONTROL_ON("helper-caps") && syscall(SYS_capset, &header, rest) < 0)
		return err_errno(err, "cannot drop capabilities");
	return 0;
}

int
lockdown_enter(const struct lockdown *l, int keep_fds, struct err *err)
{
	OWN(closep) int landlock = -1;
	int r;

	/* Otherwise the C library would open the time zone's file at the first use of a date. */
	if (setenv("TZ", "UTC0", 1) < 0)
		return err_errno(err, "cannot set the time zone");
	tzset();
	if (syscall(SYS_close_range, (unsigned)keep_fds, ~0u, 0u) < 0)
		return err_errno(err, "cannot close descriptors");
	/* Here all paths can still be opened. */
	r = l->looks ? 0 : landlock_make_reader(l->readable, l->writable, l->links, l->network, &landlock, err);
	if (r == 0)
		r = CONTROL_ON("helper-namespaces") ? leave_namespaces(l, err) : 0;
	if (r > 0)
		r = change_root(l->readable, err);
	if (r < 0)
		return r;
	/* Only now: a process that is not dumpable cannot write its own maps. */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	r = landlock_enforce(landlock, err);
	if (r == 0)
		r = drop_capabilities(l->kept, err);
	if (r < 0)
		return r;
	closep(&landlock);
	landlock = -1;
	return filter_load(l->filter, err);
}
