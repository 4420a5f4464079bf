/* ps.c - `cloister ps`: the running cells, and with -a what is kept of ended ones. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

enum { OPT_ALL, OPT_JSON };

const struct cli_option cli_ps_options[] = {
	{ "all", 'a', NULL, "ended cells too, of which something is kept", OPT_ALL },
	{ "json", 0, NULL, "for programs", OPT_JSON },
	{0}
};

/* A running cell, as its supervisor tells. */
struct info {
	struct cell_spec spec;
	uint64_t started_ns, memory, pids;
	uint32_t state, supervisor, init, agent;
};

static const char *const states[] = { "running", "frozen", "ending" };

struct ps {
	bool all, json;
	struct json out;
	uint64_t now_ns;
	size_t width;                   /* of the terminal; 0: there is none */
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct ps *ps = arg;

	(void)value;
	(void)err;
	if (option->id == OPT_ALL)
		ps->all = true;
	else
		ps->json = true;
	return 0;
}

static int
ask_info(int runtime, const struct cell_entry *entry, struct info *ret_info)
{
	/* A supervisor that does not answer must not hang the list. */
	const struct timeval patience = { .tv_sec = 2 };
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(closep) int fd = cli_connect_entry(runtime, entry, NULL);
	struct info info = {0};
	struct buf *b = &message.body;

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (cli_ask_info(fd, &message, &info.state, NULL) < 0 || cell_spec_get(b, &info.spec, NULL) < 0)
		return -EBADMSG;
	if (buf_get_u64(b, &info.started_ns) < 0 || buf_get_u32(b, &info.supervisor) < 0 ||
	    buf_get_u32(b, &info.init) < 0 || buf_get_u32(b, &info.agent) < 0 ||
	    buf_get_u64(b, &info.memory) < 0 || buf_get_u64(b, &info.pids) < 0) {
		cell_spec_free(&info.spec);
		return -EBADMSG;
	}
	*ret_info = info;
	return 0;
}

static void
json_number_or_null(struct json *out, const char *key, uint64_t value)
{
	if (value == 0)
		json_none(out, key);
	else
		json_u64(out, key, value);
}

static void
json_spec(struct json *out, const struct cell_spec *spec, const char *state)
{
	json_str(out, "cell", spec->id);
	json_str(out, "name", spec->name[0] != '\0' ? spec->name : NULL);
	json_str(out, "state", state);
	json_open(out, "command", '[');
	for (char **word = spec->argv; *word != NULL; word++)
		json_str(out, NULL, *word);
	json_close(out, ']');
	json_bool(out, "detached", spec->detached);
	json_str(out, "principal", spec->principal[0] != '\0' ? spec->principal : NULL);
	json_str(out, "chain", spec->chain[0] != '\0' ? spec->chain : NULL);
	json_open(out, "workspace", '[');
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].workspace)
			json_str(out, NULL, spec->grants[i].host);
	json_close(out, ']');
	json_bool(out, "policy", spec->has_policy);
	json_open(out, "ports", '[');
	for (size_t i = 0; i < spec->n_ports; i++) {
		json_open(out, NULL, '{');
		json_u64(out, "cell", spec->ports[i].cell);
		json_u64(out, "host", spec->ports[i].host);
		json_close(out, '}');
	}
	json_close(out, ']');
}

/* TEXT in at most MAX characters, the last of them "..." if it was longer. */
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

/* What it serves, as --publish has it, and the command: on a terminal what fits into the
 * line behind its N other columns. */
