/* envelope.h - DSSE envelopes: a payload in base64, its type, and signatures.  Pure but for memory. */
#ifndef CLOISTER_AUDIT_ENVELOPE_H
#define CLOISTER_AUDIT_ENVELOPE_H
#include <stddef.h>

#include "audit/key.h"

struct buf;
struct err;

#define AUDIT_ENVELOPE_TYPE_MAX 64      /* bytes of a payload's type */
/* An envelope of a payload of N bytes is at most so long. */
#define AUDIT_ENVELOPE_LEN(n) (2 * (n) + 1024)

/* The text that DSSE signs: PAE(type, payload). */
void audit_envelope_pae(struct buf *b, const char *type, const void *payload, size_t len);
/* Appends the envelope, signed by KEY, and a newline.  A failure is B's. */
void audit_envelope_put(struct buf *b, const char *type, const void *payload, size_t len, const struct audit_key *key);
/* Reads the envelope in TEXT, whose payload must be of this type and signed by KEY; *ret_payload gets at most its own
 * maximum.  -EBADMSG: ERR explains what is wrong. */
int audit_envelope_read(const char *text, size_t len, const char *type, const unsigned char key[AUDIT_KEY],
                        struct buf *ret_payload, struct err *err);
#endif
