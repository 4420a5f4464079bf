/* tls.c - see tls.h. */
#include "upstream/tls.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "upstream/address.h"

/* Where distributions keep their certificate stores, and where their links lead. */
const char *const tls_readable[] = {
	"/etc/ssl/certs", "/usr/lib/ssl", "/etc/pki", "/usr/share/ca-certificates",
	"/usr/share/pki", "/usr/local/share/ca-certificates", "/etc/ca-certificates",
	"/var/lib/ca-certificates", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", NULL,
};
/* Folders with one file per certificate, named by the hash of its subject: read on demand. */
static const char *const hashed_folders[] = {
	"/etc/ssl/certs", "/etc/pki/ca-trust/extracted/pem/directory-hash", "/etc/pki/tls/certs",
	NULL,
};
/* All certificates in one file, which takes a megabyte of memory. */
static const char *const bundles[] = {
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem", NULL,
};

static int session_arg = -1;            /* OpenSSL's index for the ARG of a connection */
static void (*session_keep)(void *arg, SSL_SESSION *session);

static const char *
variable(char *const *environment, const char *name)
{
	size_t len = strlen(name);

	for (; environment != NULL && *environment != NULL; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' &&
		    (*environment)[len + 1] != '\0')
			return *environment + len + 1;
	return NULL;
}

static void
complain(struct tls *t, const char *what, const char *path, const char *why)
{
	if (t->problem[0] == '\0')
		snprintf(t->problem, sizeof(t->problem), "%s '%s': %s", what, path, why);
}

/* Add every certificate in TEXT.  Returns their number. */
static size_t
add_certificates(X509_STORE *store, const char *text, size_t len)
{
	BIO *bio = BIO_new_mem_buf(text, (int)len);
	X509 *certificate;
	size_t n = 0;

	while (bio != NULL && (certificate = PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL)) != NULL) {
		if (X509_STORE_add_cert(store, certificate) == 1)
			n++;
		X509_free(certificate);
	}
	BIO_free(bio);
	ERR_clear_error();
	return n;
}

static void
add_file(struct tls *t, const char *path)
{
	OWN(freep) char *text = NULL;
	struct err err = {0};
	size_t len;

	if (read_file_at(AT_FDCWD, path, TLS_CA_FILE_MAX, &text, &len, &err) < 0)
		complain(t, "CA file", path, strerror(err.code));
	else if (add_certificates(SSL_CTX_get_cert_store(t->ctx), text, len) == 0)
		complain(t, "CA file", path, "there is no certificate in it (PEM)");
}

static bool
is_hashed(const char *path)
{
	OWN(closedirp) DIR *dir = opendir(path);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (strspn(entry->d_name, "0123456789abcdef") == 8 && entry->d_name[8] == '.' &&
		    isdigit((unsigned char)entry->d_name[9]))
			return true;
	return false;
}

static bool
add_folder(struct tls *t, const char *path)
{
	X509_LOOKUP *lookup = X509_STORE_add_lookup(SSL_CTX_get_cert_store(t->ctx),
	                                            X509_LOOKUP_hash_dir());

	return lookup != NULL && X509_LOOKUP_add_dir(lookup, path, X509_FILETYPE_PEM) == 1;
}

/* ---- a bundle that is read only if a certificate is found nowhere else ---- */

static int
bundle_look_up(X509_LOOKUP *lookup, X509_LOOKUP_TYPE type, const X509_NAME *name,
               X509_OBJECT *ret_object)
{
	X509_STORE *store = X509_LOOKUP_get_store(lookup);
	const char *path = X509_LOOKUP_get_method_data(lookup);
	OWN(freep) char *text = NULL;
	X509_OBJECT *found;
	size_t len;
	int ok = 0;

	if (path == NULL || type != X509_LU_X509)
		return 0;
	X509_LOOKUP_set_method_data(lookup, NULL);
	if (read_file_at(AT_FDCWD, path, TLS_CA_FILE_MAX, &text, &len, NULL) < 0)
		return 0;
	add_certificates(store, text, len);
	X509_STORE_lock(store);
	found = X509_OBJECT_retrieve_by_subject(X509_STORE_get0_objects(store), type, name);
	if (found != NULL)
		ok = X509_OBJECT_set1_X509(ret_object, X509_OBJECT_get0_X509(found));
	X509_STORE_unlock(store);
	return ok;
}

static void
add_bundle(struct tls *t, const char *path)
{
	static X509_LOOKUP_METHOD *method;
	X509_LOOKUP *lookup;

	if (method == NULL) {
		method = X509_LOOKUP_meth_new("bundle");
		if (method != NULL)
			X509_LOOKUP_meth_set_get_by_subject(method, bundle_look_up);
	}
	lookup = method == NULL ? NULL : X509_STORE_add_lookup(SSL_CTX_get_cert_store(t->ctx), method);
	if (lookup != NULL)
		X509_LOOKUP_set_method_data(lookup, (void *)(uintptr_t)path);
}

/* ---- trusted certificates ---- */

/* The folder and the bundle have the same certificates, unless someone added to the bundle alone. */
static void
add_default(struct tls *t)
{
	for (size_t i = 0; hashed_folders[i] != NULL; i++)
		if (is_hashed(hashed_folders[i]) && add_folder(t, hashed_folders[i]))
			break;
	for (size_t i = 0; bundles[i] != NULL; i++) {
		if (access(bundles[i], R_OK) == 0) {
			add_bundle(t, bundles[i]);
			return;
		}
	}
}

