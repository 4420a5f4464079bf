/* courier_secrets_parts.h - between courier_secrets.c, courier_sign.c and courier_scrub.c. */
#ifndef CLOISTER_COURIER_SECRETS_PARTS_H
#define CLOISTER_COURIER_SECRETS_PARTS_H
#include "base/buf.h"
#include "base/err.h"
#include "proc/courier/courier_secrets.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"
#include "sign/swap_ws.h"

struct exchange_secrets {
	struct buf head;                /* to send, encoded; empty: as it came */
	bool carries;                   /* something real goes out, or might come back */
	bool swapped;                   /* and it is not just a signature */
	const struct bound_secret *signs;       /* whose signature is in it, or NULL */
	uint64_t maybe;                 /* bits: whose it may be, as the body will tell */
	bool signs_body;                /* which is held until then */
	bool covered;                   /* what is signed is the request: it stays as it is */
	bool refused_covered;           /* something that may be there was in what is signed */
	struct err wrong;               /* of a signed token that is nobody's, or code 0 */
	bool wrong_alone;
	struct sign_chunks *chunks;
	struct swap_stream body, answer;
	struct swap_ws *sent, *received;        /* messages, after an upgrade */
	bool in_body;                   /* BODY is set up */
	bool grew;                      /* it became too large */
	exchange_pass *pass;            /* while BODY is fed */
	struct buf held;                /* the body to send, while it is made of one that was held */
	char reason[256];               /* why something was refused */
};

/* EX cannot have what it wants: -EACCES for the reason in struct exchange_secrets, else ERR's.
 * Always false. */
bool exchange_refuse_secret(struct exchange *ex, int r, const struct err *err);
/* Whether the secret may go where EX goes. */
bool exchange_fits_scope(struct exchange *ex, const struct secret *s);

/* ---- courier_sign.c ---- */

/* Finds out who signed HEAD, as the agent made it, and signs it anew.  Where the body has to
 * tell, x->signs_body is set then.  A token that nobody signed is told in x->wrong.  False: EX
 * is refused. */
bool exchange_sign_head(struct exchange *ex, struct http_head *head);
/* The same, with all of the body. */
bool exchange_sign_body(struct exchange *ex, struct http_head *head, const struct sign_body *body);
/* Whether EX is, or may be, signed with the placeholder of secret I. */
bool exchange_is_signer(const struct exchange *ex, size_t i);
/* courier_pem.c: a line of the block of KIND ("PRIVATE KEY") in PEM that no other has. */
bool pem_line(struct http_text pem, const char *kind, struct http_text *ret_line);

/* Where heads are written while they are dealt with: one at a time. */
struct sign_memory *exchange_scratch(struct exchange *ex);
/* For messages of one side; HOW: its set, judge, lengths, sink and arg.  NULL: no memory. */
struct swap_ws *exchange_new_messages(bool from_client, const struct swap_stream *how);
#endif
