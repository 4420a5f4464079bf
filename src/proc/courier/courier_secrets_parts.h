/* courier_secrets_parts.h - between what leaves and what comes back. */
#ifndef CLOISTER_COURIER_SECRETS_PARTS_H
#define CLOISTER_COURIER_SECRETS_PARTS_H
#include "base/buf.h"
#include "base/err.h"
#include "inspect/decode.h"
#include "ipc/egress_channel.h"
#include "proc/courier/courier_secrets.h"
#include "sign/capture.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"
#include "sign/swap_ws.h"

#define EXCHANGE_REASON_MAX EGRESS_REASON_MAX
#define EXCHANGE_MISFIT_MAX 160

/* An answer that is held because there may be tokens in it. */
struct exchange_held {
	const struct secret_capture *capture;
	size_t of;                      /* the number of the secret */
	struct buf head, body;          /* HEAD: encoded */
};

struct exchange_secrets {
	struct secrets_view *view;      /* what the request goes by */
	struct secrets_view *known;     /* what the answer goes by; NULL before it */
	struct buf head;                /* to send, encoded; empty: as it came */
	bool carries;                   /* something real goes out, or might come back */
	bool swapped;                   /* and it is not just a signature */
	bool whole;                     /* the answer has to be: half of a value cannot be found in it */
	const struct bound_secret *signs[2];    /* whose signature is in it, or NULL: one of the
	                                 * request, and one of a token alone */
	bool signs_body;                /* the body will tell, and is held until then: MAYBE */
	bool covered;                   /* what is signed is the request: it stays as it is */
	bool refused_covered;           /* something that may be there was in what is signed */
	bool measures;                  /* the body is short, and its length has to be told anew */
	struct sign_chunks *chunks;
	struct swap_stream body, answer;
	struct swap_ws *sent, *received;        /* messages, after an upgrade */
	bool in_body;                   /* BODY is set up */
	bool grew;                      /* it became too large */
	exchange_pass *pass;            /* while BODY is fed */
	struct buf held;                /* the body to send, while it is made of one that was held */
	uint16_t ended;                 /* because one has: the status for it */
	bool revoked, used_up;          /* ended that way; or its budget has */

	struct exchange_made *made;     /* NULL: nothing was signed */
	bool made_token;                /* and it is good for any request */
	const struct swap_set *coming;  /* what the answer is searched for, by KNOWN */

	bool watched, waits;            /* it is refused: BODY is only searched; the record waits for it */
	bool captures;                  /* tokens may come back */
	unsigned char carried[BOUND_MAX];       /* secrets that are in it, or tokens of theirs */
	struct exchange_held *answer_held;
	struct decode *unpack;
	struct buf packed;              /* what is not unpacked yet */
	bool packed_all;                /* there is no more; TRAILERS: */
	struct buf trailers;

	/* Large, and not cleared for each exchange: */
	struct err wrong;               /* of a signed token that is nobody's, or code 0 */
	char reason[EXCHANGE_REASON_MAX];       /* why something was refused */
	bool maybe[SECRETS_KNOWN_MAX];  /* whose the signature may be: those that sign at all */
};

/* EX has secrets from here on, by what is known now.  False: there is no memory. */
bool exchange_secrets_new(struct exchange *ex);

/* EX cannot have what it wants: -EACCES for the reason in struct exchange_secrets, else ERR's.
 * Always false. */
bool exchange_refuse_secret(struct exchange *ex, int r, const struct err *err);

/* ---- courier_place.c ---- */

/* Whether the secret may go where EX goes. */
bool exchange_fits_scope(struct exchange *ex, const struct secret *s);
/* Why not, for people. */
void exchange_tell_misfit(struct exchange *ex, const struct secret *s, char *text, size_t size);
/* Whether the token OWNER (its number in the view) has: then that is the reason. */
bool exchange_has_ended(struct exchange *ex, size_t owner);
/* OWNER, or what it was given for, is in what is sent. */
void exchange_note_carried(struct exchange *ex, size_t owner);
/* Of a request: REPLACE where it may be, STOP where not. */
swap_judge exchange_judge;
/* Of one that is refused: LEAVE where it may be, STOP where not. */
swap_judge exchange_judge_stray;
/* What is signed cannot be changed: nothing of ours may be in it at all. */
swap_judge exchange_judge_never;
/* Of what is only searched. */
swap_sink exchange_no_sink;

