/* secrets.h - the cell's credentials: replaces placeholders in requests by real values,
 * makes signatures anew, and keeps real values out of responses.
 *
 * Real values exist only in guarded memory and in the bytes on their way to a server.  The record
 * has the request as the agent made it. */
#ifndef CLOISTER_EGRESS_SECRETS_H
#define CLOISTER_EGRESS_SECRETS_H
#include <stdbool.h>

#include "egress/certificate.h"
#include "loop/loop.h"
#include "sign/sign_options.h"
#include "sign/swap.h"
#include "vault/bound.h"

struct courier;
struct exchange;

#define TOKENS_MAX 256                  /* captured tokens that have not ended */
#define TOKEN_GRACE_S 60                /* seconds after its end during which a token's value is still
                                         * searched for */
#define SECRETS_KNOWN_MAX (BOUND_MAX + TOKENS_MAX)
#define SECRETS_LINES 2                 /* of a key with its certificate, in addition */
#define SECRETS_NEEDLES (SECRETS_KNOWN_MAX * SECRET_FIELDS + BOUND_MAX * SECRETS_LINES)
#define SECRETS_FORMER 4                /* replaced values kept of each secret, the newest ones */
/* For a renewed secret, responses are also searched for its first and former values. */
#define SECRETS_COMING ((SECRETS_KNOWN_MAX + (1 + SECRETS_FORMER) * BOUND_MAX) * SECRET_FIELDS)
#define SECRETS_PASSED 32
#define EXCHANGE_MADE_MAX 16            /* signatures and tokens of one request */
#define SECRETS_WHY_MAX 160             /* bytes of the reason for a revocation */
_Static_assert(SECRETS_NEEDLES <= SWAP_NEEDLES_MAX &&
               SECRETS_COMING + EXCHANGE_MADE_MAX <= SWAP_NEEDLES_MAX,
               "all of them are in one set");

/* A token from a server that is as sensitive as a secret. */
struct token {
	struct bound_secret known;      /* SECRET is the definition's.  Without values: it has ended, and is
	                                 * kept only to be recognised */
	struct guard memory;            /* the real values */
	char *fake[SECRET_FIELDS];
	size_t of;                      /* the number of the secret that it was issued for */
	size_t users;
};

/* New values of a secret whose old ones have ended. */
struct renewed {
	struct bound_secret known;
	struct guard memory;            /* the real values */
	size_t users;
};

/* Everything known at one time: the secrets first, then the tokens.  It does not change as long as
 * an exchange uses it. */
struct secrets_view {
	const struct bound_secret *at[SECRETS_KNOWN_MAX];
	const struct sign_scheme *schemes[SECRETS_KNOWN_MAX];   /* NULL: it does not sign */
	struct sign_options *options[SECRETS_KNOWN_MAX];        /* the options of those schemes */
	size_t n_known, n_bound, n_signers;
	struct renewed *renewed[BOUND_MAX];     /* NULL: still its first values */
	/* The values that those replaced, the newest first. */
	struct renewed *former[BOUND_MAX][SECRETS_FORMER];
	/* Revoked secrets, without key and token: AT points here. */
	struct bound_secret dead[BOUND_MAX];
	struct token *tokens[TOKENS_MAX];
	/* Placeholders in requests, real values in responses, and their owners. */
	struct swap_needle leaving[SECRETS_NEEDLES], coming[SECRETS_COMING];
	uint16_t owner[SECRETS_NEEDLES];
	unsigned char field[SECRETS_NEEDLES];
	size_t n, n_coming;
	struct swap_set *out, *in;
	size_t users;
};

