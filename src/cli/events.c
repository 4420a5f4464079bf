/* events.c - `cloister events`: prints the events of cells: their life, their requests and their results. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/num.h"
#include "base/own.h"
#include "base/since.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/hanging.h"
#include "cli/timeline.h"
#include "cli/timeline_acts.h"

#define PAUSE_US 100000                 /* between looks, with -f */
#define INDENT 23                       /* where the event itself begins, on a terminal */
#define INDENT_CELL 13                  /* the column of the cell */

struct events {
	bool follow, json, all, colour;
	const char *format;             /* --format, or NULL */
	char since[SINCE_TEXT_MAX];     /* --since; "": from the beginning */
	struct timeline_types types;    /* --type */
	bool names_cells;               /* each line has its cell */
	struct source {
		struct timeline t;
		struct timeline_event next;     /* if HAS_NEXT */
		bool has_next, live, over;
	} *sources;
	size_t n, max;                  /* MAX of them: with --all */
	char from[SINCE_TEXT_MAX];      /* with --all: ended cells are shown if they had events since then */
	struct timespec seen[3];        /* the folders of cells, as they were at the last look */
	bool eyes;                      /* for a terminal; programs get only the lines */
	const char *none;               /* fills a column that an event does not have; "" for a terminal */
	char day[TIMELINE_TIME_MAX];    /* of the last line; initially today */
};

