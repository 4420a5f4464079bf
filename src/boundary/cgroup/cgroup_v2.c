/* cgroup_v2.c - the part of a cell's group in the v2 hierarchy: finds a place for it, and sets its limits. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

/* The group between the one that was found and the cells'. */
#define BETWEEN "cloister"
/* Cloister's own processes move here if only they are in the way. */
#define ASIDE "cloister.aside"
/* An ordinary user's cell runs here, one level below its limits. */
#define INSIDE "cell"
#define INSIDE_GROUPS_MAX "64"

#define LEVELS_MAX 64
#define ASIDE_MAX  64
/* How often another cell may get in the way. */
#define TRIES_MAX    100
#define TRY_AGAIN_US 200

/* The directories from the mount point (level 0) down to the caller's own group. */
struct levels {
	char path[PATH_MAX];
	size_t end[LEVELS_MAX];
	size_t n;
};

static const struct {
	unsigned bit;
	const char *on, *off;
} controllers[] = {
	{ CGROUP_MEMORY, "+memory", "-memory" },
	{ CGROUP_CPUS,   "+cpu",    "-cpu"    },
	{ CGROUP_PIDS,   "+pids",   "-pids"   },
	{ CGROUP_IO,     "+io",     "-io"     },
};

static bool
find_levels(struct levels *l, const struct cgroup_hierarchy *h)
{
	const char *p;
	char *last;

	if (!cgroup_own_dir(h, l->path))
		return false;
	/* A process that stepped aside still belongs to the group above. */
	last = strrchr(l->path, '/');
	if (last != NULL && strcmp(last, "/" ASIDE) == 0)
		*last = '\0';
	p = l->path + strlen(h->point);
	for (l->n = 0; l->n < LEVELS_MAX; p = strchrnul(p + 1, '/')) {
		l->end[l->n++] = (size_t)(p - l->path);
		if (*p == '\0')
			return true;
	}
	return false;
}

static int
open_level(const struct levels *l, size_t i)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s", (int)l->end[i], l->path);
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* To start a process in a group below, the kernel requires write access to the cgroup.procs of the
 * common ancestor. */
static bool
may_divide(int dir, struct cgroup_making *m)
{
	if (faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) == 0 &&
	    faccessat(dir, "cgroup.procs", W_OK, AT_EACCESS) == 0)
		return true;
	if (errno != ENOENT)
		cgroup_note_failure(m, CGROUP_FAILED, errno);
	return false;
}

static unsigned
read_controllers(int dir, const char *file)
{
	char text[CGROUP_FILE_MAX];

	return cgroup_get(dir, file, text) ? cgroup_parse_controllers(text) : 0;
}

/* Turns on as much of WANT as possible for the children of level I, and on the levels above it as
 * far as permitted.  Returns the part of WANT that they have. */
static unsigned
offer(const struct levels *l, size_t i, unsigned want)
{
	OWN(closep) int dir = open_level(l, i);
	unsigned on, can;
	int r = 0;

	if (dir < 0)
		return 0;
	on = read_controllers(dir, "cgroup.subtree_control") & want;
	if (on == want || faccessat(dir, "cgroup.subtree_control", W_OK, AT_EACCESS) < 0)
		return on;
	can = read_controllers(dir, "cgroup.controllers") & want;
	if (can != want && i > 0)
		can |= offer(l, i - 1, want & ~can);
	for (size_t c = 0; c < ARRAY_LEN(controllers) && r != -EBUSY; c++) {
		if ((can & ~on & controllers[c].bit) == 0)
			continue;
		/* Some controllers can be on above processes, and would bar the others for good.
		 * Memory, the first, cannot. */
		r = cgroup_put(dir, "cgroup.subtree_control", controllers[c].on);
		if (r == 0)
			on |= controllers[c].bit;
	}
	return on;
}

/* Only the root group may have both processes and children with controllers. */
static bool
is_occupied(int dir)
{
	char text[CGROUP_FILE_MAX];

	return faccessat(dir, "cgroup.events", F_OK, 0) == 0 &&
	       (!cgroup_get(dir, "cgroup.procs", text) || text[0] != '\0');
}

