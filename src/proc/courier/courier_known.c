/* courier_known.c - the secrets of the cell as one set that is searched for. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "proc/courier/courier.h"
#include "sign/scheme_parts.h"

struct secrets_view *
secrets_view_use(struct secrets_view *view)
{
	view->users++;
	return view;
}

void
secrets_view_release(struct secrets_view *view)
{
	if (view == NULL || --view->users > 0)
		return;
	swap_set_free(view->out);
	swap_set_free(view->in);
	for (size_t i = 0; i < view->n_known; i++)
		renewed_release(view->renewed[i]);
	free(view);
}

static void
add_needle(struct secrets_view *v, size_t i, size_t field)
{
	struct http_text fake = v->at[i]->placeholder[field], real = v->at[i]->real[field];

	/* An id that is the same inside and outside is no secret. */
	if (fake.len < SWAP_NEEDLE_MIN || real.len == 0 || scheme_same(fake, real))
		return;
	v->leaving[v->n] = (struct swap_needle){ fake, real };
	v->owner[v->n] = (unsigned char)i;
	v->field[v->n] = (unsigned char)field;
	v->n++;
	/* What is too short to be told from anything else cannot be looked for. */
	if (real.len >= SWAP_NEEDLE_MIN)
		v->coming[v->n_coming++] = (struct swap_needle){ real, fake };
}

static void
add_secret(struct secrets_view *v, const struct secrets *s)
{
	size_t i = v->n_known++;

	v->at[i] = &s->bound.at[i];
	if (s->renewed[i] != NULL) {
		v->renewed[i] = s->renewed[i];
		v->renewed[i]->users++;
		v->at[i] = &v->renewed[i]->known;
	}
	v->schemes[i] = sign_scheme_find(v->at[i]->secret->scheme->name);
	for (size_t field = 0; field < SECRET_FIELDS; field++)
		add_needle(v, i, field);
}

int
secrets_look_again(struct secrets *s, struct err *err)
{
	struct secrets_view *v = calloc(1, sizeof(*v));
	int r = 0;

	if (v == NULL)
		return err_set(err, ENOMEM, "there is no memory for the cell's secrets");
	v->users = 1;
	while (v->n_known < s->bound.n)
		add_secret(v, s);
	if (v->n > 0)
		r = swap_set_new(v->leaving, v->n, SWAP_CODED, &v->out, err);
	if (r == 0 && v->n_coming > 0)
		r = swap_set_new(v->coming, v->n_coming, SWAP_CODED, &v->in, err);
	if (r < 0) {
		secrets_view_release(v);
		return r;
	}
	secrets_view_release(s->view);
	s->view = v;
	return 0;
}

int
secrets_open(struct secrets *s, int fd, struct err *err)
{
	int r = bound_read(fd, &s->bound, err);

	return r == 0 && s->bound.n > 0 ? secrets_look_again(s, err) : r;
}

void
secrets_close(struct secrets *s)
{
	secrets_view_release(s->view);
	for (size_t i = 0; i < s->bound.n; i++)
		renewed_release(s->renewed[i]);
	bound_free(&s->bound);
}