static bool
is_default(const char *file)
{
	for (size_t i = 0; bundles[i] != NULL; i++)
		if (strcmp(bundles[i], file) == 0)
			return true;
	return false;
}

/* The machine's own store, or its replacements SSL_CERT_FILE and SSL_CERT_DIR. */
static void
add_system(struct tls *t, char *const *environment)
{
	const char *file = variable(environment, "SSL_CERT_FILE");
	const char *folder = variable(environment, "SSL_CERT_DIR");

	if (folder != NULL && !add_folder(t, folder))
		complain(t, "SSL_CERT_DIR", folder, "cannot be used");
	if (file != NULL && !is_default(file))
		add_file(t, file);
	else if (file != NULL || folder == NULL)
		add_default(t);
}

static void
add_extra(struct tls *t, char *const *environment)
{
	const char *list = variable(environment, "CLOISTER_CA_FILES");
	char path[PATH_MAX], *end;

	while (list != NULL && *list != '\0') {
		size_t n = (size_t)((end = strchrnul(list, ':')) - list);

		if (n > 0 && n < sizeof(path)) {
			memcpy(path, list, n);
			path[n] = '\0';
			add_file(t, path);
		}
		list += n + (*end != '\0');
	}
}

static int
new_session(SSL *ssl, SSL_SESSION *session)
{
	session_keep(SSL_get_ex_data(ssl, session_arg), session);
	return 0;                       /* KEEP took its own reference, if it wants one */
}

int
tls_open(struct tls *ret_tls, char *const *environment, const char *pem, size_t len,
         void (*keep)(void *arg, SSL_SESSION *session), struct err *err)
{
	struct tls *t = ret_tls;
	X509_VERIFY_PARAM *param;

	*t = (struct tls){0};
	/* The machine's openssl.cnf may weaken checks; it also takes time to read. */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	t->ctx = SSL_CTX_new(TLS_client_method());
	if (t->ctx == NULL)
		return err_set(err, ENOMEM, "cannot set up TLS");
	session_keep = keep;
	if (session_arg < 0)
		session_arg = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
	SSL_CTX_set_verify(t->ctx, CONTROL_ON("certificates") ? SSL_VERIFY_PEER : SSL_VERIFY_NONE,
	                   NULL);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
	                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_read_ahead(t->ctx, 1);
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_CLIENT |
	                               SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(t->ctx, new_session);
	/* A certificate from the operator is trusted whoever signed it. */
	param = SSL_CTX_get0_param(t->ctx);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_PARTIAL_CHAIN);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	add_system(t, environment);
	add_extra(t, environment);
	if (pem != NULL && len > 0 &&
	    add_certificates(SSL_CTX_get_cert_store(t->ctx), pem, len) == 0)
		complain(t, "the CA files", "that were given", "there is no certificate in them (PEM)");
	return 0;
}

void
tls_close(struct tls *t)
{
	SSL_CTX_free(TAKE(t->ctx));
}

SSL *
tls_client_raw(struct tls *t, const char *host)
{
	SSL *ssl = SSL_new(t->ctx);
	char text[ADDRESS_TEXT_MAX];
	struct address a;
	int ok;

	if (ssl == NULL)
		return NULL;
	SSL_set_connect_state(ssl);
	if (address_parse(host, &a))
		ok = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), address_format(&a, text));
	else
		/* The macro casts const away. */
		ok = SSL_set1_host(ssl, host) == 1 &&
		     SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
		              (void *)(uintptr_t)host) == 1;
	if (ok == 1 && SSL_set_ex_data(ssl, session_arg, NULL) == 1)
		return ssl;
	SSL_free(ssl);
	return NULL;
}

SSL *
tls_client(struct tls *t, const char *host, bool h1_only, SSL_SESSION *session, void *arg)
{
	static const unsigned char protocols[] = "\x02h2\x08http/1.1";
	const size_t skip = h1_only ? 3 : 0;
	SSL *ssl = tls_client_raw(t, host);

	if (ssl == NULL)
		return NULL;
	if (SSL_set_ex_data(ssl, session_arg, arg) != 1 ||
	    SSL_set_alpn_protos(ssl, protocols + skip, sizeof(protocols) - 1 - (unsigned)skip) != 0 ||
	    (session != NULL && SSL_set_session(ssl, session) != 1)) {
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

bool
tls_chose_h2(const SSL *ssl)
{
	const unsigned char *protocol;
	unsigned len;

	SSL_get0_alpn_selected(ssl, &protocol, &len);
	return len == 2 && memcmp(protocol, "h2", 2) == 0;
}

bool
tls_explain(const SSL *ssl, char text[TLS_TEXT_MAX])
{
	long result = ssl == NULL ? X509_V_OK : SSL_get_verify_result(ssl);
	const char *why;

	switch (result) {
	case X509_V_OK:
		return false;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		why = "it is for another name";
		break;
	case X509_V_ERR_CERT_HAS_EXPIRED:
		why = "it has expired";
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		why = "it is not valid yet";
		break;
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
		why = "the server signed it itself";
		break;
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		why = "no authority that this machine trusts signed it";
		break;
	default:
		why = X509_verify_cert_error_string(result);
	}
	snprintf(text, TLS_TEXT_MAX, "the server's certificate is not good: %s", why);
	return true;
}
