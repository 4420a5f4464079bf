/* filter_own.c - see filter_own.h.
 *
 * A call that is decided by its number alone is in the kernel's bitmap, and never runs the filter.  So
 * the search may be a plain one. */
#include "confine/filter_own.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

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

static uint32_t
verdict_of(const struct call_set *set, uint32_t nr)
{
	return call_set_has(set->denied, nr) ? SECCOMP_RET_ERRNO | EPERM :
	       call_set_has(set->absent, nr) ? SECCOMP_RET_ERRNO | ENOSYS : SECCOMP_RET_ALLOW;
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

void
filter_own_make(const struct call_set *set, enum call_arch arch, struct filter_own *ret_own)
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
	if (set->namespaces)
		emit_clone(own, arch);
	/* Numbers above the table are the compiled filter's: it knows no such call. */
	emit(own, JUMP(BPF_JGE, CALL_NUMBERS_MAX, 0, 1));
	emit(own, RETURN(SECCOMP_RET_ALLOW));
	for (uint32_t nr = CALL_NUMBERS_MAX; nr-- > 0;) {
		uint32_t verdict = verdict_of(set, nr);

		if (nr > 0 && verdict_of(set, nr - 1) == verdict)
			continue;
		if (nr > 0)
			emit(own, JUMP(BPF_JGE, nr, 0, 1));
		emit(own, RETURN(verdict));
	}
}

int
filter_own_load(const struct filter_own *own)
{
	/* The kernel only reads the code; its header lacks the const. */
	struct sock_fprog prog = { own->count, (struct sock_filter *)(uintptr_t)own->code };

	return own->count == 0 ? 0 : (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
