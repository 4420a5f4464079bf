/* top_screen.c - draws the screen: approvals above, the cells below, the keys in the last line. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "ipc/control_channel.h"
#include "proc/top/top.h"

#define ASKED_ROWS 5                    /* of the list of approvals, at most */
#define CARD_ROWS 8                     /* of the details of the selected one */

enum ink { INK_PLAIN, INK_OK, INK_WARN, INK_BAD, INK_COLD, INK_DIM, INK_BAR };

int
top_screen_open(struct top *t, struct err *err)
{
	const char *term = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(err, ENOTTY, "'top' needs a terminal: `cloister ps` prints the running "
		               "cells");
	/* The output is UTF-8. */
	if (setlocale(LC_ALL, "") == NULL || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		(void)setlocale(LC_ALL, "C.UTF-8");
	if (newterm(NULL, stdout, stdin) == NULL)
		return err_set(err, ENOTTY, "the terminal type '%.64s' is unknown: set TERM",
		               term != NULL ? term : "");
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	t->colour = text_wants_colour(stdout) && has_colors();
	if (t->colour) {
		start_color();
		use_default_colors();
		init_pair(INK_OK, COLOR_GREEN, -1);
		init_pair(INK_WARN, COLOR_YELLOW, -1);
		init_pair(INK_BAD, COLOR_RED, -1);
		init_pair(INK_COLD, COLOR_CYAN, -1);
	}
	return 0;
}

void
top_screen_close(void)
{
	endwin();
}

int
top_key(unsigned ms)
{
	timeout((int)ms);
	return getch();
}

/* ---- text ---- */

/* Prints TEXT from column X in at most WIDTH columns; returns where it ended.  Characters without a
 * width are left out. */
static int
put(int y, int x, int width, const char *text)
{
	mbstate_t state = {0};
	size_t left = strlen(text), n;
	int used = 0, columns;
	wchar_t c;

	if (y < 0 || y >= LINES || x >= COLS)
		return x;
	if (width > COLS - x)
		width = COLS - x;
	for (; left > 0; text += n, left -= n) {
		n = mbrtowc(&c, text, left, &state);
		if (n == 0 || n == (size_t)-1 || n == (size_t)-2)
			break;
		columns = wcwidth(c);
		if (columns <= 0)
			continue;
		if (used + columns > width)
			break;
		mvaddnwstr(y, x + used, &c, 1);
		used += columns;
	}
	return x + used;
}

static void
ink(const struct top *t, enum ink kind, bool bold)
{
	bool coloured = t->colour && kind >= INK_OK && kind <= INK_COLD;

	attrset((coloured ? (attr_t)COLOR_PAIR(kind) : A_NORMAL) | (kind == INK_BAR ? A_REVERSE : A_NORMAL) |
	        (kind == INK_DIM ? A_DIM : A_NORMAL) | (bold ? A_BOLD : A_NORMAL));
}

static void
fill_line(int y)
{
	mvhline(y, 0, ' ', COLS);
}

static void
format_bytes(char text[NUM_TEXT_MAX], uint64_t n)
{
	if (n == 0)
		snprintf(text, NUM_TEXT_MAX, "-");
	else
		num_format_size(text, n);
}

static void
format_count(char text[NUM_TEXT_MAX], uint64_t n)
{
	if (n == 0)
		snprintf(text, NUM_TEXT_MAX, "-");
	else if (n < 100000)
		snprintf(text, NUM_TEXT_MAX, "%llu", (unsigned long long)n);
	else
		snprintf(text, NUM_TEXT_MAX, "%lluk", (unsigned long long)(n / 1000));
}

/* ---- what waits ---- */

static void
draw_fact(const struct top *t, int y, const char *name, const char *text)
{
	ink(t, INK_DIM, false);
	put(y, 2, 9, name);
	ink(t, INK_PLAIN, false);
	put(y, 12, COLS - 13, text[0] != '\0' ? text : "-");
}

/* Prints as many lines as there is room for, down to LAST. */
static int
draw_lines(const struct top *t, int y, int last, const char *name, const char *text)
{
	for (const char *end; *text != '\0'; text = *end == '\n' ? end + 1 : end, name = "") {
		char line[TOP_TEXT];

		end = strchrnul(text, '\n');
		snprintf(line, sizeof(line), "%.*s", (int)(end - text), text);
		if (y == last && *end != '\0')
			snprintf(line, sizeof(line), "(more: `cloister approvals` shows all of it)");
		if (y > last)
			break;
		draw_fact(t, y++, name, line);
	}
	return y;
}

static int
draw_card(const struct top *t, const struct top_asked *asked, int y)
{
	/* The cells keep a few lines. */
	int last = LINES - 8 > y + 6 ? LINES - 8 : y + 6;

	draw_fact(t, y++, "cell", asked->who);
	draw_fact(t, y++, "reason", asked->reason);
	draw_fact(t, y++, "rule", asked->rule);
	draw_fact(t, y++, "secrets", asked->secrets);
	draw_fact(t, y++, "approvers", asked->approvers);
	draw_fact(t, y++, "body", asked->body);
	y = draw_lines(t, y, last, "", asked->shape);
	y = draw_lines(t, y, last, "query", asked->query);
	return draw_lines(t, y, last, "headers", asked->headers);
}

static int
draw_asked_row(const struct top *t, const struct top_asked *asked, int y)
{
	bool chosen = t->pane == TOP_ASKED && strcmp(asked->id, t->approval) == 0;
	char left[NUM_TEXT_MAX + 8] = "", age[NUM_TEXT_MAX];
	int64_t seconds = asked->until_s - (int64_t)time(NULL);
	int name = COLS >= 80 ? 20 : COLS >= 50 ? 12 : 0;

	if (asked->until_s != 0) {
		num_format_duration(age, seconds > 0 ? (uint64_t)seconds * 1000 : 0);
		snprintf(left, sizeof(left), "%s left", age);
	}
	ink(t, chosen ? INK_BAR : INK_WARN, true);
	fill_line(y);
	/* From now on a key answers it. */
	if (chosen && io_now_ms() - t->chosen_ms >= TOP_EYE_MS)
		put(y, 0, 1, ">");
	put(y, 1, COLS - 18 - name, asked->what);
	put(y, COLS - 15 - name, name - 1, asked->name);
	ink(t, chosen ? INK_BAR : seconds < 60 ? INK_BAD : INK_PLAIN, false);
	put(y, COLS - 14, 14, left);
	return y + 1;
}

/* Keeps the selected one in view. */
static int
draw_asked(struct top *t, int y)
{
	const struct top_asked *chosen = top_chosen_asked(t);
	size_t at = chosen == NULL ? 0 : (size_t)(chosen - t->asked);
	size_t rows = LINES > 24 ? ASKED_ROWS : 2, first = at >= rows ? at - rows + 1 : 0;
	char title[96];

	if (t->n_asked == 0)
		return y;
	ink(t, INK_PLAIN, true);
	snprintf(title, sizeof(title), "%zu wait%s for an answer", t->n_asked, t->n_asked == 1 ? "s" : "");
	put(y++, 1, COLS, title);
	for (size_t i = first; i < t->n_asked && i < first + rows && y < LINES - 2; i++)
		y = draw_asked_row(t, &t->asked[i], y);
	if (chosen != NULL && LINES - y > CARD_ROWS + 4)
		y = draw_card(t, chosen, y);
	return y + 1;
}

/* ---- cells ---- */

struct column {
	const char *name;
	int width;                      /* 0: the rest of the line */
	bool right;
	int from;                       /* minimum width of the terminal to show it */
};
static const struct column columns[] = {
	{ "STATE", 7, false, 0 }, { "CELL", 18, false, 0 }, { "AGE", 8, true, 60 }, { "CPU", 5, true, 96 },
	{ "MEMORY", 8, true, 104 }, { "PROCS", 6, true, 140 }, { "REQUESTS", 9, true, 70 }, { "REFUSED", 8, true, 70 },
	{ "IN", 7, true, 110 }, { "OUT", 7, true, 110 }, { "BUDGET", 14, false, 90 },
	{ "LAST REFUSAL / COMMAND", 0, false, 0 },
};

#define LAST_COLUMN (ARRAY_LEN(columns) - 1)
/* The column of each order. */
static const size_t sorted[TOP_SORTS] = { [TOP_BY_AGE] = 2, [TOP_BY_NAME] = 1, [TOP_BY_CPU] = 3,
	[TOP_BY_MEMORY] = 4, [TOP_BY_REQUESTS] = 6, [TOP_BY_REFUSED] = 7 };

static int
put_column(int y, int x, const struct column *column, const char *text)
{
	int width = column->width == 0 ? COLS - x - 1 : column->width;
	int len = (int)strlen(text);

	if (COLS < column->from)
		return x;
	put(y, column->right && len < width ? x + width - len : x, width, text);
	return x + width + 1;
}

static void
format_cpu(char text[NUM_TEXT_MAX], const struct top_cell *cell)
{
	if (!cell->has_cpu)
		snprintf(text, NUM_TEXT_MAX, "-");
	else
		snprintf(text, NUM_TEXT_MAX, "%.0f%%", cell->cpu_percent);
}

/* Use of the fullest budget in percent; -1: none. */
static int
format_budget(char text[NUM_TEXT_MAX], const struct top_cell *cell)
{
	struct cell_budget_line line;
	double part;
	int percent;

	snprintf(text, NUM_TEXT_MAX, "-");
	if (cell->budgets == NULL || !cell_budgets_fullest(cell->budgets, &line, &part))
		return -1;
	percent = part > 9.99 ? 999 : (int)(part * 100);
	snprintf(text, NUM_TEXT_MAX, "%3d%% %s", percent, policy_kind_name(line.kind));
	return percent;
}

/* The last refusal; an attempt to steal a secret is more important.  "": there was none. */
static void
format_last(char ret_text[TOP_TEXT], const struct top_cell *cell)
{
	const struct audit_refusal *last = cell->sum.total.thefts > 0 ? &cell->sum.theft :
	                                   cell->sum.acts.watches > 0 ? &cell->sum.watch : &cell->sum.refusal;
	char text[2 * CELL_REFUSAL_TEXT + 40];

	ret_text[0] = '\0';
	if (last->what[0] == '\0')
		return;
	snprintf(text, sizeof(text), "%s%s  %s", cell->sum.total.thefts > 0 ? "TRIED TO STEAL A SECRET: " :
	         cell->sum.acts.watches > 0 ? "WATCH: " : "",
	         last->what, last->why);
	top_safe(ret_text, text);
}

static enum ink
kind_of(const struct top_cell *cell)
{
	return !cell->answers || cell->sum.total.thefts > 0 || cell->sum.acts.watches > 0 ? INK_BAD : cell->state == CONTROL_STATE_FROZEN ? INK_COLD :
	       cell->state == CONTROL_STATE_DEAD ? INK_DIM : INK_OK;
}

static void
draw_cell(const struct top *t, const struct top_cell *cell, int y)
{
	char label[CELL_NAME_MAX + CELL_MACHINE_MAX + 2];
	const struct audit_slot *total = &cell->sum.total;
	bool chosen = t->pane == TOP_CELLS && strcmp(cell->entry.id, t->cell) == 0;
	char text[ARRAY_LEN(columns)][NUM_TEXT_MAX], last[TOP_TEXT];
	uint64_t now_s = (uint64_t)time(NULL);
	int x = 1, percent;

	num_format_duration(text[2], now_s > cell->started_ns / 1000000000 ?
	                    (now_s - cell->started_ns / 1000000000) * 1000 : 1000);
	format_cpu(text[3], cell);
	format_bytes(text[4], cell->memory);
	format_count(text[5], cell->pids);
	format_count(text[6], total->requests);
	format_count(text[7], total->refused);
	format_bytes(text[8], total->bytes_in);
	format_bytes(text[9], total->bytes_out);
	percent = format_budget(text[10], cell);
	ink(t, chosen ? INK_BAR : kind_of(cell), chosen);
	if (chosen)
		fill_line(y);
	x = put_column(y, x, &columns[0], cell_state_word(cell->answers ? cell->state : CONTROL_STATE_SILENT, cell->waiting));
	ink(t, chosen ? INK_BAR : INK_PLAIN, true);
	snprintf(label, sizeof(label), "%s%s%s", cell->entry.name[0] != '\0' ? cell->entry.name : cell->entry.id,
	         cell->machine[0] != '\0' ? "@" : "", cell->machine);
	x = put_column(y, x, &columns[1], label);
	for (size_t i = 2; i < LAST_COLUMN; i++) {
		bool bad = (i == 7 && total->refused > 0) || (i == 10 && percent >= 100);

		ink(t, chosen ? INK_BAR : bad ? INK_BAD : i == 10 && percent >= 80 ? INK_WARN : INK_PLAIN, false);
		x = put_column(y, x, &columns[i], text[i]);
	}
	format_last(last, cell);
	ink(t, chosen ? INK_BAR : last[0] != '\0' ? INK_BAD : INK_PLAIN, total->thefts > 0);
	put_column(y, x, &columns[LAST_COLUMN], last[0] != '\0' ? last : cell->command);
}

static void
draw_cells(struct top *t, int y)
{
	const struct top_cell *chosen = top_find_cell(t, t->cell);
	size_t rows = LINES - 3 > y ? (size_t)(LINES - 3 - y) : 0;
	size_t at = chosen == NULL ? 0 : (size_t)(chosen - t->cells);
	int x = 1;

	ink(t, INK_PLAIN, true);
	attron(A_UNDERLINE);
	fill_line(y);
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		attr_t mark = i == sorted[t->sort] ? A_REVERSE : A_NORMAL;

		attron(mark);
		x = put_column(y, x, &columns[i], columns[i].name);
		attroff(mark);
	}
	if (at < t->first_cell)
		t->first_cell = at;
	if (rows > 0 && at >= t->first_cell + rows)
		t->first_cell = at - rows + 1;
	for (size_t i = t->first_cell; i < t->n_shown && i < t->first_cell + rows; i++)
		draw_cell(t, &t->cells[i], ++y);
	ink(t, INK_DIM, false);
	if (t->n_cells == 0)
		put(y + 2, 2, COLS - 3, "No cell runs. Start one: `cloister run claude`, or `cloister run -w . -- sh`");
	else if (t->n_shown == 0)
		put(y + 2, 2, COLS - 3, "No cell matches: / and Escape show all");
}

