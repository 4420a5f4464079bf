/* tripwire.c - tripwires: see consequence.h.
 *
 * The history is in the ledger, so that a restarted courier knows it. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "egress/courier.h"
#include "ipc/ipc.h"

static void
trip(struct courier *c, const char *which, enum policy_trip then, const char *what)
{
	struct buf message;

	ipc_begin(&message, COURIER_TRIPPED);
	buf_put_u32(&message, then);
	buf_put_str(&message, which);
	buf_put_str(&message, what);
	courier_say(c, &message);
}

/* The average number of bytes sent per request, without EX. */
static uint64_t
usual(const struct exchange *ex)
{
	const struct ledger_slot *slot = ex->courier->budgets.slot;
	uint64_t requests, bytes;

	if (slot == NULL)
		return 0;
	requests = ledger_used(slot, POLICY_REQUESTS);
	bytes = ledger_used(slot, POLICY_BYTES_OUT);
	requests -= ex->budget.counted && requests > 0;
	bytes -= bytes >= ex->t.sent ? ex->t.sent : bytes;
	return requests == 0 ? 0 : bytes / requests;
}

/* If no policy sets a tripwire, people are notified. */
static const struct policy_tripwires unsaid = { .transfer = { .then = POLICY_TRIP_NOTIFY,
	.times = POLICY_TRANSFER_TIMES, .least = POLICY_TRANSFER_LEAST } };

static bool
is_far_more(const struct policy_tripwires *t, uint64_t size, uint64_t mean)
{
	uint64_t limit;

	if (__builtin_mul_overflow(mean, t->transfer.times, &limit))
		limit = UINT64_MAX;
	return size > limit && size >= t->transfer.least;
}

/* Decide on a request that sends SIZE bytes, where others sent MEAN. */
static enum policy_trip
judge_size(const struct policy *p, uint64_t size, uint64_t mean)
{
	enum policy_trip then = POLICY_TRIP_UNSAID;
	bool said = false;

	for (; p != NULL; p = policy_outer(p)) {
		const struct policy_tripwires *t = policy_tripwires(p);

		if (t == NULL || t->transfer.then == POLICY_TRIP_UNSAID)
			continue;
		said = true;
		if (t->transfer.then > then && is_far_more(t, size, mean))
			then = t->transfer.then;
	}
	return !said && is_far_more(&unsaid, size, mean) ? unsaid.transfer.then : then;
}

enum stage_answer
stage_tripwire(struct exchange *ex)
{
	if (!ex->t.has_body || ex->request.length == HTTP_LENGTH_UNKNOWN)
		return STAGE_CONTINUE;
	return exchange_may_send(ex, ex->request.length) ? STAGE_CONTINUE : STAGE_REFUSE;
}

bool
exchange_may_send(struct exchange *ex, uint64_t size)
{
	enum policy_trip then;
	uint64_t mean;
	char size_text[NUM_TEXT_MAX], mean_text[NUM_TEXT_MAX], what[COURIER_FIRED_TEXT];

	if (ex->consequence.tripped || ex->learned || (!ex->policy->tripwires && size < POLICY_TRANSFER_LEAST))
		return true;
	mean = usual(ex);
	then = judge_size(ex->policy->policy, size, mean);
	if (then == POLICY_TRIP_UNSAID)
		return true;
	ex->consequence.tripped = true;
	snprintf(what, sizeof(what), "a request to %.200s sends %s or more, where the cell's others sent %s "
	         "on the average", ex->host, num_format_size(size_text, size),
	         num_format_size(mean_text, mean));
	trip(ex->courier, "transfer", then, what);
	if (then == POLICY_TRIP_NOTIFY)
		return true;
	exchange_refuse(ex, "transfer", what);
	return false;
}

/* Whether COUNT refusals came within WITHIN_MS. */
static bool
is_burst(const struct fires *f, uint64_t count, uint64_t within_ms, uint64_t now)
{
	return f->n_refused >= count &&
	       now - f->refused_ms[(f->n_refused - count) % POLICY_REFUSALS_MAX] <= within_ms;
}

static void
look_at_refusals(struct courier *c)
{
	enum policy_trip then = POLICY_TRIP_UNSAID;
	struct fires *f = &c->fires;
	uint64_t now = loop_now_ms();
	char what[COURIER_FIRED_TEXT];

	for (const struct policy *p = c->policy->policy; p != NULL; p = policy_outer(p)) {
		const struct policy_tripwires *t = policy_tripwires(p);

		if (t != NULL && t->refusals.then > then &&
		    is_burst(f, t->refusals.count, t->refusals.within_ms, now)) {
			then = t->refusals.then;
			snprintf(what, sizeof(what), "%llu refusals came in %llu s",
			         (unsigned long long)t->refusals.count,
			         (unsigned long long)(t->refusals.within_ms + 999) / 1000);
		}
	}
	if (then == POLICY_TRIP_UNSAID)
		return;
	f->n_refused = 0;
	trip(c, "refusals", then, what);
}

static void
look_at_credential(struct courier *c)
{
	enum policy_trip then = POLICY_TRIP_UNSAID;

	for (const struct policy *p = c->policy->policy; p != NULL; p = policy_outer(p)) {
		const struct policy_tripwires *t = policy_tripwires(p);

		if (t != NULL && t->credential > then)
			then = t->credential;
	}
	if (then != POLICY_TRIP_UNSAID)
		trip(c, "credential", then, "a request carries what looks like a credential");
}

void
courier_note_refusal(struct courier *c, const char *why, uint64_t times)
{
	struct fires *f = &c->fires;
	uint64_t now = loop_now_ms();

	if (!c->policy->tripwires)
		return;
	if (why != NULL && strcmp(why, "secret") == 0)
		look_at_credential(c);
	times = times < POLICY_REFUSALS_MAX ? times : POLICY_REFUSALS_MAX;
	for (; times > 0; times--)
		f->refused_ms[f->n_refused++ % POLICY_REFUSALS_MAX] = now;
	look_at_refusals(c);
}
