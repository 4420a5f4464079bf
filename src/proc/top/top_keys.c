/* top_keys.c - handles keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "base/io.h"
#include "base/own.h"
#include "boundary/halt.h"
#include "cell/cell_series.h"
#include "ipc/control_channel.h"
#include "proc/top/top.h"

#define REASON_MAX 400
#define ESCAPE 27

/* ---- choosing ---- */

static void
choose_asked(struct top *t, const char *id)
{
	if (strcmp(t->approval, id) == 0)
		return;
	snprintf(t->approval, sizeof(t->approval), "%s", id);
	t->chosen_ms = io_now_ms();
}

static void
move_in_asked(struct top *t, int by)
{
	const struct top_asked *now = top_chosen_asked(t);
	long at = now == NULL ? 0 : now - t->asked + by;

	if (t->n_asked > 0)
		choose_asked(t, t->asked[at < 0 ? 0 : at >= (long)t->n_asked ? (long)t->n_asked - 1 : at].id);
}

static void
move_in_cells(struct top *t, int by)
{
	const struct top_cell *now = top_find_cell(t, t->cell);
	long at = now == NULL ? 0 : now - t->cells + by;

	if (t->n_shown > 0)
		snprintf(t->cell, sizeof(t->cell), "%s",
		         t->cells[at < 0 ? 0 : at >= (long)t->n_shown ? (long)t->n_shown - 1 : at].entry.id);
}

/* ---- approvals ---- */

/* The operator must have seen an approval before a key answers it. */
static struct top_asked *
answerable(struct top *t)
{
	struct top_asked *asked = top_chosen_asked(t);

	if (asked == NULL)
		top_say(t, true, "no waiting request is selected");
	else if (io_now_ms() - t->chosen_ms >= TOP_EYE_MS)
		return asked;
	return NULL;
}

static void
give_answer(struct top *t, uint64_t ms, const char *reason)
{
	struct top_asked *asked = top_chosen_asked(t);
	char what[TOP_TEXT];
	struct err err = {0};
	int r;

	if (asked == NULL) {
		top_say(t, true, "this request no longer waits");
		return;
	}
	snprintf(what, sizeof(what), "%s", asked->what);
	r = top_answer(t, asked, ms, reason, &err);
	if (r < 0)
		top_say(t, true, "%s", err.text);
	else
		top_say(t, false, "%s: %s", reason != NULL ? "refused" : r == 0 ?
		        "noted; another person has to approve too" : ms > 0 ? "approved for 10 minutes" : "approved once",
		        what);
	/* Keys typed ahead were not meant for the next one. */
	flushinp();
}

static bool
is_enter(int key)
{
	return key == '\n' || key == '\r' || key == KEY_ENTER;
}

static void
type_reason(struct top *t, int key)
{
	size_t len = strlen(t->reason);

	if (key == ESCAPE) {
		free(TAKE(t->reason));
	} else if (is_enter(key)) {
		OWN(freep) char *reason = TAKE(t->reason);

		if (reason[strspn(reason, " ")] == '\0')
			top_say(t, true, "type a reason: the agent sees it");
		else
			give_answer(t, 0, reason);
	} else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && len > 0) {
		do
			len--;
		while (len > 0 && ((unsigned char)t->reason[len] & 0xc0) == 0x80);
		t->reason[len] = '\0';
	} else if (key >= ' ' && key < 256 && key != 127 && len < REASON_MAX) {
		t->reason[len] = (char)key;
		t->reason[len + 1] = '\0';
	}
}

static void
begin_reason(struct top *t)
{
	if (answerable(t) != NULL)
		t->reason = calloc(1, REASON_MAX + 2);
}

/* ---- the order of cells ---- */

/* Escape shows all of them again. */
static void
type_filter(struct top *t, int key)
{
	size_t len = strlen(t->filter);

	if (key == ESCAPE)
		t->filter[0] = '\0';
	if (key == ESCAPE || is_enter(key))
		t->filters = false;
	else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && len > 0)
		t->filter[len - 1] = '\0';
	else if (key >= ' ' && key < 127 && len + 1 < sizeof(t->filter)) {
		t->filter[len] = (char)key;
		t->filter[len + 1] = '\0';
	}
	top_sort_cells(t);
}

static void
sort_by_next(struct top *t)
{
	static const char *const names[TOP_SORTS] = { "age", "name", "processor time", "memory", "requests",
	                                              "refusals" };

	t->sort = (t->sort + 1) % TOP_SORTS;
	top_sort_cells(t);
	top_say(t, false, "sorted by %s", names[t->sort]);
}

/* ---- cells ---- */

static int
do_to(const struct top_cell *cell, enum steer_verb verb, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	struct halt h = { .entry = cell->entry };

	if (runtime < 0)
		return runtime;
	if (verb != VERB_KILL)
		return cell_control_ask_one(runtime, &cell->entry, verb, NULL, err);
	halt_kill(runtime, &h, 1, NULL);
	halt_close(&h, 1);
	return h.state == HALT_FAILED ? err_set(err, h.err.code, "%s", h.err.text) : 0;
}

