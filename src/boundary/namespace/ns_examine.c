/* ns_examine.c - finds out what this machine offers to cells of namespaces.
 *
 * Needs no rights beyond those with which the cells would be started. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/findings.h"
#include "boundary/namespace/ns_probe.h"
#include "boundary/namespace/ns_walls.h"
#include "confine/landlock.h"

#define KERNEL_LEAST "5.12"             /* id-mapped mounts */
#define KERNEL_TRIED "6.1"              /* the oldest that the tests run on */

static const char *
why(int code)
{
	return strerrordesc_np(code);
}

/* The first number in a small file, or NONE if there is no such file. */
static long
read_setting(const char *path, long none)
{
	OWN(freep) char *text = NULL;

	return read_file_at(AT_FDCWD, path, 4096, &text, NULL, NULL) < 0 ? none :
	       strtol(text, NULL, 10);
}

static bool
is_older(const char *release, const char *than)
{
	unsigned a = 0, b = 0, x = 0, y = 0;

	sscanf(release, "%u.%u", &a, &b);
	sscanf(than, "%u.%u", &x, &y);
	return a < x || (a == x && b < y);
}

static void
check_kernel(struct findings *f)
{
	struct utsname name;
	struct finding *c;

	uname(&name);
	if (is_older(name.release, KERNEL_LEAST)) {
		c = findings_add(f, "kernel", FINDING_MISSING, "Linux %s is too old", name.release);
		c->needed = true;
		findings_advise(c, "use Linux %s or later", KERNEL_TRIED);
	} else if (is_older(name.release, KERNEL_TRIED)) {
		c = findings_add(f, "kernel", FINDING_LIMITED, "Linux %s is older than the tested versions",
		                 name.release);
		findings_advise(c, "use Linux %s or later", KERNEL_TRIED);
	} else {
		findings_add(f, "kernel", FINDING_OK, "Linux %s on %s", name.release, name.machine);
	}
}

static void
check_clone(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (p->clone == 0) {
		findings_add(f, "processes", FINDING_OK, "clone3 and pidfds work");
		return;
	}
	c = findings_add(f, "processes", FINDING_MISSING, "clone3 with a pidfd fails: %s", why(p->clone));
	c->needed = true;
	findings_advise(c, "%s",
	                findings_container_advice("if this is a container, let its seccomp profile pass clone3"));
}

#define APPARMOR_SETTING "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define APPARMOR_ADVICE \
	"as root install the profile that comes with cloister (cp share/doc/cloister/apparmor/cloister " \
	"of the installation, or contrib/apparmor/cloister of the source, to /etc/apparmor.d/, then " \
	"apparmor_parser -r /etc/apparmor.d/cloister), or lift the " \
	"restriction for all (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"

