/* cell_budget.h - what a running cell has used of its budgets, and raising them: for the CLI and
 * for serve alike.  All of it blocks.
 *
 * The numbers are read where couriers count them, so that looking again costs nothing of the
 * cell's and asks nobody. */
#ifndef CLOISTER_CELL_BUDGET_H
#define CLOISTER_CELL_BUDGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/cell_steer.h"
#include "policy/policy_budget.h"

struct err;
struct cell_budgets;                    /* opaque */

/* One kind of one budget.  Texts are the budgets' own. */
struct cell_budget_line {
	const char *name;               /* "cell", "secret:NAME", "rule:cloister.yaml:12:5" */
	const char *of;                 /* the secret, the rule, the principal; "" of the cell */
	const char *place;              /* where the policy says so */
	enum policy_per per;
	enum policy_kind kind;
	enum policy_then then;
	uint64_t used, limit;           /* LIMIT is the one in force */
	bool raised, reached;           /* RAISED: it is more than the policy says */
	uint64_t key;
};

/* Of the cell at the other end of SOCKET (cell_connect()), as its policy is now; the caller
 * frees *ret_budgets. */
int cell_budgets_get(int socket, struct cell_budgets **ret_budgets, struct err *err);
void cell_budgets_free(struct cell_budgets *b);         /* NULL is fine */
void cell_budgets_freep(struct cell_budgets **b);

/* What is so just now: all lines, of which as many as there is room for are put to LINES. */
size_t cell_budgets_read(const struct cell_budgets *b, struct cell_budget_line *lines, size_t max);
/* What the cell as a whole has used, whether or not there is a budget for it.  Of times and
 * hosts only what some budget has counted. */
void cell_budgets_used(const struct cell_budgets *b, uint64_t ret_used[POLICY_KINDS]);
/* The line of which most is used, as a part of its limit (1: all); false if there is none. */
bool cell_budgets_fullest(const struct cell_budgets *b, struct cell_budget_line *ret_line,
                          double *ret_part);

/* The one line that NAME and KIND mean, in force from the strictest on; -ENOENT says what there
 * is. */
int cell_budgets_find(const struct cell_budgets *b, const char *name, enum policy_kind kind,
                      struct cell_budget_line *ret_line, struct err *err);
/* TEXT is the new limit ("200", "5 USD", "1h"), or "+" and by how much: more than LINE's. */
int cell_budget_parse(const struct cell_budget_line *line, const char *text, uint64_t *ret_limit,
                      struct err *err);
/* From now on LIMIT, which is recorded.  SOCKET is good for one request. */
int cell_budget_raise(int socket, const struct cell_budget_line *line, uint64_t limit,
                      const struct cell_steer_who *who, struct err *err);
#endif
