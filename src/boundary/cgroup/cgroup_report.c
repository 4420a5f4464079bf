/* cgroup_report.c - explains to people why a limit is missing and what to do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

#define BOOT_WITH_V2 "boot with cgroup version 2 alone (systemd.unified_cgroup_hierarchy=1)"

static bool
has_systemd(void)
{
	return access("/run/systemd/system", F_OK) == 0;
}

static void
describe_undelegated(bool v2, char *found, size_t found_size, char *todo, size_t todo_size)
{
	if (geteuid() == 0)
		snprintf(found, found_size, "the cgroups here may not be changed");
	else if (v2)
		snprintf(found, found_size, "this user has no delegated cgroup");
	else
		snprintf(found, found_size, "only root may change cgroups of version 1");
	if (geteuid() == 0)
		snprintf(todo, todo_size, "give this container writable cgroups of its own");
	else if (v2 && has_systemd())
		snprintf(todo, todo_size, "this user's systemd gives one, but does not answer: log in anew, or as root "
		         "run 'systemctl start user@%u'; or start it as root", (unsigned)geteuid());
	else
		snprintf(todo, todo_size, "%sstart it as root", v2 ? "" : BOOT_WITH_V2 ", or ");
}

static void
describe_controllers(char *found, size_t found_size, char *todo, size_t todo_size)
{
	if (geteuid() == 0 || !has_systemd()) {
		snprintf(found, found_size, "the groups above this one do not offer the controller");
		snprintf(todo, todo_size, "turn it on in their cgroup.subtree_control");
		return;
	}
	snprintf(found, found_size, "the controller is not delegated to this user");
	snprintf(todo, todo_size, "as root put '[Service]' and 'Delegate=cpu io memory pids' into "
	         "/etc/systemd/system/user@.service.d/delegate.conf, and log in again");
}

/* For a sentence such as "io cannot be limited: FOUND: TODO". */
static void
describe_reason(const struct cgroup_making *m, bool v2, char *found, size_t found_size,
                char *todo, size_t todo_size)
{
	switch (m->reason) {
	case CGROUP_FINE:
		describe_controllers(found, found_size, todo, todo_size);
		break;
	case CGROUP_NOT_MOUNTED:
		snprintf(found, found_size, "no cgroup file system that shows this process is mounted");
		snprintf(todo, todo_size, "mount -t cgroup2 none /sys/fs/cgroup");
		break;
	case CGROUP_READ_ONLY:
		snprintf(found, found_size, "the cgroups are mounted read-only");
		snprintf(todo, todo_size, "give this container writable cgroups of its own");
		break;
	case CGROUP_NOT_DELEGATED:
		describe_undelegated(v2, found, found_size, todo, todo_size);
		break;
	case CGROUP_OCCUPIED:
		snprintf(found, found_size, "the only cgroup that may be divided has processes in it");
		snprintf(todo, todo_size, "move them to a group below it: for each, 'echo PID "
		         ">GROUP/NEW/cgroup.procs'");
		break;
	case CGROUP_FAILED:
		snprintf(found, found_size, "%s", strerrordesc_np(m->error));
		break;
	}
}

void
cgroup_describe(const struct cgroup_making *m, unsigned missing, char *found,
                size_t found_size, char *todo, size_t todo_size)
{
	char names[64], reason[160];

	*reason = *todo = '\0';
	/* Without a cgroup, the user namespace's own count still limits processes. */
	cgroup_name_limits(missing == CGROUP_PIDS ? missing : missing & ~(unsigned)CGROUP_PIDS, names,
	                   sizeof(names));
	if (missing == CGROUP_IO && m->disks.unknown) {
		snprintf(reason, sizeof(reason), "a file system of the cell is on no disk of this "
		         "machine (overlay, network, FUSE)");
		snprintf(todo, todo_size, "grant folders on local disks");
	} else {
		describe_reason(m, (missing & m->v1) == 0, reason, sizeof(reason), todo, todo_size);
	}
	snprintf(found, found_size, "%s cannot be limited: %s", names, reason);
}

void
cgroup_examine(struct cgroup_report *ret_report)
{
	struct cgroup_report *r = ret_report;
	struct cgroup_limits limits = { .memory = 1ull << 40, .cpus_milli = 1000, .pids = 1024,
	                                .io = 1ull << 40 };
	struct cgroup_making m;
	struct cgroup *cg = NULL;
	struct err err = { 0 };
	struct stat st;
	char id[32], names[64];
	unsigned missing;

	*r = (struct cgroup_report){ 0 };
	snprintf(id, sizeof(id), "doctor-%d", (int)getpid());
	if (stat("/usr", &st) == 0) {
		limits.devices = &st.st_dev;
		limits.n_devices = 1;
	}
	if (cgroup_make(id, &limits, &cg, &m, &err) < 0) {
		snprintf(r->text, sizeof(r->text), "%.*s", (int)sizeof(r->text) - 1, err.text);
		return;
	}
	r->enforceable = m.in_force | (CGROUP_ALL & ~m.asked);
	missing = m.asked & ~m.in_force;
	for (size_t i = 0; i < cg->n; i++)
		r->version = cg->parts[i].version == 1 || r->version == 1 ? 1 : 2;
	r->can_freeze = cgroup_freeze(cg, false, NULL) == 0;
	cgroup_name_limits(m.in_force, names, sizeof(names));
	if (missing != 0)
		cgroup_describe(&m, missing, r->text, sizeof(r->text), r->todo, sizeof(r->todo));
	else
		snprintf(r->text, sizeof(r->text), "version %d: %s can be limited%s", r->version, names,
		         r->version == 1 ? ", except io that the kernel writes back later" : "");
	if (missing == 0 && r->version == 1)
		snprintf(r->todo, sizeof(r->todo), BOOT_WITH_V2);
	cgroup_destroy(cg);
}
