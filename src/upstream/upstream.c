/* upstream.c - see upstream.h: from a name to a connection. */
#include "upstream/upstream_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "http/h1.h"

/* Part of the response has come, so the server's protocol is not in doubt. */
#define UPSTREAM_CUT "upstream broke off its response"

static void checked(void *arg, const struct address *addresses, size_t n, const char *problem);

void
upstream_set_step(struct upstream *up, enum upstream_step step, uint64_t seconds)
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

void
upstream_fail_as(struct upstream *up, uint16_t status, const char *why, const char *error,
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

static void
conn_is_readable(void *arg)
{
	struct upstream *up = arg;

	if (up->step == UP_READY)
		up->kind->readable(up);
	else if (up->step == UP_PROXY)
		upstream_read_proxy(up);
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
		upstream_fail_as(up, 502, "certificate", "upstream certificate refused", pool->tls.problem);
		return;
	}
	ssl = up->is_raw ? tls_client_raw(&pool->tls, up->host) :
	      tls_client(&pool->tls, up->host, up->h1_only, pool_session(up), up->origin);
	if (ssl == NULL) {
		upstream_fail_as(up, 502, "protocol", "upstream speaks no TLS", "there is no memory for TLS");
		return;
	}
	if (up->certificate != 0 &&
	    pool->owner->show_certificate(pool->arg, up->certificate, ssl, &err) < 0) {
		SSL_free(ssl);
		upstream_fail_as(up, 502, "certificate", "no certificate to show", err.text);
		return;
	}
	upstream_set_step(up, UP_TLS, UPSTREAM_TLS_S);
	conn_start_tls(&up->conn, ssl);
}

void
upstream_reached(struct upstream *up)
{
	if (up->is_raw ? up->transfer->begins_tls : up->scheme == HTTP_TLS) {
		upstream_secure(up);
		return;
	}
	up->step = UP_READY;
	up->deadline_s = 0;
	pool_ready(up);
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
		upstream_begin_proxy(up);
	else
		upstream_reached(up);
}

static void
begin_dial(struct upstream *up, const struct address *addresses, size_t n)
{
	up->dial = malloc(sizeof(*up->dial));
	if (up->dial == NULL) {
		upstream_fail_as(up, 502, "unreachable", "upstream unreachable", "there is no memory");
		return;
	}
	upstream_set_step(up, UP_DIAL, UPSTREAM_CONNECT_S);
	dial_start(up->dial, up->pool->loop, addresses, n,
	           up->proxy != NULL ? up->proxy->port : up->port, dialled, up);
}

/* ---- which addresses ---- */

static void
refuse_address(struct upstream *up, const char *text)
{
	upstream_fail_as(up, 403, "private-address", "refused by cloister", text);
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
		kept = upstream_vet(up, list, n, text, sizeof(text));
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

	upstream_set_step(up, UP_RESOLVE, UPSTREAM_RESOLVE_S);
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
		n = upstream_vet(up, list, n, text, sizeof(text));
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
		upstream_fail_as(up, 502, "protocol", "upstream unreachable", CELL_NET_TOOLS_NAME " speaks plain HTTP only");
		return;
	}
	up->dial = malloc(sizeof(*up->dial));
	fd = up->dial == NULL ? err_set(&err, ENOMEM, "there is no memory") : pool->owner->connect_tools(pool->arg, &err);
	if (fd < 0) {
		upstream_fail_as(up, 502, "unreachable", "upstream unreachable", err.text);
		return;
	}
	upstream_set_step(up, UP_DIAL, UPSTREAM_CONNECT_S);
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
	upstream_set_step(up, UP_CHECK, up->pool->proxies.resolves ? UPSTREAM_CHECK_S : UPSTREAM_RESOLVE_S);
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
