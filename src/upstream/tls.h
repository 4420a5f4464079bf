/* tls.h - TLS to servers: which certificates are trusted, and why one is not.
 *
 * Certificates and names are always verified; nothing switches that off. */
#ifndef CLOISTER_UPSTREAM_TLS_H
#define CLOISTER_UPSTREAM_TLS_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define TLS_CA_FILE_MAX (4 * 1024 * 1024)
#define TLS_TEXT_MAX 256

struct tls {
	SSL_CTX *ctx;
	char problem[TLS_TEXT_MAX];     /* why the operator's settings cannot be met: then no server is
	                                 * trusted; else "" */
};

/* Paths that OpenSSL may read later, when it looks up a certificate. */
extern const char *const tls_readable[];        /* NULL-terminated */

/* ENVIRONMENT is as in COURIER_START.  PEM (may be NULL) holds more certificates.  KEEP is called
 * for each new session of a connection, with ARG from tls_client(). */
int tls_open(struct tls *ret_tls, char *const *environment, const char *pem, size_t len,
             void (*keep)(void *arg, SSL_SESSION *session), struct err *err);
void tls_close(struct tls *t);

/* Make a client for HOST (a name or an address, as in URLs), ready for the handshake.  The caller
 * owns it.  It offers HTTP/2 unless H1_ONLY.  SESSION, borrowed, may be NULL. */
SSL *tls_client(struct tls *t, const char *host, bool h1_only, SSL_SESSION *session,
                void *arg);
/* As tls_client(), for protocols other than HTTP. */
SSL *tls_client_raw(struct tls *t, const char *host);
bool tls_chose_h2(const SSL *ssl);
/* Explain a failed handshake in TEXT if the server's certificate is the cause.  False: it is not. */
bool tls_explain(const SSL *ssl, char text[TLS_TEXT_MAX]);
#endif
