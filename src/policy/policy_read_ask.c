/* policy_read_ask.c - reads and checks the approval settings of an `ask` rule. */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "policy/policy_load.h"

/* ---- reading ---- */

static bool
is_name(const char *text)
{
	for (const char *c = text; *c != '\0'; c++)
		if (!isalnum((unsigned char)*c) && strchr("._-@+", *c) == NULL)
			return false;
	return *text != '\0' && strlen(text) <= POLICY_APPROVER_MAX - sizeof("token:");
}

/* "alice" means "user:alice", and is stored as "alice". */
static int
fix_approver(struct policy_draft *d, const struct node *node, char *text)
{
	uint64_t uid;

	if (strncmp(text, "user:", 5) == 0)
		memmove(text, text + 5, strlen(text + 5) + 1);
	if (strncmp(text, "uid:", 4) == 0 ? num_parse_count(text + 4, 0, UINT32_MAX - 1, &uid, NULL) == 0 :
	    is_name(strncmp(text, "token:", 6) == 0 ? text + 6 : text))
		return 0;
	return node_err(d->err, node, "'%.64s' is nobody who could approve: write a user's name, "
	                "uid:NUMBER or token:NAME", text);
}

int
policy_read_approvers(struct policy_draft *d, const struct node *node)
{
	struct policy_list *list = &d->rule.ask.approvers;
	int r = policy_read_list(d, node, "an approver", fix_approver, list);

	if (r == 0 && list->n > POLICY_APPROVERS_MAX)
		r = node_err(d->err, node, "a rule has at most %d approvers", POLICY_APPROVERS_MAX);
	for (size_t i = 1; r == 0 && i < list->n; i++)
		for (size_t k = 0; r == 0 && k < i; k++)
			if (strcmp(list->at[i], list->at[k]) == 0)
				r = node_err(d->err, node->items[i], "'%.64s' is here twice", list->at[i]);
	return r;
}

int
policy_read_approvals(struct policy_draft *d, const struct node *node)
{
	struct err err = {0};
	const char *text;
	uint64_t n;
	int r = policy_read_text(d, node, "the number of approvals", &text);

	if (r < 0)
		return r;
	if (num_parse_count(text, 1, POLICY_APPROVALS_MAX, &n, &err) < 0)
		return node_err(d->err, node, "'approvals' is how many different people have to approve, "
		                "from 1 to %d", POLICY_APPROVALS_MAX);
	d->rule.ask.approvals = (uint32_t)n;
	return 0;
}

int
policy_read_timeout(struct policy_draft *d, const struct node *node)
{
	const char *text;
	uint64_t ms;
	int r = policy_read_text(d, node, "a time", &text);

	if (r < 0)
		return r;
	if (num_parse_duration(text, &ms, NULL) < 0 || ms < POLICY_TIMEOUT_LEAST_MS ||
	    ms > POLICY_TIMEOUT_MOST_MS)
		return node_err(d->err, node, "'timeout' is how long an answer is waited for, from 1s to "
		                "24h: `timeout: 10m`");
	d->rule.ask.timeout_ms = ms;
	return 0;
}

int
policy_read_freeze(struct policy_draft *d, const struct node *node)
{
	return policy_read_bool(d, node, "freeze", &d->rule.ask.freeze);
}

/* ---- checking ---- */

int
policy_check_ask(const struct policy_draft *d)
{
	const struct policy_ask *ask = &d->rule.ask;
	const struct node *key = policy_draft_key(d, POLICY_KEY_OF_ASK);

	if (key != NULL && d->rule.verb != POLICY_VERB_ASK)
		return node_err(d->err, key, "'%s' is about asking: it belongs to ask", key->text);
	if (ask->approvers.n > 0 && ask->approvals > ask->approvers.n)
		return node_err(d->err, d->keys[POLICY_KEY_APPROVALS], "%u approvals cannot come from %zu "
		                "approver%s", ask->approvals, ask->approvers.n,
		                ask->approvers.n == 1 ? "" : "s");
	return 0;
}
