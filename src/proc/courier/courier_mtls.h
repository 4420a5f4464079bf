/* courier_mtls.h - client certificates: the agent's TLS proves a placeholder's key to the gate,
 * and the real certificate is shown to the server.
 *
 * A connection that was made with one serves only requests that may have it (struct origin), and
 * its TLS sessions are its own.  Real keys are read out of guarded memory for each handshake,
 * and let go after it. */
#ifndef CLOISTER_COURIER_MTLS_H
#define CLOISTER_COURIER_MTLS_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "ipc/egress_channel.h"
#include "vault/bound.h"

struct err;
struct exchange;
struct secrets;

/* The public keys of the placeholders that are certificates. */
struct mtls_keys {
	unsigned char at[BOUND_MAX][EGRESS_KEY];
	bool is[BOUND_MAX];
};

/* Once, of S's placeholders. */
int mtls_open(struct secrets *s, struct err *err);
/* Whether a client that connects to HOST may have one to show. */
bool mtls_is_wanted(const struct secrets *s, const char *host);
/* Which certificate EX goes with, in ex->certificate.  False: EX is refused. */
bool exchange_use_certificate(struct exchange *ex);

/* CERTIFICATE is an exchange's or an origin's: 0 for none.  Before the handshake, and after it. */
int mtls_show(const struct secrets *s, unsigned certificate, SSL *ssl, struct err *err);
void mtls_shown(unsigned certificate, SSL *ssl);
#endif
