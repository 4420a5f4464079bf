/* timeline_acts.c - prints the witness's records for people. */
#include "cli/timeline_acts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/timeline.h"

#define COMMAND_MAX 1000                /* bytes of a command on a line */

static const struct {
	const char *type;
	enum timeline_act act;
} acts[] = {
	{ "record", TIMELINE_RECORD }, { "exec", TIMELINE_EXEC }, { "exit", TIMELINE_EXIT }, { "file", TIMELINE_FILE },
	{ "net", TIMELINE_NET }, { "refused", TIMELINE_REFUSED }, { "danger", TIMELINE_DANGER },
	{ "calls", TIMELINE_CALLS }, { "resources", TIMELINE_RESOURCES }, { "lost", TIMELINE_LOST },
	{ "watch", TIMELINE_WATCH },
};

enum timeline_act
timeline_act(const struct timeline_event *e)
{
	for (size_t i = 0; i < ARRAY_LEN(acts); i++)
		if (strcmp(acts[i].type, e->type) == 0)
			return acts[i].act;
	return TIMELINE_NO_ACT;
}

const char *
timeline_text(const struct timeline_event *e, const char *key)
{
	const char *text = json_string_value(json_object_get(e->json, key));

	return text != NULL ? text : "";
}

uint64_t
timeline_number(const struct timeline_event *e, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(e->json, key));

	return n > 0 ? (uint64_t)n : 0;
}

bool
timeline_has(const struct timeline_event *e, const char *key)
{
	return json_object_get(e->json, key) != NULL;
}

static void
put(FILE *out, const char *text)
{
	text_print_safe(out, text, strlen(text), false);
}

/* ---- programs ---- */

/* As a shell would need it, if it has a space or nothing in it. */
static void
put_word(FILE *out, const char *word)
{
	bool plain = word[0] != '\0' && strpbrk(word, " \t\n'\"\\$`|&;<>()*?#") == NULL;

	if (plain) {
		fputs(word, out);
		return;
	}
	fputc('\'', out);
	for (; *word != '\0'; word++) {
		if (*word == '\'')
			fputs("'\\'", out);
		fputc(*word, out);
	}
	fputc('\'', out);
}

