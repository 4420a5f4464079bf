/* ask.h - holds exchanges until people approve them (COURIER_ASK).
 *
 * The courier asks once it knows all of the request: it has judged the head, and a body that fits
 * has come and was inspected.  Each layer of the policy that asks gets its own question, the
 * nearest layer first.  A rule may be open, for a time or permanently; then its question is
 * skipped. */
#ifndef CLOISTER_EGRESS_ASK_H
#define CLOISTER_EGRESS_ASK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/stage.h"
#include "ipc/courier_channel.h"
#include "ipc/inspect_channel.h"
#include "policy/policy.h"

struct courier;
struct exchange;

#define COURIER_ASKS_MAX 64             /* open questions at once */
#define COURIER_OPEN_MAX 256            /* open rules */
#define COURIER_ASK_HELD (1024 * 1024)  /* bytes of a body that is held to show its shape */

/* A rule, identified by a hash of its content, wherever it stands. */
struct ask_rule { unsigned char hash[32]; };

struct courier_asks {
	uint64_t n;                     /* questions so far; the source of their numbers */
	size_t n_waiting;
	struct {
		struct ask_rule rule;
		uint64_t until_ms;      /* on the loop's clock; 0: permanently */
	} open[COURIER_OPEN_MAX];
	size_t n_open;
};

/* A question to people. */
struct courier_question {
	struct ask_rule rule;           /* opened by an answer that holds for more than one request */
	const char *text, *place;       /* of the rule, for people */
	struct policy_question of;
};

/* The approval state of an exchange, while it waits and afterwards. */
struct exchange_ask {
	uint64_t number;                /* of the open question; 0: none */
	struct ask_rule rule;           /* the rule that NUMBER is about */
	struct ask_rule given[POLICY_LAYERS_MAX];       /* rules that were approved */
	size_t n_given;
	char by[COURIER_ASK_BY + 1];    /* the last approver */
	char id[COURIER_ASK_ID + 1];
	char shape[INSPECT_SHAPE_MAX];
	char reason[COURIER_ASK_TEXT + 1];      /* the rule's reason, kept because the rule may be gone by
	                                         * the answer; or "" */
};

/* Ask Q for EX, at EX's stage, unless it was approved.  The answer is that of the stage. */
enum stage_answer exchange_ask(struct exchange *ex, const struct courier_question *q);
/* Whether RULE was approved, for EX or for all requests of its kind. */
bool exchange_is_answered(const struct exchange *ex, const struct ask_rule *rule);
/* Whether EX's body is held so that people can see its shape. */
bool exchange_wants_shape(const struct exchange *ex);
void exchange_keep_shape(struct exchange *ex, const char *shape);
bool exchange_is_asked_for(const struct exchange *ex);
/* EX's client has closed its side and may have gone.  A pending question is refused: nobody would
 * receive the approved response. */
void exchange_shut(struct exchange *ex);
/* Withdraw EX's question: EX may go on without an answer. */
void exchange_withdraw(struct exchange *ex);
void exchange_ask_free(struct exchange *ex);

/* Whether the policy asks for an approval of EX that is still missing. */
bool exchange_has_question(struct exchange *ex);
/* The policy has changed: decide again on waiting exchanges. */
void courier_ask_again(struct courier *c);
#endif
