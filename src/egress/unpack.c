/* unpack.c - decompresses responses as they stream, so that they can be searched; at most
 * as much at a time as the gate takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"

size_t
exchange_packed(const struct exchange *ex)
{
	return ex->secrets == NULL ? 0 : buf_left(&ex->secrets->packed);
}

void
exchange_drop_unpack(struct courier *c, struct exchange_secrets *x)
{
	if (x->unpack != NULL)
		c->secrets.n_unpacking--;
	decode_free(TAKE(x->unpack));
	buf_free(&x->packed);
	buf_free(&x->trailers);
}

/* The tag and the digests are of the compressed bytes (RFC 9110, 8.8.3), so they no longer apply. */
static void
fix_head(struct exchange *ex, struct http_head *head)
{
	static const char *const of_bytes[] = { "content-encoding", "content-md5", "content-digest",
	                                        "repr-digest", "digest", "accept-ranges" };
	struct http_text weak;
	char text[256];
	int n, at;

	for (size_t i = 0; i < ARRAY_LEN(of_bytes); i++)
		http_head_drop(head, of_bytes[i]);
	head->length = HTTP_LENGTH_UNKNOWN;
	at = scheme_field_at(head, "etag");
	if (at < 0 || !scheme_begins(head->fields[at].value, "\""))
		return;
	n = snprintf(text, sizeof(text), "W/%.*s", (int)head->fields[at].value.len,
	             head->fields[at].value.at);
	if (n >= (int)sizeof(text) ||
	    scheme_keep(&ex->courier->secrets.scratch, (struct http_text){ text, (size_t)n }, &weak,
	                NULL) < 0)
		http_head_drop(head, "etag");
	else
		head->fields[at].value = weak;
}

bool
exchange_unpack_begin(struct exchange *ex, struct http_head *head, bool has_body,
                      const char **ret_why)
{
	struct exchange_secrets *x = ex->secrets;
	struct http_text coding = http_head_get(head, "content-encoding");
	struct err err = {0};
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += http_text_is(head->fields[i].name, "content-encoding");
	if (n > 1 || http_head_get(head, "sec-websocket-extensions").len > 0) {
		*ret_why = "it is packed in a way that was not asked for, so a secret in it could not be "
		           "seen";
		return false;
	}
	if (head->status == 206) {
		*ret_why = "it is a part of what is packed, in which a secret could not be seen";
		return false;
	}
	if (has_body && ex->courier->secrets.n_unpacking == UNPACKING_MAX) {
		*ret_why = "too many packed answers come at once";
		return false;
	}
	if (has_body && decode_new_pulled(coding, &x->unpack, &err) < 0) {
		snprintf(x->reason, sizeof(x->reason), "it is packed, and %.200s", err.text);
		*ret_why = x->reason;
		return false;
	}
	ex->courier->secrets.n_unpacking += has_body;
	buf_init_secret(&x->packed, COURIER_PENDING_MAX);
	buf_init(&x->trailers, MUX_FRAME_MAX);
	fix_head(ex, head);
	return true;
}

/* Decompress as much of *DATA as the gate takes.  False: it is broken, or cannot be passed on. */
static bool
unpack_some(struct exchange *ex, const unsigned char **data, size_t *len)
{
	struct exchange_secrets *x = ex->secrets;
	const unsigned char *piece;
	struct err err = {0};
	size_t n;

	while (buf_left(&ex->t.pending) == 0) {
		if (decode_pull(x->unpack, data, len, &piece, &n, &err) < 0) {
			snprintf(x->reason, sizeof(x->reason), "%.200s", err.text);
			return false;
		}
		if (n == 0)
			return true;
		if (!exchange_scrub_plain(ex, piece, n))
			return false;
	}
	return true;
}

bool
exchange_unpack(struct exchange *ex, const void *data, size_t len)
{
	struct exchange_secrets *x = ex->secrets;
	const unsigned char *at = data;
	bool ok;

	if (buf_left(&x->packed) > 0) {
		const unsigned char *first = x->packed.data + x->packed.pos;
		size_t left = buf_left(&x->packed);

		ok = unpack_some(ex, &first, &left);
		x->packed.pos = x->packed.len - left;
		if (!ok)
			return false;
		if (left == 0)
			buf_reset(&x->packed);
	}
	if (buf_left(&x->packed) == 0 && !unpack_some(ex, &at, &len))
		return false;
	if (len > COURIER_PENDING_MAX - x->packed.len) {
		snprintf(x->reason, sizeof(x->reason), "too much of it comes at once");
		return false;
	}
	if (len > 0)
		courier_queue(&x->packed, at, len);
	return true;
}

bool
exchange_unpack_end(struct exchange *ex)
{
	struct err err = {0};

	if (decode_finish(ex->secrets->unpack, &err) == 0)
		return true;
	snprintf(ex->secrets->reason, sizeof(ex->secrets->reason), "%.200s", err.text);
	return false;
}
