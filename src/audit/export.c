/* export.c - see export.h. */
#include "audit/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/since.h"

const char *
audit_exported_text(const struct audit_exported *e, const char *key)
{
	const char *text = json_string_value(json_object_get(e->event, key));

	return text != NULL ? text : "";
}

uint64_t
audit_exported_number(const struct audit_exported *e, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(e->event, key));

	return n > 0 ? (uint64_t)n : 0;
}

bool
audit_exported_has(const struct audit_exported *e, const char *key)
{
	return json_object_get(e->event, key) != NULL;
}

char *
audit_exported_json(const json_t *value)
{
	OWN(freep) char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	size_t len = text == NULL ? 0 : strlen(text);
	char *out = text == NULL ? NULL : malloc(6 * len + 1), *at = out;

	/* Jansson leaves DEL as it is, which can be in a string only. */
	for (size_t i = 0; out != NULL && i < len; i++)
		at = text[i] == 0x7f ? stpcpy(at, "\\u007f") : (*at = text[i], at + 1);
	if (out != NULL)
		*at = '\0';
	return out;
}

bool
audit_exported_is_denied(const struct audit_exported *e)
{
	const char *verdict = audit_exported_text(e, "verdict");

	return strcmp(verdict, "deny") == 0 || strcmp(verdict, "ask") == 0;
}

void
audit_exported_url(const struct audit_exported *e, char *ret_url, size_t size)
{
	uint64_t port = audit_exported_number(e, "port");
	const char *scheme = audit_exported_text(e, "scheme");
	bool usual = port == 0 || (strcmp(scheme, "https") == 0 && port == 443) || (strcmp(scheme, "http") == 0 && port == 80);
	char number[16] = "";

	if (!usual)
		snprintf(number, sizeof(number), ":%u", (unsigned)(uint16_t)port);
	snprintf(ret_url, size, "%s://%s%s%s", scheme, audit_exported_text(e, "host"), number, audit_exported_text(e, "path"));
}

/* ---- what happened, in one line ---- */

static void
put_message(struct audit_exported *e)
{
	static const struct { const char *type, *first, *second; } parts[] = {
		{ "exec", "path", "error" }, { "file", "act", "path" }, { "net", "act", "address" },
		{ "refused", "call", "error" }, { "danger", "call", "args" }, { "watch", "of", "then" }, { "dns", "host", "why" },
		{ "tcp", "host", "why" }, { "tls", "host", "why" }, { "cell", "did", "by" }, { "steer", "did", "by" },
		{ "approval", "did", "host" }, { "record", "level", "by" }, { "lost", "what", "why" },
		{ "setup.ran", "path", "" }, { "ssh", "secret", "host" }, { "secret", "secret", "why" },
	};
	char url[384];

	if (strcmp(e->type, "http") == 0) {
		audit_exported_url(e, url, sizeof(url));
		snprintf(e->message, sizeof(e->message), "%.32s %s", audit_exported_text(e, "method"), url);
		return;
	}
	snprintf(e->message, sizeof(e->message), "%.32s", e->type);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		const char *first, *second;

		if (strcmp(parts[i].type, e->type) != 0)
			continue;
		first = audit_exported_text(e, parts[i].first);
		second = audit_exported_text(e, parts[i].second);
		snprintf(e->message, sizeof(e->message), "%.32s %.200s%s%.200s", e->type, first, second[0] != '\0' ? " " : "", second);
	}
}

/* ---- programs of processes ---- */

static void
note_program(struct audit_export *x, struct audit_exported *e)
{
	size_t slot = e->pid % AUDIT_EXPORT_PROGRAMS;

	if (e->pid == 0)
		return;
	if (strcmp(e->type, "exec") == 0 && !audit_exported_has(e, "error")) {
		x->programs[slot].pid = e->pid;
		snprintf(x->programs[slot].path, AUDIT_EXPORT_PATH, "%s", audit_exported_text(e, "path"));
	}
	if (x->programs[slot].pid == e->pid)
		e->program = x->programs[slot].path;
}

static void
forget_program(struct audit_export *x, const struct audit_exported *e)
{
	size_t slot = e->pid % AUDIT_EXPORT_PROGRAMS;

	if (strcmp(e->type, "exit") == 0 && x->programs[slot].pid == e->pid)
		x->programs[slot].pid = 0;
}

/* ---- lines ---- */

/* false: it is no record, or one that is not exported. */
static bool
read_record(const json_t *record, struct audit_exported *ret_exported)
{
	const char *time = json_string_value(json_object_get(record, "time"));
	const char *cell = json_string_value(json_object_get(record, "cell"));
	const json_t *event = json_object_get(record, "event");
	const char *type = json_string_value(json_object_get(event, "type"));
	json_int_t n = json_integer_value(json_object_get(record, "n"));

	*ret_exported = (struct audit_exported){ .type = type, .cell = cell != NULL ? cell : "", .n = n > 0 ? (uint64_t)n : 0,
	                                         .event = event, .program = "" };
	if (type == NULL || time == NULL || since_parse(time, 0, &ret_exported->time_ms, NULL) < 0)
		return false;
	ret_exported->pid = audit_exported_number(ret_exported, "pid");
	return true;
}

void
audit_export_line(struct audit_export *x, const char *line, size_t len)
{
	json_t *record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	struct audit_exported e;

	if (!read_record(record, &e)) {
		x->left_out++;
	} else if (strcmp(e.type, "checkpoint") != 0) {
		snprintf(x->cell, sizeof(x->cell), "%s", e.cell);
		note_program(x, &e);
		put_message(&e);
		if (x->format == AUDIT_OCSF)
			audit_export_ocsf(x, &e);
		else
			audit_export_otel(x, &e);
		forget_program(x, &e);
	}
	json_decref(record);
}

void
audit_export_finish(struct audit_export *x)
{
	if (x->n_open > 0)
		audit_export_otel_end(x);
	memset(x->programs, 0, sizeof(x->programs));
}
