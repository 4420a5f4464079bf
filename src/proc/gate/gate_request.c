/* gate_request.c - completes requests for the courier, and writes the gate's own refusals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "http/h1.h"
#include "proc/gate/gate.h"

/* The courier refuses and records a request, or a handshake, for another name than the
 * connection's.  Here the two names are compared with each other, because two mismatches could
 * cancel out. */
static uint16_t
request_check_sni(const struct gate_conn *gc, const struct http_head *head, struct err *err)
{
	if (gc->sni[0] == '\0' || http_text_is(head->host, gc->sni) ||
	    !http_text_is(head->host, gc->name))
		return 0;
	err_set(err, EPERM, "the name in the TLS handshake, '%s', is a different one", gc->sni);
	return 403;
}

static enum http_scheme
request_scheme(const struct gate_conn *gc)
{
	return gc->conn.ssl != NULL ? HTTP_TLS : HTTP_PLAIN;
}

/* The host of a request that names none: the connection's. */
static struct http_text
request_host(const struct gate_conn *gc)
{
	struct gate *g = gc->gate;

	if (gc->name[0] != '\0')
		return (struct http_text){ gc->name, strlen(gc->name) };
	snprintf(g->literal, sizeof(g->literal), strchr(gc->address, ':') != NULL ? "[%s]" : "%s",
	         gc->address);
	return (struct http_text){ g->literal, strlen(g->literal) };
}

uint16_t
gate_request_complete(struct gate_conn *gc, struct http_head *head, bool is_absolute,
                      struct err *err)
{
	if (!gc->is_proxy && is_absolute && head->scheme != request_scheme(gc)) {
		err_set(err, EBADMSG, "the target's scheme differs from the connection's");
		return 400;
	}
	if (!is_absolute)
		head->scheme = request_scheme(gc);
	if (head->host.len == 0)
		head->host = request_host(gc);
	if (head->port == 0 && (is_absolute || gc->is_proxy))
		head->port = head->scheme == HTTP_TLS ? 443 : 80;
	else if (head->port == 0)
		head->port = gc->port;
	if (http_head_check(head, err) < 0)
		return 400;
	if (gc->is_proxy)
		gate_set_host(gc, head->host.at, head->host.len, head->port);
	return request_check_sni(gc, head, err);
}

void
gate_request_send(struct gate_conn *gc, struct gate_stream *s, uint32_t version,
                  const struct http_head *head)
{
	struct gate *g = gc->gate;

	buf_reset(&g->frame);
	buf_put_str(&g->frame, gc->name);
	buf_put_str(&g->frame, gc->address);
	buf_put_u32(&g->frame, gc->port);
	buf_put_u32(&g->frame, EGRESS_FROM(gc->via, gc->from));
	buf_put_u32(&g->frame, version);
	buf_put_u32(&g->frame, (head->length != 0 ? EGRESS_HAS_BODY : 0) |
	                       (gc->has_key ? EGRESS_HAS_KEY : 0));
	if (gc->has_key)
		buf_put(&g->frame, gc->key, EGRESS_KEY);
	http_head_encode(&g->frame, head);
	mux_send(g->mux, s->mux->id, EGRESS_REQUEST, &g->frame);
}

void
gate_note(struct gate *g, const struct gate_conn *gc, enum egress_note kind, uint16_t status,
          const char *reason)
{
	char shown[EGRESS_REASON_MAX];

	/* The next note counts for this one too. */
	if (mux_is_full(g->mux)) {
		g->unnoted += g->unnoted < UINT32_MAX - 1;
		return;
	}
	snprintf(shown, sizeof(shown), "%s", reason);
	buf_reset(&g->frame);
	buf_put_u32(&g->frame, kind);
	buf_put_u32(&g->frame, 1 + g->unnoted);
	buf_put_u32(&g->frame, gc == NULL ? EGRESS_TRANSPARENT : gc->via);
	buf_put_str(&g->frame, gc == NULL ? "" : gc->name);
	buf_put_str(&g->frame, gc == NULL ? "" : gc->address);
	buf_put_u32(&g->frame, gc == NULL ? 0 : gc->port);
	buf_put_u32(&g->frame, status);
	buf_put_str(&g->frame, shown);
	g->unnoted = 0;
	mux_send(g->mux, 0, EGRESS_NOTE, &g->frame);
	/* Before the client knows: it may end its cell, and the gate with it. */
	mux_flush(g->mux);
}

/* The hint for a refusal by the gate itself. */
static const char *
hint_for(uint16_t status)
{
	switch (status) {
	case 403:
		return "Connect to the host that the request is for.";
	case 417:
		return "Send it without an expect field.";
	case 431:
		return "Send fewer or shorter fields.";
	case 501:
		return "Send the body with a content-length, or only chunked.";
	case 505:
		return "Use HTTP/2 or HTTP/1.1.";
	default:
		return status >= 500 ? "Try again later." : "Send it in its plain form.";
	}
}

static void
put_member(struct buf *b, const char *key, const char *value)
{
	buf_put_text(b, key);
	if (value[0] == '\0') {
		buf_put(b, "null", 4);
		return;
	}
	buf_put(b, "\"", 1);
	for (; *value != '\0'; value++) {
		unsigned char c = (unsigned char)*value;

		/* The text may quote bytes of the agent. */
		if (c == '"' || c == '\\')
			buf_put(b, "\\", 1);
		buf_put(b, c < 0x20 || c > 0x7e ? "?" : value, 1);
	}
	buf_put(b, "\"", 1);
}

/* "https://api.github.com": the rest may not be readable. */
static void
put_what(struct buf *b, const struct gate_conn *gc)
{
	enum http_scheme scheme = request_scheme(gc);
	struct http_text host = request_host(gc);
	char what[HTTP_HOST_MAX + 32] = "";

	if (gc->owes == GATE_OWES_CONNECT)
		snprintf(what, sizeof(what), "CONNECT %s:%u", host.at, gc->port);
	else if (host.len > 0 && gc->port == (scheme == HTTP_TLS ? 443 : 80))
		snprintf(what, sizeof(what), "%s://%s", scheme == HTTP_TLS ? "https" : "http", host.at);
	else if (host.len > 0)
		snprintf(what, sizeof(what), "%s://%s:%u", scheme == HTTP_TLS ? "https" : "http", host.at,
		         gc->port);
	put_member(b, ",\"what\":", what);
}

void
gate_request_refusal(const struct gate_conn *gc, uint16_t status, const char *reason,
                     const char *hint)
{
	struct buf *b = &gc->gate->text;

	buf_reset(b);
	put_member(b, "{\"error\":", "refused by cloister");
	put_what(b, gc);
	put_member(b, ",\"reason\":", reason);
	put_member(b, ",\"hint\":", hint != NULL ? hint : hint_for(status));
	buf_put(b, "}\n", 2);
}

void
gate_request_refusal_h1(const struct gate_conn *gc, uint16_t status, const char *reason,
                        const char *hint)
{
	struct gate *g = gc->gate;
	struct http_head head = {
		.status = status, .n_fields = 2,
		.fields = { { { "content-type", 12 }, { "application/json", 16 } },
		            { { "x-cloister-verdict", 18 }, { "deny", 4 } } },
	};
	struct buf body;

	gate_request_refusal(gc, status, reason, hint);
	body = g->text;
	buf_init(&g->text, body.max);
	head.length = body.len;
	h1_write_head(&g->text, &head, (struct h1_style){ .keep_alive = false });
	buf_put(&g->text, body.data, body.len);
	buf_free(&body);
}
