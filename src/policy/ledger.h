/* ledger.h - what was used of budgets: counters in memory that processes share.
 *
 * Pure over that memory, which is a mapped file of LEDGER_SIZE bytes, or zeros of that size to
 * begin with.  Every counter is an atomic of its own, so that whoever dies in between leaves
 * what it has counted, and nothing half done; who has the memory may write it, and what is in
 * it is believed only as numbers.
 *
 * A slot is of one scope (policy_budget_key).  What is about to be used is reserved first, and
 * of two who reserve the last of it one gets it, in whatever processes they are.
 *
 * Money is counted twice.  used[POLICY_MONEY] is what was spent plus the most that requests under
 * way may still cost: it decides whether another request may leave.  `spent` is what answers
 * really cost: it is shown and announced.  tests/unit/policy_ledger_model.c runs every
 * interleaving of the functions below, step by step. */
#ifndef CLOISTER_LEDGER_H
#define CLOISTER_LEDGER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_budget.h"

struct err;

#define LEDGER_SLOTS 1024               /* scopes, ever */
#define LEDGER_HOSTS 8192               /* distinct hosts of all scopes, ever */

struct ledger_slot {
	_Atomic uint64_t key;           /* 0: free */
	_Atomic uint64_t used[POLICY_KINDS];
	_Atomic uint64_t raised[POLICY_KINDS];  /* a limit that an operator set; 0: none */
	_Atomic uint64_t told[POLICY_KINDS];    /* up to where who watches was told */
	_Atomic uint64_t spent;         /* of used[POLICY_MONEY]: really */
	uint64_t spare[1];
};

struct ledger {
	_Atomic uint64_t magic;
	_Atomic uint64_t watch[2 * 2 * 2];      /* of the cell's own: struct policy_watch */
	_Atomic uint64_t times;
	_Atomic uint64_t uncounted;             /* of the cell's own: kinds that nobody can count, as bits */
	_Atomic uint64_t lent;                  /* of the cell's own: what its courier holds reserved in
	                                         * its principal's ledger */
	_Atomic uint64_t couriers;              /* of the cell's own: how many have opened it so far */
	uint64_t spare[499];
	struct ledger_slot slots[LEDGER_SLOTS];
	_Atomic uint64_t hosts[LEDGER_HOSTS];
};
#define LEDGER_SIZE sizeof(struct ledger)
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "counters are shared between processes");

/* MEMORY as a ledger; -EBADMSG if it is something else. */
int ledger_open(void *memory, struct ledger **ret_ledger, struct err *err);
/* The slot of KEY, which is taken if it is not there and MAKE is said; NULL if there is none. */
struct ledger_slot *ledger_slot(struct ledger *l, uint64_t key, bool make);

/* AMOUNT more, unless that would be more than LIMIT: then false, and nothing has changed. */
bool ledger_reserve(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount,
                    uint64_t limit);
/* AMOUNT more, whatever the limit: it was used. */
void ledger_add(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount);
/* Less again: what was reserved and came to nothing. */
void ledger_take_back(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount);
/* Of money, what was really spent. */
uint64_t ledger_used(const struct ledger_slot *slot, enum policy_kind kind);

/* ---- money ---- */

/* WAIT: only reservations of others stand in the way.  OVER: what was spent does. */
enum ledger_answer { LEDGER_YES, LEDGER_WAIT, LEDGER_OVER };
/* Reserve MOST, the most that a request may cost, if less than LIMIT is spent and reserved: so one
 * request may cross the limit, and no other leaves until settling has made room.  A slot never
 * spends more than LIMIT and the most of one request together, as long as no request costs more
 * than its MOST. */
enum ledger_answer ledger_hold(struct ledger_slot *slot, uint64_t most, uint64_t limit);
/* A request that MOST was held for has cost COST; 0: it came to nothing. */
void ledger_settle(struct ledger_slot *slot, uint64_t most, uint64_t cost);
/* Spend exactly AMOUNT, at once. */
enum ledger_answer ledger_pay(struct ledger_slot *slot, uint64_t amount, uint64_t limit);
/* Whoever has reserved something in L is gone: it counts as spent. */
void ledger_fold(struct ledger *l);
/* The same of what the courier of CELL's had reserved in PRINCIPAL. */
void ledger_give_up(struct ledger *cell, struct ledger *principal);

/* HOST counts for SLOT from now on.  0: also if it did before; -EDQUOT: it would be one more
 * than LIMIT; -ENOSPC: there is no room to know it again. */
int ledger_host(struct ledger *l, struct ledger_slot *slot, const char *host, uint64_t limit);
bool ledger_knows_host(const struct ledger *l, const struct ledger_slot *slot, const char *host);

/* The limit in force where the policy says LIMIT. */
uint64_t ledger_limit(const struct ledger_slot *slot, enum policy_kind kind, uint64_t limit);
void ledger_raise(struct ledger_slot *slot, enum policy_kind kind, uint64_t limit);

/* What is to be watched: who decides by a policy tells who has no eyes for it. */
void ledger_watch(struct ledger *l, const struct policy_watch *watch);
void ledger_watched(const struct ledger *l, struct policy_watch *ret_watch);

/* Whether so much was used that who watches is to be told that AT was reached: true once, in one
 * process of all. */
bool ledger_tell(struct ledger_slot *slot, enum policy_kind kind, uint64_t at);
#endif
