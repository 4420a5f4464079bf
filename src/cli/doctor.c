/* doctor.c - `cloister doctor`: reports what this machine can and cannot enforce. */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/namespace/ns_probe.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "confine/landlock.h"
#include "vm/kvm.h"

#define CHECKS_MAX   24
#define TEXT_MAX     512
#define KERNEL_LEAST "5.12"             /* id-mapped mounts */
#define KERNEL_TRIED "6.1"              /* the oldest that the tests run on */

enum { OPT_JSON };

const struct cli_option cli_doctor_options[] = {
	{ "json", 0, NULL, "print JSON for programs", OPT_JSON },
	{0}
};

enum state { OK, LIMITED, MISSING };
static const char *const state_names[] = { "ok", "limited", "missing" };

struct check {
	const char *name;
	enum state state;
	bool needed;                    /* no cell can run without it */
	char found[TEXT_MAX], todo[TEXT_MAX];
};

struct doctor {
	bool json;
	struct ns_probe probe;
	struct check checks[CHECKS_MAX];
	size_t n;
};

/* Adds a row; advise() may add what to do about it. */
static struct check *__attribute__((format(printf, 4, 5)))
report(struct doctor *d, const char *name, enum state state, const char *fmt, ...)
{
	struct check *c = &d->checks[d->n++];
	va_list args;

	c->name = name;
	c->state = state;
	va_start(args, fmt);
	vsnprintf(c->found, sizeof(c->found), fmt, args);
	va_end(args);
	return c;
}

static void __attribute__((format(printf, 2, 3)))
advise(struct check *c, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(c->todo, sizeof(c->todo), fmt, args);
	va_end(args);
}

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

/* ---- the rows --------------------------------------------------------------- */

static bool
is_older(const char *release, const char *than)
{
	unsigned a = 0, b = 0, x = 0, y = 0;

	sscanf(release, "%u.%u", &a, &b);
	sscanf(than, "%u.%u", &x, &y);
	return a < x || (a == x && b < y);
}

static void
check_kernel(struct doctor *d)
{
	struct utsname name;
	struct check *c;

	uname(&name);
	if (is_older(name.release, KERNEL_LEAST)) {
		c = report(d, "kernel", MISSING, "Linux %s is too old", name.release);
		c->needed = true;
		advise(c, "use Linux %s or later", KERNEL_TRIED);
	} else if (is_older(name.release, KERNEL_TRIED)) {
		c = report(d, "kernel", LIMITED, "Linux %s is older than any that is tested",
		           name.release);
		advise(c, "use Linux %s or later", KERNEL_TRIED);
	} else {
		report(d, "kernel", OK, "Linux %s on %s", name.release, name.machine);
	}
}

#define CONTAINER_ADVICE \
	"start this container with `--security-opt seccomp=unconfined --security-opt unmask=ALL` (Podman) or " \
	"`--security-opt seccomp=unconfined --security-opt systempaths=unconfined` (Docker)"

static void
check_clone(struct doctor *d)
{
	struct check *c;

	if (d->probe.clone == 0) {
		report(d, "processes", OK, "clone3 and pidfds work");
		return;
	}
	c = report(d, "processes", MISSING, "clone3 with a pidfd fails: %s", why(d->probe.clone));
	c->needed = true;
	advise(c, "%s", doctor_in_container() ? CONTAINER_ADVICE :
	       "if this is a container, let its seccomp profile pass clone3");
}

#define APPARMOR_SETTING "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
#define APPARMOR_ADVICE \
	"as root install the profile that comes with cloister (cp share/doc/cloister/apparmor/cloister " \
	"of the installation, or contrib/apparmor/cloister of the source, to /etc/apparmor.d/, then " \
	"apparmor_parser -r /etc/apparmor.d/cloister), or lift the " \
	"restriction for all (sysctl -w kernel.apparmor_restrict_unprivileged_userns=0)"

