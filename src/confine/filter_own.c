/* filter_own.c - see filter_own.h.
 *
 * A call that is decided by its number alone is in the kernel's bitmap, and never runs the filter.  So
 * the search may be a plain one. */
#include "confine/filter_own.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "confine/filter.h"

#define NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
	CLONE_NEWNET)
#define LOAD(member) ((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member)))
#define RETURN(verdict) ((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict))
#define JUMP(how, k, jt, jf) ((struct sock_filter)BPF_JUMP(BPF_JMP | (how) | BPF_K, k, jt, jf))

static void
emit(struct filter_own *own, struct sock_filter insn)
{
	own->code[own->count++] = insn;
}

/* What init makes from the time on when it is ready, and its child until it executes its command; and what the C library
 * may make for them. */
static const char inits[] = " read write readv writev recvmsg sendmsg recvfrom sendto poll ppoll close close_range fcntl "
	"dup dup2 dup3 pipe pipe2 fork vfork clone clone3 wait4 waitid exit exit_group kill tkill tgkill rt_sigaction "
	"rt_sigprocmask rt_sigreturn signalfd signalfd4 timerfd_create timerfd_settime clock_gettime gettimeofday time open "
	"openat stat lstat fstat newfstatat statx access faccessat faccessat2 readlink readlinkat lseek pread64 ioctl setsid "
	"chdir execve execveat prctl seccomp sched_getattr sched_setattr prlimit64 setrlimit getrlimit brk mmap munmap "
	"mprotect mremap madvise futex getpid getppid gettid getuid geteuid getgid getegid getrandom uname restart_syscall "
	"rseq set_robust_list set_tid_address arch_prctl landlock_create_ruleset landlock_add_rule "
	"landlock_restrict_self ";

static bool
is_inits(enum call_arch arch, uint32_t nr)
{
	const char *name = call_name(arch, nr);
	char word[40];

	snprintf(word, sizeof(word), " %s ", name != NULL ? name : "");
	return name != NULL && strstr(inits, word) != NULL;
}

static uint32_t
verdict_of(const struct call_set *set, enum call_arch arch, enum filter_own_part part, uint32_t nr)
{
	uint32_t verdict = call_set_has(set->denied, nr) ? SECCOMP_RET_ERRNO | EPERM :
	                   call_set_has(set->absent, nr) ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW;

	return verdict == SECCOMP_RET_ALLOW || part == FILTER_OWN_ALL ||
	       is_inits(arch, nr) == (part == FILTER_OWN_REST) ? verdict : SECCOMP_RET_ALLOW;
}

/* clone(2) has its flags in its first argument on both architectures. */
static void
emit_clone(struct filter_own *own, enum call_arch arch)
{
	emit(own, JUMP(BPF_JEQ, (uint32_t)call_number(arch, "clone"), 0, 4));
	emit(own, LOAD(args[0]));
	emit(own, JUMP(BPF_JSET, NAMESPACES, 0, 1));
	emit(own, RETURN(SECCOMP_RET_ERRNO | EPERM));
	emit(own, LOAD(nr));
}

/* Half of the argument ARG is WORD, or else FAIL instructions are skipped. */
static void
emit_half(struct filter_own *own, unsigned arg, bool high, uint32_t word, unsigned char fail)
{
	const size_t at = offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t) + (high ? sizeof(word) : 0);

	emit(own, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)at));
	emit(own, JUMP(BPF_JEQ, word, 0, fail));
}