/* ---- one cell ---- */

static int
draw_budgets(const struct top *t, const struct top_cell *cell, int y)
{
	char text[NUM_TEXT_MAX];

	if (format_budget(text, cell) >= 0)
		draw_fact(t, y++, "budget", text);
	return y;
}

/* What its cgroup counts. */
static int
draw_use(const struct top *t, const struct cell_use *use, int y)
{
	char cpu[NUM_TEXT_MAX], peak[NUM_TEXT_MAX], disk[NUM_TEXT_MAX], read[NUM_TEXT_MAX], written[NUM_TEXT_MAX],
	     text[8 * NUM_TEXT_MAX];

	if (use->cpu_us == 0 && use->peak == 0)
		return y;
	num_format_duration(cpu, use->cpu_us / 1000);
	format_bytes(peak, use->peak);
	format_bytes(disk, use->disk);
	snprintf(text, sizeof(text), "cpu %s, memory at most %s, disk %s", cpu, peak, disk);
	draw_fact(t, y++, "used", text);
	if (use->has_io != 0) {
		format_bytes(read, use->read);
		format_bytes(written, use->written);
		snprintf(text, sizeof(text), "%s read, %s written", read, written);
		draw_fact(t, y++, "disks", text);
	}
	if (use->has_pressure != 0) {
		snprintf(text, sizeof(text), "cpu %.1f%%, disks %.1f%%, memory %.1f%%", (double)use->pressure_cpu / 100,
		         (double)use->pressure_io / 100, (double)use->pressure_memory / 100);
		draw_fact(t, y++, "waits", text);
	}
	return y;
}

