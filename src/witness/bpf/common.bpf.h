/* common.bpf.h - finds the cell of a process, and puts samples together.
 *
 * Programs may be preempted by others on the same CPU, so a sample is put together in a slot that is
 * claimed: there are a few of each CPU. */
#ifndef CLOISTER_WITNESS_COMMON_BPF_H
#define CLOISTER_WITNESS_COMMON_BPF_H
#include "kernel.bpf.h"
#include "sample.h"

#define INLINE static __attribute__((always_inline)) inline
#define CELLS_MAX 4096
#define LEVELS_MAX 8                    /* nested pid namespaces that are looked at */
#define SLOTS 4

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, CELLS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__array(values, struct {
		__uint(type, BPF_MAP_TYPE_RINGBUF);
		__uint(max_entries, SAMPLE_RING);
	});
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CELLS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct sample_cell);
} cells SEC(".maps");

/* Reads and writes of texts may go up to 4 KiB beyond what a checked offset allows. */
#define SLOT_TEXTS (SAMPLE_TEXTS_MAX + 4096 + 256)
struct slot {
	u32 busy, len;                  /* LEN of the texts */
	struct sample sample;
	char texts[SLOT_TEXTS];
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

/* Filled by the process that loads the programs. */
const volatile struct sample_setup setup SEC(".rodata.setup") = {0};

/* Where the programs are attached, by links with these numbers: not for the programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SAMPLE_PROGRAMS);
	__type(key, u32);
	__type(value, u32);
} links SEC(".maps");

struct at {                             /* a process of a cell */
	u32 cell, level;
	struct sample_cell *info;
};

INLINE bool
read_number(struct pid *pid, u32 level, struct upid *ret)
{
	u64 at = (u64)pid + bpf_core_field_offset(struct pid, numbers) + level * sizeof(struct upid);

	return bpf_probe_read_kernel(ret, sizeof(*ret), (void *)at) == 0;
}

INLINE u32
number_cell(const struct upid *number)
{
	struct pid_namespace *ns = number->ns;

	return BPF_CORE_READ(ns, ns.inum);
}

/* The cell that TASK is in; false if it is in none. */
INLINE bool
find_cell(struct task_struct *task, struct at *ret)
{
	struct pid *pid = task->group_leader->thread_pid;
	u32 level = pid->level;

	for (u32 i = 1; i < LEVELS_MAX && i <= level; i++) {
		struct upid number;

		if (!read_number(pid, i, &number))
			return false;
		ret->cell = number_cell(&number);
		ret->level = i;
		ret->info = bpf_map_lookup_elem(&cells, &ret->cell);
		if (ret->info != NULL)
			return true;
	}
	return false;
}

INLINE u32
pid_in(struct task_struct *task, const struct at *at)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid number;

	if (pid == NULL || BPF_CORE_READ(pid, level) < at->level || !read_number(pid, at->level, &number) ||
	    number_cell(&number) != at->cell)
		return 0;
	return number.nr;
}

/* The number of the process where the witness is. */
INLINE u32
pid_of_owner(struct task_struct *task, const struct at *at)
{
	struct pid *pid = task->group_leader->thread_pid;

	for (u32 i = 0; i < LEVELS_MAX && i <= at->level; i++) {
		struct upid number;

		if (read_number(pid, i, &number) && number_cell(&number) == at->info->owner_ns)
			return number.nr;
	}
	return 0;
}

INLINE void
count_lost(struct sample_cell *info, u32 kind)
{
	if (kind < SAMPLE_KINDS)
		__sync_fetch_and_add(&info->lost[kind], 1);
}

INLINE struct slot *
claim_slot(void)
{
	for (u32 i = 0; i < SLOTS; i++) {
		u32 key = i;
		struct slot *slot = bpf_map_lookup_elem(&slots, &key);

		if (slot != NULL && __sync_val_compare_and_swap(&slot->busy, 0, 1) == 0)
			return slot;
	}
	return NULL;
}

