/* key.h - Ed25519 keys that sign checkpoints.
 *
 * A key is stored as its 32-byte seed alone.  It is a cell's, made when the cell starts and gone
 * when it ends, or the operator's, in a file. */
#ifndef CLOISTER_AUDIT_KEY_H
#define CLOISTER_AUDIT_KEY_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define AUDIT_KEY 32
#define AUDIT_SIGNATURE 64
#define AUDIT_SIGNATURE_TEXT 88         /* in base64 */

struct audit_key {
	unsigned char seed[AUDIT_KEY], public[AUDIT_KEY];
};
int audit_key_make(struct audit_key *ret_key, struct err *err);
void audit_key_from_seed(const unsigned char seed[AUDIT_KEY], struct audit_key *ret_key);
void audit_key_wipe(struct audit_key *key);             /* for OWN() too */

/* From the file NAME in DIR, which only its owner may read.  With MAKE, a missing key is created,
 * as a whole or not at all.  The caller ensures that nobody else creates it meanwhile. */
int audit_key_load(int dir, const char *name, bool make, struct audit_key *ret_key,
                   struct err *err);

void audit_key_sign(const struct audit_key *key, const void *data, size_t len,
                    unsigned char ret_signature[AUDIT_SIGNATURE]);
bool audit_key_verify(const unsigned char public[AUDIT_KEY], const void *data, size_t len,
                      const unsigned char signature[AUDIT_SIGNATURE]);

/* A signature as text, without a NUL; and back, accepting only the canonical text. */
void audit_signature_put(const unsigned char signature[AUDIT_SIGNATURE],
                         char ret_text[AUDIT_SIGNATURE_TEXT]);
bool audit_signature_get(const char text[AUDIT_SIGNATURE_TEXT],
                         unsigned char ret_signature[AUDIT_SIGNATURE]);
#endif
