/* conn_tls.c - see conn.h: OpenSSL's side of a connection.
 *
 * OpenSSL does not touch the socket.  One read from the socket serves several records, and when its
 * bytes are used up, OpenSSL gets no more without asking the socket again.  Its output is collected
 * and sent at once; while the conn is corked, also over several writes.  All connections of the
 * process share these buffers, so an idle connection needs none. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tls/conn_parts.h"

#define CONN_WIRE_MAX (4 * (16 * 1024 + 256))   /* four records of TLS */

/* Read from the socket of OWNER, and not yet taken by its SSL. */
static struct {
	struct conn *owner;
	size_t at, len;
	unsigned char data[CONN_IN_MAX];
} shared_in;

/* Written by the SSL of OWNER, and not yet sent. */
static struct {
	struct conn *owner;
	size_t len;
	unsigned char data[CONN_WIRE_MAX];
} shared_out;

/* ---- the socket as OpenSSL sees it ---- */

/* Another conn reads: move the remaining bytes to their owner. */
static void
spill(void)
{
	struct conn *c = shared_in.owner;
	size_t left = shared_in.len - shared_in.at;

	shared_in.owner = NULL;
	if (c == NULL || left == 0)
		return;
	assert(c->in == NULL);
	c->in = malloc(left);
	if (c->in == NULL) {
		conn_fail(c, ENOMEM, NULL);
		return;
	}
	memcpy(c->in, shared_in.data + shared_in.at, left);
	c->in_at = 0;
	c->in_len = left;
}

/* Take bytes that were read before; 0 if there are none. */
static int
take_read(struct conn *c, char *to, size_t len)
{
	size_t left;

	if (c->in != NULL) {
		left = c->in_len - c->in_at;
		len = len < left ? len : left;
		memcpy(to, c->in + c->in_at, len);
		c->in_at += len;
		if (c->in_at == c->in_len) {
			free(c->in);
			c->in = NULL;
		}
		return (int)len;
	}
	if (shared_in.owner != c)
		return 0;
	left = shared_in.len - shared_in.at;
	len = len < left ? len : left;
	memcpy(to, shared_in.data + shared_in.at, len);
	shared_in.at += len;
	return (int)len;
}

static bool
has_read(const struct conn *c)
{
	return c->in != NULL || (shared_in.owner == c && shared_in.at < shared_in.len);
}

static int
socket_read(BIO *bio, char *to, int len)
{
	struct conn *c = BIO_get_data(bio);
	int taken = take_read(c, to, (size_t)len);
	ssize_t n = -1;

	BIO_clear_retry_flags(bio);
	if (taken > 0)
		return taken;
	errno = EAGAIN;
	if (!c->drained && !c->met_end) {
		spill();
		n = recv(c->source.fd, shared_in.data, sizeof(shared_in.data), MSG_DONTWAIT);
	}
	if (n > 0) {
		shared_in.owner = c;
		shared_in.at = 0;
		shared_in.len = (size_t)n;
		/* A socket that gave less than asked has no more; epoll reports new bytes. */
		c->drained = (size_t)n < sizeof(shared_in.data);
		return take_read(c, to, (size_t)len);
	}
	if (n == 0 || c->met_end) {
		c->met_end = true;
		return 0;
	}
	if (errno == EAGAIN || errno == EINTR) {
		c->drained = true;
		BIO_set_retry_read(bio);
	} else {
		conn_fail(c, errno, NULL);
	}
	return -1;
}

static void
send_collected(void)
{
	struct conn *c = shared_out.owner;

	shared_out.owner = NULL;
	if (c != NULL && shared_out.len > 0)
		conn_send(c, shared_out.data, shared_out.len);
	shared_out.len = 0;
}

void
conn_tls_send(struct conn *c)
{
	if (shared_out.owner == c)
		send_collected();
}

static int
socket_write(BIO *bio, const char *from, int len)
{
	struct conn *c = BIO_get_data(bio);
	size_t n = 0, piece;

	BIO_clear_retry_flags(bio);
	while (n < (size_t)len) {
		if (shared_out.owner != c || shared_out.len + (size_t)len - n > CONN_WIRE_MAX)
			send_collected();
		shared_out.owner = c;
		piece = (size_t)len - n < CONN_WIRE_MAX ? (size_t)len - n : CONN_WIRE_MAX;
		memcpy(shared_out.data + shared_out.len, from + n, piece);
		shared_out.len += piece;
		n += piece;
	}
	return len;
}

