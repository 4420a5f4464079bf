/* serve_events.c - see serve_events.h. */
#include "serve/serve_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "serve/serve.h"

#define PIECE_MAX (64 * 1024)
#define HEAD_MAX 96

struct serve_event {
	struct serve_event *next;
	unsigned n;
	size_t len;
	char text[];
};

static void
forget_first(struct serve_events *e)
{
	struct serve_event *event = e->first;

	e->first = event->next;
	if (e->first == NULL)
		e->end = &e->first;
	if (e->at == event) {
		e->at = event->next;
		e->part = 0;
	}
	e->kept -= event->len;
	free(event);
}

void
serve_events_detach(struct serve_events *e, bool cut)
{
	struct serve_request *q = TAKE(e->q);

	/* An event that was cut is sent again as a whole. */
	e->part = 0;
	loop_cancel_timer(e->loop, &e->alive);
	if (q != NULL)
		serve_end(q, cut);
}

void
serve_events_free(struct serve_events *e)
{
	serve_events_detach(e, true);
	while (e->first != NULL)
		forget_first(e);
}

void
serve_events_pump(struct serve_events *e)
{
	while (e->q != NULL && e->at != NULL) {
		struct serve_event *event = e->at;
		size_t n = event->len - e->part;
		bool room;

		n = n < PIECE_MAX ? n : PIECE_MAX;
		room = serve_send(e->q, event->text + e->part, n);
		e->part += n;
		if (e->part == event->len) {
			e->at = event->next;
			e->part = 0;
			if (!e->keeps)
				forget_first(e);
		}
		if (!room)
			return;
	}
	e->sent(e->arg);
}

bool
serve_events_add(struct serve_events *e, const char *type, const char *data)
{
	size_t len = strlen(data) + HEAD_MAX;
	struct serve_event *event = malloc(sizeof(*event) + len);
	char head[HEAD_MAX / 2] = "";

	if (event == NULL)
		return false;
	event->n = e->n++;
	event->next = NULL;
	if (type != NULL)
		snprintf(head, sizeof(head), "event: %s\n", type);
	event->len = (size_t)(e->keeps ?
		snprintf(event->text, len, "%sid: %u-%u\ndata: %s\n\n", head, e->number, event->n, data) :
		snprintf(event->text, len, "%sdata: %s\n\n", head, data));
	*e->end = event;
	e->end = &event->next;
	if (e->at == NULL)
		e->at = event;
	e->kept += event->len;
	/* The oldest are the least useful; a slow client misses some of them. */
	while (e->kept > SERVE_EVENTS_KEPT && e->first != event && e->part == 0)
		forget_first(e);
	return true;
}

size_t
serve_events_waiting(const struct serve_events *e)
{
	size_t n = 0;

	for (const struct serve_event *event = e->at; event != NULL; event = event->next)
		n += event->len;
	return n - e->part;
}

/* ---- the client ---- */

static void
writable(struct serve_request *q)
{
	serve_events_pump(q->app);
}

static void
gone(struct serve_request *q)
{
	struct serve_events *e = q->app;

	serve_events_detach(e, true);
	e->gone(e->arg);
}

/* Keeps intermediaries from taking silence for the end, and detects clients that are gone. */
static void
show_life(void *arg)
{
	struct serve_events *e = arg;

	loop_set_timer(e->loop, &e->alive, SERVE_EVENTS_ALIVE_S * 1000);
	if (e->part == 0)
		(void)serve_send(e->q, ":\n\n", 3);
}

void
serve_events_init(struct serve_events *e)
{
	e->end = &e->first;
	loop_prepare_timer(&e->alive, show_life, e);
}

void
serve_events_attach(struct serve_events *e, struct serve_request *q)
{
	e->q = q;
	q->app = e;
	q->writable = writable;
	q->gone = gone;
	serve_field(q, "x-accel-buffering", "no");
	serve_stream(q, 200, "text/event-stream");
	loop_set_timer(e->loop, &e->alive, SERVE_EVENTS_ALIVE_S * 1000);
}

bool
serve_events_resume(struct serve_events *e, struct serve_request *q, unsigned n)
{
	if (n >= e->n)
		return false;
	/* A client that comes back has lost the old connection, whatever its state here. */
	serve_events_detach(e, true);
	serve_events_attach(e, q);
	e->at = e->first;
	while (e->at != NULL && e->at->n <= n)
		e->at = e->at->next;
	serve_events_pump(e);
	return true;
}

bool
serve_events_id(const char *id, unsigned *ret_number, unsigned *ret_n)
{
	char end;

	return sscanf(id, "%9u-%9u%c", ret_number, ret_n, &end) == 2;
}

static bool
has_word(struct http_text list, const char *word)
{
	return list.at != NULL && memmem(list.at, list.len, word, strlen(word)) != NULL;
}

bool
serve_events_fit(struct serve_request *q, bool no_answer)
{
	static const char json[] = "application/json";
	struct http_text accept = http_head_get(&q->head, "accept");
	struct http_text type = http_head_get(&q->head, "content-type");

	if (type.len < sizeof(json) - 1 || strncasecmp(type.at, json, sizeof(json) - 1) != 0) {
		serve_refuse(q, 415, "type", NULL, "a message must have the type application/json");
		return false;
	}
	if (!no_answer && !has_word(accept, "*/*") && (!has_word(accept, json) || !has_word(accept, "text/event-stream"))) {
		serve_refuse(q, 406, "accept", NULL, "'Accept' has to name application/json and "
		             "text/event-stream: the answer may be either");
		return false;
	}
	return true;
}