/* What cannot be looked into, because it is locked down, is judged by its short name. */
static bool
is_named_ours(pid_t pid)
{
	char path[64], name[32] = "";
	OWN(closep) int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, name, sizeof(name) - 1) > 0 && strncmp(name, "cloister-", strlen("cloister-")) == 0;
}

static bool
is_ours(pid_t pid)
{
	char path[64], exe[PATH_MAX];
	const char *name;
	ssize_t n;

	if (pid == getpid())
		return true;
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	/* A process that is gone, or about to be, does not count. */
	if (n < 0 && (errno == ENOENT || errno == ESRCH))
		return pid > 0;
	if (pid > 0 && n < 0 && errno == EACCES)
		return is_named_ours(pid);
	if (pid <= 0 || n <= 0)
		return false;
	exe[n] = '\0';
	name = strrchr(exe, '/');
	return name != NULL && (strcmp(name, "/cloister") == 0 ||
	                        strncmp(name, "/cloister-", strlen("/cloister-")) == 0);
}

/* The processes in DIR; -EBUSY if there are too many to handle. */
static int
read_pids(int dir, pid_t pids[ASIDE_MAX])
{
	char text[CGROUP_FILE_MAX], *p = text;
	int n = 0;

	if (!cgroup_get(dir, "cgroup.procs", text))
		return -EBUSY;
	for (; *p != '\0'; p += strspn(p, "\n")) {
		if (n == ASIDE_MAX)
			return -EBUSY;
		pids[n++] = (pid_t)strtol(p, &p, 10);
	}
	return n;
}

static int
move_all(int to, const pid_t *pids, int n)
{
	int r = 0;

	for (int i = 0; i < n && (r == 0 || r == -ESRCH); i++)
		r = cgroup_putf(to, "cgroup.procs", "%d", (int)pids[i]);
	return r == -ESRCH ? 0 : r;
}

