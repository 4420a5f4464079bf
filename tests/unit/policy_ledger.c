/* policy_ledger.c - tests of policy/ledger. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "policy/ledger.h"
#include "test.h"

#define THREADS 8
#define EACH 20000

static struct ledger *
new_ledger(void)
{
	struct ledger *l = NULL;
	void *memory = mmap(NULL, LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	                    0);

	CHECK(memory != MAP_FAILED);
	CHECK_OK(ledger_open(memory, &l, NULL));
	return l;
}

TEST(ledger_counts)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *slot = ledger_slot(l, 7, true);

	CHECK(slot != NULL && ledger_slot(l, 7, false) == slot);
	CHECK(ledger_slot(l, 8, false) == NULL);
	/* Keys that begin at the same place are two. */
	CHECK(ledger_slot(l, 7 + LEDGER_SLOTS, true) != slot);
	CHECK(ledger_reserve(slot, POLICY_REQUESTS, 2, 3));
	CHECK(!ledger_reserve(slot, POLICY_REQUESTS, 2, 3));
	CHECK(ledger_reserve(slot, POLICY_REQUESTS, 1, 3));
	CHECK(!ledger_reserve(slot, POLICY_REQUESTS, UINT64_MAX, UINT64_MAX));
	CHECK_U64(ledger_used(slot, POLICY_REQUESTS), 3);
	ledger_take_back(slot, POLICY_REQUESTS, 1);
	CHECK_U64(ledger_used(slot, POLICY_REQUESTS), 2);
	ledger_take_back(slot, POLICY_REQUESTS, 5);
	CHECK_U64(ledger_used(slot, POLICY_REQUESTS), 0);
	CHECK_U64(ledger_used(slot, POLICY_MONEY), 0);
	ledger_add(slot, POLICY_MONEY, UINT64_MAX - 1);
	ledger_add(slot, POLICY_MONEY, 5);
	CHECK_U64(ledger_used(slot, POLICY_MONEY), UINT64_MAX);
}

TEST(ledger_is_finite)
{
	struct ledger *l = new_ledger();

	for (uint64_t i = 1; i <= LEDGER_SLOTS; i++)
		CHECK(ledger_slot(l, i * 31, true) != NULL);
	CHECK(ledger_slot(l, 5, true) == NULL);
	CHECK(ledger_slot(l, 31, true) != NULL);
}

TEST(ledger_refuses_other_files)
{
	struct ledger *l = new_ledger(), *again = NULL;
	struct err err = {0};

	CHECK_OK(ledger_open(l, &again, &err));
	CHECK(again == l);
	l->magic = 1;
	CHECK_ERR(ledger_open(l, &again, &err), EBADMSG);
}

TEST(ledger_hosts)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *a = ledger_slot(l, 1, true), *b = ledger_slot(l, 2, true);
	char host[32];

	CHECK_OK(ledger_host(l, a, "a.x", 2));
	CHECK_OK(ledger_host(l, a, "a.x", 2));
	CHECK_OK(ledger_host(l, a, "b.x", 2));
	CHECK_ERR(ledger_host(l, a, "c.x", 2), EDQUOT);
	CHECK_OK(ledger_host(l, a, "b.x", 2));
	CHECK_U64(ledger_used(a, POLICY_DISTINCT_HOSTS), 2);
	/* Each scope has its own. */
	CHECK(!ledger_knows_host(l, b, "a.x"));
	CHECK_OK(ledger_host(l, b, "a.x", 1));
	CHECK_U64(ledger_used(b, POLICY_DISTINCT_HOSTS), 1);
	for (int i = 0; i < LEDGER_HOSTS / 2; i++) {
		snprintf(host, sizeof(host), "h%d.x", i);
		CHECK_OK(ledger_host(l, b, host, UINT64_MAX));
	}
	CHECK_U64(ledger_used(b, POLICY_DISTINCT_HOSTS), LEDGER_HOSTS / 2 + 1);
}

