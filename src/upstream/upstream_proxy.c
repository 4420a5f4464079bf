/* upstream_proxy.c - see upstream_parts.h: through the operator's proxy, with CONNECT. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "http/h1.h"
#include "upstream/upstream_parts.h"

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

void
upstream_begin_proxy(struct upstream *up)
{
	struct pool *pool = up->pool;
	struct http_head head = { .method = { "CONNECT", 7 }, .path = { "", 0 }, .port = up->port };
	char target[HTTP_HOST_MAX + 1];

	proxy_target(up, target);
	head.host = (struct http_text){ target, strlen(target) };
	up->reader = malloc(sizeof(*up->reader));
	if (up->reader == NULL) {
		upstream_fail_as(up, 502, "unreachable", "upstream unreachable", "there is no memory");
		return;
	}
	h1_reader_init(up->reader, H1_RESPONSES);
	h1_reader_expect(up->reader, true);
	upstream_set_step(up, UP_PROXY, UPSTREAM_PROXY_S);
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
		upstream_fail_as(up, 502, "protocol", "upstream unreachable", "the proxy said too much");
		return;
	}
	upstream_reached(up);
	if (n_rest > 0 && up->step == UP_READY && up->transfer != NULL)
		up->transfer->owner->give(up->transfer, rest, n_rest);
}

void
upstream_read_proxy(struct upstream *up)
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
		upstream_fail_as(up, 502, "unreachable", "upstream unreachable",
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
			upstream_fail_as(up, 502, "protocol", "upstream unreachable",
			     "the operator's proxy does not speak HTTP");
			return;
		}
	}
}
