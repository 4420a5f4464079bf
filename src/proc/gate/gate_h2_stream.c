/* gate_h2_stream.c - one request of HTTP/2 and its response. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "http/http_head.h"
#include "proc/gate/gate_h2.h"

/* ---- queues ---- */

static size_t
queue_left(const struct gate_h2_queue *q)
{
	return q->len - q->at;
}

static bool
queue_put(struct gate *g, struct gate_h2_queue *q, const void *data, size_t len)
{
	size_t left = queue_left(q), cap = q->cap > 0 ? q->cap : 4096;
	unsigned char *bigger;

	if (g->held + len > GATE_HELD_MAX)
		return false;
	if (q->len + len > q->cap) {
		if (left > 0)
			memmove(q->data, q->data + q->at, left);
		q->at = 0;
		q->len = left;
		while (cap < left + len)
			cap *= 2;
		bigger = cap == q->cap ? q->data : realloc(q->data, cap);
		if (bigger == NULL)
			return false;
		q->data = bigger;
		q->cap = cap;
	}
	memcpy(q->data + q->len, data, len);
	q->len += len;
	g->held += len;
	return true;
}

static void
queue_take(struct gate *g, struct gate_h2_queue *q, size_t len)
{
	g->held -= len;
	q->at += len;
	if (q->at < q->len)
		return;
	free(q->data);
	*q = (struct gate_h2_queue){0};
}

/* ---- beginning and end ---- */

static struct gate_h2_stream *
stream_new(struct gate_h2 *h2, int32_t id)
{
	struct gate_h2_stream *st = calloc(1, sizeof(*st));

	if (st == NULL)
		return NULL;
	st->h2 = h2;
	st->id = id;
	st->next = h2->streams;
	if (st->next != NULL)
		st->next->prev = st;
	h2->streams = st;
	h2->n_streams++;
	nghttp2_session_set_stream_user_data(h2->session, id, st);
	gate_conn_set_idle(h2->gc, false);
	return st;
}

/* IS_DONE: the agent has the whole response that it wanted. */
void
gate_h2_stream_free(struct gate_h2_stream *st, bool is_done)
{
	struct gate *g = st->h2->gc->gate;

	if (is_done && st->answer_ended && (!st->has_body || st->is_stopped))
		gate_stream_forget(&st->stream);
	gate_stream_reset(&st->stream, EGRESS_RESET_CANCEL);
	if (st->prev != NULL)
		st->prev->next = st->next;
	else
		st->h2->streams = st->next;
	if (st->next != NULL)
		st->next->prev = st->prev;
	st->h2->n_streams--;
	g->held -= queue_left(&st->in) + queue_left(&st->out);
	free(st->in.data);
	free(st->out.data);
	free(st->end);
	free(st->trailers);
	free(st);
}

static void
stream_reset(struct gate_h2_stream *st, uint32_t error)
{
	nghttp2_submit_rst_stream(st->h2->session, NGHTTP2_FLAG_NONE, st->id, error);
	gate_conn_touch(st->h2->gc);
}

/* ---- sending the response ---- */

/* Scratch for the fields passed to the library. */
static nghttp2_nv fields_nv[HTTP_FIELDS_MAX + 2];

/* The library copies the data, but declares it writable. */
static nghttp2_nv
make_nv(struct http_text name, struct http_text value)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name.at, (uint8_t *)(uintptr_t)value.at,
	                     name.len, value.len, NGHTTP2_NV_FLAG_NONE };
}

