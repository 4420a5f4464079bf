/* supervisor_courier_start.c - sends a new courier everything that it must know before it decides on a
 * request. */
#include <errno.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

static int (*const courier_is_told[])(struct supervisor *sv) = {
	supervisor_policy_tell,
	supervisor_secrets_tell,
	supervisor_fired_tell,
	supervisor_budget_tell,
	supervisor_approvals_tell,
};

int
supervisor_steer_prepare(struct supervisor *sv, uint32_t *ret_n, struct err *err)
{
	supervisor_steer_gone(sv);
	/* A courier that knows less than it should is worse than none. */
	for (size_t i = 0; i < ARRAY_LEN(courier_is_told); i++)
		if (courier_is_told[i](sv) < 0)
			return err_set(err, ENOMEM, "the cell's courier cannot be told all that it has to know");
	*ret_n = (uint32_t)sv->steering.n;
	return 0;
}
