/* serve_tls.c - the certificate of a server on TCP: a given one, or one of its own. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "serve/serve.h"
#include "tls/extension.h"

#define OWN_CERT "cert.pem"
#define OWN_KEY "key.pem"
#define OWN_DAYS 825                    /* some clients refuse a longer one */
#define NEAR_END_S (30 * 24 * 3600)     /* then a new one is made */

OWN_BY(ctx_freep, SSL_CTX *, SSL_CTX_free)
OWN_BY(x509_freep, X509 *, X509_free)
OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)

static int
ssl_failed(struct err *err, const char *what, const char *path)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return err_set(err, EINVAL, "%s '%s': %s", what, path, why != NULL ? why : "it is not usable");
}

static int
print_of(const X509 *cert, char ret_print[SERVE_PRINT_MAX], struct err *err)
{
	unsigned char hash[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (cert == NULL || X509_digest(cert, EVP_sha256(), hash, &n) != 1 || n != 32)
		return err_set(err, EINVAL, "the certificate has no fingerprint");
	for (unsigned i = 0; i < n; i++)
		snprintf(ret_print + 3 * i, 4, "%02X%s", hash[i], i + 1 < n ? ":" : "");
	return 0;
}

int
serve_tls_load(const char *cert, const char *key, struct ssl_ctx_st **ret_tls,
               char ret_print[SERVE_PRINT_MAX], struct err *err)
{
	static const unsigned char id[] = "cloister";
	OWN(ctx_freep) SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	int r;

	if (ctx == NULL)
		return err_set(err, ENOMEM, "TLS cannot be set up");
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1) != 1)
		return err_set(err, EINVAL, "TLS cannot be set up");
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return ssl_failed(err, "cannot use the certificate", cert);
	if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return ssl_failed(err, "cannot use the key", key);
	r = print_of(SSL_CTX_get0_certificate(ctx), ret_print, err);
	if (r == 0)
		*ret_tls = TAKE(ctx);
	return r;
}

/* ---- an own certificate ---- */

static bool
fill_in(X509 *cert, EVP_PKEY *key, const char *host)
{
	char names[128];
	X509_NAME *name = X509_get_subject_name(cert);
	BIGNUM *serial = BN_new();
	bool ok = serial != NULL && BN_rand(serial, 120, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
	          BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL;

	BN_free(serial);
	snprintf(names, sizeof(names), "DNS:localhost,IP:127.0.0.1,IP:::1%s%s", host != NULL ? ",DNS:" : "",
	         host != NULL ? host : "");
	return ok && X509_set_version(cert, 2) == 1 &&
	       X509_gmtime_adj(X509_getm_notBefore(cert), -3600) != NULL &&
	       X509_gmtime_adj(X509_getm_notAfter(cert), (long)OWN_DAYS * 24 * 3600) != NULL &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
	                                  (const unsigned char *)"cloister serve", -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, name) == 1 && X509_set_pubkey(cert, key) == 1 &&
	       /* So that a client can be configured to trust it: it vouches for this machine's names only. */
	       tls_add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       tls_add_extension(cert, cert, NID_name_constraints, "critical,permitted;DNS:localhost,"
	                     "permitted;IP:127.0.0.1/255.255.255.255,"
	                     "permitted;IP:::1/ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") &&
	       tls_add_extension(cert, cert, NID_key_usage, "critical,digitalSignature,keyCertSign") &&
	       tls_add_extension(cert, cert, NID_ext_key_usage, "serverAuth") &&
	       tls_add_extension(cert, cert, NID_subject_key_identifier, "hash") &&
	       tls_add_extension(cert, cert, NID_subject_alt_name, names) &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

/* Writes all or nothing: a temporary name, and then the real one. */
static int
write_pem(int dir, const char *name, const X509 *cert, EVP_PKEY *key, struct err *err)
{
	char temporary[64];
	FILE *out = NULL;
	int fd;
	bool ok;

	snprintf(temporary, sizeof(temporary), ".%s.new", name);
	(void)!unlinkat(dir, temporary, 0);
	fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	out = fd < 0 ? NULL : fdopen(fd, "w");
	if (out == NULL)
		return err_errno(err, "cannot write the server's certificate");
	ok = cert != NULL ? PEM_write_X509(out, cert) == 1 :
	     PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1;
	ok = fflush(out) == 0 && fsync(fd) == 0 && ok;
	ok = fclose(out) == 0 && ok;
	if (!ok || renameat(dir, temporary, dir, name) < 0)
		return err_errno(err, "cannot write the server's certificate");
	return 0;
}

static int
make_own(int dir, const char *host, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	OWN(x509_freep) X509 *cert = X509_new();
	int r;

	if (key == NULL || cert == NULL || !fill_in(cert, key, host)) {
		ERR_clear_error();
		return err_set(err, EIO, "cannot make a certificate for the server");
	}
	r = write_pem(dir, OWN_KEY, NULL, key, err);
	return r < 0 ? r : write_pem(dir, OWN_CERT, cert, NULL, err);
}

/* Whether it is for HOST, and will be for a while. */
static bool
will_do(X509 *cert, const char *host)
{
	char name[128] = "";

	if (host != NULL)
		snprintf(name, sizeof(name), "%s%s", host[0] == '*' ? "any" : "", host + (host[0] == '*'));
	return X509_cmp_time(X509_get0_notAfter(cert), &(time_t){ time(NULL) + NEAR_END_S }) > 0 &&
	       (host == NULL || X509_check_host(cert, name, 0, 0, NULL) == 1);
}

int
serve_tls_own(int dir, const char *host, struct ssl_ctx_st **ret_tls, char ret_print[SERVE_PRINT_MAX],
              struct err *err)
{
	OWN(ctx_freep) SSL_CTX *ctx = NULL;
	char cert[64], key[64];
	int r;

	snprintf(cert, sizeof(cert), "/proc/self/fd/%d/" OWN_CERT, dir);
	snprintf(key, sizeof(key), "/proc/self/fd/%d/" OWN_KEY, dir);
	if (faccessat(dir, OWN_CERT, F_OK, 0) == 0 && faccessat(dir, OWN_KEY, F_OK, 0) == 0) {
		r = serve_tls_load(cert, key, &ctx, ret_print, err);
		/* Between the two renames of make_own() the files do not match. */
		if (r == 0 && will_do(SSL_CTX_get0_certificate(ctx), host)) {
			*ret_tls = TAKE(ctx);
			return 0;
		}
	}
	r = make_own(dir, host, err);
	return r < 0 ? r : serve_tls_load(cert, key, ret_tls, ret_print, err);
}
