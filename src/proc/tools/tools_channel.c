/* tools_channel.c - the response to one HTTP request of the agent's, and the stream that its session listens to.
 *
 * A response is one JSON object if nothing precedes the result and it comes soon, else a stream of events.  Streams
 * are kept for a while, so that a client whose connection broke gets the rest on another one. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/tools/tools_worker.h"

/* Nobody waits for what is under way there: in a session of 2024-11-05 that is everything. */
static void
drop_calls(const struct channel *c)
{
	struct call *call, *next;

	for (call = c->session->calls; call != NULL; call = next) {
		next = call->next;
		if (call->channel == c)
			call_free(call);
	}
}

void
channel_free(struct channel *c)
{
	struct channel **at = &c->session->channels;

	drop_calls(c);
	loop_cancel_timer(gateway_loop, &c->turn);
	if (c->q != NULL)
		serve_answer(TAKE(c->q), 202, NULL, NULL, 0);
	/* Nothing more comes for a listener, which is no failure. */
	serve_events_detach(&c->events, !c->listens);
	serve_events_free(&c->events);
	if (c->session->listener == c)
		c->session->listener = NULL;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	free(c);
}

static void
all_sent(void *arg)
{
	struct channel *c = arg;

	/* It stays for a client that missed the end. */
	if (c->over)
		serve_events_detach(&c->events, false);
}

static void
gone(void *arg)
{
	struct channel *c = arg;

	if (c->listens)
		channel_free(c);
}

static void
turn_due(void *arg)
{
	struct channel *c = arg;

	if (c->q == NULL)
		return;
	c->streams = true;
	serve_events_attach(&c->events, TAKE(c->q));
}

/* The oldest responses that are over make room. */
static void
make_room(struct session *s)
{
	struct channel *oldest = NULL;
	size_t n = 0;

	for (struct channel *c = s->channels; c != NULL; c = c->next, n++)
		if (c->over)
			oldest = c;
	if (n >= GATEWAY_CHANNELS_MAX && oldest != NULL)
		channel_free(oldest);
}

struct channel *
channel_new(struct session *s, struct serve_request *q)
{
	struct channel *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	make_room(s);
	*c = (struct channel){ .next = s->channels, .session = s, .q = q, .turn = { .due = turn_due, .arg = c },
		.events = { .loop = gateway_loop, .keeps = true, .number = s->n_channels++, .arg = c, .sent = all_sent,
		            .gone = gone } };
	serve_events_init(&c->events);
	s->channels = c;
	loop_set_timer(gateway_loop, &c->turn, GATEWAY_STREAM_MS);
	return c;
}

void
channel_listen(struct channel *c)
{
	if (c->session->listener != NULL)
		channel_free(c->session->listener);
	c->session->listener = c;
	c->listens = true;
	turn_due(c);
}

static bool
add(struct channel *c, json_t *message)
{
	OWN(freep) char *text = message == NULL ? NULL : jsonrpc_write(message);
	bool added = text != NULL && serve_events_waiting(&c->events) + strlen(text) <= GATEWAY_WAITING_MAX &&
	             serve_events_add(&c->events, c->session->is_old ? "message" : NULL, text);

	if (added)
		serve_events_pump(&c->events);
	return added;
}

bool
channel_send(struct channel *c, json_t *message)
{
	bool sent;

	turn_due(c);
	sent = add(c, message);
	json_decref(message);
	return sent;
}

void
channel_finish(struct channel *c, json_t *message)
{
	OWN(freep) char *text = NULL;

	if (c->listens) {
		(void)channel_send(c, message);
		return;
	}
	loop_cancel_timer(gateway_loop, &c->turn);
	c->over = true;
	if (c->streams) {
		if (message != NULL)
			(void)add(c, message);
		else
			all_sent(c);
		json_decref(message);
		return;
	}
	text = message == NULL ? NULL : jsonrpc_write(message);
	json_decref(message);
	if (text != NULL && c->q != NULL)
		serve_answer(TAKE(c->q), 200, "application/json", text, strlen(text));
	channel_free(c);
}

bool
channel_resume(struct session *s, struct serve_request *q, const char *last)
{
	unsigned number, n;

	if (!serve_events_id(last, &number, &n))
		return false;
	for (struct channel *c = s->channels; c != NULL; c = c->next)
		if (c->events.number == number)
			return c->streams && serve_events_resume(&c->events, q, n);
	return false;
}
