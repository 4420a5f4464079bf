/* gate_tls.h - the server side of TLS, with a certificate made for each name. */
#ifndef CLOISTER_GATE_TLS_H
#define CLOISTER_GATE_TLS_H
#include <openssl/ssl.h>
#include <stdbool.h>

struct err;
struct gate;
struct gate_conn;
struct gate_tls;                        /* opaque */
struct gate_leaves;                     /* opaque */

/* CERTIFICATE and KEY are those of the cell's authority, in PEM. */
int gate_tls_new(const char *certificate, const char *key, struct gate_tls **ret_tls,
                 struct err *err);
void gate_tls_free(struct gate_tls *tls);       /* NULL is fine */

/* The gate's TLS, made when first needed.  NULL: TLS is refused. */
struct gate_tls *gate_tls_get(struct gate *g);
/* Make it soon, while the agent is busy with its last response. */
void gate_tls_warm_up(struct gate *g);

/* Start a handshake for GC, which outlives it.  NULL: out of memory. */
SSL *gate_tls_accept(struct gate_tls *tls, struct gate_conn *gc);
/* After the handshake: whether OpenSSL read the name that the courier was asked about. */
bool gate_tls_agrees(const struct gate_conn *gc);
/* After the handshake: store the key of the client's certificate, if any, in gc->key. */
void gate_tls_take_key(struct gate_conn *gc);
bool gate_tls_chose_h2(const struct gate_conn *gc);

/* ---- gate_leaf.c: the certificates ---- */

#define GATE_LEAVES_MAX 256             /* the oldest certificate makes room */
#define GATE_LEAF_DAYS 30
#define GATE_LEAF_BACKDATED_DAYS 2      /* for clocks in the cell that are slow */

int gate_leaves_new(X509 *authority, EVP_PKEY *authority_key, struct gate_leaves **ret_leaves,
                    struct err *err);
void gate_leaves_free(struct gate_leaves *leaves);      /* NULL is fine */
EVP_PKEY *gate_leaves_key(const struct gate_leaves *leaves);
/* The certificate for a name or an address, borrowed until the next call.  NULL: it cannot be made. */
X509 *gate_leaves_get(struct gate_leaves *leaves, const char *host);
#endif
