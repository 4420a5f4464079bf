/* freezing.c - explains what happens instead of a policy's freezes, on a machine where no cell can
 * be frozen. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "boundary/boundary.h"
#include "cli/policy.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_budget.h"
#include "policy/policy_consequence.h"

#define NOT_HERE "cells cannot be frozen here (`cloister doctor` shows why)"

/* The first rule that freezes the cell while it asks, or -1. */
static int
find_asking(const struct policy *p)
{
	struct policy_question q;

	for (size_t i = 0; i < policy_n_rules(p); i++)
		if (policy_question(p, (int)i, &q) && q.freeze)
			return (int)i;
	return -1;
}

/* Whether the policy has any other freeze; instead of these, the cell is killed. */
static bool
has_others(const struct policy *p)
{
	for (size_t i = 0; i < policy_n_budgets(p); i++)
		if (policy_budget_at(p, i, NULL)->then == POLICY_THEN_FREEZE)
			return true;
	for (size_t i = 0; i < policy_n_rules(p); i++) {
		const struct policy_consequence *c = policy_consequence(p, (int)i);

		if (c != NULL && policy_consequence_freezes(c))
			return true;
	}
	for (size_t i = 0; i < policy_n_behaviours(p); i++)
		if (policy_behaviour_at(p, i)->stops && !policy_behaviour_at(p, i)->kill)
			return true;
	for (; p != NULL; p = policy_outer(p)) {
		const struct policy_tripwires *t = policy_tripwires(p);

		if (t != NULL && (t->credential == POLICY_TRIP_FREEZE || t->transfer.then == POLICY_TRIP_FREEZE ||
		                  t->refusals.then == POLICY_TRIP_FREEZE))
			return true;
	}
	return false;
}

size_t
policy_cli_freezing(const struct policy *p, const struct boundary *boundary, bool exfiltration,
                    struct err ret_notes[POLICY_CLI_NOTES])
{
	int asking = find_asking(p);
	bool others = exfiltration || has_others(p);
	size_t n = 0;

	if (asking < 0 && !others)
		return 0;
	if ((boundary->can() & BOUNDARY_CAN_FREEZE) != 0)
		return 0;
	if (asking >= 0)
		err_set(&ret_notes[n++], ENOTSUP, NOT_HERE ", so requests that match the rule at %s, "
		        "which asks with `freeze: true`, are refused", policy_rule_place(p, asking));
	if (others)
		err_set(&ret_notes[n++], ENOTSUP, NOT_HERE ", so the cell is killed where the policy "
		        "demands `freeze`");
	return n;
}

void
policy_cli_tell_freezing(const struct policy *p, const struct boundary *boundary, bool exfiltration)
{
	struct err notes[POLICY_CLI_NOTES];
	size_t n = policy_cli_freezing(p, boundary, exfiltration, notes);

	for (size_t i = 0; i < n; i++) {
		fprintf(stderr, "cloister: ");
		text_print_safe(stderr, notes[i].text, strlen(notes[i].text), false);
		fputc('\n', stderr);
	}
}
