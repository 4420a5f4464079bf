/* witness_calls.c - tests of witness/calls: calls as people read them. */
#include "witness/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/call.h"
#include "test.h"

TEST(witness_calls_names)
{
	char name[CALLS_NAME_MAX];

	CHECK_STR(calls_name(SYS_openat, name), "openat");
	CHECK_STR(calls_name(SYS_ptrace, name), "ptrace");
	CHECK_STR(calls_name(100000, name), "100000");
	CHECK_STR(calls_name(UINT32_MAX - 1, name), "4294967294");
	CHECK_STR(calls_name(ACT_NR_UNKNOWN, name), "unknown");
	CHECK_STR(call_name(CALL_X86_64, 59), "execve");
	CHECK_STR(call_name(CALL_AARCH64, 221), "execve");
	CHECK_STR(calls_error(EPERM, name), "EPERM");
	CHECK_STR(calls_error(4000, name), "4000");
	CHECK_STR(calls_signal(SIGKILL, name), "KILL");
	CHECK_STR(calls_signal(40, name), "40");
}

#define TEXT(s) { s, sizeof(s) - 1, false }

TEST(witness_calls_arguments)
{
	static const struct {
		uint32_t nr;
		uint64_t args[6];
		struct act_text text;
		const char *want;
	} cases[] = {
		{ SYS_openat, { (uint64_t)AT_FDCWD, 1, O_RDONLY }, TEXT("/etc/shadow"), "AT_FDCWD, \"/etc/shadow\", O_RDONLY" },
		{ SYS_openat, { 3, 1, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640 }, TEXT("x"),
		  "3, \"x\", O_RDWR|O_CREAT|O_TRUNC|O_CLOEXEC, 0640" },
		/* The kernel's own bit for large files says nothing; O_DIRECTORY makes no file. */
		{ SYS_openat, { 3, 1, O_DIRECTORY | 0100000, 0640 }, TEXT("x"), "3, \"x\", O_RDONLY|O_DIRECTORY" },
		{ SYS_openat, { 3, 1, O_RDONLY }, { 0 }, "3, ptr, O_RDONLY" },
		{ SYS_openat, { 3, 0, O_RDONLY }, { 0 }, "3, NULL, O_RDONLY" },
		{ SYS_openat, { 3, 1, O_RDONLY }, { "a\0b", 3, true }, "3, \"a b\"..., O_RDONLY" },
		{ SYS_clone, { CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD }, { 0 },
		  "CLONE_NEWNS|CLONE_NEWUSER|SIGCHLD, NULL, NULL, NULL, NULL" },
		{ SYS_unshare, { CLONE_NEWNET }, { 0 }, "CLONE_NEWNET" },
		{ SYS_unshare, { 0 }, { 0 }, "0" },
		{ SYS_unshare, { CLONE_NEWNET | 1ULL << 40 }, { 0 }, "CLONE_NEWNET|0x10000000000" },
		{ SYS_socket, { AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 9 }, { 0 }, "AF_NETLINK, SOCK_RAW|SOCK_CLOEXEC, 9" },
		{ SYS_socket, { 77, 9, 0 }, { 0 }, "77, 9, 0" },
		{ SYS_ptrace, { PTRACE_ATTACH, 7 }, { 0 }, "PTRACE_ATTACH, 7, 0, 0" },
		{ SYS_mount, { 1, 2, 3, MS_BIND | MS_REC, 0 }, TEXT("/proc"), "\"/proc\", ptr, ptr, MS_BIND|MS_REC, NULL" },
		{ SYS_prctl, { PR_SET_SECUREBITS, 1 }, { 0 }, "PR_SET_SECUREBITS, 0x1, 0, 0, 0" },
		{ SYS_kill, { (uint64_t)-1, SIGTERM }, { 0 }, "-1, SIGTERM" },
		{ SYS_kill, { 1, 0 }, { 0 }, "1, 0" },
		{ SYS_memfd_create, { 1, 1 }, TEXT("name"), "\"name\", MFD_CLOEXEC" },
		{ SYS_getpid, { 1, 2, 3 }, { 0 }, "" },
		{ 4000000000, { 1, 2, 3 }, { 0 }, "" },
	};
	char args[ACT_ARGS_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct act act = { .kind = ACT_REFUSED, .nr = cases[i].nr, .text = cases[i].text };

		memcpy(act.args, cases[i].args, sizeof(act.args));
		CHECK(calls_args(&act, args) == strlen(args));
		CHECK_STR(args, cases[i].want);
	}
}

TEST(witness_calls_long_text_is_cut)
{
	char text[ACT_PATH_MAX], args[ACT_ARGS_MAX];
	struct act act = { .kind = ACT_REFUSED, .nr = SYS_chroot, .text = { text, sizeof(text), true } };

	memset(text, 'x', sizeof(text));
	CHECK(calls_args(&act, args) == ACT_ARGS_MAX - 1);
	CHECK(args[ACT_ARGS_MAX - 1] == '\0');
}
