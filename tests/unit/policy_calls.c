/* policy_calls.c - tests of `syscalls`: reading, encoding, and the filter that is made of it. */
#include "policy/policy_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/own.h"
#include "confine/filter_own.h"
#include "policy_lab.h"
#include "test.h"

#define NEEDED "execve, exit, exit_group, rt_sigreturn, read, write, close, openat, mmap, mprotect, munmap, brk"

static struct policy *
load(const char *syscalls)
{
	char text[1024];
	struct policy *p = NULL;

	snprintf(text, sizeof(text), "version: 1\nsyscalls: %s\n", syscalls);
	CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &p, NULL, NULL));
	return p;
}

/* The kernel's view of the code: the verdict for one call. */
static uint32_t
run(const struct filter_own *own, enum call_arch arch, uint32_t nr, uint64_t arg)
{
	static const uint32_t arches[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 };
	struct seccomp_data data = { .nr = (int)nr, .arch = arches[arch], .args = { arg } };
	uint32_t a = 0;

	for (size_t pc = 0; pc < own->count; pc++) {
		const struct sock_filter *i = &own->code[pc];

		if (i->code == (BPF_RET | BPF_K))
			return i->k;
		if (i->code == (BPF_LD | BPF_W | BPF_ABS))
			memcpy(&a, (const char *)&data + i->k, sizeof(a));
		else if (i->code == (BPF_JMP | BPF_JEQ | BPF_K))
			pc += a == i->k ? i->jt : i->jf;
		else if (i->code == (BPF_JMP | BPF_JGE | BPF_K))
			pc += a >= i->k ? i->jt : i->jf;
		else if (i->code == (BPF_JMP | BPF_JSET | BPF_K))
			pc += (a & i->k) != 0 ? i->jt : i->jf;
		else
			test_fail(__FILE__, __LINE__, "instruction %#x", i->code);
	}
	test_fail(__FILE__, __LINE__, "the code does not end");
}

static const struct {
	const char *syscalls, *call;
	uint64_t arg;
	uint32_t want;
} verdicts[] = {
	{ "{deny: ptrace}", "ptrace", 0, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: ptrace}", "process_vm_readv", 0, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: ptrace}", "read", 0, SECCOMP_RET_ALLOW },
	{ "{deny: [network, fchmodat]}", "socket", 0, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: [network, fchmodat]}", "socketpair", 0, SECCOMP_RET_ALLOW },
	{ "{deny: [network, fchmodat]}", "fchmodat", 0, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: namespaces}", "clone", CLONE_VM | CLONE_NEWUSER, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: namespaces}", "clone", CLONE_VM, SECCOMP_RET_ALLOW },
	{ "{deny: namespaces}", "clone3", 0, SECCOMP_RET_ERRNO | ENOSYS },
	{ "{deny: namespaces}", "unshare", 0, SECCOMP_RET_ERRNO | EPERM },
	{ "{deny: links}", "clone", CLONE_NEWUSER, SECCOMP_RET_ALLOW },
	{ "{allow: [" NEEDED "]}", "read", 0, SECCOMP_RET_ALLOW },
	{ "{allow: [" NEEDED "]}", "socket", 0, SECCOMP_RET_ERRNO | ENOSYS },
	{ "{allow: [" NEEDED ", network]}", "socket", 0, SECCOMP_RET_ALLOW },
	{ "{allow: [" NEEDED ", network], deny: [connect]}", "connect", 0, SECCOMP_RET_ERRNO | EPERM },
};

TEST(policy_calls_verdicts)
{
	for (unsigned arch = 0; arch < CALL_ARCHES; arch++)
		for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
			OWN(policy_freep) struct policy *p = load(verdicts[i].syscalls);
			static struct filter_own own;
			struct call_set set;
			int nr = call_number(arch, verdicts[i].call);

			policy_call_set(p, arch, &set);
			filter_own_make(&set, arch, &own);
			CHECK(nr >= 0);
			if (run(&own, arch, (uint32_t)nr, verdicts[i].arg) != verdicts[i].want)
				CHECK_STR(verdicts[i].call, verdicts[i].syscalls);
			CHECK(run(&own, arch, CALL_NUMBERS_MAX, 0) == SECCOMP_RET_ALLOW);
			CHECK(run(&own, !arch, (uint32_t)nr, 0) == SECCOMP_RET_KILL_PROCESS);
		}
}

/* Every other call: the longest code there can be. */
TEST(policy_calls_longest)
{
	static struct filter_own own;
	struct call_set set = { .namespaces = true };

	for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr += 2)
		call_set_add(set.denied, nr);
	filter_own_make(&set, CALL_X86_64, &own);
	CHECK(own.count <= FILTER_OWN_MAX && own.count <= 4096);
	for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr++)
		CHECK(run(&own, CALL_X86_64, nr, 0) == (nr % 2 == 0 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW));
	filter_own_make(&(struct call_set){0}, CALL_X86_64, &own);
	CHECK_U64(own.count, 0);
}

static const struct {
	const char *syscalls, *error;
} wrong[] = {
	{ "{deny: [ptrac]}", "did you mean 'ptrace'" },
	{ "{deny: [netwrk]}", "did you mean 'network'" },
	{ "{deny: [zzzzzzzzzzzz]}", "no class of that name: these are ptrace, network" },
	{ "{deny: [exec]}", "a filter cannot count" },
	{ "{deny: [mmap]}", "no program starts without" },
	{ "{deny: []}", "1 to" },
	{ "{allow: [read, write]}", "add execve, exit, exit_group" },
	{ "{allows: [read]}", "did you mean 'allow'" },
	{ "[ptrace]", "`syscalls` is a map" },
};

TEST(policy_calls_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		char text[512];

		snprintf(text, sizeof(text), "version: 1\nsyscalls: %s\n", wrong[i].syscalls);
		if (strstr(lab_refuses_file(text), wrong[i].error) == NULL)
			CHECK_STR(lab_refuses_file(text), wrong[i].error);
	}
}

/* Each layer takes away, and none gives back. */
TEST(policy_calls_layers)
{
	OWN(policy_freep) struct policy *p = load("{deny: links}"), *again = NULL;
	struct policy *outer = load("{allow: [" NEEDED ", links, network]}");
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX), sent = BUF(1024);
	struct call_set set, other;

	CHECK_OK(policy_within(p, &outer, NULL));
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	CHECK_U64(buf_left(&b), 0);
	policy_call_set(again, CALL_X86_64, &set);
	CHECK(call_set_has(set.denied, (uint32_t)call_number(CALL_X86_64, "symlink")));
	CHECK(call_set_has(set.absent, (uint32_t)call_number(CALL_X86_64, "ptrace")));
	CHECK(!call_set_has(set.absent, (uint32_t)call_number(CALL_X86_64, "socket")));
	call_set_put(&sent, &set);
	CHECK_OK(call_set_get(&sent, &other));
	CHECK(memcmp(set.denied, other.denied, sizeof(set.denied)) == 0);
	CHECK_ERR(call_set_get(&sent, &other), EBADMSG);
}
