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

/* A program's arguments, or its path. */
static void
put_program(char text[TOP_TEXT], const json_t *event)
{
	const json_t *argv = json_object_get(event, "argv"), *word;
	size_t at = 0, i;

	json_array_foreach(argv, i, word) {
		if (at >= TOP_TEXT)
			break;
		at += (size_t)snprintf(text + at, TOP_TEXT - at, "%s%s", i > 0 ? " " : "",
		                       json_string_value(word) != NULL ? json_string_value(word) : "");
	}
	if (at == 0)
		snprintf(text, TOP_TEXT, "%s", text_of(event, "path"));
}

/* An act inside the cell; false: it is none. */
static bool
put_act(struct top_event *e, const json_t *event)
{
	const char *type = text_of(event, "type"), *what = text_of(event, "path");
	json_int_t pid = json_integer_value(json_object_get(event, "pid"));
	char text[TOP_TEXT] = "";

	if (strcmp(type, "exec") == 0)
		put_program(text, event);
	else if (strcmp(type, "exit") == 0)
		snprintf(text, sizeof(text), "%s%s%.0lld", text_of(event, "signal")[0] != '\0' ? "SIG" : "status ",
		         text_of(event, "signal"), json_integer_value(json_object_get(event, "status")));
	else if (strcmp(type, "file") == 0 || strcmp(type, "net") == 0)
		snprintf(text, sizeof(text), "%s %s", text_of(event, "act"), what[0] != '\0' ? what : text_of(event, "address"));
	else if (strcmp(type, "refused") == 0 || strcmp(type, "danger") == 0)
		snprintf(text, sizeof(text), "%s(%s)", text_of(event, "call"), text_of(event, "args"));
	else if (strcmp(type, "watch") == 0)
		snprintf(text, sizeof(text), "%s", text_of(event, "of"));
	else
		return false;
	top_safe(e->what, text);
	snprintf(text, sizeof(text), "%s%sprocess %lld", text_of(event, "error"), text_of(event, "error")[0] != '\0' ? ", " : "",
	         pid);
	top_safe(e->why, strcmp(type, "watch") == 0 ? text_of(event, "rule") : text);
	return true;
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

/* Records that come again and again, and that other lines of the screen sum up. */
static bool
is_noise(const char *type)
{
	return strcmp(type, "checkpoint") == 0 || strcmp(type, "resources") == 0 || strcmp(type, "calls") == 0;
}

static int
take(void *arg, const char *line, size_t len)
{
	struct events *events = arg;
	json_t *record = json_loadb(line, len, 0, NULL);
	const json_t *event = json_object_get(record, "event");
	struct top_event *e = &events->at[events->n];

	if (events->n < events->max && !is_noise(text_of(event, "type"))) {
		*e = (struct top_event){0};
		/* "2026-11-18T11:24:30.873Z" */
		snprintf(e->time, sizeof(e->time), "%.8s", strlen(text_of(record, "time")) > 11 ?
		         text_of(record, "time") + 11 : "");
		snprintf(e->verdict, sizeof(e->verdict), "%s", text_of(event, "verdict"));
		snprintf(e->type, sizeof(e->type), "%s", text_of(event, "type"));
		if (!put_act(e, event))
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
