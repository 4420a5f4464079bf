/* cgroup_life.c - reads, freezes, kills and removes a group. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>
#include <linux/magic.h>
#include <linux/sched.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

#define DESTROY_WAIT_MS 2000
#define KILL_ROUNDS_MAX 200
#define PRUNE_MAX       1024
#define NS_PER_US       1000L

static void
pause_us(long us)
{
	struct timespec t = { .tv_nsec = us * NS_PER_US };

	nanosleep(&t, NULL);
}

static const struct cgroup_part *
find_part(const struct cgroup *cg, int version, unsigned carries)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->parts[i].version == version &&
		    (cg->parts[i].carries & carries) == carries)
			return &cg->parts[i];
	return NULL;
}

int
cgroup_clone_fd(const struct cgroup *cg)
{
	const struct cgroup_part *v2 = find_part(cg, 2, 0);

	return v2 != NULL ? v2->inside : -1;
}

pid_t
cgroup_fork(const struct cgroup *cg)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int into = cgroup_clone_fd(cg);

	if (into < 0)
		return fork();
	args.flags = CLONE_INTO_CGROUP;
	args.cgroup = (uint64_t)into;
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

int
cgroup_enter_self(const struct cgroup *cg, struct err *err)
{
	for (size_t i = 0; i < cg->n; i++)
		if (cg->parts[i].version == 1 && write(cg->parts[i].tasks, "0", 1) != 1)
			return err_errno(err, "cannot enter '%s'", cg->parts[i].path);
	return 0;
}

int
cgroup_enter(const struct cgroup *cg, pid_t pid, struct err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%d", (int)pid);
	for (size_t i = 0; i < cg->n; i++) {
		const struct cgroup_part *p = &cg->parts[i];
		int r = cgroup_put(p->inside, "cgroup.procs", text);

		if (r < 0)
			return err_set(err, -r, "cannot put process %d into '%s': %s", (int)pid,
			               p->path, strerrordesc_np(-r));
	}
	return 0;
}

static uint64_t
read_number(const struct cgroup_part *p, const char *file)
{
	char text[CGROUP_FILE_MAX];

	return p != NULL && cgroup_get(p->dir, file, text) ? strtoull(text, NULL, 10) : 0;
}

static uint64_t
read_key(const struct cgroup_part *p, const char *file, const char *key)
{
	char text[CGROUP_FILE_MAX];

	return p != NULL && cgroup_get(p->dir, file, text) ? cgroup_parse_key(text, key) : 0;
}

bool
cgroup_counts_cpu(const struct cgroup *cg)
{
	return find_part(cg, 2, 0) != NULL || find_part(cg, 1, CGROUP_CPUACCT) != NULL;
}

static bool
read_pressure(const struct cgroup_part *p, const char *file, uint64_t *ret_pressure)
{
	char text[CGROUP_FILE_MAX];

	if (p == NULL || !cgroup_get(p->dir, file, text) || text[0] == '\0')
		return false;
	*ret_pressure = cgroup_parse_pressure(text);
	return true;
}

/* Only version 2 knows of pressure, in every group. */
static void
read_rest(const struct cgroup *cg, struct cgroup_usage *u)
{
	const struct cgroup_part *io = find_part(cg, 2, CGROUP_IO), *any = find_part(cg, 2, 0);
	char text[CGROUP_FILE_MAX] = "";

	if (io != NULL)
		u->has_io = cgroup_get(io->dir, "io.stat", text);
	else if ((io = find_part(cg, 1, CGROUP_IO)) != NULL)
		u->has_io = cgroup_get(io->dir, "blkio.throttle.io_service_bytes", text);
	if (u->has_io)
		cgroup_parse_io(text, &u->read, &u->written);
	u->has_pressure = read_pressure(any, "cpu.pressure", &u->pressure_cpu) &&
	                  read_pressure(any, "io.pressure", &u->pressure_io) &&
	                  read_pressure(any, "memory.pressure", &u->pressure_memory);
}