/* ---- courier_sign.c ---- */

/* Finds out who signed HEAD, as the agent made it, and signs it anew.  Where the body has to
 * tell, x->signs_body is set then.  A token that nobody signed is told in x->wrong.  False: EX
 * is refused. */
bool exchange_sign_head(struct exchange *ex, struct http_head *head);
/* The same, with all of the body. */
bool exchange_sign_body(struct exchange *ex, struct http_head *head, const struct sign_body *body);
bool exchange_is_signed_by(const struct exchange_secrets *x, const struct bound_secret *known);
/* Whether EX is, or may be, signed with the placeholder of secret I. */
bool exchange_is_signer(const struct exchange *ex, size_t i);
/* courier_pem.c: a line of the block of KIND ("PRIVATE KEY") in PEM that no other has. */
bool pem_line(struct http_text pem, const char *kind, struct http_text *ret_line);

/* Where heads are written while they are dealt with: one at a time. */
struct sign_memory *exchange_scratch(struct exchange *ex);
/* For messages of one side; HOW: its set, judge, lengths, sink and arg.  NULL: no memory. */
struct swap_ws *exchange_new_messages(bool from_client, const struct swap_stream *how);

/* ---- courier_made.c ---- */

/* The signer has made AFTER of BEFORE, and perhaps another body of BODY; or (TOKEN) it has told of
 * tokens that it made.  Their own answer is searched for all of them. */
int exchange_keep_made(struct exchange *ex, bool token, const struct http_head *before,
                       const struct http_head *after, const struct sign_body *body, struct err *err);
void exchange_free_made(struct exchange_secrets *x);    /* wipes; what is searched by it is over */
/* What X's answer is searched for, by KNOWN; *ret_set is NULL where that is nothing, and good until
 * it is asked for again. */
int exchange_coming(struct exchange_secrets *x, const struct secrets_view *known,
                    const struct swap_set **ret_set, struct err *err);

/* ---- courier_signed.c ---- */

/* REAL is in what was signed anew; AGENTS stood in its place, or is empty.  Both are there only during the
 * call.  A negative return value ends it. */
typedef int exchange_signed(void *arg, struct http_text real, struct http_text agents);
int exchange_compare_texts(struct http_text before, struct http_text after, exchange_signed *found, void *arg);
int exchange_compare_heads(const struct http_head *before, const struct http_head *after,
                           exchange_signed *found, void *arg);

/* ---- courier_unpack.c ---- */

/* HEAD is what it is without its coding.  False: that cannot be; *ret_why. */
bool exchange_unpack_begin(struct exchange *ex, struct http_head *head, bool has_body,
                           const char **ret_why);
void exchange_drop_unpack(struct courier *c, struct exchange_secrets *x);
/* DATA, and what waits, as far as the gate takes it.  False: it is broken; ex->secrets->reason. */
bool exchange_unpack(struct exchange *ex, const void *data, size_t len);
bool exchange_unpack_end(struct exchange *ex);

/* ---- courier_scrub.c ---- */

/* Bytes that are not packed.  False: it cannot be passed on. */
bool exchange_scrub_plain(struct exchange *ex, const void *data, size_t len);
/* The fields of HEAD by what is known now, and the body to come. */
bool exchange_scrub_fields(struct exchange *ex, struct http_head *head, const char **ret_why);

/* ---- courier_capture.c ---- */

/* Of which secret tokens may come back from where EX goes; NULL: of none. */
const struct secret_capture *exchange_find_capture(struct exchange *ex, size_t *ret_of);
void exchange_free_held(struct exchange_secrets *x);    /* wipes */
/* Hold the answer that begins with HEAD. */
bool exchange_hold(struct exchange *ex, const struct http_head *head, const char **ret_why);
bool exchange_hold_body(struct exchange *ex, const void *data, size_t len);
/* All of it is there: the head and the body go on with other tokens in them. */
bool exchange_let_go(struct exchange *ex);
#endif
