/* confine_landlock.c - tests of confine/landlock, on this kernel. */
#include "confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/err.h"
#include "test.h"

#define ABI_FILES 3
#define ABI_SCOPES 6

/* 0 or the errno of a call that says -1. */
#define OUTCOME(call) ((call) == -1 ? errno : 0)

static void
need_abi(int abi)
{
	if (landlock_abi() < abi)
		test_skip("this kernel's Landlock is absent or too old");
}

static void
create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
}

static int
open_outcome(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

/* The test's folder becomes the working directory: rw/a/f, rw/b, ro/f, one, two. */
static void
make_tree(void)
{
	CHECK(chdir(test_dir()) == 0);
	CHECK(mkdir("rw", 0700) == 0 && mkdir("rw/a", 0700) == 0 && mkdir("rw/b", 0700) == 0);
	CHECK(mkdir("ro", 0700) == 0);
	create("rw/a/f");
	create("ro/f");
	create("one");
	create("two");
}

static void
enforce(enum landlock_kind kind, const char *const *writable)
{
	struct err err = { 0 };
	OWN(closep) int fd = -1;

	CHECK_OK(landlock_make(kind, writable, &fd, &err));
	CHECK(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK_OK(landlock_enforce(fd, &err));
}

TEST(landlock_files)
{
	static const char *const writable[] = { "missing", "rw", "one", "one/beneath", NULL };

	need_abi(ABI_FILES);
	make_tree();
	enforce(LANDLOCK_FILES_TOO, writable);

	/* Reading and running, everywhere. */
	CHECK(open_outcome("ro/f", O_RDONLY) == 0);
	CHECK(open_outcome("/", O_RDONLY | O_DIRECTORY) == 0);
	CHECK(system("exit 3") == 3 << 8);

	/* All changes, in what is writable. */
	CHECK(open_outcome("rw/new", O_WRONLY | O_CREAT | O_TRUNC) == 0);
	CHECK(OUTCOME(rename("rw/a/f", "rw/b/f")) == 0);
	CHECK(OUTCOME(link("rw/b/f", "rw/a/g")) == 0);
	CHECK(OUTCOME(rename("rw/b", "rw/a/b")) == 0);
	CHECK(OUTCOME(mkfifo("rw/fifo", 0600)) == 0);
	CHECK(OUTCOME(symlink("x", "rw/link")) == 0);
	CHECK(OUTCOME(truncate("rw/new", 9)) == 0);
	CHECK(OUTCOME(unlink("rw/new")) == 0);
	CHECK(open_outcome("one", O_WRONLY | O_TRUNC) == 0);

	/* And nowhere else. */
	CHECK(open_outcome("ro/f", O_WRONLY) == EACCES);
	CHECK(open_outcome("ro/new", O_WRONLY | O_CREAT) == EACCES);
	CHECK(open_outcome("two", O_RDWR) == EACCES);
	CHECK(OUTCOME(truncate("ro/f", 0)) == EACCES);
	CHECK(OUTCOME(unlink("one")) == EACCES);
	CHECK(OUTCOME(unlink("ro/f")) == EACCES);
	CHECK(OUTCOME(mkdir("ro/d", 0700)) == EACCES);
	CHECK(OUTCOME(symlink("x", "ro/link")) == EACCES);
	CHECK(OUTCOME(rename("rw/fifo", "ro/fifo")) != 0);
	CHECK(OUTCOME(link("ro/f", "rw/h")) != 0);
}

TEST(landlock_devices_and_proc)
{
	static const char *const writable[] = { "rw", NULL };
	int outcome;

	need_abi(ABI_FILES);
	make_tree();
	enforce(LANDLOCK_FILES_TOO, writable);
	CHECK(open_outcome("/dev/null", O_RDWR | O_TRUNC) == 0);
	CHECK(open_outcome("/proc/self/comm", O_WRONLY | O_TRUNC) == 0);
	outcome = OUTCOME(mkdir("/dev/cloister-unit", 0700));
	rmdir("/dev/cloister-unit");
	CHECK(outcome == EACCES);
	/* Its number is a whiteout's, which anybody may make. */
	CHECK(OUTCOME(mknod("rw/device", S_IFCHR | 0600, 0)) == EACCES);
}

/* ---- scopes -------------------------------------------------------------------------- */

/* The abstract address that the process PID listens on. */
static struct sockaddr_un
address_of(pid_t pid)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "cloister-unit-%d", (int)pid);
	return a;
}

