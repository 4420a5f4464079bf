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
run_with(const struct filter_own *own, enum call_arch arch, uint32_t nr, const uint64_t args[6])
{
	static const uint32_t arches[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 };
	struct seccomp_data data = { .nr = (int)nr, .arch = arches[arch],
	                             .args = { args[0], args[1], args[2], args[3], args[4], args[5] } };
	uint32_t a = 0;

	for (size_t pc = 0; pc < own->count; pc++) {
		const struct sock_filter *i = &own->code[pc];

		if (i->code == (BPF_RET | BPF_K))
			return i->k;
		if (i->code == (BPF_LD | BPF_W | BPF_ABS))
			memcpy(&a, (const char *)&data + i->k, sizeof(a));
		else if (i->code == (BPF_JMP | BPF_JEQ | BPF_K))
			pc += a == i->k ? i->jt : i->jf;
		else if (i->code == (BPF_JMP | BPF_JA))
			pc += i->k;
		else if (i->code == (BPF_JMP | BPF_JGE | BPF_K))
			pc += a >= i->k ? i->jt : i->jf;
		else if (i->code == (BPF_JMP | BPF_JSET | BPF_K))
			pc += (a & i->k) != 0 ? i->jt : i->jf;
		else
			test_fail(__FILE__, __LINE__, "instruction %#x", i->code);
	}
	test_fail(__FILE__, __LINE__, "the code does not end");
}

static uint32_t
run(const struct filter_own *own, enum call_arch arch, uint32_t nr, uint64_t arg)
{
	return run_with(own, arch, nr, (const uint64_t[6]){ arg });
}

static const uint64_t pass[FILTER_OWN_PASS] = { 0x1111111122222222, 0x3333333344444444, 0x5555555566666666 };

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
			filter_own_make(&set, arch, FILTER_OWN_ALL, pass, &own);
			CHECK(nr >= 0);
			if (run(&own, arch, (uint32_t)nr, verdicts[i].arg) != verdicts[i].want)
				CHECK_STR(verdicts[i].call, verdicts[i].syscalls);
			CHECK(run(&own, arch, CALL_NUMBERS_MAX, 0) == SECCOMP_RET_ALLOW);
			CHECK(run(&own, !arch, (uint32_t)nr, 0) == SECCOMP_RET_KILL_PROCESS);
		}
}

/* Programs start with the whole pass alone, whatever half of a word is wrong. */
TEST(policy_calls_exec)
{
	static const struct { const char *call; unsigned first; } calls[] = { { "execve", 0 }, { "execveat", FILTER_OWN_PASS - 1 } };
	static struct filter_own own;
	struct call_set set;

	for (unsigned arch = 0; arch < CALL_ARCHES; arch++)
		for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
			OWN(policy_freep) struct policy *p = load("{deny: [exec, links]}");
			uint32_t nr = (uint32_t)call_number(arch, calls[i].call);
			uint64_t args[6] = { 1, 2, 3, pass[0], pass[1], pass[2] };

			policy_call_set(p, arch, &set);
			CHECK(set.programs && !call_set_has(set.denied, nr));
			filter_own_make(&set, arch, FILTER_OWN_ALL, pass, &own);
			CHECK(run_with(&own, arch, nr, args) == SECCOMP_RET_ALLOW);
			for (unsigned bit = 0; bit < 64; bit++)
				for (unsigned k = calls[i].first; k < FILTER_OWN_PASS; k++) {
					args[3 + k] ^= UINT64_C(1) << bit;
					CHECK(run_with(&own, arch, nr, args) == (SECCOMP_RET_ERRNO | EPERM));
					args[3 + k] ^= UINT64_C(1) << bit;
				}
			CHECK(run(&own, arch, nr, 0) == (SECCOMP_RET_ERRNO | EPERM));
			CHECK(run(&own, arch, (uint32_t)call_number(arch, "symlinkat"), 0) == (SECCOMP_RET_ERRNO | EPERM));
			CHECK(run(&own, arch, (uint32_t)call_number(arch, "read"), 0) == SECCOMP_RET_ALLOW);
		}
}

/* The two parts refuse together what the whole does, and what is merged reports the one and leaves all else alone. */
TEST(policy_calls_parts)
{
	static struct filter_own own, told, rest;
	static const struct sock_filter base[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 7) };
	static struct filter_own merged;

	for (unsigned arch = 0; arch < CALL_ARCHES; arch++)
		for (size_t i = 0; i < ARRAY_LEN(verdicts); i++) {
			OWN(policy_freep) struct policy *p = load(verdicts[i].syscalls);
			struct call_set set;

			policy_call_set(p, arch, &set);
			filter_own_make(&set, arch, FILTER_OWN_ALL, pass, &own);
			filter_own_make(&set, arch, FILTER_OWN_TOLD, pass, &told);
			filter_own_make(&set, arch, FILTER_OWN_REST, pass, &rest);
			merged.count = (unsigned short)filter_own_merge(&told, base, 1, merged.code);
			for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr++)
				for (uint64_t arg = 0; arg <= CLONE_NEWUSER; arg += CLONE_NEWUSER / 2) {
					uint32_t a = run(&told, arch, nr, arg), b = run(&rest, arch, nr, arg);

					CHECK(a == SECCOMP_RET_ALLOW || b == SECCOMP_RET_ALLOW);
					CHECK_U64(a == SECCOMP_RET_ALLOW ? b : a, run(&own, arch, nr, arg));
					CHECK_U64(run(&merged, arch, nr, arg), a == SECCOMP_RET_ALLOW ? SECCOMP_RET_TRACE | 7u :
					          SECCOMP_RET_USER_NOTIF);
				}
		}
}

