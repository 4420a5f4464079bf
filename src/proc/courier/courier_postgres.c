/* courier_postgres.c - logs in to a Postgres server: TLS, the login with the real password, then
 * raw bytes. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/courier/courier_upstream.h"
#include "proc/courier/courier_wire_parts.h"
#include "wire/pg_login.h"

void
wire_free_login(struct exchange_wire *w)
{
	if (w->login == NULL)
		return;
	pg_login_wipe(w->login);
	free(TAKE(w->login));
}

/* ---- messages of the gate ---- */

static bool
is_asked_for(const struct exchange *ex)
{
	return ex->wire != NULL && ex->wire->kind == EGRESS_POSTGRES && !ex->wire->asked &&
	       ex->step == STEP_WAIT;
}

/* Everything that the agent wrote, except its password. */
static bool
judge_login(struct exchange *ex, const struct pg_start *start, const char *password)
{
	struct http_text others[2 + 2 * PG_PARAMETERS_MAX];
	struct wire_attempt a = { .password = { password, strlen(password) },
	                          .user = { start->user, strlen(start->user) }, .others = others };

	others[a.n_others++] = a.user;
	others[a.n_others++] = (struct http_text){ start->database, strlen(start->database) };
	for (size_t i = 0; i < start->n; i++) {
		const struct pg_parameter *p = &start->parameters[i];

		others[a.n_others++] = (struct http_text){ p->name, strlen(p->name) };
		others[a.n_others++] = (struct http_text){ p->value, strlen(p->value) };
	}
	return wire_judge(ex, &a, &ex->wire->secret);
}

int
wire_take_postgres(struct exchange *ex, struct buf *body)
{
	struct exchange_wire *w = ex->wire;
	struct pg_start start;
	const char *password;

	if (ex->step == STEP_DRAIN)
		return 0;
	if (!is_asked_for(ex))
		return -EBADMSG;
	buf_put(&ex->frame, body->data, body->len);
	if (buf_failed(&ex->frame))
		return -ENOMEM;
	if (pg_start_decode(&ex->frame, &start, &password) < 0)
		return -EBADMSG;
	w->asked = true;
	snprintf(w->database, sizeof(w->database), "%s", start.database);
	if (!judge_login(ex, &start, password))
		return 0;
	w->tls = wire_wants_tls(wire_secret(ex, w->secret));
	exchange_touch(ex, 2 * WIRE_LOGIN_S);
	pool_connect(ex);
	return 0;
}

int
exchange_wire_cancel(struct exchange *ex, struct buf *body)
{
	if (ex->step == STEP_DRAIN)
		return 0;
	if (!is_asked_for(ex) || body->len <= 4 || body->len > 4 + PG_KEY_MAX)
		return -EBADMSG;
	buf_put(&ex->frame, body->data, body->len);
	if (buf_failed(&ex->frame))
		return -ENOMEM;
	ex->wire->asked = ex->wire->is_cancel = true;
	exchange_touch(ex, 2 * WIRE_LOGIN_S);
	pool_connect(ex);
	return 0;
}

/* ---- the server ---- */

static void
fail(struct upstream *up, const char *format, const char *text)
{
	struct courier_failure failure;

	courier_failure_set(&failure, 502, "login", "login failed", format, text);
	upstream_fail(up, &failure);
}

/* From here on bytes pass through; REST has come already. */
static void
begin_raw(struct upstream *up, struct exchange *ex, const unsigned char *rest, size_t len)
{
	struct exchange_wire *w = ex->wire;

	w->done = true;
	up->kind = &upstream_raw;
	ex->step = STEP_RAW;
	ex->first_ms = loop_now_ms();
	exchange_touch(ex, COURIER_RAW_IDLE_S);
	/* A server that got the password could send it back. */
	if (w->login != NULL)
		ex->secrets->carries = w->login->told_password;
	wire_free_login(w);
	if (len > 0)
		exchange_give(ex, rest, len);
	up->kind->more(up, ex);
	if (up->step == UP_READY && up->exchange == ex) {
		conn_resume_reading(&up->conn);
		up->kind->readable(up);
	}
}

static void
send_cancel(struct upstream *up, struct exchange *ex)
{
	struct courier *c = up->courier;
	uint32_t pid;

	ex->frame.pos = 0;
	(void)buf_get_u32(&ex->frame, &pid);
	buf_reset(&c->out);
	pg_put_cancel(&c->out, pid, ex->frame.data + 4, ex->frame.len - 4);
	if (upstream_write(up, c->out.data, c->out.len))
		begin_raw(up, ex, NULL, 0);
}

/* RFC 5929: a hash of the server's certificate, with the hash of the certificate's signature. */
static void
find_binding(const struct upstream *up, struct scram_binding *binding)
{
	X509 *certificate = up->conn.ssl == NULL ? NULL : SSL_get1_peer_certificate(up->conn.ssl);
	int nid = NID_undef;
	unsigned int len = 0;
	const EVP_MD *md;

	if (certificate != NULL &&
	    OBJ_find_sigid_algs(X509_get_signature_nid(certificate), &nid, NULL) == 1) {
		md = nid == NID_md5 || nid == NID_sha1 ? EVP_sha256() : EVP_get_digestbynid(nid);
		if (md != NULL && EVP_MD_get_size(md) <= SCRAM_BINDING_MAX &&
		    X509_digest(certificate, md, binding->data, &len) == 1)
			binding->len = len;
	}
	X509_free(certificate);
}

