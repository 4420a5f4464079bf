/* mint.h - cloister-mint: the certificate authority of one cell. */
#ifndef CLOISTER_MINT_H
#define CLOISTER_MINT_H
#include <openssl/bio.h>

struct err;

/* Writes a key store to FD, in Java's oldest format, which every Java reads, with the well-known
 * password.  It contains OLD, the system's own of LEN bytes, and the certificates in MORE (PEM, may
 * be NULL).  If OLD has another format, it contains MORE and the certificates in ALL. */
int mint_write_keystore(const unsigned char *old, size_t len, BIO *const *more, size_t n,
                        BIO *all, int fd, struct err *err);
#endif
