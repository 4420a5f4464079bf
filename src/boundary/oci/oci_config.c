/* oci_config.c - the bundle's config.json: a cell's description in the words of the OCI runtime specification.
 *
 * Two promises are not in it, because cloister-init and the cgroup around the runtime keep them, with every
 * runtime alike: the system-call filter with Landlock, and the limits. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "boundary/oci/oci.h"
#include "cell/cell_net.h"
#include "confine/filter.h"
#include "ipc/init_channel.h"

#define VERSION "1.0.2"

static void
put_mount(struct json *w, const char *at, const char *type, const char *source, const char *const *options)
{
	json_open(w, NULL, '{');
	json_str(w, "destination", at);
	json_str(w, "type", type);
	json_str(w, "source", source);
	json_strv(w, "options", options);
	json_close(w, '}');
}

/* Shows a place of the tree again where it is. */
static int
put_bind(struct json *w, const char *at, bool writable)
{
	const char *const options[] = { "rbind", "nosuid", "nodev", writable ? "rw" : "ro", NULL };
	OWN(freep) char *source = str_format("/" OCI_TREE "%s", at);

	if (source != NULL)
		put_mount(w, at, "bind", source, options);
	return source == NULL ? -ENOMEM : 0;
}

static int
put_mounts(struct json *w, const struct ns_plan *plan, const struct oci *oci)
{
	static const char *const places[] = { "/dev/shm", "/var/tmp", "/home/agent", "/tmp" };
	static const char *const devices[] = { "rbind", "nosuid", "noexec", "ro", NULL };
	static const char *const proc[] = { "nosuid", "nodev", "noexec", NULL };
	OWN(freep) char *owner = str_format("uid=%u", plan->spec->root ? 0 : CELL_AGENT_ID);
	const char *const ssh[] = { "nosuid", "nodev", "noexec", "mode=0755", "size=64k", owner, NULL };
	const struct oci_runtime *runtime = oci->runtime;
	int r = owner == NULL ? -ENOMEM : 0;

	json_open(w, "mounts", '[');
	put_mount(w, "/proc", "proc", "proc", proc);
	/* A sandbox has devices of its own. */
	if (r == 0 && !runtime->is_sandbox)
		put_mount(w, "/dev", "bind", "/" OCI_TREE "/dev", devices);
	for (size_t i = 0; r == 0 && !runtime->shows_tree && i < ARRAY_LEN(places); i++)
		r = put_bind(w, places[i], true);
	for (size_t i = 0; r == 0 && !runtime->shows_tree && i < plan->spec->n_grants; i++)
		r = put_bind(w, plan->spec->grants[i].cell, plan->spec->grants[i].access != CELL_READ);
	if (r == 0 && plan->spec->known_hosts[0] != '\0')
		put_mount(w, "/" OCI_SSH, "tmpfs", "tmpfs", ssh);
	json_close(w, ']');
	return r;
}

static void
put_limits(struct json *w)
{
	static const struct { int what; const char *name; } rows[] = {
		{ RLIMIT_NOFILE, "RLIMIT_NOFILE" }, { RLIMIT_CORE, "RLIMIT_CORE" }, { RLIMIT_STACK, "RLIMIT_STACK" },
		{ RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING" },
	};
	struct rlimit now;

	json_open(w, "rlimits", '[');
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (getrlimit(rows[i].what, &now) < 0)
			continue;
		json_open(w, NULL, '{');
		json_str(w, "type", rows[i].name);
		json_u64(w, "soft", now.rlim_cur);
		json_u64(w, "hard", now.rlim_max);
		json_close(w, '}');
	}
	json_close(w, ']');
}

/* See become_init() of the namespace boundary. */
static void
put_args(struct json *w, const struct ns_plan *plan, const struct oci *oci)
{
	const struct cell_spec *agents = oci->agents;
	/* With init.  The cgroup's limit should apply first, because it counts how often it did.  But a sandbox dies
	 * if it gets no more threads. */
	const uint64_t most = agents->limits.pids + 1 + (plan->pids_limited && !oci->runtime->is_sandbox ? 64 : 0);
	const struct cell_limits *limits = &agents->limits;
	const char filter[] = { (char)('0' + ns_choose_filter(agents)), '\0' };
	char over[24], flags[12], processes[24];

	snprintf(over, sizeof(over), "%llu", (unsigned long long)cell_limits_over_ms(limits->time_ms, limits->ttl_ms));
	snprintf(flags, sizeof(flags), "%c%c%s%s%s%s", INIT_IN_CONTAINER, INIT_BY_STREAM,
	         oci->runtime->is_sandbox ? (char[]){ INIT_IN_SANDBOX, '\0' } : "",
	         oci_names_agent(agents) ? (char[]){ INIT_NAMES_AGENT, '\0' } : "",
	         agents->known_hosts[0] != '\0' ? (char[]){ INIT_HAS_SSH, '\0' } : "",
	         agents->profile == CELL_PROFILE_NESTED ? (char[]){ INIT_IS_NESTED, '\0' } : "");
	snprintf(processes, sizeof(processes), "%llu", (unsigned long long)most);
	json_open(w, "args", '[');
	json_str(w, NULL, "/" OCI_INIT);
	json_str(w, NULL, filter);
	json_str(w, NULL, over);
	json_str(w, NULL, flags);
	json_str(w, NULL, processes);
	for (size_t i = 0; ns_writable[i] != NULL; i++)
		json_str(w, NULL, ns_writable[i]);
	for (size_t i = 0; i < agents->n_grants; i++)
		if (agents->grants[i].access != CELL_READ)
			json_str(w, NULL, agents->grants[i].cell);
	json_close(w, ']');
}

