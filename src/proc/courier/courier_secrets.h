/* courier_secrets.h - the cell's credentials: placeholders in what leaves become real ones
 * where they may, signatures are made anew, and nothing real comes back.
 *
 * Real values are in the guarded memory that they were read into, in what is on its way to
 * a server, and nowhere else: what is recorded is the request as the agent made it. */
#ifndef CLOISTER_COURIER_SECRETS_H
#define CLOISTER_COURIER_SECRETS_H
#include <stdbool.h>

#include "loop/loop.h"
#include "proc/courier/courier_mtls.h"
#include "sign/sign_options.h"
#include "sign/swap.h"
#include "vault/bound.h"

struct courier;
struct exchange;

#define TOKENS_MAX 256                  /* that were captured, and have not ended */
#define TOKEN_GRACE_S 60                /* after its end, its value is still looked for */
#define SECRETS_KNOWN_MAX (BOUND_MAX + TOKENS_MAX)
#define SECRETS_LINES 2                 /* of a key with its certificate, besides */
#define SECRETS_NEEDLES (SECRETS_KNOWN_MAX * SECRET_FIELDS + BOUND_MAX * SECRETS_LINES)
#define SECRETS_FORMER 4                /* values of one that were replaced, the newest of them */
/* Of a secret that was renewed, the first value and those before are looked for, too. */
#define SECRETS_COMING ((SECRETS_KNOWN_MAX + (1 + SECRETS_FORMER) * BOUND_MAX) * SECRET_FIELDS)
#define SECRETS_PASSED 32
#define EXCHANGE_MADE_MAX 16            /* signatures and tokens of one request */
#define SECRETS_WHY_MAX 160             /* bytes of why one was revoked */
_Static_assert(SECRETS_NEEDLES <= SWAP_NEEDLES_MAX &&
               SECRETS_COMING + EXCHANGE_MADE_MAX <= SWAP_NEEDLES_MAX,
               "all of them are in one set");

/* What a server gave that is as good as a secret. */
struct token {
	struct bound_secret known;      /* SECRET is the definition's.  Without values: it has ended,
	                                 * and is there only to be told from others */
	struct guard memory;            /* the real values */
	char *fake[SECRET_FIELDS];
	size_t of;                      /* the number of the secret that it was given for */
	size_t users;
};

/* What took the place of values that have ended. */
struct renewed {
	struct bound_secret known;
	struct guard memory;            /* the real values */
	size_t users;
};

/* All that is known at a time; the secrets first, then the tokens.  As long as an exchange goes
 * by it, it stays as it is. */
struct secrets_view {
	const struct bound_secret *at[SECRETS_KNOWN_MAX];
	const struct sign_scheme *schemes[SECRETS_KNOWN_MAX];   /* NULL: it signs nothing */
	struct sign_options *options[SECRETS_KNOWN_MAX];        /* what those are told */
	size_t n_known, n_bound, n_signers;
	struct renewed *renewed[BOUND_MAX];     /* NULL: as it was in the beginning */
	/* What those took the place of, the newest first. */
	struct renewed *former[BOUND_MAX][SECRETS_FORMER];
	/* What is revoked, without its key and token: AT points here. */
	struct bound_secret dead[BOUND_MAX];
	struct token *tokens[TOKENS_MAX];
	/* Placeholders on their way out, real values on their way in, and whose they are. */
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
	bool rotated[BOUND_MAX];        /* by the operator, who knows better than its keeper */
	/* Taken back: its value goes nowhere any more, and is only looked for in what comes. */
	bool revoked[BOUND_MAX];
	bool quiet[BOUND_MAX];          /* the agent is to take that for the service's doing */
	char why[BOUND_MAX][SECRETS_WHY_MAX];   /* "": nobody said */
	uint64_t used[BOUND_MAX];       /* requests that it went with */
	bool used_more;                 /* since that was told */
	struct token *tokens[TOKENS_MAX];       /* the oldest first */
	size_t n_tokens;
	struct loop_timer sweep;        /* when the next of them is to be dropped */
	struct secrets_view *view;      /* NULL: there are no secrets */
	struct mtls_keys mtls;
	/* Hosts of which it is recorded that a placeholder passed; the oldest make room. */
	char passed[SECRETS_PASSED][HTTP_HOST_MAX + 1];
	size_t n_passed;
	uint64_t n_missed;              /* beginnings of values in answers, that were none */
	bool guessed, tells_guessed;    /* there were too many; that is to be recorded */
	size_t n_unpacking;             /* answers that are being unpacked */
	size_t n_captures;              /* endpoints that tokens come from, of all of them */
	/* A head that is being dealt with: */
	struct sign_memory scratch;
	struct http_head head, unsigned_head;
	struct http_head signed_head;   /* as the agent made it */
	struct secrets_signers {
		bool maybe[SECRETS_KNOWN_MAX];  /* may have signed it */
		bool strays[SECRETS_KNOWN_MAX]; /* the same, but it goes where that one may not */
		bool named[SECRETS_KNOWN_MAX];  /* and its id is there */
	} signers;
};

