/* serve_conn.c - one connection: reads requests one after the other, strictly, and passes them to
 * the handler. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "serve/serve_parts.h"

#define IN_MAX (64 * 1024)              /* read at once */
#define LINGER_BYTES (64u << 20)        /* of a refused body, before the connection is cut */

static char in[IN_MAX];

static void feed(struct serve_conn *c, const char *data, size_t len);

/* ---- the end ---- */

static void
bury(void *arg)
{
	struct serve_server *s = arg;
	struct serve_conn *c;

	while ((c = s->dead) != NULL) {
		s->dead = c->next;
		h1_reader_free(&c->reader);
		buf_free(&c->raw);
		buf_free(&c->ahead);
		buf_free(&c->out);
		close_fd(&c->out_fd);
		free(c);
	}
	if (s->stopping && s->conns == NULL && s->stopped != NULL) {
		void (*stopped)(void *) = s->stopped;

		s->stopped = NULL;
		stopped(s->stopped_arg);
	}
}

/* A later response finds that nobody waits. */
static void
lose_request(struct serve_conn *c)
{
	struct serve_request *q = c->request;

	if (q == NULL)
		return;
	c->request = NULL;
	q->conn = NULL;
	q->is_gone = true;
	__atomic_store_n(&q->is_leaving, true, __ATOMIC_RELAXED);
	if (c->step == STEP_STREAMS) {
		c->way->server->stats.streams--;
		q->gone(q);
	} else if (c->is_carried) {
		q->gone(q);
	} else if (c->step != STEP_ASKED) {
		serve_request_free(q);
	}
}

void
serve_conn_drop(struct serve_conn *c, bool abrupt)
{
	struct serve_server *s = c->way->server;

	if (c->step == STEP_DEAD)
		return;
	lose_request(c);
	c->step = STEP_DEAD;
	loop_cancel_timer(s->loop, &c->late);
	loop_cancel_round(s->loop, &c->again);
	conn_close(&c->conn, abrupt);
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
	c->next = s->dead;
	s->dead = c;
	c->way->n_conns--;
	s->stats.conns--;
	if (s->conns == NULL)
		s->idle_since_ms = loop_now_ms();
	loop_at_round_end(s->loop, &s->bury);
	serve_doors_watch(s);
}

void
serve_conn_late(struct serve_conn *c, unsigned seconds)
{
	loop_set_timer(c->way->server->loop, &c->late, (uint64_t)seconds * 1000);
}

/* Closing at once would discard data that the client has not read yet. */
static void
linger(struct serve_conn *c)
{
	c->step = STEP_LINGERS;
	c->written = 0;
	conn_shut(&c->conn);
	if (c->ended) {
		serve_conn_drop(c, false);
		return;
	}
	serve_conn_late(c, SERVE_LINGER_S);
	conn_resume_reading(&c->conn);
}

static void
refuse(struct serve_conn *c, unsigned status, const char *code, const char *message)
{
	c->keep_alive = false;
	serve_refuse(c->request, status, code, NULL, message);
}

/* ---- time ---- */

static struct serve_request *
new_request(struct serve_conn *c)
{
	struct serve_request *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	*q = (struct serve_request){ .door = &c->way->door, .role = c->way->door.role, .uid = c->uid,
	                             .conn = c, .server = c->way->server, .query = "" };
	buf_init(&q->body.data, serve_body_kept(&c->way->door));
	buf_init(&q->head_data, 2 * HTTP_HEAD_MAX);
	buf_init(&q->extra, 16 * 1024);
	c->request = q;
	return q;
}

/* A request that cannot even be parsed is answered all the same. */
static void
refuse_unread(struct serve_conn *c, unsigned status, const char *code, const char *message)
{
	if (c->request == NULL && new_request(c) == NULL) {
		serve_conn_drop(c, true);
		return;
	}
	c->way->server->stats.refused++;
	refuse(c, status, code, message);
}

static bool
is_taken(struct serve_conn *c)
{
	uint64_t kept = c->conn.out.len - c->conn.out_at + c->conn.held.len;
	uint64_t taken = c->written > kept ? c->written - kept : 0;
	bool more = taken != c->taken || kept == 0;

	c->taken = taken;
	return more;
}

static void
late(void *arg)
{
	struct serve_conn *c = arg;

	switch (c->step) {
	case STEP_HEAD:
	case STEP_BODY:
		refuse_unread(c, 408, "timeout", "the request did not come to its end in time");
		return;
	case STEP_ANSWERS:
	case STEP_STREAMS:
		if (is_taken(c)) {
			serve_conn_late(c, SERVE_WRITE_S);
			return;
		}
		serve_conn_drop(c, true);
		return;
	default:
		serve_conn_drop(c, c->step == STEP_LINGERS);
	}
}

