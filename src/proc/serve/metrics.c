/* metrics.c - see metrics.h. */
#include "proc/serve/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "proc/serve/tallies.h"

#define SLACK_S 60                      /* a timeline may be older than its cell's end by so much */

/* Counters first: they are summed up over cells that have left. */
enum number {
	CPU_MS, READ, WRITTEN, REQUESTS, REQUESTS_REFUSED, RECEIVED, SENT, PROGRAMS, CALLS_REFUSED,
	CALLS_DANGEROUS, LOST, WATCHES,
	COUNTERS,
	MEMORY = COUNTERS, PEAK, PROCESSES, DISK, RUNNING,
	SUMMED,                         /* the rest makes no sense of all cells */
	PRESSURE_CPU = SUMMED, PRESSURE_IO, PRESSURE_MEMORY,
	NUMBERS
};

static const struct metric {
	const char *name, *help;
} metrics[] = {
	[CPU_MS] = { "cpu_seconds_total", "Processor time." },
	[READ] = { "read_bytes_total", "Bytes read from disks." },
	[WRITTEN] = { "written_bytes_total", "Bytes written to disks." },
	[REQUESTS] = { "requests_total", "Requests and connections." },
	[REQUESTS_REFUSED] = { "requests_refused_total", "Requests, connections and names that were refused." },
	[RECEIVED] = { "received_bytes_total", "Bytes received from the network." },
	[SENT] = { "sent_bytes_total", "Bytes sent to the network." },
	[PROGRAMS] = { "programs_total", "Programs that were executed." },
	[CALLS_REFUSED] = { "calls_refused_total", "System calls that a wall refused." },
	[CALLS_DANGEROUS] = { "calls_dangerous_total", "System calls of the kinds that attacks are made of." },
	[LOST] = { "acts_lost_total", "Acts that could not be recorded." },
	[WATCHES] = { "watches_total", "Rules over behaviour that fired." },
	[MEMORY] = { "memory_bytes", "Memory in use." },
	[PEAK] = { "memory_peak_bytes", "The most memory that was in use." },
	[PROCESSES] = { "processes", "Processes and threads." },
	[DISK] = { "disk_bytes", "Scratch space in use." },
	[RUNNING] = { "running", "1: the cell runs; 0: it has ended." },
	[PRESSURE_CPU] = { "pressure_cpu_ratio", "Share of the last 10 seconds in which processes waited for a processor." },
	[PRESSURE_IO] = { "pressure_io_ratio", "Share of the last 10 seconds in which processes waited for disks." },
	[PRESSURE_MEMORY] = { "pressure_memory_ratio", "Share of the last 10 seconds in which processes waited for memory." },
};

struct row {
	char id[CELL_ID_LEN + 1], name[CELL_NAME_MAX + 1];
	bool is_old;                    /* it has no numbers of its own any more */
	uint64_t since_s, last_s;       /* its first record; when its timeline was last written to */
	uint64_t known;                 /* bits 1 << enum number */
	uint64_t at[NUMBERS];
};

struct rows {
	struct row *at;
	size_t n, cap;
	uint64_t now_s;
};

struct metrics {
	pthread_mutex_t lock;
	struct tallies *tallies;
	uint64_t since_s, last_s;       /* LAST: the last call; 0: none */
	uint64_t sums[COUNTERS];
	struct rows rows;               /* of the last call, by id */
};

int
metrics_new(struct tallies *tallies, uint64_t since_ms, struct metrics **ret_metrics, struct err *err)
{
	struct metrics *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return err_set(err, ENOMEM, "out of memory");
	pthread_mutex_init(&m->lock, NULL);
	m->tallies = tallies;
	m->since_s = since_ms / 1000;
	*ret_metrics = m;
	return 0;
}

