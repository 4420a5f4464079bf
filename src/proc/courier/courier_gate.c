/* courier_gate.c - handles messages of the gate.
 *
 * The gate may be compromised: any invalid message ends the channel, and the courier with it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "egress/courier.h"
#include "proc/courier/courier_gate.h"

static int
take_resolve(struct courier *c, uint32_t id, struct buf *body)
{
	char host[HTTP_HOST_MAX + 1];
	const char *name;
	uint32_t type;
	uint16_t port;

	if (buf_get_str(body, &name) < 0 || buf_get_u32(body, &type) < 0 || buf_left(body) != 0 ||
	    strlen(name) > HTTP_HOST_MAX)
		return -EBADMSG;
	/* Programs look up all kinds of names; a name that is not a valid host has no address. */
	if (http_authority_parse((struct http_text){ name, strlen(name) }, host, &port, NULL) < 0 ||
	    strcmp(host, name) != 0)
		host[0] = '\0';
	courier_resolve_name(c, id, name, host[0] != '\0');
	return 0;
}

/* Either NAME is a canonical name or ADDRESS is an address, not both.  The host is copied out as it
 * is written in URLs. */
static int
take_host(const char *name, const char *address, char ret_host[HTTP_HOST_MAX + 1])
{
	struct address a;
	uint16_t port;
	char text[ADDRESS_TEXT_MAX];

	if ((name[0] == '\0') == (address[0] == '\0'))
		return -EBADMSG;
	if (name[0] != '\0') {
		if (http_authority_parse((struct http_text){ name, strlen(name) }, ret_host, &port,
		                         NULL) < 0 || port != 0 || strcmp(ret_host, name) != 0 ||
		    address_parse(name, &a))
			return -EBADMSG;
		return 0;
	}
	if (!address_parse(address, &a) || strcmp(address_format(&a, text), address) != 0)
		return -EBADMSG;
	snprintf(ret_host, HTTP_HOST_MAX + 1, a.family == AF_INET6 ? "[%s]" : "%s", text);
	return 0;
}

static int
take_route(struct courier *c, uint32_t id, struct buf *body)
{
	const char *name, *address, *sni;
	uint32_t via, port, looks;
	struct exchange *ex;

	if (buf_get_u32(body, &via) < 0 || buf_get_str(body, &name) < 0 ||
	    buf_get_str(body, &address) < 0 || buf_get_u32(body, &port) < 0 ||
	    buf_get_u32(body, &looks) < 0 || buf_get_str(body, &sni) < 0 || buf_left(body) != 0 ||
	    EGRESS_FROM_VIA(via) > EGRESS_SOCKS || looks > EGRESS_LOOKS_OTHER || port == 0 || port > 65535 ||
	    strlen(sni) > HTTP_HOST_MAX)
		return -EBADMSG;
	ex = exchange_new(c, id, EXCHANGE_TCP);
	if (ex == NULL)
		return -ENOMEM;
	ex->request.via = EGRESS_FROM_VIA(via);
	ex->request.from = EGRESS_FROM_PORT(via);
	ex->t.port = (uint16_t)port;
	if (take_host(name, address, ex->host) < 0)
		return -EBADMSG;
	exchange_route(ex, looks, sni);
	return 0;
}

static int
take_head(struct exchange *ex, uint32_t flags)
{
	if (exchange_take_head(ex) < 0 || flags > (EGRESS_HAS_BODY | EGRESS_HAS_KEY) ||
	    ex->t.has_body != ((flags & EGRESS_HAS_BODY) != 0) || (ex->t.has_body && ex->t.is_upgrade))
		return -EBADMSG;
	ex->t.came_all = !ex->t.has_body && !ex->t.is_upgrade;
	return 0;
}

/* The client's key, if there is one. */
static int
take_key(struct exchange *ex, uint32_t flags)
{
	ex->request.has_key = (flags & EGRESS_HAS_KEY) != 0;
	if (!ex->request.has_key)
		return 0;
	if (buf_left(&ex->request.frame) < EGRESS_KEY)
		return -EBADMSG;
	memcpy(ex->request.key, ex->request.frame.data + ex->request.frame.pos, EGRESS_KEY);
	ex->request.frame.pos += EGRESS_KEY;
	return 0;
}

