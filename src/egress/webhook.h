/* webhook.h - checks webhooks that come to the cell against the real key, and signs them
 * again with the placeholder.
 *
 * The receiver in the cell has only the placeholder to check with. */
#ifndef CLOISTER_EGRESS_WEBHOOK_H
#define CLOISTER_EGRESS_WEBHOOK_H
#include "loop/loop.h"
#include "sign/sign_hmac.h"
#include "vault/bound.h"

struct courier;
struct err;
struct ipc_message;

struct webhooks {
	struct loop_source channel;     /* to cloister-publish */
	struct sign_hmac templates[BOUND_MAX];
	bool is[BOUND_MAX];
};

/* Load the templates of the cell's secrets, which must be open. */
int webhooks_prepare(struct courier *c, struct err *err);
/* Answer on FD, which is borrowed (COURIER_WEBHOOK_FD).  The loop must exist. */
int webhooks_start(struct courier *c, int fd, struct err *err);

/* Answer WEBHOOK_CHECK with WEBHOOK_CHECKED in ANSWER.  -EBADMSG: publish sent an invalid request. */
int webhooks_check(struct courier *c, struct ipc_message *message, struct buf *answer);
#endif
