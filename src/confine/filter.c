/* filter.c - loads a filter made at build time; see filter_gen.c. */
#include "confine/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "filter_bpf.h"

#if defined(__x86_64__)
#define NATIVE(name) filter_x86_64##name
#elif defined(__aarch64__)
#define NATIVE(name) filter_aarch64##name
#else
#error "no system-call table for this architecture: see filter_gen.c"
#endif

#ifdef CLOISTER_MUTANT
static const struct filter_code *
choose_code(enum filter_profile profile)
{
	const struct filter_mutant *m = NATIVE(_mutants);

	for (size_t i = 0; i < sizeof(NATIVE(_mutants)) / sizeof(*m); i++)
		if (m[i].profile == (int)profile && !CONTROL_ON(m[i].control))
			return &m[i].code;
	return &NATIVE()[profile];
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
choose_code(enum filter_profile profile)
{
	return &NATIVE()[profile];
}

static void
take_call_away(enum filter_profile profile)
{
	(void)profile;
}
#endif

int
filter_load(enum filter_profile profile, struct err *err)
{
	const struct filter_code *code = choose_code(profile);
	/* The kernel only reads the code; its header lacks the const. */
	struct sock_fprog prog = { code->count, (struct sock_filter *)(uintptr_t)code->at };

	if (!CONTROL_ON("seccomp"))
		return 0;
	take_call_away(profile);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0)
		return 0;
	if (errno == ENOSYS || errno == EINVAL)
		return err_set(err, errno, "this kernel has no seccomp filters: "
		               "it needs CONFIG_SECCOMP_FILTER");
	return err_errno(err, "cannot load the system-call filter");
}
