/* gate_tls.c - see gate_tls.h. */
#include "proc/gate/gate_tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proc/gate/gate.h"

struct gate_tls {
	SSL_CTX *ctx;
	struct gate_leaves *leaves;
};

/* The name that OpenSSL reads in the ClientHello must be the one that we read.  Otherwise a client
 * could show the two parsers different names. */
static bool
tls_name_agrees(const SSL *ssl, const struct gate_conn *gc)
{
	const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;

	if (sni == NULL)
		return gc->is_wire || gc->sni[0] == '\0';
	if (http_authority_parse((struct http_text){ sni, strlen(sni) }, host, &port, NULL) < 0)
		return false;
	/* If TLS starts after plain bytes, the gate has not read the name before. */
	return port == 0 && strcmp(host, gc->is_wire ? gc->name : gc->sni) == 0;
}

bool
gate_tls_agrees(const struct gate_conn *gc)
{
	return tls_name_agrees(gc->conn.ssl, gc);
}

/* Also called if there is no name.  A name must be accepted to be kept in tickets. */
static int
tls_on_name(SSL *ssl, int *alert, void *arg)
{
	(void)arg;
	if (tls_name_agrees(ssl, SSL_get_app_data(ssl)))
		return SSL_TLSEXT_ERR_OK;
	*alert = SSL_AD_UNRECOGNIZED_NAME;
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int
tls_on_certificate(SSL *ssl, void *arg)
{
	struct gate_tls *tls = arg;
	struct gate_conn *gc = SSL_get_app_data(ssl);
	const char *host = gc->sni[0] != '\0' ? gc->sni :
	                   gc->name[0] != '\0' ? gc->name : gc->address;
	X509 *leaf = gate_leaves_get(tls->leaves, host);

	return leaf != NULL &&
	       SSL_use_cert_and_key(ssl, leaf, gate_leaves_key(tls->leaves), NULL, 1) == 1;
}

static int
tls_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
            const unsigned char *in, unsigned int in_len, void *arg)
{
	static const unsigned char http[] = "\x02h2\x08http/1.1\x08http/1.0";
	static const unsigned char wire[] = "\x0apostgresql";
	const struct gate_conn *gc = SSL_get_app_data(ssl);
	const unsigned char *ours = gc->is_wire ? wire : http;
	unsigned char *chosen;

	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, ours,
	                          gc->is_wire ? sizeof(wire) - 1 : sizeof(http) - 1, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

bool
gate_tls_chose_h2(const struct gate_conn *gc)
{
	const unsigned char *chosen;
	unsigned int len;

	SSL_get0_alpn_selected(gc->conn.ssl, &chosen, &len);
	return len == 2 && memcmp(chosen, "h2", 2) == 0;
}

/* The gate does not judge certificates.  The handshake proves that the client has the key. */
static int
tls_on_client_certificate(X509_STORE_CTX *ctx, void *arg)
{
	(void)ctx;
	(void)arg;
	return 1;
}

static void
tls_ask(SSL *ssl)
{
	static const unsigned char context[] = "asks";

	SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
	/* Do not resume sessions of connections that were not asked for a certificate. */
	SSL_set_session_id_context(ssl, context, sizeof(context));
}

void
gate_tls_take_key(struct gate_conn *gc)
{
	X509 *certificate = gc->asks ? SSL_get1_peer_certificate(gc->conn.ssl) : NULL;

	gc->has_key = certificate != NULL &&
	              X509_pubkey_digest(certificate, EVP_sha256(), gc->key, NULL) == 1;
	X509_free(certificate);
}

static void
tls_set_up(struct gate_tls *tls)
{
	SSL_CTX *ctx = tls->ctx;

	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                         SSL_OP_CIPHER_SERVER_PREFERENCE |
	                         SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* All three are safe; this is the order of their speed with AES hardware. */
	SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
	                         "TLS_CHACHA20_POLY1305_SHA256");
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_tlsext_servername_callback(ctx, tls_on_name);
	SSL_CTX_set_cert_cb(ctx, tls_on_certificate, tls);
	SSL_CTX_set_alpn_select_cb(ctx, tls_on_alpn, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, tls_on_client_certificate, NULL);
}

static X509 *
tls_read_certificate(const char *text)
{
	BIO *bio = BIO_new_mem_buf(text, -1);
	X509 *certificate = bio == NULL ? NULL : PEM_read_bio_X509(bio, NULL, NULL, NULL);

	BIO_free(bio);
	return certificate;
}

static EVP_PKEY *
tls_read_key(const char *text)
{
	BIO *bio = BIO_new_mem_buf(text, -1);
	EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);

	BIO_free(bio);
	return key;
}

int
gate_tls_new(const char *certificate, const char *key, struct gate_tls **ret_tls,
             struct err *err)
{
	struct gate_tls *tls = calloc(1, sizeof(*tls));
	X509 *authority = tls_read_certificate(certificate);
	EVP_PKEY *authority_key = tls_read_key(key);
	int r = 0;

	if (tls == NULL || authority == NULL || authority_key == NULL)
		r = err_set(err, EINVAL, "cannot use the cell's certificate authority");
	if (r == 0)
		r = gate_leaves_new(authority, authority_key, &tls->leaves, err);
	X509_free(authority);
	EVP_PKEY_free(authority_key);
	if (r == 0) {
		tls->ctx = SSL_CTX_new(TLS_server_method());
		if (tls->ctx == NULL)
			r = err_set(err, ENOMEM, "cannot set up TLS");
	}
	if (r < 0) {
		gate_tls_free(tls);
		return r;
	}
	tls_set_up(tls);
	*ret_tls = tls;
	return 0;
}

void
gate_tls_free(struct gate_tls *tls)
{
	if (tls == NULL)
		return;
	gate_leaves_free(tls->leaves);
	SSL_CTX_free(tls->ctx);
	free(tls);
}

struct gate_tls *
gate_tls_get(struct gate *g)
{
	struct err err = {0};

	if (g->tls != NULL || g->ca_key == NULL)
		return g->tls;
	if (gate_tls_new(g->ca_certificate, g->ca_key, &g->tls, &err) < 0)
		fprintf(stderr, "cloister-gate: %s\n", err.text);
	OPENSSL_clear_free(g->ca_key, strlen(g->ca_key));
	OPENSSL_free(g->ca_certificate);
	g->ca_key = g->ca_certificate = NULL;
	return g->tls;
}

static void
tls_warm_up(void *arg)
{
	(void)gate_tls_get(arg);
}

void
gate_tls_warm_up(struct gate *g)
{
	if (g->tls != NULL || g->ca_key == NULL)
		return;
	g->warm_up.run = tls_warm_up;
	g->warm_up.arg = g;
	loop_at_round_end(g->loop, &g->warm_up);
}

SSL *
gate_tls_accept(struct gate_tls *tls, struct gate_conn *gc)
{
	SSL *ssl = SSL_new(tls->ctx);

	if (ssl == NULL) {
		ERR_clear_error();
		return NULL;
	}
	SSL_set_app_data(ssl, gc);
	SSL_set_accept_state(ssl);
	if (gc->asks)
		tls_ask(ssl);
	return ssl;
}
