/* budget.c - see budget.h: checks budgets before a request leaves and as its bytes
 * pass. */
#include "egress/budget.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/secrets_parts.h"
#include "ipc/ipc.h"

#define ASK_MS (10 * 60 * 1000)         /* time for people to answer */

/* ---- reports ---- */

static void
record_budget(struct courier *c, const struct budget_row *row, enum policy_kind kind,
              unsigned percent, uint64_t limit)
{
	struct events *e = &c->events;

	event_begin(e, "budget");
	event_str(e, "did", percent < 100 ? "warned" : "reached");
	event_str(e, "budget", row->budget->name);
	event_str(e, "per", policy_per_name(row->budget->per));
	event_str(e, "kind", policy_kind_name(kind));
	event_u64(e, "used", ledger_used(row->slot, kind));
	event_u64(e, "limit", limit);
	event_u64(e, "percent", percent);
	event_str(e, "then", policy_then_name(row->budget->then));
	event_done(e, false, NULL);
	e->urgent = true;
	courier_at_round_end(c);
}

static void
tell_row(struct courier *c, const struct budget_row *row, enum policy_kind kind)
{
	const struct policy_budget *b = row->budget;
	uint64_t limit, at;

	if (b->limits[kind] == 0)
		return;
	limit = ledger_limit(row->slot, kind, b->limits[kind]);
	for (size_t i = 0; i < b->n_warns; i++) {
		at = policy_warns_at(limit, b->warns[i]);
		/* In a small budget, the warning would coincide with the limit: only the limit is
		 * reported. */
		if (at < limit && ledger_tell(row->slot, kind, at))
			record_budget(c, row, kind, b->warns[i], limit);
	}
	if (ledger_tell(row->slot, kind, limit))
		record_budget(c, row, kind, 100, limit);
}

static bool
has_slot(struct ledger_slot *const *slots, size_t n, const struct ledger_slot *slot)
{
	for (size_t i = 0; i < n; i++)
		if (slots[i] == slot)
			return true;
	return false;
}

static void
tell(struct courier *c, const struct courier_policy *p, struct ledger_slot *const *slots, size_t n,
     enum policy_kind kind)
{
	for (size_t i = 0; i < p->budgets.n; i++)
		if (has_slot(slots, n, p->budgets.rows[i].slot))
			tell_row(c, &p->budgets.rows[i], kind);
}

/* ---- money in the ledgers ---- */

/* An amount reserved in the principal's ledger is also noted in the cell's own, where the next
 * courier finds it.  A courier that dies in between leaves too much reserved, never too little. */
static bool
is_principals(const struct courier *c, const struct ledger_slot *slot)
{
	const struct ledger *l = c->budgets.principal;

	return l != NULL && slot >= l->slots && slot < l->slots + LEDGER_SLOTS;
}

static enum ledger_answer
hold(struct courier *c, struct ledger_slot *slot, uint64_t most, uint64_t limit)
{
	enum ledger_answer answer = ledger_hold(slot, most, limit);

	if (answer == LEDGER_YES && is_principals(c, slot))
		atomic_fetch_add(&c->budgets.cell->lent, most);
	return answer;
}

static void
settle(struct courier *c, struct ledger_slot *slot, uint64_t most, uint64_t cost)
{
	if (is_principals(c, slot))
		atomic_fetch_sub(&c->budgets.cell->lent, most);
	ledger_settle(slot, most, cost);
}

void
courier_settle(struct courier *c, const struct courier_policy *p, struct ledger_slot *const *slots,
               size_t n, uint64_t most, uint64_t cost)
{
	for (size_t i = 0; i < n; i++)
		settle(c, slots[i], most, cost);
	if (cost > 0)
		tell(c, p, slots, n, POLICY_MONEY);
	c->budgets.settled = true;
	courier_at_round_end(c);
}

/* ---- the budgets of a request ---- */

static bool
carries(const struct exchange *ex, const char *name)
{
	const struct secrets *s = &ex->courier->secrets;

	if (ex->wire != NULL && strcmp(ex->wire->name, name) == 0)
		return true;
	for (size_t i = 0; i < s->bound.n; i++)
		if (strcmp(s->bound.at[i].secret->name, name) == 0 &&
		    (ex->t.certificate == i + 1 || (ex->secrets != NULL && ex->secrets->carried[i] != 0)))
			return true;
	return false;
}

