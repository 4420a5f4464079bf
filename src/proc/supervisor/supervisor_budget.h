/* supervisor_budget.h - the ledgers of a cell and its principal: kept here so that they outlive
 * couriers; what passes by itself, which is time; and what an operator raises.
 *
 * The cell's is a memory file that cannot shrink and goes with the cell.  The principal's is a
 * file in the data folder, which all cells of that principal share. */
#ifndef CLOISTER_SUPERVISOR_BUDGET_H
#define CLOISTER_SUPERVISOR_BUDGET_H
#include "loop/loop.h"
#include "policy/ledger.h"

struct client;
struct ipc_message;
struct supervisor;

struct supervisor_budgets {
	int cell_fd, principal_fd;      /* -1: none */
	struct ledger *cell, *principal;
	struct loop_timer tick;
	uint64_t counted_ms, cpu_ms;    /* as of the last tick */
};

/* Before the supervisor locks itself down. */
int supervisor_budget_prepare(struct supervisor *sv, struct err *err);
/* The cell runs. */
void supervisor_budget_begin(struct supervisor *sv);
/* A courier is started: what it has to know. */
int supervisor_budget_tell(struct supervisor *sv);
/* The policy is another. */
void supervisor_budget_look(struct supervisor *sv);
/* COURIER_REACHED. */
int supervisor_reached(struct supervisor *sv, struct ipc_message *message);
/* CONTROL_GET_BUDGET, CONTROL_RAISE. */
int supervisor_answer_get_budget(struct client *client, struct ipc_message *message);
int supervisor_answer_raise(struct client *client, struct ipc_message *message);
#endif