/* Opens and locks the group aside in DIR; -ENOENT if there is none and MADE is false.  Closing unlocks it. */
static int
lock_aside(int dir, bool made)
{
	struct stat seen, now;

	for (int i = 0; i < TRIES_MAX; i++) {
		OWN(closep) int fd = -1;

		/* Unreadable for others, who could otherwise lock it too. */
		if (made && mkdirat(dir, ASIDE, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(dir, ASIDE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && !made)
			return -errno;
		if (fd >= 0 && flock(fd, LOCK_EX) == 0 && fstat(fd, &seen) == 0 &&
		    fstatat(dir, ASIDE, &now, 0) == 0 && seen.st_ino == now.st_ino)
			return TAKE_FD(fd);
	}
	return -EBUSY;
}

/* Undoes step_aside().  ASIDE is locked. */
static void
step_back(int dir, int aside)
{
	pid_t pids[ASIDE_MAX];

	for (size_t c = 0; c < ARRAY_LEN(controllers); c++)
		cgroup_put(dir, "cgroup.subtree_control", controllers[c].off);
	if (move_all(dir, pids, read_pids(aside, pids)) == 0)
		unlinkat(dir, ASIDE, AT_REMOVEDIR);
}

/* In a service or container of its own, cloister may divide its group but is in it itself.  So it
 * moves its processes one level down.  It never moves anybody else's process. */
static int
step_aside(int dir, int aside)
{
	pid_t pids[ASIDE_MAX];
	int n = read_pids(dir, pids);

	for (int i = 0; i < n; i++)
		if (!is_ours(pids[i]))
			return -EBUSY;
	if (n < 0)
		return n;
	return move_all(aside, pids, n) < 0 ? -EAGAIN : 0;
}

/* A place where a cell's group can be. */
struct site {
	size_t level;
	int near;                       /* that level's directory */
	int aside;                      /* its lock; -1 if nothing stepped aside there */
	unsigned offered;               /* the limits that it can have there */
};

static void
site_close(struct site *site)
{
	closep(&site->near);
	closep(&site->aside);
	*site = (struct site){ .near = -1, .aside = -1 };
}

/* The nearest level that cloister may divide and that offers some of WANT; with WANT 0, or if none
 * does, the nearest.  -ENOENT if there is none. */
static int
find_site(const struct levels *l, unsigned want, struct cgroup_making *m,
          struct site *ret_site)
{
	OWN(site_close) struct site best = { .near = -1, .aside = -1 };

	for (size_t i = l->n; i-- > 0;) {
		OWN(site_close) struct site s = { .level = i, .near = open_level(l, i), .aside = -1 };

		if (s.near < 0 || !may_divide(s.near, m))
			continue;
		if (want != 0)
			s.aside = lock_aside(s.near, false);
		if (want != 0 && is_occupied(s.near))
			cgroup_note_failure(m, CGROUP_OCCUPIED, EBUSY);
		else
			s.offered = offer(l, i, want);
		if (s.offered == 0 && best.near >= 0)
			continue;
		site_close(&best);
		best = s;
		s = (struct site){ .near = -1, .aside = -1 };
		if (best.offered != 0 || want == 0)
			break;
		/* Only one is ever locked. */
		closep(&best.aside);
		best.aside = -1;
	}
	if (best.near < 0)
		return -ENOENT;
	*ret_site = best;
	best = (struct site){ .near = -1, .aside = -1 };
	return 0;
}

/* Makes SITE offer some of WANT if only cloister's own processes are in the way.  -EBUSY if others
 * are; -EAGAIN if one of its own is just ending. */
static int
clear_site(const struct levels *l, unsigned want, struct site *site)
{
	int r = 0;

	if ((read_controllers(site->near, "cgroup.controllers") & want) == 0)
		return -EBUSY;
	site->aside = lock_aside(site->near, true);
	if (site->aside < 0)
		return -EBUSY;
	if (is_occupied(site->near))
		r = step_aside(site->near, site->aside);
	if (r == 0)
		site->offered = offer(l, site->level, want);
	if (site->offered == 0)
		step_back(site->near, site->aside);
	return r == 0 && site->offered == 0 ? -EAGAIN : r;
}

/* Returns the group between, made and with the controllers on, or a negative errno. */
static int
open_between(int near, unsigned offered)
{
	OWN(closep) int dir = -1;
	char text[64] = "";
	int r;

	if (mkdirat(near, BETWEEN, 0755) < 0 && errno != EEXIST)
		return -errno;
	dir = openat(near, BETWEEN, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	for (size_t c = 0; c < ARRAY_LEN(controllers); c++)
		if ((offered & controllers[c].bit) != 0)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
			         controllers[c].on);
	r = cgroup_put(dir, "cgroup.subtree_control", text);
	return r < 0 ? r : TAKE_FD(dir);
}

/* Removes the group between with the last cell in it, and moves the processes back. */
static void
remove_between(int near)
{
	OWN(closep) int aside = lock_aside(near, false);

	if ((unlinkat(near, BETWEEN, AT_REMOVEDIR) == 0 || errno == ENOENT) && aside >= 0)
		step_back(near, aside);
}

/* Make the directory at SITE, and open it in P. */
static int
place(const struct levels *l, const struct site *site, const char *name,
      struct cgroup_part *p)
{
	OWN(closep) int between = -1;
	int parent = site->near;

	p->carries = site->offered;
	p->between = site->offered != 0;
	free(p->path);
	p->path = str_format("%.*s%s/%s", (int)l->end[site->level], l->path,
	                     p->between ? "/" BETWEEN : "", name);
	if (p->path == NULL)
		return -ENOMEM;
	if (p->between) {
		parent = between = open_between(site->near, site->offered);
		if (between < 0)
			return between;
	}
	/* An OCI runtime looks in here, which is root of the cell and nobody outside. */
	if (mkdirat(parent, name, 0755) < 0 || fchmodat(parent, name, 0711, 0) < 0)
		return -errno;
	p->parent = fcntl(parent, F_DUPFD_CLOEXEC, 3);
	p->dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->parent >= 0 && p->dir >= 0)
		return 0;
	unlinkat(parent, name, AT_REMOVEDIR);
	return -EMFILE;
}

/* Finds a site and takes it.  -EAGAIN if another cell ended meanwhile and removed the group between. */
static int
settle(const struct levels *l, unsigned want, const char *name, struct cgroup_making *m,
       struct cgroup_part *p)
{
	OWN(site_close) struct site site = { .near = -1, .aside = -1 };
	int r;

	r = find_site(l, want, m, &site);
	if (r < 0)
		return r;
	if (want != 0 && site.offered == 0 && m->reason == CGROUP_OCCUPIED &&
	    clear_site(l, want, &site) == -EAGAIN)
		return -EAGAIN;
	/* An obstacle further down no longer matters. */
	if (site.offered != 0)
		m->reason = CGROUP_FINE;
	r = place(l, &site, name, p);
	if (r < 0 && site.offered != 0) {
		unlinkat(site.near, BETWEEN, AT_REMOVEDIR);
		if (site.aside >= 0)
			step_back(site.near, site.aside);
	}
	return r == -ENOENT || r == -ENODEV ? -EAGAIN : r;
}

/* The files of the group belong to its user, who is also the cell's user.  The cell is in a group
 * below, the root of its cgroup namespace, so it cannot name them. */
static int
open_inside(struct cgroup_part *p)
{
	if (geteuid() == 0) {
		p->inside = p->dir;
		return 0;
	}
	if (mkdirat(p->dir, INSIDE, 0755) < 0)
		return -errno;
	p->inside = openat(p->dir, INSIDE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->inside < 0)
		return -errno;
	return cgroup_put(p->dir, "cgroup.max.descendants", INSIDE_GROUPS_MAX);
}

static int
limit_memory(int dir, uint64_t bytes)
{
	int r = cgroup_putf(dir, "memory.max", "%" PRIu64, bytes);

	if (r == 0)
		r = cgroup_put(dir, "memory.swap.max", "0");
	/* A kernel that cannot swap has no such file. */
	return r == -ENOENT ? 0 : r;
}

static int
limit_cpus(int dir, uint64_t quota_us, uint64_t period_us)
{
	return cgroup_putf(dir, "cpu.max", "%" PRIu64 " %" PRIu64, quota_us, period_us);
}

static int
limit_pids(int dir, uint64_t pids)
{
	return cgroup_putf(dir, "pids.max", "%" PRIu64, pids);
}

static int
limit_io(int dir, dev_t disk, uint64_t bps)
{
	return cgroup_putf(dir, "io.max", "%u:%u rbps=%" PRIu64 " wbps=%" PRIu64,
	                   major(disk), minor(disk), bps, bps);
}

static const struct cgroup_setters setters = { limit_memory, limit_cpus, limit_pids, limit_io };

int
cgroup_v2_make(struct cgroup *cg, const struct cgroup_hierarchy *h, unsigned want,
               struct cgroup_making *m)
{
	char name[CGROUP_NAME_MAX];
	struct cgroup_part *p;
	struct levels l;
	int r = -EAGAIN;

	if (!find_levels(&l, h)) {
		cgroup_note_failure(m, CGROUP_NOT_MOUNTED, ENOENT);
		return 0;
	}
	cgroup_cell_name(name, m->id);
	p = cgroup_add_part(cg, 2);
	for (int i = 0; i < TRIES_MAX && r == -EAGAIN; i++) {
		if (i > 0)
			usleep(TRY_AGAIN_US);
		r = settle(&l, want, name, m, p);
	}
	if (r == 0) {
		r = open_inside(p);
		if (r < 0)
			cgroup_v2_remove(p);
	}
	if (r == 0) {
		cgroup_set_limits(p, &setters, m);
		return 0;
	}
	cgroup_drop_part(cg);
	/* Without a site, the reason is noted already. */
	cgroup_note_failure(m, CGROUP_FAILED, -r);
	return r == -EEXIST ? r : 0;
}

int
cgroup_v2_remove(struct cgroup_part *part)
{
	OWN(closep) int near = -1;

	if (part->inside != part->dir && part->inside >= 0)
		unlinkat(part->dir, INSIDE, AT_REMOVEDIR);
	if (unlinkat(part->parent, cgroup_part_name(part), AT_REMOVEDIR) < 0 && errno != ENOENT)
		return -errno;
	if (part->between)
		near = openat(part->parent, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (near >= 0)
		remove_between(near);
	return 0;
}

bool
cgroup_v2_has_between(const char *path)
{
	const char *end = strrchr(path, '/');
	size_t len = strlen("/" BETWEEN);

	return end != NULL && (size_t)(end - path) >= len &&
	       memcmp(end - len, "/" BETWEEN, len) == 0;
}