/* Cuts TEXT to MAX bytes, between two characters. */
static void
cut(char *text, size_t len, size_t max)
{
	size_t keep = max - 3;

	if (len <= max)
		return;
	while (keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
		keep--;
	memcpy(text + keep, "...", sizeof("..."));
}

char *
timeline_command(const struct timeline_event *e, size_t max)
{
	const json_t *argv = json_object_get(e->json, "argv");
	const char *path = timeline_text(e, "path"), *script = timeline_text(e, "script");
	size_t n = json_array_size(argv), len = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return NULL;
	put_word(out, path);
	for (size_t i = 1; i < n && (size_t)ftell(out) <= max; i++) {
		const char *word = json_string_value(json_array_get(argv, i));

		fputc(' ', out);
		put_word(out, word != NULL ? word : "");
	}
	if (timeline_number(e, "n_argv") > n)
		fputs(" ...", out);
	if (script[0] != '\0') {
		fputs(" (script ", out);
		put_word(out, script);
		fputc(')', out);
	}
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	cut(text, len, max);
	return text;
}

/* Its path or address is not all that it may be about. */
static void
put_unknown(FILE *out, const struct timeline_event *e)
{
	if (json_is_true(json_object_get(e->json, "unknown")))
		fputs(" (or another: not known)", out);
}

static void
put_times(FILE *out, const struct timeline_event *e)
{
	if (e->count > 1)
		fprintf(out, ", %" PRIu64 " times", e->count);
}

static void
put_exec(FILE *out, const struct timeline_event *e)
{
	OWN(freep) char *command = timeline_command(e, COMMAND_MAX);
	const char *from = timeline_text(e, "from"), *error = timeline_text(e, "error");

	fputs("exec ", out);
	put(out, command != NULL ? command : "?");
	if (from[0] != '\0')
		fprintf(out, " (from %s)", strcmp(from, "memory") == 0 ? "memory" : "a writable place");
	if (timeline_has(e, "unknown"))
		put_unknown(out, e);
	else if (json_is_true(json_object_get(e->json, "asked")))
		fputs(" (not confirmed)", out);
	if (timeline_has(e, "searched"))
		fprintf(out, " (not in %" PRIu64 " other folders)", timeline_number(e, "searched"));
	if (error[0] != '\0') {
		fputs(": failed with ", out);
		put(out, error);
		put_times(out, e);
	}
}

void
timeline_print_exit(FILE *out, const struct timeline_event *e)
{
	const char *signal = timeline_text(e, "signal");
	char text[NUM_TEXT_MAX];

	if (signal[0] != '\0') {
		fputs("killed by ", out);
		put(out, signal);
	} else if (timeline_has(e, "status")) {
		fprintf(out, "ended with %" PRIu64, timeline_number(e, "status"));
	} else {
		fputs("ended", out);
	}
	if (timeline_has(e, "ms"))
		fprintf(out, " after %s", num_format_duration(text, timeline_number(e, "ms")));
	if (timeline_has(e, "cpu_ms"))
		fprintf(out, ", CPU %s", num_format_duration(text, timeline_number(e, "cpu_ms")));
	if (timeline_has(e, "peak"))
		fprintf(out, ", memory %s", num_format_size(text, timeline_number(e, "peak")));
}

/* ---- files, connections, calls ---- */

static void
put_error(FILE *out, const struct timeline_event *e)
{
	const char *error = timeline_text(e, "error");

	if (error[0] != '\0') {
		fputs(": ", out);
		put(out, error);
	}
}

static void
put_file(FILE *out, const struct timeline_event *e)
{
	const char *grant = timeline_text(e, "grant"), *to = timeline_text(e, "to");

	put(out, timeline_text(e, "act"));
	fputc(' ', out);
	put(out, timeline_has(e, "path") ? timeline_text(e, "path") : "(no path)");
	if (to[0] != '\0') {
		fputs(" to ", out);
		put(out, to);
	}
	if (grant[0] != '\0') {
		fputs(" (grant ", out);
		put(out, grant);
		fputc(')', out);
	}
	put_unknown(out, e);
	put_error(out, e);
}

char *
timeline_address(const struct timeline_event *e)
{
	const char *address = timeline_text(e, "address");
	bool six = strchr(address, ':') != NULL && address[0] != '/' && address[0] != '@';

	if (!timeline_has(e, "port"))
		return strdup(address);
	return str_format("%s%s%s:%u", six ? "[" : "", address, six ? "]" : "", e->port);
}

static void
put_net(FILE *out, const struct timeline_event *e)
{
	OWN(freep) char *address = timeline_address(e);

	put(out, timeline_text(e, "act"));
	fputc(' ', out);
	put(out, address != NULL ? address : "?");
	put_unknown(out, e);
	put_error(out, e);
}

static void
put_call(FILE *out, const struct timeline_event *e)
{
	put(out, e->type);
	fputc(' ', out);
	put(out, timeline_text(e, "call"));
	fputc('(', out);
	put(out, timeline_text(e, "args"));
	fputc(')', out);
	put_error(out, e);
	if (timeline_has(e, "signal"))
		fputs(": killed", out);
	if (e->by[0] != '\0') {
		fputs(" by ", out);
		put(out, e->by);
	}
}

static void
put_list(FILE *out, const struct timeline_event *e, const char *key, const char *between)
{
	const json_t *list = json_object_get(e->json, key);

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));

		fputs(i > 0 ? between : "", out);
		put(out, text != NULL ? text : "");
	}
}

static void
put_calls(FILE *out, const struct timeline_event *e)
{
	char time[NUM_TEXT_MAX];

	fprintf(out, "calls in %s: ", num_format_duration(time, e->ms));
	put_list(out, e, "counts", ", ");
}

/* ---- the cell ---- */

