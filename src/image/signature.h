/* signature.h - signatures of images as cosign makes them with a key: a payload that names the image
 * ("simple signing"), and a signature of the payload's bytes.
 *
 * Pure. */
#ifndef CLOISTER_IMAGE_SIGNATURE_H
#define CLOISTER_IMAGE_SIGNATURE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct err;
struct signature_key;                   /* opaque: a public key */

#define SIGNATURE_PAYLOAD_MAX (64 * 1024)
#define SIGNATURE_MAX 1024              /* bytes of a signature */
#define SIGNATURE_KEY_MAX (16 * 1024)   /* bytes of a file */
#define SIGNATURE_ANNOTATION "dev.cosignproject.cosign/signature"
#define SIGNATURE_MEDIA_TYPE "application/vnd.dev.cosign.simplesigning.v1+json"

/* Read a public key in PEM: ECDSA with P-256, P-384 or P-521, Ed25519, or RSA of 2048 bits or more.  The
 * caller owns *ret_key. */
int signature_read_key(const char *pem, size_t len, struct signature_key **ret_key, struct err *err);
void signature_key_free(struct signature_key *key);     /* NULL is fine */
OWN_BY(signature_key_freep, struct signature_key *, signature_key_free)

/* Whether SIGNATURE is KEY's signature of the bytes of PAYLOAD, with SHA-256 unless the key is Ed25519. */
bool signature_is_by(struct signature_key *key, const void *payload, size_t payload_len,
                     const void *signature, size_t signature_len);

/* Whether the payload is about the image DIGEST ("sha256:...") in REPOSITORY ("docker.io/library/debian").
 * TAG ("12", or NULL) is accepted behind the repository.  -EBADMSG: it is malformed; -EPERM: it is about
 * another image. */
int signature_check_payload(const char *text, size_t len, const char *digest, const char *repository,
                            const char *tag, struct err *err);
#endif
