/* confine_filter_load.c - the filters as this kernel enforces them.  What they say
 * of every call is in confine_filter.c. */
#include "confine/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/err.h"
#include "test.h"

#define UPPER (1L << 32)

static void
load(enum filter_profile profile)
{
	struct err err = { 0 };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK_OK(filter_load(profile, &err));
}

/* How a child ends that loads PROFILE (FILTER_PROFILES: none) and does WHAT, which
 * returns its exit status: that status, or the signal that killed it, negative. */
static int
child(enum filter_profile profile, int (*what)(void))
{
	struct err err = { 0 };
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||       /* no core files */
		    (profile != FILTER_PROFILES && filter_load(profile, &err) < 0))
			_exit(120);
		_exit(what());
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

TEST(filter_load_default)
{
	static const struct {
		long nr, args[4];
		int want;
	} cases[] = {
		{ 9999, { 0 }, ENOSYS },
		{ -1, { 0 }, ENOSYS },
		{ 435 /* clone3 */, { 0 }, ENOSYS },
		{ 425 /* io_uring_setup */, { 0 }, ENOSYS },
		{ SYS_unshare, { CLONE_NEWUSER }, EPERM },
		{ SYS_setns, { -1, 0 }, EPERM },
		{ SYS_mount, { -1, -1, -1 }, EPERM },
		{ 430 /* fsopen */, { -1 }, EPERM },
		{ SYS_bpf, { -1 }, EPERM },
		{ SYS_perf_event_open, { -1 }, EPERM },
		{ SYS_userfaultfd, { -1 }, EPERM },
		{ SYS_keyctl, { -1 }, EPERM },
		{ SYS_open_by_handle_at, { -1 }, EPERM },
		{ SYS_personality, { READ_IMPLIES_EXEC }, EPERM },
		{ SYS_socket, { AF_PACKET, SOCK_RAW, 0 }, EAFNOSUPPORT },
		{ SYS_prctl, { 12345 }, EINVAL },
		{ SYS_prctl, { PR_SET_MM }, EPERM },
		/* The kernel's own answers: the filter let them through. */
		{ SYS_read, { -1 }, EBADF },
		{ SYS_ioctl, { -1, TCGETS }, EBADF },
		{ SYS_unshare, { CLONE_FS }, 0 },
		{ SYS_personality, { 0xffffffff }, 0 },
		{ SYS_prctl, { PR_SET_NAME, (long)"agent" }, 0 },
	};

	load(FILTER_DEFAULT);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const long *a = cases[i].args;
		long r = syscall(cases[i].nr, a[0], a[1], a[2], a[3]);

		if (cases[i].want != 0 ? r != -1 || errno != cases[i].want : r == -1)
			test_fail(__FILE__, __LINE__, "call %ld(%#lx, ...) is %ld, errno %d, not %d",
			          cases[i].nr, a[0], r, r == -1 ? errno : 0, cases[i].want);
	}
}

TEST(filter_load_nested)
{
	load(FILTER_NESTED);
	CHECK(syscall(SYS_mount, -1, -1, -1, 0, 0) == -1 && errno == EFAULT);
	CHECK(syscall(SYS_setns, -1, 0) == -1 && errno == EBADF);
	CHECK(syscall(SYS_bpf, -1, 0, 0) == -1 && errno == EPERM);
	CHECK(syscall(435, 0, 0) == -1 && errno == ENOSYS);
	CHECK(syscall(SYS_openat2, -1, 0, 0, 0) == -1 && errno == ENOSYS);
}

TEST(filter_load_nested_apart)
{
	load(FILTER_NESTED_APART);
	CHECK(syscall(SYS_mount, -1, -1, -1, 0, 0) == -1 && errno == EFAULT);
	CHECK(syscall(SYS_openat2, -1, 0, 0, 0) == -1 && errno == EINVAL);
	CHECK(syscall(SYS_fchmod, -1, 04755) == -1 && errno == EPERM);
}

/* ---- the upper half of an int argument ------------------------------------------------ */

static int
type_on_own_terminal(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave;
	char c = 'x';

	if (setsid() < 0 || master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return 121;
	slave = open(ptsname(master), O_RDWR);
	if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
		return 122;
	return syscall(SYS_ioctl, slave, TIOCSTI | UPPER, &c) == 0 ? 0 : errno;
}

TEST(filter_load_tiocsti)
{
	if (child(FILTER_PROFILES, type_on_own_terminal) != 0)
		test_skip("this kernel has no TIOCSTI");
	CHECK(child(FILTER_DEFAULT, type_on_own_terminal) == EPERM);
	CHECK(child(FILTER_NESTED, type_on_own_terminal) == EPERM);
}

static int
open_uevent_socket(void)
{
	return syscall(SYS_socket, AF_NETLINK | UPPER, SOCK_RAW, NETLINK_KOBJECT_UEVENT | UPPER) >= 0
	       ? 0 : errno;
}

TEST(filter_load_socket)
{
	CHECK(child(FILTER_PROFILES, open_uevent_socket) == 0);
	CHECK(child(FILTER_DEFAULT, open_uevent_socket) == EAFNOSUPPORT);
}

static int
make_listener(void)
{
	static struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &all };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
	               &prog) >= 0 ? 0 : errno;
}

