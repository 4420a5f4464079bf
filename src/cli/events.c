/* events.c - `cloister events`: prints the events of a cell: its life, its requests and their results. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/timeline.h"

#define PAUSE_US 100000                 /* between looks, with -f */

struct events {
	bool follow, json, colour;
	bool eyes;                      /* for a terminal; programs get only the lines */
	const char *none;               /* fills a column that an event does not have */
	char day[TIMELINE_TIME_MAX];    /* of the last line; initially today */
};

const struct cli_option cli_events_options[] = {
	{ "follow", 'f', NULL, "continue until the cell ends", CLI_FLAG(struct events, follow) },
	{ "json", 0, NULL, "print JSON for programs: one object per line", CLI_FLAG(struct events, json) },
	{0}
};

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

/* An error response is no success, whatever the verdict. */
static void
print_status(const struct events *ev, const struct timeline_event *e)
{
	bool is_bad = ev->colour && e->status >= 400 && strncmp(e->type, "cell", 4) != 0;
	char status[8] = "";

	if (e->status != 0)
		snprintf(status, sizeof(status), "%u", e->status);
	printf("%s %6s%s", is_bad ? "\033[33m" : "", e->status != 0 ? status : ev->none,
	       is_bad ? "\033[0m" : "");
}

static void
print_line(struct events *ev, const struct timeline_event *e)
{
	char sent[NUM_TEXT_MAX], received[NUM_TEXT_MAX], took[NUM_TEXT_MAX], time[TIMELINE_TIME_MAX];

	print_day(ev, e);
	if (e->has_sizes) {
		num_format_size(sent, e->sent);
		num_format_size(received, e->received);
		num_format_duration(took, e->ms);
	}
	printf("%5llu ", (unsigned long long)e->n);
	printf("%-8s ", timeline_format_time(time, e->time, "%H:%M:%S") ? time : "-");
	print_verdict(ev, e);
	print_status(ev, e);
	printf(" %7s %8s %7s  ", e->has_sizes ? sent : ev->none, e->has_sizes ? received : ev->none,
	       e->has_sizes ? took : ev->none);
	timeline_print_what(stdout, e);
	if (timeline_is_refusal(e)) {
		fputs(ev->colour ? "  \033[2m" : "  ", stdout);
		timeline_print_cause(stdout, e);
		fputs(ev->colour ? "\033[0m" : "", stdout);
	} else if (e->note[0] != '\0') {
		fputs("  ", stdout);
		text_print_safe(stdout, e->note, strlen(e->note), false);
	}
	if (!timeline_is_of_budget(e))
		timeline_print_cost(stdout, e);
	putchar('\n');
}

static int
print_event(struct events *ev, const struct timeline_event *e, struct err *err)
{
	OWN(freep) char *line = NULL;

	if (!ev->json) {
		print_line(ev, e);
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

static int
print_rest(struct events *ev, struct timeline *t, struct err *err)
{
	struct timeline_event e;
	int r;

	while ((r = timeline_next(t, &e, err)) > 0) {
		note_gap(&e);
		r = print_event(ev, &e, err);
		timeline_event_free(&e);
		if (r < 0)
			break;
	}
	return r;
}

static int
print_all(struct events *ev, struct timeline *t, struct err *err)
{
	bool live;
	int r;

	do {
		live = ev->follow && timeline_is_live(t);
		r = print_rest(ev, t, err);
		if (fflush(stdout) != 0)
			break;
		if (r == 0 && live)
			usleep(PAUSE_US);
	} while (r == 0 && live);
	if (t->left_out > 0)
		fprintf(stderr, "cloister: %zu lines of the record could not be read\n", t->left_out);
	return r;
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
	printf("%5s %-8s %-7s %6s %7s %8s %7s  %s\n", "N", "TIME", "VERDICT", "STATUS", "SENT", "RECEIVED",
	       "TOOK", "REQUEST");
}

int
cmd_events(int argc, char **argv)
{
	OWN(timeline_close) struct timeline t = {0};
	struct events ev = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_events_options, argc, argv, true, NULL, &ev, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest > 1)
		return cli_failf("only one cell can be given: remove '%s'", argv[rest + 1]);
	if (timeline_open(rest < argc ? argv[rest] : NULL, &t, &err) < 0)
		return cli_fail(&err);
	ev.colour = !ev.json && text_wants_colour(stdout);
	ev.eyes = !ev.json && isatty(STDOUT_FILENO);
	ev.none = ev.eyes ? "" : "-";
	if (ev.eyes)
		print_head(&ev, rest < argc ? NULL : timeline_cell(&t));
	return print_all(&ev, &t, &err) < 0 ? cli_fail(&err) : 0;
}