static bool
counts_for(const struct exchange *ex, const struct budget_row *row)
{
	switch (row->budget->per) {
	case POLICY_PER_SECRET:
		return carries(ex, row->budget->of);
	case POLICY_PER_RULE:
		return row->rule >= 0 && !ex->learned && ex->decision.way.rule[row->layer] == row->rule;
	default:
		return true;
	}
}

/* False: there are too many, or one of them cannot be counted. */
static bool
find_slots(struct exchange *ex)
{
	const struct courier_budgets *all = &ex->policy->budgets;
	struct exchange_budget *b = &ex->budget;

	b->n = 0;
	b->slots[b->n++] = ex->courier->budgets.slot;
	for (size_t i = 0; i < all->n; i++) {
		if (!counts_for(ex, &all->rows[i]) || has_slot(b->slots, b->n, all->rows[i].slot))
			continue;
		if (all->rows[i].slot == NULL || b->n == BUDGET_SLOTS_MAX)
			return false;
		b->slots[b->n++] = all->rows[i].slot;
	}
	return b->slots[0] != NULL;
}

/* The question to people when the budget is reached: more of KIND. */
static struct ask_rule
ask_for(const struct policy_budget *budget, enum policy_kind kind)
{
	struct ask_rule rule = {0};
	char text[POLICY_BUDGET_NAME_MAX + 32];
	int n = snprintf(text, sizeof(text), "budget %d %s", kind, budget->name);

	(void)EVP_Digest(text, (size_t)n, rule.hash, NULL, EVP_sha256(), NULL);
	return rule;
}

/* Whether people have allowed EX to exceed the budget. */
static bool
is_forgiven(const struct exchange *ex, const struct budget_row *row, enum policy_kind kind)
{
	struct ask_rule rule;

	if (row->budget->then != POLICY_THEN_ASK ||
	    (ex->ask == NULL && ex->courier->asks.n_open == 0))
		return false;
	rule = ask_for(row->budget, kind);
	return exchange_is_answered(ex, &rule);
}

/* Of the budgets counted in SLOT, the one that ends first; or NULL. */
static const struct budget_row *
least(const struct exchange *ex, const struct ledger_slot *slot, enum policy_kind kind,
      uint64_t *ret_limit)
{
	const struct courier_budgets *all = &ex->policy->budgets;
	const struct budget_row *found = NULL;

	*ret_limit = UINT64_MAX;
	for (size_t i = 0; i < all->n; i++) {
		const struct budget_row *row = &all->rows[i];
		uint64_t limit = row->budget->limits[kind];

		if (row->slot != slot || limit == 0 || is_forgiven(ex, row, kind))
			continue;
		limit = ledger_limit(slot, kind, limit);
		if (limit < *ret_limit || (limit == *ret_limit && found != NULL &&
		                           row->budget->then > found->budget->then)) {
			found = row;
			*ret_limit = limit;
		}
	}
	return found;
}

/* ---- when a budget is reached ---- */

struct reached {
	const struct budget_row *row;   /* NULL: none is */
	enum policy_kind kind;
	uint64_t limit;
};

static void
note_reached(struct reached *r, const struct budget_row *row, enum policy_kind kind, uint64_t limit)
{
	if (r->row == NULL || row->budget->then > r->row->budget->then)
		*r = (struct reached){ row, kind, limit };
}

static void
describe(const struct reached *r, char *text, size_t size)
{
	static const char *const units[POLICY_KINDS] = { " requests", " of answers", " of requests",
		" hosts", "", " of processors", "" };
	uint64_t used = ledger_used(r->row->slot, r->kind);
	char used_text[POLICY_AMOUNT_TEXT], limit[POLICY_AMOUNT_TEXT];

	snprintf(text, size, "the budget '%.120s' %s: %s of %s%s", r->row->budget->name,
	         used >= r->limit ? "is used up" : "has not so much left",
	         policy_amount_format(used_text, r->kind, used),
	         policy_amount_format(limit, r->kind, r->limit), units[r->kind]);
}

/* The supervisor can stop the cell. */
static void
raise_reached(struct courier *c, const struct reached *r, const char *text)
{
	struct buf message;

	if (r->row->budget->then < POLICY_THEN_FREEZE)
		return;
	ipc_begin(&message, COURIER_REACHED);
	buf_put_u32(&message, r->row->budget->then);
	buf_put_str(&message, text);
	courier_say(c, &message);
}

/* Ask as a rule does.  An exchange that is already under way does not ask. */
static enum stage_answer
ask_reached(struct exchange *ex, const struct reached *r, const char *text)
{
	const struct policy_budget *b = r->row->budget;
	struct courier_question q = { .rule = ask_for(b, r->kind), .text = text, .place = b->place,
		.of = { .approvals = 1, .timeout_ms = ASK_MS, .reason = text } };

	ex->budget.asks = true;
	return exchange_ask(ex, &q);
}

