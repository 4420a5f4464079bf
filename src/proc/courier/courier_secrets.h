/* courier_secrets.h - the cell's credentials: placeholders in what leaves become real ones
 * where they may, signatures are made anew, and nothing real comes back.
 *
 * Real values are in the guarded memory that they were read into, in what is on its way to
 * a server, and nowhere else: what is recorded is the request as the agent made it. */
#ifndef CLOISTER_COURIER_SECRETS_H
#define CLOISTER_COURIER_SECRETS_H
#include <stdbool.h>

#include "sign/sign.h"
#include "sign/swap.h"
#include "vault/bound.h"

struct courier;
struct exchange;

#define SECRETS_NEEDLES (BOUND_MAX * SECRET_FIELDS)

/* What took the place of values that have ended. */
struct renewed {
	struct bound_secret known;
	struct guard memory;            /* the real values */
	size_t users;
};

/* All that is known at a time.  As long as an exchange goes by it, it stays as it is. */
struct secrets_view {
	const struct bound_secret *at[BOUND_MAX];
	const struct sign_scheme *schemes[BOUND_MAX];   /* NULL: it signs nothing */
	size_t n_known;
	struct renewed *renewed[BOUND_MAX];     /* NULL: as it was in the beginning */
	/* Placeholders on their way out, real values on their way in, and whose they are. */
	struct swap_needle leaving[SECRETS_NEEDLES], coming[SECRETS_NEEDLES];
	unsigned char owner[SECRETS_NEEDLES], field[SECRETS_NEEDLES];
	size_t n, n_coming;
	struct swap_set *out, *in;
	size_t users;
};

struct secrets {
	struct bound bound;
	struct renewed *renewed[BOUND_MAX];
	struct secrets_view *view;      /* NULL: there are no secrets */
	struct sign_memory scratch;     /* a head that is being dealt with */
};

/* ---- courier_known.c ---- */

/* FD's secrets (bound.h), which is read from its start. */
int secrets_open(struct secrets *s, int fd, struct err *err);
void secrets_close(struct secrets *s);  /* wipes */
struct secrets_view *secrets_view_use(struct secrets_view *view);
void secrets_view_release(struct secrets_view *view);   /* NULL is fine */
/* Something of S has changed: its view becomes another.  On failure it is as it was. */
int secrets_look_again(struct secrets *s, struct err *err);

/* ---- courier_renew.c ---- */

/* REAL, which points into MEMORY, takes the place of the values of the secret NAME, and MEMORY
 * is taken over.  On failure nothing has changed. */
int secrets_renew(struct secrets *s, const char *name, uint64_t expires,
                  const struct http_text real[SECRET_FIELDS], struct guard *memory,
                  struct err *err);
void renewed_release(struct renewed *renewed);  /* NULL is fine */
bool secret_has_ended(const struct bound_secret *known);
/* Hear what is current, and from then on what is new, of the keeper at COURIER_KEEPER_FD. */
int courier_start_keeper(struct courier *c, struct err *err);
/* Something has ended: the keeper may not have noticed, on a machine that slept. */
void courier_ask_keeper(struct courier *c);

/* What an exchange has besides, where there are secrets. */
struct exchange_secrets;
void exchange_secrets_free(struct exchange *ex);

/* EX's head as it is to be sent.  False: EX is refused. */
bool exchange_use_secrets(struct exchange *ex);
/* Whether one of them may stand in its body. */
bool exchange_may_fill_body(struct exchange *ex);
/* Whether all of the body has to be there before the head can be signed. */
bool exchange_signs_body(const struct exchange *ex);
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

/* The answer to a request that carried something real: its head (false: it cannot be
 * passed on; *ret_why says so), its body and its end. */
bool exchange_is_scrubbed(const struct exchange *ex);
bool exchange_scrub_head(struct exchange *ex, struct http_head *head, const char **ret_why);
void exchange_scrub(struct exchange *ex, const void *data, size_t len);
/* TRAILERS are changed.  False: they cannot be passed on. */
bool exchange_scrub_end(struct exchange *ex, struct http_field *trailers, size_t n);
/* What follows an upgrade.  False: these are no messages. */
bool exchange_scrub_raw(struct exchange *ex, const void *data, size_t len);
#endif
