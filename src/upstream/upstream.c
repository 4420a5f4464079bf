/* upstream.c - see upstream.h: from a name to a connection. */
#include "upstream/upstream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "http/h1.h"
#include "ipc/courier_channel.h"

/* The setting by which the operator lets the proxy resolve names. */
#define PROXY_RESOLVES "CLOISTER_PROXY_RESOLVES=1"

/* Part of the response has come, so the server's protocol is not in doubt. */
#define UPSTREAM_CUT "upstream broke off its response"

static void checked(void *arg, const struct address *addresses, size_t n, const char *problem);

static void
set_step(struct upstream *up, enum upstream_step step, uint64_t seconds)
{
	up->step = step;
	up->deadline_s = up->pool->now_s + seconds + 1;
}

/* ---- ending ---- */

void
upstream_free(struct upstream *up)
{
	if (up->kind != NULL && up->kind->free != NULL)
		up->kind->free(up);
	if (up->reader != NULL)
		h1_reader_free(up->reader);
	free(up->reader);
	free(up->dial);
	up->pool->owner->release_rules(up->rules);
	free(up);
}

void
upstream_drop(struct upstream *up, bool abrupt)
{
	if (up->step == UP_DEAD)
		return;
	up->step = UP_DEAD;
	resolver_cancel(&up->resolving);
	if (up->dial != NULL)
		dial_drop(up->dial);
	if (up->has_conn)
		conn_close(&up->conn, abrupt);
	up->has_conn = false;
	pool_remove(up);
	pool_dead(up);
}

void
upstream_cancel(struct upstream *up, struct transfer *t)
{
	(void)t;
	up->transfer = NULL;
	upstream_drop(up, true);
}

void
upstream_broken(struct upstream *up, const struct failure *failure)
{
	struct transfer *t = TAKE(up->transfer);

	if (t == NULL)
		return;
	t->upstream = NULL;
	t->owner->fail(t, failure);
}

size_t
upstream_send_later(struct upstream *up, struct transfer *t, const void *data, size_t len)
{
	(void)up;
	(void)t;
	(void)data;
	(void)len;
	return 0;
}

void
upstream_fail(struct upstream *up, const struct failure *failure)
{
	enum upstream_step step = up->step;
	const struct upstream_kind *kind = up->kind;

	if (step == UP_DEAD)
		return;
	/* Drop it first: the callback may look for another connection. */
	upstream_drop(up, true);
	if (step == UP_READY)
		kind->broken(up, failure);
	else
		pool_failed(up, failure);
}

static void
fail(struct upstream *up, uint16_t status, const char *why, const char *error,
     const char *note)
{
	struct failure failure;

	failure_set(&failure, status, why, error, "%s", note);
	upstream_fail(up, &failure);
}

void
upstream_late(struct upstream *up)
{
	struct failure failure;

	switch (up->step) {
	case UP_CHECK:
		resolver_cancel(&up->resolving);
		checked(up, NULL, 0, "the name servers do not answer");
		return;
	case UP_DIAL:
		failure_set(&failure, 504, "unreachable", "upstream unreachable",
		                    "%s does not answer on port %u within %d s",
		                    up->proxy != NULL ? "the proxy" : "the server",
		                    up->proxy != NULL ? up->proxy->port : up->port,
		                    UPSTREAM_CONNECT_S);
		break;
	case UP_PROXY:
		failure_set(&failure, 504, "unreachable", "upstream unreachable",
		                    "the proxy does not answer within %d s", UPSTREAM_PROXY_S);
		break;
	case UP_TLS:
		failure_set(&failure, 504, "unreachable", "upstream unreachable",
		                    "the server does not finish its TLS handshake within %d s",
		                    UPSTREAM_TLS_S);
		break;
	default:
		failure_set(&failure, 504, "unresolved", "upstream unresolved",
		                    "the name servers do not answer");
	}
	upstream_fail(up, &failure);
}

void
upstream_failure(struct failure *ret_failure, const struct upstream *up, int error)
{
	bool closed = error == 0 || (up->has_conn && up->conn.met_end);
	char where[H1_WHERE_MAX] = "";

	if (up->step == UP_READY && up->kind == &upstream_h1 && up->transfer != NULL && up->reader != NULL) {
		h1_reader_where(up->reader, where);
		if (where[0] == '\0' && closed && error != 0 && up->transfer->answered)
			snprintf(where, sizeof(where), "without ending TLS, so the response may be incomplete");
	}
	if (where[0] == '\0')
		failure_set(ret_failure, 502, "unreachable", "upstream broke off",
		                    "the connection to the server broke: %s",
		                    error == 0 ? "it was closed" : strerror(error));
	else if (closed)
		failure_set(ret_failure, 502, "unreachable", UPSTREAM_CUT,
		                    "the server closed the connection %s", where);
	else
		failure_set(ret_failure, 502, "unreachable", UPSTREAM_CUT,
		                    "the connection to the server broke %s: %s", where, strerror(error));
}