/* Every other call: the longest code there can be. */
TEST(policy_calls_longest)
{
	static struct filter_own own;
	struct call_set set = { .namespaces = true, .programs = true };

	const uint64_t args[6] = { 0, 0, 0, pass[0], pass[1], pass[2] };

	for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr += 2)
		call_set_add(set.denied, nr);
	filter_own_make(&set, CALL_X86_64, FILTER_OWN_ALL, pass, &own);
	CHECK(own.count <= FILTER_OWN_MAX && own.count <= 4096);
	for (uint32_t nr = 0; nr < CALL_NUMBERS_MAX; nr++)
		CHECK(run_with(&own, CALL_X86_64, nr, args) == (nr % 2 == 0 ? SECCOMP_RET_ERRNO | EPERM : SECCOMP_RET_ALLOW));
	filter_own_make(&(struct call_set){0}, CALL_X86_64, FILTER_OWN_ALL, NULL, &own);
	CHECK_U64(own.count, 0);
}

static const struct {
	const char *syscalls, *error;
} wrong[] = {
	{ "{deny: [ptrac]}", "did you mean 'ptrace'" },
	{ "{deny: [netwrk]}", "did you mean 'network'" },
	{ "{deny: [zzzzzzzzzzzz]}", "no class of that name: these are ptrace, network" },
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
	set.programs = true;
	call_set_put(&sent, &set);
	CHECK_OK(call_set_get(&sent, &other));
	CHECK(memcmp(set.denied, other.denied, sizeof(set.denied)) == 0 && other.programs && !other.namespaces);
	CHECK_ERR(call_set_get(&sent, &other), EBADMSG);
}

/* ---- programs ---- */

static struct policy *
load_programs(const char *programs)
{
	char text[256];
	struct policy *p = NULL;

	snprintf(text, sizeof(text), "version: 1\nprograms: %s\n", programs);
	CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &p, NULL, NULL));
	return p;
}

/* Each layer that lists programs is a list of its own, and an empty one denies `exec`. */
TEST(policy_programs_layers)
{
	OWN(policy_freep) struct policy *p = load_programs("[git, ~/bin/x]"), *again = NULL, *none = load_programs("[]");
	struct policy *outer = load_programs("[/usr/bin/git]"), *other = load("{deny: links}");
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX), sent = BUF(1024);
	OWN(strv_freep) char **first = NULL, **second = NULL;
	struct call_set set;
	uint32_t n;

	CHECK(policy_lists_programs(p) && policy_narrows_exec(p) && policy_narrows_calls(p));
	CHECK_OK(policy_within(p, &other, NULL));
	CHECK_OK(policy_within(p, &outer, NULL));
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &again, NULL));
	CHECK_U64(buf_left(&b), 0);
	policy_put_programs(&sent, again);
	CHECK_OK(buf_get_u32(&sent, &n));
	CHECK_U64(n, 2);
	CHECK_OK(buf_dup_strv(&sent, POLICY_PROGRAMS_MAX, &first));
	CHECK_OK(buf_dup_strv(&sent, POLICY_PROGRAMS_MAX, &second));
	CHECK(buf_left(&sent) == 0 && strv_len(first) == 2 && strv_len(second) == 1);
	CHECK_STR(first[0], "git");
	CHECK_STR(first[1], "~/bin/x");
	CHECK_STR(second[0], "/usr/bin/git");
	policy_call_set(again, CALL_X86_64, &set);
	CHECK(!set.programs && call_set_has(set.denied, 88));
	CHECK(policy_narrows_exec(none) && !policy_lists_programs(none));
	policy_call_set(none, CALL_X86_64, &set);
	CHECK(set.programs);
}

static const struct {
	const char *programs, *error;
} wrong_programs[] = {
	{ "git", "`programs` is a list" },       { "[bin/git]", "a program is a name" },
	{ "[/usr/bin/]", "a program is a name" }, { "['/usr/bin/*']", "a program is a name" },
	{ "['']", "a program is a name" },       { "[..]", "a program is a name" },
	{ "[~/]", "a program is a name" },       { "[{a: b}]", "a program is a name" },
};

TEST(policy_programs_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(wrong_programs); i++) {
		char text[512];

		snprintf(text, sizeof(text), "version: 1\nprograms: %s\n", wrong_programs[i].programs);
		if (strstr(lab_refuses_file(text), wrong_programs[i].error) == NULL)
			CHECK_STR(lab_refuses_file(text), wrong_programs[i].error);
	}
}
