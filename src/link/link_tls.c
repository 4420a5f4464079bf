/* link_tls.c - see link_cert.h: TLS by the authority of one service. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "link/link_parts.h"

/* What both sides have in common. */
static SSL_CTX *
new_tls(const SSL_METHOD *method)
{
	OWN(tls_freep) SSL_CTX *tls = SSL_CTX_new(method);

	if (tls == NULL || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1)
		return NULL;
	/* A ticket would let a worker come back without its certificate. */
	SSL_CTX_set_options(tls, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(tls, 0);
	SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
	return TAKE(tls);
}

/* The authority is known by its fingerprint, and workers are on a list that is what ends their rights.  A clock that was set
 * must not part them. */
static void
ignore_times(X509_VERIFY_PARAM *param)
{
	(void)X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_NO_CHECK_TIME);
}

int
link_tls_service(const struct link_authority *a, SSL_CTX **ret_tls, struct err *err)
{
	OWN(tls_freep) SSL_CTX *tls = new_tls(TLS_server_method());
	OWN(pkey_freep) EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	OWN(x509_freep) X509 *cert = key == NULL ? NULL : link_certify_service(a, key);

	/* The worker looks for the authority in what it is shown. */
	if (tls == NULL || cert == NULL || SSL_CTX_use_certificate(tls, cert) != 1 || SSL_CTX_use_PrivateKey(tls, key) != 1 ||
	    SSL_CTX_add1_chain_cert(tls, a->cert) != 1 || X509_STORE_add_cert(SSL_CTX_get_cert_store(tls), a->cert) != 1)
		return link_ssl_failed(err, "TLS for workers");
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	ignore_times(SSL_CTX_get0_param(tls));
	*ret_tls = TAKE(tls);
	return 0;
}

/* Trusts the one certificate among those shown whose fingerprint is ARG. */
static int
verify_pinned(X509_STORE_CTX *ctx, void *arg)
{
	STACK_OF(X509) *shown = X509_STORE_CTX_get0_untrusted(ctx), *trusted = sk_X509_new_null();
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(ctx);
	char print[LINK_HEX + 1];
	int ok = 0;

	for (int i = 0; trusted != NULL && i < sk_X509_num(shown); i++)
		if (link_print_of(sk_X509_value(shown, i), print) && CRYPTO_memcmp(print, arg, LINK_HEX) == 0)
			(void)sk_X509_push(trusted, sk_X509_value(shown, i));
	if (trusted == NULL || sk_X509_num(trusted) == 0) {
		X509_STORE_CTX_set_error(ctx, X509_V_ERR_CERT_UNTRUSTED);
	} else if (X509_VERIFY_PARAM_set1_host(param, LINK_SERVICE_NAME, 0) == 1) {
		ignore_times(param);
		X509_STORE_CTX_set0_trusted_stack(ctx, trusted);
		ok = X509_verify_cert(ctx) == 1;
	}
	sk_X509_free(trusted);
	return ok;
}

static int
use_own(SSL_CTX *tls, int dir, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(pkey_freep) EVP_PKEY *key = NULL;
	OWN(x509_freep) X509 *cert = NULL;
	int r = read_file_at(dir, LINK_CERT_FILE, LINK_CERT_MAX, &text, NULL, err);

	r = r == 0 ? link_read_key(dir, LINK_KEY_FILE, &key, err) : r;
	if (r < 0)
		return r;
	cert = link_read_cert(text);
	if (cert == NULL || SSL_CTX_use_certificate(tls, cert) != 1 || SSL_CTX_use_PrivateKey(tls, key) != 1)
		return link_ssl_failed(err, "this worker's certificate");
	return 0;
}

int
link_tls_worker(const char *print, int dir, SSL_CTX **ret_tls, struct err *err)
{
	OWN(tls_freep) SSL_CTX *tls = new_tls(TLS_client_method());
	union { const char *in; void *out; } arg = { .in = print };
	int r;

	if (tls == NULL)
		return link_ssl_failed(err, "TLS to the service");
	SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(tls, verify_pinned, arg.out);
	r = dir >= 0 ? use_own(tls, dir, err) : 0;
	if (r == 0)
		*ret_tls = TAKE(tls);
	return r;
}

bool
link_tls_peer(const SSL *ssl, char ret_id[LINK_ID_LEN + 1], char ret_print[LINK_HEX + 1])
{
	const X509 *cert = SSL_get0_peer_certificate(ssl);
	char name[LINK_ID_LEN + 2] = "";

	if (cert == NULL || SSL_get_verify_result(ssl) != X509_V_OK ||
	    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, sizeof(name)) != LINK_ID_LEN ||
	    !link_is_hex(name, LINK_ID_LEN))
		return false;
	memcpy(ret_id, name, LINK_ID_LEN + 1);
	return link_print_of(cert, ret_print);
}
