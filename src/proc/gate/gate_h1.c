/* gate_h1.c - HTTP/1.1 with the agent: each request becomes a stream to the courier, one at a time,
 * and its response is written back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proc/gate/gate_h1.h"

static const struct gate_protocol h1;
static void h1_feed(struct gate_h1 *h, const unsigned char *data, size_t len);
static size_t h1_room(struct gate_h1 *h);

/* ---- allocation ---- */

static struct gate_h1 *
h1_take(struct gate_conn *gc)
{
	struct gate *g = gc->gate;
	struct gate_h1 *h = g->spare_h1;

	if (h != NULL) {
		g->spare_h1 = h->next;
		g->n_spare_h1--;
	} else {
		h = calloc(1, sizeof(*h));
		if (h == NULL)
			return NULL;
		h1_reader_init(&h->reader, H1_REQUESTS);
	}
	h->gc = gc;
	gc->state = h;
	return h;
}

static void
h1_free(struct gate_h1 *h)
{
	h1_reader_free(&h->reader);
	free(h->ahead);
	free(h->stuck);
	free(h);
}

void
gate_h1_give_back(struct gate_h1 *h, bool is_clean)
{
	struct gate *g = h->gc->gate;

	h->gc->state = NULL;
	h->gc = NULL;
	if (!is_clean || h->ahead != NULL || g->n_spare_h1 == GATE_SPARE_MAX) {
		h1_free(h);
		return;
	}
	h->request = REQUEST_HEAD;
	h->answer = ANSWER_NONE;
	h->is_timed = false;
	h->next = g->spare_h1;
	g->spare_h1 = h;
	g->n_spare_h1++;
}

void
gate_h1_trim(struct gate *g)
{
	struct gate_h1 *h;

	while ((h = g->spare_h1) != NULL) {
		g->spare_h1 = h->next;
		h1_free(h);
	}
	g->n_spare_h1 = 0;
}

static void
h1_ended(struct gate_conn *gc)
{
	struct gate_h1 *h = gc->state;

	if (h == NULL)
		return;
	gate_stream_reset(&h->stream, EGRESS_RESET_CANCEL);
	gate_h1_give_back(h, false);
}

/* ---- between requests ---- */

static void
h1_rest(struct gate_conn *gc)
{
	gate_conn_set_idle(gc, true);
	gate_conn_set_late(gc, GATE_IDLE_MS);
	conn_resume_reading(&gc->conn);
}

/* An exchange is over.  False: the connection is over too. */
static bool
h1_turn(struct gate_h1 *h)
{
	gate_stream_forget(&h->stream);
	h->unreturned = 0;
	if (!h->keep_alive) {
		gate_conn_finish(h->gc);
		return false;
	}
	h->request = REQUEST_HEAD;
	h->answer = ANSWER_NONE;
	h->is_timed = false;
	/* The next request may be for another host, and may not name it. */
	if (h->gc->is_proxy)
		gate_set_host(h->gc, "", 0, 0);
	return true;
}

void
gate_h1_feed_ahead(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;
	unsigned char *ahead = h->ahead;

	if (ahead != NULL) {
		h->ahead = NULL;
		h1_feed(h, ahead, h->n_ahead);
		free(ahead);
	}
	if (gc->is_dead || gc->protocol != &h1 || gc->state != h)
		return;
	if (gc->has_ended && h->request != REQUEST_DONE)
		gate_conn_drop(gc, true);
	else if (!gc->has_ended && h1_room(h) != 0)
		conn_resume_reading(&gc->conn);
}

void
gate_h1_answered(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;

	if (h->request != REQUEST_DONE) {
		/* The client waited for 100 to send its body, and got its final response instead. */
		if (h->waits_for_100)
			gate_conn_finish(gc);
		return;
	}
	if (!h1_turn(h))
		return;
	if (h->ahead != NULL) {
		gate_h1_feed_ahead(h);
	} else if (gc->has_ended) {
		gate_conn_finish(gc);
	} else {
		gate_h1_give_back(h, true);
		h1_rest(gc);
	}
}

void
gate_h1_refuse(struct gate_h1 *h, uint16_t status, const char *reason, const char *hint)
{
	struct gate_conn *gc = h->gc;

	/* The courier has recorded a failed upstream itself. */
	if (status != 502 && status != 504)
		gate_note(gc->gate, gc, EGRESS_NOTE_HTTP, status, reason);
	if (h->answer == ANSWER_BODY || h->answer == ANSWER_DONE) {
		gate_conn_drop(gc, true);
		return;
	}
	gate_request_refusal_h1(gc, status, reason, hint);
	if (gate_conn_write(gc, gc->gate->text.data, gc->gate->text.len))
		gate_conn_finish(gc);
}