/* ---- a request ---- */

static bool
keep_head(struct serve_conn *c, struct serve_request *q)
{
	struct http_head *head = &c->reader.head;
	struct err err = {0};
	const char *mark;

	q->is_tls = c->conn.ssl != NULL;
	head->scheme = q->is_tls ? HTTP_TLS : HTTP_PLAIN;
	if (head->host.len == 0)
		head->host = (struct http_text){ "localhost", 9 };
	if (head->port == 0)
		head->port = q->door->is_tcp ? q->door->port : 80;
	http_head_drop(head, "expect");
	if (http_head_check(head, &err) < 0 || head->upgrade.len > 0 || head->path.at[0] != '/') {
		refuse_unread(c, 400, "bad_request",
		              err.text[0] != '\0' ? err.text : "this is no request of this server's");
		return false;
	}
	http_head_encode(&q->head_data, head);
	if (buf_failed(&q->head_data) || http_head_decode(&q->head_data, &q->head, &err) < 0) {
		refuse_unread(c, 431, "head_too_large", "the head of the request is too long");
		return false;
	}
	mark = memchr(q->head.path.at, '?', q->head.path.len);
	q->path = strndup(q->head.path.at, q->head.path.len);
	if (q->path == NULL) {
		serve_conn_drop(c, true);
		return false;
	}
	if (mark != NULL) {
		q->path[mark - q->head.path.at] = '\0';
		q->query = q->path + (mark - q->head.path.at) + 1;
	}
	q->is_head = http_text_is(q->head.method, "HEAD");
	return true;
}

/* A connection cannot continue if a request was answered before its body was read.  So a request
 * without a body is offered only when there is nothing left to read. */
static void
take_head(struct serve_conn *c)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct serve_server *s = c->way->server;
	struct serve_request *q;

	c->keep_alive = c->reader.keep_alive && !s->stopping;
	c->step = STEP_BODY;
	buf_free(&c->raw);
	buf_init(&c->raw, 2 * HTTP_HEAD_MAX + IN_MAX);
	q = new_request(c);
	if (q == NULL) {
		serve_conn_drop(c, true);
		return;
	}
	if (!keep_head(c, q) || q->head.length == 0 || !serve_door_check(q))
		return;
	s->handler->head(s->arg, q);
	if (c->step != STEP_BODY)
		return;
	q->is_offered = true;
	if (q->head.length != HTTP_LENGTH_UNKNOWN && q->head.length > q->body_max) {
		refuse(c, 413, "too_large", q->body_max == 0 ? "this takes no body" :
		       "the body is longer than it may be");
		return;
	}
	if (c->reader.expects_continue)
		conn_write(&c->conn, go_on, sizeof(go_on) - 1);
	c->body_since_ms = loop_now_ms();
	serve_conn_late(c, SERVE_BODY_S);
}

static void
take_body(struct serve_conn *c, struct http_text piece)
{
	int r = serve_body_add(c->request, c->way->server->spool, piece.at, piece.len);

	if (r == -EFBIG)
		refuse(c, 413, "too_large", c->request->body_max == 0 ? "this takes no body" :
		       "the body is longer than it may be");
	else if (r < 0)
		refuse(c, 507, "no_space", "there is no room to keep the body: see the disk of the data folder");
	else if (loop_now_ms() - c->body_since_ms > SERVE_BODY_ALL_S * 1000ull)
		refuse(c, 408, "timeout", "the request did not come to its end in time");
	else
		serve_conn_late(c, SERVE_BODY_S);
}

static void
take_request(struct serve_conn *c)
{
	struct serve_server *s = c->way->server;

	loop_cancel_timer(s->loop, &c->late);
	c->step = STEP_ASKED;
	s->stats.requests++;
	if (c->request->head.length == 0) {
		if (!serve_door_check(c->request))
			return;
		s->handler->head(s->arg, c->request);
	}
	if (c->step != STEP_ASKED)
		return;
	c->request->is_offered = false;
	s->handler->request(s->arg, c->request);
}

/* ---- connections for another server ---- */

static bool
is_for_another(const struct serve_conn *c, char host[HTTP_HOST_MAX + 1])
{
	const struct http_text *name = &c->reader.head.host;

	snprintf(host, HTTP_HOST_MAX + 1, "%.*s", (int)name->len, name->len > 0 ? name->at : "");
	return c->way->door.is_carried != NULL && c->way->door.is_carried(host);
}