void
metrics_free(struct metrics *m)
{
	if (m == NULL)
		return;
	free(m->rows.at);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- finding the cells ---- */

static void
take_sample(struct row *row, const struct audit_sample *sample)
{
	static const enum number numbers[] = {
		[AUDIT_CPU_MS] = CPU_MS, [AUDIT_READ] = READ, [AUDIT_WRITTEN] = WRITTEN, [AUDIT_MEMORY] = MEMORY,
		[AUDIT_PROCESSES] = PROCESSES, [AUDIT_DISK] = DISK, [AUDIT_PEAK] = PEAK,
		[AUDIT_PRESSURE_CPU] = PRESSURE_CPU, [AUDIT_PRESSURE_IO] = PRESSURE_IO,
		[AUDIT_PRESSURE_MEMORY] = PRESSURE_MEMORY,
	};

	for (int i = 0; i < AUDIT_MEASURES; i++) {
		row->at[numbers[i]] = sample->at[i];
		if ((sample->known & 1u << i) != 0)
			row->known |= 1u << numbers[i];
	}
}

static void
take_tally(struct row *row, const struct audit_tally *t)
{
	const struct {
		enum number number;
		uint64_t value;
	} sums[] = {
		{ REQUESTS, t->total.requests }, { REQUESTS_REFUSED, t->total.refused }, { RECEIVED, t->total.bytes_in },
		{ SENT, t->total.bytes_out }, { PROGRAMS, t->acts.programs }, { CALLS_REFUSED, t->acts.refused },
		{ CALLS_DANGEROUS, t->acts.dangerous }, { LOST, t->acts.lost }, { WATCHES, t->acts.watches },
	};

	take_sample(row, &t->sample);
	for (size_t i = 0; i < ARRAY_LEN(sums); i++) {
		row->at[sums[i].number] = sums[i].value;
		row->known |= 1u << sums[i].number;
	}
	row->since_s = t->since_s;
}

static struct row *
add_row(struct rows *rows)
{
	struct row *more;

	if (rows->n == rows->cap) {
		more = reallocarray(rows->at, rows->cap + 64, sizeof(*more));
		if (more == NULL)
			return NULL;
		rows->at = more;
		rows->cap += 64;
	}
	rows->at[rows->n] = (struct row){0};
	return &rows->at[rows->n];
}

static void
find_row(void *arg, const struct tallies_cell *cell)
{
	struct rows *rows = arg;
	struct row *row = add_row(rows);

	if (row == NULL)
		return;
	snprintf(row->id, sizeof(row->id), "%s", cell->entry->id);
	snprintf(row->name, sizeof(row->name), "%s", cell->entry->name);
	row->at[RUNNING] = cell->is_live;
	row->known = 1u << RUNNING;
	row->last_s = cell->last_s;
	row->is_old = !cell->is_live && row->last_s + METRICS_KEPT_S < rows->now_s;
	take_tally(row, cell->sum);
	rows->n++;
}

/* ---- all cells ---- */

static int
by_id(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->id, ((const struct row *)b)->id);
}

/* A cell that ended meanwhile may have been found in both folders. */
static void
drop_twins(struct rows *rows)
{
	size_t kept = 0;

	if (rows->n > 0)
		qsort(rows->at, rows->n, sizeof(*rows->at), by_id);
	for (size_t i = 0; i < rows->n; i++)
		if (kept == 0 || by_id(&rows->at[kept - 1], &rows->at[i]) != 0)
			rows->at[kept++] = rows->at[i];
	rows->n = kept;
}

/* Adds to the sums what is new since the last call.  What a cell did before the service started is not new. */
static void
sum_up(struct metrics *m, struct rows *rows)
{
	drop_twins(rows);
	for (size_t i = 0; i < rows->n; i++) {
		const struct row *row = &rows->at[i];
		const struct row *before = m->rows.n == 0 ? NULL :
			bsearch(row, m->rows.at, m->rows.n, sizeof(*row), by_id);
		bool is_new = before == NULL || before->since_s != row->since_s;

		for (int k = 0; k < COUNTERS; k++) {
			uint64_t was = !is_new ? before->at[k] : row->since_s < m->since_s ? row->at[k] : 0;

			m->sums[k] += row->at[k] > was ? row->at[k] - was : 0;
		}
	}
	free(m->rows.at);
	m->rows = *rows;
}

/* ---- writing ---- */

