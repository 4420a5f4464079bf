/* confine_lockdown.c - tests of what a helper process is left with. */
#include "confine/lockdown.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/io.h"
#include "confine/landlock.h"
#include "test.h"

#define SOMEBODY 54321

static uid_t outer;

static const char *const certificates[] = { "/etc/ssl/certs", "/nowhere", "/etc/hosts", NULL };

static const struct lockdown dialler = { .filter = FILTER_COURIER, .network = true,
                                         .readable = certificates };
static const struct lockdown reader = { .filter = FILTER_COURIER };
static const struct lockdown parser = { .filter = FILTER_GATE };

/* How a child ends that locks itself down and does WHAT: its status, or the signal
 * that killed it, negative.  It says why it could not. */
static int
locked(const struct lockdown *l, bool somebody, int (*what)(void))
{
	struct err err = {0};
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		if (somebody && geteuid() == 0 &&
		    (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 ||
		     setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0))
			_exit(120);
		/* What exec does, which a test that changed its ids did not. */
		prctl(PR_SET_DUMPABLE, 1);
		if (lockdown_enter(l, 5, &err) < 0) {
			(void)!write(2, err.text, strlen(err.text));
			_exit(121);
		}
		_exit(what());
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Without them (in some containers, in a chroot) Landlock and the filter are all there is. */
static void
need_namespaces(void)
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status != 0)
		test_skip("there are no user namespaces here");
}

static int
both(const struct lockdown *l, int (*what)(void))
{
	int r = locked(l, false, what);

	CHECK(locked(l, true, what) == r);
	return r;
}

static int
count_readable(void)
{
	return (access("/etc/ssl/certs", R_OK) == 0) | (open("/etc/hosts", O_RDONLY) >= 0) << 1 |
	       (open("/etc/passwd", O_RDONLY) >= 0) << 2 | (open("/usr", O_RDONLY) >= 0) << 3 |
	       (open("/", O_RDONLY) >= 0) << 4;
}

TEST(lockdown_shows_readable_paths)
{
	int certs = access("/etc/ssl/certs", F_OK) == 0;

	need_namespaces();
	CHECK(both(&dialler, count_readable) == (certs | 2));
	CHECK(both(&reader, count_readable) == 0);
}

static int
write_there(void)
{
	return open("/etc/hosts", O_WRONLY | O_APPEND) >= 0 || open("/x", O_WRONLY | O_CREAT, 0600) >= 0;
}

TEST(lockdown_writes_nowhere)
{
	CHECK(both(&dialler, write_there) == 0);
}

/* The descriptor 3 is of a folder that may be written; 4 of one that may not. */
static int
change_folders(void)
{
	int made = openat(3, "made", O_WRONLY | O_CREAT | O_EXCL, 0600);

	return (made >= 0 && write(made, "x", 1) == 1) | (mkdirat(3, "inner", 0700) == 0) << 1 |
	       (renameat(3, "made", 3, "inner/moved") == 0) << 2 | (unlinkat(3, "inner/moved", 0) == 0) << 3 |
	       (unlinkat(3, "inner", AT_REMOVEDIR) == 0) << 4 |
	       (openat(4, "made", O_WRONLY | O_CREAT, 0600) >= 0) << 5;
}

TEST(lockdown_writes_where_it_may)
{
	OWN(freep) char *good = str_format("%s/good", test_dir()), *other = str_format("%s/other", test_dir());
	const char *const writable[] = { good, NULL };
	const struct lockdown l = { .filter = FILTER_PULL, .network = true, .writable = writable };

	if (landlock_abi() < 2)
		test_skip("Landlock is too old here");
	CHECK(chmod(test_dir(), 0711) == 0 && mkdir(good, 0700) == 0 && mkdir(other, 0700) == 0);
	if (geteuid() == 0)
		CHECK(chown(good, SOMEBODY, SOMEBODY) == 0 && chown(other, SOMEBODY, SOMEBODY) == 0);
	CHECK(dup2(open(good, O_RDONLY | O_DIRECTORY), 3) == 3 && dup2(open(other, O_RDONLY | O_DIRECTORY), 4) == 4);
	CHECK(locked(&l, true, change_folders) == 31);
}

