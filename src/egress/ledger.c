/* ledger.c - assigns a policy's budgets to slots of the ledgers that the supervisor hands
 * over. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "egress/courier.h"
#include "ipc/ipc.h"

static int
map_ledger(int fd, struct ledger **ret_ledger, struct err *err)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < LEDGER_SIZE)
		return err_set(err, EINVAL, "the ledger is too small");
	at = mmap(NULL, LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return err_errno(err, "cannot use the ledger");
	return ledger_open(at, ret_ledger, err);
}

/* Amounts that a former courier reserved, and did not live to settle, count as spent. */
static void
take_over(struct budgets *b)
{
	if (atomic_fetch_add(&b->cell->couriers, 1) == 0)
		return;
	ledger_fold(b->cell);
	if (b->principal != NULL)
		ledger_give_up(b->cell, b->principal);
}

int
courier_take_ledger(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	struct budgets *b = &c->budgets;
	int r;

	if (number != 0 || message->n_fds < 1 || message->n_fds > 2 || buf_left(&message->body) != 0 ||
	    b->cell != NULL)
		return -EBADMSG;
	r = map_ledger(message->fds[0], &b->cell, err);
	if (r == 0 && message->n_fds == 2)
		r = map_ledger(message->fds[1], &b->principal, err);
	if (r < 0)
		return r;
	take_over(b);
	b->slot = ledger_slot(b->cell, policy_budget_key(POLICY_PER_CELL, ""), true);
	/* If a budget has no counter, each of its requests is refused. */
	(void)courier_bind_budgets(c, c->policy, NULL);
	return 0;
}

/* Send the supervisor the limits that it watches itself. */
static void
tell_watch(struct courier *c, const struct policy *p)
{
	struct policy_watch watch;

	policy_watch(p, &watch);
	ledger_watch(c->budgets.cell, &watch);
}

static bool
is_counted(const struct courier *c, const struct policy_budget *b)
{
	uint64_t uncounted = atomic_load(&c->budgets.cell->uncounted);

	for (unsigned kind = 0; kind < POLICY_KINDS; kind++)
		if (b->limits[kind] != 0 && (uncounted >> kind & 1) != 0)
			return false;
	return true;
}

static int
bind_row(struct courier *c, const struct policy *p, struct budget_row *row, int rule)
{
	const struct policy_budget *b = row->budget;

	row->rule = -1;
	row->ledger = b->per == POLICY_PER_PRINCIPAL ? c->budgets.principal : c->budgets.cell;
	/* A budget without a counter refuses its requests. */
	row->slot = row->ledger == NULL || !is_counted(c, b) ? NULL : ledger_slot(row->ledger, b->key, true);
	for (; rule >= 0 && p != NULL; p = policy_outer(p), row->layer++) {
		if ((size_t)rule < policy_n_own(p)) {
			row->rule = rule;
			break;
		}
		rule -= (int)policy_n_own(p);
	}
	return row->slot != NULL ? 0 : -ENOSPC;
}

int
courier_bind_budgets(struct courier *c, struct courier_policy *p, struct err *err)
{
	struct courier_budgets *all = &p->budgets;
	size_t n = policy_n_budgets(p->policy);
	int r = 0, rule;

	all->rate = policy_rate(p->policy);
	all->bandwidth = policy_bandwidth(p->policy);
	if (c->budgets.cell == NULL)
		return 0;
	all->rows = calloc(n + 1, sizeof(*all->rows));
	if (all->rows == NULL)
		return err_errno(err, "cannot take the policy");
	for (size_t i = 0; i < n; i++) {
		struct budget_row *row = &all->rows[i];

		row->budget = policy_budget_at(p->policy, i, &rule);
		if (bind_row(c, p->policy, row, rule) < 0)
			r = err_set(err, ENOSPC, !is_counted(c, row->budget) ? "budget '%.100s' cannot be counted: of "
			            "processors' time there is no count without a cgroup" : row->ledger == NULL ? "budget '%.100s' cannot be counted: the "
			            "cell was started without one per principal" : "budget '%.100s' cannot be "
			            "counted: there were too many others before it", row->budget->name);
		all->money |= row->budget->limits[POLICY_MONEY] != 0;
		all->bytes |= row->budget->limits[POLICY_BYTES_IN] != 0 ||
		              row->budget->limits[POLICY_BYTES_OUT] != 0;
	}
	all->n = n;
	if (r == 0)
		tell_watch(c, p->policy);
	return r;
}

void
courier_free_budgets(struct courier_policy *p)
{
	free(p->budgets.rows);
}

void
courier_budget_init(struct courier *c)
{
	c->budgets.waits_end = &c->budgets.waits;
	courier_rate_init(c);
	courier_meters_init(c);
}

void
courier_budget_close(struct courier *c)
{
	struct budgets *b = &c->budgets;

	courier_meters_close(c);
	if (c->loop != NULL)
		loop_cancel_timer(c->loop, &b->again);
	if (b->cell != NULL)
		munmap(b->cell, LEDGER_SIZE);
	if (b->principal != NULL)
		munmap(b->principal, LEDGER_SIZE);
	b->cell = b->principal = NULL;
}
