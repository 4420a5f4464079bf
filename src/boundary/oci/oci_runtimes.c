/* oci_runtimes.c - the OCI runtimes that are known, and how each is told to leave cgroups and network alone. */
#include <string.h>

#include "base/own.h"
#include "boundary/oci/oci.h"

#define ROOT "--root", "/" OCI_STATE "/oci"

/* The cell's cgroup is around the runtime, and holds whatever it does. */
static const char *const plain[][8] = { { ROOT }, { NULL } };
static const char *const crun[][8] = { { ROOT, "--cgroup-manager=disabled" }, { NULL } };
static const char *const runc[][8] = { { ROOT, "--rootless=true" }, { NULL } };
/* gVisor's sockets are sockets of the cell's network, so that the gate sees each connection's own destination.
 * Files are not cached in ways that would miss changes from outside.  Its own choice of a platform comes first:
 * systrap, or ptrace in old versions. */
#define RUNSC ROOT, "--network=host", "--ignore-cgroups", "--file-access=shared", "--overlay2=none"
static const char *const runsc[][8] = { { RUNSC }, { RUNSC, "--platform=ptrace" }, { NULL } };

/* The last one is any other. */
static const struct oci_runtime runtimes[] = {
	{ "crun", false, true, false, crun }, { "runc", false, true, true, runc }, { "runsc", true, false, false, runsc },
	{ "kata-runtime", true, false, false, plain }, { "", false, false, false, plain },
};

const struct oci_runtime *
oci_find_runtime(const char *kind)
{
	const struct oci_runtime *r = runtimes;

	while (r->name[0] != '\0' && strcmp(r->name, kind) != 0)
		r++;
	return r;
}

bool
oci_names_agent(const struct cell_spec *agents)
{
	return !agents->root && (!ns_has_range() || oci_find_runtime(agents->runtime_kind)->is_sandbox);
}
