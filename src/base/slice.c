/* slice.c - how long this thread may run at a time. */
#include "base/slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

void
slice_ask(uint64_t ns)
{
	/* The first version of the kernel's struct sched_attr, which later kernels still accept. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {0};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 || attr.policy != SCHED_OTHER)
		return;
	attr.runtime = ns;
	(void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