/* Explains what most probably forbids user namespaces. */
static void
advise_userns(struct check *c, const struct ns_probe *p)
{
	if (read_setting("/proc/sys/user/max_user_namespaces", 1) == 0 || p->userns == ENOSPC)
		advise(c, "as root: sysctl -w user.max_user_namespaces=10000");
	else if (read_setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
		advise(c, "as root: sysctl -w kernel.unprivileged_userns_clone=1");
	else if (geteuid() != 0 && read_setting(APPARMOR_SETTING, 0) != 0)
		advise(c, APPARMOR_ADVICE);
	else if (p->userns == EINVAL)
		advise(c, "use a kernel that has CONFIG_USER_NS");
	else
		advise(c, "%s", doctor_in_container() ? CONTAINER_ADVICE : "if this is a container, allow it user "
		       "namespaces (seccomp and AppArmor profiles often forbid them)");
}

static void
check_userns(struct doctor *d)
{
	const struct ns_probe *p = &d->probe;
	struct check *c;

	if (p->userns == 0 && p->maps == 0 && p->tmpfs == 0 && p->others == 0) {
		report(d, "user namespaces", OK, "a cell's namespaces can be made by %s",
		       geteuid() == 0 ? "root" : "this user");
		return;
	}
	if (p->userns != 0)
		c = report(d, "user namespaces", MISSING, "cannot make one: %s", why(p->userns));
	else if (p->maps != 0)
		c = report(d, "user namespaces", MISSING, "cannot map ids into one: %s", why(p->maps));
	else if (p->tmpfs > 0)
		c = report(d, "user namespaces", MISSING, "one can be made, but nothing mounted in it: %s",
		           why(p->tmpfs));
	else if (p->others > 0)
		c = report(d, "user namespaces", MISSING, "the other namespaces cannot be made in one: %s",
		           why(p->others));
	else
		c = report(d, "user namespaces", MISSING, "a process in one was killed");
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
check_apparmor(struct doctor *d)
{
	long restricted = read_setting(APPARMOR_SETTING, -1);
	struct check *c;

	if (restricted <= 0)
		report(d, "apparmor", OK, "does not restrict user namespaces%s",
		       restricted < 0 ? " here" : "");
	else if (geteuid() == 0 ? has_apparmor_profile() : d->probe.tmpfs == 0)
		report(d, "apparmor", OK, "restricts user namespaces, and lets cloister pass");
	else if (geteuid() == 0) {
		c = report(d, "apparmor", LIMITED, "restricts user namespaces: the processes that carry a cell's "
		           "requests, which are not root, keep the host's files in sight, and Landlock alone "
		           "keeps them from reading these");
		advise(c, APPARMOR_ADVICE);
	} else {
		c = report(d, "apparmor", MISSING, "restricts user namespaces of ordinary users");
		advise(c, APPARMOR_ADVICE);
	}
}

/* Whether NAME was tried, which needs user namespaces. */
static bool
is_tried(struct doctor *d, const char *name, int result)
{
	if (result == NS_PROBE_NOT_TRIED)
		report(d, name, MISSING, "not tried, without user namespaces");
	return result != NS_PROBE_NOT_TRIED;
}

static void
check_overlay(struct doctor *d)
{
	const struct ns_probe *p = &d->probe;
	struct check *c;

	if (!is_tried(d, "overlay workspaces", p->overlay))
		return;
	if (p->overlay == 0 && p->user_xattr == 0) {
		report(d, "overlay workspaces", OK, "changes are kept apart, within the cell's --disk");
	} else if (p->user_xattr == EOPNOTSUPP) {
		c = report(d, "overlay workspaces", LIMITED, "this kernel's tmpfs has no user attributes, "
		           "so changes are kept in the state folder, and --disk does not count them");
		advise(c, "use Linux 6.6 or later");
	} else {
		c = report(d, "overlay workspaces", MISSING, "overlayfs cannot be mounted in a user "
		           "namespace: %s", why(p->overlay));
		if (p->overlay == ENODEV)
			advise(c, "as root: modprobe overlay; or give workspaces as -w DIR:ro or DIR:rw");
		else
			advise(c, "give workspaces as -w DIR:ro or -w DIR:rw");
	}
}

static void
check_idmap(struct doctor *d)
{
	struct check *c;

	if (d->probe.idmap == 0) {
		report(d, "id-mapped mounts", OK, "root's grants appear as the agent's own");
	} else if (d->probe.idmap == NS_PROBE_NOT_TRIED) {
		report(d, "id-mapped mounts", OK, "not needed by an ordinary user's cells");
	} else {
		c = report(d, "id-mapped mounts", LIMITED, "the file system of /usr has none: %s",
		           why(d->probe.idmap));
		advise(c, "grant paths on ext4, xfs or btrfs, or start cells as the paths' owner");
	}
}

static void
check_cgroup(struct doctor *d)
{
	struct cgroup_report r;
	struct check *c;

	cgroup_examine(&r);
	c = report(d, "cgroups", r.enforceable == 0 ? MISSING :
	           r.enforceable == CGROUP_ALL && *r.todo == '\0' ? OK : LIMITED, "%s", r.text);
	advise(c, "%s", r.todo);
	if (r.can_freeze) {
		report(d, "freezer", OK, "cells can be frozen, and killed as a whole");
		return;
	}
	c = report(d, "freezer", LIMITED, "cells cannot be frozen: `cloister freeze` fails, a request that asks "
	           "with `freeze: true` is refused, and where a policy says `freeze`, the cell is killed");
	advise(c, "%s", r.todo);
}

static void
check_seccomp(struct doctor *d)
{
	static const struct {
		unsigned action;
		const char *name;
	} actions[] = {
		{ SECCOMP_RET_KILL_PROCESS, "killing" }, { SECCOMP_RET_ERRNO, "refusing" },
		{ SECCOMP_RET_USER_NOTIF, "notifying" },
	};
	struct check *c;

	for (size_t i = 0; i < ARRAY_LEN(actions); i++) {
		if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i].action) == 0)
			continue;
		c = report(d, "seccomp", MISSING, "filters of system calls have no %s: %s",
		           actions[i].name, why(errno));
		c->needed = actions[i].action != SECCOMP_RET_USER_NOTIF;
		advise(c, "use a kernel that has CONFIG_SECCOMP_FILTER");
		return;
	}
	report(d, "seccomp", OK, "filters of system calls work");
}

