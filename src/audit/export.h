/* export.h - writes records of cells' timelines in formats that other systems read.
 *
 * OCSF: one event of the Open Cybersecurity Schema Framework per line.  OTEL: logs of OpenTelemetry as
 * OTLP/JSON, one message with up to AUDIT_OTEL_BATCH log records per line.  docs/audit-export.md has the fields.
 *
 * An agent chose the texts in records.  Nothing in the output can control a terminal.  A record that cannot
 * be read is left out. */
#ifndef CLOISTER_AUDIT_EXPORT_H
#define CLOISTER_AUDIT_EXPORT_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"

#define AUDIT_OCSF_VERSION "1.8.0"
#define AUDIT_OTEL_BATCH 256
#define AUDIT_EXPORT_PROGRAMS 1024      /* processes whose program is remembered */
#define AUDIT_EXPORT_PATH 256

enum audit_format { AUDIT_OCSF, AUDIT_OTEL };

struct audit_export {
	enum audit_format format;
	FILE *out;
	const char *host;               /* the name of this machine; borrowed */
	char cell[32];                  /* whose records come; "" for the operator's */
	struct { uint64_t pid; char path[AUDIT_EXPORT_PATH]; } programs[AUDIT_EXPORT_PROGRAMS];
	struct json w;                  /* OTEL: the message that is open */
	size_t n_open;                  /* its log records; 0: none is open */
	uint64_t left_out;              /* lines that could not be read */
};
/* Takes the next line of a timeline, without its newline. */
void audit_export_line(struct audit_export *x, const char *line, size_t len);
/* The timeline has ended; another may follow. */
void audit_export_finish(struct audit_export *x);

/* ---- for the formats ---- */

/* A record, as its line has it. */
struct audit_exported {
	const char *type, *cell;        /* "" if there is none */
	uint64_t n, time_ms;
	const json_t *event;
	char message[512];              /* what happened, in one line */
	uint64_t pid;                   /* 0: unknown */
	const char *program;            /* of that process; "" if unknown */
};
void audit_export_ocsf(struct audit_export *x, const struct audit_exported *e);
void audit_export_otel(struct audit_export *x, const struct audit_exported *e);
void audit_export_otel_end(struct audit_export *x);

/* Members of the event: "" or 0 if there is none. */
const char *audit_exported_text(const struct audit_exported *e, const char *key);
uint64_t audit_exported_number(const struct audit_exported *e, const char *key);
bool audit_exported_has(const struct audit_exported *e, const char *key);
/* VALUE as JSON without a byte that a terminal would act on; the caller owns it.  NULL: out of memory. */
char *audit_exported_json(const json_t *value);
/* Whether a request was refused. */
bool audit_exported_is_denied(const struct audit_exported *e);
/* "https://host:8443/path". */
void audit_exported_url(const struct audit_exported *e, char *ret_url, size_t size);
#endif
