/* link_cert.c - see link_cert.h: the authority, and what it signs. */
#include "link/link_cert.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "link/link_parts.h"
#include "tls/extension.h"

#define CA_CERT "ca.pem"
#define CA_KEY "ca-key.pem"
#define YEAR (365L * 24 * 3600)
#define CA_YEARS 20
#define CERT_YEARS 10                   /* a worker is shut out by removing it */

int
link_ssl_failed(struct err *err, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return err_set(err, EINVAL, "%s: %s", what, why != NULL ? why : "it is not usable");
}

bool
link_print_of(const X509 *cert, char ret_print[LINK_HEX + 1])
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (cert == NULL || X509_digest(cert, EVP_sha256(), hash, &n) != 1 || 2 * n != LINK_HEX)
		return false;
	codec_hex(hash, n, ret_print);
	return true;
}

void
link_authority_free(struct link_authority *a)
{
	X509_free(a->cert);
	EVP_PKEY_free(a->key);
	*a = (struct link_authority){0};
}

/* ---- making certificates ---- */

/* All but the extensions and the signature.  ISSUER is CERT itself for the authority. */
static bool
fill_in(X509 *cert, const X509 *issuer, const char *name, EVP_PKEY *key, long years)
{
	X509_NAME *subject = X509_get_subject_name(cert);
	BIGNUM *serial = BN_new();
	bool ok = serial != NULL && BN_rand(serial, 120, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
	          BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL;

	BN_free(serial);
	/* The clocks of two machines differ. */
	return ok && X509_set_version(cert, 2) == 1 && X509_gmtime_adj(X509_getm_notBefore(cert), -24 * 3600) != NULL &&
	       X509_gmtime_adj(X509_getm_notAfter(cert), years * YEAR) != NULL &&
	       X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, X509_get_subject_name(issuer)) == 1 && X509_set_pubkey(cert, key) == 1;
}

static bool
fill_in_authority(X509 *cert, EVP_PKEY *key)
{
	return fill_in(cert, cert, "cloister workers", key, CA_YEARS) &&
	       tls_add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       tls_add_extension(cert, cert, NID_key_usage, "critical,keyCertSign") &&
	       tls_add_extension(cert, cert, NID_subject_key_identifier, "hash") && X509_sign(cert, key, EVP_sha256()) > 0;
}

/* For the service, or for the worker ID. */
static X509 *
certify(const struct link_authority *a, EVP_PKEY *key, const char *id)
{
	OWN(x509_freep) X509 *cert = X509_new();
	bool ok = cert != NULL && fill_in(cert, a->cert, id != NULL ? id : LINK_SERVICE_NAME, key, CERT_YEARS) &&
	          tls_add_extension(cert, a->cert, NID_basic_constraints, "critical,CA:FALSE") &&
	          tls_add_extension(cert, a->cert, NID_key_usage, "critical,digitalSignature") &&
	          tls_add_extension(cert, a->cert, NID_ext_key_usage, id != NULL ? "clientAuth" : "serverAuth") &&
	          tls_add_extension(cert, a->cert, NID_authority_key_identifier, "keyid") &&
	          (id != NULL || tls_add_extension(cert, a->cert, NID_subject_alt_name, "DNS:" LINK_SERVICE_NAME)) &&
	          X509_sign(cert, a->key, EVP_sha256()) > 0;

	return ok ? TAKE(cert) : NULL;
}

X509 *
link_certify_service(const struct link_authority *a, EVP_PKEY *key)
{
	return certify(a, key, NULL);
}

/* ---- files ---- */

int
link_write_pem(int dir, const char *name, const X509 *cert, const EVP_PKEY *key, struct err *err)
{
	char temporary[64];
	FILE *out;
	int fd;
	bool ok;

	snprintf(temporary, sizeof(temporary), ".%s.new", name);
	(void)!unlinkat(dir, temporary, 0);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (out == NULL)
		return err_errno(err, "cannot write '%s'", name);
	ok = cert != NULL ? PEM_write_X509(out, cert) == 1 : PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
	ok = fflush(out) == 0 && fsync(fd) == 0 && ok;
	ok = fclose(out) == 0 && ok;
	if (!ok || renameat(dir, temporary, dir, name) < 0)
		return err_errno(err, "cannot write '%s'", name);
	return 0;
}

int
link_read_key(int dir, const char *name, EVP_PKEY **ret_key, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(bio_freep) BIO *in = NULL;
	size_t len = 0;
	int r = read_file_at(dir, name, LINK_CERT_MAX, &text, &len, err);

	if (r < 0)
		return r;
	in = BIO_new_mem_buf(text, (int)len);
	*ret_key = in == NULL ? NULL : PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
	explicit_bzero(text, len);
	return *ret_key != NULL ? 0 : link_ssl_failed(err, name);
}