static int
stream_submit_trailers(struct gate_h2_stream *st, uint32_t *flags)
{
	struct http_field *fields = st->h2->gc->gate->head.fields;
	struct buf trailers;
	size_t n = 0;

	buf_init_borrowed(&trailers, st->trailers, st->n_trailers);
	if (http_fields_decode(&trailers, fields, &n, NULL) < 0 || n == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		fields_nv[i] = make_nv(fields[i].name, fields[i].value);
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return nghttp2_submit_trailer(st->h2->session, st->id, fields_nv, n);
}

static ssize_t
stream_read(nghttp2_session *session, int32_t id, uint8_t *out, size_t length, uint32_t *flags,
            nghttp2_data_source *source, void *arg)
{
	struct gate_h2_stream *st = source->ptr;
	size_t left = queue_left(&st->out), n = left < length ? left : length;

	(void)session;
	(void)id;
	(void)out;
	(void)arg;
	if (left == 0 && !st->answer_ended) {
		st->is_deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	*flags |= NGHTTP2_DATA_FLAG_NO_COPY;
	if (n < left || !st->answer_ended)
		return (ssize_t)n;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (st->trailers != NULL && stream_submit_trailers(st, flags) != 0)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	return (ssize_t)n;
}

int
gate_h2_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
                  size_t length, nghttp2_data_source *source, void *arg)
{
	struct gate_h2 *h2 = arg;
	struct gate_h2_stream *st = source->ptr;

	(void)session;
	(void)frame;                    /* there is no padding */
	if (conn_is_full(&h2->gc->conn))
		return NGHTTP2_ERR_WOULDBLOCK;
	if (conn_write(&h2->gc->conn, header, 9) < 0 ||
	    (length > 0 && conn_write(&h2->gc->conn, st->out.data + st->out.at, length) < 0))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (length == 0)
		return 0;
	queue_take(h2->gc->gate, &st->out, length);
	if (st->stream.mux != NULL && !st->is_local)
		mux_consumed(st->stream.mux, length);
	return 0;
}

static void
stream_resume(struct gate_h2_stream *st)
{
	if (st->is_deferred) {
		st->is_deferred = false;
		nghttp2_session_resume_data(st->h2->session, st->id);
	}
	gate_conn_touch(st->h2->gc);
}

/* ---- heads of responses ---- */

static int
stream_submit(struct gate_h2_stream *st, const struct http_head *head, bool has_body)
{
	nghttp2_data_provider provider = { .source.ptr = st, .read_callback = stream_read };
	nghttp2_nv *nv = fields_nv;
	char status[8], length[24];
	size_t n = 0;

	snprintf(status, sizeof(status), "%u", head->status);
	nv[n++] = make_nv((struct http_text){ ":status", 7 }, (struct http_text){ status, 3 });
	for (size_t i = 0; i < head->n_fields; i++)
		nv[n++] = make_nv(head->fields[i].name, head->fields[i].value);
	if (head->status < 200)
		return nghttp2_submit_headers(st->h2->session, NGHTTP2_FLAG_NONE, st->id, NULL, nv, n, NULL);
	if (head->length != HTTP_LENGTH_UNKNOWN && head->status != 204) {
		int digits = snprintf(length, sizeof(length), "%llu", (unsigned long long)head->length);

		nv[n++] = make_nv((struct http_text){ "content-length", 14 },
		                  (struct http_text){ length, (size_t)digits });
	}
	st->has_answer = true;
	return nghttp2_submit_response(st->h2->session, st->id, nv, n, has_body ? &provider : NULL);
}

/* Send the gate's own response. */
static int
stream_refuse(struct gate_h2_stream *st, uint16_t status, const char *reason)
{
	struct gate *g = st->h2->gc->gate;

	g->head = (struct http_head){ .status = status, .n_fields = 2 };
	g->head.fields[0] = (struct http_field){ { "content-type", 12 }, { "application/json", 16 } };
	g->head.fields[1] = (struct http_field){ { "x-cloister-verdict", 18 }, { "deny", 4 } };
	gate_request_refusal(st->h2->gc, status, reason, NULL);
	g->head.length = g->text.len;
	st->is_local = st->is_stopped = st->answer_ended = true;
	gate_note(g, st->h2->gc, EGRESS_NOTE_HTTP, status, reason);
	if (!queue_put(g, &st->out, g->text.data, g->text.len))
		return -ENOMEM;
	return stream_submit(st, &g->head, true) == 0 ? 0 : -ENOMEM;
}

/* ---- the courier's response ---- */

static int
stream_on_response(struct gate_h2_stream *st, struct buf *body)
{
	struct http_head *head = &st->h2->gc->gate->head;
	bool has_body;
	uint32_t flags;

	if (st->has_answer || buf_get_u32(body, &flags) < 0 ||
	    http_head_decode(body, head, NULL) < 0 || head->status < 100 || head->status == 101)
		return -EBADMSG;
	has_body = (flags & EGRESS_HAS_BODY) != 0;
	if (head->status >= 200 && !has_body)
		st->answer_ended = true;
	if (stream_submit(st, head, has_body) != 0)
		stream_reset(st, NGHTTP2_INTERNAL_ERROR);
	gate_conn_touch(st->h2->gc);
	return 0;
}

static int
stream_on_end(struct gate_h2_stream *st, struct buf *body)
{
	if (!st->has_answer || st->answer_ended)
		return -EBADMSG;
	st->answer_ended = true;
	st->n_trailers = buf_left(body);
	/* An empty list is a count of four bytes. */
	if (st->n_trailers > 4) {
		st->trailers = malloc(st->n_trailers);
		if (st->trailers == NULL)
			stream_reset(st, NGHTTP2_INTERNAL_ERROR);
		else
			memcpy(st->trailers, body->data + body->pos, st->n_trailers);
	}
	stream_resume(st);
	return 0;
}

static int
stream_on_reset(struct gate_h2_stream *st, struct buf *body)
{
	static const uint32_t errors[] = {
		[EGRESS_RESET_CANCEL] = NGHTTP2_CANCEL,
		[EGRESS_RESET_UPSTREAM] = NGHTTP2_INTERNAL_ERROR,
		[EGRESS_RESET_POLICY] = NGHTTP2_INTERNAL_ERROR,
		[EGRESS_RESET_TIMEOUT] = NGHTTP2_CANCEL,
		[EGRESS_RESET_PROTOCOL] = NGHTTP2_PROTOCOL_ERROR,
	};
	uint32_t why;

	if (buf_get_u32(body, &why) < 0 || why > EGRESS_RESET_DONE)
		return -EBADMSG;
	gate_stream_forget(&st->stream);
	st->is_stopped = true;
	if (why != EGRESS_RESET_DONE)
		stream_reset(st, errors[why]);
	else if (!st->answer_ended)
		return -EBADMSG;
	return 0;
}

static int
stream_frame(void *owner, uint32_t type, struct buf *body)
{
	switch (type) {
	case EGRESS_RESPONSE:
		return stream_on_response(owner, body);
	case EGRESS_END:
		return stream_on_end(owner, body);
	case EGRESS_RESET:
		return stream_on_reset(owner, body);
	default:
		return -EBADMSG;
	}
}

static void
stream_data(void *owner, const unsigned char *data, size_t len)
{
	struct gate_h2_stream *st = owner;

	if (!queue_put(st->h2->gc->gate, &st->out, data, len))
		stream_reset(st, NGHTTP2_ENHANCE_YOUR_CALM);
	else
		stream_resume(st);
}

/* ---- the request ---- */

static int
stream_send_end(struct gate_h2_stream *st)
{
	struct gate *g = st->h2->gc->gate;

	buf_reset(&g->frame);
	buf_put(&g->frame, st->end, st->n_end);
	mux_send(g->mux, st->stream.mux->id, EGRESS_END, &g->frame);
	st->has_body = false;
	return 0;
}

static void
stream_writable(void *owner)
{
	struct gate_h2_stream *st = owner;
	size_t n = queue_left(&st->in);

	if (n == 0)
		return;
	n = mux_send_data(st->stream.mux, st->in.data + st->in.at, n);
	if (n > 0) {
		queue_take(st->h2->gc->gate, &st->in, n);
		nghttp2_session_consume(st->h2->session, st->id, n);
		gate_conn_touch(st->h2->gc);
	}
	if (queue_left(&st->in) == 0 && st->end != NULL)
		stream_send_end(st);
}

static const struct gate_stream_handler stream_handler = {
	.frame = stream_frame, .data = stream_data, .writable = stream_writable,
};

int
gate_h2_request(struct gate_h2 *h2, int32_t id, bool has_end)
{
	struct gate_h2_stream *st = stream_new(h2, id);
	struct gate_conn *gc = h2->gc;
	struct http_head *head = &gc->gate->head;
	struct err err = {0};
	uint16_t status;

	if (st == NULL)
		return -ENOMEM;
	status = gate_h2_head_finish(h2->head, gc, has_end, head, &err);
	if (status != 0)
		return stream_refuse(st, status, err.text);
	if (!gate_stream_open(gc->gate, &st->stream, &stream_handler, st)) {
		stream_reset(st, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	st->has_body = head->length != 0;
	gate_request_send(gc, &st->stream, 20, head);
	return 0;
}

/* RFC 9113, 8.1: an answered request may be reset with NO_ERROR.  Clients that are still sending,
 * such as curl before 8.0, treat that as a failure, so the reset is delayed. */
static void
stream_swallow(struct gate_h2_stream *st, size_t len)
{
	st->unwanted += len;
	if (st->unwanted > H2_UNWANTED_MAX && st->is_answered)
		stream_reset(st, NGHTTP2_NO_ERROR);
}

int
gate_h2_request_data(struct gate_h2_stream *st, const unsigned char *data, size_t len)
{
	nghttp2_session *session = st->h2->session;
	size_t n = len;

	if (st->stream.mux == NULL || st->is_stopped)
		stream_swallow(st, len);
	else
		n = queue_left(&st->in) > 0 ? 0 : mux_send_data(st->stream.mux, data, len);
	if (n > 0 && nghttp2_session_consume(session, st->id, n) != 0)
		return -ENOMEM;
	if (n < len && !queue_put(st->h2->gc->gate, &st->in, data + n, len - n)) {
		/* These bytes are discarded; they must not block the connection's window. */
		nghttp2_session_consume_connection(session, len - n);
		stream_reset(st, NGHTTP2_ENHANCE_YOUR_CALM);
	}
	return 0;
}

int
gate_h2_request_end(struct gate_h2_stream *st, const struct http_field *trailers, size_t n)
{
	struct gate *g = st->h2->gc->gate;

	if (!st->has_body || st->stream.mux == NULL || st->is_stopped)
		return 0;
	if (queue_left(&st->in) == 0) {
		gate_stream_end(g, &st->stream, trailers, n);
		st->has_body = false;
		return 0;
	}
	buf_reset(&g->frame);
	http_fields_encode(&g->frame, trailers, n);
	st->end = malloc(g->frame.len);
	if (st->end == NULL)
		return -ENOMEM;
	memcpy(st->end, g->frame.data, g->frame.len);
	st->n_end = g->frame.len;
	return 0;
}