static void
put_head(FILE *out, const char *of, int k)
{
	fprintf(out, "# HELP cloister_%s_%s %s\n# TYPE cloister_%s_%s %s\n", of, metrics[k].name, metrics[k].help, of,
	        metrics[k].name, k < COUNTERS ? "counter" : "gauge");
}

static void
put_value(FILE *out, int k, uint64_t value)
{
	if (k == CPU_MS)
		fprintf(out, " %llu.%03llu\n", (unsigned long long)(value / 1000), (unsigned long long)(value % 1000));
	else if (k >= SUMMED)
		fprintf(out, " %llu.%04llu\n", (unsigned long long)(value / 10000), (unsigned long long)(value % 10000));
	else
		fprintf(out, " %llu\n", (unsigned long long)value);
}

static void
put_label(FILE *out, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text == '\n' ? ' ' : *text, out);
	}
}

static void
put_row(FILE *out, int k, const struct row *row)
{
	fprintf(out, "cloister_cell_%s{cell=\"%s\",name=\"", metrics[k].name, row->id);
	put_label(out, row->name);
	fputs("\"}", out);
	put_value(out, k, row->at[k]);
}

/* Those that run come first, then those that ended last. */
static int
by_news(const void *a, const void *b)
{
	const struct row *x = *(const struct row *const *)a, *y = *(const struct row *const *)b;

	if (x->at[RUNNING] != y->at[RUNNING])
		return x->at[RUNNING] > y->at[RUNNING] ? -1 : 1;
	return x->last_s > y->last_s ? -1 : x->last_s < y->last_s ? 1 : strcmp(x->id, y->id);
}

static void
put_cells(const struct rows *rows, FILE *out)
{
	OWN(freep) const struct row **list = calloc(rows->n + 1, sizeof(*list));
	size_t n = 0, left_out = 0;

	for (size_t i = 0; list != NULL && i < rows->n; i++)
		if (!rows->at[i].is_old)
			list[n++] = &rows->at[i];
	if (n > 0)
		qsort(list, n, sizeof(*list), by_news);
	if (n > METRICS_CELLS_MAX) {
		left_out = n - METRICS_CELLS_MAX;
		n = METRICS_CELLS_MAX;
	}
	for (int k = 0; k < NUMBERS && n > 0; k++) {
		put_head(out, "cell", k);
		for (size_t i = 0; i < n; i++)
			if ((list[i]->known & 1u << k) != 0)
				put_row(out, k, list[i]);
	}
	fprintf(out, "# HELP cloister_cells_left_out Cells that are too many to have numbers of their own.\n"
	        "# TYPE cloister_cells_left_out gauge\ncloister_cells_left_out %zu\n", left_out);
}

/* `cloister_cells_running` is there even if no timeline can be read. */
static void
put_all(const struct metrics *m, FILE *out)
{
	for (int k = 0; k < SUMMED; k++) {
		uint64_t sum = 0;

		if (k == RUNNING || k == PEAK)
			continue;
		for (size_t i = 0; i < m->rows.n; i++)
			sum += m->rows.at[i].at[RUNNING] != 0 ? m->rows.at[i].at[k] : 0;
		put_head(out, "cells", k);
		fprintf(out, "cloister_cells_%s", metrics[k].name);
		put_value(out, k, k < COUNTERS ? m->sums[k] : sum);
	}
}

void
metrics_put(struct metrics *m, FILE *out)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	uint64_t now = (uint64_t)time(NULL), from;
	struct rows rows = { .now_s = now };

	pthread_mutex_lock(&m->lock);
	from = (m->last_s != 0 ? m->last_s : m->since_s) - SLACK_S;
	if (from > now - METRICS_KEPT_S)
		from = now - METRICS_KEPT_S;
	/* Cells that ended before FROM were counted. */
	tallies_each_since(m->tallies, state, from, find_row, &rows);
	tallies_each_since(m->tallies, ended, from, find_row, &rows);
	m->last_s = now;
	sum_up(m, &rows);
	put_all(m, out);
	put_cells(&m->rows, out);
	pthread_mutex_unlock(&m->lock);
}
