/* link_parts.h - shared by the files of src/link that work with certificates. */
#ifndef CLOISTER_LINK_PARTS_H
#define CLOISTER_LINK_PARTS_H
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/own.h"
#include "link/link_cert.h"

OWN_BY(x509_freep, X509 *, X509_free)
OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)
OWN_BY(bio_freep, BIO *, BIO_free)
OWN_BY(request_freep, X509_REQ *, X509_REQ_free)
OWN_BY(tls_freep, SSL_CTX *, SSL_CTX_free)

#define LINK_SERVICE_NAME "service.cloister.internal"
#define LINK_KEY_FILE "key.pem"
#define LINK_CERT_FILE "cert.pem"

/* Sets the error to WHAT and OpenSSL's reason. */
int link_ssl_failed(struct err *err, const char *what);
bool link_print_of(const X509 *cert, char ret_print[LINK_HEX + 1]);
/* Writes CERT, or KEY if CERT is NULL: all or nothing. */
int link_write_pem(int dir, const char *name, const X509 *cert, const EVP_PKEY *key, struct err *err);
int link_read_key(int dir, const char *name, EVP_PKEY **ret_key, struct err *err);
X509 *link_read_cert(const char *text);
/* A certificate for the service itself; NULL: OpenSSL knows why. */
X509 *link_certify_service(const struct link_authority *a, EVP_PKEY *key);
#endif