/* ---- events of the connection ---- */

static void
conn_is_ready(void *arg)
{
	struct upstream *up = arg;

	if (up->step != UP_TLS)
		return;
	if (up->certificate != 0)
		up->pool->owner->certificate_shown(up->conn.ssl);
	up->step = UP_READY;
	up->deadline_s = 0;
	pool_ready(up);
}

static void proxy_readable(struct upstream *up);

static void
conn_is_readable(void *arg)
{
	struct upstream *up = arg;

	if (up->step == UP_READY)
		up->kind->readable(up);
	else if (up->step == UP_PROXY)
		proxy_readable(up);
}

static void
conn_is_writable(void *arg)
{
	struct upstream *up = arg;

	if (up->step == UP_READY && up->kind->writable != NULL)
		up->kind->writable(up);
}

static void
conn_is_broken(void *arg, const struct err *error)
{
	struct upstream *up = arg;
	struct failure failure;
	char text[TLS_TEXT_MAX];

	if (up->step == UP_TLS && tls_explain(up->conn.ssl, text))
		failure_set(&failure, 502, "certificate", "upstream certificate refused",
		                    "%s", text);
	else if (up->step == UP_TLS)
		failure_set(&failure, 502, "protocol", "upstream speaks no TLS",
		                    "the TLS handshake failed: %s", error->text);
	else
		upstream_failure(&failure, up, error->code);
	upstream_fail(up, &failure);
}

static const struct conn_handler handler = {
	.ready = conn_is_ready, .readable = conn_is_readable,
	.writable = conn_is_writable, .broken = conn_is_broken,
};

void
upstream_touch(struct upstream *up)
{
	if (up->is_touched || !up->has_conn)
		return;
	up->is_touched = true;
	conn_cork(&up->conn);
	pool_touched(up);
}

void
upstream_flush(struct upstream *up)
{
	up->is_touched = false;
	if (up->step == UP_READY && up->kind->flush != NULL)
		up->kind->flush(up);
	if (up->has_conn)
		conn_uncork(&up->conn);
}

bool
upstream_write(struct upstream *up, const void *data, size_t len)
{
	struct failure failure;
	int r = conn_write(&up->conn, data, len);

	if (r == 0)
		return true;
	upstream_failure(&failure, up, -r);
	upstream_fail(up, &failure);
	return false;
}

bool
upstream_write_held(struct upstream *up, struct transfer *t,
                    bool (*write)(struct upstream *up, const void *data, size_t len))
{
	size_t n;

	while ((n = buf_left(&t->body)) > 0) {
		if (conn_is_full(&up->conn))
			return false;
		if (n > MUX_FRAME_MAX)
			n = MUX_FRAME_MAX;
		if (!write(up, t->body.data + t->body.pos, n))
			return false;
		t->owner->took(t, n);
	}
	return true;
}

/* ---- TLS ---- */

void
upstream_secure(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct err err = {0};
	SSL *ssl;

	if (pool->tls.problem[0] != '\0') {
		fail(up, 502, "certificate", "upstream certificate refused", pool->tls.problem);
		return;
	}
	ssl = up->is_raw ? tls_client_raw(&pool->tls, up->host) :
	      tls_client(&pool->tls, up->host, up->h1_only, pool_session(up), up->origin);
	if (ssl == NULL) {
		fail(up, 502, "protocol", "upstream speaks no TLS", "there is no memory for TLS");
		return;
	}
	if (up->certificate != 0 &&
	    pool->owner->show_certificate(pool->arg, up->certificate, ssl, &err) < 0) {
		SSL_free(ssl);
		fail(up, 502, "certificate", "no certificate to show", err.text);
		return;
	}
	set_step(up, UP_TLS, UPSTREAM_TLS_S);
	conn_start_tls(&up->conn, ssl);
}

/* The connection to the server exists. */
static void
reached(struct upstream *up)
{
	if (up->is_raw ? up->transfer->begins_tls : up->scheme == HTTP_TLS) {
		upstream_secure(up);
		return;
	}
	up->step = UP_READY;
	up->deadline_s = 0;
	pool_ready(up);
}