/* Explains what most probably forbids user namespaces. */
static void
advise_userns(struct finding *c, const struct ns_probe *p)
{
	if (read_setting("/proc/sys/user/max_user_namespaces", 1) == 0 || p->userns == ENOSPC)
		findings_advise(c, "as root: sysctl -w user.max_user_namespaces=10000");
	else if (read_setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		findings_advise(c, "as root: sysctl -w kernel.unprivileged_userns_clone=1");
	else if (geteuid() != 0 && read_setting(APPARMOR_SETTING, 0) != 0)
		findings_advise(c, APPARMOR_ADVICE);
	else if (p->userns == EINVAL)
		findings_advise(c, "use a kernel that has CONFIG_USER_NS");
	else
		findings_advise(c, "%s", findings_container_advice("if this is a container, allow it user namespaces "
		                "(seccomp and AppArmor profiles often forbid them)"));
}

static void
check_userns(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (p->userns == 0 && p->maps == 0 && p->tmpfs == 0 && p->others == 0) {
		findings_add(f, "user namespaces", FINDING_OK, "%s can make a cell's namespaces",
		             geteuid() == 0 ? "root" : "this user");
		return;
	}
	if (p->userns != 0)
		c = findings_add(f, "user namespaces", FINDING_MISSING, "cannot make one: %s", why(p->userns));
	else if (p->maps != 0)
		c = findings_add(f, "user namespaces", FINDING_MISSING, "cannot map ids into one: %s",
		                 why(p->maps));
	else if (p->tmpfs > 0)
		c = findings_add(f, "user namespaces", FINDING_MISSING, "nothing can be mounted in one: %s",
		                 why(p->tmpfs));
	else if (p->others > 0)
		c = findings_add(f, "user namespaces", FINDING_MISSING, "the other namespaces cannot be made "
		                 "in one: %s", why(p->others));
	else
		c = findings_add(f, "user namespaces", FINDING_MISSING, "a process in one was killed");
	c->needed = true;
	advise_userns(c, p);
}

/* Whether this executable has a profile; if so, its helpers have one too. */
static bool
has_apparmor_profile(void)
{
	OWN(freep) char *label = NULL;

	return read_file_at(AT_FDCWD, "/proc/self/attr/apparmor/current", 4096, &label, NULL, NULL) == 0 &&
	       label[0] != '\0' && strncmp(label, "unconfined", strlen("unconfined")) != 0;
}

static void
check_apparmor(struct findings *f, const struct ns_probe *p)
{
	long restricted = read_setting(APPARMOR_SETTING, -1);
	struct finding *c;

	if (restricted <= 0)
		findings_add(f, "apparmor", FINDING_OK, "does not restrict user namespaces%s",
		             restricted < 0 ? " here" : "");
	else if (geteuid() == 0 ? has_apparmor_profile() : p->tmpfs == 0)
		findings_add(f, "apparmor", FINDING_OK, "restricts user namespaces, and lets cloister pass");
	else if (geteuid() == 0) {
		c = findings_add(f, "apparmor", FINDING_LIMITED, "restricts user namespaces, so the processes "
		                 "that carry a cell's requests, which are not root, can see the host's files, "
		                 "and only Landlock keeps them from reading these");
		findings_advise(c, APPARMOR_ADVICE);
	} else {
		c = findings_add(f, "apparmor", FINDING_MISSING, "restricts user namespaces of ordinary users");
		findings_advise(c, APPARMOR_ADVICE);
	}
}

/* Whether NAME was tried, which needs user namespaces. */
static bool
is_tried(struct findings *f, const char *name, int result)
{
	if (result == NS_PROBE_NOT_TRIED)
		findings_add(f, name, FINDING_MISSING, "not tried, because it needs user namespaces");
	return result != NS_PROBE_NOT_TRIED;
}

static void
check_overlay(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (!is_tried(f, "overlay workspaces", p->overlay))
		return;
	if (p->overlay == 0 && p->user_xattr == 0) {
		findings_add(f, "overlay workspaces", FINDING_OK, "changes are kept apart, and count towards "
		             "the cell's --disk");
	} else if (p->user_xattr == EOPNOTSUPP) {
		c = findings_add(f, "overlay workspaces", FINDING_LIMITED, "this kernel's tmpfs has no user "
		                 "attributes, so changes are kept in the state folder, and --disk does not "
		                 "count them");
		findings_advise(c, "use Linux 6.6 or later");
	} else {
		c = findings_add(f, "overlay workspaces", FINDING_MISSING, "overlayfs cannot be mounted in a "
		                 "user namespace: %s", why(p->overlay));
		if (p->overlay == ENODEV)
			findings_advise(c, "as root: modprobe overlay; or give workspaces as -w DIR:ro or "
			                "DIR:rw");
		else
			findings_advise(c, "give workspaces as -w DIR:ro or -w DIR:rw");
	}
}

static void
check_idmap(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (p->idmap == 0) {
		findings_add(f, "id-mapped mounts", FINDING_OK, "root's grants appear as the agent's own");
	} else if (p->idmap == NS_PROBE_NOT_TRIED) {
		findings_add(f, "id-mapped mounts", FINDING_OK, "not needed by an ordinary user's cells");
	} else {
		c = findings_add(f, "id-mapped mounts", FINDING_LIMITED, "the file system of /usr does not "
		                 "support them: %s", why(p->idmap));
		findings_advise(c, "grant paths on ext4, xfs or btrfs, or start cells as the paths' owner");
	}
}

static void
check_cgroup(struct findings *f)
{
	struct cgroup_report r;
	struct finding *c;

	cgroup_examine(&r);
	c = findings_add(f, "cgroups", r.enforceable == 0 ? FINDING_MISSING :
	                 r.enforceable == CGROUP_ALL && *r.todo == '\0' ? FINDING_OK : FINDING_LIMITED,
	                 "%s", r.text);
	findings_advise(c, "%s", r.todo);
	if (r.can_freeze) {
		findings_add(f, "freezer", FINDING_OK, "cells can be frozen, and killed as a whole");
		return;
	}
	c = findings_add(f, "freezer", FINDING_LIMITED, "cells cannot be frozen: `cloister freeze` fails, a "
	                 "request that asks with `freeze: true` is refused, and a policy's `freeze` kills the "
	                 "cell");
	findings_advise(c, "%s", r.todo);
}

static void
check_seccomp(struct findings *f)
{
	static const struct {
		unsigned action;
		const char *name;
	} actions[] = {
		{ SECCOMP_RET_KILL_PROCESS, "kill" }, { SECCOMP_RET_ERRNO, "refuse" },
		{ SECCOMP_RET_USER_NOTIF, "notify" },
	};
	struct finding *c;

	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i].action) == 0)
			continue;
		c = findings_add(f, "seccomp", FINDING_MISSING, "system-call filters cannot %s: %s",
		                 actions[i].name, why(errno));
		c->needed = actions[i].action != SECCOMP_RET_USER_NOTIF;
		findings_advise(c, "use a kernel that has CONFIG_SECCOMP_FILTER");
		return;
	}
	findings_add(f, "seccomp", FINDING_OK, "system-call filters work");
}

