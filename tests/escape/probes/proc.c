/* proc.c - what /proc, /sys and the other processes give away. */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/magic.h>
#include <stdbool.h>
#include <sys/vfs.h>

#include "probe.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Whether FD is the kernel's own file, and not a mask over it such as /dev/null. */
static bool
is_kernels(int fd)
{
	static const unsigned long kinds[] = { PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC };
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((unsigned long)fs.f_type == kinds[i])
			return true;
	return false;
}

/* Opened, never written: most of these stop or take over the machine. */
static int
probe_open_write(int argc, char **argv)
{
	report_ready();
	for (int i = 0; i < argc; i++) {
		int fd = open(argv[i], O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

		if (fd < 0)
			report_lost(argv[i]);
		else if (!is_kernels(fd))
			printf("masked %s\n", argv[i]);
		else
			report_won("%s", argv[i]);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

static int
probe_kmsg(int argc, char **argv)
{
	static char log[1 << 20];
	int n, fd;

	(void)argc, (void)argv;
	report_ready();
	n = klogctl(3, log, sizeof(log));
	if (n < 0)
		report_lost("syslog");
	else
		fwrite(log, 1, (size_t)n, stdout);
	fflush(stdout);
	fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return report_lost("/dev/kmsg");
	/* One record for each read. */
	while ((n = (int)read(fd, log, 8192)) > 0 || errno == EPIPE)
		if (n > 0 && write(1, log, (size_t)n) < 0)
			break;
	return 0;
}

static void
list(const char *dir, int depth)
{
	struct dirent *e;
	char path[4096];
	DIR *d = opendir(dir);

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		puts(path);
		if (depth > 1 && e->d_type == DT_DIR)
			list(path, depth - 1);
	}
	closedir(d);
}

/* DEPTH DIR...: the names beneath. */
static int
probe_list(int argc, char **argv)
{
	report_ready();
	for (int i = 1; i < argc; i++)
		list(argv[i], atoi(argv[0]));
	fflush(stdout);
	return 0;
}

static void
spill_descriptors(const char *pid)
{
	char path[512];

	for (int fd = 3; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/%s/fd/%d", pid, fd);
		if (access(path, R_OK) == 0)
			spill_path(path);
	}
}

/* FILE: everything that each process shows of itself, and FILE by its root. */
static int
probe_processes(int argc, char **argv)
{
	static const char *const parts[] = { "environ", "cmdline", "comm", "cwd/canary" };
	struct dirent *e;
	char path[4608];
	DIR *d = opendir("/proc");

	(void)argc;
	if (d == NULL)
		return report_lost("/proc");
	report_ready();
	while ((e = readdir(d)) != NULL) {
		if (!isdigit((unsigned char)e->d_name[0]) || atoi(e->d_name) == getpid())
			continue;
		for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
			snprintf(path, sizeof(path), "/proc/%s/%s", e->d_name, parts[i]);
			spill_path(path);
		}
		snprintf(path, sizeof(path), "/proc/%s/root%s", e->d_name, argv[0]);
		spill_path(path);
		spill_descriptors(e->d_name);
	}
	closedir(d);
	return 0;
}

static void
peek(pid_t pid, unsigned long at, char *ret, size_t len)
{
	int status;

	if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0) {
		report_lost("ptrace");
		return;
	}
	waitpid(pid, &status, __WALL);
	for (size_t i = 0; i + sizeof(long) <= len; i += sizeof(long)) {
		long word = ptrace(PTRACE_PEEKDATA, pid, (void *)(at + i), NULL);

		memcpy(ret + i, &word, sizeof(word));
	}
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	printf("ptrace: %.*s\n", (int)len, ret);
}

