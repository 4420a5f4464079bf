/* certificate.c - see certificate.h. */
#include "egress/certificate.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_pkey.h"

OWN_BY(bio_freep, BIO *, BIO_free)
OWN_BY(x509_freep, X509 *, X509_free)
OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)

static void
chain_freep(STACK_OF(X509) **chain)
{
	sk_X509_pop_free(*chain, X509_free);
}

static X509 *
read_certificate(BIO *in)
{
	X509 *certificate = in == NULL ? NULL : PEM_read_bio_X509(in, NULL, scheme_no_passphrase, NULL);

	ERR_clear_error();
	return certificate;
}

static BIO *
read_from(struct http_text text)
{
	return BIO_new_mem_buf(text.at, (int)text.len);
}

/* ---- placeholders ---- */

static bool
is_mtls(const struct bound_secret *b)
{
	return strcmp(b->secret->scheme->name, "mtls") == 0;
}

int
mtls_open(struct secrets *s, struct err *err)
{
	for (size_t i = 0; i < s->bound.n; i++) {
		const struct bound_secret *b = &s->bound.at[i];
		OWN(bio_freep) BIO *in = read_from(b->placeholder[SECRET_SECRET]);
		OWN(x509_freep) X509 *fake = is_mtls(b) ? read_certificate(in) : NULL;

		if (!is_mtls(b))
			continue;
		if (fake == NULL || X509_pubkey_digest(fake, EVP_sha256(), s->mtls.at[i], NULL) != 1)
			return err_set(err, EINVAL, "the secret '%s' is no certificate with its key: give both, "
			               "in PEM", b->secret->name);
		s->mtls.is[i] = true;
	}
	return 0;
}

bool
mtls_is_wanted(const struct secrets *s, const char *host)
{
	for (size_t i = 0; i < s->bound.n; i++)
		if (s->mtls.is[i] && policy_mentions_host(s->bound.at[i].secret->scope, host))
			return true;
	return false;
}

/* Set ex->t.certificate to the certificate that EX uses. */
enum stage_answer
stage_certificate(struct exchange *ex)
{
	const struct secrets *s = &ex->courier->secrets;
	char reason[COURIER_NOTE_MAX], why[EXCHANGE_MISFIT_MAX];

	ex->t.certificate = 0;
	for (size_t i = 0; ex->request.has_key && i < s->bound.n; i++) {
		if (!s->mtls.is[i] || memcmp(s->mtls.at[i], ex->request.key, EGRESS_KEY) != 0)
			continue;
		if (exchange_may_use(ex, s->bound.at[i].secret)) {
			if (secrets_is_revoked(s, s->view, i, reason, sizeof(reason))) {
				exchange_note_quiet(ex, s->view, i);
				exchange_refuse(ex, "revoked", reason);
				return STAGE_REFUSE;
			}
			if (secret_has_ended(s->view->at[i])) {
				courier_ask_keeper(ex->courier);
				exchange_refuse(ex, "expired", "the certificate has ended, and no new one could be "
				                "fetched");
				return STAGE_REFUSE;
			}
			ex->t.certificate = (uint8_t)(i + 1);
			return STAGE_CONTINUE;
		}
		exchange_tell_misfit(ex, s->bound.at[i].secret, why, sizeof(why));
		snprintf(reason, sizeof(reason), "the client shows the placeholder of the certificate '%s', "
		         "which is not for this request: %s", s->bound.at[i].secret->name, why);
		exchange_refuse(ex, "exfiltration", reason);
		return STAGE_REFUSE;
	}
	return STAGE_CONTINUE;
}

/* ---- real certificates ---- */

/* The first certificate is that of the key; the others lead to an authority. */
static STACK_OF(X509) *
read_chain(BIO *in)
{
	STACK_OF(X509) *chain = sk_X509_new_null();
	X509 *next;

	while (chain != NULL && (next = read_certificate(in)) != NULL)
		if (sk_X509_push(chain, next) <= 0)
			X509_free(next);
	return chain;
}

int
mtls_show(const struct secrets *s, unsigned certificate, SSL *ssl, struct err *err)
{
	struct http_text real = s->view->at[certificate - 1]->real[SECRET_SECRET];
	OWN(bio_freep) BIO *certificates = NULL, *keys = NULL;
	OWN(chain_freep) STACK_OF(X509) *chain = NULL;
	OWN(x509_freep) X509 *own = NULL;
	OWN(pkey_freep) EVP_PKEY *key = NULL;
	int ok = 0;

	certificates = read_from(real);
	keys = read_from(real);
	own = read_certificate(certificates);
	chain = read_chain(certificates);
	key = keys == NULL ? NULL : PEM_read_bio_PrivateKey(keys, NULL, scheme_no_passphrase, NULL);
	if (own != NULL && chain != NULL && key != NULL)
		ok = SSL_use_cert_and_key(ssl, own, key, chain, 1);
	ERR_clear_error();
	return ok == 1 ? 0 : err_set(err, EINVAL, "the secret '%s' cannot be used: it is to be a "
	                             "certificate and the private key of that certificate, in PEM",
	                             s->bound.at[certificate - 1].secret->name);
}

void
mtls_shown(SSL *ssl)
{
	SSL_certs_clear(ssl);
}
