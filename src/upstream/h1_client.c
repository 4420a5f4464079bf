/* h1_client.c - HTTP/1.1 to servers: one transfer at a time on a connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "http/h1.h"
#include "upstream/upstream.h"

static void
h1_fail(struct upstream *up, const char *error, const char *note)
{
	struct failure failure;

	failure_set(&failure, 502, "protocol", error, "%s", note);
	upstream_fail(up, &failure);
}

/* ---- the request ---- */

/* With the login for the operator's proxy.  A separate function, because the copy is large. */
__attribute__((noinline)) static void
h1_write_head_for_proxy(struct upstream *up, const struct http_head *head, struct h1_style style)
{
	struct http_head own = *head;

	if (own.n_fields < HTTP_FIELDS_MAX)
		own.fields[own.n_fields++] = (struct http_field){
			{ "proxy-authorization", 19 },
			{ up->proxy->authorization, strlen(up->proxy->authorization) } };
	h1_write_head(&up->pool->out, &own, style);
}

static void
h1_start(struct upstream *up, struct transfer *t)
{
	struct pool *pool = up->pool;
	struct http_head *head = t->owner->head(t);
	struct h1_style style = { .keep_alive = true, .absolute_form = up->is_absolute };
	bool written;

	up->transfer = t;
	up->h1_chunked = head->length == HTTP_LENGTH_UNKNOWN;
	if (up->reader == NULL) {
		up->reader = malloc(sizeof(*up->reader));
		if (up->reader == NULL) {
			h1_fail(up, "upstream unreachable", "there is no memory");
			return;
		}
		h1_reader_init(up->reader, H1_RESPONSES);
	}
	h1_reader_expect(up->reader, t->is_head);
	if (!t->owner->expects(t))
		http_head_drop(head, "expect");
	buf_reset(&pool->out);
	if (up->is_absolute && up->proxy->authorization[0] != '\0')
		h1_write_head_for_proxy(up, head, style);
	else
		h1_write_head(&pool->out, head, style);
	if (buf_failed(&pool->out)) {
		h1_fail(up, "upstream unreachable", "there is no memory");
		return;
	}
	/* The body, as far as it has come, goes into the same packet. */
	if (t->has_body)
		upstream_touch(up);
	written = upstream_write(up, pool->out.data, pool->out.len);
	buf_reset(&pool->out);
	if (!written)
		return;
	if (!t->has_body)
		t->sent_all = true;
	else if (buf_left(&t->body) > 0 || t->came_all)
		upstream_h1.more(up, t);
}

static bool
h1_write_piece(struct upstream *up, const void *data, size_t len)
{
	char begin[H1_CHUNK_MAX];

	upstream_touch(up);
	if (!up->h1_chunked)
		return upstream_write(up, data, len);
	return upstream_write(up, begin, h1_chunk_begin(begin, len)) &&
	       upstream_write(up, data, len) && upstream_write(up, "\r\n", 2);
}

static size_t
h1_send(struct upstream *up, struct transfer *t, const void *data, size_t len)
{
	(void)t;
	if (len == 0 || conn_is_full(&up->conn))
		return 0;
	return h1_write_piece(up, data, len) ? len : 0;
}

static void
h1_write_trailers(struct upstream *up, const struct transfer *t)
{
	struct pool *pool = up->pool;
	struct http_field trailers[HTTP_FIELDS_MAX];
	struct buf encoded;
	size_t n = 0;

	buf_init_borrowed(&encoded, t->trailers.data, t->trailers.len);
	if (t->trailers.len > 0 && http_fields_decode(&encoded, trailers, &n, NULL) < 0)
		n = 0;
	buf_reset(&pool->out);
	h1_write_end(&pool->out, trailers, n);
	(void)upstream_write(up, pool->out.data, pool->out.len);
}