static int
draw_acts(const struct top *t, const struct audit_acts *acts, int y)
{
	char text[8 * NUM_TEXT_MAX];

	if (acts->programs + acts->refused + acts->dangerous + acts->lost == 0)
		return y;
	snprintf(text, sizeof(text), "%llu program%s, %llu call%s refused, %llu dangerous, %llu act%s lost",
	         (unsigned long long)acts->programs, text_plural(acts->programs), (unsigned long long)acts->refused,
	         text_plural(acts->refused), (unsigned long long)acts->dangerous, (unsigned long long)acts->lost,
	         text_plural(acts->lost));
	draw_fact(t, y++, "inside", text);
	return y;
}

static int
draw_figures(const struct top *t, const struct top_cell *cell, int y)
{
	const struct audit_slot *total = &cell->sum.total;
	char cpu[NUM_TEXT_MAX], memory[NUM_TEXT_MAX], procs[NUM_TEXT_MAX], in[NUM_TEXT_MAX], out[NUM_TEXT_MAX],
	     text[8 * NUM_TEXT_MAX];

	format_cpu(cpu, cell);
	format_bytes(memory, cell->memory);
	format_count(procs, cell->pids);
	format_bytes(in, total->bytes_in);
	format_bytes(out, total->bytes_out);
	snprintf(text, sizeof(text), "cpu %s, memory %s, processes %s", cpu, memory, procs);
	draw_fact(t, y++, "uses", text);
	y = draw_use(t, &cell->use, y);
	y = draw_acts(t, &cell->sum.acts, y);
	snprintf(text, sizeof(text), "%llu request%s, %llu refused, %s in, %s out",
	         (unsigned long long)total->requests, text_plural(total->requests), (unsigned long long)total->refused, in, out);
	draw_fact(t, y++, "network", text);
	return y;
}

