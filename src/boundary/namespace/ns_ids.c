/* ns_ids.c - maps user and group ids between the cell and the host.
 *
 * An ordinary user's cell has one user: the agent, who is that user outside.  Root's cell has a
 * range of ids of its own that belong to nobody outside.  The paths it is granted are id-mapped, so
 * that their owner is the agent inside. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "cell/cell_dirs.h"

/* Whether this process is root in the initial user namespace.  Root inside another user namespace
 * has no such range, and is an ordinary user outside. */
static bool
is_real_root(void)
{
	OWN(freep) char *map = NULL;
	unsigned inner, outer, size;

	return geteuid() == 0 &&
	       read_file_at(AT_FDCWD, "/proc/self/uid_map", 4096, &map, NULL, NULL) == 0 &&
	       sscanf(map, "%u %u %u", &inner, &outer, &size) == 3 &&
	       inner == 0 && size > NS_RANGE_FIRST + CELL_SLOTS * NS_RANGE_SIZE;
}

/* A supervisor asks several times, and stays who it is. */
bool
ns_has_range(void)
{
	static enum { UNKNOWN, NO, YES } known;

	if (known == UNKNOWN)
		known = is_real_root() ? YES : NO;
	return known == YES;
}

void
ns_choose_ids(struct ns_plan *plan)
{
	plan->range = ns_has_range();
	plan->base = NS_RANGE_FIRST + plan->ground->slot * NS_RANGE_SIZE;
}

static int
write_map(int proc, const char *file, unsigned inner, unsigned outer, unsigned size,
          struct err *err)
{
	return write_filef_at(proc, file, err, "%u %u %u\n", inner, outer, size);
}

static int
open_proc(pid_t pid, struct err *err)
{
	char path[32];
	int proc;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	proc = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return proc >= 0 ? proc : err_errno(err, "cannot open '%s'", path);
}

int
ns_write_maps(const struct ns_plan *plan, pid_t child, struct err *err)
{
	OWN(closep) int proc = open_proc(child, err);
	int r;

	if (proc < 0)
		return proc;
	if (plan->range) {
		unsigned base = CONTROL_ON("userns-range") ? plan->base : 0;

		r = write_map(proc, "uid_map", 0, base, NS_RANGE_SIZE, err);
		return r < 0 ? r : write_map(proc, "gid_map", 0, base, NS_RANGE_SIZE, err);
	}
	r = write_file_at(proc, "setgroups", "deny", err);
	if (r == 0)
		r = write_map(proc, "uid_map", cell_spec_uid(plan->spec), geteuid(), 1, err);
	if (r == 0)
		r = write_map(proc, "gid_map", cell_spec_gid(plan->spec), getegid(), 1, err);
	return r < 0 ? err_wrap(err, "cannot map the agent's user id (see `cloister doctor`)") : 0;
}

struct id_map {
	unsigned uid, gid, to, size;    /* as on disk, as ids outside the cell */
	/* Of a whole range: AGENT changes places with these two. */
	unsigned agent, agent_uid, agent_gid;
};

/* With A and B in each other's place. */
static int
write_swapped(int proc, const char *file, const struct id_map *map, unsigned a, unsigned b, struct err *err)
{
	const unsigned low = a < b ? a : b, high = a < b ? b : a;
	const struct { unsigned first, size, to; } parts[] = {
		{ 0, low, 0 }, { low, 1, high }, { low + 1, high - low - 1, low + 1 }, { high, 1, low },
		{ high + 1, map->size - high - 1, high + 1 },
	};
	char text[160];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i].size > 0)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%u %u %u\n", parts[i].first,
			                        map->to + parts[i].to, parts[i].size);
	return write_file_at(proc, file, text, err);
}

static int
write_id_map(int proc, const char *file, const struct id_map *map, unsigned first, unsigned other, struct err *err)
{
	return map->size == 1 || other == map->agent ? write_map(proc, file, first, map->to, map->size, err) :
	       write_swapped(proc, file, map, map->agent, other, err);
}

void
ns_reap_mapper(pid_t *mapper)
{
	if (*mapper > 0)
		waitpid(*mapper, NULL, 0);
	*mapper = 0;
}

