/* statement.h - in-toto statements about ended cells, in DSSE envelopes (docs/audit.md): reads
 * them, and checks them against a key and the operator's timeline.  Pure but for memory. */
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

/* The text that DSSE signs: PAE(type, payload). */
void audit_statement_pae(struct buf *b, const void *payload, size_t len);
/* Reads the envelope in TEXT, which must be signed by KEY, and its statement.  -EBADMSG: ERR
 * explains what is wrong. */
int audit_statement_read(const char *text, size_t len, const unsigned char key[AUDIT_KEY],
                         struct audit_cell *ret_said, struct err *err);
/* Checks the statement against the operator's records of that cell.  -EBADMSG, likewise. */
int audit_statement_check(const struct audit_cell *said, const struct audit_cell *cell,
                          struct err *err);
#endif