static int
count_interfaces(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	                          .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	return fd < 0 ? 99 : connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 ? 1 : 0;
}

TEST(lockdown_takes_the_network)
{
	need_namespaces();
	CHECK(both(&dialler, count_interfaces) == 1);
	CHECK(both(&reader, count_interfaces) == 0);
}

static int
count_descriptors(void)
{
	return (fcntl(4, F_GETFD) >= 0) | (fcntl(5, F_GETFD) >= 0) << 1 | (fcntl(77, F_GETFD) >= 0) << 2;
}

TEST(lockdown_closes_descriptors)
{
	CHECK(dup2(0, 4) == 4 && dup2(0, 5) == 5 && dup2(0, 77) == 77);
	CHECK(both(&parser, count_descriptors) == 1);
}

#ifndef CLOISTER_SANITIZED
static int
open_file(void)
{
	return open("/", O_RDONLY) >= 0;
}

static int
ask_status(void)
{
	return prctl(PR_GET_DUMPABLE);
}

TEST(lockdown_loads_the_filter)
{
	CHECK(both(&parser, open_file) == -SIGSYS);
	CHECK(both(&parser, ask_status) == -SIGSYS);
}
#endif

/* A machine that gives nobody namespaces, made of one that does: Landlock and the filter
 * hold by themselves. */
static int
forbid_namespaces(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {0};

	return unshare(CLONE_NEWUSER) == 0 &&
	       write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", NULL) == 0 &&
	       write_filef_at(AT_FDCWD, "/proc/self/uid_map", NULL, "%u %u 1", SOMEBODY, outer) == 0 &&
	       write_file_at(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0", NULL) == 0 &&
	       syscall(SYS_capset, &header, none) == 0;
}

TEST(lockdown_without_namespaces)
{
	struct err err = {0};
	int status;
	pid_t pid;

	if (landlock_abi() == 0)
		test_skip("this kernel has no Landlock");
	outer = geteuid();
	pid = fork();
	if (pid == 0) {
		if (!forbid_namespaces())
			_exit(77);
		if (unshare(CLONE_NEWUSER) == 0 || lockdown_enter(&dialler, 5, &err) < 0)
			_exit(121);
		_exit(count_readable());
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		test_skip("there are no user namespaces here");
	CHECK(WEXITSTATUS(status) == ((access("/etc/ssl/certs", F_OK) == 0) | 2));
}

/* As /proc tells of a child that waits. */
TEST(lockdown_leaves_no_rights)
{
	for (int somebody = 0; somebody < 2; somebody++) {
		OWN(freep) char *status = NULL;
		int ready[2];
		char path[40], c;
		pid_t pid;

		CHECK(pipe(ready) == 0);
		pid = fork();
		if (pid == 0) {
			if (somebody && geteuid() == 0 && setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0)
				_exit(1);
			prctl(PR_SET_DUMPABLE, 1);
			dup2(ready[1], 4);
			if (lockdown_enter(&parser, 5, NULL) < 0 || write(4, "", 1) != 1)
				_exit(1);
			for (;;)
				(void)!read(4, &c, 0);
		}
		close(ready[1]);
		CHECK(read(ready[0], &c, 1) == 1);
		snprintf(path, sizeof(path), "/proc/%d/status", pid);
		CHECK_OK(read_file_at(AT_FDCWD, path, 65536, &status, NULL, NULL));
		kill(pid, SIGKILL);
		CHECK(waitpid(pid, NULL, 0) == pid);
		CHECK(strstr(status, "CapPrm:\t0000000000000000") != NULL);
		CHECK(strstr(status, "CapEff:\t0000000000000000") != NULL);
		CHECK(strstr(status, "NoNewPrivs:\t1") != NULL);
		CHECK(strstr(status, "Seccomp:\t2") != NULL);
		close(ready[0]);
	}
}