/* ---- the agent's request ---- */

/* Continue as a proxy's connection once the request is complete. */
static bool
h1_begin_connect(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;
	const struct http_head *head = &h->reader.head;

	if (!gc->is_proxy) {
		gate_h1_refuse(h, 400, "CONNECT is for proxies",
		               "Send the request itself, or use the proxy: gate.cloister.internal:3128.");
		return false;
	}
	gate_set_host(gc, head->host.at, head->host.len, head->port);
	h->is_connect = true;
	return true;
}

static bool
h1_begin(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;
	struct http_head *head = &h->reader.head;
	struct err err = {0};
	uint16_t status;

	gate_conn_set_idle(gc, false);
	h->version = h->reader.version;
	h->keep_alive = h->reader.keep_alive;
	h->waits_for_100 = h->reader.expects_continue;
	h->is_head = http_text_is(head->method, "HEAD");
	h->is_upgrade = head->upgrade.len != 0;
	h->has_body = head->length != 0;
	h->is_connect = false;
	h->request = REQUEST_BODY;
	if (http_text_is(head->method, "CONNECT"))
		return h1_begin_connect(h);
	status = gate_request_complete(gc, head, h->reader.form == H1_ABSOLUTE, &err);
	if (status != 0) {
		gate_h1_refuse(h, status, err.text, NULL);
		return false;
	}
	if (!gate_stream_open(gc->gate, &h->stream, &gate_h1_handler, h)) {
		gate_h1_refuse(h, 503, "too many requests are under way", NULL);
		return false;
	}
	h->answer = ANSWER_WAIT;
	gate_request_send(gc, &h->stream, h->version, head);
	return true;
}

/* Keep a copy of LEN bytes (NULL for 0).  False: the connection was dropped. */
static bool
h1_keep(struct gate_h1 *h, unsigned char **to, size_t *n, const void *data, size_t len)
{
	*to = NULL;
	*n = len;
	if (len == 0)
		return true;
	*to = malloc(len);
	if (*to == NULL) {
		gate_conn_drop(h->gc, true);
		return false;
	}
	memcpy(*to, data, len);
	return true;
}

/* If it cannot be sent, the bytes behind it have to wait: see h1_room(). */
static void
h1_body(struct gate_h1 *h, struct http_text piece)
{
	size_t n;

	h->waits_for_100 = false;
	if (h->stream.mux == NULL)      /* the response came first */
		return;
	n = mux_send_data(h->stream.mux, piece.at, piece.len);
	(void)h1_keep(h, &h->stuck, &h->n_stuck, piece.at + n, piece.len - n);
}

static void
h1_connect(struct gate_h1 *h, size_t left)
{
	struct gate_conn *gc = h->gc;

	if (left != 0) {
		gate_h1_refuse(h, 400, "data follows CONNECT before its answer",
		               "Wait for the answer first.");
		return;
	}
	gate_h1_give_back(h, false);
	gc->is_proxy = false;
	gc->via = EGRESS_CONNECT;
	gc->owes = GATE_OWES_CONNECT;
	gate_route_start(gc);
}

/* The request is complete.  LEN more bytes at DATA wait until it is answered. */
static void
h1_complete(struct gate_h1 *h, const unsigned char *data, size_t len)
{
	const struct http_head *head = &h->reader.head;

	if (h->is_connect) {
		h1_connect(h, len);
		return;
	}
	h->request = REQUEST_DONE;
	if (h->has_body)
		gate_stream_end(h->gc->gate, &h->stream, head->fields, head->n_fields);
	if (h->answer == ANSWER_DONE) {
		gate_h1_answered(h);
		return;
	}
	(void)h1_keep(h, &h->ahead, &h->n_ahead, data, len);
}

