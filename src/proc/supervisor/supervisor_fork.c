/* supervisor_fork.c - copies the machine of a cell to two files of a client, which starts other cells from them.
 *
 * First all processes of the cell stand still (port_hold()), and what is under way between them and this process has
 * arrived.  Then the machine is written, which this process waits for: so little of the cell changes as can be.  Nothing
 * of what is copied is read here. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "ipc/control_channel.h"
#include "proc/supervisor/supervisor.h"

#define HOLD_MS 30000                   /* until all stand still */

static void
close_files(struct forking *f)
{
	closep(&f->memory);
	closep(&f->state);
	f->memory = f->state = -1;
}

/* ERR: why it failed; NULL: it did not. */
static void
answer(struct supervisor *sv, const struct err *err)
{
	const struct audit_chain *chain = &sv->timeline.log.chain;
	struct client *client = sv->forking.client;
	char head[2 * AUDIT_HASH + 1] = "";
	OWN(buf_free) struct buf message = {0};

	close_files(&sv->forking);
	loop_cancel_timer(sv->loop, &sv->forking.patience);
	sv->forking.client = NULL;
	if (client == NULL)
		return;
	if (err != NULL) {
		supervisor_client_refuse(client, err);
		supervisor_client_drop(client);
		return;
	}
	supervisor_record(sv, "forked", sv->forking.by, "");
	if (sv->timeline.log.fd >= 0)
		codec_hex(chain->head, AUDIT_HASH, head);
	ipc_begin(&message, CONTROL_DONE);
	buf_put_u64(&message, sv->timeline.log.fd >= 0 ? chain->tree.size : 0);
	buf_put_str(&message, head);
	supervisor_client_send(client, &message, NULL, 0);
	supervisor_client_drop(client);
}

/* A copy has the memory of its source, and the rights of a new cell.  What was taken from the source after it had read
 * something would be given back.  Nothing of the cell runs now, so nothing is taken while this looks. */
static int
check_rights(struct supervisor *sv, struct err *err)
{
	uint32_t lost;
	int r = supervisor_hear_lost_rights(sv, &lost, err);

	return r < 0 || lost == 0 ? r :
	       err_set(err, EPERM, "the policy of the cell was narrowed, a secret revoked or its time limited while it ran, and a copy "
	               "would have all of its rights again: start a new cell");
}

void
supervisor_held(void *arg)
{
	struct supervisor *sv = arg;
	struct err err = {0};
	int r = 0;

	/* Its client may have gone meanwhile. */
	if (sv->forking.client != NULL)
		r = check_rights(sv, &err);
	if (sv->forking.client != NULL && r == 0)
		r = sv->boundary->take_point(sv->walls, sv->forking.memory, sv->forking.state, &err);
	sv->forking.holds = false;
	port_release(sv->boundary->port(sv->walls));
	answer(sv, r < 0 ? &err : NULL);
}

static void
patience_over(void *arg)
{
	struct err err = {0};

	(void)err_set(&err, ETIMEDOUT, "the cell did not stand still for a copy: try again");
	answer(arg, &err);
}

static int
check(const struct supervisor *sv, struct err *err)
{
	if (sv->spec.again == NULL || sv->boundary->take_point == NULL)
		return err_set(err, ENOTSUP, sv->spec.fork_of.id[0] != '\0' ? "the cell is a fork itself, and shares its memory: fork "
		               "cell %s again" : "only a cell that was started with --forkable can be forked",
		               sv->spec.fork_of.id);
	if (!sv->agent_ran || sv->setup.runs)
		return err_set(err, EBUSY, "the cell's command does not run yet: try again");
	if (sv->forking.holds || sv->copying.client != NULL || sv->saving.waits || supervisor_is_paused(sv))
		return err_set(err, EBUSY, "the cell is being copied, paused or resumed: try again");
	return 0;
}

int
supervisor_answer_fork(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct forking *f = &sv->forking;
	struct err err = {0};

	if (check(sv, &err) < 0 || port_hold(sv->boundary->port(sv->walls), &err) < 0)
		return steer_refuse(client, &err);
	*f = (struct forking){ .client = client, .holds = true, .memory = ipc_take_fd(call->message, 0),
	                       .state = ipc_take_fd(call->message, 1) };
	snprintf(f->by, sizeof(f->by), "%s", call->who.by);
	loop_prepare_timer(&f->patience, patience_over, sv);
	loop_set_timer(sv->loop, &f->patience, HOLD_MS);
	return 0;
}

void
supervisor_fork_left(struct supervisor *sv, const struct client *client)
{
	if (sv->forking.client != client)
		return;
	sv->forking.client = NULL;
	loop_cancel_timer(sv->loop, &sv->forking.patience);
	close_files(&sv->forking);
}