static void
draw_event(const struct top *t, const struct top_event *e, int y)
{
	bool refused = strcmp(e->verdict, "deny") == 0 || strcmp(e->verdict, "ask") == 0 ||
	               strcmp(e->type, "refused") == 0 || strcmp(e->type, "danger") == 0 || strcmp(e->type, "watch") == 0;
	int x;

	ink(t, INK_DIM, false);
	put(y, 2, 9, e->time);
	ink(t, refused ? INK_BAD : INK_PLAIN, false);
	put(y, 12, 10, e->type);
	put(y, 23, 6, e->verdict);
	x = put(y, 30, COLS - 31, e->what);
	put(y, x + 2, COLS - x - 3, e->why);
}

static void
draw_inside(const struct top *t)
{
	const struct top_cell *cell = top_find_cell(t, t->cell);
	OWN(freep) struct top_event *events = calloc(TOP_EVENTS_MAX, sizeof(*events));
	size_t rows, n;
	char last[TOP_TEXT];
	int y = 2;

	if (cell == NULL || events == NULL)
		return;
	ink(t, kind_of(cell), true);
	put(y, 2, 40, cell->entry.name[0] != '\0' ? cell->entry.name : cell->entry.id);
	ink(t, INK_DIM, false);
	put(y++, COLS > 60 ? 44 : 22, 20, cell->entry.id);
	draw_fact(t, y++, "command", cell->command);
	if (cell->principal[0] != '\0')
		draw_fact(t, y++, "for", cell->principal);
	y = draw_figures(t, cell, y);
	y = draw_budgets(t, cell, y);
	format_last(last, cell);
	if (last[0] != '\0')
		draw_fact(t, y++, "refused", last);
	ink(t, INK_PLAIN, true);
	put(++y, 2, COLS - 3, "Newest events");
	rows = LINES - 3 > y ? (size_t)(LINES - 3 - y) : 0;
	n = top_events(cell, events, rows < TOP_EVENTS_MAX ? rows : TOP_EVENTS_MAX);
	for (size_t i = 0; i < n; i++)
		draw_event(t, &events[i], ++y);
}

