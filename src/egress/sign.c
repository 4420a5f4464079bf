/* sign.c - finds the placeholder that a request is signed with, and makes the signature
 * anew.
 *
 * The check uses the request as the agent made it.  Until its signature is known to be right, the
 * request contains no real value that the agent could test guesses on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"

/* Whether the placeholder of secret I may have signed HEAD.  *ret_id is the key id in HEAD, or
 * empty. */
static bool
may_be_signed(const struct secrets_view *s, size_t i, const struct http_head *head,
              struct http_text *ret_id)
{
	const struct sign_scheme *scheme = s->schemes[i];
	struct http_text fake = s->at[i]->placeholder[SECRET_ID];

	*ret_id = (struct http_text){ "", 0 };
	if (scheme == NULL || !(scheme == &sign_hmac ? sign_hmac_find(s->options[i]->with, head, ret_id)
	                                             : scheme->find(head, ret_id)))
		return false;
	/* In a URL the id may be escaped. */
	return ret_id->len == 0 || scheme_same(*ret_id, fake) || scheme_same_decoded(*ret_id, fake);
}

/* The request as the agent made it, with the original spelling of its path. */
static const struct http_head *
as_signed(struct exchange *ex)
{
	struct http_head *signed_head = &ex->courier->secrets.signed_head;

	exchange_made_head(ex, signed_head);
	if (signed_head->written.len > 0)
		signed_head->path = signed_head->written;
	return signed_head;
}

static bool
is_alone(const struct exchange *ex, size_t i)
{
	return sign_is_alone(ex->secrets->view->schemes[i], &ex->courier->secrets.signed_head);
}

/* Change the signature of HEAD and BODY from the placeholder of secret I to TO.  WAS is what the
 * agent signed.  On failure, everything written is wiped. */
static int
sign_with(struct exchange *ex, size_t i, const struct http_text to[SECRET_FIELDS],
          const struct sign_was *was, struct http_head *head, const struct sign_body *body,
          enum sign_next *ret_next, struct err *err)
{
	const struct secrets_view *s = ex->secrets->view;
	struct sign_key from = bound_key(s->at[i]->placeholder), other = bound_key(to);
	struct sign_memory *m = &ex->courier->secrets.scratch;
	struct sign_body before = m->body;
	size_t used = m->used;
	int r;

	*ret_next = SIGN_DONE;
	r = s->schemes[i]->sign(s->options[i]->with, &from, &other, was, head, body, m, ret_next,
	                        &ex->secrets->chunks, err);
	if (r < 0) {
		explicit_bzero(m->at + used, m->used - used);
		m->used = used;
		m->body = before;
		m->n_made = 0;
	}
	return r;
}

/* As sign_with(), on a copy, and with the placeholder's key only. */
static int
try_with(struct exchange *ex, size_t i, const struct sign_was *was, const struct http_head *head,
         enum sign_next *ret_next, struct err *err)
{
	struct sign_memory *m = &ex->courier->secrets.scratch;
	struct sign_body before = m->body;
	struct http_head copy = *head;
	int r = sign_with(ex, i, ex->secrets->view->at[i]->placeholder, was, &copy, was->body,
	                  ret_next, err);

	sign_chunks_free(TAKE(ex->secrets->chunks));
	m->body = before;
	m->n_made = 0;
	m->h1_only = false;
	return r;
}

/* Whether the placeholder of secret I signed HEAD, judged by the head alone. */
static bool
is_signed(struct exchange *ex, size_t i, const struct sign_was *was, const struct http_head *head)
{
	enum sign_next next;
	struct err err = {0};
	int r = try_with(ex, i, was, head, &next, &err);

	/* Not permitted, but the signature was right. */
	return r == 0 ? next != SIGN_WANTS_BODY && next != SIGN_NOTHING : r == -EPERM;
}

