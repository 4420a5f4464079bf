/* h2_client.c - HTTP/2 to servers, through nghttp2: many transfers on a connection.
 *
 * A server gets as much credit as the gate will take.  So neither a slow agent nor a fast server
 * makes us hold more than H2_WINDOW of a response. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "upstream/h2_client.h"

#define H2_WINDOW (1024 * 1024)         /* of one response; below COURIER_PENDING_MAX */
#define H2_WINDOW_ALL (4 * 1024 * 1024) /* of all responses on a connection */
#define H2_STREAMS_MAX 200              /* at once, if the server permits as many */

/* ---- transfers of a connection ---- */

struct transfer *
h2_find(const struct upstream *up, int32_t id)
{
	struct transfer *t = up->transfer;

	while (t != NULL && t->h2.id != id)
		t = t->conn_next;
	return t;
}

void
h2_unlink(struct upstream *up, struct transfer *t)
{
	struct h2 *h2 = up->h2;
	struct transfer **at = &up->transfer;

	while (*at != t)
		at = &(*at)->conn_next;
	*at = t->conn_next;
	t->upstream = NULL;
	if (h2->reading == t)
		h2->reading = NULL;
	/* Bytes that the gate has not taken no longer count against the connection. */
	if (t->h2.unconsumed > 0)
		(void)nghttp2_session_consume_connection(h2->session, t->h2.unconsumed);
	t->h2.unconsumed = 0;
	if (--h2->n == 0)
		up->idle_since_s = up->pool->now_s;
}

size_t
h2_room(const struct upstream *up)
{
	const struct h2 *h2 = up->h2;
	uint32_t max = nghttp2_session_get_remote_settings(h2->session,
	                                                   NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	if (max > H2_STREAMS_MAX)
		max = H2_STREAMS_MAX;
	if (h2->goes_away || up->step != UP_READY || h2->n >= max ||
	    nghttp2_session_check_request_allowed(h2->session) == 0)
		return 0;
	return max - h2->n;
}

/* ---- the request ---- */

static nghttp2_nv
h2_pair(const char *name, size_t name_len, const char *value, size_t value_len)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, name_len,
	                     value_len, NGHTTP2_NV_FLAG_NONE };
}

static size_t
h2_put_fields(nghttp2_nv *nva, const struct http_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		nva[i] = h2_pair(fields[i].name.at, fields[i].name.len, fields[i].value.at,
		                 fields[i].value.len);
	return n;
}

static int
h2_submit_trailers(struct upstream *up, struct transfer *t)
{
	struct http_field fields[HTTP_FIELDS_MAX];
	nghttp2_nv nva[HTTP_FIELDS_MAX];
	struct buf encoded;
	size_t n;

	buf_init_borrowed(&encoded, t->trailers.data, t->trailers.len);
	if (http_fields_decode(&encoded, fields, &n, NULL) < 0)
		return -EBADMSG;
	return nghttp2_submit_trailer(up->h2->session, t->h2.id, nva,
	                              h2_put_fields(nva, fields, n));
}

static ssize_t
h2_read_body(nghttp2_session *session, int32_t id, uint8_t *data, size_t len, uint32_t *flags,
             nghttp2_data_source *source, void *arg)
{
	struct upstream *up = arg;
	struct transfer *t = h2_find(up, id);
	size_t n;

	(void)session;
	(void)source;
	if (t == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	n = buf_left(&t->body) < len ? buf_left(&t->body) : len;
	if (n > 0) {
		memcpy(data, t->body.data + t->body.pos, n);
		t->owner->took(t, n);
	}
	if (t->came_all && t->held_back == 0 && buf_left(&t->body) == 0) {
		t->sent_all = true;
		*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (t->trailers.len > 0 && h2_submit_trailers(up, t) == 0)
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	} else if (n == 0) {
		t->h2.deferred = true;
		return NGHTTP2_ERR_DEFERRED;
	}
	return (ssize_t)n;
}

/* Write the pseudo-fields and others that are not in the head's list.  Returns their number. */
static size_t
h2_put_special(nghttp2_nv *nva, const struct transfer *t, const struct http_head *head,
               char authority[HTTP_HOST_MAX + 8], char length[24])
{
	bool is_default = head->port == (head->scheme == HTTP_TLS ? 443 : 80);
	size_t n = 0;
	int len;

	nva[n++] = h2_pair(":method", 7, head->method.at, head->method.len);
	nva[n++] = h2_pair(":scheme", 7, head->scheme == HTTP_TLS ? "https" : "http",
	                   head->scheme == HTTP_TLS ? 5 : 4);
	len = is_default ? snprintf(authority, HTTP_HOST_MAX + 8, "%s", t->host)
	                 : snprintf(authority, HTTP_HOST_MAX + 8, "%s:%u", t->host, t->port);
	nva[n++] = h2_pair(":authority", 10, authority, (size_t)len);
	nva[n++] = h2_pair(":path", 5, head->path.at, head->path.len);
	if (http_head_has_length(head)) {
		len = snprintf(length, 24, "%llu", (unsigned long long)head->length);
		nva[n++] = h2_pair("content-length", 14, length, (size_t)len);
	}
	return n;
}

static void
h2_start(struct upstream *up, struct transfer *t)
{
	struct http_head *head = t->owner->head(t);
	nghttp2_data_provider provider = { .read_callback = h2_read_body };
	nghttp2_nv nva[HTTP_FIELDS_MAX + 5];
	char authority[HTTP_HOST_MAX + 8], length[24];
	struct failure failure;
	size_t n = h2_put_special(nva, t, head, authority, length);

	for (size_t i = 0; i < head->n_fields; i++)
		if (t->owner->expects(t) || !http_text_is(head->fields[i].name, "expect"))
			n += h2_put_fields(nva + n, &head->fields[i], 1);
	/* The dynamic table would keep secret values. */
	for (size_t i = 0; t->owner->is_changed(t) && i < n; i++)
		nva[i].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
	t->h2.unconsumed = 0;
	t->h2.length = HTTP_LENGTH_UNKNOWN;
	t->h2.came = 0;
	t->h2.deferred = false;
	t->sent_all = !t->has_body;
	t->h2.id = nghttp2_submit_request(up->h2->session, NULL, nva, n,
	                                   t->has_body ? &provider : NULL, NULL);
	/* Reading may have been paused for earlier transfers. */
	conn_resume_reading(&up->conn);
	t->conn_next = up->transfer;
	up->transfer = t;
	up->h2->n++;
	if (t->h2.id < 0) {
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "the request cannot be sent: %s", nghttp2_strerror(t->h2.id));
		h2_unlink(up, t);
		t->owner->fail(t, &failure);
		return;
	}
	upstream_touch(up);
}

