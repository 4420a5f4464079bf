/* secret_narrow.c - combines a secret that is given twice, by an outer and an inner policy. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "vault/secret.h"

static int
copy_scope(const struct policy *scope, struct policy **ret_scope, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(SECRET_ENCODED_MAX);

	policy_put(&b, scope);
	return buf_failed(&b) ? err_set(err, E2BIG, "the scope is too large") : policy_get(&b, ret_scope, err);
}

static int
copy_secret(const struct secret *s, struct secret **ret_secret, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(SECRET_ENCODED_MAX);

	secret_put(&b, s);
	return buf_failed(&b) ? err_set(err, E2BIG, "the secret is too large") : secret_get(&b, ret_secret, err);
}

/* Compare everything except the scope, and where the cell finds the placeholder. */
static bool
is_same(const struct secret *s, const struct secret *other)
{
	OWN(policy_freep) struct policy *nowhere = policy_new_empty();
	OWN(buf_free) struct buf a = BUF(SECRET_ENCODED_MAX), b = BUF(SECRET_ENCODED_MAX);
	struct secret x = *s, y = *other;

	if (nowhere == NULL)
		return false;
	x.scope = y.scope = nowhere;
	x.env = y.env = "";
	x.files = y.files = (struct policy_list){0};
	secret_put(&a, &x);
	secret_put(&b, &y);
	return !buf_failed(&a) && !buf_failed(&b) && a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

int
secret_narrow(const struct secret *s, const struct secret *outer, struct secret **ret_secret,
              struct err *err)
{
	OWN(secret_freep) struct secret *copy = NULL;
	OWN(policy_freep) struct policy *scope = NULL;
	int r;

	if (!is_same(s, outer))
		return err_set(err, EINVAL, "the secret '%s' is not the same in the policies that lie within "
		               "each other: only where it may go may differ", s->name);
	r = copy_secret(s, &copy, err);
	r = r == 0 ? copy_scope(outer->scope, &scope, err) : r;
	r = r == 0 ? policy_within(copy->scope, &scope, err) : r;
	if (r == 0)
		*ret_secret = TAKE(copy);
	return r < 0 ? err_wrap(err, "the secret '%s'", s->name) : 0;
}
