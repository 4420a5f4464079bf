/* cgroup_v1.c - the part of a cell's group in one v1 hierarchy. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

#define LEVELS_MAX 32

static int
limit_memory(int dir, uint64_t bytes)
{
	int r = cgroup_putf(dir, "memory.limit_in_bytes", "%" PRIu64, bytes);

	if (r < 0)
		return r;
	/* Without this file the kernel does not count swap.  Then the group must not swap. */
	r = cgroup_putf(dir, "memory.memsw.limit_in_bytes", "%" PRIu64, bytes);
	if (r == -ENOENT)
		r = cgroup_put(dir, "memory.swappiness", "0");
	return r;
}

static bool
has_quota_above(int dir)
{
	char file[LEVELS_MAX * 3 + 32] = "", text[CGROUP_FILE_MAX];

	for (size_t up = 0; up < LEVELS_MAX; up++) {
		snprintf(file + up * 3, sizeof(file) - up * 3, "../cpu.cfs_quota_us");
		if (!cgroup_get(dir, file, text))
			return false;
		if (strtoll(text, NULL, 10) > 0)
			return true;
	}
	return false;
}

static int
limit_cpus(int dir, uint64_t quota_us, uint64_t period_us)
{
	int r = 0;

	if (period_us != CGROUP_CPU_PERIOD_US)
		r = cgroup_putf(dir, "cpu.cfs_period_us", "%" PRIu64, period_us);
	if (r < 0)
		return r;
	r = cgroup_putf(dir, "cpu.cfs_quota_us", "%" PRIu64, quota_us);
	/* A group may not have more than a group above it, whose quota then applies to both. */
	return r == -EINVAL && has_quota_above(dir) ? 0 : r;
}

static int
limit_pids(int dir, uint64_t pids)
{
	return cgroup_putf(dir, "pids.max", "%" PRIu64, pids);
}

static int
limit_io(int dir, dev_t disk, uint64_t bps)
{
	int r = cgroup_putf(dir, "blkio.throttle.read_bps_device", "%u:%u %" PRIu64,
	                    major(disk), minor(disk), bps);

	if (r < 0)
		return r;
	return cgroup_putf(dir, "blkio.throttle.write_bps_device", "%u:%u %" PRIu64,
	                   major(disk), minor(disk), bps);
}

static const struct cgroup_setters setters = { limit_memory, limit_cpus, limit_pids, limit_io };

static void
open_part(struct cgroup_part *p, const char *name)
{
	p->dir = p->inside = openat(p->parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Through `tasks`, a process of one thread moves itself without the lock and the grace
	 * period that cgroup.procs costs. */
	if (p->dir >= 0)
		p->tasks = openat(p->dir, "tasks", O_WRONLY | O_CLOEXEC);
}

int
cgroup_v1_make(struct cgroup *cg, const struct cgroup_hierarchy *h, struct cgroup_making *m)
{
	char own[PATH_MAX], name[CGROUP_NAME_MAX];
	OWN(closep) int parent = -1;
	OWN(freep) char *path = NULL;
	struct cgroup_part *p;

	if (!cgroup_own_dir(h, own)) {
		cgroup_note_failure(m, CGROUP_NOT_MOUNTED, ENOENT);
		return 0;
	}
	/* The common case, cheaply: no ordinary user has v1 groups. */
	if (geteuid() != 0 && access(own, W_OK) < 0) {
		cgroup_note_failure(m, CGROUP_FAILED, errno);
		return 0;
	}
	path = str_format("%s/%s", own, cgroup_cell_name(name, m->id));
	if (path == NULL)
		return -ENOMEM;
	parent = open(own, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 || mkdirat(parent, name, 0755) < 0) {
		if (errno == EEXIST)
			return -EEXIST;
		cgroup_note_failure(m, CGROUP_FAILED, errno);
		return 0;
	}
	p = cgroup_add_part(cg, 1);
	p->carries = h->carries;
	p->path = TAKE(path);
	p->parent = TAKE_FD(parent);
	open_part(p, name);
	if (p->tasks < 0)
		cgroup_note_failure(m, CGROUP_FAILED, errno);
	else
		cgroup_set_limits(p, &setters, m);
	return 0;
}
