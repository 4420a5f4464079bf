/* lend_claim.c - see lend.h: what a box is bound to, as a message. */
#include <errno.h>

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