static void
print_command(const struct ps *ps, const struct cell_spec *spec, int n)
{
	OWN(freep) char *text = NULL;
	size_t size, room = ps->width > (size_t)n + 8 ? ps->width - (size_t)n : 8;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return;
	for (size_t i = 0; i < spec->n_ports; i++)
		fprintf(out, "[%u:%u] ", spec->ports[i].cell, spec->ports[i].host);
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

static void
show_running(struct ps *ps, const struct info *info)
{
	struct json *out = &ps->out;
	char age[NUM_TEXT_MAX], memory[NUM_TEXT_MAX] = "-", pids[NUM_TEXT_MAX] = "-";
	int n;

	if (ps->json) {
		json_open(out, NULL, '{');
		json_spec(out, &info->spec, states[info->state]);
		json_u64(out, "supervisor", info->supervisor);
		json_u64(out, "init", info->init);
		json_number_or_null(out, "agent", info->agent);
		json_u64(out, "started", info->started_ns / 1000000000);
		json_u64(out, "user", geteuid());
		json_number_or_null(out, "memory", info->memory);
		json_number_or_null(out, "pids", info->pids);
		json_close(out, '}');
		return;
	}
	if (info->memory > 0)
		num_format_size(memory, info->memory);
	if (info->pids > 0)
		snprintf(pids, sizeof(pids), "%llu", (unsigned long long)info->pids);
	num_format_duration(age, (ps->now_ns - info->started_ns) / 1000000);
	n = printf("%-9s %-12s %-11s %-7s %-7s %-5s ", info->spec.id,
	       info->spec.name[0] != '\0' ? info->spec.name : "-", states[info->state],
	       age, memory, pids);
	print_command(ps, &info->spec, n);
}

static void
show_ended(struct ps *ps, const struct cell_record *record)
{
	struct json *out = &ps->out;
	char age[NUM_TEXT_MAX], state[32];
	int n;

	if (ps->json) {
		json_open(out, NULL, '{');
		json_spec(out, &record->spec, "ended");
		json_u64(out, "status", record->status);
		json_str(out, "cause", record->cause[0] != '\0' ? record->cause : NULL);
		json_u64(out, "started", record->started_ns / 1000000000);
		json_u64(out, "ended", record->ended_ns / 1000000000);
		json_bool(out, "changes", record->n_changes > 0);
		json_close(out, '}');
		return;
	}
	num_format_duration(age, (ps->now_ns - record->ended_ns) / 1000000);
	snprintf(state, sizeof(state), "ended %u%s", record->status,
	         record->n_changes > 0 ? "*" : "");
	n = printf("%-9s %-12s %-11s %-7s %-7s %-5s ", record->spec.id,
	       record->spec.name[0] != '\0' ? record->spec.name : "-", state, age, "-", "-");
	print_command(ps, &record->spec, n);
}

static int
by_start(const void *a, const void *b)
{
	const struct info *x = a, *y = b;

	return x->started_ns < y->started_ns ? -1 : x->started_ns > y->started_ns;
}

static int
list_running(struct ps *ps, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) struct info *infos = NULL;
	size_t n, running = 0;

	if (runtime < 0)
		return runtime;
	if (cell_list(runtime, true, &entries, &n, err) < 0)
		return -err->code;
	infos = calloc(n + 1, sizeof(*infos));
	if (infos == NULL)
		return err_errno(err, "cannot list the cells");
	/* One that ended meanwhile is no longer running. */
	for (size_t i = 0; i < n; i++)
		if (ask_info(runtime, &entries[i], &infos[running]) == 0)
			running++;
	qsort(infos, running, sizeof(*infos), by_start);
	for (size_t i = 0; i < running; i++) {
		show_running(ps, &infos[i]);
		cell_spec_free(&infos[i].spec);
	}
	return 0;
}

static int
by_end(const void *a, const void *b)
{
	const struct cell_record *x = a, *y = b;

	return x->ended_ns < y->ended_ns ? -1 : x->ended_ns > y->ended_ns;
}

static void
list_ended(struct ps *ps)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) struct cell_record *records = NULL;
	size_t n, ended = 0;

	if (state < 0 || cell_list(state, false, &entries, &n, NULL) < 0)
		return;
	records = calloc(n + 1, sizeof(*records));
	for (size_t i = 0; records != NULL && i < n; i++) {
		OWN(closep) int dir = openat(state, entries[i].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir >= 0 && cell_record_read(dir, &records[ended], NULL) == 0)
			ended++;
	}
	if (ended > 0)
		qsort(records, ended, sizeof(*records), by_end);
	for (size_t i = 0; i < ended; i++) {
		show_ended(ps, &records[i]);
		cell_record_free(&records[i]);
	}
}

int
cmd_ps(int argc, char **argv)
{
	struct ps ps = { .out = { .out = stdout } };
	struct err err = {0};
	struct winsize size;
	struct timespec now;
	int rest;

	if (cli_parse(cli_ps_options, argc, argv, false, take_option, &ps, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'ps' takes no cell: '%s' is too much", argv[rest]);
	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		ps.width = size.ws_col;
	clock_gettime(CLOCK_REALTIME, &now);
	ps.now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (ps.json)
		json_open(&ps.out, NULL, '[');
	else
		printf("%-9s %-12s %-11s %-7s %-7s %-5s %s\n", "CELL", "NAME", "STATE", "AGE", "MEMORY",
		       "PIDS", "COMMAND");
	if (list_running(&ps, &err) < 0)
		return cli_fail(&err);
	if (ps.all)
		list_ended(&ps);
	if (ps.json) {
		json_close(&ps.out, ']');
		putchar('\n');
	}
	return 0;
}
