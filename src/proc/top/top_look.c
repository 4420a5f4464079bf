/* top_look.c - collects the current state: the cells, and the sums of their timelines. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "ipc/control_channel.h"
#include "proc/top/top.h"

struct top_cell *
top_find_cell(const struct top *t, const char *id)
{
	for (size_t i = 0; i < t->n_cells; i++)
		if (strcmp(t->cells[i].entry.id, id) == 0)
			return &t->cells[i];
	return NULL;
}

/* ---- timelines ---- */

static void
take_lines(struct top_cell *cell, int fd, char *room)
{
	ssize_t n = pread(fd, room, TOP_READ_MAX, (off_t)cell->at);
	char *line = room, *end = n > 0 ? room + n : room, *newline;

	while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL) {
		/* An operator's change may be to a budget. */
		if (audit_tally_line(&cell->sum, line, (size_t)(newline - line)) & AUDIT_WAS_STEER)
			cell->asked_budgets = false;
		line = newline + 1;
	}
	cell->at += (uint64_t)(line - room);
}

/* Reads on from the last position; a new file begins when the old one is large. */
static void
read_timeline(struct top_cell *cell, int state, char *room)
{
	char path[CELL_ENTRY_MAX + 32];
	OWN(closep) int fd = -1;
	struct stat st;

	/* A state entry's name lacks the slot of the runtime entry's name. */
	snprintf(path, sizeof(path), "%s.%s/" CELL_EVENTS, cell->entry.id, cell->entry.name);
	fd = openat(state, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	if (st.st_ino != cell->inode) {
		cell->inode = st.st_ino;
		cell->at = 0;
	}
	if ((uint64_t)st.st_size > cell->at)
		take_lines(cell, fd, room);
}

/* ---- cells ---- */

static void
put_command(struct top_cell *cell, const struct cell_spec *spec)
{
	OWN(freep) char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return;
	for (size_t i = 0; spec->argv[i] != NULL; i++)
		fprintf(out, "%s%s", i > 0 ? " " : "", spec->argv[i]);
	if (fclose(out) == 0)
		top_safe(cell->command, text);
	top_safe(cell->principal, spec->principal);
}

/* The list of budgets is requested if it may have changed; the usage is read directly. */
static void
ask_budgets(struct top_cell *cell, int runtime)
{
	const struct timeval patience = { .tv_sec = 2 };
	OWN(closep) int fd = -1;

	if (cell->asked_budgets)
		return;
	cell->asked_budgets = true;
	cell_budgets_free(cell->budgets);
	cell->budgets = NULL;
	fd = cell_connect(runtime, &cell->entry, NULL);
	if (fd < 0)
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)cell_budgets_get(fd, &cell->budgets, NULL);
}

/* The processor time since the last answer, if its cgroup counts it. */
static void
take_use(struct top_cell *cell, const struct cell_use *use)
{
	int64_t now_ms = io_now_ms(), passed = now_ms - cell->asked_ms;

	if (use->cpu_us > 0 && cell->asked_ms != 0 && passed > 0 && use->cpu_us >= cell->use.cpu_us) {
		cell->cpu_percent = (double)(use->cpu_us - cell->use.cpu_us) / (10.0 * (double)passed);
		cell->has_cpu = true;
	}
	cell->use = *use;
	cell->asked_ms = now_ms;
}

static void
ask_cell(struct top *t, int runtime, struct top_cell *cell)
{
	struct cell_info info;
	int r = cell_control_info(runtime, &cell->entry, &info, NULL);

	cell->answers = r == 0 && info.state != CONTROL_STATE_SILENT;
	/* A cell that hangs must not delay the others each time. */
	cell->hung_until_ms = r == 0 && !cell->answers ? io_now_ms() + TOP_HUNG_MS : 0;
	if (r == -ENOENT)
		cell->seen = false;
	if (r < 0)
		return;
	cell->state = info.state;
	cell->waiting = info.waiting;
	snprintf(cell->machine, sizeof(cell->machine), "%s", info.machine);
	if (!cell->answers) {
		cell->started_ns = cell->started_ns != 0 ? cell->started_ns : info.started_ns;
		cell_spec_free(&info.spec);
		return;
	}
	cell->started_ns = info.started_ns;
	cell->memory = info.memory;
	cell->pids = info.pids;
	take_use(cell, &info.use);
	cell->init = info.init;
	cell->has_policy = info.spec.has_policy;
	if (cell->command[0] == '\0')
		put_command(cell, &info.spec);
	cell_spec_free(&info.spec);
	if (!cell->has_policy)
		return;
	ask_budgets(cell, runtime);
	top_look_asked(t, runtime, cell);
}

