/* process.bpf.h - programs that start, and processes that end. */
#ifndef CLOISTER_WITNESS_PROCESS_BPF_H
#define CLOISTER_WITNESS_PROCESS_BPF_H
#include "call.bpf.h"
#include "count.bpf.h"

/* Whether the process may write its own program. */
INLINE bool
may_write(struct task_struct *task, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u32 mode = BPF_CORE_READ(inode, i_mode);

	if ((BPF_CORE_READ(file, f_path.mnt, mnt_flags) & MNT_READONLY) != 0 ||
	    (BPF_CORE_READ(file, f_path.mnt, mnt_sb, s_flags) & SB_RDONLY) != 0)
		return false;
	return BPF_CORE_READ(inode, i_uid.val) == BPF_CORE_READ(task, cred, fsuid.val) ||
	       ((mode & 020) != 0 && BPF_CORE_READ(inode, i_gid.val) == BPF_CORE_READ(task, cred, fsgid.val)) ||
	       (mode & 02) != 0;
}

INLINE s64
modified(struct inode *inode)
{
	struct inode___before_6_11 *older = (void *)inode;
	struct inode___before_6_7 *oldest = (void *)inode;
	struct timespec64 at = {0};

	if (bpf_core_field_exists(inode->i_mtime_sec))
		return BPF_CORE_READ(inode, i_mtime_sec) * SECOND + BPF_CORE_READ(inode, i_mtime_nsec);
	if (bpf_core_field_exists(older->__i_mtime))
		BPF_CORE_READ_INTO(&at, older, __i_mtime);
	else
		BPF_CORE_READ_INTO(&at, oldest, i_mtime);
	return at.tv_sec * SECOND + at.tv_nsec;
}

SEC("tp_btf/sched_process_exec")
int
executed(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct linux_binprm *bprm = (void *)ctx[2];
	struct file *file = bprm->file;
	struct inode *inode;
	struct slot *slot;
	struct at at;
	u64 from;

	if (!find_cell(task, &at))
		return 0;
	slot = begin(task, &at, SAMPLE_EXEC);
	if (slot == NULL)
		return 0;
	slot->sample.nr = bprm->argc;
	if (may_write(task, file))
		slot->sample.flags |= SAMPLE_WRITABLE;
	inode = BPF_CORE_READ(file, f_inode);
	if (BPF_CORE_READ(inode, i_nlink) == 0)
		slot->sample.flags |= SAMPLE_UNLINKED;
	slot->sample.exec.size = BPF_CORE_READ(inode, i_size);
	slot->sample.exec.modified = modified(inode);
	put_file(slot, SAMPLE_PATH, file);
	put_cwd(slot, task);
	if (bprm->filename != bprm->interp)
		put_string(slot, SAMPLE_SCRIPT, bprm->filename, false);
	from = BPF_CORE_READ(task, mm, arg_start);
	put_bytes(slot, SAMPLE_ARGV, (void *)from, BPF_CORE_READ(task, mm, arg_end) - from, true);
	end(slot, &at);
	return 0;
}

INLINE void
exec_failed(struct call *call, const struct at *at)
{
	struct slot *slot;

	if (call->ret >= 0)
		return;
	slot = begin(call->task, at, SAMPLE_EXEC);
	if (slot == NULL)
		return;
	slot->sample.error = -call->ret;
	put_named(slot, call, SAMPLE_NAME, call->how.path, SAMPLE_DIR, call->how.dir);
	end(slot, at);
}

INLINE void
put_end(struct slot *slot, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct signal_struct *signal = task->signal;
	u32 code = signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code : leader->exit_code;
	u64 cpu = signal->sum_sched_runtime + task->se.sum_exec_runtime;

	if (leader != task)
		cpu += leader->se.sum_exec_runtime;
	if ((code & 127) != 0) {
		slot->sample.flags |= SAMPLE_SIGNALLED;
		slot->sample.exit.status = code & 127;
	} else {
		slot->sample.exit.status = code >> 8 & 255;
	}
	slot->sample.exit.start = leader->start_time;
	slot->sample.exit.ran = slot->sample.time - leader->start_time;
	slot->sample.exit.cpu = cpu;
	slot->sample.exit.peak = (u64)signal->maxrss << setup.page_shift;
}

/* The filter has ended the thread because of a call, which does not return.  Others may also send this signal. */
INLINE void
put_killed(struct task_struct *task, const struct at *at)
{
	struct call call = { .task = task, .ret = -EPERM, .regs = (void *)bpf_task_pt_regs(task) };
	struct slot *slot;

	if ((task->exit_code & 127) != SIGSYS || !IS_ROLLED_BACK(call.regs))
		return;
	call.nr = SYSCALL_NR(call.regs);
	if (call.nr >= SAMPLE_CALLS || IS_32_BIT(task)) {
		count_lost(at->info, SAMPLE_REFUSED);
		return;
	}
	slot = begin(task, at, SAMPLE_REFUSED);
	if (slot == NULL)
		return;
	slot->sample.error = EPERM;
	slot->sample.by = SAMPLE_BY_FILTER;
	put_call(slot, &call);
	end(slot, at);
}

SEC("tp_btf/sched_process_exit")
int
exited(u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct counts *c;
	struct slot *slot;
	struct at at;

	(void)ctx;
	if (!find_cell(task, &at))
		return 0;
	put_killed(task, &at);
	c = bpf_task_storage_get(&counts, task, NULL, 0);
	if (c != NULL)
		flush_counts(task, c, bpf_ktime_get_ns());
	if (task->signal->live.counter != 0)
		return 0;
	slot = begin(task, &at, SAMPLE_EXIT);
	if (slot == NULL)
		return 0;
	put_end(slot, task);
	end(slot, &at);
	return 0;
}
#endif