void
cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret_usage)
{
	const struct cgroup_part *memory = find_part(cg, 2, CGROUP_MEMORY);
	const struct cgroup_part *pids = find_part(cg, 2, CGROUP_PIDS);
	const struct cgroup_part *cpu = find_part(cg, 2, 0);
	struct cgroup_usage u = { 0 };

	if (memory != NULL) {
		u.memory = read_number(memory, "memory.current");
		u.memory_peak = read_number(memory, "memory.peak");
		u.oom_kills = read_key(memory, "memory.events", "oom_kill");
	} else {
		memory = find_part(cg, 1, CGROUP_MEMORY);
		u.memory = read_number(memory, "memory.usage_in_bytes");
		u.memory_peak = read_number(memory, "memory.max_usage_in_bytes");
		u.oom_kills = read_key(memory, "memory.oom_control", "oom_kill");
	}
	if (pids == NULL)
		pids = find_part(cg, 1, CGROUP_PIDS);
	u.pids = read_number(pids, "pids.current");
	u.pids_peak = read_number(pids, "pids.peak");
	u.pids_refused = read_key(pids, "pids.events", "max");
	/* v2 counts time in every group, whatever controllers it has. */
	if (cpu != NULL)
		u.cpu_us = read_key(cpu, "cpu.stat", "usage_usec");
	else
		u.cpu_us = read_number(find_part(cg, 1, CGROUP_CPUACCT), "cpuacct.usage") / 1000;
	read_rest(cg, &u);
	*ret_usage = u;
}

bool
cgroup_can_freeze(const struct cgroup *cg)
{
	return find_part(cg, 2, 0) != NULL || find_part(cg, 1, CGROUP_FREEZER) != NULL;
}

bool
cgroup_is_frozen(const struct cgroup *cg)
{
	const struct cgroup_part *p = find_part(cg, 2, 0);
	char text[CGROUP_FILE_MAX];

	if (p != NULL)
		return read_key(p, "cgroup.events", "frozen") == 1;
	p = find_part(cg, 1, CGROUP_FREEZER);
	return p != NULL && cgroup_get(p->dir, "freezer.state", text) && strncmp(text, "FROZEN", 6) == 0;
}

int
cgroup_freeze(const struct cgroup *cg, bool frozen, struct err *err)
{
	const struct cgroup_part *p = find_part(cg, 2, 0);
	int r = -ENOTSUP;

	if (p != NULL) {
		r = cgroup_put(p->dir, "cgroup.freeze", frozen ? "1" : "0");
	} else {
		p = find_part(cg, 1, CGROUP_FREEZER);
		if (p != NULL)
			r = cgroup_put(p->dir, "freezer.state", frozen ? "FROZEN" : "THAWED");
	}
	if (r < 0)
		return err_set(err, -r, "cannot %s the cell: %s", frozen ? "freeze" : "thaw",
		               p == NULL ? "it has no cgroup that can (`cloister doctor` shows why)" : strerrordesc_np(-r));
	return 0;
}

/* Sends SIGKILL to each process in DIR but the caller; returns how many there were. */
static size_t
kill_listed(int dir)
{
	OWN(closep) int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	char text[CGROUP_FILE_MAX];
	pid_t pid = 0;
	size_t found = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (text[i] >= '0' && text[i] <= '9') {
				pid = pid * 10 + (text[i] - '0');
				continue;
			}
			if (pid > 0 && pid != getpid()) {
				kill(pid, SIGKILL);
				found++;
			}
			pid = 0;
		}
	}
	return found;
}

void
cgroup_kill(const struct cgroup *cg)
{
	const struct cgroup_part *v2 = find_part(cg, 2, 0);
	const struct cgroup_part *list = v2 != NULL ? v2 : find_part(cg, 1, CGROUP_FREEZER);
	size_t found;

	if (cg->n == 0 || (v2 != NULL && cgroup_put(v2->dir, "cgroup.kill", "1") == 0))
		return;
	if (list == NULL)
		list = &cg->parts[0];
	/* Frozen processes cannot fork between the list and the signal; a child forked just before
	 * is in the next list. */
	for (int i = 0; i < KILL_ROUNDS_MAX; i++) {
		cgroup_freeze(cg, true, NULL);
		found = kill_listed(list->inside >= 0 ? list->inside : list->dir);
		cgroup_freeze(cg, false, NULL);
		if (found == 0)
			return;
		pause_us(500);
	}
}

/* The first group in DIR, opened, with its name; -1 if there is none. */
static int
open_child(int dir, char name[NAME_MAX + 1])
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_type != DT_DIR || strcmp(e->d_name, ".") == 0 ||
		    strcmp(e->d_name, "..") == 0)
			continue;
		snprintf(name, NAME_MAX + 1, "%s", e->d_name);
		return openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return -1;
}

/* Removes a deepest group under TOP (a cell may have made some); false if there is none or it
 * cannot be removed. */
static bool
prune_one(int top)
{
	int dir = fcntl(top, F_DUPFD_CLOEXEC, 3), child, below;
	char name[NAME_MAX + 1], next[NAME_MAX + 1];
	bool done = false;

	child = open_child(dir, name);
	while (child >= 0) {
		below = open_child(child, next);
		if (below < 0)
			done = unlinkat(dir, name, AT_REMOVEDIR) == 0;
		else
			memcpy(name, next, sizeof(name));
		close(dir);
		dir = child;
		child = below;
	}
	closep(&dir);
	return done;
}

