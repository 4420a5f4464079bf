/* witness.bpf.c - the programs in the kernel that watch the processes of cells.
 *
 * They run for every process of the machine, so each asks first whether the process is in a cell;
 * a process outside of all pid namespaces is in none.  They only watch.  Results and descriptors
 * are the kernel's own, so an opened file is known by its true path; a name that a process passed
 * is read from its memory and marked as asked. */
#include "calls.bpf.h"
#include "count.bpf.h"
#include "files.bpf.h"
#include "net.bpf.h"
#include "process.bpf.h"

INLINE bool
is_refusal(s64 ret)
{
	return ret == -EPERM || ret == -EACCES || ret == -EROFS || ret == -ENOSYS || ret == -EAFNOSUPPORT;
}

INLINE void
look(struct call *call, const struct at *at)
{
	if (is_refusal(call->ret) && call_refused(call, at))
		return;
	switch (call->how.way) {
	case SAMPLE_WAY_OPEN:
	case SAMPLE_WAY_CREAT:
		file_opened(call, at);
		return;
	case SAMPLE_WAY_NAMES:
	case SAMPLE_WAY_SYMLINK:
	case SAMPLE_WAY_FD:
		file_changed(call, at);
		return;
	case SAMPLE_WAY_EXEC:
		exec_failed(call, at);
		return;
	case SAMPLE_WAY_CONNECT:
	case SAMPLE_WAY_BIND:
		socket_named(call, at);
		return;
	case SAMPLE_WAY_LISTEN:
	case SAMPLE_WAY_ACCEPT:
		socket_opened(call, at);
		return;
	case SAMPLE_WAY_SENDTO:
	case SAMPLE_WAY_SENDMSG:
		socket_sent(call, at);
		return;
	default:
		call_dangerous(call, at);
	}
}

/* A call of another kind of program, whose numbers mean other calls. */
INLINE void
call_unknown(const struct call *call)
{
	struct at at;

	if (call->ret != -ENOSYS && find_cell(call->task, &at))
		count_lost(at.info, SAMPLE_COUNTS);
}

SEC("tp_btf/sys_exit")
int
call_done(u64 *ctx)
{
	struct call call = { .task = bpf_get_current_task_btf(), .ret = ctx[1] };
	u32 level = call.task->thread_pid->level;
	struct at at;

	if (level == 0)
		return 0;
	call.regs = (void *)ctx[0];
	call.nr = SYSCALL_NR(call.regs);
	if (call.nr == (u32)-1)
		call.nr = setup.sigreturn;
	if (call.nr >= SAMPLE_CALLS || IS_32_BIT(call.task)) {
		call_unknown(&call);
		return 0;
	}
	call.how = setup.calls[call.nr];
	/* The child's side of a fork, which has not called anything. */
	if (call.ret == 0 && call.how.way >= SAMPLE_WAY_FORK && call.how.way <= SAMPLE_WAY_CLONE3)
		return 0;
	if (full_cells != 0)
		count_call(&call);
	if ((call.how.way == SAMPLE_WAY_NONE || call.how.way == SAMPLE_WAY_FORK) && !is_refusal(call.ret))
		return 0;
	if (find_cell(call.task, &at))
		look(&call, &at);
	return 0;
}

/* Some helpers are only for programs under a free licence. */
char licence[] SEC("license") = "GPL";