static void
h1_finish_request(struct upstream *up, struct transfer *t)
{
	t->sent_all = true;
	if (up->h1_chunked)
		h1_write_trailers(up, t);
}

static void
h1_more(struct upstream *up, struct transfer *t)
{
	if (upstream_write_held(up, t, h1_write_piece) && t->came_all && t->held_back == 0 && !t->sent_all)
		h1_finish_request(up, t);
}

/* ---- the response ---- */

/* The transfer has its whole response; REST bytes behind it belong to no transfer. */
static void
h1_answered(struct upstream *up, const struct http_field *trailers, size_t n, size_t rest)
{
	struct transfer *t = up->transfer;
	bool keep = up->reader->keep_alive && t->sent_all && rest == 0;

	up->transfer = NULL;
	t->upstream = NULL;
	t->owner->end(t, trailers, n);
	if (up->step != UP_READY)
		return;
	if (keep)
		pool_idle(up);
	else
		upstream_drop(up, false);
}

/* After 101 the connection is no longer HTTP. */
static void
h1_upgraded(struct upstream *up, const unsigned char *rest, size_t len)
{
	struct transfer *t = up->transfer;

	up->kind = &upstream_raw;
	t->sent_all = false;
	t->owner->moved(t, TRANSFER_RAW);
	transfer_touch(t, TRANSFER_RAW_IDLE_S);
	if (len > 0)
		t->owner->give(t, rest, len);
	if (up->step == UP_READY)
		upstream_raw.readable(up);
}

/* False: stop reading. */
static bool
h1_head(struct upstream *up)
{
	struct transfer *t = up->transfer;
	struct http_head *head = &up->reader->head;
	bool has_body;

	if (head->status == 101 && !t->is_upgrade) {
		h1_fail(up, "upstream answers nonsense", "the server changes protocols unasked");
		return false;
	}
	if (head->status == 407 && up->is_absolute) {
		h1_fail(up, "upstream unreachable", "the operator's proxy wants a login (407)");
		return false;
	}
	has_body = head->status >= 200 && !t->is_head && head->status != 204 &&
	           head->status != 304 && head->length != 0;
	if (!t->owner->respond(t, head, has_body)) {
		upstream_drop(up, true);
		return false;
	}
	return up->step == UP_READY;
}

/* Feed bytes to the parser.  Pieces of the body are moved to the beginning of DATA, and *RET_BODY
 * is their length.  If RET_BODY is NULL, they go to the owner at once.  False: the response or
 * the connection is over. */
static bool
h1_feed(struct upstream *up, unsigned char *data, size_t len, size_t *ret_body)
{
	struct transfer *t = up->transfer;
	struct http_text piece;
	struct err err = {0};
	size_t used;

	for (unsigned char *at = data; ; at += used, len -= used) {
		switch (h1_read(up->reader, (char *)at, len, &used, &piece, &err)) {
		case H1_MORE:
			return true;
		case H1_HEAD:
			if (!h1_head(up))
				return false;
			break;
		case H1_BODY:
			if (ret_body == NULL) {
				t->owner->give(t, piece.at, piece.len);
				/* The response may have been refused. */
				if (up->transfer != t || up->step != UP_READY)
					return false;
			} else {
				memmove(data + *ret_body, piece.at, piece.len);
				*ret_body += piece.len;
			}
			break;
		case H1_END:
			if (ret_body != NULL)
				t->owner->commit(t, *ret_body);
			if (t->status == 101)
				h1_upgraded(up, at + used, len - used);
			else
				h1_answered(up, up->reader->head.fields, up->reader->head.n_fields,
				            len - used);
			return false;
		case H1_BAD:
			if (ret_body != NULL)
				t->owner->commit(t, *ret_body);
			h1_fail(up, "upstream answers nonsense", err.text);
			return false;
		}
	}
}

