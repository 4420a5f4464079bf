/* cell_budget.c - see cell_budget.h. */
#include "cell/cell_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/ledger.h"
#include "policy/policy.h"

struct cell_budgets {
	struct policy *policy;
	struct ledger *cell, *principal;        /* PRINCIPAL may be NULL */
	char *who;                      /* the principal */
};

/* ---- getting budgets ---- */

static int
map_ledger(int fd, struct ledger **ret_ledger, struct err *err)
{
	struct stat st;
	void *at;
	int r;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < LEDGER_SIZE)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	/* Writable: ledger_open() initialises a ledger that is still empty. */
	at = mmap(NULL, LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return err_errno(err, "cannot read the cell's ledger");
	r = ledger_open(at, ret_ledger, err);
	if (r < 0)
		munmap(at, LEDGER_SIZE);
	return r;
}

static int
read_policy(int fd, struct policy **ret_policy, struct err *err)
{
	struct buf encoded;
	struct stat st;
	void *at;
	int r;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > POLICY_ENCODED_MAX)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return err_errno(err, "cannot read the cell's policy");
	buf_init_borrowed(&encoded, at, (size_t)st.st_size);
	r = policy_get(&encoded, ret_policy, err);
	munmap(at, (size_t)st.st_size);
	return r;
}

