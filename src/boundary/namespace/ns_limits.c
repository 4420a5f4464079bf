/* ns_limits.c - the cell's cgroup, and the limits that it enforces. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"

#define MONITOR_MEMORY (UINT64_C(256) << 20)    /* of a virtual machine's monitor and file server */

static size_t
list_devices(const struct cell_spec *spec, dev_t devices[CGROUP_DEVICES_MAX])
{
	size_t n = 0;
	struct stat st;

	for (size_t i = 0; i <= spec->n_grants && n < CGROUP_DEVICES_MAX; i++) {
		const char *path = i == 0 ? "/usr" : spec->grants[i - 1].host;
		bool known = stat(path, &st) < 0;

		for (size_t k = 0; k < n; k++)
			known = known || devices[k] == st.st_dev;
		if (!known)
			devices[n++] = st.st_dev;
	}
	return n;
}

/* Reports the limits that are not in force: an error if the operator asked for one, one plain line
 * for the defaults. */
int
ns_judge_limits(const struct cell_spec *spec, const struct boundary_ground *ground, unsigned missing,
                const char *why, struct err *err)
{
	static const struct { unsigned bit, limit; const char *option; } rows[] = {
		{ CGROUP_MEMORY, CELL_LIMIT_MEMORY, "--memory" },
		{ CGROUP_CPUS, CELL_LIMIT_CPUS, "--cpus" },
		{ CGROUP_IO, CELL_LIMIT_IO, "--io" },
	};
	bool any = false;

	/* Without a cgroup, RLIMIT_NPROC still limits processes. */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if ((missing & rows[i].bit) == 0)
			continue;
		if ((spec->limits.asked & rows[i].limit) != 0)
			return err_set(err, ENOTSUP, "%s cannot be enforced, because %s", rows[i].option, why);
		any = true;
	}
	if (any)
		ground->tell_once(ground->arg, "told-limits", why);
	return 0;
}

int
ns_make_cgroup(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w,
               struct err *err)
{
	const bool is_vm = spec->vm_kernel != NULL;
	dev_t devices[CGROUP_DEVICES_MAX];
	struct cgroup_limits limits = {
		.memory = CONTROL_ON("limit-memory") ? spec->limits.memory + (is_vm ? MONITOR_MEMORY : 0) : 1ULL << 50,
		.cpus_milli = spec->limits.cpus_milli,
		.pids = CONTROL_ON("limit-pids") ? ns_most_processes(spec) : 1 << 20,
		.io = spec->limits.io,
		.devices = devices,
		.n_devices = list_devices(spec, devices),
	};
	char why[512] = "";
	int r;

	r = cgroup_create(spec->id, &limits, &w->cgroup, &w->unlimited, why, sizeof(why), err);
	if (r == 0 && cgroup_paths(w->cgroup)[0] != '\0')
		r = create_file_at(ground->entry, CELL_WALLS, 0600, cgroup_paths(w->cgroup), err);
	/* A virtual machine has no more memory and processors than it was made with. */
	if (is_vm)
		w->unlimited &= ~(unsigned)(CGROUP_MEMORY | CGROUP_CPUS);
	return r < 0 ? r : ns_judge_limits(spec, ground, w->unlimited, why, err);
}
