/* live_look.c - looks at all cells, and reports the changes since the last time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/own.h"
#include "base/since.h"
#include "cell/cell_approvals.h"
#include "cell/cell_budget.h"
#include "cell/cell_control.h"
#include "loop/loop.h"
#include "proc/serve/api.h"
#include "proc/serve/live.h"
#include "proc/serve/tallies.h"

#define COMMAND_MAX 512                 /* bytes of a command that are sent */
#define MEMORY_STEP (64 * 1024)         /* smaller changes do not count */
#define APPROVALS_AT_ONCE 1024
#define SAMPLE_OLD_MS 3000              /* resources are measured every second while they change */

/* A supervisor that does not answer must not block this thread. */
static const struct timeval patience = { .tv_sec = 2 };

struct cell {
	struct cell_entry entry;
	char *fixed;                    /* constant members; NULL: not known yet */
	const char *state;
	uint64_t memory, pids;
	uint64_t hung_ms;
	struct audit_slot sum;
	uint64_t refused_told;
	uint64_t approvals, approvals_told;     /* records about approvals */
	uint64_t approvals_seen;                /* the supervisor's last change that was sent */
	struct cell_budgets *budgets;   /* NULL: none, or not known */
	bool has_policy, asks_budgets;
	struct cell_budget_line fullest;
	double part;                    /* of the fullest budget; below 0: none */
	struct audit_acts acts;
	struct audit_sample sample;
	struct audit_refusal refusal, theft, misplaced, watch;
	char *text;                     /* as last sent */
	bool is_there, changed;
	bool is_vague;                  /* `fixed` is incomplete: the supervisor did not answer */
};

struct live_look {
	struct api *api;
	struct cell **cells;            /* sorted by id */
	size_t n, cap;
	size_t turn;                    /* the supervisor that is asked next */
	FILE *to;                       /* writes to TEXT */
	char *text;
	size_t size;
};

struct live_look *
live_look_new(struct api *api)
{
	struct live_look *look = calloc(1, sizeof(*look));

	if (look != NULL)
		look->api = api;
	return look;
}

static void
cell_free(struct cell *cell)
{
	free(cell->fixed);
	free(cell->text);
	cell_budgets_free(cell->budgets);
	free(cell);
}

void
live_look_free(struct live_look *look)
{
	if (look == NULL)
		return;
	for (size_t i = 0; i < look->n; i++)
		cell_free(look->cells[i]);
	free(look->cells);
	free(look);
}

/* ---- writing ---- */

static bool
begin(struct live_look *look, struct json *w)
{
	look->text = NULL;
	look->to = open_memstream(&look->text, &look->size);
	*w = (struct json){ .out = look->to };
	return look->to != NULL;
}

/* Returns what was written since; the caller owns it. */
static char *
finish(struct live_look *look)
{
	fclose(look->to);
	return look->text;
}

/* JSON contains no newlines of its own. */
static void
put_event(struct buf *out, const char *name, const char *text)
{
	buf_put(out, "event: ", 7);
	buf_put_text(out, name);
	buf_put(out, "\ndata: ", 7);
	buf_put_text(out, text);
	buf_put(out, "\n\n", 2);
}

static void
put_command(struct json *w, char *const *argv)
{
	size_t left = COMMAND_MAX;

	json_open(w, "command", '[');
	for (; *argv != NULL && left > 0; argv++) {
		char word[COMMAND_MAX + 4];
		size_t len = strlen(*argv);

		snprintf(word, sizeof(word), len > left ? "%.*s..." : "%.*s", (int)(len > left ? left : len), *argv);
		json_str(w, NULL, word);
		left -= len + 1 < left ? len + 1 : left;
	}
	json_close(w, ']');
}

/* ---- one cell ---- */

/* Its members without the braces around them. */
static char *
put_fixed(struct live_look *look, const struct cell_info *info)
{
	const struct cell_spec *spec = &info->spec;
	struct json w;

	if (!begin(look, &w))
		return NULL;
	json_str(&w, "id", spec->id);
	json_str(&w, "name", spec->name[0] != '\0' ? spec->name : NULL);
	put_command(&w, spec->argv);
	json_str(&w, "principal", spec->principal != NULL && spec->principal[0] != '\0' ? spec->principal : NULL);
	json_str(&w, "chain", spec->chain != NULL && spec->chain[0] != '\0' ? spec->chain : NULL);
	json_bool(&w, "policy", spec->has_policy);
	json_u64(&w, "started", info->started_ns / 1000000000);
	json_bool(&w, "can_freeze", info->can_freeze != 0);
	if (info->machine[0] != '\0')
		json_str(&w, "machine", info->machine);
	return finish(look);
}

