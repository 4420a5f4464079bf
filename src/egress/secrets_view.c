/* secrets_view.c - the cell's secrets, and the tokens issued for them, as one set to search for. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"

/* ---- views ---- */

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
		free(view->options[i]);
	for (size_t i = 0; i < view->n_bound; i++) {
		renewed_release(view->renewed[i]);
		for (size_t k = 0; k < SECRETS_FORMER; k++)
			renewed_release(view->former[i][k]);
	}
	for (size_t i = 0; i < view->n_known - view->n_bound; i++)
		token_release(view->tokens[i]);
	free(view);
}

/* KNOWN is secret I, whether or not it is revoked. */
static void
add_needle(struct secrets_view *v, size_t i, const struct bound_secret *known, size_t field)
{
	struct http_text fake = known->placeholder[field], real = known->real[field];

	/* An id that is the same inside and outside the cell is no secret. */
	if (fake.len < SWAP_NEEDLE_MIN || scheme_same(fake, real) || (real.len == 0 && i < v->n_bound))
		return;
	v->leaving[v->n] = (struct swap_needle){ fake, real.len > 0 && v->at[i] == known ? real : fake };
	v->owner[v->n] = (uint16_t)i;
	v->field[v->n] = (unsigned char)field;
	v->n++;
	/* A value that is too short cannot be recognised. */
	if (real.len >= SWAP_NEEDLE_MIN)
		v->coming[v->n_coming++] = (struct swap_needle){ real, fake };
}

/* A former value may still be valid and come back: in the response to a request that began with it,
 * or from a server that stored it. */
static void
add_former(struct secrets_view *v, size_t i, const struct bound_secret *former)
{
	for (size_t field = 0; field < SECRET_FIELDS; field++) {
		struct http_text fake = v->at[i]->placeholder[field], real = former->real[field];

		if (fake.len >= SWAP_NEEDLE_MIN && real.len >= SWAP_NEEDLE_MIN && !scheme_same(fake, real))
			v->coming[v->n_coming++] = (struct swap_needle){ real, fake };
	}
}

/* A PEM key may leave without its frame, or with other line ends.  It is then recognised by one of
 * its lines, and never replaced. */
static void
add_lines(struct secrets_view *v, size_t i)
{
	static const char *const kinds[SECRETS_LINES] = { "PRIVATE KEY", "BEGIN CERTIFICATE" };
	struct http_text line;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		if (!pem_line(v->at[i]->placeholder[SECRET_SECRET], kinds[k], &line))
			continue;
		v->leaving[v->n] = (struct swap_needle){ line, line };
		v->owner[v->n] = (uint16_t)i;
		v->field[v->n++] = SECRET_SECRET;
	}
}

static int
add_signer(struct secrets_view *v, size_t i, struct err *err)
{
	const struct secret *secret = v->at[i]->secret;
	size_t which;

	v->schemes[i] = sign_scheme_find(secret->scheme->name);
	if (v->schemes[i] == NULL)
		return 0;
	v->options[i] = calloc(1, sizeof(*v->options[i]));
	if (v->options[i] == NULL)
		return err_set(err, ENOMEM, "there is no memory for the cell's secrets");
	v->n_signers++;
	return sign_options_read(secret->scheme->name, secret->with.at, secret->with_values.at,
	                         secret->with.n, v->options[i], &which, err);
}

/* The remaining parts of a revoked secret.  The public parts of an SSH key are no secret. */
static const struct bound_secret *
view_dead(struct secrets_view *v, size_t i, const struct bound_secret *known)
{
	struct bound_secret *dead = &v->dead[i];

	*dead = *known;
	dead->real[SECRET_SECRET] = dead->placeholder[SECRET_SECRET];
	if (strcmp(known->secret->scheme->name, "ssh") != 0)
		dead->real[SECRET_TOKEN] = dead->placeholder[SECRET_TOKEN];
	return dead;
}