static long
socket_control(BIO *bio, int command, long number, void *p)
{
	const struct conn *c = BIO_get_data(bio);

	(void)number;
	(void)p;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return c->met_end && !has_read(c);
	default:
		return 0;
	}
}

static int
socket_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

static BIO_METHOD *method;

static void
forget_method(void)
{
	BIO_meth_free(method);
	method = NULL;
}

static const BIO_METHOD *
socket_method(void)
{
	if (method != NULL)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "conn");
	if (method != NULL) {
		OPENSSL_atexit(forget_method);
		BIO_meth_set_read(method, socket_read);
		BIO_meth_set_write(method, socket_write);
		BIO_meth_set_ctrl(method, socket_control);
		BIO_meth_set_create(method, socket_create);
	}
	return method;
}

/* ---- TLS ---- */

void
conn_tls_attach(struct conn *c, SSL *ssl)
{
	const BIO_METHOD *socket = socket_method();
	BIO *bio = socket == NULL ? NULL : BIO_new(socket);

	c->ssl = ssl;
	c->handshaking = true;
	if (bio == NULL) {
		conn_fail(c, ENOMEM, NULL);
		return;
	}
	BIO_set_data(bio, c);
	SSL_set_bio(ssl, bio, bio);
	/* We read ahead ourselves, and a write takes all bytes. */
	SSL_set_read_ahead(ssl, 0);
	SSL_clear_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE);
	SSL_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
}

void
conn_tls_detach(struct conn *c)
{
	if (shared_in.owner == c)
		shared_in.owner = NULL;
	if (shared_out.owner == c) {
		shared_out.owner = NULL;
		shared_out.len = 0;
	}
	free(c->in);
	c->in = NULL;
	SSL_free(c->ssl);
	c->ssl = NULL;
}

/* SSL_get_error() depends on the error queue, whoever filled it.  Clearing costs more than looking. */
static void
forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* SSL gave up.  An error of the socket is already recorded. */
static void
note_fault(struct conn *c)
{
	unsigned long error = ERR_peek_error();
	long verified = SSL_get_verify_result(c->ssl);

	if (c->handshaking && verified != X509_V_OK &&
	    (SSL_get_verify_mode(c->ssl) & SSL_VERIFY_PEER) != 0)
		conn_fail(c, EKEYREJECTED, X509_verify_cert_error_string(verified));
	else if (c->met_end)
		conn_fail(c, ECONNRESET, "the connection was closed in the middle of TLS");
	else
		conn_fail(c, EPROTO, error == 0 ? NULL : ERR_reason_error_string(error));
}

void
conn_tls_handshake(struct conn *c)
{
	int r, error;

	forget_errors();
	r = SSL_do_handshake(c->ssl);
	error = r == 1 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, r);
	/* This also sends an alert that explains our refusal. */
	conn_tls_send(c);
	if (r == 1) {
		c->handshaking = false;
		c->is_ready = c->more = true;
	} else if (error != SSL_ERROR_WANT_READ) {
		note_fault(c);
	}
}

ssize_t
conn_tls_read(struct conn *c, void *data, size_t len)
{
	int n, error;

	if (!conn_tls_has_more(c) && c->drained && !c->met_end) {
		c->more = false;
		return -EAGAIN;
	}
	forget_errors();
	n = SSL_read(c->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
	error = n > 0 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, n);
	conn_tls_send(c);
	c->more = n > 0;
	switch (error) {
	case SSL_ERROR_NONE:
		return n;
	case SSL_ERROR_WANT_READ:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		c->ended_in = true;
		return 0;
	default:
		note_fault(c);
		return -c->fault;
	}
}

void
conn_tls_write(struct conn *c, const void *data, size_t len)
{
	const unsigned char *from = data;
	int n;

	while (len > 0 && c->fault == 0) {
		forget_errors();
		n = SSL_write(c->ssl, from, len < INT_MAX ? (int)len : INT_MAX);
		if (n <= 0) {
			note_fault(c);
			break;
		}
		from += n;
		len -= (size_t)n;
	}
	if (!c->corked)
		conn_tls_send(c);
}

void
conn_tls_say_end(struct conn *c)
{
	forget_errors();
	(void)SSL_shutdown(c->ssl);
	conn_tls_send(c);
}

bool
conn_tls_has_more(const struct conn *c)
{
	return has_read(c) || SSL_pending(c->ssl) > 0;
}
