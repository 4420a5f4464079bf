/* lend_claim.c - see lend.h: what a box is bound to, as a message and as text. */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "vault/lend.h"

void
lend_put_claim(struct buf *b, const struct lend_claim *claim)
{
	buf_put_str(b, claim->dispatch);
	buf_put_u64(b, claim->number);
	buf_put_str(b, claim->service);
	buf_put_str(b, claim->worker);
}

int
lend_get_claim(struct buf *b, struct lend_claim *ret_claim)
{
	struct lend_claim c;

	if (buf_get_str(b, &c.dispatch) < 0 || buf_get_u64(b, &c.number) < 0 || buf_get_str(b, &c.service) < 0 ||
	    buf_get_str(b, &c.worker) < 0)
		return -EBADMSG;
	*ret_claim = c;
	return 0;
}

char *
lend_claim_text(const struct lend_claim *claim)
{
	return str_format("%s:%llu:%s:%s", claim->dispatch, (unsigned long long)claim->number, claim->service, claim->worker);
}

int
lend_claim_parse(char *text, struct lend_claim *ret_claim, struct err *err)
{
	struct lend_claim c = { .dispatch = strsep(&text, ":") };
	const char *number = strsep(&text, ":");

	c.service = strsep(&text, ":");
	c.worker = strsep(&text, ":");
	/* The last names a socket. */
	if (c.worker == NULL || text != NULL || strspn(c.worker, "0123456789abcdefghijklmnopqrstuvwxyz") != strlen(c.worker) ||
	    num_parse_count(number, 1, INT64_MAX, &c.number, NULL) < 0)
		return err_set(err, EINVAL, "it is no claim: cloister-worker sets it");
	*ret_claim = c;
	return 0;
}