static const struct bound_secret *
bound_now(const struct secrets *s, size_t i)
{
	return s->renewed[i] != NULL ? &s->renewed[i]->known : &s->bound.at[i];
}

/* Add secret I and all its former values. */
static void
add_bound(const struct secrets *s, struct secrets_view *v, size_t i)
{
	for (size_t field = 0; field < SECRET_FIELDS; field++)
		add_needle(v, i, bound_now(s, i), field);
	add_lines(v, i);
	for (size_t k = 0; k < SECRETS_FORMER && v->former[i][k] != NULL; k++)
		add_former(v, i, &v->former[i][k]->known);
	if (v->renewed[i] != NULL)
		add_former(v, i, &s->bound.at[i]);
}

static void
use_bound(const struct secrets *s, struct secrets_view *v, size_t i)
{
	v->at[i] = s->revoked[i] ? view_dead(v, i, bound_now(s, i)) : bound_now(s, i);
	v->renewed[i] = renewed_use(s->renewed[i]);
	for (size_t k = 0; k < SECRETS_FORMER; k++)
		v->former[i][k] = renewed_use(s->former[i][k]);
}

static int
view_new(const struct secrets *s, struct token *const *tokens, size_t n,
         struct secrets_view **ret_view, struct err *err)
{
	struct secrets_view *v = calloc(1, sizeof(*v));
	int r = 0;

	if (v == NULL)
		return err_set(err, ENOMEM, "there is no memory for the cell's secrets");
	v->users = 1;
	for (; v->n_bound < s->bound.n; v->n_bound++, v->n_known++)
		use_bound(s, v, v->n_bound);
	for (size_t i = 0; i < n; i++) {
		v->tokens[i] = tokens[i];
		v->tokens[i]->users++;
		v->at[v->n_known++] = &tokens[i]->known;
	}
	for (size_t i = 0; r == 0 && i < v->n_known; i++) {
		r = add_signer(v, i, err);
		if (i < v->n_bound)
			add_bound(s, v, i);
		for (size_t field = 0; i >= v->n_bound && field < SECRET_FIELDS; field++)
			add_needle(v, i, v->at[i], field);
	}
	if (r == 0 && v->n > 0)
		r = swap_set_new(v->leaving, v->n, SWAP_CODED, &v->out, err);
	if (r == 0 && v->n_coming > 0)
		r = swap_set_new(v->coming, v->n_coming, SWAP_CODED | SWAP_ECHOED, &v->in, err);
	if (r == 0)
		*ret_view = v;
	else
		secrets_view_release(v);
	return r;
}

int
secrets_look_again(struct secrets *s, struct err *err)
{
	struct secrets_view *view;
	int r = view_new(s, s->tokens, s->n_tokens, &view, err);

	if (r < 0)
		return r;
	secrets_view_release(s->view);
	s->view = view;
	return 0;
}

int
secrets_open(struct secrets *s, int fd, struct err *err)
{
	int r = bound_read(fd, &s->bound, err);

	for (size_t i = 0; i < s->bound.n; i++)
		s->n_captures += s->bound.at[i].secret->n_captures;
	if (r == 0)
		r = mtls_open(s, err);
	return r == 0 && s->bound.n > 0 ? secrets_look_again(s, err) : r;
}

void
secrets_close(struct secrets *s)
{
	secrets_view_release(s->view);
	while (s->n_tokens > 0)
		token_release(s->tokens[--s->n_tokens]);
	for (size_t i = 0; i < s->bound.n; i++) {
		renewed_release(s->renewed[i]);
		for (size_t k = 0; k < SECRETS_FORMER; k++)
			renewed_release(s->former[i][k]);
	}
	bound_free(&s->bound);
}

/* ---- tokens ---- */

void
token_release(struct token *token)
{
	if (token == NULL || --token->users > 0)
		return;
	guard_free(&token->memory);
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		free(token->fake[i]);
	free(token);
}

static bool
is_buried(const struct token *token)
{
	return token->memory.at == NULL;
}

/* Keep TOKEN's placeholder when its value has ended, so that its next use gets an explanation.
 * NULL: out of memory. */
