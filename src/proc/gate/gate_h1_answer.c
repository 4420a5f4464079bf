/* gate_h1_answer.c - writes the courier's responses as HTTP/1.1. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/gate/gate_h1.h"

void
gate_h1_return(struct gate_h1 *h)
{
	if (h->unreturned == 0 || h->stream.mux == NULL || conn_is_full(&h->gc->conn))
		return;
	mux_consumed(h->stream.mux, h->unreturned);
	h->unreturned = 0;
}

static void
h1_upgraded(struct gate_h1 *h)
{
	struct gate_conn *gc = h->gc;
	unsigned char *ahead = h->ahead;
	size_t n = ahead == NULL ? 0 : h->n_ahead;
	struct gate_stream stream = h->stream;

	h->ahead = NULL;
	h->stream.mux = NULL;
	gate_h1_give_back(h, false);
	gate_tunnel_start(gc, &stream, ahead, n);
	free(ahead);
}

/* A response before the end of the request ends the connection: the rest of the request may never
 * come, or never end. */
static bool
h1_may_stay(const struct gate_h1 *h, const struct http_head *head, bool has_body)
{
	bool until_close = h->version == 10 && has_body && head->length == HTTP_LENGTH_UNKNOWN;

	return h->keep_alive && h->request == REQUEST_DONE && !until_close;
}

static void
h1_write_final(struct gate_h1 *h, struct http_head *head, bool has_body)
{
	struct gate *g = h->gc->gate;

	h->keep_alive = h1_may_stay(h, head, has_body);
	h->is_chunked = has_body && head->length == HTTP_LENGTH_UNKNOWN && h->version == 11;
	if (!has_body && !h->is_head && head->status != 304)
		head->length = 0;
	gate_conn_touch(h->gc);
	buf_reset(&g->text);
	h1_write_head(&g->text, head, (struct h1_style){
		.keep_alive = h->keep_alive, .plain_body = h->version == 10,
		.no_body = h->is_head, .to_http10 = h->version == 10,
	});
	h->answer = has_body ? ANSWER_BODY : ANSWER_DONE;
	if (!gate_conn_write(h->gc, g->text.data, g->text.len))
		return;
	if (!has_body)
		gate_h1_answered(h);
}

static void
h1_write_interim(struct gate_h1 *h, const struct http_head *head)
{
	struct gate *g = h->gc->gate;

	if (head->status == 100)
		h->waits_for_100 = false;
	if (h->version != 11)
		return;
	buf_reset(&g->text);
	h1_write_head(&g->text, head, (struct h1_style){ .keep_alive = true });
	if (gate_conn_write(h->gc, g->text.data, g->text.len) && head->status == 101)
		h1_upgraded(h);
}

static int
h1_on_response(struct gate_h1 *h, struct buf *body)
{
	struct http_head *head = &h->gc->gate->head;
	uint32_t flags;

	if (h->answer != ANSWER_WAIT || buf_get_u32(body, &flags) < 0 ||
	    http_head_decode(body, head, NULL) < 0 || head->status == 0 ||
	    (head->status == 101 && !h->is_upgrade))
		return -EBADMSG;
	if (head->status < 200)
		h1_write_interim(h, head);
	else
		h1_write_final(h, head, (flags & EGRESS_HAS_BODY) != 0);
	return 0;
}

static int
h1_on_end(struct gate_h1 *h, struct buf *body)
{
	struct gate *g = h->gc->gate;
	size_t n;

	if (h->answer != ANSWER_BODY || http_fields_decode(body, g->head.fields, &n, NULL) < 0)
		return -EBADMSG;
	h->answer = ANSWER_DONE;
	if (h->is_chunked) {
		gate_conn_touch(h->gc);
		buf_reset(&g->text);
		h1_write_end(&g->text, g->head.fields, n);
		if (!gate_conn_write(h->gc, g->text.data, g->text.len))
			return 0;
	}
	gate_h1_answered(h);
	return 0;
}

static int
h1_on_reset(struct gate_h1 *h, struct buf *body)
{
	uint32_t why;

	if (buf_get_u32(body, &why) < 0)
		return -EBADMSG;
	gate_stream_forget(&h->stream);
	if (h->answer == ANSWER_DONE)
		gate_conn_finish(h->gc);
	else if (h->answer == ANSWER_WAIT)
		gate_h1_refuse(h, why == EGRESS_RESET_TIMEOUT ? 504 : 502, "the request failed",
		               NULL);
	else
		gate_conn_drop(h->gc, true);
	return 0;
}

static int
h1_frame(void *owner, uint32_t type, struct buf *body)
{
	switch (type) {
	case EGRESS_RESPONSE:
		return h1_on_response(owner, body);
	case EGRESS_END:
		return h1_on_end(owner, body);
	case EGRESS_RESET:
		return h1_on_reset(owner, body);
	default:
		return -EBADMSG;
	}
}

static void
h1_data(void *owner, const unsigned char *data, size_t len)
{
	struct gate_h1 *h = owner;
	struct gate_conn *gc = h->gc;
	char chunk[H1_CHUNK_MAX];

	if (len == 0 || h->answer != ANSWER_BODY)
		return;
	h->unreturned += len;
	gate_conn_touch(gc);
	if (h->is_chunked && !gate_conn_write(gc, chunk, h1_chunk_begin(chunk, len)))
		return;
	if (!gate_conn_write(gc, data, len))
		return;
	if (h->is_chunked && !gate_conn_write(gc, "\r\n", 2))
		return;
	gate_h1_return(h);
}

/* The courier takes bytes again. */
static void
h1_stream_writable(void *owner)
{
	struct gate_h1 *h = owner;
	size_t n;

	if (h->request != REQUEST_BODY)
		return;
	if (h->stuck != NULL) {
		n = mux_send_data(h->stream.mux, h->stuck, h->n_stuck);
		h->n_stuck -= n;
		if (h->n_stuck != 0) {
			memmove(h->stuck, h->stuck + n, h->n_stuck);
			return;
		}
		free(h->stuck);
		h->stuck = NULL;
	}
	gate_h1_feed_ahead(h);
}

const struct gate_stream_handler gate_h1_handler = {
	.frame = h1_frame, .data = h1_data, .writable = h1_stream_writable,
};
