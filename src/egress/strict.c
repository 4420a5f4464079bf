/* strict.c - see strict.h. */
#include "egress/strict.h"

#include <stdio.h>

#include "egress/courier.h"

#define RECORD_S 60                     /* for a record to reach the disk */

/* ---- no room ---- */

bool
exchange_is_halted(struct exchange *ex)
{
	if (ex->courier->halted[0] == '\0')
		return false;
	exchange_refuse(ex, "audit", ex->courier->halted);
	return true;
}

void
courier_halt(struct courier *c, const char *why)
{
	struct exchange *ex;

	snprintf(c->halted, sizeof(c->halted), "%s", why);
	events_halt(&c->events, why[0] != '\0');
	courier_at_round_end(c);
	/* Their records will not come. */
	while (why[0] != '\0' && (ex = c->awaits) != NULL) {
		strict_stop(ex);
		(void)exchange_is_halted(ex);
	}
}

/* ---- on the disk ---- */

void
strict_stop(struct exchange *ex)
{
	if (ex->strict.at == NULL)
		return;
	*ex->strict.at = ex->strict.next;
	if (ex->strict.next != NULL)
		ex->strict.next->strict.at = ex->strict.at;
	else
		ex->courier->awaits_end = ex->strict.at;
	ex->strict.at = NULL;
}

enum stage_answer
stage_strict(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (!c->strict || ex->strict.intent != 0)
		return STAGE_CONTINUE;
	ex->strict.intent = ++c->n_intents;
	exchange_record_intent(ex);
	transfer_touch(&ex->t, RECORD_S);
	ex->strict.next = NULL;
	ex->strict.at = c->awaits_end;
	*c->awaits_end = ex;
	c->awaits_end = &ex->strict.next;
	return STAGE_WAIT;
}

void
strict_late(struct exchange *ex)
{
	struct failure failure;

	failure_set(&failure, 504, "audit", "request not recorded",
	            "the record of the request was not on the disk in time");
	exchange_fail(ex, &failure);
}

void
courier_recorded(struct courier *c, uint64_t number)
{
	struct exchange *ex;

	/* They wait in the order of their numbers. */
	while ((ex = c->awaits) != NULL && ex->strict.intent <= number) {
		strict_stop(ex);
		exchange_resume(ex);
	}
}