static int
wait_for_end(void *arg)
{
	(void)arg;
	while (pause() < 0)
		;
	return 0;
}

/* Makes a user namespace that only serves as an id map.  Its process only waits to be killed, so it
 * shares this one's memory: copying that would take longer than all the rest.  It is reaped later, because its
 * death takes as long as the machine is busy. */
static int
make_map_ns(const struct id_map *map, pid_t *mapper, struct err *err)
{
	static char stack[8192] __attribute__((aligned(16)));
	OWN(closep) int proc = -1;
	pid_t pid;
	int ns = -1, r;

	/* It has the same stack. */
	ns_reap_mapper(mapper);
	pid = clone(wait_for_end, stack + sizeof(stack), CLONE_VM | CLONE_NEWUSER | SIGCHLD, NULL);
	if (pid < 0)
		return err_errno(err, "cannot make a user namespace");
	proc = open_proc(pid, err);
	r = proc < 0 ? proc : write_id_map(proc, "uid_map", map, map->uid, map->agent_uid, err);
	if (r == 0)
		r = write_id_map(proc, "gid_map", map, map->gid, map->agent_gid, err);
	if (r == 0) {
		ns = openat(proc, "ns/user", O_RDONLY | O_CLOEXEC);
		if (ns < 0)
			r = err_errno(err, "cannot open a user namespace");
	}
	kill(pid, SIGKILL);
	*mapper = pid;
	return r < 0 ? r : ns;
}

/* The last map that was made: most grants of a cell have one owner. */
struct last_map {
	struct id_map map;
	int ns;
	pid_t *mapper;
};

static int
map_mount(int mount, const char *path, const struct id_map *map, struct last_map *last,
          struct err *err)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_IDMAP };

	if (last->ns < 0 || memcmp(&last->map, map, sizeof(*map)) != 0) {
		closep(&last->ns);
		last->map = *map;
		last->ns = make_map_ns(map, last->mapper, err);
	}
	if (last->ns < 0)
		return last->ns;
	attr.userns_fd = (uint64_t)last->ns;
	if (mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return err_errno(err, "the file system of '%s' cannot be granted by root, because it "
		                 "has no id-mapped mounts (start the cell as the owner of '%s' instead)",
		                 path, path);
	return 0;
}

/* All ids; with those of an image's user and of the agent in each other's place. */
static struct id_map
range_of(const struct ns_plan *plan)
{
	const struct cell_image *image = &plan->spec->image;
	struct id_map map = { .uid = plan->spec->bundle.first_uid, .gid = plan->spec->bundle.first_gid, .to = plan->base,
	                      .size = NS_RANGE_SIZE, .agent = plan->spec->root ? 0 : CELL_AGENT_ID };

	map.agent_uid = map.agent_gid = map.agent;
	/* In a build, the agent is that user itself. */
	if (image->layers != NULL && !image->build) {
		map.agent_uid = image->uid < NS_RANGE_SIZE ? image->uid : map.agent;
		map.agent_gid = image->gid < NS_RANGE_SIZE ? image->gid : map.agent;
	}
	return map;
}

/* Like mounts_copy_tree, without the mounts below: each would need a map of its own file system. */
static int
copy_mapped(const char *path, bool whole_range, const struct ns_plan *plan, struct last_map *last,
            struct err *err)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
	                        .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	OWN(closep) int at = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	OWN(closep) int mount = -1;
	struct id_map map;
	struct stat st;
	int r;

	if (at < 0 || fstat(at, &st) < 0)
		return err_errno(err, "cannot open '%s'", path);
	map = (struct id_map){ .uid = st.st_uid, .gid = st.st_gid,
		.to = plan->base + cell_spec_uid(plan->spec), .size = 1 };
	if (whole_range)
		map = range_of(plan);
	mount = open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (mount < 0)
		return err_errno(err, "cannot take the mount of '%s'", path);
	r = map_mount(mount, path, &map, last, err);
	return r < 0 ? r : TAKE_FD(mount);
}