static void
check_landlock(struct findings *f)
{
	int abi = landlock_abi();
	struct finding *c;

	if (abi >= 6) {
		findings_add(f, "landlock", FINDING_OK, "version %d: a second layer for files, signals and "
		             "sockets", abi);
		return;
	}
	if (abi > 0) {
		c = findings_add(f, "landlock", FINDING_LIMITED, "version %d: a second layer for files, not "
		                 "for signals and abstract sockets", abi);
		findings_advise(c, "use Linux 6.12 or later");
		return;
	}
	c = findings_add(f, "landlock", FINDING_MISSING, "there is no second layer behind the cell's mounts");
	findings_advise(c, "use a kernel that has CONFIG_SECURITY_LANDLOCK, with landlock in its lsm= list");
}

static void
check_nftables(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (!is_tried(f, "nftables", p->nftables))
		return;
	if (p->nftables == 0) {
		findings_add(f, "nftables", FINDING_OK, "policies can be enforced: the traffic of cells is "
		             "captured, %s",
		             p->ipv6 == 0 ? "IPv4 and IPv6" : "IPv4 (this machine has no IPv6)");
		return;
	}
	c = findings_add(f, "nftables", FINDING_MISSING, "policies cannot be enforced, because the traffic of "
	                 "cells cannot be captured: %s", why(p->nftables));
	findings_advise(c, "as root: modprobe -a nf_tables nft_chain_nat nft_nat nft_tproxy nft_ct "
	                "nft_reject_ipv4 nft_reject_ipv6; cells without a policy have no network and need "
	                "none");
}

static void
check_pty(struct findings *f, const struct ns_probe *p)
{
	struct finding *c;

	if (!is_tried(f, "terminals", p->pty))
		return;
	if (p->pty == 0) {
		findings_add(f, "terminals", FINDING_OK, "cells have terminals of their own");
		return;
	}
	c = findings_add(f, "terminals", FINDING_MISSING, "a cell cannot have terminals of its own: %s",
	                 why(p->pty));
	c->needed = true;
	findings_advise(c, "use a kernel that has CONFIG_UNIX98_PTYS");
}

static void
check_core(struct findings *f)
{
	OWN(freep) char *text = NULL;

	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, &text, NULL, NULL) < 0)
		return;
	text[strcspn(text, " \n")] = '\0';
	if (text[0] == '|')
		findings_add(f, "crashes", FINDING_OK, "this machine hands crashes to '%s', but not those of "
		             "cells", text + 1);
	else
		findings_add(f, "crashes", FINDING_OK, "this machine runs no program after a crash");
}

void
ns_examine(struct findings *f)
{
	struct ns_probe p;

	ns_probe_run(&p);
	check_kernel(f);
	check_clone(f, &p);
	check_userns(f, &p);
	check_apparmor(f, &p);
	check_overlay(f, &p);
	check_idmap(f, &p);
	check_cgroup(f);
	check_seccomp(f);
	check_landlock(f);
	check_pty(f, &p);
	check_core(f);
	check_nftables(f, &p);
}