/* ---- the frame ---- */

static void
draw_head(const struct top *t)
{
	char text[160];
	size_t frozen = 0, thieves = 0;
	int x;

	for (size_t i = 0; i < t->n_cells; i++) {
		frozen += t->cells[i].state == CONTROL_STATE_FROZEN;
		thieves += t->cells[i].sum.total.thefts > 0;
	}
	snprintf(text, sizeof(text), " cloister   %zu cell%s   %zu frozen   %zu waiting", t->n_cells,
	         t->n_cells == 1 ? "" : "s", frozen, t->n_asked);
	ink(t, INK_BAR, true);
	fill_line(0);
	x = put(0, 0, COLS, text);
	if (t->filter[0] != '\0') {
		snprintf(text, sizeof(text), "   filter: %s", t->filter);
		x = put(0, x, COLS - x, text);
	}
	if (thieves > 0) {
		snprintf(text, sizeof(text), " %zu tried to steal a secret ", thieves);
		ink(t, INK_BAD, true);
		attron(A_REVERSE);
		put(0, x + 3, COLS - x - 3, text);
	}
}

static void
draw_foot(const struct top *t)
{
	const char *keys = t->inside ? " q back  j/k other cells  z freeze/thaw  K kill  ? keys" : t->pane == TOP_ASKED ?
		" a approve once  f for 10m  r refuse  tab cells  ! freeze all  ? keys  q quit" :
		" j/k move  enter look  / filter  s sort  z freeze/thaw  K kill  tab approvals  ? keys  q quit";

	ink(t, t->said_bad ? INK_BAD : INK_OK, true);
	put(LINES - 2, 1, COLS - 1, t->said);
	ink(t, INK_BAR, false);
	fill_line(LINES - 1);
	if (t->reason != NULL) {
		int x = put(LINES - 1, 0, COLS, " Reason, which the agent sees: ");

		put(LINES - 1, x, COLS - x, t->reason);
	} else if (t->filters) {
		int x = put(LINES - 1, 0, COLS, " Show only cells with: ");

		put(LINES - 1, x, COLS - x, t->filter);
	} else {
		put(LINES - 1, 0, COLS, keys);
	}
}

static void
draw_help(const struct top *t)
{
	static const char *const lines[] = {
		"a      approve the chosen request, this once", "f      approve every request of its rule, "
		"for 10 minutes",
		"r      refuse it, with a reason that the agent sees", "j, k   move, as the arrow keys do",
		"tab    switch between approvals and cells", "enter  look at the chosen cell; again, or q, goes back",
		"/      show only some cells; Escape shows all", "s      sort by age, name, processor, memory, requests, refusals", "z      freeze or thaw the chosen cell", "K      "
		"kill it (press twice)",
		"!      freeze every cell (press twice); `cloister kill --all` ends them", "q      leave; cells are not touched",
	};

	ink(t, INK_PLAIN, true);
	put(2, 2, COLS, "Keys");
	ink(t, INK_PLAIN, false);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++)
		put((int)i + 4, 4, COLS - 4, lines[i]);
	put((int)ARRAY_LEN(lines) + 5, 4, COLS - 4, "Any key goes back.");
}

void
top_draw(struct top *t)
{
	erase();
	draw_head(t);
	if (t->help)
		draw_help(t);
	else if (t->inside)
		draw_inside(t);
	else
		draw_cells(t, draw_asked(t, 2));
	draw_foot(t);
	refresh();
}