/* Copies the folder for changes without a map: the supervisor made the inner root its owner. */
static int
copy_changes(struct ns_plan *plan, struct err *err)
{
	if (plan->ground->changes < 0)
		return 0;
	plan->changes = open_tree(plan->ground->changes, "",
	                          OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (plan->changes < 0)
		return err_errno(err, "cannot take the mount of the state folder");
	return 0;
}

/* Whether COPY, of one mount, has a file at PATH.  If the host has another mount there, this looks
 * beneath that mount, and may find the same folder. */
static bool
has_path(int copy, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	OWN(closep) int fd = (int)syscall(SYS_openat2, copy, path, &how, sizeof(how));

	return fd >= 0 || (errno != ENOENT && errno != ENOTDIR && errno != ELOOP);
}

static void
find_missing(struct ns_plan *plan, size_t grant)
{
	const char *host = plan->spec->grants[grant].host;
	size_t len = strcmp(host, "/") == 0 ? 0 : strlen(host);

	for (size_t i = 0; plan->ground->hidden[i] != NULL; i++) {
		const char *own = plan->ground->hidden[i];

		if (strncmp(own, host, len) == 0 && own[len] == '/' &&
		    !has_path(plan->grants[grant], own + len + 1))
			plan->not_in[grant] |= (uint16_t)(1u << i);
	}
}

/* A container's files keep their owners. */
static int
copy_bundle(struct ns_plan *plan, struct last_map *last, struct err *err)
{
	char *const *layers = plan->spec->bundle.layers;
	int mounts[CELL_BUNDLE_LAYERS_MAX], n = 0, r = 0;

	for (; r == 0 && layers[n] != NULL; n++) {
		mounts[n] = copy_mapped(layers[n], true, plan, last, err);
		r = mounts[n] < 0 ? mounts[n] : 0;
	}
	r = r == 0 ? ns_prepare_bundle(plan, mounts, err) : r;
	for (int i = 0; i < n; i++)
		closep(&mounts[i]);
	return r;
}

static int
copy_layers(struct ns_plan *plan, struct last_map *last, struct err *err)
{
	for (size_t i = 0; i < strv_len(plan->spec->image.layers); i++) {
		plan->layers[i] = copy_mapped(plan->spec->image.layers[i], true, plan, last, err);
		if (plan->layers[i] < 0)
			return plan->layers[i];
	}
	return 0;
}

int
ns_prepare_layers(struct ns_plan *plan, struct err *err)
{
	struct last_map last = { .ns = -1, .mapper = &plan->mapper };
	int r = copy_layers(plan, &last, err);

	closep(&last.ns);
	return r;
}

static int
copy_grants(struct ns_plan *plan, struct last_map *last, struct err *err)
{
	const bool is_bundle = plan->spec->bundle.layers != NULL;
	int r;

	for (size_t i = 0; i < plan->spec->n_grants; i++) {
		plan->grants[i] = copy_mapped(plan->spec->grants[i].host, is_bundle, plan, last, err);
		if (plan->grants[i] < 0)
			return plan->grants[i];
		find_missing(plan, i);
	}
	if (is_bundle)
		return copy_bundle(plan, last, err);
	r = copy_layers(plan, last, err);
	if (r < 0 || plan->spec->rootfs[0] == '\0')
		return r;
	plan->rootfs = copy_mapped(plan->spec->rootfs, true, plan, last, err);
	return plan->rootfs < 0 ? plan->rootfs : 0;
}

void
ns_clear_plan(struct ns_plan *plan)
{
	plan->rootfs = plan->changes = plan->bundle = plan->scratch = -1;
	for (size_t i = 0; i < CELL_GRANTS_MAX; i++)
		plan->grants[i] = -1;
	for (size_t i = 0; i < CELL_LAYERS_MAX; i++)
		plan->layers[i] = -1;
}

int
ns_prepare_grants(struct ns_plan *plan, struct err *err)
{
	struct last_map last = { .ns = -1, .mapper = &plan->mapper };
	int r;

	ns_clear_plan(plan);
	if (!plan->range || !CONTROL_ON("userns-range"))
		return 0;
	r = copy_grants(plan, &last, err);
	closep(&last.ns);
	return r < 0 ? r : copy_changes(plan, err);
}