static void
check_landlock(struct doctor *d)
{
	int abi = landlock_abi();
	struct check *c;

	if (abi >= 6) {
		report(d, "landlock", OK, "version %d: a second layer for files, signals and sockets", abi);
		return;
	}
	if (abi > 0) {
		c = report(d, "landlock", LIMITED, "version %d: a second layer for files, not for signals "
		           "and abstract sockets", abi);
		advise(c, "use Linux 6.12 or later");
		return;
	}
	c = report(d, "landlock", MISSING, "there is no second layer behind the cell's mounts");
	advise(c, "use a kernel that has CONFIG_SECURITY_LANDLOCK, with landlock in its lsm= list");
}

static void
check_nftables(struct doctor *d)
{
	struct check *c;

	if (!is_tried(d, "nftables", d->probe.nftables))
		return;
	if (d->probe.nftables == 0) {
		report(d, "nftables", OK, "policies can be enforced: what cells send is captured, %s",
		       d->probe.ipv6 == 0 ? "IPv4 and IPv6" : "IPv4 (this machine has no IPv6)");
		return;
	}
	c = report(d, "nftables", MISSING, "policies cannot be enforced, because what cells send "
	           "cannot be captured: %s", why(d->probe.nftables));
	advise(c, "as root: modprobe -a nf_tables nft_chain_nat nft_nat nft_tproxy nft_ct nft_reject_ipv4 "
	          "nft_reject_ipv6; cells without a policy have no network and need none");
}

static void
check_pty(struct doctor *d)
{
	struct check *c;

	if (!is_tried(d, "terminals", d->probe.pty))
		return;
	if (d->probe.pty == 0) {
		report(d, "terminals", OK, "cells have terminals of their own");
		return;
	}
	c = report(d, "terminals", MISSING, "a cell cannot have terminals of its own: %s",
	           why(d->probe.pty));
	c->needed = true;
	advise(c, "use a kernel that has CONFIG_UNIX98_PTYS");
}

/* Each part may work and the whole fail, so the last test is a real cell. */
static void
check_cell(struct doctor *d)
{
	char text[DOCTOR_WHY_MAX];
	struct check *c;
	int r;

	for (size_t i = 0; i < d->n; i++)
		if (d->checks[i].needed && d->checks[i].state == MISSING) {
			report(d, "a real cell", MISSING, "not tried, because '%s' is missing", d->checks[i].name);
			return;
		}
	r = doctor_try_cell(text);
	if (r == 0) {
		report(d, "a real cell", OK, "`cloister run -- true` works");
		return;
	}
	c = report(d, "a real cell", MISSING, "`cloister run -- true` fails: %s", r < 0 ? why(-r) : text);
	c->needed = true;
	if (doctor_in_container())
		advise(c, CONTAINER_ADVICE);
}