static struct token *
bury(const struct token *token)
{
	struct token *left = calloc(1, sizeof(*left));

	if (left == NULL)
		return NULL;
	left->known.secret = token->known.secret;
	left->known.expires = token->known.expires;
	left->of = token->of;
	left->users = 1;
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		if (token->fake[i] == NULL)
			continue;
		left->fake[i] = strdup(token->fake[i]);
		if (left->fake[i] == NULL) {
			token_release(left);
			return NULL;
		}
		left->known.placeholder[i] = scheme_text(left->fake[i]);
	}
	return left;
}

/* Find a token that may be dropped: one that is no longer searched for, or else one that has ended.
 * N: there is none.  A valid token is never dropped: it would come back unreplaced. */
static size_t
find_useless(struct token *const *tokens, size_t n)
{
	size_t ended = n;

	for (size_t i = 0; i < n; i++) {
		if (is_buried(tokens[i]))
			return i;
		if (ended == n && secret_has_ended(&tokens[i]->known))
			ended = i;
	}
	return ended;
}

static void sweep_due(void *arg);

static void
set_sweep(struct courier *c)
{
	struct secrets *s = &c->secrets;
	uint64_t now = (uint64_t)time(NULL), first = UINT64_MAX;

	for (size_t i = 0; i < s->n_tokens; i++)
		if (!is_buried(s->tokens[i]) && s->tokens[i]->known.expires != 0 &&
		    s->tokens[i]->known.expires < first)
			first = s->tokens[i]->known.expires;
	if (first == UINT64_MAX || c->loop == NULL)
		return;
	first += TOKEN_GRACE_S;
	/* If the clock is changed in between, this costs at most one check a day. */
	first = first > now ? first - now : 1;
	loop_prepare_timer(&s->sweep, sweep_due, c);
	loop_set_timer(c->loop, &s->sweep, (first > 86400 ? 86400 : first) * 1000);
}

/* Drop values that ended long ago. */
static void
sweep_due(void *arg)
{
	struct courier *c = arg;
	struct secrets *s = &c->secrets;
	uint64_t now = (uint64_t)time(NULL);
	bool changed = false;

	for (size_t i = 0; i < s->n_tokens; i++) {
		struct token *token = s->tokens[i], *left;

		if (is_buried(token) || token->known.expires == 0 ||
		    token->known.expires + TOKEN_GRACE_S > now || (left = bury(token)) == NULL)
			continue;
		s->tokens[i] = left;
		token_release(token);
		changed = true;
	}
	if (changed)
		(void)secrets_look_again(s, NULL);
	set_sweep(c);
}

int
secrets_add_tokens(struct courier *c, struct token *const *tokens, size_t n, struct err *err)
{
	struct secrets *s = &c->secrets;
	struct token *next[TOKENS_MAX], *dropped[TOKENS_MAX];
	size_t n_next = s->n_tokens, n_dropped = 0, i;
	struct secrets_view *view;
	int r;

	assert(n <= TOKENS_MAX);
	memcpy(next, s->tokens, n_next * sizeof(struct token *));
	while (n_next + n > TOKENS_MAX) {
		i = find_useless(next, n_next);
		if (i == n_next)
			return err_set(err, ENOSPC, "the cell has %d tokens that are still good: that is "
			               "all it can have", TOKENS_MAX);
		n_next--;
		dropped[n_dropped++] = next[i];
		memmove(&next[i], &next[i + 1], (n_next - i) * sizeof(struct token *));
	}
	memcpy(&next[n_next], tokens, n * sizeof(struct token *));
	r = view_new(s, next, n_next + n, &view, err);
	if (r < 0)
		return r;
	secrets_view_release(s->view);
	s->view = view;
	memcpy(s->tokens, next, (n_next + n) * sizeof(struct token *));
	s->n_tokens = n_next + n;
	while (n_dropped > 0)
		token_release(dropped[--n_dropped]);
	set_sweep(c);
	return 0;
}
