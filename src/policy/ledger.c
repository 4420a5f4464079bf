/* ledger.c - see ledger.h. */
#include "policy/ledger.h"

#include <errno.h>

#include "base/err.h"

#define MAGIC 0x3172656764656c63        /* "cledger1" */
#define HOST_TRIES 64                   /* places that a host may be at */

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

void
ledger_add(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount)
{
	uint64_t used, next;

	/* A number that starts again at zero would be a budget that does. */
	used = atomic_load(&slot->used[kind]);
	do {
		if (__builtin_add_overflow(used, amount, &next))
			next = UINT64_MAX;
	} while (!atomic_compare_exchange_weak(&slot->used[kind], &used, next));
}

void
ledger_take_back(struct ledger_slot *slot, enum policy_kind kind, uint64_t amount)
{
	uint64_t used = atomic_load(&slot->used[kind]);

	while (!atomic_compare_exchange_weak(&slot->used[kind], &used,
	                                     used > amount ? used - amount : 0))
		;
}

uint64_t
ledger_used(const struct ledger_slot *slot, enum policy_kind kind)
{
	return atomic_load(&slot->used[kind]);
}

/* ---- hosts ---- */

static uint64_t
hash_host(const struct ledger_slot *slot, const char *host)
{
	uint64_t hash = atomic_load(&slot->key) * 0x9e3779b97f4a7c15;

	for (; *host != '\0'; host++)
		hash = (hash ^ (unsigned char)*host) * 0x100000001b3;
	/* Its low bits are its place, and those of short names differ little. */
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
		if (found == hash) {    /* somebody else was faster, and has counted it */
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

	if (atomic_load(&slot->used[kind]) < at)
		return false;
	while (told < at)
		if (atomic_compare_exchange_weak(&slot->told[kind], &told, at))
			return true;
	return false;
}
