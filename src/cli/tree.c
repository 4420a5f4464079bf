/* tree.c - `cloister tree`: draws the processes of a cell, with what each did. */
#include "cli/tree.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/timeline.h"

#define SHOWN 10                        /* acts of a kind and process, without --all */
#define DEPTH_MAX 40                    /* deeper processes are not indented further */
#define LINE_MAX_BYTES 4096

struct drawing {
	bool all, json;
	const struct tree *tree;
	unsigned columns;               /* 0: lines are not cut */
	bool colour;
	const char *branch, *corner, *bar;
	bool bars[DEPTH_MAX + 1];       /* by depth: more siblings follow */
};

const struct cli_option cli_tree_options[] = {
	{ "all", 0, NULL, "show all that each process did, not only the first acts",
	  CLI_FLAG(struct drawing, all) },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct drawing, json) },
	{0}
};

/* ---- lines ---- */

/* Prints LINE, cut to the terminal's width. */
static void
put_line(const struct drawing *d, const char *line)
{
	size_t len = strlen(line), at = 0, n;
	unsigned column = 0;
	uint32_t code;

	while (at < len && (d->columns == 0 || column < d->columns)) {
		n = utf8_next(line + at, len - at, &code);
		at += n > 0 ? n : 1;
		column++;
	}
	if (at < len && d->columns > 3)
		while (at > 0 && (column > d->columns - 3 || ((unsigned char)line[at] & 0xc0) == 0x80))
			column -= ((unsigned char)line[--at] & 0xc0) != 0x80;
	fwrite(line, 1, at, stdout);
	puts(at < len ? "..." : "");
}

/* The bars of the processes above. */
static size_t
indent(const struct drawing *d, char *line, size_t size, unsigned depth)
{
	size_t len = 0;

	for (unsigned i = 1; i < depth && i <= DEPTH_MAX && len < size; i++)
		len += (size_t)snprintf(line + len, size - len, "%s", d->bars[i] ? d->bar : "   ");
	return len < size ? len : size - 1;
}

static void
draw_head(struct drawing *d, const struct tree_process *p, unsigned depth)
{
	char line[LINE_MAX_BYTES];
	size_t len = indent(d, line, sizeof(line), depth);

	if (depth > 0 && depth <= DEPTH_MAX)
		d->bars[depth] = p->next != 0;
	snprintf(line + len, sizeof(line) - len, "%s%u %s%s%s", depth == 0 ? "" : p->next != 0 ? d->branch : d->corner,
	         p->pid, p->command != NULL ? p->command : p->pid == 1 ? "(cloister-init)" : "(no program of its own)",
	         p->end != NULL ? "  " : "", p->end != NULL ? p->end : "");
	put_line(d, line);
}

/* A line below process P. */
static void
draw_below(const struct drawing *d, const struct tree_process *p, unsigned depth, const char *text)
{
	char line[LINE_MAX_BYTES];
	size_t len = p == NULL ? 0 : indent(d, line, sizeof(line), depth + 1);

	snprintf(line + len, sizeof(line) - len, "%s  %s", p != NULL && p->first != 0 && depth < DEPTH_MAX ? d->bar : "   ",
	         text);
	put_line(d, line);
}

static void
draw_deeds(const struct drawing *d, const struct tree_process *p, unsigned depth, const struct tree_deeds *deeds)
{
	uint64_t shown[TREE_KINDS] = {0};
	char text[96];

	for (const struct tree_deed *deed = deeds->first; deed != NULL; deed = deed->next)
		if (d->all || shown[deed->kind] < SHOWN) {
			draw_below(d, p, depth, deed->text);
			shown[deed->kind]++;
		}
	for (size_t i = 0; i < TREE_KINDS; i++) {
		if (deeds->all[i] == shown[i])
			continue;
		snprintf(text, sizeof(text), "and %" PRIu64 " more %s", deeds->all[i] - shown[i], tree_kind_names[i]);
		draw_below(d, p, depth, text);
	}
}

/* ---- all of it ---- */

static void
print_facts(const struct tree *t, const char *cell, bool live)
{
	printf("%s: %s\n", cell, live ? "runs" : t->end != NULL ? t->end : "its end is not recorded");
	if (t->record != NULL)
		puts(t->record);
	else if (t->n_acts == 0)
		puts("nothing is recorded of its processes");
}

static void
print_rest(const struct drawing *d, const struct tree *t)
{
	if (t->others.first != NULL) {
		puts("of unknown processes:");
		draw_deeds(d, NULL, 0, &t->others);
	}
	if (t->uncounted > 0)
		printf("%" PRIu64 " acts of more than %d processes are not shown\n", t->uncounted, TREE_PROCESSES_MAX);
	if (t->n_lost > 0)
		printf("%" PRIu64 " acts could not be recorded; the last of them: %s\n", t->n_lost, t->lost);
}

static bool
has_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);

		if (value != NULL && value[0] != '\0')
			return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
	}
	return false;
}

static void
draw(struct drawing *d, const struct tree *t)
{
	bool utf8 = has_utf8();
	struct winsize size = {0};
	unsigned depth;

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		d->columns = size.ws_col;
	d->branch = utf8 ? "├─ " : "|- ";
	d->corner = utf8 ? "└─ " : "`- ";
	d->bar = utf8 ? "│  " : "|  ";
	for (const struct tree_process *p = tree_next(t, NULL, &depth); p != NULL; p = tree_next(t, p, &depth)) {
		draw_head(d, p, depth);
		draw_deeds(d, p, depth, &p->deeds);
	}
}

static int
read_all(struct timeline *tl, struct tree *t, struct err *err)
{
	struct timeline_event e;
	int r;

	while ((r = timeline_next(tl, &e, err)) > 0) {
		r = tree_note(t, &e);
		timeline_event_free(&e);
		if (r < 0)
			return err_set(err, -r, "out of memory");
	}
	tree_finish(t);
	return r;
}

OWN_BY(tree_freep, struct tree *, tree_free)

int
cmd_tree(int argc, char **argv)
{
	OWN(timeline_close) struct timeline tl = {0};
	OWN(tree_freep) struct tree *t = tree_new();
	struct drawing d = {0};
	struct err err = {0};
	int rest;
	bool live;

	if (t == NULL)
		return cli_failf("out of memory");
	if (cli_parse(cli_tree_options, argc, argv, true, NULL, &d, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest > 1)
		return cli_failf("`tree` takes one cell: remove '%s'", argv[rest + 1]);
	if (timeline_open(rest < argc ? argv[rest] : NULL, &tl, &err) < 0)
		return cli_fail(&err);
	live = timeline_is_live(&tl);
	if (read_all(&tl, t, &err) < 0)
		return cli_fail(&err);
	if (d.json) {
		tree_print_json(t, tl.entry.id, live);
		return 0;
	}
	print_facts(t, timeline_cell(&tl), live);
	draw(&d, t);
	print_rest(&d, t);
	return 0;
}
