/* ssh_private.h - reads private keys as in ~/.ssh: OpenSSH's own format, which OpenSSL does not
 * read, or PEM.
 *
 * For cloister-vault only.  Errors contain nothing of the key. */
#ifndef CLOISTER_SSH_PRIVATE_H
#define CLOISTER_SSH_PRIVATE_H
#include <openssl/evp.h>

#include "base/own.h"
#include "http/http_head.h"

struct err;

#define SSH_PRIVATE_MAX (32 * 1024)     /* bytes of TEXT */

/* The caller owns *ret_key.  -EKEYREJECTED: it has a passphrase. */
int ssh_private_read(struct http_text text, EVP_PKEY **ret_key, struct err *err);
OWN_BY(ssh_pkey_freep, EVP_PKEY *, EVP_PKEY_free)
#endif
