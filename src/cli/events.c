/* events.c - `cloister events`: what befell a cell, and what it wanted of the network and got. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/timeline.h"

#define PAUSE_US 100000                 /* between looks, with -f */

enum { OPT_FOLLOW, OPT_JSON };

const struct cli_option cli_events_options[] = {
	{ "follow", 'f', NULL, "go on until the cell ends", OPT_FOLLOW },
	{ "json", 0, NULL, "for programs: one object a line", OPT_JSON },
	{0}
};

struct events {
	bool follow, json, colour;
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct events *ev = arg;

	(void)value;
	(void)err;
	if (option->id == OPT_FOLLOW)
		ev->follow = true;
	else
		ev->json = true;
	return 0;
}

static void
print_verdict(const struct events *ev, const struct timeline_event *e)
{
	static const struct {
		const char *word, *colour;
	} verdicts[] = { { "allow", "\033[32m" }, { "deny", "\033[31m" }, { "ask", "\033[33m" } };

	/* What befell the cell was not asked for. */
	for (size_t i = 0; strcmp(e->type, "cell") != 0 && i < ARRAY_LEN(verdicts); i++) {
		if (strcmp(verdicts[i].word, e->verdict) == 0) {
			printf("%s%-7s%s", ev->colour ? verdicts[i].colour : "", verdicts[i].word,
			       ev->colour ? "\033[0m" : "");
			return;
		}
	}
	printf("%-7s", e->verdict[0] == '\0' || strcmp(e->type, "cell") == 0 ? "-" : "?");
}

static void
print_line(const struct events *ev, const struct timeline_event *e)
{
	char status[8] = "-", sent[NUM_TEXT_MAX] = "-", received[NUM_TEXT_MAX] = "-";
	char took[NUM_TEXT_MAX] = "-", time[TIMELINE_TIME_MAX];

	if (e->status != 0)
		snprintf(status, sizeof(status), "%u", e->status);
	if (e->has_sizes) {
		num_format_size(sent, e->sent);
		num_format_size(received, e->received);
		num_format_duration(took, e->ms);
	}
	printf("%5llu ", (unsigned long long)e->n);
	printf("%-8s ", timeline_format_time(time, e->time, "%H:%M:%S") ? time : "-");
	print_verdict(ev, e);
	printf(" %6s %7s %8s %7s  ", status, sent, received, took);
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
print_event(const struct events *ev, const struct timeline_event *e, struct err *err)
{
	OWN(freep) char *line = NULL;

	if (!ev->json) {
		print_line(ev, e);
		return 0;
	}
	/* ASCII only: nothing in it can steer a terminal. */
	line = json_dumps(e->json, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (line == NULL)
		return err_set(err, ENOMEM, "out of memory");
	puts(line);
	return 0;
}

/* What was kept of a cell before there were records lost the oldest; what is missing from those
 * is for `cloister audit verify`. */
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

int
cmd_events(int argc, char **argv)
{
	OWN(timeline_close) struct timeline t = { .state = -1, .dir = -1, .fd = -1 };
	struct events ev = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_events_options, argc, argv, true, take_option, &ev, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest > 1)
		return cli_failf("one cell at a time: '%s' is too much", argv[rest + 1]);
	if (timeline_open(rest < argc ? argv[rest] : NULL, &t, &err) < 0)
		return cli_fail(&err);
	ev.colour = !ev.json && text_wants_colour(stdout);
	/* For eyes only: programs that read the lines want nothing but lines. */
	if (!ev.json && isatty(STDOUT_FILENO))
		printf("%5s %-8s %-7s %6s %7s %8s %7s  %s\n", "N", "TIME", "VERDICT", "STATUS", "SENT",
		       "RECEIVED", "TOOK", "REQUEST");
	return print_all(&ev, &t, &err) < 0 ? cli_fail(&err) : 0;
}
