/* budget.h - counts what the cell uses: requests, bytes, and the cost of models' responses;
 * also limits rates.
 *
 * The courier counts in the ledgers that the supervisor hands over, before a request leaves and as
 * its bytes pass.  Counters outlive the courier: an amount that it reserved and never settled
 * counts as spent. */
#ifndef CLOISTER_EGRESS_BUDGET_H
#define CLOISTER_EGRESS_BUDGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop/loop.h"
#include "policy/ledger.h"
#include "policy/policy.h"

struct courier;
struct courier_policy;
struct err;
struct exchange;
struct meter;
struct mux_stream;
struct buf;

#define BUDGET_SLOTS_MAX 24             /* budgets that one request counts for */
#define METERS_MAX 1024                 /* responses that are metered at once */
#define METER_PENDING_MAX (1024 * 1024) /* bytes of one response that cloister-inspect has not taken */
#define METER_LAZY_MAX (8 * 1024)       /* bytes of a short response that is batched with others */
#define METER_LAZY_MS 25
#define METERS_SPARE_MAX 64             /* kept for reuse */
#define METERS_LAZY_MAX 64

/* A budget and its counter. */
struct budget_row {
	const struct policy_budget *budget;
	struct ledger *ledger;
	struct ledger_slot *slot;
	unsigned layer;                 /* for a rule's budget: its layer, and its number there; */
	int rule;                       /* otherwise -1 */
};
/* The budgets of a policy. */
struct courier_budgets {
	struct budget_row *rows;
	size_t n;
	bool money;                     /* one of them limits money */
	bool bytes;                     /* one of them limits bytes */
	struct policy_rate rate;
	uint64_t bandwidth;
	/* Cache: the prices of the model that was last asked for. */
	char model[POLICY_MODEL_MAX + 1];
	const struct policy_price *prices[POLICY_LAYERS_MAX];
	size_t n_prices;
};

/* The budget state of an exchange. */
struct exchange_budget {
	struct ledger_slot *slots[BUDGET_SLOTS_MAX];
	size_t n;
	bool paced;                     /* the rate limit lets it leave */
	bool counted;                   /* all budgets let it leave, and it was counted */
	bool is_cut;                    /* a budget of bytes is exceeded: it ends with the round */
	bool asks;                      /* people were asked to raise a budget */
	enum policy_usage usage;        /* the provider of the response, if there is a budget of money */
	bool sure;                      /* the response is known to cost something */
	uint64_t price;                 /* fixed by the rule */
	bool waited;                    /* it has waited for others before */
	uint64_t most;                  /* highest possible cost; reserved in SLOTS if COUNTED */
	struct exchange *cut_next;
	struct meter *meter;            /* meters its response, or NULL */
	struct exchange *waits_next, **waits_at;        /* waits for others to settle; AT is NULL if it does
	                                                 * not */
	size_t owed;                    /* credit that the gate gets later */
	char model[POLICY_MODEL_MAX + 1];       /* the model in the request; set by exchange_price() */
};

/* The budget state of the courier. */
struct budgets {
	struct ledger *cell, *principal;        /* NULL: none */
	struct ledger_slot *slot;       /* the cell's own */
	struct exchange *cuts;
	struct meter *meters;
	struct meter *spare;
	size_t n_spare;
	size_t n_meters;
	size_t n_lazy;                  /* of those, ended but not yet sent to cloister-inspect */
	struct loop_timer lazy;
	struct exchange *waits, **waits_end;    /* until others have settled what they reserved */
	bool settled;                   /* an exchange settled in this round */
	uint64_t context;               /* tokens of the longest conversation so far */
	/* Rate limits: what may pass now, and when that was computed. */
	double requests;
	double bytes;
	uint64_t requests_ms, bytes_ms;
	size_t turn;                    /* which exchange goes on first */
	struct loop_timer again;
};

/* ---- ledger.c ---- */

void courier_budget_init(struct courier *c);
void courier_budget_close(struct courier *c);
/* STEER_LEDGER. */
struct ipc_message;
int courier_take_ledger(struct courier *c, uint64_t number, struct ipc_message *message,
                        struct err *err);
