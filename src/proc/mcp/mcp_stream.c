/* mcp_stream.c - the response to one HTTP request: one JSON object, or server-sent events.
 *
 * In a session, sent events are kept for a while, and a client whose connection broke gets the rest
 * on another one.  Without sessions, a client that disconnects cancels its request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/mcp/mcp_proc.h"

/* ---- ends ---- */

/* Nothing was streamed: the request is still to be answered. */
static void
leave_request(struct stream *stream)
{
	struct serve_request *q = TAKE(stream->q);

	if (q != NULL && !stream->streams)
		serve_answer(q, 202, NULL, NULL, 0);
}

void
stream_free(struct stream *stream)
{
	leave_request(stream);
	serve_events_free(&stream->events);
	if (stream->job != NULL)
		job_drop(stream->job);
	mcp_peer_leave(&stream->own);
	if (stream->session != NULL) {
		struct stream **at = &stream->session->streams;

		while (*at != stream)
			at = &(*at)->next;
		*at = stream->next;
	}
	free(stream);
}

static void
all_sent(void *arg)
{
	struct stream *stream = arg;

	if (stream->job != NULL)
		return;
	serve_events_detach(&stream->events, false);
	if (stream->session == NULL)
		stream_free(stream);
}

static void
gone(void *arg)
{
	struct stream *stream = arg;
	struct job *job = stream->job;

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

/* ---- sending ---- */

static void
add_event(struct stream *stream, const char *data)
{
	if (serve_events_add(&stream->events, NULL, data))
		return;
	fputs("cloister: out of memory for answers\n", stderr);
	exit(125);
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
		serve_events_pump(&stream->events);
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
make_room(struct session *s)
{
	struct stream *oldest = NULL;
	size_t n = 0;

	for (struct stream *one = s->streams; one != NULL; one = one->next, n++)
		if (one->job == NULL && one->q == NULL && one->events.q == NULL)
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
	stream->events = (struct serve_events){ .loop = mcp_loop, .arg = stream, .sent = all_sent, .gone = gone };
	serve_events_init(&stream->events);
	if (s != NULL) {
		make_room(s);
		stream->session = s;
		stream->events.keeps = true;
		stream->events.number = s->n_streams++;
		stream->next = s->streams;
		s->streams = stream;
	}
	return stream;
}

void
stream_begin(struct stream *stream, struct mcp_call *call)
{
	stream->streams = call->waits;
	stream->job = job_new(call, stream->q->token, &handler, stream);
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
	serve_events_attach(&stream->events, TAKE(stream->q));
	/* From 2025-11-25 on, a client gets its position before there is any event. */
	if (stream->session != NULL && strcmp(stream->session->peer.version, "2025-11-25") == 0) {
		add_event(stream, "");
		serve_events_pump(&stream->events);
	}
}

bool
stream_resume(struct session *s, struct serve_request *q, const char *last)
{
	struct stream *stream = s->streams;
	unsigned number, n;

	if (!serve_events_id(last, &number, &n))
		return false;
	while (stream != NULL && stream->events.number != number)
		stream = stream->next;
	return stream != NULL && stream->streams && serve_events_resume(&stream->events, q, n);
}
