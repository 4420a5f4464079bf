/* secrets_parts.h - shared by the files that put secrets into requests and clean responses. */
#ifndef CLOISTER_EGRESS_SECRETS_PARTS_H
#define CLOISTER_EGRESS_SECRETS_PARTS_H
#include "base/buf.h"
#include "base/err.h"
#include "egress/secrets.h"
#include "inspect/decode.h"
#include "ipc/egress_channel.h"
#include "sign/capture.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"
#include "sign/swap_ws.h"

#define EXCHANGE_REASON_MAX EGRESS_REASON_MAX
#define EXCHANGE_MISFIT_MAX 160

struct events;

/* A response that is held because it may contain tokens. */
struct exchange_held {
	const struct secret_capture *capture;
	size_t of;                      /* the number of the secret */
	struct buf head, body;          /* HEAD: encoded */
};

struct exchange_secrets {
	struct secrets_view *view;      /* for the request */
	struct secrets_view *known;     /* for the response; NULL before it */
	struct buf head;                /* to send, encoded; empty: as it came */
	bool carries;                   /* a real value is sent, or might come back */
	bool swapped;                   /* a value was put in, not just a signature */
	bool whole;                     /* the response must be complete: half of a value cannot be found in
	                                 * it */
	const struct bound_secret *signs[2];    /* the signers, or NULL: one for the request, and one for a
	                                         * separate token */
	bool signs_body;                /* the body decides who signed, and is held until then: MAYBE */
	bool covered;                   /* the signature covers the request, which must not change */
	bool refused_covered;           /* a permitted placeholder was in what is signed */
	bool misplaced;                 /* REASON is about a placeholder on its way to a host of its own secret */
	bool measures;                  /* the body is short, and its length is computed anew */
	struct sign_chunks *chunks;
	struct swap_stream body, answer;
	struct swap_ws *sent, *received;        /* messages, after an upgrade */
	bool in_body;                   /* BODY is set up */
	bool grew;                      /* it became too large */
	exchange_pass *pass;            /* while BODY is fed */
	struct buf held;                /* the body to send, made from a held one */
	uint16_t ended;                 /* a value has ended: the response status for that */
	bool revoked, used_up;          /* it was revoked; or its budget is used up */

	struct exchange_made *made;     /* NULL: nothing was signed */
	bool made_token;                /* a token was made that is good for any request */
	const struct swap_set *coming;  /* values that the response is searched for, by KNOWN */

	bool watched, waits;            /* EX is refused: BODY is only searched; the record waits for it */
	bool captures;                  /* the response may contain tokens */
	unsigned char carried[BOUND_MAX];       /* secrets in the request, themselves or by their tokens */
	struct exchange_held *answer_held;
	struct decode *unpack;
	struct buf packed;              /* not decompressed yet */
	bool packed_all;                /* PACKED is complete; with its TRAILERS: */
	struct buf trailers;

	/* Large, and not cleared for each exchange: */
	struct err wrong;               /* about a signed token whose signer is unknown, or code 0 */
	char reason[EXCHANGE_REASON_MAX];       /* why something was refused */
	bool maybe[SECRETS_KNOWN_MAX];  /* possible signers, among the secrets that sign */
};

/* Set up ex->secrets by the current view.  False: out of memory. */
bool exchange_secrets_new(struct exchange *ex);

/* Refuse EX.  -EACCES: the reason is in struct exchange_secrets; otherwise it is in ERR.  Always
 * false. */
bool exchange_refuse_secret(struct exchange *ex, int r, const struct err *err);

/* ---- place.c ---- */

/* Whether the secret may go to EX's destination. */
bool exchange_fits_scope(struct exchange *ex, const struct secret *s);
/* Explain to people why it may not. */
void exchange_tell_misfit(struct exchange *ex, const struct secret *s, char *text, size_t size);
/* Whether the token OWNER (its number in the view) has ended.  If so, the reason is set. */
bool exchange_has_ended(struct exchange *ex, size_t owner);
/* Note that the request carries OWNER, or the secret that it was issued for. */
void exchange_note_carried(struct exchange *ex, size_t owner);
/* Records the names of the secrets that EX carried, if any. */
void exchange_secrets_record(struct events *e, const struct exchange *ex);
/* For a request: REPLACE where the placeholder is permitted, STOP elsewhere. */
swap_judge exchange_judge;
/* For a refused request: LEAVE where the placeholder is permitted, STOP elsewhere. */
swap_judge exchange_judge_stray;
/* For a signed part, which cannot change: STOP at any placeholder. */
swap_judge exchange_judge_never;
/* Discards bytes that are only searched. */
swap_sink exchange_no_sink;

