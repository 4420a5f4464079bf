/* h2_answer.c - responses of servers over HTTP/2. */
#include <stdlib.h>
#include <string.h>

#include "upstream/h2_client.h"

static void
h2_lost(struct upstream *up, struct transfer *t, uint32_t code)
{
	struct failure failure;

	h2_unlink(up, t);
	/* RFC 9113, 8.7: the server has not processed the request. */
	if (code == NGHTTP2_REFUSED_STREAM && t->sent == 0 && !t->retried && t->status == 0) {
		pool_retry(t);
		return;
	}
	if (t->answered && t->h2.length != HTTP_LENGTH_UNKNOWN)
		failure_set(&failure, 502, "unreachable", "upstream broke off",
		                    "the server ended the response after %llu of %llu bytes: %s",
		                    (unsigned long long)t->h2.came, (unsigned long long)t->h2.length,
		                    nghttp2_http2_strerror(code));
	else
		failure_set(&failure, 502, "unreachable", "upstream broke off",
		                    "the server ended the request: %s", nghttp2_http2_strerror(code));
	t->owner->fail(t, &failure);
}

static void
h2_refuse(struct upstream *up, struct transfer *t, const char *note)
{
	struct failure failure;

	failure_set(&failure, 502, "protocol", "upstream answers nonsense", "%s", note);
	h2_cancel(up, t);
	t->owner->fail(t, &failure);
}

static void
h2_answered(struct upstream *up, struct transfer *t, const struct http_field *trailers,
            size_t n)
{
	if (!t->answered) {
		h2_refuse(up, t, "the server's answer has no head");
		return;
	}
	h2_unlink(up, t);
	if (!t->sent_all)
		(void)nghttp2_submit_rst_stream(up->h2->session, NGHTTP2_FLAG_NONE, t->h2.id,
		                                NGHTTP2_NO_ERROR);
	t->owner->end(t, trailers, n);
}

static int
h2_begin_block(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct upstream *up = arg;
	struct h2 *h2 = up->h2;

	(void)session;
	h2->reading = h2_find(up, frame->hd.stream_id);
	if (h2->block == NULL)
		h2->block = malloc(sizeof(*h2->block));
	if (h2->block == NULL)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	memset(&h2->block->head, 0, offsetof(struct http_head, fields));
	h2->block->head.n_fields = 0;
	h2->block->head.length = HTTP_LENGTH_UNKNOWN;
	h2->block->has_status = h2->block->is_bad = false;
	h2->block->len = 0;
	return 0;
}

static struct http_text
h2_keep(struct h2_block *block, const uint8_t *text, size_t len)
{
	struct http_text kept = { block->text + block->len, len };

	memcpy(block->text + block->len, text, len);
	block->len += len;
	return kept;
}

static int
h2_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
         size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *arg)
{
	struct h2 *h2 = ((struct upstream *)arg)->h2;
	struct h2_block *block = h2->block;
	struct http_head *head = &block->head;
	struct http_text key = { (const char *)name, name_len };
	struct http_text text = { (const char *)value, value_len };

	(void)session;
	(void)frame;
	(void)flags;
	if (h2->reading == NULL || block->is_bad)
		return 0;
	if (http_text_is(key, ":status")) {
		/* nghttp2 has checked that it is three digits. */
		for (size_t i = 0; i < value_len; i++)
			head->status = (uint16_t)(head->status * 10 + (value[i] - '0'));
		block->has_status = true;
	} else if (http_text_is(key, "content-length")) {
		block->is_bad = http_length_parse(text, &head->length, NULL) < 0;
	} else if (!http_field_is_hop(key)) {
		if (head->n_fields == HTTP_FIELDS_MAX ||
		    name_len + value_len > sizeof(block->text) - block->len) {
			block->is_bad = true;
			return 0;
		}
		head->fields[head->n_fields].name = h2_keep(block, name, name_len);
		head->fields[head->n_fields++].value = h2_keep(block, value, value_len);
	}
	return 0;
}