/* Find the counters of P's budgets.  Does nothing before there is a ledger. */
int courier_bind_budgets(struct courier *c, struct courier_policy *p, struct err *err);
void courier_free_budgets(struct courier_policy *p);

/* ---- budget.c ---- */

/* EX is under way, and turns out to carry the secret NAME: count it for that secret's budgets too.
 * False: too little is left; TEXT names the budget. */
bool exchange_afford_secret(struct exchange *ex, const char *name, char *text, size_t size);
/* Count bytes that were sent or received. */
void exchange_used(struct exchange *ex, enum policy_kind kind, size_t len);
/* A request with MOST reserved in SLOTS has cost COST.  Budgets that run low are reported. */
void courier_settle(struct courier *c, const struct courier_policy *p,
                    struct ledger_slot *const *slots, size_t n, uint64_t most, uint64_t cost);
/* At the end of the round: cut off exchanges that exceed a budget. */
void courier_cut_over(struct courier *c);
/* At the end of the round: if an exchange settled, the waiting ones try again. */
void courier_budget_settled(struct courier *c);
/* Once a second: exchanges that wait for a budget, or for an approval of one, try again.  Other
 * cells settle too, and operators raise budgets. */
void courier_budget_tick(struct courier *c);

/* ---- price.c: the highest cost of a request ---- */

/* Whether EX's body is held because it determines EX's cost. */
bool exchange_wants_price(struct exchange *ex);
/* Set ex->budget.most to the highest cost of EX.  False: the cost is unknown, and EX was refused. */
bool exchange_price(struct exchange *ex);
/* The cost of TOKENS of MODEL by P's prices. */
uint64_t courier_price_of(struct courier_policy *p, const char *model,
                          const struct policy_tokens *tokens);

/* ---- meter.c: the cost of models' responses ---- */

/* EX is about to leave, and has a price: decide whether to meter its response.  False: it cannot be
 * metered, and EX was refused. */
bool exchange_meter_begin(struct exchange *ex);
/* Settle EX's response in SLOT too; EX's highest cost was reserved there. */
void exchange_meter_also(struct exchange *ex, struct ledger_slot *slot);
/* The exchange or its response is over.  COMPLETE: all of the response came. */
void exchange_meter_end(struct exchange *ex, bool complete);
/* Add the cost to EX's record, which is being written.  True: the cost is not known yet, and the
 * record is kept until it is. */
bool exchange_meter_record(struct exchange *ex);
/* EX ends.  Its response is metered to the end without it. */
void exchange_meter_forget(struct exchange *ex);
/* cloister-inspect answers no more: estimate the costs that are still unknown. */
void courier_meters_finish(struct courier *c);
/* Handle a message from cloister-inspect if STREAM belongs to a meter; the result is in *ret_r. */
bool meter_hears(struct courier *c, struct mux_stream *stream, uint32_t type, struct buf *body,
                 int *ret_r);
/* Whether STREAM belongs to a meter. */
bool meter_owns(struct courier *c, const struct mux_stream *stream);
bool meter_writable(struct courier *c, struct mux_stream *stream);
void courier_meters_init(struct courier *c);
void courier_meters_trim(struct courier *c);     /* frees spare meters */
void courier_meters_close(struct courier *c);
/* An exchange waits for unsettled amounts: settle soon. */
void courier_meters_hurry(struct courier *c);

/* ---- rate.c ---- */

/* Whether one more request may leave now.  If not, *ret_wait_s is the number of seconds to wait. */
bool courier_may_ask(struct courier *c, const struct policy_rate *rate, uint64_t *ret_wait_s);
/* Whether the bandwidth limit stops reading for now. */
bool courier_is_slowed(struct courier *c);
void courier_passed(struct courier *c, size_t len);
/* As mux_consumed() on the gate's stream, now or when the bandwidth limit allows it. */
void exchange_credit(struct exchange *ex, size_t len);
void courier_rate_init(struct courier *c);
void courier_rate_changed(struct courier *c);   /* the policy has changed */
#endif
