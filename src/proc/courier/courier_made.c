/* courier_made.c - tokens that were made here: a JWT that is signed with the real key is as good as
 * one, so the answer is searched for its signature too. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/courier/courier.h"
#include "proc/courier/courier_secrets_parts.h"

/* What an exchange made, and all that its answer is searched for. */
struct exchange_made {
	struct swap_needle at[SIGN_MADE_MAX];
	size_t n, size;
	struct swap_needle *needles;    /* with those of the view that SET is of */
	struct swap_set *set;           /* NULL: not yet */
	char texts[];                   /* of AT; SIZE of them */
};

static struct http_text
keep(struct exchange_made *made, struct http_text text)
{
	char *at = made->texts + made->size;

	memcpy(at, text.at, text.len);
	made->size += text.len;
	return (struct http_text){ at, text.len };
}

int
exchange_keep_made(struct exchange *ex, struct err *err)
{
	const struct sign_memory *m = &ex->courier->secrets.scratch;
	struct exchange_made *made;
	size_t size = 0;

	for (size_t i = 0; i < m->n_made; i++)
		size += m->made[i].real.len + m->made[i].agents.len;
	if (size == 0)
		return 0;
	exchange_free_made(ex->secrets);
	made = calloc(1, sizeof(*made) + size);
	if (made == NULL)
		return err_set(err, ENOMEM, "there is no memory to look for it in the answer");
	for (size_t i = 0; i < m->n_made; i++) {
		struct swap_needle *needle = &made->at[made->n++];

		needle->find = keep(made, m->made[i].real);
		needle->with = keep(made, m->made[i].agents);
	}
	ex->secrets->made = made;
	return 0;
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
	explicit_bzero(made->texts, made->size);
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
	r = swap_set_new(made->needles, n + made->n, SWAP_CODED, &made->set, err);
	if (r == 0)
		*ret_set = made->set;
	return r;
}