static int
listen_abstract(void)
{
	struct sockaddr_un a = address_of(getpid());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof(a)) == 0);
	CHECK(listen(fd, 8) == 0);
	return fd;
}

static int
connect_outcome(void)
{
	struct sockaddr_un a = address_of(getppid());
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return OUTCOME(connect(fd, (const struct sockaddr *)&a, sizeof(a)));
}

/* In a child: its parent is outside of the domain, its own child is inside. */
static void
check_scopes(enum landlock_kind kind)
{
	static const char *const none[] = { NULL };
	int status;
	pid_t pid;

	CHECK(OUTCOME(kill(getppid(), 0)) == 0 && connect_outcome() == 0);
	enforce(kind, none);
	CHECK(OUTCOME(kill(getppid(), 0)) == EPERM);
	CHECK(connect_outcome() == EPERM);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	CHECK(OUTCOME(kill(pid, SIGKILL)) == 0 && waitpid(pid, &status, 0) == pid);
}

static void
run_check_scopes(enum landlock_kind kind)
{
	OWN(closep) int fd = -1;
	int status;
	pid_t pid;

	need_abi(ABI_SCOPES);
	fd = listen_abstract();
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		check_scopes(kind);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

TEST(landlock_scopes)
{
	run_check_scopes(LANDLOCK_FILES_TOO);
}

TEST(landlock_scopes_only)
{
	run_check_scopes(LANDLOCK_SCOPES_ONLY);
}

TEST(landlock_scopes_only_leaves_files)
{
	need_abi(ABI_SCOPES);
	make_tree();
	enforce(LANDLOCK_SCOPES_ONLY, NULL);
	CHECK(open_outcome("ro/new", O_WRONLY | O_CREAT) == 0);
}

TEST(landlock_none_to_enforce)
{
	struct err err = { 0 };

	CHECK_OK(landlock_enforce(-1, &err));
	need_abi(1);
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK_ERR(landlock_enforce(1000, &err), EBADF);
}

/* A filler makes anything in its folder but devices of the kernel, links between folders, and nothing elsewhere. */
static void
fill(void)
{
	OWN(closep) int dir = open("rw", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct err err = {0};

	CHECK(dir >= 0);
	CHECK_OK(landlock_make_filler(dir, &fd, &err));
	CHECK(fd >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK_OK(landlock_enforce(fd, &err));
	CHECK(open_outcome("rw/new", O_WRONLY | O_CREAT) == 0);
	CHECK(OUTCOME(link("rw/a/f", "rw/b/f")) == 0);
	CHECK(OUTCOME(symlink("/", "rw/link")) == 0);
	CHECK(OUTCOME(mknod("rw/whiteout", S_IFCHR, 0)) == 0);
	CHECK(OUTCOME(mknod("rw/pipe", S_IFIFO | 0600, 0)) == 0);
	CHECK(OUTCOME(mknod("rw/socket", S_IFSOCK | 0600, 0)) == EACCES);
	CHECK(open_outcome("one", O_RDONLY) == EACCES);
	CHECK(open_outcome("new", O_WRONLY | O_CREAT) == EACCES);
	CHECK(OUTCOME(link("rw/a/f", "f")) == EACCES);
	CHECK(OUTCOME(link("ro/f", "rw/g")) != 0);
	CHECK(OUTCOME(unlink("two")) == EACCES);
}

TEST(landlock_filler)
{
	need_abi(ABI_FILES);
	make_tree();
	fill();
}
