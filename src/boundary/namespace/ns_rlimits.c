/* ns_rlimits.c - the resource limits of a cell's first process, which everything in the cell inherits. */
#include <errno.h>
#include <sys/resource.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "ipc/init_channel.h"

/* Soft limits are the operator's own preference, so a cell begins with the usual ones.  Hard
 * limits, which bind the operator too, stay. */
static void
reset_soft_limits(void)
{
	static const struct { int what; rlim_t usual; } limits[] = {
		{ RLIMIT_NOFILE, 1024 }, { RLIMIT_STACK, 8 << 20 }, { RLIMIT_MEMLOCK, 8 << 20 },
		{ RLIMIT_CPU, RLIM_INFINITY }, { RLIMIT_FSIZE, RLIM_INFINITY },
		{ RLIMIT_DATA, RLIM_INFINITY }, { RLIMIT_AS, RLIM_INFINITY },
		{ RLIMIT_RSS, RLIM_INFINITY }, { RLIMIT_LOCKS, RLIM_INFINITY },
		{ RLIMIT_MSGQUEUE, 819200 }, { RLIMIT_NICE, 0 }, { RLIMIT_RTPRIO, 0 },
		{ RLIMIT_RTTIME, RLIM_INFINITY },
	};
	struct rlimit now;

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		if (getrlimit(limits[i].what, &now) < 0)
			continue;
		now.rlim_cur = limits[i].usual < now.rlim_max ? limits[i].usual : now.rlim_max;
		(void)setrlimit(limits[i].what, &now);  /* anyone may, within the hard limit */
	}
	/* The agent keeps a lower priority that the operator chose, but not a higher one. */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
}

#define FILES_SPARED 1024               /* descriptors */
#define FILES_LEAST 64                  /* that init needs, which has the agent's limits */

/* The kernel counts descriptors in flight in sockets with the operator's own.  A user with more of
 * them than the limit on open files cannot send any: then cloister could not either, for any other
 * cell.  So the agent's limit is below the operator's. */
static struct rlimit
files_of(bool spares, bool notifies)
{
	struct rlimit files = { 1024, 1024 };

	(void)getrlimit(RLIMIT_NOFILE, &files);
	if (spares)
		files.rlim_max -= files.rlim_max / 4 < FILES_SPARED ? files.rlim_max / 4 : FILES_SPARED;
	files.rlim_cur = files.rlim_cur < files.rlim_max ? files.rlim_cur : files.rlim_max;
	/* Init takes them away. */
	if (spares && notifies && files.rlim_max + INIT_FILES_SPARED >= INIT_FILES_LEAST)
		files.rlim_max += INIT_FILES_SPARED;
	return files;
}

int
ns_limit_self(uint64_t most, bool spares, bool notifies, struct err *err)
{
	/* Counts this user's processes in this user namespace, threads included; init is one. */
	struct rlimit pids = { most, most };
	/* One, not zero: at zero the host would still run a core_pattern pipe. */
	struct rlimit core = { 1, 1 };
	/* The kernel counts queued signals with the operator's own. */
	struct rlimit signals = { 4096, 4096 };
	struct rlimit now, files;

	if (getrlimit(RLIMIT_NPROC, &now) == 0 && now.rlim_max < pids.rlim_max)
		pids = (struct rlimit){ now.rlim_max, now.rlim_max };
	if (getrlimit(RLIMIT_SIGPENDING, &now) == 0 && now.rlim_max / 4 < signals.rlim_max)
		signals = (struct rlimit){ now.rlim_max / 4, now.rlim_max / 4 };
	/* The supervisor has checked that zero is as good. */
	if (getrlimit(RLIMIT_CORE, &now) == 0 && now.rlim_max == 0)
		core = now;
	reset_soft_limits();
	files = files_of(spares, notifies);
	if ((CONTROL_ON("limit-user") && setrlimit(RLIMIT_SIGPENDING, &signals) < 0) ||
	    (CONTROL_ON("limit-user") && setrlimit(RLIMIT_NOFILE, &files) < 0) ||
	    (CONTROL_ON("limit-pids") && setrlimit(RLIMIT_NPROC, &pids) < 0) ||
	    (CONTROL_ON("core") && setrlimit(RLIMIT_CORE, &core) < 0))
		return err_errno(err, "cannot set the cell's resource limits");
	return 0;
}

/* A limit that the cell has in any case stays the hard limit. */
int
ns_limit_as_bundle(const struct cell_bundle *bundle, struct err *err)
{
	for (uint32_t i = 0; i < bundle->n_rlimits; i++) {
		const struct cell_rlimit *limit = &bundle->rlimits[i];
		struct rlimit now;

		if (getrlimit((int)limit->what, &now) < 0)
			return err_errno(err, "cannot look at the cell's resource limits");
		now.rlim_max = limit->hard < now.rlim_max ? limit->hard : now.rlim_max;
		now.rlim_cur = limit->soft < now.rlim_max ? limit->soft : now.rlim_max;
		if (limit->what == RLIMIT_NOFILE && now.rlim_cur < FILES_LEAST)
			return err_set(err, EINVAL, "a container needs at least %d descriptors (RLIMIT_NOFILE)", FILES_LEAST);
		if (setrlimit((int)limit->what, &now) < 0)
			return err_errno(err, "cannot set the container's resource limits");
	}
	return 0;
}