/* Begins a sample of KIND about TASK; NULL: there is no slot, which is counted. */
INLINE struct slot *
begin(struct task_struct *task, const struct at *at, u32 kind)
{
	struct slot *slot = claim_slot();

	if (slot == NULL) {
		count_lost(at->info, kind);
		return NULL;
	}
	slot->len = 0;
	__builtin_memset(&slot->sample, 0, sizeof(slot->sample));
	slot->sample.kind = kind;
	slot->sample.time = bpf_ktime_get_ns();
	slot->sample.pid = pid_in(task->group_leader, at);
	slot->sample.parent = pid_in(task->real_parent->group_leader, at);
	slot->sample.host_pid = pid_of_owner(task, at);
	return slot;
}

INLINE void
end(struct slot *slot, const struct at *at)
{
	u32 key = at->info->ring, kind = slot->sample.kind, len = slot->len;
	void *ring = bpf_map_lookup_elem(&rings, &key);

	if (len > SAMPLE_TEXTS_MAX)
		len = SAMPLE_TEXTS_MAX;
	if (ring == NULL || bpf_ringbuf_output(ring, &slot->sample, sizeof(slot->sample) + len, 0) < 0)
		count_lost(at->info, kind);
	slot->busy = 0;
}

/* ---- texts ---- */

INLINE void
put_head(struct slot *slot, u32 at, u32 what, u32 flags, u32 len)
{
	struct sample_text *head;

	asm volatile("" : "+r"(at));    /* as in put_bytes(): Linux 6.1 forgets a limit that it saw before a call */
	head = (void *)&slot->texts[at & (SAMPLE_TEXTS_MAX - 1)];
	head->what = what;
	head->flags = flags;
	head->len = len;
}

INLINE bool
has_room(const struct slot *slot)
{
	return slot->len + sizeof(struct sample_text) + SAMPLE_PATH_MAX <= SAMPLE_TEXTS_MAX;
}

/* A NUL-terminated text, in the kernel's memory or the process's.  One that has gone meanwhile is empty and
 * cut. */
INLINE void
put_string(struct slot *slot, u32 what, const void *from, bool user)
{
	u32 at = slot->len, to = (at + sizeof(struct sample_text)) & (SAMPLE_TEXTS_MAX - 1), flags = 0;
	long n;

	if (from == NULL || !has_room(slot))
		return;
	n = user ? bpf_probe_read_user_str(&slot->texts[to], SAMPLE_PATH_MAX, from)
	         : bpf_probe_read_kernel_str(&slot->texts[to], SAMPLE_PATH_MAX, from);
	if (n <= 0 || n > SAMPLE_PATH_MAX) {
		n = 1;
		flags = SAMPLE_CUT;
	} else if (n == SAMPLE_PATH_MAX) {
		flags = SAMPLE_CUT;
	}
	put_head(slot, at, what, flags, n - 1);
	slot->len = to + n - 1;
}

/* LEN bytes. */
INLINE void
put_bytes(struct slot *slot, u32 what, const void *from, u64 len, bool user)
{
	u32 at = slot->len, to = (at + sizeof(struct sample_text)) & (SAMPLE_TEXTS_MAX - 1);
	u32 flags = 0, n = SAMPLE_PATH_MAX - 1;
	long r;

	if (len <= n)
		n = len;
	else
		flags = SAMPLE_CUT;
	if (!has_room(slot))
		return;
	asm volatile("" : "+r"(n));     /* or the mask, which the verifier wants, would be left out */
	n &= SAMPLE_PATH_MAX - 1;
	r = user ? bpf_probe_read_user(&slot->texts[to], n, from)
	         : bpf_probe_read_kernel(&slot->texts[to], n, from);
	if (r != 0) {
		n = 0;
		flags = SAMPLE_CUT;
	}
	put_head(slot, at, what, flags, n);
	slot->len = to + n;
}

