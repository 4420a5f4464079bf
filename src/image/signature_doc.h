/* signature_doc.h - where signatures of images are: the manifest that cosign pushes under the tag
 * sha256-HEX.sig, the list of referrers (OCI 1.1), and the store's own file.
 *
 * Pure. */
#ifndef CLOISTER_IMAGE_SIGNATURE_DOC_H
#define CLOISTER_IMAGE_SIGNATURE_DOC_H
#include <stddef.h>
#include <stdint.h>

#include "canon/hash.h"
#include "image/signature.h"

struct err;

#define SIGNATURES_MAX 32               /* of one image; others are not looked at */
#define SIGNATURES_FILE_MAX (4u << 20)
#define SIGNATURE_ARTIFACT "application/vnd.dev.cosign.artifact.sig.v1+json"

struct signature {
	char digest[HASH_NAME + 1];     /* of the payload */
	uint64_t size;
	unsigned char bytes[SIGNATURE_MAX];
	size_t len;
	char *payload;                  /* NULL: not fetched yet; SIZE bytes */
};
struct signatures {
	struct signature *list;
	size_t n;
};
void signatures_free(struct signatures *s);     /* for OWN() too */

/* Read the manifest of signatures.  Layers that are no signatures are passed over. */
int signatures_parse(const char *text, size_t len, struct signatures *ret_signatures, struct err *err);
/* The digests of the manifests of signatures in a list of referrers, at most SIGNATURES_MAX; returns their
 * number. */
int signatures_parse_referrers(const char *text, size_t len, char ret_digests[SIGNATURES_MAX][HASH_NAME + 1],
                               struct err *err);

/* The store's file: signatures with their payloads.  Those without one are left out.  The caller owns
 * *ret_text. */
int signatures_write(const struct signatures *s, char **ret_text, struct err *err);
int signatures_read(const char *text, size_t len, struct signatures *ret_signatures, struct err *err);
#endif