/* The connection has ended.  ERROR is the reason; 0: an orderly end. */
static void
h1_ended(struct upstream *up, int error)
{
	struct failure failure;
	struct err err = {0};

	if (up->transfer == NULL) {
		upstream_drop(up, false);
		return;
	}
	/* Do this first: the reader is freed if this is not the end of the response. */
	upstream_failure(&failure, up, error);
	if (error == 0 && h1_read_eof(up->reader, &err) == H1_END) {
		up->reader->keep_alive = false;
		h1_answered(up, NULL, 0, 0);
		return;
	}
	upstream_fail(up, &failure);
}

/* Read directly into the gate's own buffer, when only body bytes can follow. */
static ssize_t
h1_read_body(struct upstream *up)
{
	struct transfer *t = up->transfer;
	size_t room, body = 0;
	unsigned char *at = t->owner->reserve(t, &room);
	ssize_t n;

	if (at == NULL) {
		conn_pause_reading(&up->conn);
		return -EAGAIN;
	}
	n = conn_read(&up->conn, at, room);
	if (n <= 0) {
		t->owner->commit(t, 0);
		return n;
	}
	if (!h1_feed(up, at, (size_t)n, &body))
		return -EAGAIN;
	t->owner->commit(t, body);
	return n;
}

static void
h1_readable(struct upstream *up)
{
	struct pool *pool = up->pool;
	ssize_t n = 1;
	bool fed;

	while (n > 0 && up->step == UP_READY && up->kind == &upstream_h1) {
		if (up->transfer != NULL && up->transfer->answered &&
		    !up->transfer->owner->is_changed(up->transfer)) {
			n = h1_read_body(up);
			continue;
		}
		if (up->transfer != NULL && (buf_left(&up->transfer->pending) > 0 ||
		                             pool->owner->is_slowed(pool->arg))) {
			conn_pause_reading(&up->conn);
			return;
		}
		n = conn_read(&up->conn, pool->in, sizeof(pool->in));
		if (n <= 0)
			break;
		/* The server sends bytes without a request. */
		if (up->transfer == NULL) {
			upstream_drop(up, true);
			return;
		}
		fed = h1_feed(up, pool->in, (size_t)n, NULL);
		pool_wipe_in(pool, (size_t)n);
		if (!fed)
			return;
	}
	if (n <= 0 && n != -EAGAIN && up->step == UP_READY)
		h1_ended(up, (int)-n);
}

static void
h1_writable(struct upstream *up)
{
	if (up->transfer != NULL && up->transfer->has_body && !up->transfer->sent_all)
		h1_more(up, up->transfer);
}

static void
h1_resume(struct upstream *up, struct transfer *t)
{
	(void)t;
	conn_resume_reading(&up->conn);
	h1_readable(up);
}

/* Whether any byte of a response has come, even an invalid one. */
static bool
has_answered(const struct upstream *up)
{
	return up->reader != NULL && up->reader->text_len > 0;
}

/* The server may close a kept connection just as the request is sent.  If it answered nothing, and
 * repeating the request is safe, another connection is tried. */
static void
h1_broken(struct upstream *up, const struct failure *failure)
{
	struct transfer *t = TAKE(up->transfer);

	if (t == NULL)
		return;
	t->upstream = NULL;
	if (up->n_started > 1 && !has_answered(up) && t->status == 0 && !t->retried && t->sent == 0 &&
	    !http_text_is(t->method, "POST") && !http_text_is(t->method, "PATCH"))
		pool_retry(t);
	else
		t->owner->fail(t, failure);
}

static void
h1_rest(struct upstream *up)
{
	if (up->reader == NULL)
		return;
	h1_reader_free(up->reader);
	free(TAKE(up->reader));
}

const struct upstream_kind upstream_h1 = {
	.start = h1_start, .send = h1_send, .more = h1_more, .resume = h1_resume,
	.cancel = upstream_cancel, .readable = h1_readable, .writable = h1_writable,
	.broken = h1_broken, .rest = h1_rest, .free = h1_rest,
};