/* ---- courier_known.c ---- */

/* FD's secrets (bound.h), which is read from its start. */
int secrets_open(struct secrets *s, int fd, struct err *err);
void secrets_close(struct secrets *s);  /* wipes */
struct secrets_view *secrets_view_use(struct secrets_view *view);
void secrets_view_release(struct secrets_view *view);   /* NULL is fine */
/* N more tokens, which become the table's; those that have ended make room.  -ENOSPC: there are
 * none.  On failure nothing has changed, and they are still the caller's. */
int secrets_add_tokens(struct courier *c, struct token *const *tokens, size_t n,
                       struct err *err);
void token_release(struct token *token);        /* NULL is fine */
/* Something of S has changed: its view becomes another.  On failure it is as it was. */
int secrets_look_again(struct secrets *s, struct err *err);

/* ---- courier_renew.c ---- */

/* REAL, which points into MEMORY, takes the place of the values of the secret NAME, and MEMORY
 * is taken over.  On failure nothing has changed. */
int secrets_renew(struct secrets *s, const char *name, uint64_t expires,
                  const struct http_text real[SECRET_FIELDS], struct guard *memory,
                  struct err *err);
struct renewed *renewed_use(struct renewed *renewed);   /* NULL is fine, here and there */
void renewed_release(struct renewed *renewed);
bool secret_has_ended(const struct bound_secret *known);
/* The number of the secret NAME; false: the cell has none of that name. */
bool secrets_named(const struct secrets *s, const char *name, size_t *ret_at);
/* Hear what is current, and from then on what is new, of the keeper at COURIER_KEEPER_FD. */
int courier_start_keeper(struct courier *c, struct err *err);
/* Something has ended: the keeper may not have noticed, on a machine that slept. */
void courier_ask_keeper(struct courier *c);

/* ---- courier_revoke.c ---- */

/* The secret NAME is of no use any more, nor are tokens that were given for it: what is under way
 * with it is cut off, but for SPARED (may be NULL), and what comes is refused.  WHY is for the agent;
 * may be "".  QUIET: the agent gets what the service answers to a key that is no longer good.
 * -ENOENT: the cell has none of that name.  Once more is fine. */
int courier_revoke(struct courier *c, const char *name, const char *why, bool quiet,
                   const struct exchange *spared, struct err *err);
/* FD has one secret (bound.h): from now on its value is that of the cell's of the same name.  What
 * is under way keeps the one it has. */
int courier_rotate(struct courier *c, int fd, struct err *err);
/* How often each went out, if it did since that was told. */
void courier_tell_used(struct courier *c);
/* Whether secret I (its number in VIEW; a token too) is revoked: then the reason is in ret_reason. */
bool secrets_is_revoked(const struct secrets *s, const struct secrets_view *view, size_t i,
                        char *ret_reason, size_t size);

/* ---- courier_quiet.c ---- */

/* EX is about to be refused because secret I of VIEW, which may be a token, is revoked. */
void exchange_note_quiet(struct exchange *ex, const struct secrets_view *view, size_t i);
/* Answer as the service would: ex->quiet is set. */
void exchange_answer_quietly(struct exchange *ex);

/* ---- courier_scrub.c ---- */

#define SECRETS_MISSED_MAX 2
/* That values are guessed at, if that has to be told. */
void courier_tell_guessed(struct courier *c);

/* What an exchange has besides, where there are secrets. */
struct exchange_secrets;
void exchange_secrets_free(struct exchange *ex);