/* ---- the operator's proxy ---- */

/* The host that the proxy has to connect to. */
static void
proxy_target(const struct upstream *up, char text[HTTP_HOST_MAX + 1])
{
	char shown[ADDRESS_TEXT_MAX];

	if (!up->has_target)
		snprintf(text, HTTP_HOST_MAX + 1, "%s", up->host);
	else
		snprintf(text, HTTP_HOST_MAX + 1, up->target.family == AF_INET6 ? "[%s]" : "%s",
		         address_format(&up->target, shown));
}

static void
begin_proxy(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct http_head head = { .method = { "CONNECT", 7 }, .path = { "", 0 }, .port = up->port };
	char target[HTTP_HOST_MAX + 1];

	proxy_target(up, target);
	head.host = (struct http_text){ target, strlen(target) };
	up->reader = malloc(sizeof(*up->reader));
	if (up->reader == NULL) {
		fail(up, 502, "unreachable", "upstream unreachable", "there is no memory");
		return;
	}
	h1_reader_init(up->reader, H1_RESPONSES);
	h1_reader_expect(up->reader, true);
	set_step(up, UP_PROXY, UPSTREAM_PROXY_S);
	if (up->proxy->authorization[0] != '\0') {
		head.fields[0] = (struct http_field){
			{ "proxy-authorization", 19 },
			{ up->proxy->authorization, strlen(up->proxy->authorization) } };
		head.n_fields = 1;
	}
	buf_reset(&pool->out);
	h1_write_head(&pool->out, &head, (struct h1_style){ .keep_alive = true });
	conn_resume_reading(&up->conn);
	(void)upstream_write(up, pool->out.data, pool->out.len);
}

static void
proxy_refused(struct upstream *up, uint16_t status)
{
	struct failure failure;
	char target[HTTP_HOST_MAX + 1];

	proxy_target(up, target);
	if (status == 407)
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "the operator's proxy wants a login (407)");
	else
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "the operator's proxy answered %u to CONNECT %s:%u%s", status, target,
		                    up->port, up->has_target ?
		                    "; if it takes names only, the operator can set " PROXY_RESOLVES : "");
	upstream_fail(up, &failure);
}

static void
proxy_answered(struct upstream *up, const char *rest, size_t n_rest)
{
	uint16_t status = up->reader->head.status;

	h1_reader_free(up->reader);
	free(TAKE(up->reader));
	if (status < 200 || status > 299) {
		proxy_refused(up, status);
		return;
	}
	/* A TLS server cannot have sent anything yet; a raw one may have sent its greeting. */
	if (n_rest > 0 && (!up->is_raw || up->transfer->server_waits)) {
		fail(up, 502, "protocol", "upstream unreachable", "the proxy said too much");
		return;
	}
	reached(up);
	if (n_rest > 0 && up->step == UP_READY && up->transfer != NULL)
		up->transfer->owner->give(up->transfer, rest, n_rest);
}

static void
proxy_readable(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct http_text piece;
	struct err err = {0};
	size_t used;
	/* Read little: bytes behind the head may have no receiver yet. */
	ssize_t n = conn_read(&up->conn, pool->in, 2048);

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		fail(up, 502, "unreachable", "upstream unreachable",
		     "the operator's proxy closed the connection");
		return;
	}
	for (char *at = (char *)pool->in; ; at += used, n -= (ssize_t)used) {
		switch (h1_read(up->reader, at, (size_t)n, &used, &piece, &err)) {
		case H1_HEAD:
			if (up->reader->head.status < 200)
				continue;
			proxy_answered(up, at + used, (size_t)n - used);
			return;
		case H1_MORE:
			return;
		default:
			fail(up, 502, "protocol", "upstream unreachable",
			     "the operator's proxy does not speak HTTP");
			return;
		}
	}
}

/* ---- dialling ---- */

static void
dialled(void *arg, int fd, const struct address *address, int error)
{
	struct upstream *up = arg;
	struct failure failure;

	free(TAKE(up->dial));
	if (fd < 0) {
		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "cannot connect to %s port %u: %s",
		                    up->proxy != NULL ? "the operator's proxy," : "the server,",
		                    up->proxy != NULL ? up->proxy->port : up->port, strerror(error));
		upstream_fail(up, &failure);
		return;
	}
	up->address = *address;
	up->has_conn = true;
	conn_init(&up->conn, up->pool->loop, fd, NULL, &handler, up);
	if (up->proxy != NULL && !up->is_absolute)
		begin_proxy(up);
	else
		reached(up);
}

