/* scheme_pkey.h - signatures by algorithm: with PEM keys, or with a shared secret. */
#ifndef CLOISTER_SCHEME_PKEY_H
#define CLOISTER_SCHEME_PKEY_H
#include "sign/scheme_parts.h"

#define SCHEME_PEM_MAX (64 * 1024)
#define SCHEME_SIGNATURE_MAX 2048       /* RSA with 16384 bits */

enum scheme_kind { SCHEME_HMAC, SCHEME_RSA, SCHEME_PSS, SCHEME_EC, SCHEME_ED };

struct scheme_algorithm {
	const char *name;               /* in the scheme's own spelling */
	enum scheme_kind kind;
	const char *digest;             /* OpenSSL's name; NULL for SCHEME_ED */
	const char *curve;              /* SCHEME_EC: OpenSSL's name; SCHEME_ED: the key type */
	size_t half;                    /* SCHEME_EC: bytes of r and of s */
};

/* A key of either kind; freed with OWN(scheme_pkey_drop), which wipes it. */
struct scheme_pkey {
	EVP_PKEY *pkey;                 /* NULL for SCHEME_HMAC */
	bool is_private;
	struct scheme_secret secret;
};

void scheme_pkey_drop(struct scheme_pkey *key);
/* For OpenSSL, which would ask for a passphrase on the terminal: refuses keys that have one. */
int scheme_no_passphrase(char *buf, int size, int writing, void *arg);
/* Whether one of N algorithms signs with the private key in SECRET.  A text that is not PEM is a
 * shared secret, and fits. */
int scheme_pkey_check(const struct scheme_algorithm *algorithms, size_t n, struct http_text secret,
                      struct err *err);
/* Read TEXT as a key for ALGORITHM: PEM (a private key, or a public one that can only verify), or
 * for SCHEME_HMAC a secret in CODING.  Such a secret must not be PEM: a public key used as a secret
 * would let anyone sign.  WHOSE as in scheme_secret_read(). */
int scheme_pkey_read(const struct scheme_algorithm *algorithm, struct http_text text,
                     enum sign_coding coding, const char *whose, struct scheme_pkey *ret_key,
                     struct err *err);
/* *ret_right: SIGNATURE is right for MESSAGE.  The return value reports other failures. */
int scheme_pkey_verify(const struct scheme_algorithm *algorithm, const struct scheme_pkey *key,
                       struct http_text message, const unsigned char *signature, size_t len,
                       bool *ret_right, struct err *err);
int scheme_pkey_sign(const struct scheme_algorithm *algorithm, const struct scheme_pkey *key,
                     struct http_text message, unsigned char ret_signature[SCHEME_SIGNATURE_MAX],
                     size_t *ret_len, struct err *err);
#endif