const struct cli_option cli_events_options[] = {
	{ "follow", 'f', NULL, "continue until the cells end; with --all, for ever", CLI_FLAG(struct events, follow) },
	{ "all", 0, NULL, "all cells with events; with -f, all that run or start", CLI_FLAG(struct events, all) },
	{ "since", 0, "TIME", "only events since then: 10m, 2h, 2026-11-18T10:00:00Z", 0 },
	{ "format", 0, "TEXT", "print this for each event, such as '{time} {host}'", 1 },
	{ "type", 0, "TYPE,...", "only events of these types: exec,file,net,refused,http,...", 2 },
	{ "json", 0, NULL, "print JSON for programs: one object per line", CLI_FLAG(struct events, json) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct events *ev = arg;
	uint64_t ms;
	int r = option->id == 0 ? since_parse(value, since_now_ms(), &ms, err) : 0;

	if (option->id == 0 && r == 0)
		since_format(ms, ev->since);
	if (option->id <= 0)
		return r;
	if (option->id == 2)
		return timeline_types_parse(value, &ev->types, err);
	ev->format = value;
	return format_check(value, err);
}

static void
print_verdict(const struct events *ev, const struct timeline_event *e)
{
	static const struct {
		const char *word, *colour;
	} verdicts[] = { { "allow", "\033[32m" }, { "deny", "\033[31m" }, { "ask", "\033[33m" } };

	/* Events of the cell's own life were not requests. */
	for (size_t i = 0; strcmp(e->type, "cell") != 0 && i < ARRAY_LEN(verdicts); i++) {
		if (strcmp(verdicts[i].word, e->verdict) == 0) {
			printf("%s%-7s%s", ev->colour ? verdicts[i].colour : "", verdicts[i].word,
			       ev->colour ? "\033[0m" : "");
			return;
		}
	}
	printf("%-7s", e->verdict[0] == '\0' || strcmp(e->type, "cell") == 0 ? ev->none : "?");
}

/* The lines have only the time. */
static void
print_day(struct events *ev, const struct timeline_event *e)
{
	char day[TIMELINE_TIME_MAX];

	if (!ev->eyes || !timeline_format_time(day, e->time, "%Y-%m-%d") || strcmp(day, ev->day) == 0)
		return;
	memcpy(ev->day, day, sizeof(day));
	printf("%s      %s%s\n", ev->colour ? "\033[2m" : "", day, ev->colour ? "\033[0m" : "");
}

static void
print_status(const struct events *ev, const struct timeline_event *e)
{
	char status[8] = "";

	if (e->status != 0)
		snprintf(status, sizeof(status), "%u", e->status);
	printf(" %6s", e->status != 0 ? status : ev->none);
}

/* The act or request, and what there is to say about it. */
static void
put_what(const struct events *ev, FILE *out, const struct timeline_event *e)
{
	timeline_print_what(out, e);
	if (timeline_is_decision(e) && timeline_has(e, "pid"))
		fprintf(out, " (process %llu)", (unsigned long long)timeline_number(e, "pid"));
	if (timeline_is_refusal(e)) {
		fputs(ev->colour ? "  \033[2m" : "  ", out);
		timeline_print_cause(out, e);
		fputs(ev->colour ? "\033[0m" : "", out);
	} else if (e->note[0] != '\0') {
		fputs("  ", out);
		text_print_safe(out, e->note, strlen(e->note), false);
	}
	if (!timeline_is_of_budget(e))
		timeline_print_cost(out, e);
}

/* ---- for programs: columns, of which each event has a few ---- */

static void
print_columns(const struct events *ev, const struct timeline_event *e)
{
	char sent[NUM_TEXT_MAX], received[NUM_TEXT_MAX], took[NUM_TEXT_MAX];

	if (e->has_sizes) {
		num_format_size(sent, e->sent);
		num_format_size(received, e->received);
		num_format_duration(took, e->ms);
	}
	print_status(ev, e);
	printf(" %7s %8s %7s  ", e->has_sizes ? sent : ev->none, e->has_sizes ? received : ev->none,
	       e->has_sizes ? took : ev->none);
	put_what(ev, stdout, e);
	putchar('\n');
}

/* ---- for people: the act or request, and then what came of it ---- */

/* The status of a refusal is cloister's own. */
static void
put_outcome(const struct events *ev, FILE *out, const struct timeline_event *e)
{
	char sent[NUM_TEXT_MAX], received[NUM_TEXT_MAX], took[NUM_TEXT_MAX];
	const bool has_status = e->status != 0 && timeline_is_decision(e) && !timeline_is_refusal(e);

	if (has_status)
		fprintf(out, "  %s%u%s", ev->colour && e->status >= 400 ? "\033[33m" : "", e->status,
		        ev->colour && e->status >= 400 ? "\033[0m" : "");
	if (e->has_sizes && !timeline_is_refusal(e))
		fprintf(out, "%s%s sent, %s received, %s", has_status ? ", " : "  ", num_format_size(sent, e->sent),
		        num_format_size(received, e->received), num_format_duration(took, e->ms));
}

/* There are many of these, and few are looked for. */
static bool
is_quiet(const struct timeline_event *e)
{
	return strcmp(e->type, "resources") == 0 || strcmp(e->type, "calls") == 0 ||
	       (strcmp(e->type, "exit") == 0 && e->status == 0 && !timeline_has(e, "signal"));
}

static void
print_hanging(const struct events *ev, const struct timeline_event *e)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	const bool dim = ev->colour && is_quiet(e);

	if (out == NULL)
		return;
	fputs(dim ? "\033[2m" : "", out);
	put_what(ev, out, e);
	put_outcome(ev, out, e);
	fputs(dim ? "\033[0m" : "", out);
	if (fclose(out) == 0)
		hanging_print(stdout, text, (ev->names_cells ? INDENT_CELL : 0) + INDENT, hanging_width(stdout));
}

static void
print_line(struct events *ev, const char *cell, const struct timeline_event *e)
{
	char time[TIMELINE_TIME_MAX];

	print_day(ev, e);
	if (ev->names_cells)
		printf("%-12.12s ", cell);
	printf("%5llu ", (unsigned long long)e->n);
	printf("%-8s ", timeline_format_time(time, e->time, "%H:%M:%S") ? time : "-");
	print_verdict(ev, e);
	if (!ev->eyes) {
		print_columns(ev, e);
		return;
	}
	putchar(' ');
	print_hanging(ev, e);
}

