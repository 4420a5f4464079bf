/* cell_budget.h - reads and raises the budgets of a running cell, for the CLI and serve.
 *
 * All functions block.  The numbers come from the memory in which couriers count, so reading them
 * again costs the cell nothing and asks no process. */
#ifndef CLOISTER_CELL_BUDGET_H
#define CLOISTER_CELL_BUDGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "cell/cell_steer.h"
#include "policy/policy_budget.h"

struct err;
struct cell_budgets;                    /* opaque */

/* One kind of one budget.  The budgets own the texts. */
struct cell_budget_line {
	const char *name;               /* "cell", "secret:NAME", "rule:cloister.yaml:12:5" */
	const char *of;                 /* the secret, the rule, the principal; "" for the cell */
	const char *place;              /* where the policy sets it */
	enum policy_per per;
	enum policy_kind kind;
	enum policy_then then;
	uint64_t used, limit;           /* LIMIT is the one in force */
	bool raised, reached;           /* RAISED: LIMIT is above the policy's */
	uint64_t key;
};

/* Get the budgets of the cell at SOCKET (cell_connect()), under its current policy; the caller
 * frees *ret_budgets. */
int cell_budgets_get(int socket, struct cell_budgets **ret_budgets, struct err *err);
void cell_budgets_free(struct cell_budgets *b);         /* NULL is fine */
OWN_BY(cell_budgets_freep, struct cell_budgets *, cell_budgets_free)

/* Read the current values.  Returns the number of lines, of which at most MAX are stored in LINES. */
size_t cell_budgets_read(const struct cell_budgets *b, struct cell_budget_line *lines, size_t max);
/* The use of the cell as a whole, whether or not there is a budget for it.  Times and hosts are
 * included only if some budget counts them. */
void cell_budgets_used(const struct cell_budgets *b, uint64_t ret_used[POLICY_KINDS]);
/* The line with the largest used part of its limit (1: all); false if there is none. */
bool cell_budgets_fullest(const struct cell_budgets *b, struct cell_budget_line *ret_line,
                          double *ret_part);

/* The strictest line with NAME and KIND; the message of -ENOENT helps to find the right one. */
int cell_budgets_find(const struct cell_budgets *b, const char *name, enum policy_kind kind,
                      struct cell_budget_line *ret_line, struct err *err);
/* Parse TEXT as LINE's new limit ("200", "5 USD", "1h"), or "+" and an increase.  It must be above
 * LINE's limit. */
int cell_budget_parse(const struct cell_budget_line *line, const char *text, uint64_t *ret_limit,
                      struct err *err);
/* Set LIMIT, and record that.  SOCKET is good for one request. */
int cell_budget_raise(int socket, const struct cell_budget_line *line, uint64_t limit,
                      const struct cell_steer_who *who, struct err *err);
#endif
