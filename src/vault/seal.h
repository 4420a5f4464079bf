/* seal.h - authenticated encryption and its keys: AES-256-GCM, HKDF and scrypt, by OpenSSL.  No
 * I/O. */
#ifndef CLOISTER_SEAL_H
#define CLOISTER_SEAL_H
#include <stddef.h>

#include "base/buf.h"
#include "vault/guard.h"

struct err;

#define SEAL_KEY 32
#define SEAL_SALT 16
#define SEAL_EXTRA (12 + 16)            /* bytes that sealing adds: nonce and tag */
#define SEAL_PRINT 8                    /* bytes of a fingerprint */

/* Costs of stretching a passphrase; a file with any other cost is refused. */
#define SEAL_COST_MIN 14                /* N is two to the power of it */
#define SEAL_COST 17                    /* 128 MiB, a third of a second */
#define SEAL_COST_MAX 20

int seal_random(void *at, size_t len, struct err *err);

/* Derive SEAL_KEY bytes from a passphrase.  Slow on purpose. */
int seal_stretch(const struct guard *passphrase, const unsigned char salt[SEAL_SALT],
                 unsigned cost, struct guard *ret_key, struct err *err);
/* Derive SEAL_KEY bytes from KEY for the purpose USE. */
int seal_derive(const struct guard *key, const unsigned char salt[SEAL_SALT], const char *use,
                struct guard *ret_key, struct err *err);

/* Append nonce, sealed DATA and tag to OUT; it opens only with the same KNOWN. */
int seal_close(const struct guard *key, const void *known, size_t n_known, const void *data,
               size_t len, struct buf *out, struct err *err);
/* -EBADMSG: it was sealed with another key or other KNOWN, or it was changed. */
int seal_open(const struct guard *key, const void *known, size_t n_known, const void *sealed,
              size_t len, struct guard *ret_data, struct err *err);

/* A fingerprint.  With KEY, it shows whether two values are equal; it reveals nothing else. */
int seal_print(const struct guard *key, const void *data, size_t len,
               unsigned char ret_print[SEAL_PRINT], struct err *err);
#endif
