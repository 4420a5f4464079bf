/* supervisor_budget.h - the ledgers of a cell and its principal, which outlive couriers; the
 * budgets of time; and raises by an operator.
 *
 * The cell's ledger is a memory file that cannot shrink and goes with the cell.  The principal's
 * ledger is a file in the data folder, shared by all cells of that principal. */
#ifndef CLOISTER_SUPERVISOR_BUDGET_H
#define CLOISTER_SUPERVISOR_BUDGET_H
#include <stdbool.h>
#include <stdint.h>

#include "ipc/courier_channel.h"
#include "loop/loop.h"
#include "policy/ledger.h"

struct client;
struct ipc_message;
struct steer_call;
struct supervisor;

struct supervisor_budgets {
	int cell_fd, principal_fd;      /* -1: none */
	struct ledger *cell, *principal;
	struct loop_timer tick;
	uint64_t counted_ms, cpu_ms;    /* at the last tick */
	uint64_t lease_until_ms;        /* 0: none; see supervisor_renew_lease() */
	long processors;
};

/* Before the supervisor locks itself down. */
int supervisor_budget_prepare(struct supervisor *sv, struct err *err);
/* The cell starts to run. */
void supervisor_budget_begin(struct supervisor *sv);
/* A courier starts: send it the budgets. */
int supervisor_budget_tell(struct supervisor *sv);
/* The policy has changed. */
void supervisor_budget_look(struct supervisor *sv);
/* How long the cell may run without this supervisor: no budget of time can run out much earlier.
 * UINT64_MAX: there is none. */
uint64_t supervisor_budget_lease_ms(const struct supervisor *sv);
/* Whether init ended the cell because this supervisor did not run for longer than that.  If so,
 * *ret_what is a sentence. */
bool supervisor_budget_ended(struct supervisor *sv, char ret_what[COURIER_REACHED_MAX]);
/* COURIER_REACHED. */
int supervisor_reached(struct supervisor *sv, struct ipc_message *message);
/* CONTROL_GET_BUDGET, CONTROL_RAISE. */
int supervisor_answer_get_budget(struct client *client, struct steer_call *call);
int supervisor_answer_raise(struct client *client, struct steer_call *call);
#endif
