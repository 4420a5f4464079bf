/* ledger.c - see ledger.h. */
#include "policy/ledger.h"

#include <errno.h>

#include "base/err.h"

#define MAGIC 0x3172656764656c63        /* "cledger1" */
#define HOST_TRIES 64                   /* slots that a host may be in */

int
ledger_open(void *memory, struct ledger **ret_ledger, struct err *err)
{
	struct ledger *l = memory;
	uint64_t magic = 0;

	if (!atomic_compare_exchange_strong(&l->magic, &magic, MAGIC) && magic != MAGIC)
		return err_set(err, EBADMSG, "it is no ledger of this version");
	*ret_ledger = l;
	return 0;
}

struct ledger_slot *
ledger_slot(struct ledger *l, uint64_t key, bool make)
{
	for (size_t i = 0; i < LEDGER_SLOTS; i++) {
		struct ledger_slot *slot = &l->slots[(key + i) % LEDGER_SLOTS];
		uint64_t found = atomic_load(&slot->key);

		if (found == 0 && !make)
			return NULL;
		if (found == 0 && atomic_compare_exchange_strong(&slot->key, &found, key))
			return slot;
		if (found == key)
			return slot;
	}
	return NULL;
}

bool
ledger_reserve(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount, uint64_t limit)
{
	uint64_t used = atomic_load(&slot->used[kind]), next;

	do {
		if (__builtin_add_overflow(used, amount, &next) || next > limit)
			return false;
	} while (!atomic_compare_exchange_weak(&slot->used[kind], &used, next));
	return true;
}

/* Saturates: a counter that wrapped to zero would give the whole budget again. */
static void
add(_Atomic uint64_t *at, uint64_t amount)
{
	uint64_t was = atomic_load(at), next;

	do {
		if (__builtin_add_overflow(was, amount, &next))
			next = UINT64_MAX;
	} while (!atomic_compare_exchange_weak(at, &was, next));
}

static void
subtract(_Atomic uint64_t *at, uint64_t amount)
{
	uint64_t was = atomic_load(at);

	while (!atomic_compare_exchange_weak(at, &was, was > amount ? was - amount : 0))
		;
}

void
ledger_add(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount)
{
	if (kind == POLICY_MONEY)
		add(&slot->spent, amount);
	add(&slot->used[kind], amount);
}

void
ledger_take_back(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount)
{
	if (kind == POLICY_MONEY)
		subtract(&slot->spent, amount);
	subtract(&slot->used[kind], amount);
}

uint64_t
ledger_used(const struct ledger_slot *slot, enum policy_kind kind)
{
	return atomic_load(kind == POLICY_MONEY ? &slot->spent : &slot->used[kind]);
}

/* ---- money ---- */

enum ledger_answer
ledger_hold(struct ledger_slot *slot, uint64_t most, uint64_t limit)
{
	uint64_t used = atomic_load(&slot->used[POLICY_MONEY]), next;

	do {
		if (used >= limit)
			return atomic_load(&slot->spent) >= limit ? LEDGER_OVER : LEDGER_WAIT;
		if (__builtin_add_overflow(used, most, &next))
			next = UINT64_MAX;
	} while (!atomic_compare_exchange_weak(&slot->used[POLICY_MONEY], &used, next));
	return LEDGER_YES;
}

void
ledger_settle(struct ledger_slot *slot, uint64_t most, uint64_t cost)
{
	add(&slot->spent, cost);
	if (cost > most)
		add(&slot->used[POLICY_MONEY], cost - most);
	else
		subtract(&slot->used[POLICY_MONEY], most - cost);
}

enum ledger_answer
ledger_pay(struct ledger_slot *slot, uint64_t amount, uint64_t limit)
{
	uint64_t all;

	if (ledger_reserve(slot, POLICY_MONEY, amount, limit)) {
		add(&slot->spent, amount);
		return LEDGER_YES;
	}
	return __builtin_add_overflow(atomic_load(&slot->spent), amount, &all) || all > limit
	       ? LEDGER_OVER : LEDGER_WAIT;
}