static void
h2_more(struct upstream *up, struct transfer *t)
{
	if (!t->h2.deferred)
		return;
	t->h2.deferred = false;
	(void)nghttp2_session_resume_data(up->h2->session, t->h2.id);
	upstream_touch(up);
}

void
h2_cancel(struct upstream *up, struct transfer *t)
{
	h2_unlink(up, t);
	(void)nghttp2_submit_rst_stream(up->h2->session, NGHTTP2_FLAG_NONE, t->h2.id,
	                                NGHTTP2_CANCEL);
	upstream_touch(up);
}

/* ---- memory ---- */

/* nghttp2 copies heads, and frees the copies without overwriting them. */
struct h2_memory {
	_Alignas(max_align_t) size_t len;
	unsigned char data[];
};

static struct h2_memory *
h2_memory_of(void *data)
{
	return (struct h2_memory *)(void *)((unsigned char *)data - offsetof(struct h2_memory, data));
}

static void *
h2_calloc(size_t n, size_t size, void *arg)
{
	struct h2_memory *m;
	size_t len, all;

	(void)arg;
	if (__builtin_mul_overflow(n, size, &len) || __builtin_add_overflow(len, sizeof(*m), &all) ||
	    (m = calloc(1, all)) == NULL)
		return NULL;
	m->len = len;
	return m->data;
}

static void *
h2_malloc(size_t len, void *arg)
{
	struct h2_memory *m;
	size_t all;

	(void)arg;
	if (__builtin_add_overflow(len, sizeof(*m), &all) || (m = malloc(all)) == NULL)
		return NULL;
	m->len = len;
	return m->data;
}

static void
h2_wipe_free(void *data, void *arg)
{
	struct h2_memory *m;

	(void)arg;
	if (data == NULL)
		return;
	m = h2_memory_of(data);
	explicit_bzero(m->data, m->len);
	free(m);
}

static void *
h2_realloc(void *data, size_t len, void *arg)
{
	size_t old = data == NULL ? 0 : h2_memory_of(data)->len;
	void *grown = h2_malloc(len, arg);

	if (grown == NULL || data == NULL)
		return grown;
	memcpy(grown, data, old < len ? old : len);
	h2_wipe_free(data, arg);
	return grown;
}

/* ---- the connection ---- */

static nghttp2_session_callbacks *
h2_callbacks(void)
{
	static nghttp2_session_callbacks *callbacks;

	if (callbacks == NULL && nghttp2_session_callbacks_new(&callbacks) == 0)
		h2_set_answer_callbacks(callbacks);
	return callbacks;
}

int
h2_begin(struct upstream *up)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, H2_WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HTTP_HEAD_MAX },
		/* The last one only if there are secrets: the table of the server's fields would
		 * keep them. */
		{ NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0 },
	};
	struct h2 *h2 = calloc(1, sizeof(*h2));
	nghttp2_mem memory = { NULL, h2_malloc, h2_wipe_free, h2_calloc, h2_realloc };
	nghttp2_option *option = NULL;
	int r = -1;

	up->h2 = h2;
	if (h2 == NULL || h2_callbacks() == NULL || nghttp2_option_new(&option) != 0)
		return -ENOMEM;
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	r = nghttp2_session_client_new3(&h2->session, h2_callbacks(), up, option, &memory);
	nghttp2_option_del(option);
	if (r != 0 ||
	    nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings,
	                            ARRAY_LEN(settings) - !up->pool->owner->has_secrets(up->pool->arg)) != 0 ||
	    nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
	                                          H2_WINDOW_ALL) != 0)
		return -ENOMEM;
	conn_resume_reading(&up->conn);
	upstream_touch(up);
	return 0;
}

