/* courier_budget.h - what the cell uses up: counted before a request leaves and as its bytes
 * pass, in the ledgers that the supervisor hands over; what models' answers cost; how fast.
 *
 * Counters outlive the courier: what it reserved and never settled counts as spent. */
#ifndef CLOISTER_COURIER_BUDGET_H
#define CLOISTER_COURIER_BUDGET_H
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
struct http_head;
struct meter;
struct mux_stream;
struct buf;

#define BUDGET_SLOTS_MAX 24             /* scopes that one request counts for */
#define METERS_MAX 1024                 /* answers that are read at once */
#define METER_PENDING_MAX (1024 * 1024) /* of one, that cloister-inspect has not taken */
#define METER_LAZY_MAX (8 * 1024)       /* of one that waits for others, to be read with them */
#define METER_LAZY_MS 25
#define METERS_SPARE_MAX 64             /* kept to be used again */
#define METERS_LAZY_MAX 64

/* A budget, and where it is counted. */
struct budget_row {
	const struct policy_budget *budget;
	struct ledger *ledger;
	struct ledger_slot *slot;
	unsigned layer;                 /* of a rule: its layer, and its number there; */
	int rule;                       /* else -1 */
};
/* Those of a policy. */
struct courier_budgets {
	struct budget_row *rows;
	size_t n;
	bool money;                     /* one of them is of money */
	bool bytes;                     /* one is of bytes */
	struct policy_rate rate;
	uint64_t bandwidth;
	/* The prices of the model that was asked for last: looking them up takes a while. */
	char model[POLICY_MODEL_MAX + 1];
	const struct policy_price *prices[POLICY_LAYERS_MAX];
	size_t n_prices;
};

/* An exchange's part in it. */
struct exchange_budget {
	struct ledger_slot *slots[BUDGET_SLOTS_MAX];
	size_t n;
	bool paced;                     /* as far as the rate goes, it may leave; */
	bool counted;                   /* as far as all go, and has been counted */
	bool is_cut;                    /* a budget of bytes is over: it ends with the round */
	bool asks;                      /* people were asked for more of one */
	enum policy_usage usage;        /* whose answer it will be, while there is a budget of money; */
	bool sure;                      /* one that costs something; */
	uint64_t price;                 /* of the rule */
	bool waited;                    /* it did before */
	uint64_t most;                  /* as much as this at most, reserved in SLOTS if it is COUNTED */
	struct exchange *cut_next;
	struct meter *meter;            /* of its answer, or NULL */
	struct exchange *waits_next, **waits_at;        /* for others; AT is NULL if it does not */
	size_t owed;                    /* credit for the gate, that it gets later */
};

/* The courier's. */
struct budgets {
	struct ledger *cell, *principal;        /* NULL: there is none */
	struct ledger_slot *slot;       /* the cell's own */
	struct exchange *cuts;
	struct meter *meters;
	struct meter *spare;
	size_t n_spare;
	size_t n_meters;
	size_t n_lazy;                  /* of those, ended but not given to cloister-inspect */
	struct loop_timer lazy;
	struct exchange *waits, **waits_end;    /* until others have settled what they hold */
	bool settled;                   /* somebody has, in this round */
	uint64_t context;               /* tokens of the longest conversation so far */
	/* How fast: what may pass now, as of when. */
	double requests;
	double bytes;
	uint64_t requests_ms, bytes_ms;
	size_t turn;                    /* whose it is to go on first */
	struct loop_timer again;
};

/* ---- courier_ledger.c ---- */

void courier_budget_init(struct courier *c);
void courier_budget_close(struct courier *c);
/* STEER_LEDGER. */
struct ipc_message;
int courier_take_ledger(struct courier *c, uint64_t number, struct ipc_message *message,
                        struct err *err);
/* Find where P's budgets are counted; nothing before there is a ledger. */
int courier_bind_budgets(struct courier *c, struct courier_policy *p, struct err *err);
void courier_free_budgets(struct courier_policy *p);

/* ---- courier_budget.c ---- */

