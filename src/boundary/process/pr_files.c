/* pr_files.c - the files of a cell without namespaces: its own folder, and what Landlock lets it reach of the machine's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/process/porter.h"
#include "boundary/process/pr.h"
#include "cell/cell_net.h"
#include "cell/cell_trust.h"
#include "confine/landlock.h"

/* Not the operator's own place for temporary files: a user of the cell's own may not get there. */
#define FOLDER "/tmp/cloister-cell-"

const char *
pr_folder(const char *id, char path[PR_FOLDER_MAX])
{
	snprintf(path, PR_FOLDER_MAX, FOLDER "%s", id);
	return path;
}

/* ---- the folder ---- */

static int
new_file(int dir, const char *name, struct err *err)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	/* Whatever the operator's umask is. */
	if (fd >= 0)
		(void)fchmod(fd, 0644);
	return fd >= 0 ? fd : err_errno(err, "cannot make the cell's '%s'", name);
}

static int
make_wgetrc(const struct pr_plan *plan, int etc, struct err *err)
{
	OWN(closep) int fd = new_file(etc, PR_WGETRC, err);

	return fd < 0 ? fd : dprintf(fd, "ca_certificate = %s/" PR_BUNDLE "\n", plan->etc) < 0 ?
	       err_errno(err, "cannot make the cell's '%s'", PR_WGETRC) : 0;
}

static int
make_trust(const struct pr_plan *plan, int etc, struct err *err)
{
	const struct boundary_trust *trust = plan->ground->trust;
	char hash[NS_SUBJECT_HASH + 1];
	OWN(closep) int ca = -1, bundle = -1, system = cell_trust_open();
	int r = ns_await_trust(trust->ready, hash, err);

	if (r == 0)
		r = ca = new_file(etc, PR_CA, err);
	if (r >= 0)
		r = bundle = new_file(etc, PR_BUNDLE, err);
	if (r >= 0)
		r = ns_write_trust(trust, ca, bundle, system, err);
	return r < 0 ? r : make_wgetrc(plan, etc, err);
}

/* Nobody else can have opened a folder that is new and private. */
int
pr_make_folder(const struct pr_plan *plan, struct walls *w, struct err *err)
{
	static const char *const names[] = { "home", "tmp" };
	const uid_t uid = plan->has_own_uid ? plan->uid : (uid_t)-1;
	OWN(closep) int dir = -1, home = -1, etc = -1;
	int r = 0;

	if (mkdir(plan->folder, 0700) < 0)
		return err_errno(err, "cannot make the cell's folder '%s'", plan->folder);
	dir = open(plan->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || mkdirat(dir, "etc", 0755) < 0 || fchmodat(dir, "etc", 0755, 0) < 0 || (etc = openat(dir, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		return err_errno(err, "cannot make the cell's folder '%s'", plan->folder);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (mkdirat(dir, names[i], 0700) < 0 || fchownat(dir, names[i], uid, uid, AT_SYMLINK_NOFOLLOW) < 0)
			return err_errno(err, "cannot make the cell's folder '%s/%s'", plan->folder, names[i]);
	home = openat(dir, "home", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (home < 0)
		return err_errno(err, "cannot open the cell's home");
	r = ns_fill_home(home, plan->spec, plan->has_own_uid ? plan->uid : geteuid(), err);
	if (r == 0 && plan->ground->trust != NULL)
		r = make_trust(plan, etc, err);
	if (r == 0)
		r = pr_make_places(plan, dir, uid, w, err);
	/* At its end, the porter removes what the cell's user owns. */
	if (r == 0 && (fchown(etc, uid, uid) < 0 || fchown(dir, uid, uid) < 0))
		r = err_errno(err, "cannot give the cell its folder");
	if (r == 0)
		w->folder = TAKE_FD(dir);
	return r;
}

/* ---- what it may reach ---- */

/* Of /etc, what belongs to packages, and what names users, hosts and services. */
static const char *const readable[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs",
	"/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/etc/ca-certificates/extracted",
	"/etc/crypto-policies", "/etc/fonts", "/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk",
	"/etc/java-25-openjdk", "/etc/maven", "/etc/services", "/etc/protocols", "/etc/mime.types", "/etc/passwd",
	"/etc/group", "/etc/hosts", "/etc/hostname", "/etc/nsswitch.conf", "/etc/resolv.conf", "/etc/host.conf",
	"/etc/gai.conf", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/debian_version", "/etc/alpine-release",
	"/etc/terminfo", "/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/inputrc", "/etc/wgetrc",
	"/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d", "/etc/ld-musl-x86_64.path", "/etc/ld-musl-aarch64.path",
};
/* The processes of the cell are in it, and the machine's. */
static const char *const looks[] = { "/proc", NULL };
static const char *const devices[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", NULL
};
/* For a terminal of its own, and a user that has no others. */
static const char *const devices_and_terminals[] = {
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts", NULL
};

void
pr_list_writable(const struct pr_plan *plan, const char **ret_list)
{
	size_t n = 0;

	ret_list[n++] = plan->home;
	ret_list[n++] = plan->tmp;
	for (size_t i = 0; i < plan->spec->n_grants; i++)
		if (plan->spec->grants[i].access != CELL_READ)
			ret_list[n++] = pr_is_out(&plan->spec->grants[i]) ? plan->out : plan->spec->grants[i].host;
	ret_list[n] = NULL;
}

int
pr_make_rulesets(const struct pr_plan *plan, int *ret_agents, int *ret_porters, struct err *err)
{
	const char *reads[ARRAY_LEN(readable) + CELL_GRANTS_MAX + 3] = {0}, *writable[PORTER_ROOTS_MAX + 1] = {0};
	/* The porter empties the cell's folder. */
	const char *porters[PORTER_ROOTS_MAX + 2] = { plan->folder };
	struct landlock_cell cell = { .readable = reads, .looks = looks, .writable = writable, .is_agent = true,
	                              .devices = plan->has_own_uid && plan->spec->tty ? devices_and_terminals : devices, .folder = "/tmp" };
	size_t n = ARRAY_LEN(readable);
	int r;

	memcpy(reads, readable, sizeof(readable));
	reads[n++] = plan->etc;
	reads[n++] = plan->capabilities;
	for (size_t i = 0; i < plan->spec->n_grants; i++)
		if (plan->spec->grants[i].access == CELL_READ && !pr_is_capability(&plan->spec->grants[i]))
			reads[n++] = plan->spec->grants[i].host;
	pr_list_writable(plan, writable);
	r = landlock_make_cell(&cell, ret_agents, err);
	if (r < 0)
		return r;
	landlock_allow_program(*ret_agents, plan->init_exe);
	memcpy(porters + 1, writable, sizeof(writable));
	cell.writable = porters;
	cell.is_agent = false;
	r = landlock_make_cell(&cell, ret_porters, err);
	if (r == 0)
		landlock_allow_program(*ret_porters, plan->init_exe);
	return r;
}
