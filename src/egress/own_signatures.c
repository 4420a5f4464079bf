/* own_signatures.c - remembers signatures made with a real key, so that the response is searched for
 * them too.
 *
 * Each is as good as the key for what it signs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"

/* Signatures of an exchange, and everything that its response is searched for. */
struct exchange_made {
	struct swap_needle at[EXCHANGE_MADE_MAX];
	size_t n;
	struct swap_needle *needles;    /* together with those of SET's view */
	struct swap_set *set;           /* NULL: not made yet */
	char *texts;                    /* memory of AT */
	size_t size, room;
};

static struct http_text
keep(struct exchange_made *made, struct http_text text)
{
	char *at = made->texts + made->size;

	if (text.len > 0)
		memcpy(at, text.at, text.len);
	made->size += text.len;
	return (struct http_text){ at, text.len };
}

/* Before TEXTS is allocated, this only counts the bytes needed. */
static int
add(void *arg, struct http_text real, struct http_text agents)
{
	struct exchange_made *made = arg;

	if (made->texts == NULL) {
		made->room += real.len + agents.len;
		return made->n++ < EXCHANGE_MADE_MAX ? 0 : -E2BIG;
	}
	made->at[made->n].find = keep(made, real);
	made->at[made->n++].with = keep(made, agents);
	return 0;
}

static int
add_all(const struct sign_memory *m, bool token, const struct http_head *before, const struct http_head *after,
        const struct sign_body *body, struct exchange_made *made)
{
	int r = 0;

	made->n = 0;
	/* For a token, the signer reports the part that makes it valid.  The request around it may
	 * be signed later. */
	for (size_t i = 0; r == 0 && i < m->n_made; i++)
		r = add(made, m->made[i].real, m->made[i].agents);
	if (r < 0 || (token && m->n_made > 0))
		return r;
	r = exchange_compare_heads(before, after, add, made);
	if (r == 0 && body != NULL && m->body.at != NULL)
		r = exchange_compare_texts((struct http_text){ body->at, body->len },
		                           (struct http_text){ m->body.at, m->body.len }, add, made);
	return r;
}

int
exchange_keep_made(struct exchange *ex, bool token, const struct http_head *before,
                   const struct http_head *after, const struct sign_body *body, struct err *err)
{
	const struct sign_memory *m = &ex->courier->secrets.scratch;
	struct exchange_made *made = calloc(1, sizeof(*made));
	int r = made == NULL ? -ENOMEM : add_all(m, token, before, after, body, made);

	exchange_free_made(ex->secrets);
	if (r == 0 && made->room > 0) {
		made->texts = malloc(made->room);
		r = made->texts == NULL ? -ENOMEM : add_all(m, token, before, after, body, made);
		ex->secrets->made = TAKE(made);
		ex->secrets->made_token = m->n_made > 0;
	}
	free(made);
	return r == 0 ? 0 : err_set(err, -r, "there is no memory to look for it in the answer");
}

static void
drop_set(struct exchange_made *made)
{
	swap_set_free(TAKE(made->set));
	free(TAKE(made->needles));
}

void
exchange_free_made(struct exchange_secrets *x)
{
	struct exchange_made *made = TAKE(x->made);

	if (made == NULL)
		return;
	drop_set(made);
	if (made->texts != NULL)
		explicit_bzero(made->texts, made->room);
	free(made->texts);
	free(made);
}

int
exchange_coming(struct exchange_secrets *x, const struct secrets_view *known,
                const struct swap_set **ret_set, struct err *err)
{
	struct exchange_made *made = x->made;
	size_t n = known->n_coming;
	int r;

	if (made == NULL) {
		*ret_set = known->in;
		return 0;
	}
	drop_set(made);
	made->needles = malloc((n + made->n) * sizeof(made->needles[0]));
	if (made->needles == NULL)
		return err_set(err, ENOMEM, "there is no memory to take a token out of it");
	memcpy(made->needles, known->coming, n * sizeof(made->needles[0]));
	memcpy(made->needles + n, made->at, made->n * sizeof(made->needles[0]));
	r = swap_set_new(made->needles, n + made->n, SWAP_CODED | SWAP_ECHOED, &made->set, err);
	if (r == 0)
		*ret_set = made->set;
	return r;
}
