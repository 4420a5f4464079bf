/* policy_ledger_model.c - every interleaving of requests that hold, settle and announce money.
 *
 * ledger.c is compiled a second time, with atomics that are steps of a model.  A process is a
 * script that calls the ledger.  To take one step, the call runs from its beginning: atomics
 * that it did before return what they returned then, the next one is done in the model's memory,
 * and the script is left.  So all of a state is the memory and what each process has seen, and
 * all states that can be reached are visited, each once.  What must hold is checked in every one.
 *
 * Atomics are taken as sequentially consistent, which is what ledger.c asks for. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "test.h"

static uint64_t step_load(const _Atomic uint64_t *at);
static void step_store(_Atomic uint64_t *at, uint64_t value);
static bool step_swap(_Atomic uint64_t *at, uint64_t *expected, uint64_t value);

#undef atomic_load
#undef atomic_store
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_strong
#define atomic_load(at) step_load(at)
#define atomic_store(at, value) step_store(at, value)
#define atomic_compare_exchange_weak(at, expected, value) step_swap(at, expected, value)
#define atomic_compare_exchange_strong(at, expected, value) step_swap(at, expected, value)

#define ledger_open model_open
#define ledger_slot(...) model_slot(__VA_ARGS__)
#define ledger_reserve model_reserve
#define ledger_add model_add
#define ledger_take_back model_take_back
#define ledger_used model_used
#define ledger_hold model_hold
#define ledger_settle model_settle
#define ledger_pay model_pay
#define ledger_fold model_fold
#define ledger_give_up model_give_up
#define ledger_host model_host
#define ledger_knows_host model_knows_host
#define ledger_limit model_limit
#define ledger_raise model_raise
#define ledger_watch model_watch
#define ledger_watched model_watched
#define ledger_tell model_tell
#include "../../src/policy/ledger.c"
#undef ledger_slot

#define PROCESSES 3
#define STEPS_MAX 24                    /* of one call */
#define STATES_MAX (1 << 20)

/* What a process asks for: something that costs up to MOST and turns out to cost COST; or, where
 * MOST is 0, a price of COST that is known before. */
struct asked { uint64_t most, cost; };

enum phase { ASKS, HOLDS, SETTLES, TELLS, DONE };
struct process {
	uint64_t seen[STEPS_MAX];       /* what its atomics returned */
	size_t n;
	const void *last;               /* where the last one was */
	enum phase phase;
	enum ledger_answer answer;
	bool told;
};

struct state {
	struct ledger_slot slot;
	struct process processes[PROCESSES];
};

static struct {
	struct asked asked[PROCESSES];
	uint64_t limit;
	struct state now;
	struct process *runs;
	size_t at;                      /* of its steps */
	jmp_buf out;
	uint64_t *visited;
	size_t n_visited, n_ends;
} model;

/* ---- steps ---- */

/* Whether the step was done before; else it is to be done now, and the one after it is not. */
static bool
is_past(uint64_t *ret_seen)
{
	struct process *p = model.runs;

	if (model.at < p->n) {
		*ret_seen = p->seen[model.at++];
		return true;
	}
	if (model.at > p->n)
		abort();
	return false;
}

static uint64_t
did(const void *at, uint64_t seen)
{
	struct process *p = model.runs;

	CHECK(p->n < STEPS_MAX);
	p->seen[p->n++] = seen;
	p->last = at;
	longjmp(model.out, 1);
}

static uint64_t
value_at(const _Atomic uint64_t *at)
{
	return *at;
}

static void
set_at(_Atomic uint64_t *at, uint64_t value)
{
	*at = value;
}

static uint64_t
step_load(const _Atomic uint64_t *at)
{
	uint64_t seen;

	return is_past(&seen) ? seen : did(at, value_at(at));
}

static void
step_store(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t seen;

	if (is_past(&seen))
		return;
	set_at(at, value);
	(void)did(at, 0);
}

/* What was seen is what stood there: it tells whether it was swapped, too.  The ledger's loops go on
 * after a swap that failed as if they had loaded only now, so that is what is kept of it. */
static bool
step_swap(_Atomic uint64_t *at, uint64_t *expected, uint64_t value)
{
	uint64_t seen;

	if (!is_past(&seen)) {
		seen = value_at(at);
		if (seen == *expected)
			set_at(at, value);
		else if (model.runs->last == at)
			model.runs->n--;
		(void)did(at, seen);
	}
	if (seen == *expected)
		return true;
	*expected = seen;
	return false;
}

/* ---- processes ---- */

/* The next phase begins with nothing seen: all that it needs of those before is in P. */
static void
enter(struct process *p, enum phase phase)
{
	memset(p->seen, 0, sizeof(p->seen));
	p->n = model.at = 0;
	p->last = NULL;
	p->phase = phase;
}