static void
begin_carrying(struct serve_conn *c, const char *host)
{
	struct buf raw = c->raw;
	struct serve_request *q = new_request(c);

	buf_init(&c->raw, 0);
	loop_cancel_timer(c->way->server->loop, &c->late);
	c->keep_alive = false;
	if (q == NULL || buf_failed(&raw)) {
		serve_conn_drop(c, true);
	} else {
		c->step = STEP_ASKED;
		c->is_carried = true;
		c->way->server->stats.requests++;
		c->way->door.carry(c->way->door.judge_arg, q, host, raw.data, raw.len);
	}
	buf_free(&raw);
}

/* Data that the parser has not used is kept until the response is sent. */
static void
keep_ahead(struct serve_conn *c, const char *data, size_t len)
{
	buf_put(&c->ahead, data, len);
	if (buf_failed(&c->ahead))
		serve_conn_drop(c, true);
	else if (c->ahead.len >= SERVE_AHEAD_MAX)
		conn_pause_reading(&c->conn);
}

static void
feed(struct serve_conn *c, const char *data, size_t len)
{
	struct http_text piece;
	struct err err = {0};
	size_t used, at = 0;
	char host[HTTP_HOST_MAX + 1];

	if (c->step == STEP_IDLE && len > 0) {
		c->step = STEP_HEAD;
		serve_conn_late(c, SERVE_HEAD_S);
	}
	if (c->step == STEP_HEAD && c->way->door.is_carried != NULL)
		buf_put(&c->raw, data, len);
	while (c->step == STEP_HEAD || c->step == STEP_BODY) {
		enum h1_event event = h1_read(&c->reader, data + at, len - at, &used, &piece, &err);

		at += used;
		if (event == H1_MORE)
			return;
		if (event == H1_BAD)
			refuse_unread(c, c->reader.status, "bad_request", err.text);
		else if (event == H1_HEAD && is_for_another(c, host)) {
			begin_carrying(c, host);
			return;
		} else if (event == H1_HEAD)
			take_head(c);
		else if (event == H1_BODY)
			take_body(c, piece);
		else if (event == H1_END)
			take_request(c);
	}
	if (c->step != STEP_DEAD && c->step != STEP_LINGERS && c->keep_alive && at < len)
		keep_ahead(c, data + at, len - at);
}

static void
go_on(void *arg)
{
	struct serve_conn *c = arg;
	struct buf ahead = c->ahead;

	if (c->failed) {
		serve_conn_drop(c, true);
		return;
	}
	if (c->step != STEP_IDLE)
		return;
	buf_init(&c->ahead, SERVE_AHEAD_MAX + IN_MAX);
	if (ahead.len > 0)
		feed(c, (char *)ahead.data, ahead.len);
	buf_free(&ahead);
	/* An incomplete request will get no more data. */
	if (c->ended && (c->step == STEP_IDLE || c->step == STEP_HEAD || c->step == STEP_BODY))
		serve_conn_drop(c, false);
	else if (c->step != STEP_DEAD && c->ahead.len < SERVE_AHEAD_MAX && !c->ended)
		conn_resume_reading(&c->conn);
}

void
serve_conn_answered(struct serve_conn *c)
{
	struct serve_server *s = c->way->server;

	c->request = NULL;
	c->is_carried = false;
	if (!c->keep_alive || s->stopping) {
		linger(c);
		return;
	}
	c->step = STEP_IDLE;
	c->written = c->taken = 0;
	h1_reader_rest(&c->reader);
	serve_conn_late(c, SERVE_IDLE_S);
	loop_at_round_end(s->loop, &c->again);
}

/* ---- events of the connection ---- */

static void
take_end(struct serve_conn *c)
{
	c->ended = true;
	conn_pause_reading(&c->conn);
	if (c->step == STEP_ASKED)
		__atomic_store_n(&c->request->is_leaving, true, __ATOMIC_RELAXED);
	if (c->is_carried && c->request != NULL) {
		c->request->received(c->request, NULL, 0);
		return;
	}
	/* A client that waits for a response may have sent all it will send; a client that follows
	 * a stream has no reason to close its side. */
	if (c->step != STEP_ASKED && c->step != STEP_ANSWERS &&
	    !(c->step == STEP_IDLE && c->ahead.len > 0))
		serve_conn_drop(c, false);
}

static SSL *
make_tls(const struct serve_door *door)
{
	SSL *ssl = SSL_new(door->tls);

	if (ssl != NULL)
		SSL_set_accept_state(ssl);
	return ssl;
}