/* ---- paths ---- */

struct walk {
	struct dentry *dentry, *root_dentry;
	struct vfsmount *mnt, *root_mnt;
	struct slot *slot;
	u32 at, begin;                  /* where the next name goes; where the first one is */
	u32 flags;
};

static long
walk_step(u32 i, void *data)
{
	struct walk *w = data;
	struct dentry *dentry = w->dentry, *parent;
	struct vfsmount *mnt = w->mnt;
	u32 to = w->at & (SAMPLE_TEXTS_MAX - 1);
	long n;

	(void)i;
	if (dentry == w->root_dentry && w->mnt == w->root_mnt) {
		w->flags = 0;
		return 1;
	}
	parent = BPF_CORE_READ(dentry, d_parent);
	if (dentry == BPF_CORE_READ(mnt, mnt_root)) {
		struct mount *mount = (void *)w->mnt - bpf_core_field_offset(struct mount, mnt);
		struct mount *above = BPF_CORE_READ(mount, mnt_parent);

		if (above == mount || above == NULL) {
			w->flags = SAMPLE_OUTSIDE;
			return 1;
		}
		w->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
		w->mnt = (void *)above + bpf_core_field_offset(struct mount, mnt);
		return 0;
	}
	if (w->at - w->begin > SAMPLE_PATH_MAX - SAMPLE_NAME_MAX)
		return 1;
	n = bpf_probe_read_kernel_str(&w->slot->texts[to], SAMPLE_NAME_MAX,
	                              BPF_CORE_READ(dentry, d_name.name));
	if (n <= 0 || n > SAMPLE_NAME_MAX)
		return 1;
	w->at = to + n;
	w->dentry = parent;
	/* A file in memory, which is in no folder. */
	if (dentry == parent) {
		w->flags = SAMPLE_OUTSIDE;
		return 1;
	}
	return 0;
}

/* DENTRY in MNT, as the current process would name it.  A function of its own for the verifier, which then
 * looks at it once, rather than once for each caller. */
__attribute__((noinline)) int
put_dentry(struct slot *slot, u32 what, u64 dentry, u64 mnt)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct walk w = {
		.dentry = (void *)dentry, .mnt = (void *)mnt, .slot = slot, .flags = SAMPLE_CUT,
		.root_dentry = BPF_CORE_READ(task, fs, root.dentry),
		.root_mnt = BPF_CORE_READ(task, fs, root.mnt),
	};
	u32 at;

	if (slot == NULL || !has_room(slot))
		return 0;
	at = slot->len;
	w.at = w.begin = at + sizeof(struct sample_text);
	bpf_loop(SAMPLE_PATH_MAX / 2, walk_step, &w, 0);
	put_head(slot, at, what, w.flags, w.at - w.begin);
	slot->len = w.at;
	return 0;
}

INLINE void
put_path(struct slot *slot, u32 what, const struct path *path)
{
	put_dentry(slot, what, (u64)path->dentry, (u64)path->mnt);
}

INLINE void
put_cwd(struct slot *slot, struct task_struct *task)
{
	struct path path;

	BPF_CORE_READ_INTO(&path, task, fs, pwd);
	put_path(slot, SAMPLE_CWD, &path);
}

INLINE void
put_file(struct slot *slot, u32 what, struct file *file)
{
	struct path path;

	BPF_CORE_READ_INTO(&path, file, f_path);
	put_path(slot, what, &path);
}

/* Whether another thread may put another file in the place of one that was just opened. */
INLINE bool
shares_files(struct task_struct *task)
{
	return BPF_CORE_READ(task, files, count.counter) > 1;
}

/* The open file FD of TASK, or NULL. */
INLINE struct file *
file_of(struct task_struct *task, s32 fd)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file *file = NULL;

	if (fd < 0 || (u32)fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), BPF_CORE_READ(table, fd) + fd);
	return file;
}
#endif