void
ledger_fold(struct ledger *l)
{
	for (size_t i = 0; i < LEDGER_SLOTS; i++) {
		struct ledger_slot *slot = &l->slots[i];

		if (atomic_load(&slot->key) != 0)
			atomic_store(&slot->spent, atomic_load(&slot->used[POLICY_MONEY]));
	}
}

void
ledger_give_up(struct ledger *cell, struct ledger *principal)
{
	struct ledger_slot *slot = ledger_slot(principal, policy_budget_key(POLICY_PER_PRINCIPAL, ""),
	                                       false);
	uint64_t lent = atomic_exchange(&cell->lent, 0);

	if (slot != NULL && lent > 0)
		ledger_settle(slot, lent, lent);
}

/* ---- hosts ---- */

static uint64_t
hash_host(const struct ledger_slot *slot, const char *host)
{
	uint64_t hash = atomic_load(&slot->key) * 0x9e3779b97f4a7c15;

	for (; *host != '\0'; host++)
		hash = (hash ^ (unsigned char)*host) * 0x100000001b3;
	/* The low bits choose the place, and those of short names differ little. */
	hash ^= hash >> 29;
	hash *= 0xbf58476d1ce4e5b9;
	hash ^= hash >> 32;
	return hash != 0 ? hash : 1;
}

bool
ledger_knows_host(const struct ledger *l, const struct ledger_slot *slot, const char *host)
{
	uint64_t hash = hash_host(slot, host), found = 1;

	for (size_t i = 0; i < HOST_TRIES && found != 0; i++) {
		found = atomic_load(&l->hosts[(hash + i) % LEDGER_HOSTS]);
		if (found == hash)
			return true;
	}
	return false;
}

int
ledger_host(struct ledger *l, struct ledger_slot *slot, const char *host, uint64_t limit)
{
	uint64_t hash = hash_host(slot, host);

	if (ledger_knows_host(l, slot, host))
		return 0;
	if (!ledger_reserve(slot, POLICY_DISTINCT_HOSTS, 1, limit))
		return -EDQUOT;
	for (size_t i = 0; i < HOST_TRIES; i++) {
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&l->hosts[(hash + i) % LEDGER_HOSTS], &found, hash))
			return 0;
		if (found == hash) {    /* another process counted it first */
			ledger_take_back(slot, POLICY_DISTINCT_HOSTS, 1);
			return 0;
		}
	}
	ledger_take_back(slot, POLICY_DISTINCT_HOSTS, 1);
	return -ENOSPC;
}

/* ---- limits ---- */

uint64_t
ledger_limit(const struct ledger_slot *slot, enum policy_kind kind, uint64_t limit)
{
	uint64_t raised = atomic_load(&slot->raised[kind]);

	return raised > limit ? raised : limit;
}

void
ledger_raise(struct ledger_slot *slot, enum policy_kind kind, uint64_t limit)
{
	atomic_store(&slot->raised[kind], limit);
}

void
ledger_watch(struct ledger *l, const struct policy_watch *watch)
{
	for (size_t i = 0; i < 8; i++)
		atomic_store(&l->watch[i], watch->limits[i >> 2][i >> 1 & 1][i & 1]);
	atomic_store(&l->times, watch->times);
}

void
ledger_watched(const struct ledger *l, struct policy_watch *ret_watch)
{
	*ret_watch = (struct policy_watch){ .times = atomic_load(&l->times) != 0 };
	for (size_t i = 0; i < 8; i++)
		ret_watch->limits[i >> 2][i >> 1 & 1][i & 1] = atomic_load(&l->watch[i]);
}

bool
ledger_tell(struct ledger_slot *slot, enum policy_kind kind, uint64_t at)
{
	uint64_t told = atomic_load(&slot->told[kind]);

	if (ledger_used(slot, kind) < at)
		return false;
	while (told < at)
		if (atomic_compare_exchange_weak(&slot->told[kind], &told, at))
			return true;
	return false;
}
