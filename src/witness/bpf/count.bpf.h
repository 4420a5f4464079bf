/* count.bpf.h - counts the calls of each thread of a cell that wants it. */
#ifndef CLOISTER_WITNESS_COUNT_BPF_H
#define CLOISTER_WITNESS_COUNT_BPF_H
#include "call.bpf.h"

#define SECOND 1000000000ull

struct counts {
	u64 since, jiffies;
	u32 n[SAMPLE_CALLS];
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct counts);
} counts SEC(".maps");

/* Cells that want it: at least as many as there are.  Set by whoever adds a cell. */
volatile u32 full_cells = 0;

struct flush {
	struct slot *slot;
	struct counts *counts;
	u32 at, n;
};

static long
flush_step(u32 i, void *data)
{
	struct flush *f = data;
	u32 nr = i & (SAMPLE_CALLS - 1), to = f->at & (SAMPLE_TEXTS_MAX - 1), n = f->counts->n[nr];
	struct sample_pair *pair;

	if (n == 0)
		return 0;
	pair = (void *)&f->slot->texts[to];
	pair->nr = nr;
	pair->n = n;
	f->counts->n[nr] = 0;
	f->at = to + sizeof(*pair);
	f->n++;
	return 0;
}

/* Reports what was counted until NOW. */
static __attribute__((noinline)) void
flush_counts(struct task_struct *task, struct counts *counts, u64 now)
{
	struct flush f = { .counts = counts, .at = sizeof(struct sample_text) };
	struct slot *slot;
	struct at at;

	if (!find_cell(task, &at))
		return;
	slot = begin(task, &at, SAMPLE_COUNTS);
	if (slot == NULL)
		return;
	f.slot = slot;
	bpf_loop(SAMPLE_CALLS, flush_step, &f, 0);
	slot->sample.nr = f.n;
	slot->sample.since = now - counts->since;
	put_head(slot, 0, SAMPLE_PAIRS, 0, f.n * sizeof(struct sample_pair));
	slot->len = f.at;
	end(slot, &at);
	counts->since = now;
}

static __attribute__((noinline)) struct counts *
begin_counts(struct task_struct *task)
{
	struct counts *c;
	struct at at;

	if (!find_cell(task, &at) || !at.info->full)
		return NULL;
	c = bpf_task_storage_get(&counts, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (c == NULL)
		count_lost(at.info, SAMPLE_COUNTS);
	else
		c->since = bpf_ktime_get_ns();
	return c;
}

INLINE void
count_call(const struct call *call)
{
	struct counts *c = bpf_task_storage_get(&counts, call->task, NULL, 0);
	u64 jiffies, now;

	if (c == NULL)
		c = begin_counts(call->task);
	if (c == NULL)
		return;
	c->n[call->nr & (SAMPLE_CALLS - 1)]++;
	/* The time costs more to read than the tick. */
	jiffies = bpf_jiffies64();
	if (jiffies == c->jiffies)
		return;
	c->jiffies = jiffies;
	now = bpf_ktime_get_ns();
	if (now - c->since >= SECOND)
		flush_counts(call->task, c, now);
}
#endif
