/* gate_h2.c - HTTP/2 with the agent: the session, its limits, and its bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/gate/gate_h2.h"

/* ---- floods ---- */

/* Whether more frames than allowed came in this second, of a kind that costs its sender nothing. */
static bool
h2_is_flooded(struct gate_h2 *h2, const nghttp2_frame_hd *hd)
{
	uint64_t second = loop_now_ms() / 1000;

	if (second != h2->second) {
		h2->second = second;
		h2->cheap = h2->resets = h2->windows = h2->continuations = 0;
	}
	switch (hd->type) {
	case NGHTTP2_HEADERS:
		return false;
	case NGHTTP2_DATA:
		return hd->length == 0 && (hd->flags & NGHTTP2_FLAG_END_STREAM) == 0 &&
		       ++h2->cheap > H2_CHEAP_MAX;
	case NGHTTP2_RST_STREAM:
		return ++h2->resets > H2_RESETS_MAX;
	case NGHTTP2_WINDOW_UPDATE:
		return ++h2->windows > H2_WINDOWS_MAX;
	case NGHTTP2_CONTINUATION:
		return ++h2->continuations > H2_CONTINUATIONS_MAX;
	default:
		return ++h2->cheap > H2_CHEAP_MAX;
	}
}

static int
h2_on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct gate_h2 *h2 = arg;

	if (!h2_is_flooded(h2, hd))
		return 0;
	gate_note(h2->gc->gate, h2->gc, EGRESS_NOTE_HTTP, 0, "a flood of HTTP/2 frames");
	nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
	h2->is_over = true;
	return NGHTTP2_ERR_CALLBACK_FAILURE;
}

/* ---- receiving ---- */

static void
h2_drop_head(struct gate_h2 *h2)
{
	if (h2->head != NULL)
		gate_h2_head_give_back(h2->gc->gate, h2->head);
	h2->head = NULL;
	h2->is_timed = false;
}

static int
h2_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct gate_h2 *h2 = arg;

	(void)session;
	h2_drop_head(h2);
	h2->head = gate_h2_head_take(h2->gc->gate, frame->headers.cat != NGHTTP2_HCAT_REQUEST);
	h2->head_id = frame->hd.stream_id;
	return h2->head == NULL ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int
h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
             size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct gate_h2 *h2 = arg;

	(void)session;
	(void)frame;
	(void)flags;
	if (h2->head == NULL)
		return 0;
	return gate_h2_head_add(h2->head, (struct http_text){ (const char *)name, name_len },
	                        (struct http_text){ (const char *)value, value_len }) ?
		0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int
h2_take_trailers(struct gate_h2 *h2, struct gate_h2_stream *st)
{
	struct http_field *fields = h2->gc->gate->head.fields;
	int n = gate_h2_head_trailers(h2->head, fields);

	if (n < 0) {
		gate_note(h2->gc->gate, h2->gc, EGRESS_NOTE_HTTP, 0, "the trailers cannot be forwarded");
		return nghttp2_submit_rst_stream(h2->session, NGHTTP2_FLAG_NONE, st->id,
		                                 NGHTTP2_PROTOCOL_ERROR);
	}
	return gate_h2_request_end(st, fields, (size_t)n);
}

static int
h2_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct gate_h2 *h2 = arg;
	struct gate_h2_stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
	bool has_end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	int r = 0;

	if (frame->hd.type == NGHTTP2_HEADERS && h2->head != NULL) {
		if (!h2->head->is_trailers)
			r = gate_h2_request(h2, frame->hd.stream_id, has_end);
		else if (st != NULL && has_end)
			r = h2_take_trailers(h2, st);
		h2_drop_head(h2);
	} else if (frame->hd.type == NGHTTP2_DATA && has_end && st != NULL) {
		r = gate_h2_request_end(st, NULL, 0);
	}
	return r < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

/* The library itself refuses a frame. */
static int
h2_on_invalid(nghttp2_session *session, const nghttp2_frame *frame, int error, void *arg)
{
	struct gate_h2 *h2 = arg;
	char reason[128];

	(void)session;
	(void)frame;
	snprintf(reason, sizeof(reason), "an HTTP/2 frame is invalid: %s",
	         nghttp2_strerror(error));
	gate_note(h2->gc->gate, h2->gc, EGRESS_NOTE_HTTP, 0, reason);
	return 0;
}

/* Newer versions of the library would only leave such a field out. */
static int
h2_on_invalid_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                    size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	(void)arg;
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static int
h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
           void *arg)
{
	struct gate_h2_stream *st = nghttp2_session_get_stream_user_data(session, id);

	(void)flags;
	(void)arg;
	if (st == NULL)
		return nghttp2_session_consume(session, id, len) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
	return gate_h2_request_data(st, data, len) < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int
h2_on_stream_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
	struct gate_h2_stream *st = nghttp2_session_get_stream_user_data(session, id);
	struct gate_h2 *h2 = arg;

	/* The library has found an error in the head. */
	if (h2->head != NULL && h2->head_id == id)
		h2_drop_head(h2);
	if (st != NULL) {
		nghttp2_session_set_stream_user_data(session, id, NULL);
		nghttp2_session_consume_connection(session, st->in.len - st->in.at);
		gate_h2_stream_free(st, error == NGHTTP2_NO_ERROR);
	}
	return 0;
}

