/* ps.c - `cloister ps`: lists the running cells, and with -a the ended ones that are kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/since.h"
#include "base/text.h"
#include "cell/cell_control.h"
#include "cell/cell_series.h"
#include "cli/cli.h"
#include "cli/ps.h"
#include "ipc/control_channel.h"

#define WIDE 100                        /* columns of a terminal that has room for all of them */

struct ps {
	bool all, json, colour;
	bool has_changes;               /* a cell that was shown has changes */
	bool has_machines;              /* one is on another machine */
	struct json out;
	uint64_t now_ns;
	size_t width;                   /* of the terminal; 0: no terminal */
	struct cell_info *running;
	struct cell_record *ended;
	size_t n_running, n_ended;
	const char *format;             /* --format, or NULL */
	uint64_t since_ms;              /* --since: ended cells that ended before are left out; 0: none */
};

const struct cli_option cli_ps_options[] = {
	{ "all", 'a', NULL, "include ended cells with events or changes; * marks changes", CLI_FLAG(struct ps, all) },
	{ "since", 0, "TIME", "with -a: leave out cells that ended before: 10m, or a date", 0 },
	{ "format", 0, "TEXT", "print this for each cell, such as '{cell} {state}'", 1 },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct ps, json) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct ps *ps = arg;

	if (option->id == 0)
		return since_parse(value, since_now_ms(), &ps->since_ms, err);
	if (option->id < 0)
		return 0;
	ps->format = value;
	return format_check(value, err);
}

/* Cuts TEXT to at most MAX characters, ending with "..." if it was longer. */
static void
cut(char *text, size_t max)
{
	size_t n = 0;
	char *end = text;

	for (char *c = text; *c != '\0'; c++) {
		if (((unsigned char)*c & 0xc0) == 0x80)
			continue;
		if (n++ == max - 3)
			end = c;
	}
	if (n > max)
		memcpy(end, "...", sizeof("..."));
}

/* Prints the published ports, as in --publish, and the command.  On a terminal, as much as fits
 * into the line behind its N other columns. */
static void
print_command(const struct ps *ps, const struct cell_spec *spec, int n)
{
	OWN(freep) char *text = NULL;
	size_t size, room = ps->width > (size_t)n + 8 ? ps->width - (size_t)n : 8;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return;
	for (size_t i = 0; i < spec->n_ports; i++)
		fprintf(out, "[%u:%u] ", spec->ports[i].host, spec->ports[i].cell);
	for (size_t i = 0; spec->argv[i] != NULL; i++) {
		if (i > 0)
			fputc(' ', out);
		text_print_safe(out, spec->argv[i], strlen(spec->argv[i]), false);
	}
	if (fclose(out) != 0)
		return;
	if (ps->width > 0)
		cut(text, room);
	puts(text);
}

#define AGE_MAX (NUM_TEXT_MAX + 8)

/* A cell that began or ended during the listing shows an age of zero. */
static void
tell_age(const struct ps *ps, uint64_t ns, const char *behind, char ret_age[AGE_MAX])
{
	uint64_t ms = ps->now_ns > ns ? (ps->now_ns - ns) / 1000000 : 0;
	char text[NUM_TEXT_MAX];

	snprintf(ret_age, AGE_MAX, "%s%s", num_format_age(text, ms), behind);
}

/* The columns about what a cell uses. */
struct used {
	const char *cpu, *memory, *pids, *io;
};

/* Prints one line without the command; for SPEC, or (NULL) the names of the columns. */
static void
print_row(const struct ps *ps, const struct cell_spec *spec, const char *state, const char *colour,
          const char *age, const char *machine, const struct used *used)
{
	const char *id = spec != NULL ? spec->id : "CELL";
	const char *name = spec == NULL ? "NAME" : spec->name[0] != '\0' ? spec->name : "-";
	bool colours = ps->colour && colour != NULL;
	int n = printf("%-9s %-12s ", id, name);

	fputs(colours ? colour : "", stdout);
	n += printf("%-11s", state);
	fputs(colours ? "\033[0m" : "", stdout);
	n += printf(" %-*s %-7s %-7s %-5s ", ps->all ? 10 : 7, age, used->cpu, used->memory, used->pids);
	if (ps->width == 0 || ps->width >= WIDE)
		n += printf("%-13s ", used->io);
	if (ps->has_machines)
		n += printf("%-12s ", machine);
	if (spec != NULL)
		print_command(ps, spec, n);
	else
		puts("COMMAND");
}

/* With the number of requests that wait for approval, if any. */
static void
tell_state(const struct cell_info *info, char ret_state[32])
{
	if (info->waiting == 0)
		snprintf(ret_state, 32, "%s", cell_info_state(info));
	else
		snprintf(ret_state, 32, "%s (%u)", cell_info_state(info), info->waiting);
}