static void
begin_dial(struct upstream *up, const struct address *addresses, size_t n)
{
	up->dial = malloc(sizeof(*up->dial));
	if (up->dial == NULL) {
		fail(up, 502, "unreachable", "upstream unreachable", "there is no memory");
		return;
	}
	set_step(up, UP_DIAL, UPSTREAM_CONNECT_S);
	dial_start(up->dial, up->pool->loop, addresses, n,
	           up->proxy != NULL ? up->proxy->port : up->port, dialled, up);
}

/* ---- which addresses ---- */

/* Find the place of a rule of RULES that denies ADDRESS, or an address that it leads to.  The
 * address itself is not checked if it was NAMED and judged already.  NULL: no rule does. */
static const char *
upstream_denied_by(const struct pool *pool, const void *rules, const struct address *address,
                   uint16_t port, bool named)
{
	struct address inner[ADDRESS_EMBEDDED_MAX];
	size_t n = address_embedded(address, inner);
	char shown[ADDRESS_TEXT_MAX];
	const char *denied = NULL;

	if (!named)
		denied = pool->owner->denies(rules, address_format(address, shown), port);
	for (size_t i = 0; i < n && denied == NULL; i++)
		denied = pool->owner->denies(rules, address_format(&inner[i], shown), port);
	return denied;
}

/* Move the usable ADDRESSES to the front, and return their number.  If one of them is of a
 * forbidden kind, none is usable.  If none is usable, TEXT explains why. */
static size_t
vet(const struct upstream *up, struct address *addresses, size_t n, char *text, size_t size)
{
	char shown[ADDRESS_TEXT_MAX];
	struct address literal;
	const bool named = address_parse(up->host, &literal);
	const unsigned bits = named ? up->named_bits : 0;
	const char *what, *rule;
	size_t kept = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		address_format(&addresses[i], shown);
		if (CONTROL_ON("addresses") &&
		    !address_is_allowed(&addresses[i], up->may_use_private, bits, &what)) {
			if (strcmp(up->host, CELL_NET_HOST_NAME) == 0)
				snprintf(text, size, "this machine is reached only where a rule names "
				         CELL_NET_HOST_NAME);
			else
				snprintf(text, size, named ? "the address %s is %s%s"
				                           : "the name leads to %s, which is %s%s", shown, what,
				         address_is_allowed(&addresses[i], true, named ? ADDRESS_BITS : 0, NULL) ? ""
				         : address_is_allowed(&addresses[i], true, ADDRESS_BITS, NULL)
				         ? "; " COURIER_NO_RULE_HELPS " for a name" : "; " COURIER_NO_RULE_HELPS);
			/* A name with both a public and a forbidden address is an attempt to reach
			 * the second. */
			return 0;
		}
		rule = upstream_denied_by(up->pool, up->rules, &addresses[i], up->port, named);
		if (rule != NULL) {
			snprintf(text, size, "the name leads to %s, " COURIER_DENIES_ADDRESS " %s", shown,
			         rule);
			continue;
		}
		addresses[kept++] = addresses[i];
	}
	return kept;
}

static void
refuse_address(struct upstream *up, const char *text)
{
	fail(up, 403, "private-address", "refused by cloister", text);
}

static void
resolved(void *arg, const struct address *addresses, size_t n, const char *problem)
{
	struct upstream *up = arg;
	struct address list[RESOLVE_ADDRESSES_MAX];
	struct failure failure;
	char text[160];
	size_t kept = n;

	if (n == 0) {
		failure_set(&failure, 502, "unresolved", "upstream unresolved",
		                    "cannot resolve '%s': %s",
		                    up->proxy != NULL ? up->proxy->host : up->host, problem);
		upstream_fail(up, &failure);
		return;
	}
	memcpy(list, addresses, n * sizeof(*addresses));
	/* The proxy is the operator's own, so its address is not vetted. */
	if (up->proxy == NULL)
		kept = vet(up, list, n, text, sizeof(text));
	if (kept == 0) {
		refuse_address(up, text);
		return;
	}
	/* On this machine IPv4 goes first, as documented. */
	if (strcmp(up->host, CELL_NET_HOST_NAME) != 0)
		address_interleave(list, kept);
	begin_dial(up, list, kept);
}

