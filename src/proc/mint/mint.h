/* mint.h - cloister-mint: the certificate authority of one cell. */
#ifndef CLOISTER_MINT_H
#define CLOISTER_MINT_H
#include <openssl/bio.h>

struct err;

/* Java's oldest form of key store, which every Java reads, with the password that
 * everybody knows: what is in OLD, the system's own of LEN bytes, and the certificates in
 * MORE (PEM, may be NULL); or, if OLD is of another form, those and the ones in ALL.
 * Written to FD. */
int mint_write_keystore(const unsigned char *old, size_t len, BIO *const *more, size_t n,
                        BIO *all, int fd, struct err *err);
#endif