static void
run_script(size_t i)
{
	struct process *p = &model.now.processes[i];
	struct ledger_slot *slot = &model.now.slot;
	const struct asked *a = &model.asked[i];

	switch (p->phase) {
	case ASKS:
		p->answer = a->most > 0 ? model_hold(slot, a->most, model.limit)
		                        : model_pay(slot, a->cost, model.limit);
		enter(p, p->answer != LEDGER_YES ? DONE : a->most > 0 ? HOLDS : TELLS);
		break;
	case HOLDS:
		enter(p, SETTLES);
		break;
	case SETTLES:
		model_settle(slot, a->most, a->cost);
		enter(p, TELLS);
		break;
	case TELLS:
		p->told = model_tell(slot, POLICY_MONEY, model.limit);
		enter(p, DONE);
		break;
	case DONE:
		break;
	}
}

static void
step(size_t i)
{
	model.runs = &model.now.processes[i];
	model.at = 0;
	if (setjmp(model.out) == 0)
		run_script(i);
}

/* ---- what must hold ---- */

/* What those have spent who came at least as far as PHASE. */
static uint64_t
spent_by(enum phase phase)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < PROCESSES; i++)
		if (model.now.processes[i].answer == LEDGER_YES && model.now.processes[i].phase >= phase)
			sum += model.asked[i].cost;
	return sum;
}

static void
check_state(void)
{
	uint64_t really = 0, spent = value_at(&model.now.slot.spent);

	for (size_t i = 0; i < PROCESSES; i++) {
		const struct process *p = &model.now.processes[i];

		/* What was paid at once counts from the moment that it is in. */
		if (model.asked[i].most == 0 || (p->answer == LEDGER_YES && p->phase >= SETTLES))
			really += model.asked[i].cost;
		/* Nobody hears that all is used up because of what others may still cost. */
		if (p->phase == DONE && p->answer == LEDGER_OVER && model.asked[i].most > 0)
			CHECK(really >= model.limit || spent >= model.limit);
	}
	CHECK(spent <= really);
	CHECK(value_at(&model.now.slot.used[POLICY_MONEY]) >= spent_by(TELLS));
}

static void
check_end(void)
{
	uint64_t spent = value_at(&model.now.slot.spent), dearest = 0;
	size_t told = 0;

	for (size_t i = 0; i < PROCESSES; i++) {
		if (model.asked[i].most > dearest)
			dearest = model.asked[i].most;
		told += model.now.processes[i].told;
	}
	model.n_ends++;
	CHECK_U64(spent, spent_by(DONE));
	CHECK_U64(value_at(&model.now.slot.used[POLICY_MONEY]), spent);
	CHECK(spent < model.limit + (dearest > 0 ? dearest : 1));
	/* The end is announced once, if it has come, and never before. */
	CHECK_U64(told, spent >= model.limit);
}

/* ---- all of it ---- */

/* False: it was there before. */
static bool
visit(void)
{
	uint64_t key = 0xcbf29ce484222325;
	const char *bytes = (const char *)&model.now;
	uint64_t word;
	size_t at;

	for (size_t i = 0; i + sizeof(word) <= sizeof(model.now); i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		key = (key ^ word) * 0x100000001b3;
		key ^= key >> 29;
	}
	key += key == 0;
	for (at = key % STATES_MAX; model.visited[at] != 0; at = (at + 1) % STATES_MAX)
		if (model.visited[at] == key)
			return false;
	model.visited[at] = key;
	CHECK(++model.n_visited < STATES_MAX / 2);
	return true;
}

static void
explore(void)
{
	struct state before = model.now;
	bool ended = true;

	if (!visit())
		return;
	check_state();
	for (size_t i = 0; i < PROCESSES; i++) {
		if (before.processes[i].phase == DONE)
			continue;
		ended = false;
		step(i);
		explore();
		model.now = before;
	}
	if (ended)
		check_end();
}

static void
explore_all(uint64_t limit, const struct asked asked[PROCESSES])
{
	memset(&model, 0, sizeof(model));
	memcpy(model.asked, asked, sizeof(model.asked));
	model.limit = limit;
	model.visited = calloc(STATES_MAX, sizeof(*model.visited));
	CHECK(model.visited != NULL);
	explore();
	CHECK(model.n_ends > 0 && model.n_visited > 50);
	free(model.visited);
}

static const struct {
	uint64_t limit;
	struct asked asked[PROCESSES];
} crowds[] = {
	/* All fit; two of three do; one at a time does; none does by what it may cost. */
	{ 30, { { 10, 10 }, { 10, 4 }, { 10, 0 } } },
	{ 20, { { 10, 10 }, { 10, 10 }, { 10, 10 } } },
	{ 20, { { 10, 7 }, { 10, 3 }, { 10, 9 } } },
	{ 10, { { 10, 10 }, { 10, 10 }, { 10, 2 } } },
	{ 10, { { 10, 1 }, { 10, 9 }, { 10, 5 } } },
	{ 5, { { 100, 3 }, { 100, 5 }, { 100, 100 } } },
	{ 5, { { 100, 5 }, { 3, 3 }, { 2, 2 } } },
	{ 5, { { 100, 100 }, { 4, 4 }, { 100, 1 } } },
	/* With what is paid at once. */
	{ 10, { { 8, 2 }, { 0, 3 }, { 0, 7 } } },
	{ 10, { { 100, 10 }, { 0, 9 }, { 5, 5 } } },
};

TEST(ledger_model)
{
	for (size_t i = 0; i < ARRAY_LEN(crowds); i++)
		explore_all(crowds[i].limit, crowds[i].asked);
}