void
timeline_print_used(FILE *out, const struct timeline_event *e)
{
	static const struct { const char *key, *before, *after; enum { TIME, SIZE, COUNT, SHARE } kind; } used[] = {
		{ "cpu_ms", "CPU ", "", TIME }, { "memory", "memory ", "", SIZE }, { "peak", "peak ", "", SIZE },
		{ "programs", "", " program", COUNT }, { "processes", "", " process", COUNT },
		{ "refused", "", " refused call", COUNT }, { "disk", "disk ", "", SIZE }, { "read", "read ", "", SIZE },
		{ "written", "written ", "", SIZE }, { "pressure_cpu", "CPU pressure ", "%", SHARE },
		{ "pressure_io", "disk pressure ", "%", SHARE }, { "pressure_memory", "memory pressure ", "%", SHARE },
	};
	const char *between = "";
	char text[NUM_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(used); i++) {
		uint64_t n = timeline_number(e, used[i].key);

		if (!timeline_has(e, used[i].key) || (used[i].kind == SHARE && n == 0))
			continue;
		if (used[i].kind == TIME)
			num_format_duration(text, n);
		else if (used[i].kind == SIZE)
			num_format_size(text, n);
		else if (used[i].kind == SHARE)
			snprintf(text, sizeof(text), "%" PRIu64 ".%02u", n / 100, (unsigned)(n % 100));
		else
			snprintf(text, sizeof(text), "%" PRIu64, n);
		fprintf(out, "%s%s%s%s%s", between, used[i].before, text, used[i].after, used[i].kind != COUNT || n == 1 ? "" :
		        strcmp(used[i].key, "processes") == 0 ? "es" : "s");
		between = ", ";
	}
}

static void
put_record(FILE *out, const struct timeline_event *e)
{
	fputs("record: ", out);
	put(out, timeline_text(e, "level"));
	if (e->by[0] != '\0') {
		fputs(" by ", out);
		put(out, e->by);
	}
	if (timeline_has(e, "why")) {
		fputs(", because ", out);
		put(out, timeline_text(e, "why"));
	}
	/* A paragraph: `events --json` has it. */
	if (json_array_size(json_object_get(e->json, "unseen")) > 0)
		fputs(" (some acts are not seen: docs/record.md)", out);
}

static void
put_watch(FILE *out, const struct timeline_event *e)
{
	const char *then = timeline_text(e, "then"), *place = timeline_text(e, "place");

	fputs("watch: ", out);
	put(out, e->of);
	if (then[0] != '\0') {
		fputs(": ", out);
		put(out, then);
	}
	/* The text of the rule has the same words again. */
	fputs(" (", out);
	put(out, place[0] != '\0' ? place : e->rule);
	fputc(')', out);
}

static void
put_lost(FILE *out, const struct timeline_event *e)
{
	fprintf(out, "lost: %" PRIu64 " ", e->count);
	put(out, timeline_text(e, "what"));
}

void
timeline_print_act(FILE *out, const struct timeline_event *e)
{
	if (timeline_has(e, "pid"))
		fprintf(out, "%" PRIu64 " ", timeline_number(e, "pid"));
	timeline_print_deed(out, e);
}

void
timeline_print_deed(FILE *out, const struct timeline_event *e)
{
	switch (timeline_act(e)) {
	case TIMELINE_EXEC: put_exec(out, e); break;
	case TIMELINE_EXIT: timeline_print_exit(out, e); break;
	case TIMELINE_FILE: put_file(out, e); put_times(out, e); break;
	case TIMELINE_NET: put_net(out, e); put_times(out, e); break;
	case TIMELINE_REFUSED:
	case TIMELINE_DANGER: put_call(out, e); put_times(out, e); break;
	case TIMELINE_CALLS: put_calls(out, e); break;
	case TIMELINE_RESOURCES: fputs("resources: ", out); timeline_print_used(out, e); break;
	case TIMELINE_RECORD: put_record(out, e); break;
	case TIMELINE_LOST: put_lost(out, e); break;
	case TIMELINE_WATCH: put_watch(out, e); break;
	case TIMELINE_NO_ACT: break;
	}
}