static int
add_cell(struct top *t, const struct cell_entry *entry)
{
	struct top_cell *cells, *cell = top_find_cell(t, entry->id);

	if (cell == NULL && t->n_cells < TOP_CELLS_MAX) {
		cells = realloc(t->cells, (t->n_cells + 1) * sizeof(*cells));
		if (cells == NULL)
			return -ENOMEM;
		t->cells = cells;
		cell = &cells[t->n_cells++];
		*cell = (struct top_cell){ .entry = *entry };
	}
	if (cell != NULL)
		cell->seen = true;
	return 0;
}

/* ---- order ---- */

static bool
has_word(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

static bool
is_wanted(const struct top *t, const struct top_cell *cell)
{
	return t->filter[0] == '\0' || has_word(cell->entry.id, t->filter) || has_word(cell->entry.name, t->filter) ||
	       has_word(cell->command, t->filter) || has_word(cell->principal, t->filter);
}

/* The larger first. */
static int
by_number(double x, double y)
{
	return x > y ? -1 : x < y;
}

static int
by_start(const struct top_cell *x, const struct top_cell *y)
{
	if (x->started_ns != y->started_ns)
		return x->started_ns < y->started_ns ? 1 : -1;
	return strcmp(x->entry.id, y->entry.id);
}

static const char *
name_of(const struct top_cell *cell)
{
	return cell->entry.name[0] != '\0' ? cell->entry.name : cell->entry.id;
}

static int
by_sort(const void *a, const void *b, void *arg)
{
	const struct top_cell *x = a, *y = b;
	const struct top *t = arg;
	int r = is_wanted(t, y) - is_wanted(t, x);

	if (r != 0)
		return r;
	if (t->sort == TOP_BY_NAME)
		r = strcmp(name_of(x), name_of(y));
	else if (t->sort == TOP_BY_CPU)
		r = by_number(x->cpu_percent, y->cpu_percent);
	else if (t->sort == TOP_BY_MEMORY)
		r = by_number((double)x->memory, (double)y->memory);
	else if (t->sort == TOP_BY_REQUESTS)
		r = by_number((double)x->sum.total.requests, (double)y->sum.total.requests);
	else if (t->sort == TOP_BY_REFUSED)
		r = by_number((double)x->sum.total.refused, (double)y->sum.total.refused);
	return r != 0 ? r : by_start(x, y);
}

void
top_sort_cells(struct top *t)
{
	if (t->n_cells > 0)
		qsort_r(t->cells, t->n_cells, sizeof(*t->cells), by_sort, t);
	t->n_shown = 0;
	while (t->n_shown < t->n_cells && is_wanted(t, &t->cells[t->n_shown]))
		t->n_shown++;
}

static void
drop_gone(struct top *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n_cells; i++) {
		if (!t->cells[i].seen) {
			top_drop_asked(t, t->cells[i].entry.id);
			cell_budgets_free(t->cells[i].budgets);
			continue;
		}
		if (n != i)
			t->cells[n] = t->cells[i];
		n++;
	}
	t->n_cells = n;
}

int
top_look(struct top *t, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) char *room = malloc(TOP_READ_MAX);
	size_t n = 0;
	int r = runtime < 0 ? runtime : cell_list(runtime, true, &entries, &n, err);

	for (size_t i = 0; i < t->n_cells; i++)
		t->cells[i].seen = false;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_cell(t, &entries[i]);
	if (r < 0 || room == NULL)
		return r < 0 ? r : -ENOMEM;
	for (size_t i = 0; i < t->n_cells; i++) {
		struct top_cell *cell = &t->cells[i];

		if (cell->seen && io_now_ms() >= cell->hung_until_ms)
			ask_cell(t, runtime, cell);
		if (cell->seen && state >= 0)
			read_timeline(cell, state, room);
	}
	drop_gone(t);
	top_look_procs(t);
	top_sort_cells(t);
	top_sort_asked(t);
	return 0;
}

void
top_forget(struct top *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		cell_budgets_free(t->cells[i].budgets);
	free(t->cells);
	free(t->asked);
	free(t->reason);
}
