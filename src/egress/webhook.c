/* webhook.c - see webhook.h.
 *
 * Requests come from cloister-publish, which reads input from anyone outside.  An invalid request
 * ends the channel, and webhooks with it. */
#include "egress/webhook.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/ipc.h"
#include "ipc/webhook_channel.h"
#include "sign/sign_schemes.h"

struct question {
	uint32_t number, port;
	struct http_head head;
	struct sign_body body;
	struct http_text method, path;  /* as they came */
};

/* The result: STATUS is 0 if the webhook may go on. */
struct outcome {
	uint16_t status;
	const char *why;                /* as in events; NULL: no problem */
	const char *secret;             /* whose key signed it; NULL: none */
	char reason[COURIER_NOTE_MAX];
};

/* ---- templates ---- */

int
webhooks_prepare(struct courier *c, struct err *err)
{
	const struct bound *bound = &c->secrets.bound;
	int r = 0;

	for (size_t i = 0; r == 0 && i < bound->n; i++) {
		const struct secret *s = bound->at[i].secret;
		const char *name = secret_with(s, "template");
		const struct sign_hmac_template *t = name == NULL ? NULL : sign_hmac_row(name);

		if (!s->scheme->comes_in)
			continue;
		if (t == NULL)
			return err_set(err, EINVAL, "the secret '%s' does not say whose webhooks it is for",
			               s->name);
		r = sign_hmac_compile(t, &c->webhooks.templates[i], err);
		c->webhooks.is[i] = r == 0;
	}
	return r;
}

/* ---- signatures ---- */

static bool
fits_scope(const struct question *q, const struct secret *s)
{
	struct policy_request req = { .protocol = POLICY_HTTP, .head = &q->head, .host = SECRET_CELL_HOST,
	                              .port = (uint16_t)q->port };

	return secret_in_scope(s, &req);
}

/* Behind a tunnel or another server, the signed address differs from the address seen here.  `url`
 * in the definition gives its beginning. */
static int
set_address(struct http_head *head, const char *url, char host[HTTP_HOST_MAX + 1], struct err *err)
{
	struct http_text authority;
	uint16_t port;

	if (url == NULL)
		return 0;
	head->scheme = strncmp(url, "https://", 8) == 0 ? HTTP_TLS : HTTP_PLAIN;
	authority.at = url + (head->scheme == HTTP_TLS ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0);
	authority.len = strcspn(authority.at, "/");
	if (authority.at == url || http_authority_parse(authority, host, &port, NULL) < 0)
		return err_set(err, EINVAL, "the secret's `url` is none: https://hooks.example.com");
	head->host = (struct http_text){ host, strlen(host) };
	head->port = port != 0 ? port : head->scheme == HTTP_TLS ? 443 : 80;
	return 0;
}

/* Check with the key of secret I.  If right, HEAD is signed with its placeholder. */
static int
sign(struct courier *c, size_t i, const struct question *q, struct http_head *head,
     struct err *err)
{
	const struct bound_secret *b = c->secrets.view->at[i];
	struct sign_key from = bound_key(b->real), to = bound_key(b->placeholder);
	struct http_head *seen = &c->secrets.signed_head;
	const struct sign_was was = { seen, &q->body };
	struct sign_memory *m = &c->secrets.scratch;
	struct sign_chunks *chunks = NULL;
	enum sign_next next = SIGN_DONE;
	char host[HTTP_HOST_MAX + 1];
	int r;

	http_head_copy(head, &q->head);
	m->used = 0;
	m->body = (struct sign_body){0};
	r = set_address(head, secret_with(b->secret, "url"), host, err);
	http_head_copy(seen, head);
	/* The server in the cell gets the canonical path, with a signature of that path. */
	if (seen->written.len > 0)
		seen->path = seen->written;
	head->written = (struct http_text){ "", 0 };
	if (r == 0)
		r = sign_hmac.sign(&c->webhooks.templates[i], &from, &to, &was, head, &q->body, m, &next,
		                   &chunks, err);
	if (r == 0 && (next != SIGN_DONE || m->body.at != NULL))
		r = err_set(err, ENOTSUP, "its signature stands in the body, which is not for webhooks");
	head->scheme = q->head.scheme;
	head->host = q->head.host;
	head->port = q->head.port;
	return r;
}

/* The sender outside gets a general reason for a wrong signature: its details are for signers in
 * the cell. */
static void
judge(struct courier *c, const struct question *q, struct http_head *head, struct outcome *o)
{
	const struct bound *bound = &c->secrets.bound;
	struct err err = {0};

	*o = (struct outcome){ .status = 403, .why = "scope" };
	snprintf(o->reason, sizeof(o->reason), "no webhook of this method and path is expected at port %u",
	         q->port);
	if (c->halted[0] != '\0') {
		*o = (struct outcome){ .status = 503, .why = "audit" };
		snprintf(o->reason, sizeof(o->reason), "%s", c->halted);
	}
	for (size_t i = 0; c->halted[0] == '\0' && i < bound->n; i++) {
		const struct secret *s = bound->at[i].secret;

		if (!c->webhooks.is[i] || !fits_scope(q, s))
			continue;
		if (secrets_is_revoked(&c->secrets, c->secrets.view, i, o->reason, sizeof(o->reason))) {
			o->why = "revoked";
			o->secret = s->name;
			continue;
		}
		if (sign(c, i, q, head, &err) == 0) {
			*o = (struct outcome){ .secret = s->name };
			return;
		}
		o->status = 401;
		o->why = "signature";
		o->secret = s->name;
		snprintf(o->reason, sizeof(o->reason), err.code == EKEYREJECTED
		         ? "the signature is not right: it was not made of this request with the secret that "
		           "is expected" : "%.300s", err.text);
	}
}

