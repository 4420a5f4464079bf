/* ns_etc.c - the generated /etc: enough for programs to find names, time zone, libraries and
 * certificates, and nothing that identifies this host. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "cell/cell_net.h"

/* The gate answers at once or never, but it may have to be started first. */
static const char gate_names[] = CELL_NET_GATE4 "\t" CELL_NET_GATE_NAME "\n"
                                 CELL_NET_GATE6 "\t" CELL_NET_GATE_NAME "\n";
static const char gate_resolver[] = "nameserver " CELL_NET_GATE4 "\n"
                                    "options timeout:2 attempts:3\n";

/* For people who wonder why names do not resolve. */
static const char no_resolver[] =
	"# This cell has no policy, and so no network: see `cloister help run`.\n"
	"# The supervisor answers here, at once, that there is no such name.\n"
	"nameserver " CELL_NET_NOBODY4 "\n";

/* OVER: replaces the files of a container, whose users and services are its own. */
static int
write_names(int etc, const struct cell_spec *spec, bool over, struct err *err)
{
	OWN(freep) char *hosts = str_format("127.0.0.1\tlocalhost %s\n::1\tlocalhost %s\n%s",
	                                    spec->hostname, spec->hostname,
	                                    spec->has_policy ? gate_names : "");
	OWN(freep) char *name = str_format("%s\n", spec->hostname);
	const unsigned uid = spec->engine != NULL ? cell_spec_uid(spec) : CELL_AGENT_ID;
	const unsigned gid = spec->engine != NULL ? cell_spec_gid(spec) : CELL_AGENT_ID;
	OWN(freep) char *users = str_format("root:x:0:0:root:/home/agent:/bin/sh\n"
	                                    "agent:x:%u:%u:agent:/home/agent:/bin/sh\n"
	                                    "nobody:x:65534:65534:nobody:/:/bin/false\n", uid, gid);
	OWN(freep) char *groups = str_format("root:x:0:\nagent:x:%u:\ntty:x:5:\nnogroup:x:65534:\n", gid);
	const struct { const char *file, *text; } files[] = {
		{ "hosts", hosts },
		{ "hostname", name },
		{ "resolv.conf", spec->has_policy ? gate_resolver : no_resolver },
		{ "passwd", users },
		{ "group", groups },
		{ "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"
		                   "services: files\nprotocols: files\n" },
	};
	const size_t n = over ? 3 : ARRAY_LEN(files);
	int r = 0;

	if (hosts == NULL || name == NULL || users == NULL || groups == NULL)
		return err_errno(err, "cannot make /etc");
	for (size_t i = 0; over && i < n; i++)
		if (unlinkat(etc, files[i].file, 0) < 0 && errno != ENOENT)
			return err_errno(err, "cannot replace /etc/%s", files[i].file);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = create_file_at(etc, files[i].file, 0644, files[i].text, err);
	return r;
}

int
ns_replace_names(int etc, const struct cell_spec *spec, struct err *err)
{
	return write_names(etc, spec, true, err);
}

/* The parts of the host's /etc that are code and data of its packages, not its own configuration. */
static const char *const shown[] = {
	"alternatives", "ld.so.cache", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs",
	"pki/ca-trust/extracted", "ca-certificates/extracted", "crypto-policies",
	"fonts", "java-11-openjdk", "java-17-openjdk", "java-21-openjdk", "java-25-openjdk",
	"chromium.d", "maven", "services", "protocols", "mime.types",
};

static bool
is_trust(const char *name)
{
	for (size_t i = 0; ns_trust_folders[i] != NULL; i++)
		if (strcmp(name, ns_trust_folders[i]) == 0)
			return true;
	return false;
}

/* Binds in the old way, which is a single call.  The working folder is the cell's root. */
static int
show_one(int host, int etc, const char *name, struct err *err)
{
	OWN(freep) char *parents = strdup(name);
	char link[256], from[64];
	struct stat st;
	ssize_t n;

	if (parents == NULL || fstatat(host, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	for (char *slash = parents; (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		if (mkdirat(etc, parents, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make /etc/%s", parents);
		*slash = '/';
	}
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(host, name, link, sizeof(link) - 1);
		if (n < 0)
			return 0;
		link[n] = '\0';
		if (symlinkat(link, etc, name) < 0)
			return err_errno(err, "cannot make /etc/%s", name);
		return 0;
	}
	if (S_ISDIR(st.st_mode) ? mkdirat(etc, name, 0755) < 0
	                        : mknodat(etc, name, S_IFREG | 0644, 0) < 0)
		return err_errno(err, "cannot make /etc/%s", name);
	snprintf(from, sizeof(from), "/etc/%s", name);
	if (mount(from, from + 1, NULL, MS_BIND | MS_REC, NULL) < 0)
		return err_errno(err, "cannot show '%s' in the cell", from);
	return 0;
}

/* Links the host's time zone, if it is one that every system has under /usr. */
static void
link_time_zone(int host, int etc)
{
	char link[256];
	ssize_t n = readlinkat(host, "localtime", link, sizeof(link) - 1);

	if (n > 0) {
		link[n] = '\0';
		if (strncmp(link, "/usr/share/zoneinfo/", 20) == 0)
			(void)!symlinkat(link, etc, "localtime");
	}
}

int
ns_make_etc(int root, const struct cell_spec *spec, struct err *err)
{
	OWN(closep) int host = -1, etc = -1;
	int r = 0;

	if (mkdirat(root, "etc", 0755) < 0)
		return err_errno(err, "cannot make /etc");
	etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0)
		return err_errno(err, "cannot make /etc");
	r = write_names(etc, spec, false, err);
	if (r < 0 || cell_spec_programs(spec) != CELL_PROGRAMS_HOST)
		return r;
	host = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (host < 0)
		return 0;
	link_time_zone(host, etc);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(shown); i++)
		/* With a policy these come later, with the cell's own authority in them. */
		if (!spec->has_policy || !is_trust(shown[i]))
			r = show_one(host, etc, shown[i], err);
	/* All of them with one call; then this file system, which still has to be filled, without it. */
	if (r == 0)
		r = mounts_set_attrs(root, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, true, err);
	return r < 0 ? r : mounts_make_writable(root, err);
}
