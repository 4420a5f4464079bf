/* extension.h - extensions of certificates that cloister makes. */
#ifndef CLOISTER_TLS_EXTENSION_H
#define CLOISTER_TLS_EXTENSION_H
#include <openssl/x509.h>
#include <stdbool.h>

/* VALUE is as in openssl's configuration.  ISSUER is CERT itself for an authority; NULL where VALUE does not need it. */
bool tls_add_extension(X509 *cert, X509 *issuer, int nid, const char *value);
#endif