X509 *
link_read_cert(const char *text)
{
	OWN(bio_freep) BIO *in = BIO_new_mem_buf(text, -1);
	X509 *cert = in == NULL ? NULL : PEM_read_bio_X509(in, NULL, NULL, NULL);

	ERR_clear_error();
	return cert;
}

static int
make_authority(int dir, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	OWN(x509_freep) X509 *cert = X509_new();
	int r;

	if (key == NULL || cert == NULL || !fill_in_authority(cert, key))
		return link_ssl_failed(err, "cannot make an authority for workers");
	/* The certificate comes last: with it, both are there. */
	r = link_write_pem(dir, CA_KEY, NULL, key, err);
	return r < 0 ? r : link_write_pem(dir, CA_CERT, cert, NULL, err);
}

int
link_authority_open(int dir, struct link_authority *ret_authority, struct err *err)
{
	OWN(link_authority_free) struct link_authority a = {0};
	OWN(freep) char *text = NULL;
	int r = faccessat(dir, CA_CERT, F_OK, 0) == 0 ? 0 : make_authority(dir, err);

	r = r == 0 ? read_file_at(dir, CA_CERT, LINK_CERT_MAX, &text, NULL, err) : r;
	r = r == 0 ? link_read_key(dir, CA_KEY, &a.key, err) : r;
	if (r < 0)
		return err_wrap(err, "the authority for workers");
	a.cert = link_read_cert(text);
	if (!link_print_of(a.cert, a.print) || X509_check_private_key(a.cert, a.key) != 1)
		return link_ssl_failed(err, "the authority for workers");
	*ret_authority = a;
	a = (struct link_authority){0};
	return 0;
}

/* ---- requests ---- */

static int
put_pem(BIO *out, char ret_text[LINK_CERT_MAX])
{
	int n = BIO_read(out, ret_text, LINK_CERT_MAX - 1);

	if (n <= 0 || n == LINK_CERT_MAX - 1)
		return -EFBIG;
	ret_text[n] = '\0';
	return 0;
}

int
link_authority_sign(const struct link_authority *a, const char *request, const char *id,
                    char ret_cert[LINK_CERT_MAX], struct err *err)
{
	OWN(bio_freep) BIO *in = BIO_new_mem_buf(request, -1), *out = BIO_new(BIO_s_mem());
	OWN(request_freep) X509_REQ *asked = in == NULL ? NULL : PEM_read_bio_X509_REQ(in, NULL, NULL, NULL);
	OWN(x509_freep) X509 *cert = NULL;
	EVP_PKEY *key = asked == NULL ? NULL : X509_REQ_get0_pubkey(asked);

	/* One kind of key, so that nobody brings a weak one. */
	if (key == NULL || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519 || X509_REQ_verify(asked, key) != 1)
		return link_ssl_failed(err, "the worker's request for a certificate");
	cert = certify(a, key, id);
	if (cert == NULL || out == NULL || PEM_write_bio_X509(out, cert) != 1 || put_pem(out, ret_cert) < 0)
		return link_ssl_failed(err, "cannot make the worker's certificate");
	return 0;
}

int
link_key_make(int dir, char ret_request[LINK_CERT_MAX], struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	OWN(request_freep) X509_REQ *asked = X509_REQ_new();
	OWN(bio_freep) BIO *out = BIO_new(BIO_s_mem());

	if (key == NULL || asked == NULL || out == NULL || X509_REQ_set_pubkey(asked, key) != 1 ||
	    X509_REQ_sign(asked, key, NULL) <= 0 || PEM_write_bio_X509_REQ(out, asked) != 1 || put_pem(out, ret_request) < 0)
		return link_ssl_failed(err, "cannot make a key for this worker");
	return link_write_pem(dir, LINK_KEY_FILE, NULL, key, err);
}

int
link_key_certify(int dir, const char *cert, struct err *err)
{
	OWN(x509_freep) X509 *made = link_read_cert(cert);
	OWN(pkey_freep) EVP_PKEY *key = NULL;
	int r = link_read_key(dir, LINK_KEY_FILE, &key, err);

	if (r == 0 && (made == NULL || X509_check_private_key(made, key) != 1))
		r = link_ssl_failed(err, "the certificate from the service");
	return r < 0 ? r : link_write_pem(dir, LINK_CERT_FILE, made, NULL, err);
}

int
link_cert_print(const char *cert, char ret_print[LINK_HEX + 1], struct err *err)
{
	OWN(x509_freep) X509 *made = link_read_cert(cert);

	return link_print_of(made, ret_print) ? 0 : link_ssl_failed(err, "the certificate");
}
