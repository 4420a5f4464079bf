/* statement.h - in-toto statements about ended cells, in DSSE envelopes (docs/audit.md): read, and
 * held against a key and what the operator's timeline tells.  Pure but for memory. */
#ifndef CLOISTER_AUDIT_STATEMENT_H
#define CLOISTER_AUDIT_STATEMENT_H
#include <stddef.h>

#include "audit/cells.h"

struct buf;
struct err;

#define AUDIT_STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define AUDIT_PREDICATE_TYPE "urn:cloister:cell:v1"
#define AUDIT_PAYLOAD_TYPE "application/vnd.in-toto+json"
#define AUDIT_STATEMENT_MAX (64 * 1024)
#define AUDIT_ENVELOPE_MAX (2 * AUDIT_STATEMENT_MAX)

/* What DSSE signs: PAE(type, payload). */
void audit_statement_pae(struct buf *b, const void *payload, size_t len);
/* The envelope in TEXT, which KEY has to have signed, and what the statement in it says.  -EBADMSG:
 * ERR tells what does not hold. */
int audit_statement_read(const char *text, size_t len, const unsigned char key[AUDIT_KEY],
                         struct audit_cell *ret_said, struct err *err);
/* Whether what it says is what the operator's timeline tells of that cell.  -EBADMSG, likewise. */
int audit_statement_check(const struct audit_cell *said, const struct audit_cell *cell,
                          struct err *err);
#endif