/* Waits until the group holds no process, or the DEADLINE. */
static void
wait_until_empty(const struct cgroup_part *p, int64_t deadline)
{
	OWN(closep) int fd = openat(p->dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
	struct pollfd watch = { .fd = fd, .events = POLLPRI };
	char text[256];
	int64_t left;
	ssize_t n;

	while (fd >= 0 && (left = deadline - io_now_ms()) > 0) {
		n = pread(fd, text, sizeof(text) - 1, 0);
		if (n <= 0)
			return;
		text[n] = '\0';
		if (cgroup_parse_key(text, "populated") == 0)
			return;
		poll(&watch, 1, (int)left);
	}
}

static int
remove_part(const struct cgroup *cg, struct cgroup_part *p, int64_t deadline)
{
	long delay = 50;
	int r;

	for (bool first = true;; first = false) {
		if (p->version == 2)
			r = cgroup_v2_remove(p);
		else
			r = unlinkat(p->parent, cgroup_part_name(p), AT_REMOVEDIR) < 0 ? -errno : 0;
		if (r != -EBUSY)
			return r == -ENOENT ? 0 : r;
		if (io_now_ms() >= deadline)
			return r;
		if (first)
			cgroup_kill(cg);
		if (p->version == 2) {
			wait_until_empty(p, deadline);
			for (int i = 0; i < PRUNE_MAX && prune_one(p->dir); i++)
				;
		}
		/* v1 has no event, and v2's comes a moment before the group can be removed. */
		if (!first || p->version == 1) {
			pause_us(delay);
			delay = delay < 4000 ? delay * 2 : delay;
		}
	}
}

int
cgroup_destroy(struct cgroup *cg)
{
	int64_t deadline;
	int r = 0, one;

	if (cg == NULL)
		return 0;
	deadline = io_now_ms() + DESTROY_WAIT_MS;
	for (size_t i = 0; i < cg->n; i++) {
		one = remove_part(cg, &cg->parts[i], deadline);
		if (one < 0)
			r = one;
	}
	cgroup_free(cg);
	return r;
}

const char *
cgroup_paths(const struct cgroup *cg)
{
	return cg->paths;
}

/* PATH as a part of CG, if it is a cgroup that cloister made. */
static void
adopt_stale(struct cgroup *cg, char *path)
{
	OWN(closep) int parent = -1;
	OWN(closep) int dir = -1;
	char *name = strrchr(path, '/');
	struct cgroup_part *p;
	struct statfs fs;
	int version;

	if (cg->n == CGROUP_PARTS_MAX || name == NULL || name == path ||
	    !cgroup_is_cell_name(name + 1))
		return;
	*name = '\0';
	parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	*name = '/';
	if (parent >= 0)
		dir = openat(parent, name + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstatfs(dir, &fs) < 0)
		return;
	version = fs.f_type == CGROUP2_SUPER_MAGIC ? 2 : fs.f_type == CGROUP_SUPER_MAGIC ? 1 : 0;
	path = version != 0 ? strdup(path) : NULL;
	if (path == NULL)
		return;
	p = cgroup_add_part(cg, version);
	p->path = path;
	if (version == 1 && faccessat(dir, "freezer.state", F_OK, 0) == 0)
		p->carries = CGROUP_FREEZER;
	p->parent = TAKE_FD(parent);
	p->dir = TAKE_FD(dir);
	p->between = version == 2 && cgroup_v2_has_between(p->path);
}

/* One group with a part for each of PATHS plus SUFFIX; NULL without memory. */
static struct cgroup *
adopt_all(const char *paths, const char *suffix)
{
	OWN(freep) char *text = strdup(paths);
	struct cgroup *cg = calloc(1, sizeof(*cg));
	char *rest = text, *line;

	while (cg != NULL && (line = strsep(&rest, "\n")) != NULL) {
		OWN(freep) char *path = str_format("%s%s", line, suffix);

		if (path != NULL)
			adopt_stale(cg, path);
	}
	return cg;
}

static int
clear_one(const char *paths, const char *suffix)
{
	struct cgroup *cg = adopt_all(paths, suffix);

	return cg == NULL ? -ENOMEM : cgroup_destroy(cg);
}

int
cgroup_clear_stale(const char *paths)
{
	int r = clear_one(paths, CGROUP_HELPERS), own = clear_one(paths, "");

	return own < 0 ? own : r;
}

void
cgroup_kill_paths(const char *paths)
{
	OWN(cgroup_freep) struct cgroup *cg = adopt_all(paths, "");

	if (cg != NULL)
		cgroup_kill(cg);
}

/* ---- forgotten ---- */

#define FORGOTTEN_MAX 1024              /* examined in one run */

char *
cgroup_paths_of(const struct cgroup *cg, const char *id, const char *other)
{
	size_t len = strlen(id);
	char *paths = len == strlen(other) ? strdup(cgroup_paths(cg)) : NULL;

	for (char *at = paths; at != NULL && (at = strstr(at, id)) != NULL; at++)
		memcpy(at, other, len);
	return paths;
}

/* Whether the group was made or changed too lately to be forgotten. */
static bool
is_recent(int parent, const char *name)
{
	struct stat st;

	return fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	       st.st_mtime > time(NULL) - CGROUP_FORGOTTEN_S;
}

typedef char cell_id[CGROUP_ID_MAX + 1];

static bool
is_listed(const cell_id *ids, size_t n, const char *id, size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(ids[i], id, len) == 0)
			return true;
	return false;
}

