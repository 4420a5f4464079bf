/* top_procs.c - measures the processes of cells: their processor time, and their memory if no cgroup
 * counts it.
 *
 * A cell's processes are those under its init, which takes over whatever is orphaned in the cell.  The
 * time of processes that have ended is with the one that waited for them. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "proc/top/top.h"

#define STAT_MAX 1024

struct top_proc {
	int pid, parent;
	uint64_t ticks, pages;
	const struct top_cell *cell;    /* NULL: of none, or not known yet */
};

struct procs {
	struct top_proc *at;            /* sorted by pid */
	size_t n, cap;
};

static void
procs_free(struct procs *p)
{
	free(p->at);
}

static int
by_pid(const void *a, const void *b)
{
	const struct top_proc *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* The name in parentheses may contain anything, so the fields are counted from the last ")". */
static bool
parse_stat(const char *text, struct top_proc *ret_proc)
{
	const char *at = strrchr(text, ')');
	unsigned long long user, system, user_of_ended, system_of_ended;
	long pages;
	int parent;

	if (at == NULL || sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu "
	                         "%*d %*d %*d %*d %*u %*u %ld", &parent, &user, &system, &user_of_ended,
	                         &system_of_ended, &pages) != 6)
		return false;
	ret_proc->parent = parent;
	ret_proc->ticks = user + system + user_of_ended + system_of_ended;
	ret_proc->pages = pages > 0 ? (uint64_t)pages : 0;
	return true;
}

static void
add_proc(struct procs *p, int proc, const char *name)
{
	struct top_proc one = {0}, *more;
	char path[32], text[STAT_MAX];
	OWN(closep) int fd = -1;
	uint64_t pid;
	ssize_t n;

	if (num_parse_count(name, 1, INT_MAX, &pid, NULL) < 0)
		return;
	one.pid = (int)pid;
	snprintf(path, sizeof(path), "%d/stat", one.pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (!parse_stat(text, &one))
		return;
	if (p->n == p->cap) {
		more = reallocarray(p->at, p->cap + 256, sizeof(*more));
		if (more == NULL)
			return;
		p->at = more;
		p->cap += 256;
	}
	p->at[p->n++] = one;
}

static void
read_all(struct procs *p)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;

	if (dir == NULL)
		return;
	while ((entry = readdir(dir)) != NULL)
		if (isdigit((unsigned char)entry->d_name[0]))
			add_proc(p, dirfd(dir), entry->d_name);
	closedir(dir);
	if (p->n > 0)
		qsort(p->at, p->n, sizeof(*p->at), by_pid);
}

static struct top_proc *
find(const struct procs *p, int pid)
{
	const struct top_proc key = { .pid = pid };

	return p->n == 0 ? NULL : bsearch(&key, p->at, p->n, sizeof(*p->at), by_pid);
}

/* The cell of which INIT is the init. */
static struct top_cell *
cell_of(const struct top *t, int init)
{
	for (size_t i = 0; i < t->n_cells; i++)
		if (t->cells[i].init == (uint32_t)init && init > 0)
			return &t->cells[i];
	return NULL;
}

/* Goes up from PROC; there are no more steps than processes, whatever changed while they were read. */
static struct top_cell *
owner_of(const struct top *t, const struct procs *p, const struct top_proc *proc)
{
	for (size_t i = 0; proc != NULL && i < p->n; i++) {
		struct top_cell *cell = cell_of(t, proc->pid);

		if (cell != NULL)
			return cell;
		proc = proc->parent <= 1 ? NULL : find(p, proc->parent);
	}
	return NULL;
}

static void
measure(struct top_cell *cell, uint64_t ticks, int64_t now_ms)
{
	long per_second = sysconf(_SC_CLK_TCK);
	int64_t passed = now_ms - cell->measured_ms;

	if (cell->measured_ms != 0 && passed > 0 && per_second > 0 && ticks >= cell->ticks)
		cell->cpu_percent = (double)(ticks - cell->ticks) * 100000.0 / ((double)per_second * (double)passed);
	cell->has_cpu = cell->measured_ms != 0;
	cell->ticks = ticks;
	cell->measured_ms = now_ms;
}

void
top_look_procs(struct top *t)
{
	OWN(procs_free) struct procs p = {0};
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int64_t now_ms = io_now_ms();

	for (size_t i = 0; i < t->n_cells; i++)
		t->cells[i].found = t->cells[i].found_ticks = t->cells[i].found_bytes = 0;
	read_all(&p);
	for (size_t i = 0; i < p.n; i++) {
		struct top_cell *cell = owner_of(t, &p, &p.at[i]);

		if (cell == NULL)
			continue;
		cell->found++;
		cell->found_ticks += p.at[i].ticks;
		cell->found_bytes += p.at[i].pages * page;
	}
	for (size_t i = 0; i < t->n_cells; i++) {
		struct top_cell *cell = &t->cells[i];

		if (cell->found == 0)
			continue;
		if (cell->use.cpu_us == 0)
			measure(cell, cell->found_ticks, now_ms);
		cell->memory = cell->memory != 0 ? cell->memory : cell->found_bytes;
		cell->pids = cell->pids != 0 ? cell->pids : cell->found;
	}
}
