/* certificate.h - client certificates: the agent proves a placeholder's key to the gate, and the
 * courier shows the real certificate to the server.
 *
 * A connection made with a certificate serves only requests that may use it (struct origin).  Its
 * TLS sessions are not shared.  The courier reads real keys out of guarded memory for each
 * handshake, and releases them afterwards. */
#ifndef CLOISTER_EGRESS_CERTIFICATE_H
#define CLOISTER_EGRESS_CERTIFICATE_H
#include <openssl/ssl.h>
#include <stdbool.h>

#include "ipc/egress_channel.h"
#include "vault/bound.h"

struct err;
struct secrets;

/* The public keys of the placeholders that are certificates. */
struct mtls_keys {
	unsigned char at[BOUND_MAX][EGRESS_KEY];
	bool is[BOUND_MAX];
};

/* Read the public keys from S's placeholders; once. */
int mtls_open(struct secrets *s, struct err *err);
/* Whether a client that connects to HOST may have a certificate to show. */
bool mtls_is_wanted(const struct secrets *s, const char *host);

/* Call mtls_show() before the handshake, and mtls_shown() after it.  CERTIFICATE is that of a
 * transfer, and not 0. */
int mtls_show(const struct secrets *s, unsigned certificate, SSL *ssl, struct err *err);
void mtls_shown(SSL *ssl);
#endif
