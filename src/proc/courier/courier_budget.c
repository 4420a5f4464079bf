/* courier_budget.c - see courier_budget.h: budgets, before a request leaves and as it passes. */
#include "proc/courier/courier_budget.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "proc/courier/courier.h"
#include "proc/courier/courier_secrets_parts.h"

#define ASK_MS (10 * 60 * 1000)         /* that people have to answer */

/* ---- telling ---- */

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
		/* Of a small one, a warning would come with the end, and be told in its place. */
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

void
courier_spend(struct courier *c, const struct courier_policy *p, struct ledger_slot *const *slots,
              size_t n, uint64_t more, uint64_t less)
{
	for (size_t i = 0; i < n; i++) {
		if (more > less)
			ledger_add(slots[i], POLICY_MONEY, more - less);
		else if (less > more)
			ledger_take_back(slots[i], POLICY_MONEY, less - more);
	}
	tell(c, p, slots, n, POLICY_MONEY);
}

/* ---- what a request counts for ---- */

static bool
carries(const struct exchange *ex, const char *name)
{
	const struct secrets *s = &ex->courier->secrets;

	if (ex->wire != NULL && strcmp(ex->wire->name, name) == 0)
		return true;
	for (size_t i = 0; i < s->bound.n; i++)
		if (strcmp(s->bound.at[i].secret->name, name) == 0 &&
		    (ex->certificate == i + 1 || (ex->secrets != NULL && ex->secrets->carried[i] != 0)))
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

/* False: they are too many, or one of them cannot be counted. */
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

/* What people are asked for when it is reached: more of this kind. */
static struct ask_rule
ask_for(const struct policy_budget *budget, enum policy_kind kind)
{
	struct ask_rule rule = {0};
	char text[POLICY_BUDGET_NAME_MAX + 32];
	int n = snprintf(text, sizeof(text), "budget %d %s", kind, budget->name);

	(void)EVP_Digest(text, (size_t)n, rule.hash, NULL, EVP_sha256(), NULL);
	return rule;
}

/* Whether people have said that EX may have more than there is. */
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

/* The budget that ends first of those that are counted in SLOT, or NULL. */
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

/* ---- what becomes of it ---- */

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

/* The cell is stopped by who can. */
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

static void
go_on(struct exchange *ex)
{
	if (ex->kind == EXCHANGE_HTTP)
		pool_send(ex);
	else
		pool_connect(ex);
}

/* As a rule that asks does; what is under way already is not asked for. */
static void
ask_reached(struct exchange *ex, const struct reached *r, const char *text)
{
	const struct policy_budget *b = r->row->budget;
	struct courier_question q = { .rule = ask_for(b, r->kind), .text = text, .place = b->place,
		.of = { .approvals = 1, .timeout_ms = ASK_MS, .reason = text } };

	if (exchange_ask(ex, &q, go_on))
		go_on(ex);
}

static void
refuse_reached(struct exchange *ex, const struct reached *r)
{
	struct courier *c = ex->courier;
	char text[COURIER_REACHED_MAX + 1];

	describe(r, text, sizeof(text));
	/* Also of what is refused before it can be counted: the limit itself was not told of yet. */
	if (ledger_used(r->row->slot, r->kind) >= r->limit)
		tell_row(c, r->row, r->kind);
	if (r->row->budget->then == POLICY_THEN_ASK && !ex->budget.counted) {
		ask_reached(ex, r, text);
		return;
	}
	exchange_refuse_with(ex, 429, "budget", text);
	raise_reached(c, r, text);
}

/* ---- before it leaves ---- */

static void
check_slot(const struct exchange *ex, struct ledger_slot *slot, uint64_t price, struct reached *ret)
{
	uint64_t need[POLICY_KINDS] = { [POLICY_REQUESTS] = 1, [POLICY_BYTES_IN] = 1,
		[POLICY_BYTES_OUT] = 1, [POLICY_DISTINCT_HOSTS] = 0, [POLICY_TIME] = 1, [POLICY_CPU] = 1,
		[POLICY_MONEY] = price > 0 ? price : 1 };
	const struct budget_row *row;
	uint64_t limit, all;

	if (ex->has_body && ex->length != HTTP_LENGTH_UNKNOWN)
		need[POLICY_BYTES_OUT] = ex->length;
	else if (!ex->has_body && ex->kind == EXCHANGE_HTTP)
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

/* Of what others count too, the last may be gone in between. */
static bool
reserve_slot(const struct exchange *ex, struct ledger_slot *slot, uint64_t price, struct reached *ret)
{
	const struct budget_row *row;
	uint64_t limit;

	row = least(ex, slot, POLICY_REQUESTS, &limit);
	if (!ledger_reserve(slot, POLICY_REQUESTS, 1, limit)) {
		note_reached(ret, row, POLICY_REQUESTS, limit);
		return false;
	}
	row = least(ex, slot, POLICY_MONEY, &limit);
	if (price > 0 && !ledger_reserve(slot, POLICY_MONEY, price, limit)) {
		ledger_take_back(slot, POLICY_REQUESTS, 1);
		note_reached(ret, row, POLICY_MONEY, limit);
		return false;
	}
	row = least(ex, slot, POLICY_DISTINCT_HOSTS, &limit);
	if (row != NULL && ledger_host(row->ledger, slot, ex->host, limit) < 0) {
		ledger_take_back(slot, POLICY_REQUESTS, 1);
		ledger_take_back(slot, POLICY_MONEY, price);
		note_reached(ret, row, POLICY_DISTINCT_HOSTS, limit);
		return false;
	}
	return true;
}

static bool
reserve(struct exchange *ex, struct reached *ret)
{
	struct exchange_budget *b = &ex->budget;
	uint64_t price = ex->learned ? 0 : policy_price_of_request(ex->policy->policy, &ex->decision.way);
	size_t i;

	for (i = 0; i < b->n; i++)
		check_slot(ex, b->slots[i], price, ret);
	if (ret->row != NULL)
		return false;
	for (i = 0; i < b->n; i++)
		if (!reserve_slot(ex, b->slots[i], price, ret))
			break;
	if (i == b->n)
		return true;
	while (i-- > 0) {
		ledger_take_back(b->slots[i], POLICY_REQUESTS, 1);
		ledger_take_back(b->slots[i], POLICY_MONEY, price);
	}
	return false;
}

/* Whether what is not settled yet may use up a budget that EX counts for, were all of it twice as
 * dear as anything so far. */
static bool
is_close(const struct exchange *ex)
{
	const struct budgets *b = &ex->courier->budgets;
	uint64_t limit, open;

	if (b->dearest == 0 || __builtin_mul_overflow(b->dearest * 2, b->n_settling, &open))
		return true;
	for (size_t i = 0; i < ex->budget.n; i++) {
		uint64_t used = ledger_used(ex->budget.slots[i], POLICY_MONEY);

		if (least(ex, ex->budget.slots[i], POLICY_MONEY, &limit) != NULL &&
		    (used >= limit || limit - used <= open))
			return true;
	}
	return false;
}

/* Whoever asks the next thing as soon as it has the last answer does not get it for nothing:
 * what that one cost is known first. */
static bool
waits_for_meters(struct exchange *ex)
{
	struct budgets *b = &ex->courier->budgets;

	if (!ex->policy->budgets.money || b->n_settling == 0 || !is_close(ex))
		return false;
	courier_meters_hurry(ex->courier);
	ex->step = STEP_WAIT;
	exchange_touch(ex, COURIER_INSPECT_S);
	ex->budget.waits_next = NULL;
	ex->budget.waits_at = b->waits_end;
	*b->waits_end = ex;
	b->waits_end = &ex->budget.waits_next;
	return true;
}

void
exchange_stop_settling(struct exchange *ex)
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
courier_budget_settled(struct courier *c)
{
	struct exchange *ex;

	while (c->budgets.n_settling == 0 && (ex = c->budgets.waits) != NULL) {
		exchange_stop_settling(ex);
		go_on(ex);
	}
}

static bool
is_too_fast(struct exchange *ex)
{
	uint64_t wait_s;
	char reason[96];

	/* What waited in between, for people or for meters, is no other request. */
	if (ex->budget.paced || courier_may_ask(ex->courier, &ex->policy->budgets.rate, &wait_s)) {
		ex->budget.paced = true;
		return false;
	}
	snprintf(reason, sizeof(reason), "more requests than the cell may make in a while: try again "
	         "in %llu s", (unsigned long long)wait_s);
	ex->retry_after_s = (uint32_t)wait_s;
	exchange_refuse_with(ex, 429, "rate", reason);
	return true;
}

bool
exchange_afford(struct exchange *ex)
{
	struct reached reached = {0};

	if (ex->budget.counted)
		return true;
	if (is_too_fast(ex))
		return false;
	if (ex->courier->budgets.cell == NULL && policy_n_budgets(ex->policy->policy) == 0)
		return true;
	if (!find_slots(ex)) {
		exchange_refuse_with(ex, 429, "budget", "what is used of a budget cannot be counted");
		return false;
	}
	if (waits_for_meters(ex))
		return false;
	if (!reserve(ex, &reached)) {
		refuse_reached(ex, &reached);
		return false;
	}
	ex->budget.counted = true;
	if (ex->policy->budgets.n > 0) {
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_REQUESTS);
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_DISTINCT_HOSTS);
		tell(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, POLICY_MONEY);
	}
	exchange_meter_begin(ex);
	return ex->step != STEP_OVER && !ex->refused;
}

