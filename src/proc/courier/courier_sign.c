/* courier_sign.c - whose placeholder a request is signed with, and its signature made anew.
 *
 * What is checked is the request as the agent made it: as long as its signature is not known
 * to be right there is nothing real in it, which the agent could try its guesses on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "proc/courier/courier.h"
#include "proc/courier/courier_secrets_parts.h"
#include "sign/scheme_parts.h"

/* Whether HEAD may be signed with the placeholder of secret I; *ret_id: the key that it
 * names, or empty. */
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
	/* In a URL it may be escaped. */
	return ret_id->len == 0 || scheme_same(*ret_id, fake) || scheme_same_decoded(*ret_id, fake);
}

/* HEAD from the placeholder of secret I to TO.  What a failure has written is wiped. */
static int
sign_with(struct exchange *ex, size_t i, const struct http_text to[SECRET_FIELDS],
          struct http_head *head, const struct sign_body *body, enum sign_next *ret_next,
          struct err *err)
{
	const struct secrets_view *s = ex->secrets->view;
	struct sign_key from = bound_key(s->at[i]->placeholder), other = bound_key(to);
	struct sign_memory *m = &ex->courier->secrets.scratch;
	size_t used = m->used;
	int r;

	*ret_next = SIGN_DONE;
	r = s->schemes[i]->sign(s->options[i]->with, &from, &other, head, body, m, ret_next,
	                        &ex->secrets->chunks, err);
	if (r < 0) {
		explicit_bzero(m->at + used, m->used - used);
		m->used = used;
		m->body = (struct sign_body){0};
		m->n_made = 0;
	}
	return r;
}

/* Whether the placeholder of secret I signed HEAD, as far as the head tells; no key is used. */
static bool
is_signed(struct exchange *ex, size_t i, const struct http_head *head)
{
	struct http_head copy = *head;
	enum sign_next next;
	struct err err = {0};
	int r = sign_with(ex, i, ex->secrets->view->at[i]->placeholder, &copy, NULL, &next, &err);

	if (ex->secrets->chunks != NULL) {
		sign_chunks_free(ex->secrets->chunks);
		ex->secrets->chunks = NULL;
	}
	ex->courier->secrets.scratch.n_made = 0;
	/* Not permitted: but it was right. */
	return r == 0 ? next != SIGN_WANTS_BODY : r == -EPERM;
}

/* Secret I has signed it. */
static void
take_signer(struct exchange *ex, size_t i, enum sign_next next, const struct sign_body *body)
{
	struct exchange_secrets *x = ex->secrets;
	const struct sign_scheme *scheme = x->view->schemes[i];

	memset(x->maybe, 0, x->view->n_known);
	/* A form with no token in it. */
	if (scheme->alone && body != NULL && ex->courier->secrets.scratch.body.at == NULL)
		return;
	x->signs = x->view->at[i];
	x->signs_at = i;
	exchange_note_carried(ex, i);
	x->covered = !scheme->alone;
	x->carries = true;
	if (next == SIGN_WANTS_CHUNKS)
		ex->body.max += 2 * SIGN_CHUNK_MAX;
}

/* One of MAYBE has signed HEAD: 1; nobody, or the body will tell, and then x->signs_body is set
 * and x->maybe says who of: 0; -ESTALE: it has ended.  A failure is that of the one which came
 * closest. */
static int
try_all(struct exchange *ex, const bool maybe[SECRETS_KNOWN_MAX], struct http_head *head,
        const struct sign_body *body, struct err *err)
{
	struct exchange_secrets *x = ex->secrets;
	const struct secrets_view *s = x->view;
	struct http_head *before = &ex->courier->secrets.unsigned_head;

	http_head_copy(before, head);
	memset(x->maybe, 0, s->n_known);
	x->covered = x->signs_body = false;
	x->wrong_alone = true;
	for (size_t i = 0; i < s->n_known; i++) {
		bool ended = maybe[i] && exchange_has_ended(ex, i);
		struct err why = {0};
		enum sign_next next;

		if (!maybe[i])
			continue;
		/* Of what has ended there may be no value any more. */
		if (sign_with(ex, i, ended ? s->at[i]->placeholder : s->at[i]->real, head, body, &next,
		              &why) < 0) {
			if (err->code == 0 || err->code == EKEYREJECTED || err->code == EACCES)
				*err = why;
			x->wrong_alone = x->wrong_alone && s->schemes[i]->alone && why.code != EPERM;
			x->ended = 0;
			x->revoked = false;
			continue;
		}
		if (ended)
			return -ESTALE;
		if (next != SIGN_WANTS_BODY) {
			take_signer(ex, i, next, body);
			return exchange_keep_made(ex, before, head, body, err) < 0 ? -ENOMEM : 1;
		}
		x->maybe[i] = x->signs_body = true;
		x->covered |= !s->schemes[i]->alone;
	}
	return x->signs_body || err->code == 0 ? 0 : -err->code;
}

/* False: EX is refused. */
static bool
settle(struct exchange *ex, int r, const struct err *err)
{
	struct exchange_secrets *x = ex->secrets;

	if (r >= 0)
		return true;
	if (r == -ESTALE)
		return exchange_refuse_secret(ex, -EACCES, NULL);
	/* A token that is none of the placeholder's may be a placeholder itself. */
	if (x->wrong_alone && r != -ENOMEM) {
		x->wrong = *err;
		return true;
	}
	return exchange_refuse_secret(ex, -EBADMSG, err);
}

/* Who may have signed HEAD, into the courier's own memory; false: nobody. */
static bool
find_signers(struct exchange *ex, const struct http_head *head)
{
	const struct secrets_view *s = ex->secrets->view;
	struct secrets_signers *who = &ex->courier->secrets.signers;
	struct http_text id;
	bool any = false;

	for (size_t i = 0; i < s->n_known; i++) {
		bool may = may_be_signed(s, i, head, &id);

		who->maybe[i] = may && exchange_fits_scope(ex, s->at[i]->secret);
		who->strays[i] = may && !who->maybe[i];
		/* An id that is the same outside may also be that of another key. */
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
	int r;

	if (!find_signers(ex, head)) {
		memset(x->maybe, 0, s->n_known);
		return true;
	}
	r = try_all(ex, who->maybe, head, NULL, &err);
	for (size_t i = 0; r < 1 && r != -ESTALE && !x->signs_body && i < s->n_known; i++) {
		if (!who->strays[i] || (!who->named[i] && !is_signed(ex, i, head)))
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
exchange_is_signer(const struct exchange *ex, size_t i)
{
	const struct exchange_secrets *x = ex->secrets;

	return x->maybe[i] || x->signs == x->view->at[i];
}
