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

_Static_assert(BOUND_MAX <= 64, "sets of secrets are bits");

static struct sign_key
key_of(const struct http_text field[SECRET_FIELDS])
{
	return (struct sign_key){ .id = field[SECRET_ID], .secret = field[SECRET_SECRET],
	                          .token = field[SECRET_TOKEN] };
}

/* Whether HEAD may be signed with the placeholder of secret I; *ret_id: the key that it
 * names, or empty. */
static bool
may_be_signed(const struct secrets *s, size_t i, const struct http_head *head,
              struct http_text *ret_id)
{
	const struct sign_scheme *scheme = s->schemes[i];
	struct http_text fake = s->bound.at[i].placeholder[SECRET_ID];

	*ret_id = (struct http_text){ "", 0 };
	if (scheme == NULL || !(scheme == &sign_hmac ? sign_hmac_find(s->options[i]->with, head, ret_id)
	                                             : scheme->find(head, ret_id)))
		return false;
	/* In a URL it may be escaped. */
	return ret_id->len == 0 || scheme_same(*ret_id, fake) || scheme_param_is(*ret_id, fake.at);
}

/* HEAD from the placeholder of secret I to TO.  What a failure has written is wiped. */
static int
sign_with(struct exchange *ex, size_t i, const struct http_text to[SECRET_FIELDS],
          struct http_head *head, const struct sign_body *body, enum sign_next *ret_next,
          struct err *err)
{
	struct secrets *s = &ex->courier->secrets;
	struct sign_key from = key_of(s->bound.at[i].placeholder), other = key_of(to);
	struct sign_memory *m = &s->scratch;
	size_t used = m->used;
	int r;

	*ret_next = SIGN_DONE;
	r = s->schemes[i]->sign(s->options[i]->with, &from, &other, head, body, m, ret_next,
	                        &ex->secrets->chunks, err);
	if (r < 0) {
		explicit_bzero(m->at + used, m->used - used);
		m->used = used;
		m->body = (struct sign_body){0};
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
	int r = sign_with(ex, i, ex->courier->secrets.bound.at[i].placeholder, &copy, NULL, &next, &err);

	if (ex->secrets->chunks != NULL) {
		sign_chunks_free(ex->secrets->chunks);
		ex->secrets->chunks = NULL;
	}
	/* Not permitted: but it was right. */
	return r == 0 ? next != SIGN_WANTS_BODY : r == -EPERM;
}

/* Secret I has signed it. */
static void
take_signer(struct exchange *ex, size_t i, enum sign_next next, const struct sign_body *body)
{
	struct exchange_secrets *x = ex->secrets;
	struct secrets *s = &ex->courier->secrets;

	x->maybe = 0;
	/* A form with no token in it. */
	if (s->schemes[i]->alone && body != NULL && s->scratch.body.at == NULL)
		return;
	x->signs = &s->bound.at[i];
	x->covered = !s->schemes[i]->alone;
	x->carries = true;
	if (next == SIGN_WANTS_CHUNKS)
		ex->body.max += 2 * SIGN_CHUNK_MAX;
}

/* One of MAYBE has signed HEAD: 1; nobody, or the body will tell, and x->maybe says who of: 0.
 * A failure is that of the one which came closest. */
static int
try_all(struct exchange *ex, uint64_t maybe, struct http_head *head, const struct sign_body *body,
        struct err *err)
{
	struct exchange_secrets *x = ex->secrets;
	struct secrets *s = &ex->courier->secrets;

	x->maybe = 0;
	x->covered = false;
	for (size_t i = 0; i < s->bound.n; i++) {
		struct err why = {0};
		enum sign_next next;

		if ((maybe >> i & 1) == 0)
			continue;
		if (sign_with(ex, i, s->bound.at[i].real, head, body, &next, &why) < 0) {
			if (err->code == 0 || err->code == EKEYREJECTED || err->code == EACCES)
				*err = why;
			x->wrong_alone = x->wrong_alone && s->schemes[i]->alone && why.code != EPERM;
			continue;
		}
		if (next != SIGN_WANTS_BODY) {
			take_signer(ex, i, next, body);
			return 1;
		}
		x->maybe |= UINT64_C(1) << i;
		x->covered |= !s->schemes[i]->alone;
	}
	return x->maybe != 0 || err->code == 0 ? 0 : -err->code;
}

/* False: EX is refused. */
static bool
settle(struct exchange *ex, int r, const struct err *err)
{
	struct exchange_secrets *x = ex->secrets;

	x->signs_body = x->maybe != 0;
	if (r >= 0)
		return true;
	/* A token that is none of the placeholder's may be a placeholder itself. */
	if (x->wrong_alone) {
		x->wrong = *err;
		return true;
	}
	return exchange_refuse_secret(ex, -EBADMSG, err);
}

bool
exchange_sign_head(struct exchange *ex, struct http_head *head)
{
	struct exchange_secrets *x = ex->secrets;
	const struct secrets *s = &ex->courier->secrets;
	uint64_t maybe = 0, named = 0, strays = 0;
	struct http_text id;
	struct err err = {0};
	int r;

	for (size_t i = 0; i < s->bound.n; i++) {
		const struct bound_secret *b = &s->bound.at[i];

		if (!may_be_signed(s, i, head, &id))
			continue;
		if (exchange_fits_scope(ex, b->secret))
			maybe |= UINT64_C(1) << i;
		else
			strays |= UINT64_C(1) << i;
		/* An id that is the same outside may also be that of another key. */
		if (id.len > 0 && !scheme_same(b->placeholder[SECRET_ID], b->real[SECRET_ID]))
			named |= UINT64_C(1) << i;
	}
	x->wrong_alone = true;
	r = try_all(ex, maybe, head, NULL, &err);
	for (size_t i = 0; r < 1 && x->maybe == 0 && i < s->bound.n; i++) {
		if ((strays >> i & 1) == 0 || ((named >> i & 1) == 0 && !is_signed(ex, i, head)))
			continue;
		snprintf(x->reason, sizeof(x->reason), "the request is signed with the placeholder of the "
		         "secret '%s', which may not go there", s->bound.at[i].secret->name);
		return exchange_refuse_secret(ex, -EACCES, NULL);
	}
	return settle(ex, r, &err);
}

bool
exchange_sign_body(struct exchange *ex, struct http_head *head, const struct sign_body *body)
{
	struct err err = {0};
	int r;

	ex->secrets->wrong_alone = true;
	r = try_all(ex, ex->secrets->maybe, head, body, &err);
	return settle(ex, r, &err);
}

bool
exchange_is_signer(const struct exchange *ex, size_t i)
{
	const struct exchange_secrets *x = ex->secrets;

	return (x->maybe >> i & 1) != 0 || x->signs == &ex->courier->secrets.bound.at[i];
}