/* ---- requests ---- */

/* A sealed memory file: its content cannot change while it is read. */
static int
read_body(int fd, uint64_t length, struct buf *ret_body)
{
	const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct stat st;
	unsigned char *at;
	size_t done = 0;
	ssize_t n = 1;

	if (length > WEBHOOK_BODY_MAX || (fd < 0) != (length == 0))
		return -EBADMSG;
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != length ||
	    (fcntl(fd, F_GET_SEALS) & sealed) != sealed)
		return -EBADMSG;
	at = buf_add(ret_body, length);
	if (at == NULL)
		return -ENOMEM;
	for (; done < length && n > 0; done += n > 0 ? (size_t)n : 0)
		n = pread(fd, at + done, length - done, (off_t)done);
	return done == length ? 0 : -EBADMSG;
}

static void
record(struct courier *c, const struct question *q, const struct outcome *o)
{
	struct events *e = &c->events;
	const char *query = memchr(q->path.at, '?', q->path.len);
	char what[48];

	event_begin(e, "webhook");
	event_str(e, "verdict", o->status == 0 ? "allow" : "deny");
	event_str(e, "why", o->why);
	event_str(e, "secret", o->secret);
	event_text(e, "method", q->method.at, q->method.len);
	event_u64(e, "port", q->port);
	event_text(e, "path", q->path.at, query == NULL ? q->path.len : (size_t)(query - q->path.at));
	if (query != NULL)
		event_true(e, "query");
	if (o->status != 0) {
		event_u64(e, "status", o->status);
		event_str(e, "note", o->reason);
	}
	snprintf(what, sizeof(what), "webhook to port %u", q->port);
	event_done(e, o->status != 0, what);
	courier_at_round_end(c);
}

int
webhooks_check(struct courier *c, struct ipc_message *message, struct buf *answer)
{
	static struct question q;
	static struct http_head head;
	OWN(closep) int fd = ipc_take_fd(message, 0);
	OWN(buf_free) struct buf body = BUF(WEBHOOK_BODY_MAX);
	struct outcome outcome;
	int r;

	if (message->n_fds > 1 || buf_get_u32(&message->body, &q.number) < 0 ||
	    buf_get_u32(&message->body, &q.port) < 0 || q.port == 0 || q.port > 65535 ||
	    http_head_decode(&message->body, &q.head, NULL) < 0 || buf_left(&message->body) != 0 ||
	    q.head.status != 0 || q.head.upgrade.len != 0 || q.head.path.at[0] != '/')
		return -EBADMSG;
	r = read_body(fd, q.head.length, &body);
	if (r < 0)
		return r;
	q.body = (struct sign_body){ body.data, body.len };
	q.method = q.head.method;
	q.path = q.head.path;
	judge(c, &q, &head, &outcome);
	record(c, &q, &outcome);
	ipc_begin(answer, WEBHOOK_CHECKED);
	buf_put_u32(answer, q.number);
	buf_put_u32(answer, outcome.status);
	if (outcome.status == 0)
		http_head_encode(answer, &head);
	else
		buf_put_str(answer, outcome.reason);
	return buf_failed(answer) ? -ENOMEM : 0;
}

/* ---- the channel ---- */

/* All requests that publish may make. */
static const struct {
	uint32_t type;
	int (*answer)(struct courier *c, struct ipc_message *message, struct buf *answer);
} publish_may_ask[] = {
	{ WEBHOOK_CHECK, webhooks_check },
};

static int
answer(struct courier *c)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1 } };
	OWN(buf_free) struct buf reply = {0};
	int r = ipc_receive(c->webhooks.channel.fd, &message, NULL);

	if (r < 0)
		return r == -EAGAIN ? 0 : r;
	r = -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(publish_may_ask); i++)
		if (publish_may_ask[i].type == message.type)
			r = publish_may_ask[i].answer(c, &message, &reply);
	/* If publish does not read its responses, they are dropped. */
	if (r == 0)
		(void)ipc_send(c->webhooks.channel.fd, &reply, NULL, 0, NULL);
	return r;
}

static void
channel_ready(void *arg, uint32_t events)
{
	struct courier *c = arg;

	(void)events;
	if (answer(c) < 0)
		loop_unwatch(c->loop, &c->webhooks.channel);
}

int
webhooks_start(struct courier *c, int fd, struct err *err)
{
	c->webhooks.channel = (struct loop_source){ .fd = fd, .ready = channel_ready, .arg = c };
	return loop_watch(c->loop, &c->webhooks.channel, EPOLLIN, err);
}