static int
print_event(struct events *ev, const char *cell, const struct timeline_event *e, struct err *err)
{
	OWN(freep) char *line = NULL;

	if (ev->format != NULL) {
		format_print(stdout, ev->format, e->json);
		return 0;
	}
	if (!ev->json) {
		print_line(ev, cell, e);
		return 0;
	}
	/* ASCII only: nothing in it can control a terminal. */
	line = json_dumps(e->json, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (line == NULL)
		return err_set(err, ENOMEM, "out of memory");
	puts(line);
	return 0;
}

/* Timelines from before there were records lost their oldest events.  Gaps in records are for
 * `cloister audit verify`. */
static void
note_gap(const struct timeline_event *e)
{
	if (e->n > e->before + 1) {
		fflush(stdout);
		fprintf(stderr, "cloister: events %llu to %llu are no longer kept\n",
		        (unsigned long long)e->before + 1, (unsigned long long)e->n - 1);
	}
}

/* ---- one cell or several ---- */

/* The next event of a timeline that is wanted: 1, or 0 if there is none yet. */
static int
look_ahead(const struct events *ev, struct source *s, struct err *err)
{
	int r;

	while (!s->has_next && (r = timeline_next(&s->t, &s->next, err)) != 0) {
		if (r < 0)
			return r;
		if (strcmp(s->next.time, ev->since) >= 0 && timeline_types_have(&ev->types, s->next.type))
			s->has_next = true;
		else
			timeline_event_free(&s->next);
	}
	return s->has_next;
}

/* The source whose next event is the oldest, or NULL.  Times of events sort as texts. */
static int
find_oldest(const struct events *ev, struct source **ret_source, struct err *err)
{
	*ret_source = NULL;
	for (size_t i = 0; i < ev->n; i++) {
		struct source *s = &ev->sources[i];
		int r = s->over ? 0 : look_ahead(ev, s, err);

		if (r < 0)
			return r;
		if (r > 0 && (*ret_source == NULL || strcmp(s->next.time, (*ret_source)->next.time) < 0))
			*ret_source = s;
	}
	return 0;
}

static int
print_rest(struct events *ev, struct err *err)
{
	struct source *s;
	int r;

	while ((r = find_oldest(ev, &s, err)) == 0 && s != NULL) {
		if (ev->since[0] == '\0' && ev->types.bits == 0)
			note_gap(&s->next);
		r = print_event(ev, timeline_cell(&s->t), &s->next, err);
		timeline_event_free(&s->next);
		s->has_next = false;
		if (r < 0)
			break;
	}
	return r;
}

static int
add_source(struct events *ev, const char *word, struct err *err)
{
	struct source *more = reallocarray(ev->sources, ev->n + 1, sizeof(*more));

	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	ev->sources = more;
	more[ev->n] = (struct source){0};
	return timeline_open(word, &more[ev->n].t, err) < 0 ? -err->code : (int)ev->n++;
}

static bool
is_known(const struct events *ev, const char *id)
{
	for (size_t i = 0; i < ev->n; i++)
		if (strcmp(ev->sources[i].t.entry.id, id) == 0)
			return true;
	return false;
}

/* Whether a timeline was last written before anything that is wanted. */
static bool
is_too_old(const struct events *ev, int folder, const struct cell_entry *entry)
{
	char path[CELL_ENTRY_MAX + sizeof(CELL_EVENTS) + 1], last[SINCE_TEXT_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/" CELL_EVENTS, entry->dir);
	if (fstatat(folder, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	since_format((uint64_t)st.st_mtim.tv_sec * 1000 + 999, last);
	return strcmp(last, ev->from) < 0;
}

/* Whether entries have come to FOLDER since the last look. */
static bool
is_same(int folder, struct timespec *seen)
{
	struct stat st;
	bool same;

	if (fstat(folder, &st) < 0)
		return false;
	same = st.st_mtim.tv_sec == seen->tv_sec && st.st_mtim.tv_nsec == seen->tv_nsec;
	*seen = st.st_mtim;
	return same;
}

/* Adds the cells of FOLDER that are not there yet.  One that has just gone is no error. */
static int
add_folder(struct events *ev, int folder, bool runtime, struct timespec *seen, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	if (folder < 0 || is_same(folder, seen) || cell_list(folder, runtime, &entries, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (is_known(ev, entries[i].id) || (!runtime && is_too_old(ev, folder, &entries[i])))
			continue;
		if (ev->n >= ev->max)
			return err_set(err, EMFILE, "there are more than %zu cells, which is too many at once: use --since", ev->max);
		(void)add_source(ev, entries[i].id, &(struct err){0});
	}
	return 0;
}

static int
add_all(struct events *ev, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(NULL), state = cell_state_open(false, NULL);
	OWN(closep) int ended = state < 0 ? -1 : cell_ended_open(state);
	int r;

	if (ev->max == 0) {
		ev->max = cell_connect_max() / TIMELINE_FDS;
		/* A cell may start and end between two looks. */
		if (ev->follow)
			since_format(since_now_ms() - 1000, ev->from);
		else
			memcpy(ev->from, ev->since, sizeof(ev->from));
	}
	r = add_folder(ev, runtime, true, &ev->seen[0], err);
	r = r == 0 ? add_folder(ev, state, false, &ev->seen[1], err) : r;
	return r == 0 ? add_folder(ev, ended, false, &ev->seen[2], err) : r;
}

/* Whether a cell still runs; asked before its events are read. */
static bool
is_live(struct events *ev)
{
	bool live = ev->all;

	for (size_t i = 0; i < ev->n; i++) {
		ev->sources[i].live = !ev->sources[i].over && timeline_is_live(&ev->sources[i].t);
		live |= ev->sources[i].live;
	}
	return live;
}

/* Their timelines are closed: with --all, cells come and go. */
static void
end_some(struct events *ev)
{
	for (size_t i = 0; i < ev->n; i++) {
		struct source *s = &ev->sources[i];

		if (s->live || s->over)
			continue;
		s->over = true;
		if (s->t.left_out > 0)
			fprintf(stderr, "cloister: %zu lines of the record could not be read\n", s->t.left_out);
		timeline_finish(&s->t);
	}
}

static int
print_all(struct events *ev, struct err *err)
{
	bool live;
	int r;

	do {
		r = ev->all ? add_all(ev, err) : 0;
		live = ev->follow && is_live(ev);
		r = r == 0 ? print_rest(ev, err) : r;
		if (fflush(stdout) != 0)
			break;
		end_some(ev);
		if (r == 0 && live)
			usleep(PAUSE_US);
	} while (r == 0 && live);
	return r;
}

static void
events_free(struct events *ev)
{
	for (size_t i = 0; i < ev->n; i++) {
		if (ev->sources[i].has_next)
			timeline_event_free(&ev->sources[i].next);
		timeline_close(&ev->sources[i].t);
	}
	free(ev->sources);
}

/* Prints CELL if the operator did not name it. */
static void
print_head(struct events *ev, const char *cell)
{
	time_t now = time(NULL);
	struct tm here;

	if (localtime_r(&now, &here) == NULL || strftime(ev->day, sizeof(ev->day), "%Y-%m-%d", &here) == 0)
		ev->day[0] = '\0';
	if (cell != NULL)
		printf("cell %s\n", cell);
	if (ev->names_cells)
		printf("%-12s ", "CELL");
	printf("%5s %-8s %-7s %s\n", "N", "TIME", "VERDICT", "EVENT");
}

int
cmd_events(int argc, char **argv)
{
	OWN(events_free) struct events ev = {0};
	struct err err = {0};
	int rest, r = 0;

	if (cli_parse(cli_events_options, argc, argv, true, take_option, &ev, &rest, &err) < 0)
		return cli_fail(&err);
	if (ev.all && rest < argc)
		return cli_failf("--all means every cell: remove '%s', or --all", argv[rest]);
	if (ev.format != NULL && ev.json)
		return cli_failf("--format cannot be combined with --json: remove one");
	for (int i = rest; r >= 0 && !ev.all && (i < argc || i == rest); i++)
		r = add_source(&ev, i < argc ? argv[i] : NULL, &err);
	if (r < 0)
		return cli_fail(&err);
	ev.names_cells = ev.all || ev.n > 1;
	ev.colour = !ev.json && text_wants_colour(stdout);
	ev.eyes = !ev.json && ev.format == NULL && isatty(STDOUT_FILENO);
	ev.none = ev.eyes ? "" : "-";
	if (ev.eyes)
		print_head(&ev, rest < argc || ev.all ? NULL : timeline_cell(&ev.sources[0].t));
	return print_all(&ev, &err) < 0 ? cli_fail(&err) : 0;
}