static enum stage_answer
refuse_reached(struct exchange *ex, const struct reached *r)
{
	struct courier *c = ex->courier;
	char text[COURIER_REACHED_MAX + 1];

	describe(r, text, sizeof(text));
	/* A request that is refused before it is counted may be the first to reach the limit:
	 * report it. */
	if (ledger_used(r->row->slot, r->kind) >= r->limit)
		tell_row(c, r->row, r->kind);
	if (r->row->budget->then == POLICY_THEN_ASK && !ex->budget.counted)
		return ask_reached(ex, r, text);
	exchange_refuse_with(ex, 429, "budget", text);
	raise_reached(c, r, text);
	return STAGE_REFUSE;
}

/* ---- before a request leaves ---- */

static void
check_slot(const struct exchange *ex, struct ledger_slot *slot, struct reached *ret)
{
	uint64_t need[POLICY_KINDS] = { [POLICY_REQUESTS] = 1, [POLICY_BYTES_IN] = 1,
		[POLICY_BYTES_OUT] = 1, [POLICY_DISTINCT_HOSTS] = 0, [POLICY_TIME] = 1, [POLICY_CPU] = 1,
		[POLICY_MONEY] = ex->budget.price > 0 ? ex->budget.price : 1 };
	const struct budget_row *row;
	uint64_t limit, all;

	if (ex->t.has_body && ex->request.length != HTTP_LENGTH_UNKNOWN)
		need[POLICY_BYTES_OUT] = ex->request.length;
	else if (!ex->t.has_body && ex->kind == EXCHANGE_HTTP)
		need[POLICY_BYTES_OUT] = 0;
	for (unsigned kind = 0; kind < POLICY_KINDS; kind++) {
		row = least(ex, slot, kind, &limit);
		if (row == NULL)
			continue;
		if (kind == POLICY_DISTINCT_HOSTS)
			need[kind] = !ledger_knows_host(row->ledger, slot, ex->host);
		if (__builtin_add_overflow(ledger_used(slot, kind), need[kind], &all) || all > limit ||
		    (all == limit && need[kind] == 0 && kind != POLICY_DISTINCT_HOSTS))
			note_reached(ret, row, kind, limit);
	}
}

/* Reserve the rule's price and the highest further cost. */
static enum ledger_answer
reserve_money(const struct exchange *ex, struct ledger_slot *slot, struct reached *ret)
{
	const struct exchange_budget *b = &ex->budget;
	uint64_t limit;
	const struct budget_row *row = least(ex, slot, POLICY_MONEY, &limit);
	enum ledger_answer answer = b->price > 0 ? ledger_pay(slot, b->price, limit) : LEDGER_YES;

	if (answer == LEDGER_YES && b->most > 0) {
		answer = hold(ex->courier, slot, b->most, limit);
		if (answer != LEDGER_YES)
			ledger_take_back(slot, POLICY_MONEY, b->price);
	}
	if (answer == LEDGER_OVER)
		note_reached(ret, row, POLICY_MONEY, limit);
	return answer;
}

static void
take_back(const struct exchange *ex, struct ledger_slot *slot)
{
	ledger_take_back(slot, POLICY_REQUESTS, 1);
	if (ex->budget.price > 0)
		ledger_take_back(slot, POLICY_MONEY, ex->budget.price);
	if (ex->budget.most > 0)
		settle(ex->courier, slot, ex->budget.most, 0);
}

/* Others count in the same slot: the rest may be gone since the check. */
static enum ledger_answer
reserve_slot(const struct exchange *ex, struct ledger_slot *slot, struct reached *ret)
{
	const struct budget_row *row;
	enum ledger_answer answer;
	uint64_t limit;

	row = least(ex, slot, POLICY_REQUESTS, &limit);
	if (!ledger_reserve(slot, POLICY_REQUESTS, 1, limit)) {
		note_reached(ret, row, POLICY_REQUESTS, limit);
		return LEDGER_OVER;
	}
	answer = reserve_money(ex, slot, ret);
	if (answer != LEDGER_YES) {
		ledger_take_back(slot, POLICY_REQUESTS, 1);
		return answer;
	}
	row = least(ex, slot, POLICY_DISTINCT_HOSTS, &limit);
	if (row != NULL && ledger_host(row->ledger, slot, ex->host, limit) < 0) {
		take_back(ex, slot);
		note_reached(ret, row, POLICY_DISTINCT_HOSTS, limit);
		return LEDGER_OVER;
	}
	return LEDGER_YES;
}

