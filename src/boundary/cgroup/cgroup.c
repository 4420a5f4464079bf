/* cgroup.c - makes a cell's group; see cgroup.h. */
#include "boundary/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

int
cgroup_put(int dir, const char *file, const char *text)
{
	OWN(closep) int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = write(fd, text, strlen(text));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

int
cgroup_putf(int dir, const char *file, const char *fmt, ...)
{
	char text[128];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return cgroup_put(dir, file, text);
}

bool
cgroup_get(int dir, const char *file, char text[CGROUP_FILE_MAX])
{
	OWN(closep) int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;

	if (fd >= 0)
		n = read(fd, text, CGROUP_FILE_MAX - 1);
	text[n > 0 ? n : 0] = '\0';
	return n >= 0;
}

void
cgroup_note_failure(struct cgroup_making *m, enum cgroup_reason reason, int error)
{
	if (m->reason != CGROUP_FINE)
		return;
	m->reason = reason;
	m->error = error;
	if (error == EACCES || error == EPERM)
		m->reason = CGROUP_NOT_DELEGATED;
	else if (error == EROFS)
		m->reason = CGROUP_READ_ONLY;
}

struct cgroup_part *
cgroup_add_part(struct cgroup *cg, int version)
{
	struct cgroup_part *p = &cg->parts[cg->n++];

	*p = (struct cgroup_part){ .version = version, .parent = -1, .dir = -1, .inside = -1,
	                           .tasks = -1 };
	return p;
}

const char *
cgroup_part_name(const struct cgroup_part *part)
{
	return strrchr(part->path, '/') + 1;
}

void
cgroup_drop_part(struct cgroup *cg)
{
	struct cgroup_part *p = &cg->parts[--cg->n];
	int inside = p->inside == p->dir ? -1 : p->inside;

	closep(&inside);
	closep(&p->dir);
	closep(&p->parent);
	closep(&p->tasks);
	free(p->path);
}

void
cgroup_free(struct cgroup *cg)
{
	if (cg == NULL)
		return;
	while (cg->n > 0)
		cgroup_drop_part(cg);
	free(cg->paths);
	free(cg);
}

void
cgroup_freep(struct cgroup **cg)
{
	cgroup_free(*cg);
}

static int
limit_disks(int dir, const struct cgroup_setters *set, struct cgroup_making *m)
{
	int r;

	cgroup_disks_make_whole(&m->disks);
	r = m->disks.unknown ? -ENODEV : 0;
	for (size_t i = 0; i < m->disks.n && r == 0; i++)
		r = set->io(dir, m->disks.list[i], m->limits->io);
	return r;
}

static int
limit_cpus(int dir, const struct cgroup_setters *set, uint64_t cpus_milli)
{
	/* The kernel takes no quota under a millisecond, and no period over a second. */
	uint64_t period = cpus_milli < 10 ? 1000000 : CGROUP_CPU_PERIOD_US;

	return set->cpus(dir, cpus_milli * period / 1000, period);
}

void
cgroup_set_limits(const struct cgroup_part *part, const struct cgroup_setters *set,
                  struct cgroup_making *m)
{
	unsigned bits = part->carries & m->asked;
	int r;

	for (unsigned bit = CGROUP_MEMORY; bit <= CGROUP_IO; bit <<= 1) {
		if ((bits & bit) == 0)
			continue;
		if (bit == CGROUP_MEMORY)
			r = set->memory(part->dir, m->limits->memory);
		else if (bit == CGROUP_CPUS)
			r = limit_cpus(part->dir, set, m->limits->cpus_milli);
		else if (bit == CGROUP_PIDS)
			r = set->pids(part->dir, m->limits->pids);
		else
			r = limit_disks(part->dir, set, m);
		if (r == 0)
			m->in_force |= bit;
		else
			cgroup_note_failure(m, CGROUP_FAILED, -r);
	}
}

int
cgroup_limit_pids(const struct cgroup *cg, uint64_t pids, struct err *err)
{
	for (size_t i = 0; cg != NULL && i < cg->n; i++) {
		const struct cgroup_part *part = &cg->parts[i];
		int r = (part->carries & CGROUP_PIDS) == 0 ? 0 : cgroup_putf(part->dir, "pids.max", "%" PRIu64, pids);

		if (r < 0)
			return err_set(err, -r, "cannot limit the cell's processes: %s", strerrordesc_np(-r));
	}
	return 0;
}

static int
make_parts(struct cgroup *cg, const struct cgroup_hierarchies *hs, struct cgroup_making *m)
{
	unsigned need;
	int r = 0;

	for (size_t i = 0; i < hs->n; i++)
		if (hs->list[i].version == 1)
			m->v1 |= hs->list[i].carries;
	for (size_t i = 0; i < hs->n && r == 0; i++)
		if (hs->list[i].version == 2)
			r = cgroup_v2_make(cg, &hs->list[i], m->asked & ~m->v1, m);
	need = m->asked;
	if (cg->n == 0)
		need |= CGROUP_FREEZER;
	for (size_t i = 0; i < hs->n && r == 0; i++)
		if (hs->list[i].version == 1 && (hs->list[i].carries & need) != 0)
			r = cgroup_v1_make(cg, &hs->list[i], m);
	if (hs->n == 0)
		cgroup_note_failure(m, CGROUP_NOT_MOUNTED, ENOENT);
	return r;
}

static int
join_paths(struct cgroup *cg)
{
	size_t size = 1, used = 0;

	for (size_t i = 0; i < cg->n; i++)
		size += strlen(cg->parts[i].path) + 1;
	cg->paths = calloc(1, size);
	if (cg->paths == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < cg->n; i++)
		used += (size_t)snprintf(cg->paths + used, size - used, "%s%s", i > 0 ? "\n" : "",
		                         cg->parts[i].path);
	return 0;
}

static unsigned
asked_limits(const struct cgroup_limits *l, const struct cgroup_disks *disks)
{
	unsigned asked = 0;

	if (l->memory != 0)
		asked |= CGROUP_MEMORY;
	if (l->cpus_milli != 0)
		asked |= CGROUP_CPUS;
	if (l->pids != 0)
		asked |= CGROUP_PIDS;
	if (l->io != 0 && (disks->n > 0 || disks->unknown))
		asked |= CGROUP_IO;
	return asked;
}

static int
read_table(const char *path, char **ret_text, struct err *err)
{
	return read_file_at(AT_FDCWD, path, CGROUP_TABLE_MAX, ret_text, NULL, err);
}

/* Most machines have v2 alone, at the usual place.  Guessing it avoids reading the table of mounts,
 * which may be long. */
static bool
guess_hierarchy(struct cgroup_hierarchies *hs, char *own)
{
	static const char point[] = "/sys/fs/cgroup";
	char dir[PATH_MAX];
	struct statfs fs;

	hs->list[0] = (struct cgroup_hierarchy){ .version = 2, .root = "/", .point = point };
	hs->n = 1;
	if (strncmp(own, "0::/", 4) != 0 || strchr(own, '\n') != strrchr(own, '\n') ||
	    statfs(point, &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
		return false;
	cgroup_note_own(hs, own);
	return cgroup_own_dir(&hs->list[0], dir) && access(dir, F_OK) == 0;
}

void
cgroup_read_mounts(char *mounts, struct cgroup_hierarchies *hs, struct cgroup_disks *disks)
{
	struct mountinfo_line line;

	*hs = (struct cgroup_hierarchies){ 0 };
	while (mountinfo_next(&mounts, &line)) {
		cgroup_note_mount(hs, &line);
		if (disks != NULL)
			cgroup_note_disk(disks, &line);
	}
}

static int
make(struct cgroup *cg, struct cgroup_making *m, struct err *err)
{
	OWN(freep) char *mounts = NULL;
	OWN(freep) char *guessed = NULL;
	OWN(freep) char *own = NULL;
	struct cgroup_hierarchies hs;
	int r;

	cgroup_disks_init(&m->disks, m->limits->devices, m->limits->n_devices);
	r = read_table("/proc/self/cgroup", &own, err);
	if (r < 0)
		return r;
	guessed = strdup(own);
	if (guessed == NULL)
		return err_errno(err, "cannot make a cgroup");
	if (m->disks.n_pending > 0 || !guess_hierarchy(&hs, guessed)) {
		r = read_table("/proc/self/mountinfo", &mounts, err);
		if (r < 0)
			return r;
		cgroup_read_mounts(mounts, &hs, &m->disks);
		cgroup_note_own(&hs, own);
	}
	cgroup_disks_finish(&m->disks);
	m->asked = asked_limits(m->limits, &m->disks);
	r = make_parts(cg, &hs, m);
	if (r == 0)
		r = join_paths(cg);
	if (r < 0)
		return err_set(err, -r, "cannot make the cgroup 'cloister-%s': %s", m->id,
		               strerrordesc_np(-r));
	return 0;
}

static int
make_new(const char *id, const struct cgroup_limits *limits, struct cgroup **ret_cgroup,
         struct cgroup_making *ret_making, struct err *err)
{
	struct cgroup *cg = calloc(1, sizeof(*cg));
	int r;

	if (cg == NULL)
		return err_errno(err, "cannot make a cgroup");
	*ret_making = (struct cgroup_making){ .id = id, .limits = limits };
	r = make(cg, ret_making, err);
	if (r < 0) {
		cgroup_destroy(cg);
		return r;
	}
	*ret_cgroup = cg;
	return 0;
}

int
cgroup_make(const char *id, const struct cgroup_limits *limits, struct cgroup **ret_cgroup,
            struct cgroup_making *ret_making, struct err *err)
{
	char name[CGROUP_NAME_MAX];
	struct cgroup *cg = NULL;
	int r;

	if (strlen(id) > CGROUP_ID_MAX || !cgroup_is_cell_name(cgroup_cell_name(name, id)))
		return err_set(err, EINVAL, "'%s' cannot name a cgroup", id);
	r = make_new(id, limits, &cg, ret_making, err);
	if (r == 0 && cgroup_scope_helps(ret_making) && cgroup_scope_enter(id) == 0) {
		cgroup_destroy(TAKE(cg));
		r = make_new(id, limits, &cg, ret_making, err);
	}
	if (r == 0)
		*ret_cgroup = cg;
	return r;
}

int
cgroup_create(const char *id, const struct cgroup_limits *limits,
              struct cgroup **ret_cgroup, unsigned *ret_missing,
              char *why, size_t why_size, struct err *err)
{
	char found[256], todo[512];
	struct cgroup_making m;
	unsigned missing;
	int r;

	r = cgroup_make(id, limits, ret_cgroup, &m, err);
	if (r < 0)
		return r;
	missing = m.asked & ~m.in_force;
	*ret_missing = missing;
	if (why_size > 0)
		*why = '\0';
	if (missing != 0) {
		cgroup_describe(&m, missing, found, sizeof(found), todo, sizeof(todo));
		snprintf(why, why_size, "%s%s%s", found, *todo != '\0' ? ": " : "", todo);
	}
	return 0;
}