/* Secret I has signed the request. */
static void
take_signer(struct exchange *ex, size_t i, enum sign_next next)
{
	struct exchange_secrets *x = ex->secrets;
	bool alone = is_alone(ex, i);

	x->signs[alone] = x->view->at[i];
	exchange_note_carried(ex, i);
	x->covered |= !alone;
	x->carries = true;
	x->signs_body = false;
	memset(x->maybe, 0, x->view->n_known);
	ex->t.h1_only |= ex->courier->secrets.scratch.h1_only;
	if (next == SIGN_WANTS_CHUNKS)
		ex->t.body.max += 2 * SIGN_CHUNK_MAX;
}

/* Candidates whose schemes sign only a token, or those that sign the request. */
struct attempt {
	const bool *maybe;
	bool alone;
	bool waits;             /* a token may still be put into the body: only check */
	struct sign_was was;
	const struct sign_body *body;
};

/* Try secret I.  1: it has signed HEAD, which is signed anew.  0: the body will decide (x->maybe),
 * or nothing is signed after all.  -ESTALE: the secret has ended. */
static int
try_one(struct exchange *ex, const struct attempt *try, size_t i, struct http_head *head,
        struct err *err)
{
	struct exchange_secrets *x = ex->secrets;
	const struct bound_secret *known = x->view->at[i];
	struct http_head *before = &ex->courier->secrets.unsigned_head;
	bool ended = exchange_has_ended(ex, i);
	enum sign_next next;
	int r;

	http_head_copy(before, head);
	/* An ended secret may have no value any more. */
	r = try->waits ? try_with(ex, i, &try->was, head, &next, err) :
	                 sign_with(ex, i, ended ? known->placeholder : known->real, &try->was, head,
	                           try->body, &next, err);
	if (r < 0)
		return r;
	if (ended)
		return -ESTALE;
	if (next == SIGN_WANTS_BODY || (try->waits && next != SIGN_NOTHING)) {
		x->maybe[i] = x->signs_body = true;
		x->covered |= !try->alone;
		return 0;
	}
	if (next == SIGN_NOTHING)
		return 0;
	take_signer(ex, i, next);
	return exchange_keep_made(ex, try->alone, before, head, try->body, err) < 0 ? -ENOMEM : 1;
}

/* Try all candidates.  1: one has signed HEAD.  0: none has, or the body will decide.  A failure is
 * that of the closest candidate. */
static int
try_kind(struct exchange *ex, const struct attempt *try, struct http_head *head, struct err *err)
{
	struct exchange_secrets *x = ex->secrets;
	const struct secrets_view *s = x->view;
	bool waits = false;

	for (size_t i = 0; i < s->n_known; i++) {
		struct err why = {0};
		int r;

		if (!try->maybe[i] || is_alone(ex, i) != try->alone)
			continue;
		r = try_one(ex, try, i, head, &why);
		if (r > 0 || r == -ESTALE || r == -ENOMEM) {
			*err = why;
			return r;
		}
		waits |= x->maybe[i];
		if (r == 0)
			continue;
		if (err->code == 0 || err->code == EKEYREJECTED || err->code == EACCES)
			*err = why;
		x->ended = 0;
		x->revoked = false;
	}
	return waits || err->code == 0 ? 0 : -err->code;
}

/* Find the signers of HEAD among MAYBE.  There may be two, in any order of the secrets: one signs a
 * token, and one signs the request that contains the token.  The token is signed anew first.  The
 * other signature is checked over the agent's request, and made over the new one.
 *
 * 1: there is a signer.  0: there is none, or the body will decide; then x->signs_body is set and
 * x->maybe has the candidates.  Negative: EX has to be refused. */