/* ---- uses.c ---- */

/* Whether the rules that let EX through let it use the secret (`uses`). */
bool exchange_lets_use(const struct exchange *ex, const struct secret *s);
/* The same, and exchange_fits_scope().  As long as the body may decide which rule applies, any secret fits `uses`. */
bool exchange_may_use(struct exchange *ex, const struct secret *s);
/* The decision on EX is final, or was made anew.  False: EX carries a secret that its rules do not let it use, and is
 * refused. */
bool exchange_keeps_to_uses(struct exchange *ex);

/* ---- sign.c ---- */

/* Find out who signed HEAD, as the agent made it, and sign it anew.  If the body has to decide,
 * x->signs_body is set.  A token without a known signer is reported in x->wrong.  False: EX is
 * refused. */
bool exchange_sign_head(struct exchange *ex, struct http_head *head);
/* As exchange_sign_head(), with the whole body. */
bool exchange_sign_body(struct exchange *ex, struct http_head *head, const struct sign_body *body);
bool exchange_is_signed_by(const struct exchange_secrets *x, const struct bound_secret *known);
/* Whether the placeholder of secret I signs EX, or may sign it. */
bool exchange_is_signer(const struct exchange *ex, size_t i);
/* pem.c: find a line of the block of KIND ("PRIVATE KEY") in PEM that no other PEM has. */
bool pem_line(struct http_text pem, const char *kind, struct http_text *ret_line);

/* Memory for the head at hand; one head at a time. */
struct sign_memory *exchange_scratch(struct exchange *ex);
/* Make a filter for the messages of one side.  HOW has its set, judge, lengths, sink and arg.
 * NULL: out of memory. */
struct swap_ws *exchange_new_messages(bool from_client, const struct swap_stream *how);

/* ---- own_signatures.c ---- */

/* The signer has made AFTER from BEFORE, and perhaps another body from BODY.  With TOKEN, it has
 * reported the tokens that it made.  The response to EX is searched for all of them. */
int exchange_keep_made(struct exchange *ex, bool token, const struct http_head *before,
                       const struct http_head *after, const struct sign_body *body, struct err *err);
void exchange_free_made(struct exchange_secrets *x);    /* wipes; the searches that use it must be over */
/* The values that X's response is searched for, by KNOWN.  *ret_set is NULL if there are none, and
 * valid until the next call. */
int exchange_coming(struct exchange_secrets *x, const struct secrets_view *known,
                    const struct swap_set **ret_set, struct err *err);

/* ---- signed.c ---- */

/* REAL is in the new signature; AGENTS stood in its place, or is empty.  Both are valid only during
 * the call.  A negative return value ends the comparison. */
typedef int exchange_signed(void *arg, struct http_text real, struct http_text agents);
int exchange_compare_texts(struct http_text before, struct http_text after, exchange_signed *found, void *arg);
int exchange_compare_heads(const struct http_head *before, const struct http_head *after,
                           exchange_signed *found, void *arg);

/* ---- unpack.c ---- */

/* Change HEAD to that of the uncompressed response.  False: it cannot be decompressed, for the
 * reason in *ret_why. */
bool exchange_unpack_begin(struct exchange *ex, struct http_head *head, bool has_body,
                           const char **ret_why);
void exchange_drop_unpack(struct courier *c, struct exchange_secrets *x);
/* Decompress waiting bytes and DATA, as far as the gate takes the result.  False: the data is
 * broken; see ex->secrets->reason. */
bool exchange_unpack(struct exchange *ex, const void *data, size_t len);
bool exchange_unpack_end(struct exchange *ex);

/* ---- scrub.c ---- */

/* Clean uncompressed bytes.  False: they cannot be passed on. */
bool exchange_scrub_plain(struct exchange *ex, const void *data, size_t len);
/* Clean the fields of HEAD by the current view, and prepare for the body. */
bool exchange_scrub_fields(struct exchange *ex, struct http_head *head, const char **ret_why);

/* ---- capture.c ---- */

/* Find the capture for EX's destination, and its secret *ret_of.  NULL: there is none. */
const struct secret_capture *exchange_find_capture(struct exchange *ex, size_t *ret_of);
void exchange_free_held(struct exchange_secrets *x);    /* wipes */
/* Hold the response that begins with HEAD. */
bool exchange_hold(struct exchange *ex, const struct http_head *head, const char **ret_why);
bool exchange_hold_body(struct exchange *ex, const void *data, size_t len);
/* The held response is complete: send it with its tokens replaced. */
bool exchange_let_go(struct exchange *ex);
#endif
