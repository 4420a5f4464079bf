/* files.bpf.h - files that are opened, made, moved, removed and changed. */
#ifndef CLOISTER_WITNESS_FILES_BPF_H
#define CLOISTER_WITNESS_FILES_BPF_H
#include "call.bpf.h"

/* Whether CALL asked for a file to write, as far as its arguments show it. */
INLINE bool
wants_write(const struct call *call)
{
	u64 flags = argument(call, call->how.to_dir);

	return call->how.way == SAMPLE_WAY_CREAT || ((flags & O_ACCMODE) != 0 && (flags & O_PATH) == 0);
}

/* The descriptor is the kernel's answer, so its file is the one that was opened, unless another
 * thread has already put a different one in its place.  Then the name in the call is of interest too. */
INLINE void
file_opened(struct call *call, const struct at *at)
{
	struct file *file;
	struct slot *slot;
	u32 mode;
	bool raced;

	if (call->ret < 0)
		return;
	file = file_of(call->task, call->ret);
	mode = file != NULL ? BPF_CORE_READ(file, f_mode) : 0;
	raced = file == NULL || ((mode & FMODE_WRITE) == 0 && wants_write(call));
	if (!raced && (mode & FMODE_WRITE) == 0 && (!at->info->reads || (mode & FMODE_READ) == 0))
		return;
	slot = begin(call->task, at, SAMPLE_FILE);
	if (slot == NULL)
		return;
	if ((mode & FMODE_CREATED) != 0 || (argument(call, call->how.to_dir) & O_TMPFILE) != 0)
		slot->sample.act = SAMPLE_CREATE;
	else
		slot->sample.act = raced || (mode & FMODE_WRITE) != 0 ? SAMPLE_WRITE : SAMPLE_READ;
	if (!raced)
		put_file(slot, SAMPLE_PATH, file);
	if (raced || (slot->sample.act != SAMPLE_READ && shares_files(call->task)))
		put_named(slot, call, SAMPLE_NAME, call->how.path, SAMPLE_DIR, call->how.dir);
	end(slot, at);
}

INLINE void
file_changed(struct call *call, const struct at *at)
{
	struct file *file;
	struct slot *slot;

	if (call->ret < 0)
		return;
	slot = begin(call->task, at, SAMPLE_FILE);
	if (slot == NULL)
		return;
	slot->sample.act = call->how.act;
	put_call(slot, call);
	if (call->how.way == SAMPLE_WAY_FD) {
		file = file_of(call->task, argument(call, call->how.dir));
		if (file != NULL)
			put_file(slot, SAMPLE_PATH, file);
	} else if (call->how.way == SAMPLE_WAY_SYMLINK) {
		put_name(slot, call, SAMPLE_NAME, call->how.path);
	} else {
		put_named(slot, call, SAMPLE_NAME, call->how.path, SAMPLE_DIR, call->how.dir);
	}
	if (call->how.to != 0)
		put_named(slot, call, SAMPLE_NAME_TO, call->how.to, SAMPLE_DIR_TO, call->how.to_dir);
	end(slot, at);
}
#endif