/* Adds the ids, as long as ID, of other cells with a group in PARENT to the N in IDS.  A helpers'
 * group counts as its cell's. */
static size_t
list_cells(int parent, const char *id, cell_id *ids, size_t n)
{
	int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;

	while (d != NULL && n < FORGOTTEN_MAX && (e = readdir(d)) != NULL) {
		const char *at = strchr(e->d_name, '-');
		size_t len = at == NULL ? 0 : strcspn(at + 1, "-_");

		if (e->d_type == DT_DIR && cgroup_is_cell_name(e->d_name) && len == strlen(id) &&
		    strncmp(at + 1, id, len) != 0 &&
		    (at[1 + len] == '\0' || strcmp(at + 1 + len, CGROUP_HELPERS) == 0) &&
		    !is_listed(ids, n, at + 1, len) && !is_recent(parent, e->d_name))
			snprintf(ids[n++], sizeof(ids[0]), "%.*s", (int)len, at + 1);
	}
	return n;
}

static bool
is_empty(const struct cgroup *cg)
{
	char text[CGROUP_FILE_MAX];

	for (size_t i = 0; i < cg->n; i++) {
		const struct cgroup_part *p = &cg->parts[i];

		if (is_recent(p->parent, cgroup_part_name(p)))
			return false;
		if (p->version == 2 ? !cgroup_get(p->dir, "cgroup.events", text) ||
		                      cgroup_parse_key(text, "populated") != 0
		                    : !cgroup_get(p->dir, "cgroup.procs", text) || text[0] != '\0')
			return false;
	}
	return true;
}

/* A group that meanwhile got a process cannot be removed, and nothing is killed. */
static void
remove_empty(struct cgroup *cg)
{
	for (size_t i = 0; i < cg->n; i++) {
		struct cgroup_part *p = &cg->parts[i];

		for (int k = 0; p->version == 2 && k < PRUNE_MAX && prune_one(p->dir); k++)
			;
		if (p->version == 2)
			(void)cgroup_v2_remove(p);
		else
			(void)unlinkat(p->parent, cgroup_part_name(p), AT_REMOVEDIR);
	}
}

static void
clear_forgotten(const char *paths)
{
	OWN(cgroup_freep) struct cgroup *cell = adopt_all(paths, "");
	OWN(cgroup_freep) struct cgroup *helpers = adopt_all(paths, CGROUP_HELPERS);

	/* All or none: if one of the groups has a process, the cell runs or is ending. */
	if (cell == NULL || helpers == NULL || !is_empty(cell) || !is_empty(helpers))
		return;
	remove_empty(helpers);
	remove_empty(cell);
}

void
cgroup_clear_forgotten(const struct cgroup *cg, const char *id,
                       bool (*is_known)(void *arg, const char *id), void *arg)
{
	cell_id *ids = cg->n > 0 ? malloc(FORGOTTEN_MAX * sizeof(*ids)) : NULL;
	size_t n = 0;

	/* A group may exist in one hierarchy alone: a cell that was started elsewhere has other v1 groups. */
	for (size_t i = 0; ids != NULL && i < cg->n; i++)
		n = list_cells(cg->parts[i].parent, id, ids, n);
	for (size_t i = 0; i < n; i++) {
		OWN(freep) char *paths = is_known(arg, ids[i]) ? NULL : cgroup_paths_of(cg, id, ids[i]);

		if (paths != NULL)
			clear_forgotten(paths);
	}
	free(ids);
}