static void
h2_fail(struct upstream *up, const char *note)
{
	struct failure failure;

	failure_set(&failure, 502, "protocol", "upstream broke off", "%s", note);
	upstream_fail(up, &failure);
}

/* A sent frame stays in nghttp2's own buffer until the next one of its size.  The first bytes that
 * it sends are a constant. */
static void
wipe_sent(const struct pool *pool, const uint8_t *data, size_t len)
{
	if (pool->owner->has_secrets(pool->arg) &&
	    !(len == NGHTTP2_CLIENT_MAGIC_LEN && memcmp(data, NGHTTP2_CLIENT_MAGIC, len) == 0))
		explicit_bzero((void *)(uintptr_t)data, len);
}

static void
h2_flush(struct upstream *up)
{
	const uint8_t *data;
	bool written;
	ssize_t n;

	while (up->step == UP_READY && !conn_is_full(&up->conn)) {
		n = nghttp2_session_mem_send(up->h2->session, &data);
		if (n < 0) {
			h2_fail(up, nghttp2_strerror((int)n));
			return;
		}
		if (n == 0)
			break;
		written = upstream_write(up, data, (size_t)n);
		wipe_sent(up->pool, data, (size_t)n);
		if (!written)
			return;
	}
	/* nghttp2 has sent GOAWAY to a server that violated the protocol. */
	if (up->step == UP_READY && !nghttp2_session_want_read(up->h2->session) &&
	    !nghttp2_session_want_write(up->h2->session)) {
		conn_uncork(&up->conn);
		h2_fail(up, "the server does not keep to HTTP/2");
	}
}

static void
h2_readable(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct failure failure;
	struct origin *origin = up->origin;
	ssize_t n, r;

	while (up->step == UP_READY && (n = conn_read(&up->conn, pool->in, sizeof(pool->in))) != -EAGAIN) {
		if (n <= 0) {
			upstream_failure(&failure, up, (int)-n);
			upstream_fail(up, &failure);
			return;
		}
		r = nghttp2_session_mem_recv(up->h2->session, pool->in, (size_t)n);
		pool_wipe_in(pool, (size_t)n);
		if (r < 0) {
			h2_flush(up);
			h2_fail(up, nghttp2_strerror((int)r));
			return;
		}
		upstream_touch(up);
		/* The gate is behind: other streams go first. */
		if (pool->owner->is_behind(pool->arg) ||
		    (up->h2->n > 0 && pool->owner->is_slowed(pool->arg))) {
			conn_pause_reading(&up->conn);
			break;
		}
	}
	if (up->step != UP_READY)
		return;
	if (up->h2->n == 0 && up->h2->goes_away)
		upstream_drop(up, false);
	pool_serve(origin);
}

static void
h2_resume(struct upstream *up, struct transfer *t)
{
	(void)t;
	conn_resume_reading(&up->conn);
}

static void
h2_writable(struct upstream *up)
{
	upstream_touch(up);
}

/* Fail T with the connection's FAILURE, and add how much of the response came. */
static void
h2_fail_transfer(struct transfer *t, const struct failure *failure)
{
	struct failure own;

	if (!t->answered || t->h2.length == HTTP_LENGTH_UNKNOWN) {
		t->owner->fail(t, failure);
		return;
	}
	failure_set(&own, failure->status, failure->why, failure->error,
	                    "%.300s (after %llu of %llu bytes)", failure->note,
	                    (unsigned long long)t->h2.came, (unsigned long long)t->h2.length);
	t->owner->fail(t, &own);
}

static void
h2_broken(struct upstream *up, const struct failure *failure)
{
	struct transfer *t;

	while ((t = up->transfer) != NULL) {
		h2_unlink(up, t);
		if (up->n_started > 1 && t->status == 0 && !t->retried && t->sent == 0 &&
		    !http_text_is(t->method, "POST") && !http_text_is(t->method, "PATCH"))
			pool_retry(t);
		else
			h2_fail_transfer(t, failure);
	}
}

static void
h2_rest(struct upstream *up)
{
	if (up->h2->reading == NULL && up->h2->n == 0)
		free(TAKE(up->h2->block));
}

static void
h2_free(struct upstream *up)
{
	if (up->h2 == NULL)
		return;
	nghttp2_session_del(up->h2->session);
	free(up->h2->block);
	free(TAKE(up->h2));
}

const struct upstream_kind upstream_h2 = {
	.start = h2_start, .send = upstream_send_later, .more = h2_more, .resume = h2_resume,
	.given = h2_given, .cancel = h2_cancel, .readable = h2_readable, .writable = h2_writable,
	.broken = h2_broken, .flush = h2_flush, .rest = h2_rest, .free = h2_free,
};