static void
check_kvm(struct doctor *d)
{
	struct kvm_report kvm;
	int r = kvm_probe(&kvm);

	if (r < 0)
		advise(report(d, "kvm", LIMITED, "not tried, because no process could be started: %s; nothing uses it yet",
		              why(-r)), "see 'processes'");
	else
		advise(report(d, "kvm", kvm.state == KVM_USABLE ? OK : MISSING, "%s; nothing uses it yet", kvm.found), "%s",
		       kvm.todo);
}

static void
check_core(struct doctor *d)
{
	OWN(freep) char *text = NULL;

	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", 4096, &text, NULL, NULL) < 0)
		return;
	text[strcspn(text, " \n")] = '\0';
	if (text[0] == '|')
		report(d, "crashes", OK, "this machine hands crashes to '%s'; cells' crashes are kept "
		       "from it", text + 1);
	else
		report(d, "crashes", OK, "no program of this machine is run for a crash");
}

/* ---- showing it ------------------------------------------------------------- */

/* Prints the text in lines of at most WIDTH from column INDENT on; 0 means one line. */
static void
print_wrapped(const char *text, int indent, int width)
{
	int column = indent;
	size_t len;

	for (const char *p = text; *p != '\0'; p += len) {
		p += strspn(p, " ");
		len = strcspn(p, " ");
		if (width > 0 && column > indent && column + 1 + (int)len > width) {
			printf("\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		text_print_safe(stdout, p, len, false);
		column += (int)len;
	}
	putchar('\n');
}

static void
print_table(const struct doctor *d)
{
	static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
	bool colour = text_wants_colour(stdout);
	struct winsize window = {0};
	int name_width = 0, width, indent;

	for (size_t i = 0; i < d->n; i++)
		if ((int)strlen(d->checks[i].name) > name_width)
			name_width = (int)strlen(d->checks[i].name);
	indent = 9 + name_width + 2;
	width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > indent + 20 ?
	        window.ws_col : 0;
	for (size_t i = 0; i < d->n; i++) {
		const struct check *c = &d->checks[i];

		printf("%s%-7s%s  %-*s  ", colour ? colours[c->state] : "", state_names[c->state],
		       colour ? "\033[0m" : "", name_width, c->name);
		print_wrapped(c->found, indent, width);
		if (c->todo[0] != '\0') {
			printf("%*s-> ", indent, "");
			print_wrapped(c->todo, indent + 3, width);
		}
	}
}

static const struct check *
find_obstacle(const struct doctor *d)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->checks[i].needed && d->checks[i].state == MISSING)
			return &d->checks[i];
	return NULL;
}

static void
print_json(const struct doctor *d)
{
	const struct check *obstacle = find_obstacle(d);
	struct json out = { .out = stdout };

	json_open(&out, NULL, '{');
	json_bool(&out, "can_run", obstacle == NULL);
	json_str(&out, "obstacle", obstacle != NULL ? obstacle->name : NULL);
	json_open(&out, "checks", '[');
	for (size_t i = 0; i < d->n; i++) {
		const struct check *c = &d->checks[i];

		json_open(&out, NULL, '{');
		json_str(&out, "name", c->name);
		json_str(&out, "state", state_names[c->state]);
		json_str(&out, "found", c->found);
		json_str(&out, "todo", c->todo[0] != '\0' ? c->todo : NULL);
		json_close(&out, '}');
	}
	json_close(&out, ']');
	json_close(&out, '}');
	putchar('\n');
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct doctor *d = arg;

	(void)option;
	(void)value;
	(void)err;
	d->json = true;
	return 0;
}

static void
examine(struct doctor *d)
{
	static void (*const rows[])(struct doctor *) = {
		check_kernel, check_clone, check_userns, check_apparmor, check_overlay, check_idmap,
		check_cgroup, check_seccomp, check_landlock, check_pty, check_core, check_nftables,
		check_kvm, check_cell,
	};

	ns_probe_run(&d->probe);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		rows[i](d);
}

int
cmd_doctor(int argc, char **argv)
{
	struct doctor d = {0};
	const struct check *obstacle;
	struct err err = {0};
	int rest;

	if (cli_parse(cli_doctor_options, argc, argv, true, take_option, &d, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'doctor' takes no argument: '%s'", argv[rest]);
	examine(&d);
	obstacle = find_obstacle(&d);
	if (d.json) {
		print_json(&d);
	} else {
		print_table(&d);
		if (obstacle == NULL)
			printf("\nCells can run here.\n");
		else
			printf("\nCells cannot run here: see '%s'.\n", obstacle->name);
	}
	return obstacle == NULL ? 0 : 1;
}
