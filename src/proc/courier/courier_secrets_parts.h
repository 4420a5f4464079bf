/* courier_secrets_parts.h - between courier_secrets.c and courier_scrub.c. */
#ifndef CLOISTER_COURIER_SECRETS_PARTS_H
#define CLOISTER_COURIER_SECRETS_PARTS_H
#include "base/buf.h"
#include "proc/courier/courier_secrets.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"
#include "sign/swap_ws.h"

struct exchange_secrets {
	struct secrets_view *view;      /* what it goes by */
	struct buf head;                /* to send, encoded; empty: as it came */
	bool carries;                   /* something real goes out, or might come back */
	bool swapped;                   /* and it is not just a signature */
	const struct bound_secret *signs;       /* whose signature is in it, or NULL */
	size_t signs_at;                /* its number in VIEW */
	bool signs_body;
	struct sign_chunks *chunks;
	struct swap_stream body, answer;
	struct swap_ws *sent, *received;        /* messages, after an upgrade */
	bool in_body;                   /* BODY is set up */
	bool grew;                      /* it became too large */
	exchange_pass *pass;            /* while BODY is fed */
	struct buf held;                /* the body to send, while it is made of one that was held */
	char reason[256];               /* why something was refused */
	bool ended;                     /* because a secret has */
};

/* Where heads are written while they are dealt with: one at a time. */
struct sign_memory *exchange_scratch(struct exchange *ex);
/* For messages of one side; HOW: its set, judge, lengths, sink and arg.  NULL: no memory. */
struct swap_ws *exchange_new_messages(bool from_client, const struct swap_stream *how);
#endif
