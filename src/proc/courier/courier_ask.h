/* courier_ask.h - exchanges that wait for people: COURIER_ASK, and what comes of it.
 *
 * A question is asked once all that is known of the request is known: its head has been judged,
 * and a body that fits has come and was looked into.  Each layer of the policy that asks is
 * asked apart, the nearest first.  A rule may be open, for a time or for good: then nobody is
 * asked for it. */
#ifndef CLOISTER_COURIER_ASK_H
#define CLOISTER_COURIER_ASK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/courier_channel.h"
#include "ipc/inspect_channel.h"
#include "policy/policy.h"

struct courier;
struct exchange;

#define COURIER_ASKS_MAX 64             /* at once */
#define COURIER_OPEN_MAX 256            /* rules */
#define COURIER_ASK_HELD (1024 * 1024)  /* of a body that is held so that its shape can be shown */

/* A rule by what it says, wherever it stands: a hash. */
struct ask_rule { unsigned char hash[32]; };

struct courier_asks {
	uint64_t n;                     /* questions so far: their numbers */
	size_t n_waiting;
	struct {
		struct ask_rule rule;
		uint64_t until_ms;      /* on the loop's clock; 0: for good */
	} open[COURIER_OPEN_MAX];
	size_t n_open;
};

/* What somebody is asked. */
struct courier_question {
	struct ask_rule rule;           /* what is opened by an answer that is for more than once */
	const char *text, *place;       /* of the rule, for people */
	struct policy_question of;
};

/* What an exchange has while it is asked for, and afterwards. */
struct exchange_ask {
	uint64_t number;                /* of the question; 0: none is open */
	struct ask_rule rule;           /* that it is for */
	struct ask_rule given[POLICY_LAYERS_MAX];       /* answered with yes */
	size_t n_given;
	void (*go_on)(struct exchange *ex);
	char by[COURIER_ASK_BY + 1];    /* who approved it last */
	char id[COURIER_ASK_ID + 1];
	char shape[INSPECT_SHAPE_MAX];
	char reason[COURIER_ASK_TEXT + 1];      /* of what asks, which may be gone by the answer; or "" */
};

/* Whether EX may go on without asking anybody, or what was asked has been answered.  False: it
 * was refused, or waits, and then GO_ON is called in its time. */
bool exchange_may_pass(struct exchange *ex, void (*go_on)(struct exchange *ex));
/* Ask for something else than a rule of the policy; the same. */
bool exchange_ask(struct exchange *ex, const struct courier_question *q,
                  void (*go_on)(struct exchange *ex));
/* Whether that was answered with yes, for EX or for all of its kind. */
bool exchange_is_answered(const struct exchange *ex, const struct ask_rule *rule);
/* Whether its body is to be held so that people can be shown its shape. */
bool exchange_wants_shape(const struct exchange *ex);
void exchange_keep_shape(struct exchange *ex, const char *shape);
bool exchange_is_asked_for(const struct exchange *ex);
/* Its client has closed its side.  Nobody is asked for who may have gone: what is approved then
 * would be done for nobody. */
void exchange_shut(struct exchange *ex);
/* Nobody has to answer any more what is asked for EX: it may go on without. */
void exchange_withdraw(struct exchange *ex);
/* The answer does not matter any more. */
void exchange_stop_asking(struct exchange *ex);
void exchange_ask_free(struct exchange *ex);

/* Whether the policy wants something asked for EX that nobody has answered. */
bool exchange_has_question(struct exchange *ex);
/* The policy is another one: what waits is decided on again. */
void courier_ask_again(struct courier *c);
#endif
