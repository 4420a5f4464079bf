/* courier_tls.h - TLS towards servers: which of them are believed, and why not.
 *
 * Certificates and names are always verified; nothing switches that off. */
#ifndef CLOISTER_COURIER_TLS_H
#define CLOISTER_COURIER_TLS_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define TLS_CA_FILE_MAX (4 * 1024 * 1024)
#define TLS_TEXT_MAX 256

struct tls {
	SSL_CTX *ctx;
	char problem[TLS_TEXT_MAX];     /* what the operator asked for and cannot be had: then
	                                 * nobody is believed; else "" */
};

/* What may have to be read later, when a certificate is looked for. */
extern const char *const tls_readable[];        /* NULL-terminated */

/* ENVIRONMENT as in COURIER_START; PEM (may be NULL) are more certificates.  KEEP is
 * called with each new session of a connection, and ARG of tls_client(). */
int tls_open(struct tls *ret_tls, char *const *environment, const char *pem, size_t len,
             void (*keep)(void *arg, SSL_SESSION *session), struct err *err);
void tls_close(struct tls *t);

/* A client to HOST (a name or an address, as in URLs), about to shake hands; the caller
 * owns it.  It offers HTTP/2 unless H1_ONLY.  SESSION, borrowed, may be NULL. */
SSL *tls_client(struct tls *t, const char *host, bool h1_only, SSL_SESSION *session,
                void *arg);
/* The same for what is no HTTP. */
SSL *tls_client_raw(struct tls *t, const char *host);
bool tls_chose_h2(const SSL *ssl);
/* Why the handshake failed, if that lies with the server's certificate; else false. */
bool tls_explain(const SSL *ssl, char text[TLS_TEXT_MAX]);
#endif