int
cell_budgets_get(int socket, struct cell_budgets **ret_budgets, struct err *err)
{
	OWN(cell_budgets_freep) struct cell_budgets *b = calloc(1, sizeof(*b));
	OWN(ipc_message_free) struct ipc_message answer = { .fds = { -1, -1, -1, -1 } };
	OWN(buf_free) struct buf message;
	int r;

	cell_steer_put(&message, NULL, &(struct steer_request){ .verb = VERB_GET_BUDGET });
	if (b == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = cell_steer(socket, &message, NULL, 0, &answer, err);
	if (r == 0 && (buf_dup_str(&answer.body, &b->who) < 0 || answer.n_fds < 2))
		r = err_set(err, EBADMSG, "the cell's supervisor is of another version");
	r = r == 0 ? read_policy(answer.fds[0], &b->policy, err) : r;
	r = r == 0 ? map_ledger(answer.fds[1], &b->cell, err) : r;
	if (r == 0 && answer.n_fds > 2)
		r = map_ledger(answer.fds[2], &b->principal, err);
	if (r == 0)
		*ret_budgets = TAKE(b);
	return r;
}

void
cell_budgets_free(struct cell_budgets *b)
{
	if (b == NULL)
		return;
	if (b->cell != NULL)
		munmap(b->cell, LEDGER_SIZE);
	if (b->principal != NULL)
		munmap(b->principal, LEDGER_SIZE);
	policy_free(b->policy);
	free(b->who);
	free(b);
}

/* ---- reading budgets ---- */

static void
fill_line(const struct cell_budgets *b, size_t i, enum policy_kind kind, struct cell_budget_line *line)
{
	int rule;
	const struct policy_budget *budget = policy_budget_at(b->policy, i, &rule);
	struct ledger *l = budget->per == POLICY_PER_PRINCIPAL ? b->principal : b->cell;
	const struct ledger_slot *slot = l == NULL ? NULL : ledger_slot(l, budget->key, false);
	uint64_t limit = budget->limits[kind];

	*line = (struct cell_budget_line){ .name = budget->name, .place = budget->place,
		.per = budget->per, .kind = kind, .then = budget->then, .limit = limit,
		.key = budget->key,
		.of = budget->per == POLICY_PER_PRINCIPAL ? b->who :
		      budget->per == POLICY_PER_RULE ? policy_rule_text(b->policy, rule) : budget->of };
	if (slot != NULL) {
		line->used = ledger_used(slot, kind);
		line->limit = ledger_limit(slot, kind, limit);
	}
	line->raised = line->limit > limit;
	line->reached = line->used >= line->limit;
}

size_t
cell_budgets_read(const struct cell_budgets *b, struct cell_budget_line *lines, size_t max)
{
	size_t n = 0, n_budgets = policy_n_budgets(b->policy);

	for (size_t i = 0; i < n_budgets; i++)
		for (unsigned k = 0; k < POLICY_KINDS; k++) {
			if (policy_budget_at(b->policy, i, NULL)->limits[k] == 0)
				continue;
			if (n < max)
				fill_line(b, i, k, &lines[n]);
			n++;
		}
	return n;
}

void
cell_budgets_used(const struct cell_budgets *b, uint64_t ret_used[POLICY_KINDS])
{
	const struct ledger_slot *slot = ledger_slot(b->cell, policy_budget_key(POLICY_PER_CELL, ""),
	                                             false);

	for (unsigned k = 0; k < POLICY_KINDS; k++)
		ret_used[k] = slot != NULL ? ledger_used(slot, k) : 0;
}

bool
cell_budgets_fullest(const struct cell_budgets *b, struct cell_budget_line *ret_line,
                     double *ret_part)
{
	size_t n_budgets = policy_n_budgets(b->policy);
	struct cell_budget_line line;
	double most = -1;

	for (size_t i = 0; i < n_budgets; i++)
		for (unsigned k = 0; k < POLICY_KINDS; k++) {
			if (policy_budget_at(b->policy, i, NULL)->limits[k] == 0)
				continue;
			fill_line(b, i, k, &line);
			if ((double)line.used / (double)line.limit <= most)
				continue;
			most = (double)line.used / (double)line.limit;
			*ret_line = line;
			*ret_part = most;
		}
	return most >= 0;
}

/* ---- raising budgets ---- */

int
cell_budgets_find(const struct cell_budgets *b, const char *name, enum policy_kind kind,
                  struct cell_budget_line *ret_line, struct err *err)
{
	size_t n_budgets = policy_n_budgets(b->policy);
	bool found = false, named = false;

	for (size_t i = 0; i < n_budgets; i++) {
		const struct policy_budget *budget = policy_budget_at(b->policy, i, NULL);
		struct cell_budget_line line;

		if (strcmp(budget->name, name) != 0)
			continue;
		named = true;
		if (budget->limits[kind] == 0)
			continue;
		fill_line(b, i, kind, &line);
		if (!found || line.limit < ret_line->limit)
			*ret_line = line;
		found = true;
	}
	if (found)
		return 0;
	return named ? err_set(err, ENOENT, "the budget '%.100s' says nothing of %s: what it "
	                       "caps is a matter of the policy (`cloister policy edit`)", name,
	                       policy_kind_name(kind)) :
	       err_set(err, ENOENT, "the cell has no budget '%.100s': `cloister budget CELL` lists them",
	               name);
}

int
cell_budget_parse(const struct cell_budget_line *line, const char *text, uint64_t *ret_limit,
                  struct err *err)
{
	bool adds = text[0] == '+';
	uint64_t limit;
	int r = policy_amount_parse(line->kind, text + adds, &limit, err);
	char now[POLICY_AMOUNT_TEXT];

	if (r < 0)
		return r;
	if (adds && __builtin_add_overflow(limit, line->limit, &limit))
		return err_set(err, ERANGE, "'%.40s' is too much", text);
	if (limit <= line->limit)
		return err_set(err, EINVAL, "'%.40s' is no more than there is, which is %s: less is a matter "
		               "of the policy (`cloister policy edit`)", text, policy_amount_format(now, line->kind, line->limit));
	*ret_limit = limit;
	return 0;
}

int
cell_budget_raise(int socket, const struct cell_budget_line *line, uint64_t limit,
                  const struct cell_steer_who *who, struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = VERB_BUDGET,
		.n = { line->per, line->key, line->kind, limit }, .text = { line->name } });
	return cell_steer(socket, &message, NULL, 0, NULL, err);
}
