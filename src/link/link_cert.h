/* link_cert.h - the certificates of the stream between a service and its workers, by OpenSSL.
 *
 * A service has an authority of its own, which signs one certificate for each worker, and one for the service itself
 * whenever it starts.  A worker knows the service by the fingerprint of the authority, and by nothing else. */
#ifndef CLOISTER_LINK_CERT_H
#define CLOISTER_LINK_CERT_H
#include <openssl/ssl.h>

#include "link/link_token.h"

struct err;

#define LINK_ID_LEN 16                  /* digits of a worker's id */
#define LINK_CERT_MAX 4096              /* bytes of one, or of a request for one, as PEM */

struct link_authority {
	X509 *cert;
	EVP_PKEY *key;
	char print[LINK_HEX + 1];
};
void link_authority_free(struct link_authority *a);     /* for OWN() too */

/* Reads the authority in the folder DIR, and makes it if there is none. */
int link_authority_open(int dir, struct link_authority *ret_authority, struct err *err);
/* Checks that REQUEST (PEM) was signed by its own key, and makes a certificate for the worker ID, as PEM. */
int link_authority_sign(const struct link_authority *a, const char *request, const char *id,
                        char ret_cert[LINK_CERT_MAX], struct err *err);

/* Makes a key in the folder DIR, and a request for a certificate, as PEM. */
int link_key_make(int dir, char ret_request[LINK_CERT_MAX], struct err *err);
/* Keeps the certificate for it, if it is one for this key. */
int link_key_certify(int dir, const char *cert, struct err *err);

/* TLS 1.3 alone.  A worker may come without a certificate, which is how it joins; any other than the authority's ends the
 * handshake.  The caller owns the context. */
int link_tls_service(const struct link_authority *a, SSL_CTX **ret_tls, struct err *err);
/* Expects the service whose authority has the fingerprint PRINT, which must outlive the context.  DIR has the worker's key
 * and certificate; negative: it has none yet. */
int link_tls_worker(const char *print, int dir, SSL_CTX **ret_tls, struct err *err);
/* After the handshake: the fingerprint of the worker's certificate; false: it has shown none. */
bool link_tls_peer(const SSL *ssl, char ret_id[LINK_ID_LEN + 1], char ret_print[LINK_HEX + 1]);
/* The fingerprint of a certificate as PEM. */
int link_cert_print(const char *cert, char ret_print[LINK_HEX + 1], struct err *err);
#endif
