/* oci.c - the boundary of a container that an OCI runtime makes, in namespaces, seen from the supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/oci/oci.h"

#define CHILDREN_MAX (1 << 20)
#define KEEPERS 2                       /* the keeper and init */

/* Init knows everything from its arguments, and no process of the runtime is left, before the agent starts.  A
 * sandbox has threads of its own for the agent's. */
static int
greet(const struct ns_plan *plan, int stream, struct err *err)
{
	const struct oci *oci = plan->inside->arg;

	(void)stream;
	if (!plan->pids_limited || oci->runtime->is_sandbox || !CONTROL_ON("limit-pids"))
		return 0;
	return cgroup_limit_pids(plan->cgroup, oci->agents->limits.pids + KEEPERS, err);
}

/* The cell whose walls are around the runtime, as whose root it runs. */
static struct cell_spec
describe_outer(const struct cell_spec *spec)
{
	struct cell_spec outer = *spec;

	outer.root = spec->root || oci_names_agent(spec);
	return outer;
}

static int
oci_start(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls **ret_walls,
          struct err *err)
{
	struct cell_spec outer = describe_outer(spec);
	struct oci oci = { .runtime = oci_find_runtime(spec->runtime_kind), .agents = spec, .program = -1, .init = -1,
	                   .log = -1 };
	struct ns_inside inside = { .is_container = true, .build = oci_build, .greet = greet, .arg = &oci,
	                            .until_ms = io_now_ms() + OCI_START_MS };
	int r = oci.log = oci_make_log(err);

	if (r >= 0 && (oci.init = openat(ground->libexec, "cloister-init", O_RDONLY | O_CLOEXEC)) < 0)
		r = err_errno(err, "cannot find cloister-init beside the other helpers");
	if (r >= 0 && ns_has_range())
		r = oci.program = mounts_copy_tree(AT_FDCWD, spec->runtime, err);
	if (r >= 0)
		r = ns_start(&outer, ground, true, &inside, ret_walls, err);
	if (r == -EPIPE)
		oci_explain(oci.log, spec->runtime_kind, err);
	closep(&oci.log);
	closep(&oci.init);
	closep(&oci.program);
	return r < 0 ? r : 0;
}

static int
oci_check(const struct cell_spec *spec, struct err *err)
{
	if (spec->runtime == NULL)
		return err_set(err, EINVAL, "the cell's description names no OCI runtime");
	if (spec->profile == CELL_PROFILE_NESTED)
		return err_set(err, ENOTSUP, "an OCI runtime cannot carry --profile nested: use the boundary namespace");
	if (strcmp(spec->runtime_kind, "runsc") == 0 && ns_refuse_sockets(spec, "gVisor", err) < 0)
		return -err->code;
	return ns_check(spec, err);
}

/* The first child of PID, as the kernel lists them; 0: none. */
static pid_t
first_child(pid_t pid)
{
	OWN(freep) char *children = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	return read_file_at(AT_FDCWD, path, CHILDREN_MAX, &children, NULL, NULL) < 0 ? 0 :
	       (pid_t)strtoul(children, NULL, 10);
}

/* The keeper's child is init, and init's first child the agent.  In a sandbox, the agent has no pid here. */
static void
oci_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	const pid_t init = first_child(w->init);

	*ret_first = w->init;
	*ret_agent = init > 0 ? first_child(init) : 0;
}

static void
gvisor_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent)
{
	*ret_first = w->init;
	*ret_agent = 0;
}

static int
gvisor_check(const struct cell_spec *spec, struct err *err)
{
	if (strcmp(spec->runtime_kind, "runsc") != 0)
		return err_set(err, EINVAL, "the boundary '" BOUNDARY_GVISOR "' needs the runtime runsc");
	return oci_check(spec, err);
}

const struct boundary boundary_oci = {
	.name = BOUNDARY_OCI, .start = oci_start, .check = oci_check, .pids = oci_pids, NS_COMMON,
};

const struct boundary boundary_gvisor = {
	.name = BOUNDARY_GVISOR, .start = oci_start, .check = gvisor_check, .pids = gvisor_pids, NS_COMMON,
};
