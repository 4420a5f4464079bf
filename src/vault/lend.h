/* lend.h - secrets of one vault, sealed for one cell on another machine: X25519, HKDF-SHA256 and AES-256-GCM, by OpenSSL.
 *
 * The cell's cloister-vault makes a key pair for this alone.  A box opens with its private half only, and only for the
 * claim that it was made for.  No I/O. */
#ifndef CLOISTER_LEND_H
#define CLOISTER_LEND_H
#include <stdint.h>

#include "base/buf.h"
#include "ipc/lend_channel.h"
#include "vault/guard.h"

struct err;

/* What a box is bound to.  Texts are borrowed. */
struct lend_claim {
	const char *dispatch;
	uint64_t number;                /* of the claim: it fences off others of the same dispatch */
	const char *service, *worker;   /* their data folders */
};
void lend_put_claim(struct buf *b, const struct lend_claim *claim);
/* Points into B. */
int lend_get_claim(struct buf *b, struct lend_claim *ret_claim);
/* As text, "DISPATCH:NUMBER:SERVICE:WORKER"; the caller owns it, NULL: out of memory. */
char *lend_claim_text(const struct lend_claim *claim);
/* TEXT is changed, and *RET_CLAIM points into it. */
int lend_claim_parse(char *text, struct lend_claim *ret_claim, struct err *err);

int lend_make_key(struct guard *ret_private, unsigned char ret_public[LEND_KEY], struct err *err);
/* Appends the box to OUT. */
int lend_close(const unsigned char to[LEND_KEY], const struct lend_claim *claim, const void *data, size_t len,
               struct buf *out, struct err *err);
/* -EBADMSG: it is for another key or claim, or was changed. */
int lend_open(const struct guard *private, const unsigned char public[LEND_KEY], const struct lend_claim *claim,
              const void *box, size_t len, struct guard *ret_data, struct err *err);
#endif