/* PID ADDRESS: 64 bytes of another process's memory, in three ways. */
static int
probe_memory_of(int argc, char **argv)
{
	pid_t pid = atoi(argv[0]);
	unsigned long at = strtoul(argv[1], NULL, 0);
	char buf[64] = "", path[64];
	struct iovec here = { buf, sizeof(buf) }, there = { (void *)at, sizeof(buf) };
	int fd;

	(void)argc;
	report_ready();
	if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0)
		printf("vm: %.64s\n", buf);
	else
		report_lost("process_vm_readv");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && pread(fd, buf, sizeof(buf), (off_t)at) > 0)
		printf("mem: %.64s\n", buf);
	peek(pid, at, buf, sizeof(buf));
	fflush(stdout);
	return 0;
}

static int
init_open(pid_t pid, const char *part, int flags)
{
	char path[64];
	char byte;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, part);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return -1;
	return (flags & O_ACCMODE) == O_RDONLY && read(fd, &byte, 1) <= 0 ? -1 : 0;
}

static int
init_exe(pid_t pid, int (*change)(const char *path))
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	return change(path);
}

static int exe_chmod(const char *path) { return chmod(path, 0777); }
static int exe_xattr(const char *path) { return setxattr(path, "user.canary", "x", 1, 0); }

/* A busy program says ETXTBSY, but only once the mount was seen to be writable. */
static int
exe_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	return fd >= 0 || errno == ETXTBSY ? 0 : -1;
}

static int
init_getfd(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);

	return pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, 0, 0);
}

static int
init_vm(pid_t pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, there = { NULL, 1 };

	/* EFAULT: allowed, nothing is mapped at 0. */
	return process_vm_readv(pid, &here, 1, &there, 1, 0) > 0 || errno == EFAULT ? 0 : -1;
}

static int
init_try(const char *op, pid_t pid)
{
	if (strcmp(op, "maps") == 0)
		return init_open(pid, "maps", O_RDONLY);
	if (strcmp(op, "mem") == 0)
		return init_open(pid, "mem", O_RDWR);
	if (strcmp(op, "ptrace") == 0)
		return (int)ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	if (strcmp(op, "vm") == 0)
		return init_vm(pid);
	if (strcmp(op, "getfd") == 0)
		return init_getfd(pid);
	if (strcmp(op, "kcmp") == 0)
		return syscall(SYS_kcmp, getpid(), pid, KCMP_VM, 0, 0) < 0 ? -1 : 0;
	if (strcmp(op, "exe-chmod") == 0)
		return init_exe(pid, exe_chmod);
	if (strcmp(op, "exe-xattr") == 0)
		return init_exe(pid, exe_xattr);
	if (strcmp(op, "exe-write") == 0)
		return init_exe(pid, exe_write);
	errno = EINVAL;
	return -1;
}

/* OP PID: one hold on the process that runs the box, its pid 1. */
static int
probe_init(int argc, char **argv)
{
	pid_t pid = atoi(argv[1]);

	(void)argc;
	if (pid == getpid()) {
		fprintf(stderr, "@none the probe itself is pid %d here\n", (int)pid);
		return 0;
	}
	report_ready();
	return init_try(argv[0], pid) < 0 ? report_lost(argv[0]) : report_won("%s", argv[0]);
}

/* PID: kill it, by every signal. */
static int
probe_kill(int argc, char **argv)
{
	pid_t pid = atoi(argv[0]);

	(void)argc;
	if (pid == getpid()) {
		fprintf(stderr, "@none the probe itself is pid %d here\n", (int)pid);
		return 0;
	}
	report_ready();
	for (int sig = 1; sig <= 64; sig++)
		kill(pid, sig);
	return hold();
}

const struct probe probes_proc[] = {
	{ "open-write", "PATH...",     probe_open_write, 1 },
	{ "kmsg",       "",            probe_kmsg,       0 },
	{ "list",       "DEPTH DIR...", probe_list,      2 },
	{ "processes",  "FILE",        probe_processes,  1 },
	{ "memory-of",  "PID ADDRESS", probe_memory_of,  2 },
	{ "init",       "OP PID",      probe_init,       2 },
	{ "kill",       "PID",         probe_kill,       1 },
	{ 0 }
};