/* One object, by --format. */
static void
show_formatted(const struct ps *ps, const struct cell_info *info, const struct cell_record *record)
{
	OWN(freep) char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct json w = { .out = out };
	json_t *object;

	if (out == NULL)
		return;
	if (info != NULL)
		cell_info_json(&w, info);
	else
		cell_record_json(&w, record);
	if (fclose(out) != 0)
		return;
	object = json_loadb(text, len, 0, NULL);
	format_print(stdout, ps->format, object);
	json_decref(object);
}

static void
show_running(struct ps *ps, const struct cell_info *info)
{
	char age[AGE_MAX], cpu[NUM_TEXT_MAX] = "-", memory[NUM_TEXT_MAX] = "-", pids[NUM_TEXT_MAX] = "-";
	char read[NUM_TEXT_MAX], written[NUM_TEXT_MAX], io[2 * NUM_TEXT_MAX + 1] = "-", state[32];
	const char *colour = info->state != CONTROL_STATE_RUNS ? "\033[36m" :
	                     info->waiting > 0 ? "\033[33m" : "\033[32m";

	if (ps->format != NULL) {
		show_formatted(ps, info, NULL);
		return;
	}
	if (ps->json) {
		cell_info_json(&ps->out, info);
		return;
	}
	if (info->memory > 0)
		num_format_size(memory, info->memory);
	if (info->pids > 0)
		snprintf(pids, sizeof(pids), "%llu", (unsigned long long)info->pids);
	if (info->use.cpu_us > 0)
		num_format_duration(cpu, info->use.cpu_us / 1000);
	if (info->use.has_io != 0)
		snprintf(io, sizeof(io), "%s/%s", num_format_size(read, info->use.read),
		         num_format_size(written, info->use.written));
	if (info->state == CONTROL_STATE_SILENT)
		colour = "\033[31m";
	tell_age(ps, info->started_ns, "", age);
	tell_state(info, state);
	print_row(ps, &info->spec, state, colour, age, info->machine[0] != '\0' ? info->machine : "-",
	          &(struct used){ cpu, memory, pids, io });
}

static void
show_ended(struct ps *ps, const struct cell_record *record)
{
	char age[AGE_MAX], state[32];

	if (ps->format != NULL) {
		show_formatted(ps, NULL, record);
		return;
	}
	if (ps->json) {
		cell_record_json(&ps->out, record);
		return;
	}
	tell_age(ps, record->ended_ns, " ago", age);
	snprintf(state, sizeof(state), "%s %u%s", cell_state_word(CELL_STATE_ENDED, 0), record->status,
	         record->n_changes > 0 ? "*" : "");
	ps->has_changes |= record->n_changes > 0;
	print_row(ps, &record->spec, state, record->status == 0 ? NULL : "\033[31m", age, "-",
	          &(struct used){ "-", "-", "-", "-" });
}

static int
by_start(const void *a, const void *b)
{
	const struct cell_info *x = a, *y = b;

	return x->started_ns < y->started_ns ? -1 : x->started_ns > y->started_ns;
}

static bool
runs(const struct ps *ps, const char *id)
{
	for (size_t i = 0; i < ps->n_running; i++)
		if (strcmp(ps->running[i].spec.id, id) == 0)
			return true;
	return false;
}