/* The words of PASS from FIRST on are the last arguments of the call. */
static void
emit_pass(struct filter_own *own, uint32_t nr, const uint64_t pass[FILTER_OWN_PASS], unsigned first)
{
	const unsigned left = 4 * (FILTER_OWN_PASS - first);
	unsigned at = 0;

	emit(own, JUMP(BPF_JEQ, nr, 0, (unsigned char)(left + 2)));
	for (unsigned i = first; i < FILTER_OWN_PASS; i++) {
		emit_half(own, 3 + i, false, (uint32_t)pass[i], (unsigned char)(left - at - 1));
		emit_half(own, 3 + i, true, (uint32_t)(pass[i] >> 32), (unsigned char)(left - at - 3));
		at += 4;
	}
	emit(own, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
	emit(own, RETURN(SECCOMP_RET_ERRNO | EPERM));
	emit(own, LOAD(nr));
}

/* Init's child asks to be traced, before it executes its command. */
static void
emit_ptrace(struct filter_own *own, const struct call_set *set, enum call_arch arch, enum filter_own_part part)
{
	uint32_t nr = (uint32_t)call_number(arch, "ptrace");
	uint32_t verdict = verdict_of(set, arch, FILTER_OWN_ALL, nr);

	emit(own, JUMP(BPF_JEQ, nr, 0, 4));
	emit(own, LOAD(args[0]));
	emit(own, JUMP(BPF_JEQ, PTRACE_TRACEME, 0, 1));
	emit(own, RETURN(part == FILTER_OWN_REST ? verdict : SECCOMP_RET_ALLOW));
	emit(own, RETURN(part == FILTER_OWN_REST ? SECCOMP_RET_ALLOW : verdict));
}

void
filter_own_make(const struct call_set *set, enum call_arch arch, enum filter_own_part part,
                const uint64_t pass[FILTER_OWN_PASS], struct filter_own *ret_own)
{
	static const uint32_t arches[] = { [CALL_X86_64] = AUDIT_ARCH_X86_64, [CALL_AARCH64] = AUDIT_ARCH_AARCH64 };
	struct filter_own *own = ret_own;

	own->count = 0;
	if (call_set_is_empty(set))
		return;
	emit(own, LOAD(arch));
	emit(own, JUMP(BPF_JEQ, arches[arch], 1, 0));
	emit(own, RETURN(SECCOMP_RET_KILL_PROCESS));
	emit(own, LOAD(nr));
	if (set->namespaces && part != FILTER_OWN_REST)
		emit_clone(own, arch);
	if (set->programs && part != FILTER_OWN_TOLD) {
		emit_pass(own, (uint32_t)call_number(arch, "execve"), pass, 0);
		emit_pass(own, (uint32_t)call_number(arch, "execveat"), pass, FILTER_OWN_PASS - 1);
	}
	if (part != FILTER_OWN_ALL)
		emit_ptrace(own, set, arch, part);
	/* Numbers above the table are the compiled filter's: it knows no such call. */
	emit(own, JUMP(BPF_JGE, CALL_NUMBERS_MAX, 0, 1));
	emit(own, RETURN(SECCOMP_RET_ALLOW));
	for (uint32_t nr = CALL_NUMBERS_MAX; nr-- > 0;) {
		uint32_t verdict = verdict_of(set, arch, part, nr);

		if (nr > 0 && verdict_of(set, arch, part, nr - 1) == verdict)
			continue;
		if (nr > 0)
			emit(own, JUMP(BPF_JGE, nr, 0, 1));
		emit(own, RETURN(verdict));
	}
}

uint32_t
filter_own_answer(const struct filter_own *own, const struct seccomp_data *data)
{
	return own->count == 0 ? SECCOMP_RET_ALLOW : filter_run(own->code, own->count, data);
}

size_t
filter_own_merge(const struct filter_own *own, const struct sock_filter *base, size_t n, struct sock_filter *to)
{
	for (size_t i = 0; i < own->count; i++) {
		const struct sock_filter *insn = &own->code[i];

		to[i] = *insn;
		if (insn->code != (BPF_RET | BPF_K))
			continue;
		if (insn->k == SECCOMP_RET_ALLOW)
			to[i] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, (uint32_t)(own->count - i - 1));
		else if ((insn->k & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO)
			to[i].k = SECCOMP_RET_USER_NOTIF;
	}
	memcpy(to + own->count, base, n * sizeof(*base));
	return own->count + n;
}

int
filter_own_load(const struct filter_own *own)
{
	/* The kernel only reads the code; its header lacks the const. */
	struct sock_fprog prog = { own->count, (struct sock_filter *)(uintptr_t)own->code };

	return own->count == 0 ? 0 : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
