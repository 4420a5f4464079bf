/* courier_webhook.h - webhooks that come to the cell: what the sender signed with the real key is
 * checked, and signed anew with the placeholder, for who checks it in the cell has no other. */
#ifndef CLOISTER_COURIER_WEBHOOK_H
#define CLOISTER_COURIER_WEBHOOK_H
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

/* The templates of the cell's secrets, once they are there. */
int webhooks_prepare(struct courier *c, struct err *err);
/* Answer on FD, which is borrowed (COURIER_WEBHOOK_FD); the loop is there. */
int webhooks_start(struct courier *c, int fd, struct err *err);

/* What WEBHOOK_CHECK asks, and WEBHOOK_CHECKED in ANSWER; -EBADMSG: publish would not ask that. */
int webhooks_check(struct courier *c, struct ipc_message *message, struct buf *answer);
#endif