struct secrets {
	struct bound bound;
	struct renewed *renewed[BOUND_MAX], *former[BOUND_MAX][SECRETS_FORMER];
	bool rotated[BOUND_MAX];        /* by the operator, whose value overrides the keeper's */
	/* Revoked: its value is sent nowhere, and only searched for in responses. */
	bool revoked[BOUND_MAX];
	bool quiet[BOUND_MAX];          /* the agent gets the service's own error for it */
	char why[BOUND_MAX][SECRETS_WHY_MAX];   /* "": no reason was given */
	uint64_t used[BOUND_MAX];       /* requests that carried it */
	bool used_more;                 /* since the last report */
	struct token *tokens[TOKENS_MAX];       /* the oldest first */
	size_t n_tokens;
	struct loop_timer sweep;        /* runs when the next token is to be dropped */
	struct secrets_view *view;      /* NULL: there are no secrets */
	struct mtls_keys mtls;
	/* Hosts for which a passed placeholder was recorded; the oldest are dropped. */
	char passed[SECRETS_PASSED][HTTP_HOST_MAX + 1];
	size_t n_passed;
	uint64_t n_missed;              /* beginnings of values in responses that turned out not to be
	                                 * values */
	bool guessed, tells_guessed;    /* there were too many of these; that is still to be recorded */
	size_t n_unpacking;             /* responses that are being decompressed */
	size_t n_captures;              /* endpoints that issue tokens, of all secrets */
	/* Scratch memory for the head at hand: */
	struct sign_memory scratch;
	struct http_head head, unsigned_head;
	struct http_head signed_head;   /* as the agent made it */
	struct secrets_signers {
		bool maybe[SECRETS_KNOWN_MAX];  /* may have signed it */
		bool strays[SECRETS_KNOWN_MAX]; /* the same, but the secret may not go there */
		bool named[SECRETS_KNOWN_MAX];  /* and its id is in the head */
	} signers;
};

/* ---- secrets_view.c ---- */

/* Read the secrets (bound.h) from the start of FD. */
int secrets_open(struct secrets *s, int fd, struct err *err);
void secrets_close(struct secrets *s);  /* wipes */
struct secrets_view *secrets_view_use(struct secrets_view *view);
void secrets_view_release(struct secrets_view *view);   /* NULL is fine */
/* Add N tokens, which the table takes over; ended tokens make room.  -ENOSPC: there is no room.  On
 * failure nothing has changed, and the caller still owns the tokens. */
int secrets_add_tokens(struct courier *c, struct token *const *tokens, size_t n,
                       struct err *err);
void token_release(struct token *token);        /* NULL is fine */
/* S has changed: make a new view.  On failure the old view stays. */
int secrets_look_again(struct secrets *s, struct err *err);

/* ---- renew.c ---- */

/* Replace the values of the secret NAME by REAL, which points into MEMORY.  Takes over MEMORY.  On
 * failure nothing has changed. */
int secrets_renew(struct secrets *s, const char *name, uint64_t expires,
                  const struct http_text real[SECRET_FIELDS], struct guard *memory,
                  struct err *err);
struct renewed *renewed_use(struct renewed *renewed);   /* NULL is fine for both */
void renewed_release(struct renewed *renewed);
bool secret_has_ended(const struct bound_secret *known);
/* Find the number of the secret NAME.  False: the cell has no such secret. */
bool secrets_named(const struct secrets *s, const char *name, size_t *ret_at);
/* Get the current values, and later the new ones, from the keeper at COURIER_KEEPER_FD. */
int courier_start_keeper(struct courier *c, struct err *err);
/* A value has ended: ask the keeper, which may have missed that while the machine slept. */
void courier_ask_keeper(struct courier *c);

/* ---- revoke.c ---- */

/* Revoke the secret NAME and the tokens issued for it.  Exchanges that use it are cut off, except
 * SPARED (may be NULL), and later ones are refused.  WHY is for the agent, and may be "".  QUIET:
 * the agent gets the service's own error for an invalid key.  -ENOENT: the cell has no such secret.
 * Repeating it is fine. */
int courier_revoke(struct courier *c, const char *name, const char *why, bool quiet,
                   const struct exchange *spared, struct err *err);
/* FD holds one secret (bound.h).  Its value replaces that of the cell's secret of the same name.
 * Running exchanges keep the old value. */
int courier_rotate(struct courier *c, int fd, struct err *err);
/* Report how often each secret was sent, if that changed since the last report. */
void courier_tell_used(struct courier *c);
/* Whether secret I (its number in VIEW; also a token) is revoked.  If so, ret_reason has the
 * reason. */
bool secrets_is_revoked(const struct secrets *s, const struct secrets_view *view, size_t i,
                        char *ret_reason, size_t size);

/* ---- quiet.c ---- */

/* EX is about to be refused because secret I of VIEW, possibly a token, is revoked. */
void exchange_note_quiet(struct exchange *ex, const struct secrets_view *view, size_t i);
/* Answer as the service would.  ex->outcome.quiet must be set. */
void exchange_answer_quietly(struct exchange *ex);

/* ---- scrub.c ---- */