static int
try_all(struct exchange *ex, const bool maybe[SECRETS_KNOWN_MAX], struct http_head *head,
        const struct sign_body *body, struct err *err)
{
	struct exchange_secrets *x = ex->secrets;
	const struct sign_memory *m = &ex->courier->secrets.scratch;
	struct sign_body made;
	struct sign_body as_made = exchange_made_body(ex);
	struct attempt try = { .maybe = maybe, .alone = true,
	                       .was = { as_signed(ex), body == NULL ? NULL : &as_made }, .body = body };
	struct err wrong = {0};
	int token, r;

	memset(x->maybe, 0, x->view->n_known);
	x->signs_body = false;
	x->covered = x->signs[0] != NULL;
	token = try_kind(ex, &try, head, &wrong);
	if (token == -ESTALE || token == -ENOMEM || token == -EPERM) {
		*err = wrong;
		return token;
	}
	made = m->body;
	try.alone = false;
	try.waits = x->signs_body;
	if (made.at != NULL)
		try.body = &made;
	r = try_kind(ex, &try, head, err);
	/* A token that no placeholder has signed may be a placeholder itself. */
	if (token < 0)
		x->wrong = wrong;
	return r != 0 ? r : token > 0;
}

/* False: EX is refused. */
static bool
settle(struct exchange *ex, int r, const struct err *err)
{
	if (r >= 0)
		return true;
	if (r == -ESTALE)
		return exchange_refuse_secret(ex, -EACCES, NULL);
	return exchange_refuse_secret(ex, -EBADMSG, err);
}

/* Collect the possible signers of HEAD in the courier's own memory.  False: there are none. */
static bool
find_signers(struct exchange *ex, const struct http_head *head)
{
	const struct secrets_view *s = ex->secrets->view;
	struct secrets_signers *who = &ex->courier->secrets.signers;
	struct http_text id;
	bool any = false;

	for (size_t i = 0; i < s->n_known; i++) {
		bool may = may_be_signed(s, i, head, &id);

		who->maybe[i] = may && exchange_may_use(ex, s->at[i]->secret);
		who->strays[i] = may && !who->maybe[i];
		/* An id that the agent sees unchanged may also belong to another key. */
		who->named[i] = may && id.len > 0 && !scheme_same(s->at[i]->placeholder[SECRET_ID],
		                                                  s->at[i]->real[SECRET_ID]);
		any |= may;
	}
	return any;
}

/* False: EX is refused. */
static bool
find_signer(struct exchange *ex, struct http_head *head)
{
	struct exchange_secrets *x = ex->secrets;
	const struct secrets_view *s = x->view;
	struct secrets_signers *who = &ex->courier->secrets.signers;
	char why[EXCHANGE_MISFIT_MAX];
	struct err err = {0};
	struct sign_was was;
	int r;

	if (!find_signers(ex, head)) {
		memset(x->maybe, 0, s->n_known);
		return true;
	}
	r = try_all(ex, who->maybe, head, NULL, &err);
	was = (struct sign_was){ &ex->courier->secrets.signed_head, NULL };
	for (size_t i = 0; r < 1 && r != -ESTALE && !x->signs_body && i < s->n_known; i++) {
		if (!who->strays[i] || (!who->named[i] && !is_signed(ex, i, &was, head)))
			continue;
		exchange_tell_misfit(ex, s->at[i]->secret, why, sizeof(why));
		snprintf(x->reason, sizeof(x->reason), "the request is signed with the placeholder of the "
		         "secret '%s', which may not go there: %s", s->at[i]->secret->name, why);
		return exchange_refuse_secret(ex, -EACCES, NULL);
	}
	return settle(ex, r, &err);
}

bool
exchange_sign_head(struct exchange *ex, struct http_head *head)
{
	return ex->secrets->view->n_signers == 0 || find_signer(ex, head);
}

bool
exchange_sign_body(struct exchange *ex, struct http_head *head, const struct sign_body *body)
{
	bool *maybe = ex->courier->secrets.signers.maybe;
	struct err err = {0};
	int r;

	memcpy(maybe, ex->secrets->maybe, ex->secrets->view->n_known);
	r = try_all(ex, maybe, head, body, &err);
	return settle(ex, r, &err);
}

bool
exchange_is_signed_by(const struct exchange_secrets *x, const struct bound_secret *known)
{
	return x->signs[0] == known || x->signs[1] == known;
}

bool
exchange_is_signer(const struct exchange *ex, size_t i)
{
	const struct exchange_secrets *x = ex->secrets;

	return x->maybe[i] || exchange_is_signed_by(x, x->view->at[i]);
}
