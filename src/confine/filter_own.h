/* filter_own.h - the filter of a policy's own `syscalls`, made while the cell runs.
 *
 * It is loaded on top of the compiled one (filter.h).  Of all filters the strictest verdict counts, so
 * it can only take calls away. */
#ifndef CLOISTER_FILTER_OWN_H
#define CLOISTER_FILTER_OWN_H
#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"

struct seccomp_data;

#define FILTER_OWN_MAX (2 * CALL_NUMBERS_MAX + 72)
#define FILTER_OWN_PASS 3

struct filter_own {
	struct sock_filter code[FILTER_OWN_MAX];
	unsigned short count;           /* 0: there is none */
};

/* If the compiled filter reports calls (filter_load_notifying), a verdict that is not told is not recorded.  So what
 * answers for that filter answers for this one, too: but for calls that init makes itself, in itself and in a process
 * that has yet to execute its command.  PTRACE_TRACEME is one of them. */
enum filter_own_part {
	FILTER_OWN_ALL,
	FILTER_OWN_TOLD,                /* the calls that init does not make: for filter_load_notifying() */
	FILTER_OWN_REST,                /* the others: for filter_own_load() */
};

/* The code for calls of ARCH.  With SET->programs, execve(2) needs the random words PASS behind its own three arguments,
 * and execveat(2) the last of them behind its five: the kernel ignores these registers, and clears them before the
 * program's first instruction.  So whoever makes the code can start a program, and nobody else. */
void filter_own_make(const struct call_set *set, enum call_arch arch, enum filter_own_part part,
                     const uint64_t pass[FILTER_OWN_PASS], struct filter_own *ret_own);
/* Its verdict: SECCOMP_RET_ALLOW, or SECCOMP_RET_ERRNO and an errno, or that the process is killed. */
uint32_t filter_own_answer(const struct filter_own *own, const struct seccomp_data *data);
/* Puts it in front of the N instructions at BASE: it reports what it refuses, and leaves the rest to them.  TO has room
 * for FILTER_OWN_MAX more.  Returns their number. */
size_t filter_own_merge(const struct filter_own *own, const struct sock_filter *base, size_t n, struct sock_filter *to);
/* Load it on the calling thread: nothing but one system call, so that a child of vfork(2) may.  0, or -1 and errno. */
int filter_own_load(const struct filter_own *own);
#endif