/* Whether EX may leave, as far as budgets and rates go; if so, it is counted.  False: it was
 * refused, or waits. */
bool exchange_afford(struct exchange *ex);
void exchange_stop_settling(struct exchange *ex);
/* EX is under way, and turns out to carry the secret NAME: it counts for that one's budgets, too.
 * False: there is not so much left; TEXT says of what. */
bool exchange_afford_secret(struct exchange *ex, const char *name, char *text, size_t size);
/* Bytes that have gone out, or come in. */
void exchange_used(struct exchange *ex, enum policy_kind kind, size_t len);
/* A request that MOST was reserved for in SLOTS has cost COST; whoever is to be told is. */
void courier_settle(struct courier *c, const struct courier_policy *p,
                    struct ledger_slot *const *slots, size_t n, uint64_t most, uint64_t cost);
/* The round ends: what is over its budget is cut off. */
void courier_cut_over(struct courier *c);
/* The round ends: if somebody has settled, whoever waits for that tries again. */
void courier_budget_settled(struct courier *c);
/* Once a second: whoever waits for a budget, or was asked for because of one, tries again, since
 * other cells settle, too, and operators raise budgets. */
void courier_budget_tick(struct courier *c);
/* EX has waited for others to settle for as long as it may.  False: it did not. */
bool exchange_refuse_waiting(struct exchange *ex);

/* ---- courier_price.c: what a request may cost ---- */

/* Whether EX's body is to be held because it says what EX may cost. */
bool exchange_wants_price(struct exchange *ex);
/* See what EX may cost: ex->budget.most.  False: nobody can tell, and it was refused. */
bool exchange_price(struct exchange *ex);
/* What TOKENS of MODEL cost by P. */
uint64_t courier_price_of(struct courier_policy *p, const char *model,
                          const struct policy_tokens *tokens);

/* ---- courier_meter.c: what models' answers cost ---- */

/* EX is about to leave, and was priced: see whether its answer is to be read.  False: it cannot be,
 * and EX was refused. */
bool exchange_meter_begin(struct exchange *ex);
/* SLOT counts for EX's answer, too: what EX may cost was reserved there. */
void exchange_meter_also(struct exchange *ex, struct ledger_slot *slot);
/* The head of its answer, as the server sent it. */
void exchange_meter_head(struct exchange *ex, const struct http_head *head, bool has_body);
void exchange_meter_feed(struct exchange *ex, const void *data, size_t len);
/* The exchange is over, or its answer is; COMPLETE: all of that came. */
void exchange_meter_end(struct exchange *ex, bool complete);
/* What it cost goes into EX's record, which is being written.  True: that is not known yet, and the
 * record is kept until it is. */
bool exchange_meter_record(struct exchange *ex);
/* EX ends; what is still to be known of its answer is found out without it. */
void exchange_meter_forget(struct exchange *ex);
/* Nothing more is to be heard from cloister-inspect: what is not known is estimated. */
void courier_meters_finish(struct courier *c);
/* What cloister-inspect says on STREAM, if that is one of an answer's: *ret_r. */
bool meter_hears(struct courier *c, struct mux_stream *stream, uint32_t type, struct buf *body,
                 int *ret_r);
bool meter_writable(struct courier *c, struct mux_stream *stream);
void courier_meters_init(struct courier *c);
void courier_meters_trim(struct courier *c);     /* give back what is only kept */
void courier_meters_close(struct courier *c);
/* Somebody waits for what is not settled. */
void courier_meters_hurry(struct courier *c);

/* ---- courier_rate.c ---- */

/* Whether one more request may leave now; else in how many seconds. */
bool courier_may_ask(struct courier *c, const struct policy_rate *rate, uint64_t *ret_wait_s);
/* Whether nothing more is to be read for now. */
bool courier_is_slowed(struct courier *c);
void courier_passed(struct courier *c, size_t len);
/* As mux_consumed() on the gate's stream, now or when bytes may pass again. */
void exchange_credit(struct exchange *ex, size_t len);
void courier_rate_init(struct courier *c);
void courier_rate_changed(struct courier *c);   /* with the policy */
#endif
