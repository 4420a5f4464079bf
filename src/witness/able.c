/* able.c - see able.h. */
#include "witness/able.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/own.h"

bool
witness_able_by_kernel(void)
{
#ifdef WITNESS_BPF
	/* A ring buffer is what the witness needs, and only who may load programs may make one. */
	union bpf_attr ring = { .map_type = BPF_MAP_TYPE_RINGBUF, .max_entries = 4096 };
	OWN(closep) int fd = access("/sys/kernel/btf/vmlinux", R_OK) < 0 ? -1 :
	                     (int)syscall(SYS_bpf, BPF_MAP_CREATE, &ring, sizeof(ring));

	return fd >= 0;
#else
	return false;
#endif
}

bool
witness_able_to_share(void)
{
	struct statfs fs;

	return statfs("/sys/fs/bpf", &fs) == 0 && fs.f_type == BPF_FS_MAGIC;
}

bool
witness_able_by_filter(void)
{
	const unsigned action = SECCOMP_RET_USER_NOTIF;

	/* Of Linux 5.9, as is all that the witness needs for it. */
	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0 &&
	       (syscall(SYS_close_range, ~0u, 0u, 0u) == 0 || errno != ENOSYS);
}