static void
put_process(struct json *w, const struct ns_plan *plan, const struct oci *oci)
{
	static const char *const sets[] = { "bounding", "effective", "inheritable", "permitted", "ambient" };
	/* Without this one, Linux lets nobody give root another name in a new user namespace. */
	static const char *const naming[] = { "CAP_SETFCAP", NULL }, *const none[] = { NULL };

	json_open(w, "process", '{');
	json_bool(w, "terminal", false);
	json_open(w, "user", '{');
	json_u64(w, "uid", plan->spec->root ? 0 : CELL_AGENT_ID);
	json_u64(w, "gid", plan->spec->root ? 0 : CELL_AGENT_ID);
	json_close(w, '}');
	put_args(w, plan, oci);
	json_open(w, "env", '[');
#ifdef CLOISTER_MUTANT
	const char *off = getenv("CLOISTER_OFF");
	OWN(freep) char *variable = off == NULL ? NULL : str_format("CLOISTER_OFF=%s", off);
	if (variable != NULL)
		json_str(w, NULL, variable);
#endif
	json_close(w, ']');
	json_str(w, "cwd", "/");
	json_bool(w, "noNewPrivileges", CONTROL_ON("nnp"));
	json_open(w, "capabilities", '{');
	for (size_t i = 0; i < ARRAY_LEN(sets); i++)
		json_strv(w, sets[i], oci_names_agent(oci->agents) ? naming : none);
	json_close(w, '}');
	put_limits(w);
	json_close(w, '}');
}

static void
put_linux(struct json *w, const struct cell_spec *agents)
{
	static const char *const own[] = { "pid", "mount", "ipc", "uts", "cgroup" };

	json_open(w, "linux", '{');
	json_open(w, "namespaces", '[');
	for (size_t i = 0; i < ARRAY_LEN(own); i++) {
		json_open(w, NULL, '{');
		json_str(w, "type", own[i]);
		json_close(w, '}');
	}
	json_open(w, NULL, '{');
	json_str(w, "type", "network");
	json_str(w, "path", OCI_NET);
	json_close(w, '}');
	json_close(w, ']');
	if (agents->profile != CELL_PROFILE_NESTED && CONTROL_ON("proc-mask")) {
		json_open(w, "maskedPaths", '[');
		for (size_t i = 0; ns_masked(i) != NULL; i++)
			json_raw(w, NULL, "\"/%s\"", ns_masked(i));
		if (CONTROL_ON("boot-id"))
			json_str(w, NULL, "/proc/sys/kernel/random/boot_id");
		json_close(w, ']');
		json_open(w, "readonlyPaths", '[');
		json_str(w, NULL, "/proc/sys");
		json_close(w, ']');
	}
	json_close(w, '}');
}

int
oci_write_config(const struct ns_plan *plan, const struct oci *oci, int bundle, struct err *err)
{
	OWN(closep) int fd = openat(bundle, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	struct json w = { .out = out };
	int r;

	if (out == NULL)
		return err_errno(err, "cannot make the container's config.json");
	fd = -1;
	json_open(&w, NULL, '{');
	json_str(&w, "ociVersion", VERSION);
	put_process(&w, plan, oci);
	json_open(&w, "root", '{');
	json_str(&w, "path", "/" OCI_TREE);
	/* The tree is read-only, nosuid and nodev already.  To make it read-only, runc would mount it again, without the
	 * other two.  crun does that in any case. */
	json_bool(&w, "readonly", !oci->runtime->keeps_flags);
	json_close(&w, '}');
	json_str(&w, "hostname", oci->agents->hostname);
	r = put_mounts(&w, plan, oci);
	put_linux(&w, oci->agents);
	json_close(&w, '}');
	if (fclose(out) != 0)
		return err_errno(err, "cannot write the container's config.json");
	return r < 0 ? err_set(err, -r, "out of memory") : 0;
}
