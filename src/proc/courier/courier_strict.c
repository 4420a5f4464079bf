/* courier_strict.c - lets nothing leave without a record.
 *
 * If the policy requires it, a request waits until its record is on disk.  If there is no room for
 * records, no request leaves. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "proc/courier/courier.h"

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
		exchange_stop_awaiting(ex);
		(void)exchange_is_halted(ex);
	}
}

/* ---- on the disk ---- */

void
exchange_stop_awaiting(struct exchange *ex)
{
	if (ex->awaits_at == NULL)
		return;
	*ex->awaits_at = ex->awaits_next;
	if (ex->awaits_next != NULL)
		ex->awaits_next->awaits_at = ex->awaits_at;
	else
		ex->courier->awaits_end = ex->awaits_at;
	ex->awaits_at = NULL;
}

bool
exchange_may_leave(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (exchange_is_halted(ex) ||
	    (ex->has_body && ex->length != HTTP_LENGTH_UNKNOWN &&
	     !exchange_may_send(ex, ex->length)) || !exchange_afford(ex) || !exchange_fire(ex))
		return false;
	/* Also for a retry, whose record is already there. */
	if (!c->strict || ex->intent != 0) {
		ex->left_ms = ex->left_ms != 0 ? ex->left_ms : loop_now_ms();
		return true;
	}
	ex->intent = ++c->n_intents;
	exchange_record_intent(ex);
	ex->step = STEP_WAIT;
	exchange_touch(ex, RECORD_S);
	ex->awaits_next = NULL;
	ex->awaits_at = c->awaits_end;
	*c->awaits_end = ex;
	c->awaits_end = &ex->awaits_next;
	return false;
}

void
courier_recorded(struct courier *c, uint64_t number)
{
	struct exchange *ex;

	/* They wait in the order of their numbers. */
	while ((ex = c->awaits) != NULL && ex->intent <= number) {
		exchange_stop_awaiting(ex);
		if (ex->kind == EXCHANGE_HTTP)
			pool_send(ex);
		else
			pool_connect(ex);
	}
}