#define SECRETS_MISSED_MAX 2
/* Record that the agent guesses values, if that is still to be recorded. */
void courier_tell_guessed(struct courier *c);

/* Free EX's own state for secrets. */
void exchange_secrets_free(struct exchange *ex);

/* Whether a secret may be used in its body. */
bool exchange_may_fill_body(struct exchange *ex);
/* Whether its body may contain a placeholder that is not replaced. */
bool exchange_may_pass_placeholders(const struct exchange *ex);
/* Whether the bytes that PASS gets now are a real value, or a placeholder that passes. */
bool exchange_is_filling(const struct exchange *ex);
/* Whether the whole body is needed before the head can be signed, or its length be known.  A value
 * may be longer than its placeholder, or be escaped differently. */
#define SECRETS_MEASURED_MAX (64 * 1024)        /* a longer body keeps its length, or is refused */
bool exchange_signs_body(const struct exchange *ex);
/* Whether to send `expect`: while the body is still to come, and always if it may be signed. */
bool exchange_expects(const struct exchange *ex);
/* Process bytes of the body.  PASS gets the bytes that may be sent, and returns false when EX takes
 * no more.  False: EX is refused, or PASS returned false. */
typedef bool exchange_pass(struct exchange *ex, const unsigned char *data, size_t len);
bool exchange_use_body(struct exchange *ex, const unsigned char *data, size_t len,
                       exchange_pass *pass);
bool exchange_use_body_end(struct exchange *ex, exchange_pass *pass);

/* As exchange_use_body(), for the messages after an upgrade. */
bool exchange_use_raw(struct exchange *ex, const unsigned char *data, size_t len,
                      exchange_pass *pass);

/* Trailers may not contain placeholders.  False: EX is refused. */
bool exchange_use_trailers(struct exchange *ex, struct http_field *fields, size_t n);

/* ---- misplaced.c: names, and requests that are refused anyway ---- */

/* Whether NAME contains a placeholder, in upper or lower case, and with any dots in it.  No name
 * may contain one: the name's server would receive it.  WHAT ("the host") is for people. */
bool courier_strays_in_name(const struct courier *c, const char *name, const char *what,
                            char *ret_reason, size_t size);
/* As courier_strays_in_name(); if so, EX is refused. */
bool exchange_strays_in_name(struct exchange *ex, const char *name, const char *what);

#define COURIER_STRAY_MS 1000           /* how long a refusal's record waits for the body */

/* Take the body that EX holds, unless it was searched for placeholders.  The caller owns it. */
struct buf exchange_take_unsearched(struct exchange *ex);
/* The reason why a placeholder in EX's head, or in the body that was HELD, is misplaced, or NULL if none is.  Unless one is
 * stolen, the rest of the body is searched as it comes, and the record waits for it. */
const char *exchange_find_stray(struct exchange *ex, const struct buf *held);
bool exchange_awaits_stray(const struct exchange *ex);
void exchange_watch(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_watch_end(struct exchange *ex);
/* EX is recorded before the search has ended: what it is refused for is a misplaced placeholder, if one was found. */
void exchange_note_mistake(struct exchange *ex);

/* Whether the response is cleaned: its request carried a real value.  It may be held from its head
 * on: exchange_is_held(). */
bool exchange_is_scrubbed(const struct exchange *ex);
/* The gate takes more: continue decompressing.  False: the response is over. */
bool exchange_scrub_more(struct exchange *ex);
/* The response is complete.  TRAILERS are changed; *ret_n of them can be passed on.  SCRUB_WAITS:
 * some bytes wait for the gate, and exchange_scrub_more() will finish. */
enum scrub_end { SCRUB_ENDED, SCRUB_WAITS, SCRUB_FAILED };
enum scrub_end exchange_scrub_end(struct exchange *ex, struct http_field *trailers, size_t n,
                                  size_t *ret_n);
/* Clean bytes after an upgrade.  False: they are not messages. */
bool exchange_scrub_raw(struct exchange *ex, const void *data, size_t len);

/* ---- unpack.c: compressed responses ---- */

#define UNPACKING_MAX 32                /* at once: each may need 16 MiB */

/* Compressed bytes that wait until the gate takes more. */
size_t exchange_packed(const struct exchange *ex);

/* ---- capture.c: holds responses that contain tokens ---- */

bool exchange_is_held(const struct exchange *ex);
/* Discard the held response. */
void exchange_drop_held(struct exchange *ex);
#endif
