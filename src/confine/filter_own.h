/* filter_own.h - the filter of a policy's own `syscalls`, made while the cell runs.
 *
 * It is loaded on top of the compiled one (filter.h).  Of all filters the strictest verdict counts, so
 * it can only take calls away. */
#ifndef CLOISTER_FILTER_OWN_H
#define CLOISTER_FILTER_OWN_H
#include <linux/filter.h>

#include "base/call.h"

#define FILTER_OWN_MAX (2 * CALL_NUMBERS_MAX + 16)

struct filter_own {
	struct sock_filter code[FILTER_OWN_MAX];
	unsigned short count;           /* 0: there is none */
};

/* The code for calls of ARCH. */
void filter_own_make(const struct call_set *set, enum call_arch arch, struct filter_own *ret_own);
/* Load it on the calling thread: nothing but one system call, so that a child of vfork(2) may.  0, or -1 and errno. */
int filter_own_load(const struct filter_own *own);
#endif