static void
check(const struct exchange *ex, struct reached *ret)
{
	for (size_t i = 0; i < ex->budget.n; i++)
		check_slot(ex, ex->budget.slots[i], ret);
}

static enum ledger_answer
reserve(struct exchange *ex, struct reached *ret)
{
	struct exchange_budget *b = &ex->budget;
	enum ledger_answer answer = LEDGER_YES;
	size_t i;

	check(ex, ret);
	if (ret->row != NULL)
		return LEDGER_OVER;
	for (i = 0; i < b->n && answer == LEDGER_YES; i++)
		answer = reserve_slot(ex, b->slots[i], ret);
	if (answer == LEDGER_YES)
		return LEDGER_YES;
	/* Slot i has taken nothing. */
	while (--i > 0)
		take_back(ex, b->slots[i - 1]);
	return answer;
}

/* Wait until others have settled what they reserved.  Then there is room, or the budget is really
 * used up. */
static void
wait_for_others(struct exchange *ex)
{
	struct budgets *b = &ex->courier->budgets;

	courier_meters_hurry(ex->courier);
	/* The deadline counts from the first wait. */
	if (!ex->budget.waited)
		transfer_touch(&ex->t, TRANSFER_ANSWER_S);
	ex->budget.waited = true;
	ex->budget.waits_next = NULL;
	ex->budget.waits_at = b->waits_end;
	*b->waits_end = ex;
	b->waits_end = &ex->budget.waits_next;
}

static void
stop_settling(struct exchange *ex)
{
	struct exchange_budget *b = &ex->budget;

	if (b->waits_at == NULL)
		return;
	*b->waits_at = b->waits_next;
	if (b->waits_next != NULL)
		b->waits_next->budget.waits_at = b->waits_at;
	else
		ex->courier->budgets.waits_end = b->waits_at;
	b->waits_at = NULL;
}

void
budget_stop(struct exchange *ex)
{
	stop_settling(ex);
	ask_stop(ex);
}

void
budget_late(struct exchange *ex)
{
	if (ex->budget.waits_at == NULL)
		ask_late(ex);
	else
		exchange_refuse_with(ex, 429, "budget", "what other requests may cost that are under way leaves "
		                     "nothing of a budget of money for this one: try again when they are over");
}

/* Exchanges that still have to wait keep their order. */
static void
try_waiting(struct courier *c)
{
	struct exchange *ex;
	size_t n = 0;

	for (ex = c->budgets.waits; ex != NULL; ex = ex->budget.waits_next)
		n++;
	for (; n > 0 && (ex = c->budgets.waits) != NULL; n--) {
		stop_settling(ex);
		exchange_resume(ex);
	}
}

void
courier_budget_settled(struct courier *c)
{
	if (!c->budgets.settled)
		return;
	c->budgets.settled = false;
	try_waiting(c);
}

/* Whether EX, which waits for an approval because of a budget, now fits into that budget. */
static bool
may_have_it(struct exchange *ex)
{
	struct reached reached = {0};

	if (!exchange_is_asked_for(ex) || !ex->budget.asks)
		return false;
	check(ex, &reached);
	return reached.row == NULL;
}

void
courier_budget_tick(struct courier *c)
{
	struct exchange *ex = c->exchanges;

	try_waiting(c);
	/* Continuing one exchange may end others. */
	while (ex != NULL) {
		if (may_have_it(ex)) {
			exchange_withdraw(ex);
			ex->budget.asks = false;
			exchange_resume(ex);
			ex = c->exchanges;
		} else {
			ex = ex->next;
		}
	}
}

static bool
is_too_fast(struct exchange *ex)
{
	uint64_t wait_s;
	char reason[96];

	/* A request that waited in between, for people or for meters, is not a new request. */
	if (ex->budget.paced || courier_may_ask(ex->courier, &ex->policy->budgets.rate, &wait_s)) {
		ex->budget.paced = true;
		return false;
	}
	snprintf(reason, sizeof(reason), "more requests than the cell may make in a while: try again "
	         "in %llu s", (unsigned long long)wait_s);
	ex->outcome.retry_after_s = (uint32_t)wait_s;
	exchange_refuse_with(ex, 429, "rate", reason);
	return true;
}