/* Those of `run --restart` of which no cell runs at the moment. */
static int
add_restarting(struct ps *ps, const struct cell_series *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct cell_info *info = &ps->running[ps->n_running];

		if (runs(ps, list[i].last))
			continue;
		*info = (struct cell_info){ .state = CELL_STATE_RESTARTS, .started_ns = ps->now_ns };
		memcpy(info->spec.id, list[i].id, sizeof(info->spec.id));
		info->spec.name = strdup(list[i].name);
		info->spec.principal = strdup("");
		info->spec.chain = strdup("");
		info->spec.argv = calloc(1, sizeof(char *));
		ps->n_running++;
		if (info->spec.name == NULL || info->spec.principal == NULL || info->spec.chain == NULL ||
		    info->spec.argv == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int
find_running(struct ps *ps, struct err *err)
{
	OWN(freep) struct cell_series *series = calloc(CELL_SERIES_MAX, sizeof(*series));
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n, n_series;

	if (runtime < 0)
		return runtime;
	/* Before the cells: a new one is in its file only once it is found. */
	n_series = series == NULL ? 0 : cell_series_list(runtime, series);
	if (cell_list(runtime, true, &entries, &n, err) < 0)
		return -err->code;
	ps->running = calloc(n + n_series + 1, sizeof(*ps->running));
	if (ps->running == NULL || series == NULL)
		return err_errno(err, "cannot list the cells");
	/* A cell that ended meanwhile is not running; one that does not answer is. */
	for (size_t i = 0; i < n; i++)
		if (cell_control_info(runtime, &entries[i], &ps->running[ps->n_running], NULL) == 0)
			ps->has_machines |= ps->running[ps->n_running++].machine[0] != '\0';
	qsort(ps->running, ps->n_running, sizeof(*ps->running), by_start);
	return add_restarting(ps, series, n_series) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
by_end(const void *a, const void *b)
{
	const struct cell_record *x = a, *y = b;

	return x->ended_ns < y->ended_ns ? -1 : x->ended_ns > y->ended_ns;
}

/* At its end a cell may still run when its record already exists. */
static bool
is_shown(const struct ps *ps, const char *id)
{
	for (size_t i = 0; i < ps->n_running; i++)
		if (ps->running[i].state != CELL_STATE_RESTARTS && strcmp(ps->running[i].spec.id, id) == 0)
			return true;
	return false;
}

/* The cells of FOLDER: of the state folder, or of that of cells with nothing but a timeline. */
static int
add_ended(struct ps *ps, int folder, bool is_bare, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	struct cell_record *more;
	size_t n = 0;
	int r = cell_list(folder, false, &entries, &n, err);

	if (r < 0 || n == 0)
		return r;
	more = reallocarray(ps->ended, ps->n_ended + n, sizeof(*more));
	if (more == NULL)
		return err_errno(err, "cannot list the cells");
	ps->ended = more;
	for (size_t i = 0; i < n; i++) {
		OWN(closep) int dir = openat(folder, entries[i].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		struct cell_record record = {0};

		if (dir < 0 || is_shown(ps, entries[i].id) ||
		    (is_bare ? ps_read_events(dir, &entries[i], &record) : cell_record_read(dir, &record, NULL)) < 0)
			continue;
		if (record.ended_ns / 1000000 >= ps->since_ms)
			ps->ended[ps->n_ended++] = record;
		else
			cell_record_free(&record);
	}
	return 0;
}

static int
find_ended(struct ps *ps, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err), bare = -1;
	int r;

	/* Nothing was ever kept. */
	if (state < 0)
		return state == -ENOENT ? 0 : state;
	r = add_ended(ps, state, false, err);
	bare = cell_ended_open(state);
	if (r == 0 && bare >= 0)
		r = add_ended(ps, bare, true, err);
	if (ps->n_ended > 0)
		qsort(ps->ended, ps->n_ended, sizeof(*ps->ended), by_end);
	return r;
}

static void
show_all(struct ps *ps)
{
	if (ps->json)
		json_open(&ps->out, NULL, '[');
	else if (ps->format == NULL)
		print_row(ps, NULL, "STATE", NULL, "AGE", "MACHINE", &(struct used){ "CPU", "MEMORY", "PIDS", "READ/WRITTEN" });
	for (size_t i = 0; i < ps->n_running; i++)
		show_running(ps, &ps->running[i]);
	for (size_t i = 0; i < ps->n_ended; i++)
		show_ended(ps, &ps->ended[i]);
	/* Only on a terminal: programs want only the cells. */
	if (ps->has_changes && ps->width > 0)
		puts("* changed its workspace: see `cloister diff CELL`");
	if (ps->json) {
		json_close(&ps->out, ']');
		putchar('\n');
	}
}

static void
free_all(struct ps *ps)
{
	for (size_t i = 0; i < ps->n_running; i++)
		cell_spec_free(&ps->running[i].spec);
	for (size_t i = 0; i < ps->n_ended; i++)
		cell_record_free(&ps->ended[i]);
	free(ps->running);
	free(ps->ended);
}

int
cmd_ps(int argc, char **argv)
{
	struct ps ps = { .out = { .out = stdout } };
	struct err err = {0};
	struct winsize size;
	struct timespec now;
	int rest, r;

	if (cli_parse(cli_ps_options, argc, argv, false, take_option, &ps, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'ps' takes no cell: remove '%s'", argv[rest]);
	if (ps.format != NULL && ps.json)
		return cli_failf("--format cannot be combined with --json: remove one");
	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		ps.width = size.ws_col;
	clock_gettime(CLOCK_REALTIME, &now);
	ps.colour = text_wants_colour(stdout);
	ps.now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	/* Find everything before printing: half a list looks like a whole one. */
	r = find_running(&ps, &err);
	if (r == 0 && ps.all)
		r = find_ended(&ps, &err);
	if (r == 0)
		show_all(&ps);
	free_all(&ps);
	return r < 0 ? cli_fail(&err) : 0;
}
