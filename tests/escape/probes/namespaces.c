/* namespaces.c - asks the kernel for worlds of its own, or for somebody else's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static const struct { const char *name; unsigned long flag; } kinds[] = {
	{ "user", CLONE_NEWUSER }, { "mnt",    CLONE_NEWNS },     { "pid",  CLONE_NEWPID },
	{ "net",  CLONE_NEWNET },  { "ipc",    CLONE_NEWIPC },    { "uts",  CLONE_NEWUTS },
	{ "time", CLONE_NEWTIME }, { "cgroup", CLONE_NEWCGROUP },
};

static unsigned long
kind_flag(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].flag;
	return 0;
}

static int
by_unshare(unsigned long flags)
{
	return unshare((int)flags);
}

static int
reap(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return pid < 0 ? -1 : 0;
}

static int
by_clone(unsigned long flags)
{
	return reap(syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0));
}

static int
by_clone3(unsigned long flags)
{
	struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls; }
		args = { .flags = flags, .exit_signal = SIGCHLD };

	return reap(syscall(435, &args, sizeof(args)));
}

/* HOW KIND: a new namespace, alone or together with a user namespace. */
static int
probe_new(int argc, char **argv)
{
	int (*by)(unsigned long) = strcmp(argv[0], "clone") == 0    ? by_clone
	                           : strcmp(argv[0], "clone3") == 0 ? by_clone3
	                                                            : by_unshare;
	unsigned long flag = kind_flag(argv[1]);

	(void)argc;
	report_ready();
	if (by(flag) == 0)
		return report_won("%s %s", argv[0], argv[1]);
	report_lost(argv[1]);
	if (by(flag | CLONE_NEWUSER) == 0)
		return report_won("%s user+%s", argv[0], argv[1]);
	return report_lost("with a user namespace");
}

/* PID: join any of its namespaces but the user's (one cannot join one's own). */
static int
probe_setns(int argc, char **argv)
{
	char path[64];
	int pidfd;

	(void)argc;
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		int fd;

		snprintf(path, sizeof(path), "/proc/%s/ns/%s", argv[0], kinds[i].name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && setns(fd, 0) == 0)
			report_won("%s", path);
		else
			report_lost(path);
	}
	pidfd = (int)syscall(434, atoi(argv[0]), 0);
	if (pidfd >= 0 && setns(pidfd, CLONE_NEWUTS) == 0)
		report_won("pidfd");
	return 0;
}

/* DIR FILE: the old way out of a root directory, then FILE. */
static int
probe_chroot(int argc, char **argv)
{
	(void)argc;
	report_ready();
	mkdir(argv[0], 0755);
	if (chroot(argv[0]) < 0)
		return report_lost("chroot");
	report_won("chroot");
	for (int i = 0; i < 64; i++)
		if (chdir("..") < 0)
			break;
	if (chroot(".") < 0)
		return report_lost("chroot .");
	return spill_path(argv[1]) > 0 ? 0 : 1;
}

/* Whether PATH may be written, found by writing what is in it already. */
static int
rewrite(const char *path)
{
	char text[4096];
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n;

	if (fd < 0 || (n = read(fd, text, sizeof(text))) < 0)
		return -1;
	if (n == 0)
		text[n++] = '\n';
	return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -1;
}

/* DIR: a cgroup v1 hierarchy there, and its release_agent. */
static int
probe_release_agent(int argc, char **argv)
{
	static const char *const controllers[] = {
		"memory", "pids", "freezer", "devices", "cpu", "blkio", "rdma", "misc"
	};
	char path[4096];

	(void)argc;
	report_ready();
	if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWCGROUP) < 0)
		report_lost("unshare");
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	mkdir(argv[0], 0755);
	snprintf(path, sizeof(path), "%s/release_agent", argv[0]);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		if (mount("cgroup", argv[0], "cgroup", 0, controllers[i]) < 0)
			continue;
		if (rewrite(path) == 0)
			return report_won("%s", controllers[i]);
		umount2(argv[0], MNT_DETACH);
	}
	return report_lost("release_agent");
}

static int
write_map(const char *path, const char *map)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -1;
	r = put(fd, map);
	close(fd);
	return r;
}

/* Other ids for oneself: in the namespace one has, then in a new one. */
static int
probe_uid_map(int argc, char **argv)
{
	char map[64];

	(void)argc, (void)argv;
	snprintf(map, sizeof(map), "0 %d 1", (int)geteuid());
	report_ready();
	if (write_map("/proc/self/uid_map", "0 0 4294967295") == 0 ||
	    write_map("/proc/1/uid_map", "0 0 4294967295") == 0)
		return report_won("the map that was there");
	if (unshare(CLONE_NEWUSER) < 0)
		return report_lost("unshare");
	if (write_map("/proc/self/uid_map", map) == 0)
		return report_won("a new map");
	return report_lost("uid_map");
}

/* DIR: a mount that the host would see if mounts are shared with it. */
static int
probe_mount(int argc, char **argv)
{
	(void)argc;
	if (access(argv[0], R_OK) < 0)
		return report_lost(argv[0]);
	report_ready();
	if (mount("escaped", argv[0], "tmpfs", 0, "size=4k") < 0)
		return report_lost("mount");
	report_won("mount");
	return hold();
}

/* Wait, to be looked at from outside. */
static int
probe_hold(int argc, char **argv)
{
	(void)argc, (void)argv;
	report_ready();
	return hold();
}

const struct probe probes_namespaces[] = {
	{ "new",           "HOW KIND", probe_new,           2 },
	{ "setns",         "PID",      probe_setns,         1 },
	{ "chroot",        "DIR FILE", probe_chroot,        2 },
	{ "release-agent", "DIR",      probe_release_agent, 1 },
	{ "uid-map",       "",         probe_uid_map,       0 },
	{ "mount",         "DIR",      probe_mount,         1 },
	{ "hold",          "",         probe_hold,          0 },
	{ 0 }
};
