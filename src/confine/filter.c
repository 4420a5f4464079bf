/* filter.c - loads a filter made at build time; see filter_gen.c. */
#include "confine/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "confine/filter_own.h"
#include "filter_bpf.h"

#if defined(__x86_64__)
#define NATIVE(name) filter_x86_64##name
#elif defined(__aarch64__)
#define NATIVE(name) filter_aarch64##name
#else
#error "no system-call table for this architecture: see filter_gen.c"
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#ifdef CLOISTER_MUTANT
static const struct filter_code *
choose_code(enum filter_profile profile, bool notifies)
{
	const struct filter_mutant *m = NATIVE(_mutants);

	notifies = notifies && profile <= FILTER_LAST_AGENT;
	for (size_t i = 0; i < sizeof(NATIVE(_mutants)) / sizeof(*m); i++)
		if (m[i].profile == (int)profile && !CONTROL_ON(m[i].control))
			return notifies ? &m[i].notifying : &m[i].code;
	return notifies ? &NATIVE(_notifying)[profile] : &NATIVE()[profile];
}

/* CLOISTER_OFF=monitor-call-NUMBER: that call is absent for the monitor. */
#define MONITOR_CALL "monitor-call-"
static void
take_call_away(enum filter_profile profile)
{
	const char *off = getenv("CLOISTER_OFF");
	const char *at = off == NULL || profile != FILTER_MONITOR ? NULL : strstr(off, MONITOR_CALL);
	unsigned long number = at == NULL ? 0 : strtoul(at + strlen(MONITOR_CALL), NULL, 10);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	if (at != NULL && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		abort();
}
#else
static const struct filter_code *
choose_code(enum filter_profile profile, bool notifies)
{
	return notifies && profile <= FILTER_LAST_AGENT ? &NATIVE(_notifying)[profile] : &NATIVE()[profile];
}

static void
take_call_away(enum filter_profile profile)
{
	(void)profile;
}
#endif

static int
explain(struct err *err)
{
	if (errno == ENOSYS || errno == EINVAL)
		return err_set(err, errno, "this kernel has no seccomp filters: "
		               "it needs CONFIG_SECCOMP_FILTER");
	return err_errno(err, "cannot load the system-call filter");
}

/* The kernel only reads the code; its header lacks the const. */
static struct sock_fprog
program_of(const struct filter_code *code)
{
	return (struct sock_fprog){ code->count, (struct sock_filter *)(uintptr_t)code->at };
}

int
filter_load(enum filter_profile profile, struct err *err)
{
	struct sock_fprog prog = program_of(choose_code(profile, false));

	if (!CONTROL_ON("seccomp"))
		return 0;
	take_call_away(profile);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0 ? 0 : explain(err);
}

int
filter_load_notifying(enum filter_profile profile, const struct filter_own *own, int *ret_listener, struct err *err)
{
	static struct sock_filter merged[BPF_MAXINSNS];
	struct sock_fprog prog = program_of(choose_code(profile, true));
	long fd;

	if (own != NULL && own->count > 0) {
		assert(own->count + prog.len <= BPF_MAXINSNS);
		prog.len = (unsigned short)filter_own_merge(own, prog.filter, prog.len, merged);
		prog.filter = merged;
	}
	/* From Linux 5.19 on, a signal does not interrupt a call that waits for its answer. */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
	             SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog);
	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (fd < 0)
		return explain(err);
	*ret_listener = (int)fd;
	return 0;
}

/* Classic BPF, as far as filter_gen.c and filter_own.c use it.  All its jumps go forward: this ends. */
uint32_t
filter_run(const struct sock_filter *code, size_t count, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < count; pc++) {
		const struct sock_filter *i = &code[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert(i->k <= sizeof(*data) - sizeof(a));
			memcpy(&a, (const char *)data + i->k, sizeof(a));
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += (a & i->k) != 0 ? i->jt : i->jf;
			break;
		default:
			assert(i->code == (BPF_RET | BPF_K));
			return i->k;
		}
	}
	assert(false);
}

uint32_t
filter_answer(enum filter_profile profile, const struct seccomp_data *data)
{
	const struct filter_code *code = choose_code(profile, false);

	return filter_run(code->at, code->count, data);
}