/* EX's head as it is to be sent.  False: EX is refused. */
bool exchange_use_secrets(struct exchange *ex);
/* Whether one of them may stand in its body. */
bool exchange_may_fill_body(struct exchange *ex);
/* Whether one may be in it all the same, and is no credential that it carries. */
bool exchange_may_pass_placeholders(const struct exchange *ex);
/* Whether what PASS is given just now is a value that was put in, or a placeholder that passes. */
bool exchange_is_filling(const struct exchange *ex);
/* Whether all of the body has to be there before the head can be signed, or its length be told:
 * values may be longer than what stands for them, or escaped otherwise. */
#define SECRETS_MEASURED_MAX (64 * 1024)        /* what is longer keeps its length, or is refused */
bool exchange_signs_body(const struct exchange *ex);
/* Whether `expect` goes along: while the body is still to come, and always if it may be signed. */
bool exchange_expects(const struct exchange *ex);
/* All of it is there, in ex->body.  False: EX is refused. */
bool exchange_use_held(struct exchange *ex);
/* Bytes of the body on their way; what may go on is given to PASS, which returns false when
 * EX takes no more.  False: EX is refused, or PASS said so. */
typedef bool exchange_pass(struct exchange *ex, const unsigned char *data, size_t len);
bool exchange_use_body(struct exchange *ex, const unsigned char *data, size_t len,
                       exchange_pass *pass);
bool exchange_use_body_end(struct exchange *ex, exchange_pass *pass);

/* The same for what follows an upgrade: messages. */
bool exchange_use_raw(struct exchange *ex, const unsigned char *data, size_t len,
                      exchange_pass *pass);

/* Trailers are not for placeholders.  False: EX is refused. */
bool exchange_use_trailers(struct exchange *ex, struct http_field *fields, size_t n);

/* ---- courier_stray.c: names, and what is refused anyway ---- */

/* Whether a placeholder is in NAME, in either case and whatever dots are in it: that may not be anywhere, as
 * who answers for the name hears it.  WHAT ("the host") is for people. */
bool courier_strays_in_name(const struct courier *c, const char *name, const char *what,
                            char *ret_reason, size_t size);
/* The same; then EX is refused. */
bool exchange_strays_in_name(struct exchange *ex, const char *name, const char *what);

#define COURIER_STRAY_MS 1000           /* how long the record of a refusal waits for the body */

/* Whether a placeholder is in EX's head where it may not be: why not, or NULL.  Then the body is
 * searched as it comes, and the record waits for it. */
const char *exchange_find_stray(struct exchange *ex);
bool exchange_awaits_stray(const struct exchange *ex);
void exchange_watch(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_watch_end(struct exchange *ex);

/* The answer to a request that carried something real: its head (false: it cannot be
 * passed on; *ret_why says so), its body and its end.  With HAS_BODY it may be held from then
 * on: exchange_is_held(). */
bool exchange_is_scrubbed(const struct exchange *ex);
bool exchange_scrub_head(struct exchange *ex, struct http_head *head, bool has_body,
                         const char **ret_why);
/* False: it cannot be passed on, as the exchange's note says. */
bool exchange_scrub(struct exchange *ex, const void *data, size_t len);
/* The gate takes more: what could not be unpacked so far.  False: the answer is over. */
bool exchange_scrub_more(struct exchange *ex);
/* There is no more.  TRAILERS are changed; *ret_n is how many of them can be passed on.  While
 * some of it waits for the gate, nothing has been done; exchange_scrub_more() will. */
enum scrub_end { SCRUB_ENDED, SCRUB_WAITS, SCRUB_FAILED };
enum scrub_end exchange_scrub_end(struct exchange *ex, struct http_field *trailers, size_t n,
                                  size_t *ret_n);
/* What follows an upgrade.  False: these are no messages. */
bool exchange_scrub_raw(struct exchange *ex, const void *data, size_t len);

/* ---- courier_unpack.c: of an answer that is packed ---- */

#define UNPACKING_MAX 32                /* at a time: each may want 16 MiB */

/* How much of it waits until the gate takes more. */
size_t exchange_packed(const struct exchange *ex);

/* ---- courier_capture.c: answers with tokens in them are held ---- */

bool exchange_is_held(const struct exchange *ex);
/* It comes to nothing. */
void exchange_drop_held(struct exchange *ex);
#endif