static int
make_filter(void)
{
	static struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &all };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
	               &prog) == 0 ? 0 : errno;
}

TEST(filter_load_second_filter)
{
	CHECK(child(FILTER_PROFILES, make_listener) == 0);
	CHECK(child(FILTER_DEFAULT, make_listener) == EPERM);
	CHECK(child(FILTER_DEFAULT, make_filter) == 0);
}

/* ---- a foreign architecture -------------------------------------------------------------- */

#define FOREIGN_STATUS 42

#if defined(__aarch64__)
/* The smallest 32-bit ARM program: exit(42). */
static const unsigned char arm_program[] = {
	0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	2, 0, 40, 0, 1, 0, 0, 0,            /* an executable for ARM */
	0x54, 0, 1, 0, 52, 0, 0, 0, 0, 0, 0, 0,     /* starts at 0x10054 */
	0, 0, 0, 5, 52, 0, 32, 0, 1, 0, 0, 0, 0, 0, 0, 0,
	1, 0, 0, 0, 0, 0, 0, 0,             /* one segment: the whole file */
	0, 0, 1, 0, 0, 0, 1, 0,
	0x60, 0, 0, 0, 0x60, 0, 0, 0, 5, 0, 0, 0, 0, 0, 1, 0,
	FOREIGN_STATUS, 0x00, 0xa0, 0xe3,   /* mov r0, #42 */
	0x01, 0x70, 0xa0, 0xe3,             /* mov r7, #1 */
	0x00, 0x00, 0x00, 0xef,             /* svc #0 */
};

static int
run_foreign(void)
{
	int fd = memfd_create("foreign", MFD_CLOEXEC);
	char *none[] = { NULL };

	if (fd < 0 || write(fd, arm_program, sizeof(arm_program)) != sizeof(arm_program))
		return 121;
	syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
	return 122;
}
#elif defined(__x86_64__)
/* i386's exit(42), from a 64-bit program. */
static int
run_foreign(void)
{
	int r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(1), "b"(FOREIGN_STATUS) : "memory");
	return r == -ENOSYS ? 122 : 121;
}

static int
run_x32(void)
{
	return syscall(0x40000000 + SYS_getpid) > 0 ? FOREIGN_STATUS : 122;
}

TEST(filter_load_kills_x32)
{
	CHECK(child(FILTER_DEFAULT, run_x32) == -SIGSYS);
}
#endif

TEST(filter_load_kills_foreign)
{
	if (child(FILTER_PROFILES, run_foreign) != FOREIGN_STATUS)
		test_skip("this machine runs no 32-bit programs");
	CHECK(child(FILTER_DEFAULT, run_foreign) == -SIGSYS);
	CHECK(child(FILTER_NESTED, run_foreign) == -SIGSYS);
}

/* ---- the helpers ------------------------------------------------------------------------ */

static int
do_nothing(void)
{
	return 7;
}

static int
order(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Also qsort(), which in some glibc asks the kernel how much memory there is. */
static int
use_files(void)
{
	static int numbers[4096] = { 3, 2, 1 };
	int fd = openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	qsort(numbers, ARRAY_LEN(numbers), sizeof(numbers[0]), order);
	return fd >= 0 && p != MAP_FAILED && close(fd) == 0 ? 7 : 1;
}

static int
make_socket(void)
{
	return syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) >= 0;
}

#ifndef CLOISTER_SANITIZED
static int
make_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != NULL;
}
#endif

TEST(filter_load_helpers)
{
	static const enum filter_profile helpers[] = { FILTER_SUPERVISOR, FILTER_COLLECT };

	for (size_t i = 0; i < ARRAY_LEN(helpers); i++) {
		CHECK(child(helpers[i], do_nothing) == 7);
		CHECK(child(helpers[i], use_files) == 7);
		CHECK(child(helpers[i], make_socket) == -SIGSYS);
#ifndef CLOISTER_SANITIZED
		CHECK(child(helpers[i], make_code) == -SIGSYS);
#endif
	}
}

static int
run_in_supervisor(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(child(FILTER_COLLECT, use_files) == 7 ? 9 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
	       WEXITSTATUS(status) : 1;
}

TEST(filter_load_collector_in_supervisor)
{
	CHECK(child(FILTER_SUPERVISOR, run_in_supervisor) == 9);
}
