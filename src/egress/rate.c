/* rate.c - limits the rate of a cell: refuses requests, and delays bytes. */
#include "egress/courier.h"

#define BURST_S 0.1                     /* seconds' worth of bytes that may pass at once */
#define BURST_LEAST (64 * 1024)
#define SLOWED_LEAST_MS 5

/* Bytes of both directions wait until the debt of those that passed is paid off. */
static void
refill(struct budgets *b, uint64_t bandwidth)
{
	double most = (double)bandwidth * BURST_S;
	uint64_t now = loop_now_ms();

	most = most > BURST_LEAST ? most : BURST_LEAST;
	if (b->bytes_ms == 0)
		b->bytes = most;
	else
		b->bytes += (double)(now - b->bytes_ms) * (double)bandwidth / 1000;
	b->bytes = b->bytes < most ? b->bytes : most;
	b->bytes_ms = now;
}

bool
courier_is_slowed(struct courier *c)
{
	struct budgets *b = &c->budgets;
	uint64_t bandwidth = c->policy->budgets.bandwidth;

	if (bandwidth == 0 || b->bytes_ms == 0)
		return false;
	refill(b, bandwidth);
	if (b->bytes > 0)
		return false;
	if (b->again.at_ms == 0)
		loop_set_timer(c->loop, &b->again,
		               SLOWED_LEAST_MS + (uint64_t)(-b->bytes * 1000 / (double)bandwidth));
	return true;
}

void
courier_passed(struct courier *c, size_t len)
{
	struct budgets *b = &c->budgets;

	if (c->policy->budgets.bandwidth == 0)
		return;
	refill(b, c->policy->budgets.bandwidth);
	b->bytes -= (double)len;
}

void
exchange_credit(struct exchange *ex, size_t len)
{
	if (courier_is_slowed(ex->courier))
		ex->budget.owed += len;
	else
		mux_consumed(ex->stream, len);
}

static void
go_on(struct exchange *ex)
{
	if (ex->budget.owed > 0) {
		mux_consumed(ex->stream, ex->budget.owed);
		ex->budget.owed = 0;
	}
	if (transfer_is_connected(&ex->t))
		exchange_writable(ex);
}

static void
again_due(void *arg)
{
	struct courier *c = arg;
	struct exchange *ex = c->exchanges, *first = NULL;
	size_t skip = c->n_exchanges > 0 ? c->budgets.turn++ % c->n_exchanges : 0;

	/* Another exchange goes first each time; otherwise some would never get anything. */
	while (ex != NULL && skip-- > 0)
		ex = ex->next;
	for (first = ex; ex != NULL && ex->state != EXCHANGE_OVER; ex = ex->next)
		go_on(ex);
	for (ex = c->exchanges; ex != NULL && ex != first && ex->state != EXCHANGE_OVER; ex = ex->next)
		go_on(ex);
	/* An exchange that ended on the way is in another list. */
	if (ex != first && c->budgets.again.at_ms == 0)
		loop_set_timer(c->loop, &c->budgets.again, SLOWED_LEAST_MS);
}

void
courier_rate_init(struct courier *c)
{
	loop_prepare_timer(&c->budgets.again, again_due, c);
}

/* The current delay was computed for the old bandwidth. */
void
courier_rate_changed(struct courier *c)
{
	if (c->budgets.again.at_ms != 0)
		loop_set_timer(c->loop, &c->budgets.again, SLOWED_LEAST_MS);
}

bool
courier_may_ask(struct courier *c, const struct policy_rate *rate, uint64_t *ret_wait_s)
{
	struct budgets *b = &c->budgets;
	uint64_t now = loop_now_ms();

	if (rate->n == 0)
		return true;
	if (b->requests_ms == 0)
		b->requests = (double)rate->n;
	else
		b->requests += (double)(now - b->requests_ms) * (double)rate->n / (double)rate->ms;
	b->requests = b->requests < (double)rate->n ? b->requests : (double)rate->n;
	b->requests_ms = now;
	if (b->requests >= 1) {
		b->requests -= 1;
		return true;
	}
	*ret_wait_s = (uint64_t)((1 - b->requests) * (double)rate->ms / (double)rate->n / 1000) + 1;
	return false;
}