enum stage_answer
stage_budget(struct exchange *ex)
{
	struct reached reached = {0};

	if (ex->budget.counted)
		return STAGE_CONTINUE;
	if (is_too_fast(ex))
		return STAGE_REFUSE;
	if (ex->courier->budgets.cell == NULL && policy_n_budgets(ex->policy->policy) == 0)
		return STAGE_CONTINUE;
	if (!find_slots(ex)) {
		exchange_refuse_with(ex, 429, "budget", "what is used of a budget cannot be counted");
		return STAGE_REFUSE;
	}
	ex->budget.price = ex->learned ? 0 : policy_price_of_request(ex->policy->policy,
	                                                             &ex->decision.way);
	if (!exchange_price(ex))
		return STAGE_REFUSE;
	switch (reserve(ex, &reached)) {
	case LEDGER_OVER:
		return refuse_reached(ex, &reached);
	case LEDGER_WAIT:
		wait_for_others(ex);
		return STAGE_WAIT;
	default:
		break;
	}
	ex->budget.counted = true;
	if (ex->policy->budgets.n > 0) {
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_REQUESTS);
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_DISTINCT_HOSTS);
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_MONEY);
	}
	return exchange_meter_begin(ex) ? STAGE_CONTINUE : STAGE_REFUSE;
}

bool
exchange_afford_secret(struct exchange *ex, const char *name, char *text, size_t size)
{
	const struct courier_budgets *all = &ex->policy->budgets;
	struct exchange_budget *b = &ex->budget;
	struct reached reached = {0};

	for (size_t i = 0; b->counted && i < all->n; i++) {
		const struct budget_row *row = &all->rows[i];

		if (row->budget->per != POLICY_PER_SECRET || strcmp(row->budget->of, name) != 0 ||
		    has_slot(b->slots, b->n, row->slot))
			continue;
		snprintf(text, size, "what is used of a budget cannot be counted");
		if (row->slot == NULL || b->n == BUDGET_SLOTS_MAX)
			return false;
		check_slot(ex, row->slot, &reached);
		if (reached.row == NULL && reserve_slot(ex, row->slot, &reached) == LEDGER_YES) {
			b->slots[b->n++] = row->slot;
			exchange_meter_also(ex, row->slot);
			tell_row(ex->courier, row, POLICY_REQUESTS);
			continue;
		}
		/* The request is partly sent, and cannot wait for others to settle. */
		if (reached.row == NULL) {
			snprintf(text, size, "what other requests may cost leaves nothing of a budget of money");
			return false;
		}
		describe(&reached, text, size);
		tell_row(ex->courier, reached.row, reached.kind);
		raise_reached(ex->courier, &reached, text);
		return false;
	}
	return true;
}

/* ---- as bytes pass ---- */

void
exchange_used(struct exchange *ex, enum policy_kind kind, size_t len)
{
	struct courier *c = ex->courier;
	struct exchange_budget *b = &ex->budget;

	courier_passed(c, len);
	if (!b->counted || len == 0)
		return;
	for (size_t i = 0; i < b->n; i++)
		ledger_add(b->slots[i], kind, len);
	if (!ex->policy->budgets.bytes)
		return;
	tell(c, ex->policy, b->slots, b->n, kind);
	/* Not from within the functions that read or write it. */
	if (!b->is_cut) {
		b->is_cut = true;
		b->cut_next = c->budgets.cuts;
		c->budgets.cuts = ex;
		courier_at_round_end(c);
	}
}

/* Whether EX counts for a budget of bytes that is exceeded. */
static void
find_over(const struct exchange *ex, struct reached *ret)
{
	static const enum policy_kind kinds[] = { POLICY_BYTES_IN, POLICY_BYTES_OUT };
	const struct exchange_budget *b = &ex->budget;
	const struct budget_row *row;
	uint64_t limit;

	for (size_t i = 0; i < b->n; i++)
		for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
			row = least(ex, b->slots[i], kinds[k], &limit);
			if (row != NULL && ledger_used(b->slots[i], kinds[k]) > limit)
				note_reached(ret, row, kinds[k], limit);
		}
}

void
courier_cut_over(struct courier *c)
{
	struct exchange *ex;

	while ((ex = c->budgets.cuts) != NULL) {
		struct reached reached = {0};

		c->budgets.cuts = ex->budget.cut_next;
		ex->budget.is_cut = false;
		if (ex->state == EXCHANGE_OVER || ex->state == EXCHANGE_DRAINS || ex->response.ending)
			continue;
		find_over(ex, &reached);
		if (reached.row != NULL)
			(void)refuse_reached(ex, &reached);
	}
}
