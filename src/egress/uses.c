/* uses.c - holds requests and connections to the secrets that the rules which let them through name in `uses`. */
#include <stdio.h>

#include "egress/courier.h"
#include "egress/secrets_parts.h"

bool
exchange_lets_use(const struct exchange *ex, const struct secret *s)
{
	return ex->learned || policy_may_use(ex->policy->policy, &ex->decision.way, s->name);
}

bool
exchange_may_use(struct exchange *ex, const struct secret *s)
{
	/* As long as the body may decide which rule it is, none is known yet: the stage "uses" checks it later. */
	return (ex->decision.needs_body || exchange_lets_use(ex, s)) && exchange_fits_scope(ex, s);
}

/* Secret I is in EX, or EX is a connection that was logged in with it. */
static bool
carries(const struct exchange *ex, size_t i)
{
	return ex->t.certificate == i + 1 || (ex->secrets != NULL && ex->secrets->carried[i] != 0);
}

bool
exchange_keeps_to_uses(struct exchange *ex)
{
	const struct bound *bound = &ex->courier->secrets.bound;
	char reason[COURIER_NOTE_MAX];

	for (size_t i = 0; i < bound->n; i++) {
		if (!carries(ex, i) || exchange_lets_use(ex, bound->at[i].secret))
			continue;
		snprintf(reason, sizeof(reason), "the secret '%s' is in the request, but " COURIER_NOT_USED,
		         bound->at[i].secret->name);
		if (ex->secrets != NULL) {
			snprintf(ex->secrets->reason, sizeof(ex->secrets->reason), "%s", reason);
			ex->secrets->misplaced = true;
		}
		exchange_refuse(ex, "exfiltration", reason);
		return false;
	}
	return true;
}

enum stage_answer
stage_uses(struct exchange *ex)
{
	return exchange_keeps_to_uses(ex) ? STAGE_CONTINUE : STAGE_REFUSE;
}