static const char *
called(const struct top_cell *cell)
{
	return cell->entry.name[0] != '\0' ? cell->entry.name : cell->entry.id;
}

static void
freeze_or_thaw(struct top *t)
{
	const struct top_cell *cell = top_find_cell(t, t->cell);
	struct err err = {0};
	bool thaws = cell != NULL && cell->state == CONTROL_STATE_FROZEN;

	if (cell == NULL)
		return;
	if (do_to(cell, thaws ? VERB_THAW : VERB_FREEZE, &err) < 0)
		top_say(t, true, "%s", err.text);
	else
		top_say(t, false, "%s %s", thaws ? "thawed" : "froze", called(cell));
}

static void
kill_one(struct top *t)
{
	const struct top_cell *cell = top_find_cell(t, t->cell);
	struct err err = {0};

	if (cell == NULL)
		return;
	if (do_to(cell, VERB_KILL, &err) < 0)
		top_say(t, true, "%s", err.text);
	else
		top_say(t, false, "killed %s", called(cell));
}

static void
freeze_all(struct top *t)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	struct err err = {0};
	size_t done = 0, failed = 0;

	/* Cells that are about to start again, too. */
	if (runtime >= 0)
		(void)cell_series_hold_each(runtime, NULL, true);
	for (size_t i = 0; i < t->n_cells; i++) {
		if (t->cells[i].state != CONTROL_STATE_RUNS && t->cells[i].state != CONTROL_STATE_SILENT)
			continue;
		if (do_to(&t->cells[i], VERB_FREEZE, &err) == 0)
			done++;
		else
			failed++;
	}
	if (failed > 0)
		top_say(t, true, "froze %zu of %zu cells (K kills one, `cloister kill --all` all): %s", done,
		        done + failed, err.text);
	else
		top_say(t, false, "froze %zu cell%s: z thaws one, `cloister thaw --all` all", done,
		        done == 1 ? "" : "s");
}

/* The first press shows what the second will do. */
static bool
is_sure(struct top *t, char key, const char *what)
{
	if (t->armed == key && io_now_ms() < t->armed_until_ms) {
		t->armed = 0;
		return true;
	}
	t->armed = key;
	t->armed_until_ms = io_now_ms() + TOP_SURE_MS;
	top_say(t, true, "press %c again to %s", key, what);
	return false;
}

/* ---- all of them ---- */

static void
press_in_cells(struct top *t, int key)
{
	switch (key) {
	case 'z':
		freeze_or_thaw(t);
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		t->inside = top_find_cell(t, t->cell) != NULL;
		break;
	case 'K':
		if (top_find_cell(t, t->cell) != NULL && is_sure(t, 'K', "kill this cell"))
			kill_one(t);
		break;
	default:
		break;
	}
}

static void
press_in_asked(struct top *t, int key)
{
	switch (key) {
	case 'a':
		if (answerable(t) != NULL)
			give_answer(t, 0, NULL);
		break;
	case 'f':
		if (answerable(t) != NULL)
			give_answer(t, TOP_FOR_MS, NULL);
		break;
	case 'r':
		begin_reason(t);
		break;
	default:
		break;
	}
}

static void
move_by(struct top *t, int by)
{
	if (t->pane == TOP_ASKED)
		move_in_asked(t, by);
	else
		move_in_cells(t, by);
}

void
top_press(struct top *t, int key)
{
	if (t->reason != NULL) {
		type_reason(t, key);
		return;
	}
	if (t->filters) {
		type_filter(t, key);
		return;
	}
	if (key != t->armed)
		t->armed = 0;
	if (t->help) {
		t->help = false;
		return;
	}
	if (t->inside && (key == 'q' || key == 'u' || key == ESCAPE || key == KEY_BACKSPACE || is_enter(key))) {
		t->inside = false;
		return;
	}
	switch (key) {
	case 'q':
		t->quit = true;
		break;
	case '/':
		t->filters = true;
		t->filter[0] = '\0';
		t->pane = TOP_CELLS;
		break;
	case 's':
		sort_by_next(t);
		break;
	case '?':
	case 'h':
		t->help = true;
		break;
	case '\t':
		t->inside = false;
		t->pane = t->pane == TOP_CELLS && t->n_asked > 0 ? TOP_ASKED : TOP_CELLS;
		break;
	case 'j':
	case KEY_DOWN:
		move_by(t, 1);
		break;
	case 'k':
	case KEY_UP:
		move_by(t, -1);
		break;
	case KEY_NPAGE:
		move_by(t, 10);
		break;
	case KEY_PPAGE:
		move_by(t, -10);
		break;
	case '!':
		if (is_sure(t, '!', "freeze every cell"))
			freeze_all(t);
		break;
	default:
		if (t->pane == TOP_ASKED)
			press_in_asked(t, key);
		else
			press_in_cells(t, key);
		break;
	}
}
