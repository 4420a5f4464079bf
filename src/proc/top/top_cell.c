/* top_cell.c - the view of one cell: what it is, what it used, and its newest events. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/page.h"
#include "base/own.h"
#include "proc/top/top.h"

struct events {
	struct top_event *at;
	size_t n, max;
};

static const char *
text_of(const json_t *event, const char *key)
{
	const char *text = json_string_value(json_object_get(event, key));

	return text != NULL ? text : "";
}

static void
put_what(struct top_event *e, const json_t *event)
{
	char text[TOP_TEXT], port[16] = "";
	json_int_t number = json_integer_value(json_object_get(event, "port"));

	if (number != 0 && number != 80 && number != 443)
		snprintf(port, sizeof(port), ":%d", (int)number);
	if (text_of(event, "host")[0] != '\0')
		snprintf(text, sizeof(text), "%s%s%s%s%s", text_of(event, "method"),
		         text_of(event, "method")[0] != '\0' ? " " : "", text_of(event, "host"), port,
		         text_of(event, "path"));
	else
		snprintf(text, sizeof(text), "%s%s%s", text_of(event, "did"),
		         text_of(event, "by")[0] != '\0' ? " by " : "", text_of(event, "by"));
	top_safe(e->what, text);
	snprintf(text, sizeof(text), "%s%s%s", text_of(event, "why"),
	         text_of(event, "note")[0] != '\0' && text_of(event, "why")[0] != '\0' ? ": " : "",
	         text_of(event, "note"));
	top_safe(e->why, text);
}

static int
take(void *arg, const char *line, size_t len)
{
	struct events *events = arg;
	json_t *record = json_loadb(line, len, 0, NULL);
	const json_t *event = json_object_get(record, "event");
	struct top_event *e = &events->at[events->n];

	if (events->n < events->max && strcmp(text_of(event, "type"), "checkpoint") != 0) {
		*e = (struct top_event){0};
		/* "2026-11-18T11:24:30.873Z" */
		snprintf(e->time, sizeof(e->time), "%.8s", strlen(text_of(record, "time")) > 11 ?
		         text_of(record, "time") + 11 : "");
		snprintf(e->verdict, sizeof(e->verdict), "%s", text_of(event, "verdict"));
		snprintf(e->type, sizeof(e->type), "%s", text_of(event, "type"));
		put_what(e, event);
		events->n++;
	}
	json_decref(record);
	return 0;
}

size_t
top_events(const struct top_cell *cell, struct top_event *ret_events, size_t max)
{
	OWN(closep) int state = cell_state_open(false, NULL), dir = -1;
	struct events events = { .at = ret_events, .max = max };
	struct audit_page page = { .limit = 2 * max, .take = take, .arg = &events };
	char path[CELL_ENTRY_MAX + 2];

	snprintf(path, sizeof(path), "%s.%s", cell->entry.id, cell->entry.name);
	dir = state < 0 ? -1 : openat(state, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir >= 0)
		(void)audit_page_read(&page, dir, CELL_EVENTS, NULL);
	return events.n;
}
