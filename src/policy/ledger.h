/* ledger.h - counts budget use in memory that processes share.
 *
 * The functions only touch that memory: a mapped file of LEDGER_SIZE bytes, zero at first.  Every
 * counter is its own atomic.  A process that dies midway leaves complete counts, never half an
 * update.  Any process that maps the memory can write it, so readers trust its contents only as
 * numbers.
 *
 * A slot belongs to one scope (policy_budget_key).  Callers reserve an amount before they use it.
 * If two processes reserve the last of a budget, exactly one of them gets it.
 *
 * Money is counted twice.  The counter used[POLICY_MONEY] holds the money spent plus the most that
 * requests in flight may still cost; it decides whether another request may leave.  `spent` holds
 * the real cost of responses; it is shown and announced.  The test tests/unit/policy_ledger_model.c
 * runs every interleaving of the functions below, step by step. */
#ifndef CLOISTER_LEDGER_H
#define CLOISTER_LEDGER_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy_budget.h"

struct err;

#define LEDGER_SLOTS 1024               /* scopes over the file's lifetime */
#define LEDGER_HOSTS 8192               /* distinct hosts over the file's lifetime, all scopes
                                         * together */

struct ledger_slot {
	_Atomic uint64_t key;           /* 0: free */
	_Atomic uint64_t used[POLICY_KINDS];
	_Atomic uint64_t raised[POLICY_KINDS];  /* the operator's own limit; 0: none */
	_Atomic uint64_t told[POLICY_KINDS];    /* the amount last announced */
	_Atomic uint64_t spent;         /* the real part of used[POLICY_MONEY] */
	uint64_t spare[1];
};

struct ledger {
	_Atomic uint64_t magic;
	_Atomic uint64_t watch[2 * 2 * 2];      /* cell's own ledger only: struct policy_watch */
	_Atomic uint64_t times;
	_Atomic uint64_t uncounted;             /* cell's own ledger only: bits of kinds that cannot
	                                         * be counted */
	_Atomic uint64_t lent;                  /* cell's own ledger only: the amount that its
	                                         * courier holds reserved in its principal's ledger */
	_Atomic uint64_t couriers;              /* cell's own ledger only: how many couriers have
	                                         * opened it */
	uint64_t spare[499];
	struct ledger_slot slots[LEDGER_SLOTS];
	_Atomic uint64_t hosts[LEDGER_HOSTS];
};
#define LEDGER_SIZE sizeof(struct ledger)
_Static_assert(sizeof(_Atomic uint64_t) == 8 && ATOMIC_LLONG_LOCK_FREE == 2,
               "counters are shared between processes");

/* Use MEMORY as a ledger; -EBADMSG if it holds something else. */
int ledger_open(void *memory, struct ledger **ret_ledger, struct err *err);
/* Find the slot for KEY.  With MAKE, take a free slot if there is none yet.  NULL if not found or
 * full. */
struct ledger_slot *ledger_slot(struct ledger *l, uint64_t key, bool make);

/* Reserve AMOUNT.  If that would exceed LIMIT, return false and change nothing. */
bool ledger_reserve(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount,
                    uint64_t limit);
/* Count AMOUNT as used, whatever the limit. */
void ledger_add(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount);
/* Return an amount that was reserved and not used. */
void ledger_take_back(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount);
/* For money: the amount really spent. */
uint64_t ledger_used(const struct ledger_slot *slot, enum policy_kind kind);

/* ---- money ---- */

/* WAIT: only other requests' reservations are in the way.  OVER: the money spent reaches the limit. */
enum ledger_answer { LEDGER_YES, LEDGER_WAIT, LEDGER_OVER };
/* Reserve MOST, the highest cost of one request, if the spent and reserved total is below LIMIT.
 * One request may therefore cross the limit; no other leaves until ledger_settle() makes room.  A
 * slot never spends more than LIMIT plus the MOST of one request, as long as no request costs more
 * than its MOST. */
enum ledger_answer ledger_hold(struct ledger_slot *slot, uint64_t most, uint64_t limit);
/* Replace the hold of MOST by the real COST; 0 if the request never happened. */
void ledger_settle(struct ledger_slot *slot, uint64_t most, uint64_t cost);
/* Spend exactly AMOUNT, at once. */
enum ledger_answer ledger_pay(struct ledger_slot *slot, uint64_t amount, uint64_t limit);
/* Count all money still reserved in L as spent: the process that reserved it is gone. */
void ledger_fold(struct ledger *l);
/* Count as spent what CELL's courier had reserved in PRINCIPAL. */
void ledger_give_up(struct ledger *cell, struct ledger *principal);

/* Count HOST for SLOT.  Returns 0, also if HOST was counted before; -EDQUOT if it would exceed
 * LIMIT; -ENOSPC if there is no room to remember it. */
int ledger_host(struct ledger *l, struct ledger_slot *slot, const char *host, uint64_t limit);
bool ledger_knows_host(const struct ledger *l, const struct ledger_slot *slot, const char *host);

/* The limit in force if the policy sets LIMIT: the operator's, if that is higher. */
uint64_t ledger_limit(const struct ledger_slot *slot, enum policy_kind kind, uint64_t limit);
void ledger_raise(struct ledger_slot *slot, enum policy_kind kind, uint64_t limit);

/* Store and load the limits that a process without the policy has to watch. */
void ledger_watch(struct ledger *l, const struct policy_watch *watch);
void ledger_watched(const struct ledger *l, struct policy_watch *ret_watch);

/* Whether use has reached AT and nobody has announced it.  True once, in one process only. */
bool ledger_tell(struct ledger_slot *slot, enum policy_kind kind, uint64_t at);
#endif