static void
ask_supervisor(struct live_look *look, struct cell *cell, int runtime)
{
	uint64_t memory, now = loop_now_ms();
	struct cell_info info;

	if (cell->hung_ms != 0 && now - cell->hung_ms < LIVE_HUNG_MS)
		return;
	if (cell_control_info(runtime, &cell->entry, &info, NULL) < 0)
		return;
	cell->hung_ms = info.state == CONTROL_STATE_SILENT ? loop_now_ms() : 0;
	/* The incomplete data from before it answered. */
	if (cell->is_vague && cell->hung_ms == 0) {
		free(cell->fixed);
		cell->fixed = NULL;
		cell->changed = true;
	}
	memory = info.memory / MEMORY_STEP * MEMORY_STEP;
	cell->changed |= cell->state != cell_info_state(&info) || cell->memory != memory ||
	                 cell->pids != info.pids;
	cell->state = cell_info_state(&info);
	cell->has_policy = cell->hung_ms == 0 ? info.spec.has_policy : cell->has_policy;
	cell->memory = memory;
	cell->pids = info.pids;
	if (cell->fixed == NULL) {
		cell->fixed = put_fixed(look, &info);
		cell->is_vague = cell->hung_ms != 0;
	}
	cell_spec_free(&info.spec);
}

/* The usage is read from the ledger.  The list of budgets is requested only if it may have changed. */
static void
look_at_budgets(struct cell *cell, int runtime)
{
	double part = -1;

	if (cell->asks_budgets && cell->has_policy) {
		OWN(closep) int fd = cell_connect(runtime, &cell->entry, NULL);

		cell->asks_budgets = false;
		cell_budgets_free(cell->budgets);
		cell->budgets = NULL;
		if (fd >= 0)
			(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		if (fd >= 0)
			(void)cell_budgets_get(fd, &cell->budgets, NULL);
	}
	if (cell->budgets == NULL || !cell_budgets_fullest(cell->budgets, &cell->fullest, &part))
		part = -1;
	/* Changes below a thousandth do not count. */
	part = part < 0 ? -1 : (double)(int64_t)(part * 1000) / 1000;
	cell->changed |= part < cell->part || part > cell->part;
	cell->part = part;
}

/* Adds those that changed after *SEEN. */
static void
put_approvals(const struct cell *cell, int runtime, uint64_t *seen, bool only_pending, struct buf *out)
{
	OWN(closep) int fd = cell_connect(runtime, &cell->entry, NULL);

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	for (size_t i = 0; fd >= 0 && i < APPROVALS_AT_ONCE; i++) {
		OWN(freep) char *text = NULL;

		if (cell_approvals_ask(fd, *seen, false, NULL) < 0 || cell_approvals_take(fd, seen, &text, NULL) != 1)
			return;
		if (!only_pending || strstr(text, "\"state\":\"pending\"") != NULL)
			put_event(out, "approval", text);
	}
}

/* A cell of which nothing changes is not measured: then it does nothing. */
static void
take_acts(struct cell *cell, const struct audit_tally *sum)
{
	struct audit_sample sample = sum->sample;

	if (since_now_ms() > sample.time_ms + SAMPLE_OLD_MS)
		sample.cpu_permille = 0;
	cell->changed |= memcmp(&cell->acts, &sum->acts, sizeof(cell->acts)) != 0 ||
	                 memcmp(&cell->sample, &sample, sizeof(sample)) != 0;
	cell->acts = sum->acts;
	cell->sample = sample;
	cell->watch = sum->watch;
}

/* Reads its timeline; true: its supervisor must be asked. */
static bool
read_timeline(struct live_look *look, struct cell *cell, int state)
{
	char entry[CELL_ENTRY_MAX];
	const struct tally *tally;
	bool ask = false;

	snprintf(entry, sizeof(entry), "%s.%s", cell->entry.id, cell->entry.name);
	tally = state < 0 ? NULL : tallies_get(look->api->tallies, state, entry, cell->entry.id);
	if (tally != NULL) {
		cell->changed |= memcmp(&cell->sum, &tally->sum.total, sizeof(cell->sum)) != 0;
		cell->sum = tally->sum.total;
		take_acts(cell, &tally->sum);
		cell->refusal = tally->sum.refusal;
		cell->theft = tally->sum.theft;
		cell->misplaced = tally->sum.misplaced;
		cell->approvals = tally->approvals;
		cell->asks_budgets |= (tally->was & AUDIT_WAS_STEER) != 0;
		ask = (tally->was & AUDIT_WAS_CELL) != 0;
	}
	if (state >= 0)
		tallies_done(look->api->tallies);
	return ask;
}

static void
put_refusal_members(struct json *w, const struct audit_refusal *refusal)
{
	json_str(w, "time", refusal->time);
	json_str(w, "what", refusal->what);
	json_str(w, "why", refusal->why);
}

static void
put_refusal(struct json *w, const char *key, const struct audit_refusal *refusal)
{
	if (refusal->time[0] == '\0') {
		json_none(w, key);
		return;
	}
	json_open(w, key, '{');
	put_refusal_members(w, refusal);
	json_close(w, '}');
}

static void
put_budget(struct json *w, const struct cell *cell)
{
	if (cell->part < 0) {
		json_none(w, "budget");
		return;
	}
	json_open(w, "budget", '{');
	json_raw(w, "fraction", "%.3f", cell->part);
	json_str(w, "name", cell->fullest.name);
	json_str(w, "kind", policy_kind_name(cell->fullest.kind));
	json_close(w, '}');
}

/* What it uses, and what was done inside.  `memory` is the supervisor's answer. */
static void
put_acts(struct json *w, const struct cell *cell)
{
	static const enum audit_measure measures[] = {
		AUDIT_CPU_MS, AUDIT_READ, AUDIT_WRITTEN, AUDIT_DISK, AUDIT_PEAK,
		AUDIT_PRESSURE_CPU, AUDIT_PRESSURE_IO, AUDIT_PRESSURE_MEMORY,
	};

	if ((cell->sample.known & 1u << AUDIT_CPU_MS) != 0)
		json_raw(w, "cpu", "%.1f", (double)cell->sample.cpu_permille / 10);
	for (size_t i = 0; i < ARRAY_LEN(measures); i++)
		if ((cell->sample.known & 1u << measures[i]) != 0)
			json_u64(w, audit_measure_name(measures[i]), cell->sample.at[measures[i]]);
	json_u64(w, "programs", cell->acts.programs);
	json_u64(w, "calls_refused", cell->acts.refused);
	json_u64(w, "calls_dangerous", cell->acts.dangerous);
	json_u64(w, "acts_lost", cell->acts.lost);
	json_u64(w, "watches", cell->acts.watches);
	put_refusal(w, "last_watch", &cell->watch);
}

static char *
put_cell(struct live_look *look, const struct cell *cell)
{
	struct json w;

	if (!begin(look, &w))
		return NULL;
	json_open(&w, NULL, '{');
	json_raw(&w, NULL, "%s", cell->fixed);
	json_str(&w, "state", cell->state);
	json_u64(&w, "memory", cell->memory);
	json_u64(&w, "pids", cell->pids);
	json_u64(&w, "requests", cell->sum.requests);
	json_u64(&w, "refused", cell->sum.refused);
	json_u64(&w, "bytes_in", cell->sum.bytes_in);
	json_u64(&w, "bytes_out", cell->sum.bytes_out);
	put_budget(&w, cell);
	put_refusal(&w, "last_refusal", &cell->refusal);
	json_u64(&w, "thefts", cell->sum.thefts);
	put_refusal(&w, "last_theft", &cell->theft);
	json_u64(&w, "misplaced", cell->sum.misplaced);
	put_refusal(&w, "last_misplaced", &cell->misplaced);
	put_acts(&w, cell);
	json_close(&w, '}');
	return finish(look);
}

/* Except refusals from before anybody looked. */
static void
tell_refusal(struct live_look *look, struct cell *cell, bool is_new, struct buf *out)
{
	uint64_t more = cell->sum.refused - cell->refused_told;
	struct json w;
	char *text;

	cell->refused_told = cell->sum.refused;
	if (more == 0 || is_new || cell->refusal.time[0] == '\0' || !begin(look, &w))
		return;
	json_open(&w, NULL, '{');
	json_str(&w, "cell", cell->entry.id);
	json_str(&w, "name", cell->entry.name[0] != '\0' ? cell->entry.name : NULL);
	put_refusal_members(&w, &cell->refusal);
	json_u64(&w, "count", more);
	json_close(&w, '}');
	text = finish(look);
	if (text != NULL)
		put_event(out, "refusal", text);
	free(text);
}

static void
tell_cell(struct live_look *look, struct cell *cell, struct buf *out)
{
	bool is_new = cell->text == NULL;
	char *text;

	if (cell->fixed == NULL || (!is_new && !cell->changed))
		return;
	cell->changed = false;
	text = put_cell(look, cell);
	if (text == NULL)
		return;
	if (is_new || strcmp(text, cell->text) != 0)
		put_event(out, "cell", text);
	free(cell->text);
	cell->text = text;
	tell_refusal(look, cell, is_new, out);
}

static void
tell_gone(struct live_look *look, const struct cell *cell, struct buf *out)
{
	struct json w;
	char *text;

	if (cell->text == NULL || !begin(look, &w))
		return;
	json_open(&w, NULL, '{');
	json_str(&w, "id", cell->entry.id);
	json_close(&w, '}');
	text = finish(look);
	if (text != NULL)
		put_event(out, "gone", text);
	free(text);
}

/* ---- all of them ---- */

static size_t
place_of(const struct live_look *look, const char *id)
{
	size_t low = 0, high = look->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(look->cells[mid]->entry.id, id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
note_entry(struct live_look *look, const struct cell_entry *entry)
{
	size_t i = place_of(look, entry->id);
	struct cell **more, *cell;

	if (i < look->n && strcmp(look->cells[i]->entry.dir, entry->dir) == 0) {
		look->cells[i]->is_there = true;
		return;
	}
	/* The same id in another place is another cell: the old one is removed first. */
	if (i < look->n && strcmp(look->cells[i]->entry.id, entry->id) == 0)
		return;
	if (look->n == look->cap) {
		more = realloc(look->cells, (look->cap + 64) * sizeof(struct cell *));
		if (more == NULL)
			return;
		look->cells = more;
		look->cap += 64;
	}
	cell = calloc(1, sizeof(*cell));
	if (cell == NULL)
		return;
	*cell = (struct cell){ .entry = *entry, .state = "running", .is_there = true, .changed = true,
	                       .asks_budgets = true, .part = -1 };
	memmove(look->cells + i + 1, look->cells + i, (look->n - i) * sizeof(struct cell *));
	look->cells[i] = cell;
	look->n++;
}

static void
list_cells(struct live_look *look, int runtime)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	for (size_t i = 0; i < look->n; i++)
		look->cells[i]->is_there = false;
	if (runtime >= 0 && cell_list(runtime, true, &entries, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			note_entry(look, &entries[i]);
}

static void
drop_gone(struct live_look *look, struct buf *out)
{
	size_t kept = 0;

	for (size_t i = 0; i < look->n; i++) {
		struct cell *cell = look->cells[i];

		if (cell->is_there) {
			look->cells[kept++] = cell;
			continue;
		}
		tell_gone(look, cell, out);
		cell_free(cell);
	}
	look->n = kept;
}

/* Memory and processes change all the time without notice: a few supervisors are asked each time. */
static bool
is_its_turn(const struct live_look *look, size_t i)
{
	size_t ahead = i >= look->turn ? i - look->turn : i + look->n - look->turn;

	return ahead < LIVE_INFOS;
}

static void
put_all(const struct live_look *look, int runtime, struct buf *out)
{
	bool first = true;

	buf_put(out, "event: cells\ndata: {\"cells\":[", 29);
	for (size_t i = 0; i < look->n; i++) {
		if (look->cells[i]->text == NULL)
			continue;
		buf_put(out, ",", first ? 0 : 1);
		buf_put_text(out, look->cells[i]->text);
		first = false;
	}
	buf_put(out, "]}\n\n", 4);
	for (size_t i = 0; i < look->n; i++) {
		uint64_t seen = 0;

		if (look->cells[i]->approvals > 0)
			put_approvals(look->cells[i], runtime, &seen, true, out);
	}
}

void
live_look(struct live_look *look, struct buf *delta, struct buf *snapshot)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	OWN(closep) int state = cell_state_open(false, NULL);

	list_cells(look, runtime);
	drop_gone(look, delta);
	if (look->turn >= look->n)
		look->turn = 0;
	for (size_t i = 0; i < look->n; i++) {
		struct cell *cell = look->cells[i];
		bool ask = read_timeline(look, cell, state);

		if (ask || cell->fixed == NULL || is_its_turn(look, i))
			ask_supervisor(look, cell, runtime);
		look_at_budgets(cell, runtime);
		tell_cell(look, cell, delta);
		if (cell->approvals != cell->approvals_told)
			put_approvals(cell, runtime, &cell->approvals_seen, false, delta);
		cell->approvals_told = cell->approvals;
	}
	look->turn += LIVE_INFOS;
	if (snapshot != NULL)
		put_all(look, runtime, snapshot);
}