static void
begin_resolve(struct upstream *up)
{
	static const struct address machine[] = {
		{ .family = AF_INET, .bytes = { 127, 0, 0, 1 } },
		{ .family = AF_INET6, .bytes = { [15] = 1 } },
	};
	const char *host = up->proxy != NULL ? up->proxy->host : up->host;
	struct address literal;

	set_step(up, UP_RESOLVE, UPSTREAM_RESOLVE_S);
	up->resolving = (struct resolve_wait){ .done = resolved, .arg = up };
	if (strcmp(host, CELL_NET_HOST_NAME) == 0)
		resolved(up, machine, ARRAY_LEN(machine), NULL);
	else if (address_parse(host, &literal))
		resolved(up, &literal, 1, NULL);
	else
		resolver_ask(up->pool->resolver, host, &up->resolving);
}

/* Prefer IPv4: fewer proxies support IPv6. */
static const struct address *
choose_target(const struct address *addresses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (addresses[i].family == AF_INET)
			return &addresses[i];
	return &addresses[0];
}

/* Behind a proxy: the addresses of the name must be permitted, and the proxy connects to one of
 * them.  If the name does not resolve here, the proxy resolves it only if the operator allows that. */
static void
checked(void *arg, const struct address *addresses, size_t n, const char *problem)
{
	struct upstream *up = arg;
	struct address list[RESOLVE_ADDRESSES_MAX];
	struct failure failure;
	char text[160];

	if (n == 0 && !up->pool->proxies.resolves) {
		failure_set(&failure, 502, "unresolved", "upstream unresolved",
		                    "cannot resolve '%.100s' on this machine: %s; if only the proxy can, the "
		                    "operator can set " PROXY_RESOLVES, up->host, problem);
		upstream_fail(up, &failure);
		return;
	}
	if (n > 0) {
		memcpy(list, addresses, n * sizeof(*addresses));
		n = vet(up, list, n, text, sizeof(text));
		if (n == 0) {
			refuse_address(up, text);
			return;
		}
		up->has_target = !up->pool->proxies.resolves;
		up->target = *choose_target(list, n);
	}
	begin_resolve(up);
}

/* The name is not resolved: it has no address that anything else could have. */
static void
begin_tools(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct err err = {0};
	int fd;

	if (up->is_raw || up->scheme != HTTP_PLAIN) {
		fail(up, 502, "protocol", "upstream unreachable", CELL_NET_TOOLS_NAME " speaks plain HTTP only");
		return;
	}
	up->dial = malloc(sizeof(*up->dial));
	fd = up->dial == NULL ? err_set(&err, ENOMEM, "there is no memory") : pool->owner->connect_tools(pool->arg, &err);
	if (fd < 0) {
		fail(up, 502, "unreachable", "upstream unreachable", err.text);
		return;
	}
	set_step(up, UP_DIAL, UPSTREAM_CONNECT_S);
	dial_start_connected(up->dial, pool->loop, fd, dialled, up);
}

void
upstream_start(struct upstream *up)
{
	struct address literal;

	up->pool->owner->wake(up->pool->arg);
	if (strcmp(up->host, CELL_NET_TOOLS_NAME) == 0) {
		begin_tools(up);
		return;
	}
	if (up->proxy == NULL) {
		begin_resolve(up);
		return;
	}
	if (up->proxy->problem != NULL) {
		struct failure failure;

		failure_set(&failure, 502, "unreachable", "upstream unreachable",
		                    "the operator's proxy cannot be used: %s", up->proxy->problem);
		upstream_fail(up, &failure);
		return;
	}
	/* On a timeout, the proxy resolves the name if it may; otherwise the request fails. */
	set_step(up, UP_CHECK, up->pool->proxies.resolves ? UPSTREAM_CHECK_S : UPSTREAM_RESOLVE_S);
	up->resolving = (struct resolve_wait){ .done = checked, .arg = up };
	if (address_parse(up->host, &literal))
		checked(up, &literal, 1, NULL);
	else
		resolver_ask(up->pool->resolver, up->host, &up->resolving);
}

bool
upstream_suits(struct upstream *up, const struct transfer *t)
{
	const struct pool_owner *owner = up->pool->owner;
	struct address literal;
	void *rules;

	if (up->is_stale)
		return false;
	if (owner->has_rules(t, up->rules))
		return true;
	rules = owner->take_rules(t);
	if (rules == NULL)
		return false;
	if ((up->proxy == NULL || up->has_target) &&
	    upstream_denied_by(up->pool, rules, up->has_target ? &up->target : &up->address, up->port,
	                       address_parse(up->host, &literal)) != NULL) {
		owner->release_rules(rules);
		return false;
	}
	/* The next transfer with these rules need not be checked again. */
	owner->release_rules(up->rules);
	up->rules = rules;
	return true;
}
