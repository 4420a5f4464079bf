/* approvals.c - `cloister approvals`: requests that wait for approval, in all cells or in one. */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/format.h"
#include "base/own.h"
#include "cell/cell_approvals.h"
#include "cli/approvals.h"
#include "cli/cli.h"

#define CELLS_MAX 1024                  /* followed at once */
#define LOOK_MS 500                     /* between two looks for new cells */

struct cell {
	char id[CELL_ID_LEN + 1];
	int fd;                         /* -1: its end was reported */
	uint64_t seen;
};

struct approvals {
	bool follow, json, all;
	const char *format;             /* --format, or NULL */
	const char *word;               /* NULL: all cells */
	struct cell *cells;
	struct pollfd *polls;
	size_t n, shown;
};

const struct cli_option cli_approvals_options[] = {
	{ "follow", 'f', NULL, "keep printing new requests and their outcomes",
	  CLI_FLAG(struct approvals, follow) },
	{ "all", 'a', NULL, "include answered requests", CLI_FLAG(struct approvals, all) },
	{ "format", 0, "TEXT", "print this for each request, such as '{id} {host}'", CLI_TEXT(struct approvals, format) },
	{ "json", 0, NULL, "print JSON for programs: one object per line", CLI_FLAG(struct approvals, json) },
	{0}
};

static void
show_formatted(const struct approvals *a, const char *json)
{
	json_t *object = json_loads(json, 0, NULL);

	format_print(stdout, a->format, object);
	json_decref(object);
}

static void
show(struct approvals *a, const char *json)
{
	if (!a->all && !a->follow && strstr(json, "\"state\":\"pending\"") == NULL)
		return;
	if (a->format != NULL)
		show_formatted(a, json);
	else if (a->json)
		puts(json);
	else
		approvals_print(json, a->shown > 0);
	a->shown++;
	fflush(stdout);
}

/* ---- print once ---- */

static int
show_cell(struct approvals *a, int fd, struct err *err)
{
	uint64_t seen = 0;
	int r;

	for (;;) {
		OWN(freep) char *json = NULL;

		r = cell_approvals_ask(fd, seen, false, err);
		r = r == 0 ? cell_approvals_take(fd, &seen, &json, err) : r;
		if (r <= 0)
			break;
		show(a, json);
	}
	/* The cell is gone, so nothing waits in it. */
	return r == -EPIPE ? 0 : r;
}

static int
show_all(struct approvals *a, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;
	int r = runtime < 0 ? runtime : cell_list(runtime, true, &entries, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		OWN(closep) int fd = cell_connect(runtime, &entries[i], NULL);

		if (fd >= 0)
			r = show_cell(a, fd, err);
	}
	return r;
}

/* ---- follow ---- */

static bool
is_known(const struct approvals *a, const char *id)
{
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->cells[i].id, id) == 0)
			return true;
	return false;
}

static void
drop_ended(struct approvals *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++)
		if (a->cells[i].fd >= 0)
			a->cells[n++] = a->cells[i];
	a->n = n;
}

static void
add_cell(struct approvals *a, int runtime, const struct cell_entry *entry)
{
	int fd = a->n < CELLS_MAX && !is_known(a, entry->id) ? cell_connect(runtime, entry, NULL) : -1;

	if (fd < 0)
		return;
	if (cell_approvals_ask(fd, 0, true, NULL) < 0) {
		close(fd);
		return;
	}
	a->cells[a->n].fd = fd;
	a->cells[a->n].seen = 0;
	snprintf(a->cells[a->n++].id, sizeof(a->cells[0].id), "%s", entry->id);
}

static int
look_for_cells(struct approvals *a, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(freep) struct cell_entry *entries = NULL;
	struct cell_entry one;
	size_t n = 0;
	int r;

	if (runtime < 0)
		return runtime;
	if (a->word != NULL) {
		r = cell_find(runtime, true, a->word, &one, err);
		if (r == 0)
			add_cell(a, runtime, &one);
		return r;
	}
	r = cell_list(runtime, true, &entries, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		add_cell(a, runtime, &entries[i]);
	return r;
}

static void
hear(struct approvals *a, struct cell *cell)
{
	OWN(freep) char *json = NULL;

	if (cell_approvals_take(cell->fd, &cell->seen, &json, NULL) <= 0 ||
	    cell_approvals_ask(cell->fd, cell->seen, true, NULL) < 0) {
		close(cell->fd);
		cell->fd = -1;
	}
	if (json != NULL)
		show(a, json);
}

static int
follow(struct approvals *a, struct err *err)
{
	int r = look_for_cells(a, err);

	while (r == 0 && !(a->word != NULL && a->n == 0) && !ferror(stdout)) {
		for (size_t i = 0; i < a->n; i++)
			a->polls[i] = (struct pollfd){ .fd = a->cells[i].fd, .events = POLLIN };
		if (poll(a->polls, a->n, LOOK_MS) < 0 && errno != EINTR)
			return err_errno(err, "cannot wait for the cells");
		for (size_t i = 0; i < a->n; i++)
			if (a->polls[i].revents != 0)
				hear(a, &a->cells[i]);
		drop_ended(a);
		if (a->word == NULL)
			r = look_for_cells(a, err);
	}
	return r;
}

int
cmd_approvals(int argc, char **argv)
{
	OWN(freep) struct cell *cells = calloc(CELLS_MAX, sizeof(*cells));
	OWN(freep) struct pollfd *polls = calloc(CELLS_MAX, sizeof(*polls));
	struct approvals a = { .cells = cells, .polls = polls };
	OWN(closep) int fd = -1;
	struct cell_entry entry;
	struct err err = {0};
	int rest, r;

	if (cli_parse(cli_approvals_options, argc, argv, true, NULL, &a, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest > 1)
		return cli_failf("only one cell can be given: remove '%s'", argv[rest + 1]);
	if (a.format != NULL && a.json)
		return cli_failf("--format cannot be combined with --json: remove one");
	if (a.format != NULL && format_check(a.format, &err) < 0)
		return cli_fail(&err);
	if (cells == NULL || polls == NULL)
		return cli_failf("out of memory");
	a.word = rest < argc ? argv[rest] : NULL;
	if (a.follow) {
		r = follow(&a, &err);
	} else if (a.word == NULL) {
		r = show_all(&a, &err);
	} else {
		fd = cli_connect(a.word, &entry, &err);
		r = fd < 0 ? fd : show_cell(&a, fd, &err);
	}
	if (r == 0 && a.shown == 0 && !a.follow && !a.json && isatty(STDOUT_FILENO))
		printf("%s\n", a.all ? "no request has needed approval" : "no request waits for "
		       "approval");
	return r < 0 ? cli_fail(&err) : 0;
}
