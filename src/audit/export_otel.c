/* export_otel.c - writes records as logs of OpenTelemetry, in OTLP/JSON. */
#include <inttypes.h>
#include <string.h>

#include "audit/export.h"
#include "base/own.h"
#include "base/version.h"

enum { INFO = 9, WARN = 13, ERROR = 17 };

/* Members of events that OpenTelemetry's semantic conventions name; the others are cloister.MEMBER. */
static const struct { const char *type, *member, *name; } names[] = {
	{ NULL, "pid", "process.pid" },
	{ NULL, "parent", "process.parent_pid" },
	{ "exec", "path", "process.executable.path" },
	{ "exec", "argv", "process.command_args" },
	{ "exec", "cwd", "process.working_directory" },
	{ "exec", "error", "error.type" },
	{ "exit", "status", "process.exit.code" },
	{ "file", "path", "file.path" },
	{ "file", "error", "error.type" },
	{ "net", "address", "network.peer.address" },
	{ "net", "port", "network.peer.port" },
	{ "net", "local", "network.local.port" },
	{ "net", "error", "error.type" },
	{ "refused", "error", "error.type" },
	{ "danger", "error", "error.type" },
	{ "http", "method", "http.request.method" },
	{ "http", "status", "http.response.status_code" },
	{ "http", "sent", "http.request.body.size" },
	{ "http", "received", "http.response.body.size" },
	{ "http", "scheme", "url.scheme" },
	{ "http", "path", "url.path" },
	{ "http", "why", "error.type" },
	{ NULL, "host", "server.address" },
	{ NULL, "port", "server.port" },
	{ NULL, "from", "client.port" },
};

static void
put_text(struct json *w, const char *key, const char *name, const char *text)
{
	json_open(w, key, '{');
	if (name != NULL) {
		json_str(w, "key", name);
		json_open(w, "value", '{');
	}
	json_str(w, "stringValue", text);
	json_close(w, '}');
	if (name != NULL)
		json_close(w, '}');
}

/* VALUE as an AnyValue. */
static void
put_value(struct json *w, const char *key, const json_t *value)
{
	OWN(freep) char *text = NULL;

	json_open(w, key, '{');
	if (json_is_string(value)) {
		json_str(w, "stringValue", json_string_value(value));
	} else if (json_is_integer(value)) {
		json_raw(w, "intValue", "\"%" JSON_INTEGER_FORMAT "\"", json_integer_value(value));
	} else if (json_is_boolean(value)) {
		json_bool(w, "boolValue", json_is_true(value));
	} else if (json_is_array(value)) {
		json_open(w, "arrayValue", '{');
		json_open(w, "values", '[');
		for (size_t i = 0; i < json_array_size(value); i++) {
			const char *word = json_string_value(json_array_get(value, i));

			put_text(w, NULL, NULL, word != NULL ? word : "");
		}
		json_close(w, ']');
		json_close(w, '}');
	} else {
		/* Grants and the like: as their JSON. */
		text = audit_exported_json(value);
		json_str(w, "stringValue", text != NULL ? text : "");
	}
	json_close(w, '}');
}

static void
put_attribute(struct json *w, const char *type, const char *key, const json_t *value)
{
	char own[64];
	const char *name = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names) && name == NULL; i++)
		if ((names[i].type == NULL || strcmp(names[i].type, type) == 0) && strcmp(names[i].member, key) == 0)
			name = names[i].name;
	snprintf(own, sizeof(own), "cloister.%.48s", key);
	json_open(w, NULL, '{');
	json_str(w, "key", name != NULL ? name : own);
	put_value(w, "value", value);
	json_close(w, '}');
}

static void
put_attributes(struct json *w, const struct audit_exported *e)
{
	const char *key;
	json_t *value;
	char url[4096], uid[64];

	snprintf(uid, sizeof(uid), "%.32s/%" PRIu64, e->cell[0] != '\0' ? e->cell : "operator", e->n);
	json_open(w, "attributes", '[');
	put_text(w, NULL, "log.record.uid", uid);
	if (strcmp(e->type, "http") == 0) {
		audit_exported_url(e, url, sizeof(url));
		put_text(w, NULL, "url.full", url);
	}
	if (e->program[0] != '\0' && strcmp(e->type, "exec") != 0)
		put_text(w, NULL, "process.executable.path", e->program);
	json_object_foreach((json_t *)(uintptr_t)e->event, key, value) {
		if (strcmp(key, "type") != 0)
			put_attribute(w, e->type, key, value);
	}
	json_close(w, ']');
}

/* The message's head: where its records are from. */
static void
open_message(struct audit_export *x)
{
	struct json *w = &x->w;

	*w = (struct json){ .out = x->out };
	json_open(w, NULL, '{');
	json_open(w, "resourceLogs", '[');
	json_open(w, NULL, '{');
	json_open(w, "resource", '{');
	json_open(w, "attributes", '[');
	put_text(w, NULL, "service.name", "cloister");
	put_text(w, NULL, "service.version", CLOISTER_VERSION);
	put_text(w, NULL, "host.name", x->host);
	if (x->cell[0] != '\0') {
		put_text(w, NULL, "container.id", x->cell);
		put_text(w, NULL, "container.runtime.name", "cloister");
	}
	json_close(w, ']');
	json_close(w, '}');
	json_open(w, "scopeLogs", '[');
	json_open(w, NULL, '{');
	json_open(w, "scope", '{');
	json_str(w, "name", "cloister.audit");
	json_str(w, "version", CLOISTER_VERSION);
	json_close(w, '}');
	json_open(w, "logRecords", '[');
}

void
audit_export_otel_end(struct audit_export *x)
{
	static const char brackets[] = "]}]}]}";

	for (const char *b = brackets; *b != '\0'; b++)
		json_close(&x->w, *b);
	fputc('\n', x->out);
	x->n_open = 0;
}

static int
severity_of(const struct audit_exported *e)
{
	if (strcmp(e->type, "watch") == 0)
		return ERROR;
	return audit_exported_is_denied(e) || strcmp(e->type, "refused") == 0 || strcmp(e->type, "danger") == 0 ||
	       strcmp(e->type, "lost") == 0 ? WARN : INFO;
}

void
audit_export_otel(struct audit_export *x, const struct audit_exported *e)
{
	const int severity = severity_of(e);
	struct json *w = &x->w;
	char name[64];

	if (x->n_open == 0)
		open_message(x);
	json_open(w, NULL, '{');
	json_raw(w, "timeUnixNano", "\"%" PRIu64 "000000\"", e->time_ms);
	json_raw(w, "observedTimeUnixNano", "\"%" PRIu64 "000000\"", e->time_ms);
	json_u64(w, "severityNumber", (uint64_t)severity);
	json_str(w, "severityText", severity == ERROR ? "ERROR" : severity == WARN ? "WARN" : "INFO");
	snprintf(name, sizeof(name), "cloister.%.48s", e->type);
	json_str(w, "eventName", name);
	put_text(w, "body", NULL, e->message);
	put_attributes(w, e);
	json_close(w, '}');
	if (++x->n_open == AUDIT_OTEL_BATCH)
		audit_export_otel_end(x);
}
