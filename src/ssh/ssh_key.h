/* ssh_key.h - keys and signatures in SSH's formats, by OpenSSL: Ed25519, ECDSA on the NIST curves,
 * RSA with SHA-2.  Nothing signs or verifies with SHA-1 or DSA.
 *
 * Pure. */
#ifndef CLOISTER_SSH_KEY_H
#define CLOISTER_SSH_KEY_H
#include <openssl/evp.h>

#include "ssh/ssh_wire.h"

struct err;

#define SSH_RSA_MIN 1024                /* bits; a shorter key is refused */
#define SSH_RSA_MAX 16384
#define SSH_PRINT_MAX 64                /* "SHA256:" and 43 characters */

/* Whether keys of TYPE ("ssh-rsa") are supported. */
bool ssh_key_type_ok(struct http_text type);
/* Whether BLOB is exactly one supported public key. */
bool ssh_key_ok(struct http_text blob);
/* Write the public half of KEY.  -ENOTSUP: SSH does not support its kind, or no longer does. */
int ssh_key_put(struct buf *b, const EVP_PKEY *key, struct err *err);
/* "SHA256:...", as `ssh-keygen -l` writes it. */
void ssh_key_print(struct http_text blob, char ret_text[SSH_PRINT_MAX]);

/* Decode the blob of "ssh-ed25519 AAAA...", with or without a comment after it; strict. */
int ssh_key_parse(struct http_text line, struct buf *ret_blob);
/* Write such a line, without a comment. */
void ssh_key_put_line(struct buf *b, struct http_text blob);

/* Whether SIGNATURE (its algorithm and bytes) is the signature of MESSAGE by KEY, a blob. */
bool ssh_verify(struct http_text key, struct http_text message, struct http_text signature);
/* Sign MESSAGE with PEM, a private key, by ALGORITHM ("rsa-sha2-512"), and append the signature to
 * B. */
int ssh_sign(struct http_text pem, const char *algorithm, struct http_text message, struct buf *b,
             struct err *err);
#endif