static void
h1_feed(struct gate_h1 *h, const unsigned char *data, size_t len)
{
	struct gate_conn *gc = h->gc;
	struct http_text piece;
	struct err err = {0};
	size_t used;

	for (;;) {
		enum h1_event event = h1_read(&h->reader, (const char *)data, len, &used, &piece, &err);

		data += used;
		len -= used;
		switch (event) {
		case H1_MORE:
			/* The deadline is for the whole head, however slowly it comes. */
			if (h->request == REQUEST_HEAD && !h->is_timed) {
				h->is_timed = true;
				gate_conn_set_idle(gc, false);
				gate_conn_set_late(gc, GATE_HEAD_MS);
			}
			return;
		case H1_HEAD:
			if (!h1_begin(h))
				return;
			break;
		case H1_BODY:
			h1_body(h, piece);
			if (gc->is_dead)
				return;
			if (h->stuck != NULL) {
				(void)h1_keep(h, &h->ahead, &h->n_ahead, data, len);
				return;
			}
			break;
		case H1_END:
			h1_complete(h, data, len);
			return;
		case H1_BAD:
			gate_h1_refuse(h, h->reader.status, err.text, NULL);
			return;
		}
	}
}

/* How many bytes may be read now. */
static size_t
h1_room(struct gate_h1 *h)
{
	if (h->ahead != NULL || h->stuck != NULL)
		return 0;
	if (mux_is_full(h->gc->gate->mux)) {
		gate_conn_wait_for_mux(h->gc);
		return 0;
	}
	if (h->request == REQUEST_BODY && h->stream.mux != NULL &&
	    h->stream.mux->may_send < GATE_IN_MAX)
		return h->stream.mux->may_send;
	return GATE_IN_MAX;
}

/* The agent will send no more. */
static void
h1_eof(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;

	gc->has_ended = true;
	if (h->request == REQUEST_BODY || (h->request == REQUEST_DONE && gc->conn.ssl != NULL))
		gate_conn_drop(gc, true);
	else if (h->request == REQUEST_HEAD)
		gate_conn_finish(gc);   /* the last response may not be written yet */
	else {
		/* The agent may still want its response, or be gone: the connection may be dropped
		 * to make room. */
		gate_conn_set_idle(gc, true);
		gate_stream_shut(&h->stream);
	}
}

static void
h1_readable(struct gate_conn *gc)
{
	struct gate_h1 *h = gc->state != NULL ? gc->state : h1_take(gc);
	size_t room;
	ssize_t n;

	/* Only a few times, so that other connections get their turn. */
	for (int i = 0; i < 8 && h != NULL; i++) {
		room = h1_room(h);
		if (room == 0) {
			conn_pause_reading(&gc->conn);
			return;
		}
		n = conn_read(&gc->conn, gc->gate->in, room);
		if (n == -EAGAIN) {
			if (h->request == REQUEST_HEAD && !h->is_timed)
				gate_h1_give_back(h, true);
			return;
		}
		if (n < 0)
			gate_conn_drop(gc, true);
		else if (n == 0)
			h1_eof(h);
		else if (h->request != REQUEST_DONE)
			h1_feed(h, gc->gate->in, (size_t)n);
		else
			(void)h1_keep(h, &h->ahead, &h->n_ahead, gc->gate->in, (size_t)n);
		if (gc->is_dead || gc->protocol != &h1 || gc->state != h || n == 0)
			return;
	}
	if (h == NULL)
		gate_conn_drop(gc, true);
}

/* Bytes that were sent before the end still wait to be read. */
static void
h1_shut(struct gate_conn *gc)
{
	struct gate_h1 *h = gc->state;

	if (h != NULL)
		gate_stream_shut(&h->stream);
}

static void
h1_writable(struct gate_conn *gc)
{
	if (gc->state != NULL)
		gate_h1_return(gc->state);
}

static void
h1_late(struct gate_conn *gc)
{
	struct gate_h1 *h = gc->state;

	/* The timer is not touched while a request is under way. */
	if (h == NULL || h->request == REQUEST_HEAD)
		gate_conn_drop(gc, h != NULL);
}

static bool
h1_waits(const struct gate_conn *gc)
{
	const struct gate_h1 *h = gc->state;

	return h == NULL || (h->request != REQUEST_DONE && h->stuck == NULL && h->answer != ANSWER_BODY &&
	                     !gc->waits_for_mux &&
	                     (h->stream.mux == NULL || h->stream.mux->may_send > 0));
}

static const struct gate_protocol h1 = {
	.waits = h1_waits, .shut = h1_shut,
	.readable = h1_readable, .writable = h1_writable, .late = h1_late, .ended = h1_ended,
};

void
gate_h1_start(struct gate_conn *gc)
{
	gate_conn_use(gc, &h1, NULL);
	/* The first head has the same deadline as the rest of one. */
	gate_conn_set_idle(gc, true);
	gate_conn_set_late(gc, GATE_HEAD_MS);
	conn_resume_reading(&gc->conn);
}
