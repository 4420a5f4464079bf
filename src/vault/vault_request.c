/* vault_request.c - see vault_request.h. */
#include "vault/vault_request.h"

#include <errno.h>

#include "base/err.h"

void
vault_request_free(struct vault_request *r)
{
	secret_free(r->secret);
	r->secret = NULL;
	while (r->n_bind > 0)
		secret_free(r->bind[--r->n_bind].secret);
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
	buf_put_u32(b, (uint32_t)r->n_bind);
	for (size_t i = 0; i < r->n_bind; i++) {
		buf_put_str(b, r->bind[i].name);
		buf_put_str(b, r->bind[i].variable);
		buf_put_str(b, r->bind[i].files);
		buf_put_u32(b, r->bind[i].unless_known);
		buf_put_u32(b, r->bind[i].secret != NULL);
		if (r->bind[i].secret != NULL)
			secret_put(b, r->bind[i].secret);
	}
}

static int
get_binding(struct buf *b, struct vault_binding *ret_binding)
{
	uint32_t unless, defined;

	if (buf_get_str(b, &ret_binding->name) < 0 || buf_get_str(b, &ret_binding->variable) < 0 ||
	    buf_get_str(b, &ret_binding->files) < 0 || buf_get_u32(b, &unless) < 0 || unless > 1 ||
	    buf_get_u32(b, &defined) < 0 || defined > 1)
		return -EBADMSG;
	ret_binding->unless_known = unless;
	return defined ? secret_get(b, &ret_binding->secret, NULL) : 0;
}

static int
get_request(struct buf *b, struct vault_request *r)
{
	uint32_t verb, json, n;

	if (buf_get_u32(b, &verb) < 0 || verb >= VAULT_VERBS || buf_get_u32(b, &json) < 0 || json > 1 ||
	    buf_get_str(b, &r->name) < 0 || buf_get_str(b, &r->key) < 0 ||
	    (verb == VAULT_ADD && secret_get(b, &r->secret, NULL) < 0) ||
	    buf_get_u32(b, &n) < 0 || n > VAULT_BIND_MAX)
		return -EBADMSG;
	r->verb = verb;
	r->json = json;
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
