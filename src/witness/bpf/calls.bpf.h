/* calls.bpf.h - calls that were refused, that are dangerous, and that are counted. */
#ifndef CLOISTER_WITNESS_CALLS_BPF_H
#define CLOISTER_WITNESS_CALLS_BPF_H
#include "call.bpf.h"

/* ---- refused ---- */

/* Whether the filter, rather than the kernel behind it, may have refused CALL: it does not allow the
 * call with all arguments, and the error is one of those that it answers with. */
INLINE bool
is_filtered(const struct call *call)
{
	struct task_struct *task = call->task;
	struct seccomp_filter *filter = BPF_CORE_READ(task, seccomp.filter);
	unsigned long word = 0;
	u64 at;

	if (filter == NULL || call->ret == -EACCES || call->ret == -EROFS)
		return false;
	if (!bpf_core_field_exists(filter->cache))
		return call->ret == -ENOSYS;
	at = (u64)filter + bpf_core_field_offset(struct seccomp_filter, cache.allow_native);
	bpf_probe_read_kernel(&word, sizeof(word), (void *)(at + call->nr / 64 * 8));
	return (word >> call->nr % 64 & 1) == 0;
}

/* False: CALL failed, but nothing refused it. */
INLINE bool
call_refused(struct call *call, const struct at *at)
{
	bool filtered = is_filtered(call);
	struct slot *slot;

	if (!filtered && (call->ret == -ENOSYS || call->ret == -EAFNOSUPPORT))
		return false;
	slot = begin(call->task, at, SAMPLE_REFUSED);
	if (slot == NULL)
		return true;
	slot->sample.error = -call->ret;
	slot->sample.by = filtered ? SAMPLE_BY_FILTER : SAMPLE_BY_KERNEL;
	put_call(slot, call);
	put_name(slot, call, SAMPLE_NAME, call->how.path);
	end(slot, at);
	return true;
}

/* ---- dangerous ---- */

#define NAMESPACES 0x7e020080ull        /* CLONE_NEWNS and so on, of clone() and unshare() */

INLINE bool
is_other(struct call *call, const struct at *at)
{
	s32 whom = argument(call, call->how.dir);
	struct task_struct *task = call->task;

	/* Signal 0 only asks whether there is such a process. */
	if (argument(call, call->how.to) == 0)
		return false;
	if (call->how.way == SAMPLE_WAY_KILL)
		task = BPF_CORE_READ(task, group_leader);
	return whom != (s32)pid_in(task, at);
}

INLINE bool
is_danger(struct call *call, const struct at *at)
{
	u64 flags = 0;

	switch (call->how.way) {
	case SAMPLE_WAY_DANGER:
		return true;
	case SAMPLE_WAY_CLONE:
		return (argument(call, 1) & NAMESPACES) != 0;
	case SAMPLE_WAY_CLONE3:
		bpf_probe_read_user(&flags, sizeof(flags), (void *)argument(call, 1));
		return (flags & NAMESPACES) != 0;
	case SAMPLE_WAY_KILL:
	case SAMPLE_WAY_TKILL:
		return is_other(call, at);
	default:
		return false;
	}
}

INLINE void
call_dangerous(struct call *call, const struct at *at)
{
	struct slot *slot;

	if (!is_danger(call, at))
		return;
	slot = begin(call->task, at, SAMPLE_DANGER);
	if (slot == NULL)
		return;
	slot->sample.error = call->ret < 0 ? -call->ret : 0;
	put_call(slot, call);
	put_name(slot, call, SAMPLE_NAME, call->how.path);
	end(slot, at);
}
#endif