static void
h2_block_ended(struct upstream *up, bool ends_stream)
{
	struct h2_block *block = up->h2->block;
	struct transfer *t = up->h2->reading;
	struct http_head *head = &block->head;
	bool has_body;

	up->h2->reading = NULL;
	if (block->is_bad || (block->has_status && head->status == 101)) {
		h2_refuse(up, t, head->status == 101 ? "the server changes protocols unasked"
		                                            : "the head of the server's answer is too large");
		return;
	}
	if (!block->has_status) {
		h2_answered(up, t, head->fields, head->n_fields);
		return;
	}
	if (head->status < 200) {
		head->length = 0;
		(void)t->owner->respond(t, head, false);
		return;
	}
	t->h2.length = head->length;
	has_body = !ends_stream && !t->is_head && head->status != 204 && head->status != 304 &&
	           head->length != 0;
	if (!has_body && !t->is_head && (head->status != 304 || head->length == HTTP_LENGTH_UNKNOWN))
		head->length = 0;
	if (t->owner->respond(t, head, has_body) && ends_stream)
		h2_answered(up, t, NULL, 0);
}

static int
h2_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct upstream *up = arg;
	bool ends_stream = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
	struct transfer *t;

	(void)session;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		if (up->h2->reading != NULL) {
			h2_block_ended(up, ends_stream);
			/* The server may have sent a secret value in it. */
			if (up->h2->block != NULL)
				explicit_bzero(up->h2->block->text, up->h2->block->len);
		}
		break;
	case NGHTTP2_DATA:
		t = h2_find(up, frame->hd.stream_id);
		if (t != NULL && ends_stream)
			h2_answered(up, t, NULL, 0);
		break;
	case NGHTTP2_GOAWAY:
		up->h2->goes_away = true;
		break;
	default:
		break;
	}
	return 0;
}

/* LEN bytes of T's response have gone on: give the server credit. */
static void
h2_give_credit(struct upstream *up, struct transfer *t, size_t len)
{
	if (len > 0)
		(void)nghttp2_session_consume(up->h2->session, t->h2.id, len);
}

/* Received bytes that the gate has not taken.  The size of decompressed data is no measure of it. */
static size_t
h2_kept(const struct transfer *t)
{
	return t->owner->kept(t) > 0 ? t->owner->kept(t) : buf_left(&t->pending);
}

static int
h2_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
        void *arg)
{
	struct upstream *up = arg;
	struct transfer *t = h2_find(up, id);
	size_t owed;

	(void)flags;
	if (t == NULL || t->bodiless) {
		(void)nghttp2_session_consume(session, id, len);
		return 0;
	}
	if (!t->answered) {
		(void)nghttp2_session_consume(session, id, len);
		h2_refuse(up, t, "the server's answer has no head");
		return 0;
	}
	t->h2.came += len;
	t->owner->give(t, data, len);
	/* The response may have been refused. */
	if (t->upstream != up) {
		(void)nghttp2_session_consume(session, id, len);
		return 0;
	}
	owed = t->h2.unconsumed + len;
	/* Bytes held back before must not count twice. */
	t->h2.unconsumed = h2_kept(t) < owed ? h2_kept(t) : owed;
	h2_give_credit(up, t, owed - t->h2.unconsumed);
	return 0;
}

void
h2_given(struct upstream *up, struct transfer *t)
{
	size_t kept = h2_kept(t), len = t->h2.unconsumed > kept ? t->h2.unconsumed - kept : 0;

	t->h2.unconsumed -= len;
	h2_give_credit(up, t, len);
	upstream_touch(up);
}

static int
h2_stream_closed(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct upstream *up = arg;
	struct transfer *t = h2_find(up, id);

	(void)session;
	if (t != NULL)
		h2_lost(up, t, code);
	return 0;
}

void
h2_set_answer_callbacks(nghttp2_session_callbacks *callbacks)
{
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, h2_begin_block);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_field);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, h2_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_stream_closed);
}