static bool
make_nonce(struct exchange_wire *w)
{
	unsigned char bytes[SCRAM_NONCE_SIZE];

	_Static_assert(SCRAM_NONCE_SIZE / 3 * 4 < sizeof(w->nonce), "its text has room");
	return RAND_bytes(bytes, sizeof(bytes)) == 1 &&
	       codec_base64(CODEC_BASE64, bytes, sizeof(bytes), w->nonce) > 0;
}

static void
begin_login(struct upstream *up, struct exchange *ex)
{
	struct exchange_wire *w = ex->wire;
	struct courier *c = up->courier;
	struct pg_start start;
	const char *typed;

	w->login = calloc(1, sizeof(*w->login));
	if (w->login == NULL || !make_nonce(w)) {
		fail(up, "%s", "there is no memory");
		return;
	}
	w->login->nonce = w->nonce;
	w->login->is_private = up->conn.ssl != NULL;
	find_binding(up, &w->login->binding);
	ex->frame.pos = 0;
	/* It was decoded before. */
	if (pg_start_decode(&ex->frame, &start, &typed) < 0)
		abort();
	w->login->user = start.user;
	buf_reset(&c->out);
	pg_put_start(&c->out, &start);
	exchange_touch(ex, WIRE_LOGIN_S);
	conn_resume_reading(&up->conn);
	(void)upstream_write(up, c->out.data, c->out.len);
}

static void
postgres_start(struct upstream *up, struct exchange *ex)
{
	struct courier *c = up->courier;

	if (ex->wire->tls && up->conn.ssl == NULL) {
		buf_reset(&c->out);
		pg_put_ask_tls(&c->out);
		exchange_touch(ex, WIRE_LOGIN_S);
		conn_resume_reading(&up->conn);
		(void)upstream_write(up, c->out.data, c->out.len);
	} else if (ex->wire->is_cancel) {
		send_cancel(up, ex);
	} else {
		begin_login(up, ex);
	}
}

/* Read exactly one byte: TLS follows it. */
static void
read_tls_answer(struct upstream *up)
{
	unsigned char answer;
	ssize_t n = conn_read(&up->conn, &answer, 1);

	if (n == -EAGAIN)
		return;
	if (n == 1 && answer == 'S')
		upstream_secure(up);
	else if (n == 1 && answer == 'N')
		fail(up, "%s", "the server speaks no TLS; `with: {tls: off}` in the secret's definition does "
		     "without it");
	else
		fail(up, "%s", n == 1 ? "this is no Postgres server" : "the server closed the connection");
}

/* Feed the server's bytes to the login.  0: it used all; 1: the login is done; -1: EX is over. */
static int
feed_login(struct upstream *up, struct exchange *ex, const unsigned char *data, size_t len,
           size_t *ret_used)
{
	struct courier *c = up->courier;
	struct exchange_wire *w = ex->wire;
	struct err err = {0};
	bool ok = true;
	int r;

	w->login->password = wire_secret(ex, w->secret)->real[SECRET_SECRET].at;
	buf_reset(&c->out);
	r = pg_login_read(w->login, data, len, ret_used, &c->out, &err);
	if (c->out.len > 0) {
		ok = upstream_write(up, c->out.data, c->out.len);
		buf_reset(&c->out);
	}
	if (!ok)
		return -1;
	if (r == -EACCES)
		fail(up, w->login->refusal[0] != '\0' ? "the server refuses the login: %.200s"
		                                     : "the server refuses the login%s",
		     w->login->refusal);
	else if (r < 0)
		fail(up, "the login to the server failed: %.200s", err.text);
	return r < 0 ? -1 : r;
}

static void
postgres_readable(struct upstream *up)
{
	struct exchange *ex = up->exchange;
	struct courier *c = up->courier;
	struct courier_failure failure;
	size_t used;
	ssize_t n;
	int r;

	if (ex->wire->login == NULL) {
		read_tls_answer(up);
		return;
	}
	for (;;) {
		n = conn_read(&up->conn, c->in, sizeof(c->in));
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			upstream_failure(&failure, up, (int)-n);
			upstream_fail(up, &failure);
			return;
		}
		r = feed_login(up, ex, c->in, (size_t)n, &used);
		if (r < 0)
			return;
		if (r > 0) {
			buf_reset(&c->out);
			pg_put_ok(&c->out);
			exchange_give_plain(ex, c->out.data, c->out.len);
			begin_raw(up, ex, c->in + used, (size_t)n - used);
			return;
		}
	}
}

/* The agent's bytes wait for the end of the login. */
static void
postgres_more(struct upstream *up, struct exchange *ex)
{
	(void)up;
	(void)ex;
}

const struct upstream_kind upstream_postgres = {
	.start = postgres_start, .send = upstream_send_later, .more = postgres_more,
	.resume = postgres_more, .cancel = upstream_cancel, .readable = postgres_readable,
	.broken = upstream_broken,
};