/* A TLS handshake begins with this byte, and no HTTP request does.  False: nothing can be read yet. */
#define TLS_HANDSHAKE 22
static bool
become_sure(struct serve_conn *c)
{
	unsigned char first;
	ssize_t n = recv(c->conn.source.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	SSL *ssl;

	c->is_unsure = false;
	if (n != 1 || first != TLS_HANDSHAKE)
		return true;
	ssl = make_tls(&c->way->door);
	if (ssl == NULL)
		serve_conn_drop(c, true);
	else
		conn_start_tls(&c->conn, ssl);
	return false;
}

static void
readable(void *arg)
{
	struct serve_conn *c = arg;

	if (c->is_unsure && !become_sure(c))
		return;
	while (c->step != STEP_DEAD && c->conn.reading) {
		ssize_t n = conn_read(&c->conn, in, sizeof(in));

		if (n == -EAGAIN)
			return;
		if (n < 0) {
			serve_conn_drop(c, true);
		} else if (n == 0) {
			take_end(c);
		} else if (c->step == STEP_LINGERS) {
			c->written += (uint64_t)n;
			if (c->written > LINGER_BYTES)
				serve_conn_drop(c, true);
		} else if (c->is_carried && c->request != NULL) {
			c->request->received(c->request, in, (size_t)n);
		} else if (c->step == STEP_IDLE || c->step == STEP_HEAD || c->step == STEP_BODY) {
			if (c->ahead.len > 0)
				keep_ahead(c, in, (size_t)n);
			else
				feed(c, in, (size_t)n);
		} else if (c->keep_alive) {
			keep_ahead(c, in, (size_t)n);
		}
	}
}

static void
writable(void *arg)
{
	struct serve_conn *c = arg;

	if (c->step == STEP_ANSWERS) {
		if (serve_conn_pump(c))
			serve_conn_answered(c);
	} else if (c->step == STEP_STREAMS) {
		serve_conn_late(c, SERVE_WRITE_S);
		c->request->writable(c->request);
	}
}

/* For a client that speaks HTTP where TLS is expected. */
static void
tell_tls(struct serve_conn *c)
{
	static const char answer[] =
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
		"Content-Length: 96\r\n\r\n"
		"{\"error\":{\"code\":\"tls\",\"message\":\"this port speaks TLS: ask with https:// instead "
		"of http://\"}}\n";
	char rest[4096];

	/* Unread data would turn the close into a reset, and destroy this message. */
	while (recv(c->conn.source.fd, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
	(void)!send(c->conn.source.fd, answer, sizeof(answer) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(c->conn.source.fd, SHUT_WR);
}

static void
broken(void *arg, const struct err *error)
{
	struct serve_conn *c = arg;
	bool plain = c->way->door.tls != NULL && error->code == EPROTO &&
	             strstr(error->text, "http request") != NULL;

	if (plain)
		tell_tls(c);
	serve_conn_drop(c, !plain);
}

static void
ready(void *arg)
{
	(void)arg;
}

void
serve_conn_take(struct serve_doorway *way, int fd)
{
	static const struct conn_handler handler = { .ready = ready, .readable = readable,
	                                             .writable = writable, .broken = broken };
	struct serve_server *s = way->server;
	struct serve_conn *c = calloc(1, sizeof(*c));
	struct ucred peer = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);
	bool encrypts = way->door.tls != NULL && !way->door.takes_plain;
	SSL *ssl = c != NULL && encrypts ? make_tls(&way->door) : NULL;

	if (c == NULL || (encrypts && ssl == NULL)) {
		close(fd);
		free(c);
		return;
	}
	if (!way->door.is_tcp)
		(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	c->way = way;
	c->uid = peer.uid;
	c->is_unsure = way->door.takes_plain && way->door.tls != NULL;
	loop_prepare_timer(&c->late, late, c);
	loop_prepare_round(&c->again, go_on, c);
	h1_reader_init(&c->reader, H1_REQUESTS);
	buf_init(&c->raw, 2 * HTTP_HEAD_MAX + IN_MAX);
	buf_init(&c->ahead, SERVE_AHEAD_MAX + IN_MAX);
	buf_init(&c->out, 0);
	c->next = s->conns;
	c->at = &s->conns;
	if (s->conns != NULL)
		s->conns->at = &c->next;
	s->conns = c;
	way->n_conns++;
	s->stats.conns++;
	s->stats.accepted++;
	s->idle_since_ms = 0;
	serve_conn_late(c, SERVE_HEAD_S);
	conn_init(&c->conn, s->loop, fd, ssl, &handler, c);
}

int
serve_new(struct loop *loop, const struct serve_handler *handler, void *arg, int spool,
          struct serve_server **ret_server, struct err *err)
{
	struct serve_server *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return err_errno(err, "cannot begin to serve");
	*s = (struct serve_server){ .loop = loop, .handler = handler, .arg = arg, .spool = spool,
	                            .idle_since_ms = loop_now_ms(),
	                            .bury = { .run = bury, .arg = s } };
	*ret_server = s;
	return 0;
}
