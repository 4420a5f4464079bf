/* hook.h - asks the operator's own program or service about each request whose rule has a `hook`.
 *
 * cloister-hook asks it, over a channel of its own (ipc/hook_channel.h).  Fails closed: a request
 * without a valid answer in time is refused. */
#ifndef CLOISTER_EGRESS_HOOK_H
#define CLOISTER_EGRESS_HOOK_H
#include <stdbool.h>

#include "http/http_head.h"
#include "ipc/courier_channel.h"
#include "ipc/mux.h"
#include "policy/policy_hook.h"

struct courier;
struct err;
struct exchange;

struct exchange_hook {
	unsigned layer;                 /* the layer whose hook was asked last */
	bool asked, answered;           /* it was asked; its answer is here */
	char id[POLICY_HOOK_ID + 1];    /* of the question */
	struct mux_stream *stream;      /* until the answer is here */
	struct buf question;
	bool ended;                     /* all of the question was sent */
	char *text;                     /* the answer as it came */
	struct policy_hook_answer answer;
	char why[POLICY_HOOK_REASON_MAX + 1];   /* why there is no answer, or "" */
	bool asks;                      /* a hook wants people to approve the request, for this reason: */
	char reason[POLICY_HOOK_REASON_MAX + 1];
	char place[COURIER_ASK_TEXT + 1];       /* of the rule with that hook */
};

/* Start on the channel FD to cloister-hook, borrowed. */
int courier_start_hooks(struct courier *c, int fd, struct err *err);
void exchange_hook_free(struct exchange *ex);
/* The rewrite in the answer of the hook of EX's layer (rewrite.h), or NULL. */
const struct policy_rewrite *exchange_hook_rewrite(const struct exchange *ex);
/* That answer itself; empty if it has no rewrite. */
struct http_text exchange_hook_answer_text(const struct exchange *ex);
/* Why a hook wants people to approve EX, or NULL. */
const char *exchange_hook_asks(const struct exchange *ex);
#endif
