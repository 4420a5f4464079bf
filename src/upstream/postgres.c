/* postgres.c - see postgres.h: TLS, the login, then raw bytes. */
#include "upstream/postgres.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/objects.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "upstream/upstream.h"
#include "wire/pg_login.h"

void
postgres_end(struct postgres *p)
{
	if (p->login == NULL)
		return;
	pg_login_wipe(p->login);
	free(TAKE(p->login));
}

static void
fail(struct upstream *up, const char *format, const char *text)
{
	struct failure failure;

	failure_set(&failure, 502, "login", "login failed", format, text);
	upstream_fail(up, &failure);
}

/* From here on bytes pass through; REST has come already. */
static void
begin_raw(struct upstream *up, struct transfer *t, const unsigned char *rest, size_t len)
{
	struct postgres *p = t->postgres;
	bool told = p->login != NULL && p->login->told_password;

	up->kind = &upstream_raw;
	postgres_end(p);
	p->logged_in(t, told);
	t->owner->moved(t, TRANSFER_RAW);
	transfer_touch(t, TRANSFER_RAW_IDLE_S);
	if (len > 0)
		t->owner->give(t, rest, len);
	up->kind->more(up, t);
	if (up->step == UP_READY && up->transfer == t) {
		conn_resume_reading(&up->conn);
		up->kind->readable(up);
	}
}

static void
send_cancel(struct upstream *up, struct transfer *t)
{
	struct postgres *p = t->postgres;
	struct pool *pool = up->pool;
	uint32_t pid;

	p->asked->pos = 0;
	(void)buf_get_u32(p->asked, &pid);
	buf_reset(&pool->out);
	pg_put_cancel(&pool->out, pid, p->asked->data + 4, p->asked->len - 4);
	if (upstream_write(up, pool->out.data, pool->out.len))
		begin_raw(up, t, NULL, 0);
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
make_nonce(struct postgres *p)
{
	unsigned char bytes[SCRAM_NONCE_SIZE];

	_Static_assert(SCRAM_NONCE_SIZE / 3 * 4 < sizeof(p->nonce), "its text has room");
	return RAND_bytes(bytes, sizeof(bytes)) == 1 &&
	       codec_base64(CODEC_BASE64, bytes, sizeof(bytes), p->nonce) > 0;
}

static void
begin_login(struct upstream *up, struct transfer *t)
{
	struct postgres *p = t->postgres;
	struct pool *pool = up->pool;
	struct pg_start start;
	const char *typed;

	p->login = calloc(1, sizeof(*p->login));
	if (p->login == NULL || !make_nonce(p)) {
		fail(up, "%s", "there is no memory");
		return;
	}
	p->login->nonce = p->nonce;
	p->login->is_private = up->conn.ssl != NULL;
	find_binding(up, &p->login->binding);
	p->asked->pos = 0;
	/* It was decoded before. */
	if (pg_start_decode(p->asked, &start, &typed) < 0)
		abort();
	p->login->user = start.user;
	buf_reset(&pool->out);
	pg_put_start(&pool->out, &start);
	transfer_touch(t, POSTGRES_LOGIN_S);
	conn_resume_reading(&up->conn);
	(void)upstream_write(up, pool->out.data, pool->out.len);
}

static void
postgres_start(struct upstream *up, struct transfer *t)
{
	struct pool *pool = up->pool;

	if (t->postgres->tls && up->conn.ssl == NULL) {
		buf_reset(&pool->out);
		pg_put_ask_tls(&pool->out);
		transfer_touch(t, POSTGRES_LOGIN_S);
		conn_resume_reading(&up->conn);
		(void)upstream_write(up, pool->out.data, pool->out.len);
	} else if (t->postgres->is_cancel) {
		send_cancel(up, t);
	} else {
		begin_login(up, t);
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

/* Feed the server's bytes to the login.  0: it used all; 1: the login is done; -1: T is over. */
static int
feed_login(struct upstream *up, struct transfer *t, const unsigned char *data, size_t len,
           size_t *ret_used)
{
	struct pool *pool = up->pool;
	struct postgres *p = t->postgres;
	struct err err = {0};
	bool ok = true;
	int r;

	p->login->password = p->password(t);
	buf_reset(&pool->out);
	r = pg_login_read(p->login, data, len, ret_used, &pool->out, &err);
	if (pool->out.len > 0) {
		ok = upstream_write(up, pool->out.data, pool->out.len);
		buf_reset(&pool->out);
	}
	if (!ok)
		return -1;
	if (r == -EACCES)
		fail(up, p->login->refusal[0] != '\0' ? "the server refuses the login: %.200s"
		                                     : "the server refuses the login%s",
		     p->login->refusal);
	else if (r < 0)
		fail(up, "the login to the server failed: %.200s", err.text);
	return r < 0 ? -1 : r;
}

static void
postgres_readable(struct upstream *up)
{
	struct transfer *t = up->transfer;
	struct pool *pool = up->pool;
	struct failure failure;
	size_t used;
	ssize_t n;
	int r;

	if (t->postgres->login == NULL) {
		read_tls_answer(up);
		return;
	}
	for (;;) {
		n = conn_read(&up->conn, pool->in, sizeof(pool->in));
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			upstream_failure(&failure, up, (int)-n);
			upstream_fail(up, &failure);
			return;
		}
		r = feed_login(up, t, pool->in, (size_t)n, &used);
		if (r < 0)
			return;
		if (r > 0) {
			begin_raw(up, t, pool->in + used, (size_t)n - used);
			return;
		}
	}
}

/* The agent's bytes wait for the end of the login. */
static void
postgres_more(struct upstream *up, struct transfer *t)
{
	(void)up;
	(void)t;
}

const struct upstream_kind upstream_postgres = {
	.start = postgres_start, .send = upstream_send_later, .more = postgres_more,
	.resume = postgres_more, .cancel = upstream_cancel, .readable = postgres_readable,
	.broken = upstream_broken,
};
