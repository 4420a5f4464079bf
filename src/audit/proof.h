/* proof.h - proves that one record is in a timeline, to somebody who only has the operator's public
 * key.
 *
 * A proof is JSON (docs/audit.md): the record itself, the hashes that lead from it to the root that
 * a checkpoint signs, and that checkpoint.  For a cell's record it has the same for the operator's
 * record of the cell's key. */
#ifndef CLOISTER_AUDIT_PROOF_H
#define CLOISTER_AUDIT_PROOF_H
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "audit/key.h"
#include "audit/record.h"

struct buf;
struct err;

#define AUDIT_PROOF_MAX (512 * 1024)
#define AUDIT_PROOF_FORMAT "cloister proof v1"

struct audit_proof {
	char timeline[AUDIT_TIMELINE_MAX], time[AUDIT_TIME_LEN + 1];    /* of the checkpoint */
	unsigned char key[AUDIT_KEY], root[AUDIT_HASH], signature[AUDIT_SIGNATURE];
	uint64_t size, index;
	size_t n_path;
	unsigned char path[AUDIT_PATH_MAX][AUDIT_HASH];
	char *record;                   /* owned; LEN bytes and a NUL */
	size_t len;
};
void audit_proof_free(struct audit_proof *proof);       /* for OWN() too */

/* For record N of the timeline NAME in DIR.  -ENOENT: no such record; -EAGAIN: there is no
 * checkpoint after it yet.  The proof is checked before it is returned. */
int audit_proof_make(int dir, const char *name, uint64_t n, struct audit_proof *ret_proof,
                     struct err *err);
/* As JSON; ANCHOR: the operator's record of the cell's key, or NULL. */
void audit_proof_put(struct buf *b, const struct audit_proof *proof,
                     const struct audit_proof *anchor);

/* ret_anchor->record is NULL if there is none.  -EBADMSG. */
int audit_proof_read(const char *text, size_t len, struct audit_proof *ret_proof,
                     struct audit_proof *ret_anchor, struct err *err);
/* Checks the proof for a reader that trusts KEY: the operator's, or without an anchor that of the
 * timeline.  -EBADMSG, and ERR explains what is wrong. */
int audit_proof_check(const struct audit_proof *proof, const struct audit_proof *anchor,
                      const unsigned char key[AUDIT_KEY], struct err *err);
#endif