/* What is full says so, and counts nothing that it does not know again. */
TEST(ledger_hosts_are_finite)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *a = ledger_slot(l, 1, true);
	char host[32];
	uint64_t known = 0;

	for (int i = 0; i < 2 * LEDGER_HOSTS; i++) {
		snprintf(host, sizeof(host), "h%d.x", i);
		known += ledger_host(l, a, host, UINT64_MAX) == 0;
	}
	CHECK(known <= LEDGER_HOSTS);
	CHECK_U64(ledger_used(a, POLICY_DISTINCT_HOSTS), known);
}

TEST(ledger_raises)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *slot = ledger_slot(l, 1, true);

	CHECK_U64(ledger_limit(slot, POLICY_REQUESTS, 10), 10);
	ledger_raise(slot, POLICY_REQUESTS, 15);
	CHECK_U64(ledger_limit(slot, POLICY_REQUESTS, 10), 15);
	CHECK_U64(ledger_limit(slot, POLICY_REQUESTS, 20), 20);
	CHECK_U64(ledger_limit(slot, POLICY_MONEY, 10), 10);
}

TEST(ledger_reports_once)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *slot = ledger_slot(l, 1, true);

	CHECK(!ledger_tell(slot, POLICY_REQUESTS, 5));
	ledger_add(slot, POLICY_REQUESTS, 6);
	CHECK(ledger_tell(slot, POLICY_REQUESTS, 5));
	CHECK(!ledger_tell(slot, POLICY_REQUESTS, 5));
	/* What was told stays told, also when something is taken back in between. */
	ledger_take_back(slot, POLICY_REQUESTS, 3);
	ledger_add(slot, POLICY_REQUESTS, 3);
	CHECK(!ledger_tell(slot, POLICY_REQUESTS, 5));
	ledger_add(slot, POLICY_REQUESTS, 4);
	CHECK(ledger_tell(slot, POLICY_REQUESTS, 10));
}

/* ---- many at once ---- */

struct crowd {
	struct ledger *l;
	_Atomic uint64_t got, told;
};

static void *
reserve_all(void *arg)
{
	struct crowd *c = arg;
	struct ledger_slot *slot = ledger_slot(c->l, 99, true);
	char host[32];

	for (int i = 0; i < EACH; i++) {
		if (ledger_reserve(slot, POLICY_REQUESTS, 1, THREADS * EACH / 2))
			c->got++;
		ledger_add(slot, POLICY_MONEY, 3);
		for (uint64_t at = 1; at <= 10; at++)
			if (ledger_tell(slot, POLICY_MONEY, at * THREADS * EACH * 3 / 10))
				c->told++;
		snprintf(host, sizeof(host), "h%d", i % 500);
		(void)ledger_host(c->l, slot, host, 400);
	}
	return NULL;
}

TEST(ledger_with_threads)
{
	struct crowd c = { .l = new_ledger() };
	pthread_t threads[THREADS];
	struct ledger_slot *slot;

	for (size_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, reserve_all, &c) == 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	slot = ledger_slot(c.l, 99, false);
	CHECK(slot != NULL);
	CHECK_U64(c.got, THREADS * EACH / 2);
	CHECK_U64(ledger_used(slot, POLICY_REQUESTS), THREADS * EACH / 2);
	CHECK_U64(ledger_used(slot, POLICY_MONEY), THREADS * EACH * 3);
	/* No more than once each; of two that are crossed at a time, the higher one may be told
	 * alone. */
	CHECK(c.told >= 1 && c.told <= 10);
	CHECK_U64(ledger_used(slot, POLICY_DISTINCT_HOSTS), 400);
}

/* What was counted by who is killed stays. */
TEST(ledger_survives_its_writers)
{
	struct ledger *l = new_ledger();
	struct ledger_slot *slot = ledger_slot(l, 5, true);
	uint64_t used;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			(void)ledger_reserve(ledger_slot(l, 5, true), POLICY_REQUESTS, 1, UINT64_MAX);
	while (ledger_used(slot, POLICY_REQUESTS) < 1000)
		sched_yield();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	used = ledger_used(slot, POLICY_REQUESTS);
	CHECK(used >= 1000);
	CHECK(ledger_reserve(slot, POLICY_REQUESTS, 1, used + 1));
	CHECK(!ledger_reserve(slot, POLICY_REQUESTS, 1, used + 1));
}