static int
take_request(struct courier *c, uint32_t id, struct buf *body)
{
	const char *name, *address;
	char host[HTTP_HOST_MAX + 1];
	uint32_t port, via, version, flags;
	struct exchange *ex = exchange_new(c, id, EXCHANGE_HTTP);

	if (ex == NULL)
		return -ENOMEM;
	buf_put(&ex->request.frame, body->data, body->len);
	if (buf_failed(&ex->request.frame))
		return -ENOMEM;
	if (buf_get_str(&ex->request.frame, &name) < 0 || buf_get_str(&ex->request.frame, &address) < 0 ||
	    buf_get_u32(&ex->request.frame, &port) < 0 || buf_get_u32(&ex->request.frame, &via) < 0 ||
	    buf_get_u32(&ex->request.frame, &version) < 0 || buf_get_u32(&ex->request.frame, &flags) < 0 ||
	    EGRESS_FROM_VIA(via) > EGRESS_SOCKS || (version != 10 && version != 11 && version != 20) ||
	    port == 0 || port > 65535 || take_host(name, address, host) < 0 || take_key(ex, flags) < 0)
		return -EBADMSG;
	ex->request.via = EGRESS_FROM_VIA(via);
	ex->request.from = EGRESS_FROM_PORT(via);
	ex->request.version = version;
	ex->heard_s = c->now_s;
	ex->request.head_at = ex->request.frame.pos;
	if (take_head(ex, flags) < 0)
		return -EBADMSG;
	exchange_decide(ex, host, (uint16_t)port);
	return 0;
}

static int
take_note(struct courier *c, struct buf *body)
{
	char host[HTTP_HOST_MAX + 1] = "";
	struct courier_note note = { .host = host };
	const char *name, *address;
	uint32_t kind, via, port, status;

	if (buf_get_u32(body, &kind) < 0 || buf_get_u32(body, &note.times) < 0 ||
	    buf_get_u32(body, &via) < 0 || buf_get_str(body, &name) < 0 ||
	    buf_get_str(body, &address) < 0 || buf_get_u32(body, &port) < 0 ||
	    buf_get_u32(body, &status) < 0 || buf_get_str(body, &note.reason) < 0 ||
	    buf_left(body) != 0 || kind > EGRESS_NOTE_SSH || via > EGRESS_SOCKS || port > 65535 ||
	    status > 599 || note.times == 0 || strlen(note.reason) >= COURIER_NOTE_MAX)
		return -EBADMSG;
	if ((name[0] != '\0' || address[0] != '\0') && take_host(name, address, host) < 0)
		return -EBADMSG;
	note.kind = kind;
	note.via = via;
	note.port = (uint16_t)port;
	note.status = (uint16_t)status;
	courier_record_note(c, &note);
	return 0;
}

/* Rules have judged the head, and servers may add the trailers to it. */
static bool
trailers_are_governed(const struct exchange *ex, const struct http_field *fields, size_t n,
                      char reason[COURIER_NOTE_MAX])
{
	if (n > 0 && ex->hook != NULL) {
		snprintf(reason, COURIER_NOTE_MAX, "the rule's hook does not see trailers, so the request cannot "
		         "have any");
		return true;
	}
	for (size_t i = 0; i < n; i++) {
		if (!policy_mentions_header(ex->policy->policy, fields[i].name))
			continue;
		snprintf(reason, COURIER_NOTE_MAX, "a rule mentions the field '%.*s', so it cannot be a "
		         "trailer", fields[i].name.len < 64 ? (int)fields[i].name.len : 64,
		         fields[i].name.at);
		return true;
	}
	return false;
}