bool
exchange_afford_secret(struct exchange *ex, const char *name, char *text, size_t size)
{
	const struct courier_budgets *all = &ex->policy->budgets;
	struct exchange_budget *b = &ex->budget;
	struct reached reached = {0};

	for (size_t i = 0; b->counted && i < all->n; i++) {
		const struct budget_row *row = &all->rows[i];
		uint64_t price = policy_price_of_request(ex->policy->policy, &ex->decision.way);

		if (row->budget->per != POLICY_PER_SECRET || strcmp(row->budget->of, name) != 0 ||
		    has_slot(b->slots, b->n, row->slot))
			continue;
		snprintf(text, size, "what is used of a budget cannot be counted");
		if (row->slot == NULL || b->n == BUDGET_SLOTS_MAX)
			return false;
		check_slot(ex, row->slot, price, &reached);
		if (reached.row == NULL && reserve_slot(ex, row->slot, price, &reached)) {
			b->slots[b->n++] = row->slot;
			tell_row(ex->courier, row, POLICY_REQUESTS);
			continue;
		}
		describe(&reached, text, size);
		tell_row(ex->courier, reached.row, reached.kind);
		raise_reached(ex->courier, &reached, text);
		return false;
	}
	return true;
}

/* ---- as its bytes pass ---- */

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
	/* Not from within what reads or writes it. */
	if (!b->is_cut) {
		b->is_cut = true;
		b->cut_next = c->budgets.cuts;
		c->budgets.cuts = ex;
		courier_at_round_end(c);
	}
}

/* Whether a budget of bytes is over that EX counts for. */
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
		if (ex->step == STEP_OVER || ex->step == STEP_DRAIN || ex->ending)
			continue;
		find_over(ex, &reached);
		if (reached.row != NULL)
			refuse_reached(ex, &reached);
	}
}
