/* vault_request.c - see vault_request.h. */
#include "vault/vault_request.h"

#include <errno.h>

#include "base/err.h"

void
vault_request_put(struct buf *b, const struct vault_request *r)
{
	buf_put_u32(b, r->verb);
	buf_put_u32(b, r->json);
	buf_put_str(b, r->name);
	buf_put_str(b, r->key);
	if (r->verb == VAULT_ADD)
		secret_put(b, r->secret);
}

int
vault_request_get(struct buf *b, struct vault_request *ret_request, struct err *err)
{
	struct vault_request r = {0};
	uint32_t verb, json;

	if (buf_get_u32(b, &verb) < 0 || verb >= VAULT_VERBS || buf_get_u32(b, &json) < 0 || json > 1 ||
	    buf_get_str(b, &r.name) < 0 || buf_get_str(b, &r.key) < 0 ||
	    (verb == VAULT_ADD && secret_get(b, &r.secret, NULL) < 0))
		return err_set(err, EBADMSG, "cloister-vault is started by cloister only");
	if (buf_left(b) != 0) {
		secret_free(r.secret);
		return err_set(err, EBADMSG, "cloister-vault is started by cloister only");
	}
	r.verb = verb;
	r.json = json;
	*ret_request = r;
	return 0;
}
