/* call.bpf.h - a call that returns, and its arguments. */
#ifndef CLOISTER_WITNESS_CALL_BPF_H
#define CLOISTER_WITNESS_CALL_BPF_H
#include "common.bpf.h"

struct call {
	struct task_struct *task;
	struct pt_regs *regs;
	s64 ret;
	u32 nr;
	struct sample_call how;
};

/* Argument NUMBER, from 1; 0 for others. */
INLINE u64
argument(const struct call *call, u32 number)
{
	u64 args[6] = SYSCALL_ARGS(call->regs);

	switch (number) {
	case 1: return args[0];
	case 2: return args[1];
	case 3: return args[2];
	case 4: return args[3];
	case 5: return args[4];
	case 6: return args[5];
	default: return 0;
	}
}

INLINE void
put_call(struct slot *slot, const struct call *call)
{
	u64 args[6] = SYSCALL_ARGS(call->regs);

	slot->sample.nr = call->nr;
	for (u32 i = 0; i < 6; i++)
		slot->sample.args[i] = args[i];
}

/* The text that argument NUMBER points to. */
INLINE void
put_name(struct slot *slot, const struct call *call, u32 what, u32 number)
{
	if (number == 0)
		return;
	slot->sample.flags |= SAMPLE_ASKED;
	put_string(slot, what, (void *)argument(call, number), true);
}

/* The path that argument NAME names, relative to the folder that argument DIR is, or to the working
 * folder if DIR is 0. */
INLINE void
put_named(struct slot *slot, const struct call *call, u32 what, u32 name, u32 what_dir, u32 dir)
{
	u64 from = argument(call, name);
	s32 fd = dir == 0 ? AT_FDCWD : (s32)argument(call, dir);
	struct task_struct *task = call->task;
	char first = 0;

	if (from != 0) {
		slot->sample.flags |= SAMPLE_ASKED;
		bpf_probe_read_user(&first, 1, (void *)from);
		put_string(slot, what, (void *)from, true);
	}
	if (first == '/')
		return;
	if (fd == AT_FDCWD) {
		struct path path;

		BPF_CORE_READ_INTO(&path, task, fs, pwd);
		put_path(slot, what_dir, &path);
	} else {
		struct file *file = file_of(task, fd);

		if (file != NULL)
			put_file(slot, what_dir, file);
	}
}
#endif
