/* mcp_stream.c - the response to one HTTP request: one JSON object, or server-sent events.
 *
 * In a session, sent events are kept for a while, and a client whose connection broke gets the rest
 * on another one.  Without sessions, a client that disconnects cancels its request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/mcp/mcp_proc.h"

#define PIECE_MAX (64 * 1024)
#define EVENT_HEAD_MAX 64

/* ---- ends ---- */

static void
forget_first(struct stream *stream)
{
	struct stream_event *event = stream->events;

	stream->events = event->next;
	if (stream->events == NULL)
		stream->end = &stream->events;
	if (stream->at == event) {
		stream->at = event->next;
		stream->sent = 0;
	}
	stream->kept -= event->len;
	free(event);
}

/* Detaches the request.  CUT: the client must see that more was to come. */
static void
detach(struct stream *stream, bool cut)
{
	struct serve_request *q = TAKE(stream->q);

	/* An event that was cut is sent again as a whole. */
	stream->sent = 0;
	loop_cancel_timer(mcp_loop, &stream->alive);
	if (q == NULL)
		return;
	if (stream->streams)
		serve_end(q, cut);
	else
		serve_answer(q, 202, NULL, NULL, 0);
}

void
stream_free(struct stream *stream)
{
	detach(stream, true);
	if (stream->job != NULL)
		job_drop(stream->job);
	mcp_peer_leave(&stream->own);
	while (stream->events != NULL)
		forget_first(stream);
	if (stream->session != NULL) {
		struct stream **at = &stream->session->streams;

		while (*at != stream)
			at = &(*at)->next;
		*at = stream->next;
	}
	free(stream);
}

/* ---- sending ---- */

static void
pump(struct stream *stream)
{
	while (stream->q != NULL && stream->at != NULL) {
		struct stream_event *event = stream->at;
		size_t n = event->len - stream->sent;
		bool room;

		n = n < PIECE_MAX ? n : PIECE_MAX;
		room = serve_send(stream->q, event->text + stream->sent, n);
		stream->sent += n;
		if (stream->sent == event->len) {
			stream->at = event->next;
			stream->sent = 0;
			if (stream->session == NULL)
				forget_first(stream);
		}
		if (!room)
			return;
	}
	if (stream->job != NULL)
		return;
	if (stream->q != NULL)
		detach(stream, false);
	if (stream->session == NULL)
		stream_free(stream);
}

static void
add_event(struct stream *stream, const char *data)
{
	size_t len = strlen(data) + EVENT_HEAD_MAX;
	struct stream_event *event = malloc(sizeof(*event) + len);
	unsigned n = stream->n_events++;

	if (event == NULL) {
		fputs("cloister: out of memory for answers\n", stderr);
		exit(125);
	}
	event->n = n;
	event->next = NULL;
	event->len = (size_t)(stream->session != NULL ?
		snprintf(event->text, len, "id: %u-%u\ndata: %s\n\n", stream->number, n, data) :
		snprintf(event->text, len, "data: %s\n\n", data));
	*stream->end = event;
	stream->end = &event->next;
	if (stream->at == NULL)
		stream->at = event;
	stream->kept += event->len;
	/* The oldest are the least useful; a slow client misses some progress. */
	while (stream->kept > STREAM_KEPT_MAX && stream->events != event && stream->sent == 0)
		forget_first(stream);
}

static void
say(struct job *job, json_t *message, bool last)
{
	struct stream *stream = job->arg;
	OWN(freep) char *text = jsonrpc_write(message);

	json_decref(message);
	if (stream == NULL)
		return;
	if (last)
		stream->job = NULL;
	if (stream->streams) {
		if (text != NULL)
			add_event(stream, text);
		pump(stream);
		return;
	}
	if (!last)
		return;
	/* Nothing else will use this request. */
	if (text != NULL && stream->q != NULL)
		serve_answer(TAKE(stream->q), 200, "application/json", text, strlen(text));
	stream_free(stream);
}

static const struct job_handler handler = { .say = say };

/* ---- the request ---- */

static void
writable(struct serve_request *q)
{
	pump(q->app);
}

static void
gone(struct serve_request *q)
{
	struct stream *stream = q->app;
	struct job *job = stream->job;

	detach(stream, true);
	if (stream->session != NULL)
		return;
	/* The job outlives the stream, to cancel what it dispatched. */
	stream->job = NULL;
	if (job != NULL) {
		job->arg = NULL;
		mcp_peer_leave(&stream->own);
		job_cancel(job);
	}
	stream_free(stream);
}

/* Keeps intermediaries from taking silence for the end, and detects clients that are gone. */
static void
show_life(void *arg)
{
	struct stream *stream = arg;

	loop_set_timer(mcp_loop, &stream->alive, STREAM_ALIVE_S * 1000);
	if (stream->sent == 0)
		(void)serve_send(stream->q, ":\n\n", 3);
}

static void
attach(struct stream *stream, struct serve_request *q)
{
	stream->q = q;
	q->app = stream;
	q->writable = writable;
	q->gone = gone;
	serve_field(q, "x-accel-buffering", "no");
	serve_stream(q, 200, "text/event-stream");
	loop_set_timer(mcp_loop, &stream->alive, STREAM_ALIVE_S * 1000);
}

static void
make_room(struct session *s)
{
	struct stream *oldest = NULL;
	size_t n = 0;

	for (struct stream *one = s->streams; one != NULL; one = one->next, n++)
		if (one->job == NULL && one->q == NULL)
			oldest = one;
	if (n >= SESSION_STREAMS_MAX && oldest != NULL)
		stream_free(oldest);
}

struct stream *
stream_new(struct serve_request *q, struct session *s)
{
	struct stream *stream = calloc(1, sizeof(*stream));

	if (stream == NULL)
		return NULL;
	stream->q = q;
	stream->end = &stream->events;
	stream->alive = (struct loop_timer){ .due = show_life, .arg = stream };
	if (s != NULL) {
		make_room(s);
		stream->session = s;
		stream->number = s->n_streams++;
		stream->next = s->streams;
		s->streams = stream;
	}
	return stream;
}

void
stream_begin(struct stream *stream, struct mcp_call *call)
{
	struct serve_request *q = stream->q;

	stream->streams = call->waits;
	stream->job = job_new(call, q->token, &handler, stream);
	if (stream->job == NULL) {
		stream->streams = false;
		serve_refuse(TAKE(stream->q), 503, "busy", NULL,
		             "too many messages are being handled: try again later");
		stream_free(stream);
		return;
	}
	call->app = stream->job;
	if (!stream->streams)
		return;
	attach(stream, q);
	/* From 2025-11-25 on, a client gets its position before there is any event. */
	if (stream->session != NULL && strcmp(stream->session->peer.version, "2025-11-25") == 0) {
		add_event(stream, "");
		pump(stream);
	}
}

bool
stream_resume(struct session *s, struct serve_request *q, const char *last)
{
	unsigned number, n;
	struct stream *stream = s->streams;
	char end;

	if (sscanf(last, "%9u-%9u%c", &number, &n, &end) != 2)
		return false;
	while (stream != NULL && stream->number != number)
		stream = stream->next;
	if (stream == NULL || !stream->streams || n >= stream->n_events)
		return false;
	/* A client that comes back has lost the old connection, whatever its state here. */
	detach(stream, true);
	attach(stream, q);
	stream->at = stream->events;
	stream->sent = 0;
	while (stream->at != NULL && stream->at->n <= n)
		stream->at = stream->at->next;
	pump(stream);
	return true;
}
