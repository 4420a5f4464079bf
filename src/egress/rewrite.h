/* rewrite.h - changes requests as the `rewrite` of the rules that allow them asks.
 *
 * Layer by layer, the nearest first: the layer's hook judges the request (hook.h), then the rewrite
 * of the hook and that of the rule are made, and the layers outside decide on the result.  So an
 * inner layer cannot rewrite a request into one that an outer layer refuses.  Everything after
 * this stage sees the request as it will be sent.
 *
 * The courier changes heads itself.  cloister-inspect changes bodies, because it parses them. */
#ifndef CLOISTER_EGRESS_REWRITE_H
#define CLOISTER_EGRESS_REWRITE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "policy/policy.h"

struct events;
struct exchange;
struct http_head;
struct mux_stream;
struct sign_body;

#define REWRITE_WHY_MAX 256
#define REWRITE_TEXTS_MAX (16 * 1024)   /* bytes of all texts about changes */

struct exchange_rewrite {
	unsigned layer;                 /* the layer that is next, or at work */
	unsigned n_decided;             /* layers that have decided on the request before it was changed */
	unsigned n_inner;               /* layers whose decision INNER is; 0: none yet */
	struct policy_decision inner;   /* on the request before they changed it */
	bool head_done;                 /* LAYER has changed the head */
	bool body_done;                 /* cloister-inspect has answered */
	struct mux_stream *stream;      /* to cloister-inspect, until it has answered */
	size_t at;                      /* offset in the body */
	bool ended;                     /* all of the body was sent there */
	struct buf body;                /* the changed body */
	char why[REWRITE_WHY_MAX];      /* why it could not be changed, or "" */

	/* The request as the agent made it; FRAME is empty if nothing was changed. */
	struct buf frame, made_body;
	size_t head_at;
	bool has_made_body;

	/* Rules of outer layers that asked about the request before it was changed. */
	int asked[POLICY_LAYERS_MAX * POLICY_LAYERS_MAX];
	size_t n_asked;

	struct buf texts;               /* about each change, NUL-terminated, for the record */
	size_t n_texts;
};

/* EX's state, made when first needed.  NULL: there is no memory. */
struct exchange_rewrite *exchange_rewrite_of(struct exchange *ex);
void exchange_rewrite_free(struct exchange *ex);
/* Whether hooks or rewrites of the rules that allow EX are still to be applied. */
bool exchange_is_to_be_rewritten(const struct exchange *ex);
bool exchange_is_rewritten(const struct exchange *ex);
/* The head and the body as the agent made and signed them.  The head is stored in *HEAD. */
void exchange_made_head(struct exchange *ex, struct http_head *ret_head);
struct sign_body exchange_made_body(const struct exchange *ex);
/* The rule of layer LAYER that allows EX, numbered through all layers, or -1. */
int exchange_rule_of_layer(const struct exchange *ex, unsigned layer);
/* Decide on EX, of which the layers before N_DECIDED have decided already. */
void exchange_decide_outside(struct exchange *ex, const struct policy_request *req);
void exchange_rewrite_record(struct events *e, const struct exchange *ex);

/* Messages of cloister-inspect. */
int exchange_take_rewritten(struct exchange *ex, struct buf *body);
int exchange_take_rewritten_data(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_rewrite_feed(struct exchange *ex);
#endif
