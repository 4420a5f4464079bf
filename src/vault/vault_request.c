/* vault_request.c - see vault_request.h. */
#include "vault/vault_request.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

void
vault_request_free(struct vault_request *r)
{
	secret_free(r->secret);
	r->secret = NULL;
	while (r->n_bind > 0) {
		struct vault_binding *bind = &r->bind[--r->n_bind];

		secret_free(bind->secret);
		while (bind->n_within > 0)
			secret_free(bind->within[--bind->n_within].secret);
	}
}

static void
put_definition(struct buf *b, bool unless_known, const struct secret *s)
{
	buf_put_u32(b, unless_known);
	buf_put_u32(b, s != NULL);
	if (s != NULL)
		secret_put(b, s);
}

void
vault_request_put(struct buf *b, const struct vault_request *r)
{
	buf_put_u32(b, r->verb);
	buf_put_u32(b, r->json);
	buf_put_str(b, r->name);
	buf_put_str(b, r->key);
	if (r->verb == VAULT_ADD)
		secret_put(b, r->secret);
	buf_put_u32(b, r->lent);
	if (r->verb == VAULT_LEND || r->lent)
		lend_put_claim(b, &r->claim);
	if (r->verb == VAULT_LEND)
		buf_put(b, r->to, sizeof(r->to));
	buf_put_u32(b, (uint32_t)r->n_bind);
	for (size_t i = 0; i < r->n_bind; i++) {
		buf_put_str(b, r->bind[i].name);
		buf_put_str(b, r->bind[i].variable);
		buf_put_str(b, r->bind[i].files);
		put_definition(b, r->bind[i].unless_known, r->bind[i].secret);
		buf_put_u32(b, (uint32_t)r->bind[i].n_within);
		for (size_t k = 0; k < r->bind[i].n_within; k++)
			put_definition(b, r->bind[i].within[k].unless_known, r->bind[i].within[k].secret);
	}
}

static int
get_definition(struct buf *b, bool *ret_unless_known, struct secret **ret_secret)
{
	uint32_t unless, defined;

	if (buf_get_u32(b, &unless) < 0 || unless > 1 || buf_get_u32(b, &defined) < 0 || defined > 1)
		return -EBADMSG;
	*ret_unless_known = unless;
	return defined ? secret_get(b, ret_secret, NULL) : 0;
}

static int
get_binding(struct buf *b, struct vault_binding *ret_binding)
{
	uint32_t n;
	int r;

	if (buf_get_str(b, &ret_binding->name) < 0 || buf_get_str(b, &ret_binding->variable) < 0 ||
	    buf_get_str(b, &ret_binding->files) < 0)
		return -EBADMSG;
	r = get_definition(b, &ret_binding->unless_known, &ret_binding->secret);
	if (r < 0 || buf_get_u32(b, &n) < 0 || n > ARRAY_LEN(ret_binding->within))
		return -EBADMSG;
	while (r == 0 && ret_binding->n_within < n) {
		struct vault_layer *layer = &ret_binding->within[ret_binding->n_within++];

		r = get_definition(b, &layer->unless_known, &layer->secret);
	}
	return r;
}

static int
get_key(struct buf *b, unsigned char ret_key[LEND_KEY])
{
	if (buf_left(b) < LEND_KEY)
		return -EBADMSG;
	memcpy(ret_key, b->data + b->pos, LEND_KEY);
	b->pos += LEND_KEY;
	return 0;
}

static int
get_request(struct buf *b, struct vault_request *r)
{
	uint32_t verb, json, lent, n;

	if (buf_get_u32(b, &verb) < 0 || verb >= VAULT_VERBS || buf_get_u32(b, &json) < 0 || json > 1 ||
	    buf_get_str(b, &r->name) < 0 || buf_get_str(b, &r->key) < 0 ||
	    (verb == VAULT_ADD && secret_get(b, &r->secret, NULL) < 0) || buf_get_u32(b, &lent) < 0 || lent > 1 ||
	    ((verb == VAULT_LEND || lent) && lend_get_claim(b, &r->claim) < 0) ||
	    (verb == VAULT_LEND && get_key(b, r->to) < 0) ||
	    buf_get_u32(b, &n) < 0 || n > VAULT_BIND_MAX)
		return -EBADMSG;
	r->verb = verb;
	r->json = json;
	r->lent = lent;
	while (r->n_bind < n)
		if (get_binding(b, &r->bind[r->n_bind++]) < 0)
			return -EBADMSG;
	return buf_left(b) == 0 ? 0 : -EBADMSG;
}

int
vault_request_get(struct buf *b, struct vault_request *ret_request, struct err *err)
{
	struct vault_request r = {0};

	if (get_request(b, &r) < 0) {
		vault_request_free(&r);
		return err_set(err, EBADMSG, "cloister-vault is started by cloister only");
	}
	*ret_request = r;
	return 0;
}