static int
h2_on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct gate_h2_stream *st = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)arg;
	if (st != NULL && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 &&
	    (frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS))
		st->is_answered = true;
	return 0;
}

/* ---- callbacks of the connection ---- */

static void
h2_check_idle(struct gate_h2 *h2)
{
	struct gate_conn *gc = h2->gc;

	if (h2->head != NULL && !h2->is_timed) {
		h2->is_timed = true;
		gate_conn_set_late(gc, GATE_HEAD_MS);
	}
	if (h2->n_streams == 0 && !gc->is_idle) {
		gate_conn_set_idle(gc, true);
		if (!h2->is_timed)
			gate_conn_set_late(gc, GATE_IDLE_MS);
	}
}

/* Write the session's output, as long as the connection takes it. */
static void
h2_flush(struct gate_conn *gc)
{
	struct gate_h2 *h2 = gc->state;
	const uint8_t *data;
	ssize_t n = 0;

	while (!conn_is_full(&gc->conn)) {
		n = nghttp2_session_mem_send(h2->session, &data);
		if (n <= 0)
			break;
		if (!gate_conn_write(gc, data, (size_t)n))
			return;
	}
	if (n < 0)
		gate_conn_drop(gc, true);
	else if (h2->is_over || (nghttp2_session_want_read(h2->session) == 0 &&
	                         nghttp2_session_want_write(h2->session) == 0))
		gate_conn_finish(gc);
	else
		h2_check_idle(h2);
}

static void
h2_readable(struct gate_conn *gc)
{
	struct gate_h2 *h2 = gc->state;
	ssize_t n, taken;

	gate_conn_touch(gc);
	for (int i = 0; i < 8; i++) {
		if (mux_is_full(gc->gate->mux)) {
			gate_conn_wait_for_mux(gc);
			return;
		}
		n = conn_read(&gc->conn, gc->gate->in, sizeof(gc->gate->in));
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			gate_conn_drop(gc, n < 0);
			return;
		}
		taken = nghttp2_session_mem_recv(h2->session, gc->gate->in, (size_t)n);
		if (taken != n) {
			if (!h2->is_over)
				gate_note(gc->gate, gc, EGRESS_NOTE_HTTP, 0, "this is not HTTP/2");
			/* Send the library's GOAWAY, if it has one. */
			h2->is_over = true;
			conn_pause_reading(&gc->conn);
			return;
		}
	}
}

static void
h2_writable(struct gate_conn *gc)
{
	struct gate_h2 *h2 = gc->state;

	if (nghttp2_session_want_write(h2->session) != 0)
		gate_conn_touch(gc);
}

static void
h2_late(struct gate_conn *gc)
{
	struct gate_h2 *h2 = gc->state;

	/* The timer is not touched while there are streams. */
	if (h2->n_streams != 0 && !h2->is_timed)
		return;
	nghttp2_session_terminate_session(h2->session, NGHTTP2_NO_ERROR);
	h2->is_over = true;
	gate_conn_touch(gc);
}

static void
h2_ended(struct gate_conn *gc)
{
	struct gate_h2 *h2 = gc->state;

	h2_drop_head(h2);
	nghttp2_session_del(h2->session);
	while (h2->streams != NULL)
		gate_h2_stream_free(h2->streams, false);
	gc->state = NULL;
	free(h2);
}

static const struct gate_protocol h2_protocol = {
	.readable = h2_readable, .writable = h2_writable, .flush = h2_flush,
	.late = h2_late, .ended = h2_ended,
};

/* ---- starting ---- */

static nghttp2_session_callbacks *
h2_callbacks(void)
{
	static nghttp2_session_callbacks *callbacks;

	if (callbacks != NULL || nghttp2_session_callbacks_new(&callbacks) != 0)
		return callbacks;
	nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, h2_on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, h2_on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, h2_on_frame);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, h2_on_invalid);
	nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, h2_on_invalid_field);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, h2_on_sent);
	nghttp2_session_callbacks_set_send_data_callback(callbacks, gate_h2_send_data);
	return callbacks;
}

static int
h2_open_session(struct gate_h2 *h2)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_STREAM_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX },
	};
	nghttp2_session_callbacks *callbacks = h2_callbacks();
	nghttp2_option *option;
	int r;

	if (callbacks == NULL || nghttp2_option_new(&option) != 0)
		return -ENOMEM;
	/* The agent may send more only when the courier has taken the earlier bytes. */
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	r = nghttp2_session_server_new2(&h2->session, callbacks, h2, option);
	nghttp2_option_del(option);
	if (r != 0)
		return -ENOMEM;
	if (nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, ARRAY_LEN(settings)) != 0 ||
	    nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0, H2_WINDOW) != 0)
		return -ENOMEM;
	return 0;
}

int
gate_h2_start(struct gate_conn *gc)
{
	struct gate_h2 *h2 = calloc(1, sizeof(*h2));
	int r;

	if (h2 == NULL)
		return -ENOMEM;
	h2->gc = gc;
	r = h2_open_session(h2);
	if (r < 0) {
		nghttp2_session_del(h2->session);
		free(h2);
		return r;
	}
	gate_conn_use(gc, &h2_protocol, h2);
	gate_conn_set_idle(gc, true);
	gate_conn_set_late(gc, GATE_HEAD_MS);
	gate_conn_touch(gc);
	conn_resume_reading(&gc->conn);
	return 0;
}