static int
take_end(struct exchange *ex, struct buf *body)
{
	struct http_field fields[HTTP_FIELDS_MAX];
	char reason[COURIER_NOTE_MAX];
	size_t n, start = body->pos;

	if (ex->t.came_all || http_fields_decode(body, fields, &n, NULL) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	/* A server would read more or fewer bytes than announced as another request. */
	if (ex->kind == EXCHANGE_HTTP && ex->t.has_body && ex->request.length != HTTP_LENGTH_UNKNOWN &&
	    ex->flow.came != ex->request.length)
		return -EBADMSG;
	/* Raw bytes may follow only after they were agreed on. */
	if ((ex->kind != EXCHANGE_HTTP || !ex->t.has_body) && ex->state != EXCHANGE_PASSES &&
	    ex->state != EXCHANGE_DRAINS && !exchange_wire_has_bytes(ex))
		return -EBADMSG;
	if (n > 0 && ex->kind == EXCHANGE_HTTP && ex->state != EXCHANGE_DRAINS &&
	    trailers_are_governed(ex, fields, n, reason))
		exchange_refuse(ex, "malformed", reason);
	else if (n > 0 && ex->state != EXCHANGE_DRAINS && exchange_use_trailers(ex, fields, n))
		buf_put(&ex->t.trailers, body->data + start, body->len - start);
	exchange_body_end(ex);
	return 0;
}

static int
take_reset(struct exchange *ex, struct buf *body)
{
	uint32_t why;

	if (buf_get_u32(body, &why) < 0 || buf_left(body) != 0 || why > EGRESS_RESET_DONE)
		return -EBADMSG;
	if (!ex->response.ended && ex->note[0] == '\0')
		snprintf(ex->note, sizeof(ex->note), "the client went away");
	exchange_over(ex);
	return 0;
}

static int
take_shut(struct exchange *ex, const struct buf *body)
{
	if (ex->kind != EXCHANGE_HTTP || ex->request.is_shut || buf_left(body) != 0)
		return -EBADMSG;
	exchange_shut(ex);
	return 0;
}

static int
gate_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	struct courier *c = arg;

	switch (type) {
	case EGRESS_RESOLVE:
		return stream != NULL || id == 0 ? -EBADMSG : take_resolve(c, id, body);
	case EGRESS_ROUTE:
		return stream != NULL || id == 0 ? -EBADMSG : take_route(c, id, body);
	case EGRESS_REQUEST:
		return stream != NULL || id == 0 ? -EBADMSG : take_request(c, id, body);
	case EGRESS_NOTE:
		return id != 0 ? -EBADMSG : take_note(c, body);
	case EGRESS_LOGIN:
		return stream == NULL ? 0 : exchange_wire_login(stream->arg, body);
	case EGRESS_CANCEL:
		return stream == NULL ? 0 : exchange_wire_cancel(stream->arg, body);
	case EGRESS_SSH_LIST:
		return stream != NULL || id == 0 ? -EBADMSG : courier_ssh_list(c, id, body);
	case EGRESS_SSH_SIGN:
		return stream != NULL || id == 0 ? -EBADMSG : courier_ssh_sign(c, id, body);
	case EGRESS_END:
		return stream == NULL ? 0 : take_end(stream->arg, body);
	case EGRESS_SHUT:
		return stream == NULL ? 0 : take_shut(stream->arg, body);
	case EGRESS_RESET:
		return stream == NULL ? 0 : take_reset(stream->arg, body);
	default:
		return -EBADMSG;
	}
}

static int
gate_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	struct exchange *ex = stream->arg;

	(void)arg;
	if (ex->t.came_all)
		return -EBADMSG;
	if (ex->kind == EXCHANGE_HTTP && ex->t.has_body) {
		if (ex->request.length != HTTP_LENGTH_UNKNOWN && len > ex->request.length - ex->flow.came)
			return -EBADMSG;
	} else if (ex->state != EXCHANGE_PASSES && ex->state != EXCHANGE_DRAINS && !exchange_wire_has_bytes(ex)) {
		return -EBADMSG;
	}
	ex->flow.came += len;
	ex->heard_s = ex->courier->now_s;
	exchange_body(ex, data, len);
	return 0;
}

static void
gate_writable(void *arg, struct mux_stream *stream)
{
	(void)arg;
	exchange_writable(stream->arg);
}

static void
gate_ended(void *arg, int error)
{
	struct courier *c = arg;

	c->gate_error = error;
	c->bereft = true;
	loop_quit(c->loop);
}

const struct mux_handler courier_gate_handler = {
	.frame = gate_frame, .data = gate_data, .writable = gate_writable, .ended = gate_ended,
};
