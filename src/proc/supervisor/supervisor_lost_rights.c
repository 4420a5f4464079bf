/* supervisor_lost_rights.c - see supervisor_lost_rights.h. */
#include "proc/supervisor/supervisor_lost_rights.h"

#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

/* Many times what a channel holds: a courier that never stops sending is not waited for. */
#define HEARD_MAX 4096

uint32_t
supervisor_lost_rights(const struct supervisor *sv)
{
	uint32_t lost = (sv->egress.policy.narrowed ? CELL_LOST_POLICY : 0) |
	                 (sv->ttl_set ? CELL_LOST_TTL : 0);

	for (size_t i = 0; i < sv->fired.n; i++)
		if (sv->fired.at[i].bytes.len > 0)
			lost |= CELL_LOST_CONSEQUENCE;
	for (size_t i = 0; i < CELL_SECRETS_MAX; i++)
		if (sv->secrets.at[i].revoked)
			lost |= CELL_LOST_SECRET;
	return lost;
}

/* A courier reports a consequence before it lets the request go that triggered it, and so before
 * any later request can leave.  The report is at least on its way here. */
static int
hear_all(struct supervisor *sv, struct err *err)
{
	int r = 0;

	for (int i = 0; i < HEARD_MAX && r == 0; i++)
		r = sv->egress.courier.fd < 0 ? -EAGAIN : supervisor_hear_courier(sv);
	if ((r == -EAGAIN || r == -EPIPE) && !sv->timeline.holds)
		return 0;
	return err_set(err, EBUSY, "not all that the cell's courier tells could be heard");
}

int
supervisor_hear_lost_rights(struct supervisor *sv, uint32_t *ret_lost, struct err *err)
{
	int r = hear_all(sv, err);

	*ret_lost = supervisor_lost_rights(sv);
	return r;
}

int
supervisor_answer_lost_rights(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer = {0};
	struct err err = {0};
	uint32_t lost;

	(void)call;
	if (supervisor_hear_lost_rights(sv, &lost, &err) < 0)
		return steer_refuse(client, &err);
	ipc_begin(&answer, CONTROL_DONE);
	buf_put_u32(&answer, lost |
	                     (sv->frozen && !sv->frozen_for_approval ? CELL_LOST_FROZEN : 0) |
	                     (sv->killed_by != KILLED_NOT ? CELL_LOST_ENDING : 0));
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}
