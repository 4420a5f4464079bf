/* dispatch_cancel.c - cancels dispatches. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "registry/registry.h"

int
dispatch_log_end(struct dispatch_log *log, const struct dispatch *d,
                 const struct dispatch_ending *end, struct err *err)
{
	json_t *event = json_object();

	json_object_set_new(event, "attempts", json_integer((json_int_t)d->attempts));
	json_object_set_new(event, "state", json_string(dispatch_state_name(end->state)));
	json_object_set_new(event, "exit_code", end->state == DISPATCH_FINISHED ?
	                    json_integer(end->exit_code) : json_null());
	json_object_set_new(event, "reason", end->reason[0] != '\0' ? json_string(end->reason) :
	                    json_null());
	json_object_set_new(event, "result", end->result != NULL ? json_deep_copy(end->result) :
	                    json_null());
	if (end->left)
		json_object_set_new(event, "left", json_string(d->cell));
	return dispatch_log_put(log, "dispatch.finished", event, true, err);
}

/* Without a driver, this process writes the end. */
static int
end_waiting(struct registry *reg, const char *id, struct err *err)
{
	OWN(closep) int lock = dispatch_lock(id, err);
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(dispatch_log_close) struct dispatch_log log = {0};
	struct dispatch_ending end = { .state = DISPATCH_CANCELLED, .exit_code = -1, .reason = "",
	                               .ended_ms = dispatch_now_ms() };
	int r = lock < 0 ? lock : dispatch_read(registry_db(reg), id, &d, err);

	if (r < 0 || d.state != DISPATCH_QUEUED)
		return r;
	r = dispatch_log_open(id, &log, err);
	if (r == 0 && log.end == NULL)
		r = dispatch_log_end(&log, &d, &end, err);
	return r < 0 ? r : dispatch_set_end(registry_db(reg), id, &end, err);
}

/* One at a time: each cancelled child is marked, and not found again. */
int
dispatch_cancel_children(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err)
{
	char child[DISPATCH_ID_LEN + 1];
	int r;

	do {
		OWN(db_finish) struct db_query q = {0};

		r = db_ask(registry_db(reg), &q, err, "SELECT id FROM dispatches WHERE parent = ? AND "
		           "state < 3 AND cancel = 0 LIMIT 1", "s", id);
		r = r == 0 ? db_next(&q, err) : r;
		if (r <= 0)
			return r;
		snprintf(child, sizeof(child), "%s", db_text(&q, 0));
		db_finish(&q);
		r = dispatch_cancel(reg, child, grace_ms, err);
	} while (r == 0 || r == -EALREADY);
	return r;
}

/* One that no worker has is over now. */
static int
tell_worker(struct db *db, const char *id, struct err *err)
{
	int r = dispatch_take_back(db, &(struct dispatch_suspects){0}, err);

	return r == 0 ? db_tell(db, DB_WORK, id, err) : r;
}

/* It is marked.  A driver that is just beginning it reads the mark once the cell is up; one that
 * has begun it has a cell. */
static int
see_to_end(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err)
{
	OWN(dispatch_free) struct dispatch now = {0};
	struct target_order stop = { .verb = TARGET_STOP, .grace_ms = grace_ms };
	const struct target *target;
	int r = dispatch_read(registry_db(reg), id, &now, err);

	/* Whoever has it looks for marks. */
	if (r == 0 && now.away)
		return target_pool(now.target) != NULL ? tell_worker(registry_db(reg), id, err) : 0;
	if (r == 0 && now.state == DISPATCH_QUEUED) {
		r = end_waiting(reg, id, err);
		return r == -EBUSY ? 0 : r;
	}
	if (r == 0 && !dispatch_state_is_over(now.state) && (r = dispatch_target(&now, &target, err)) == 0)
		(void)target->control(now.cell, &stop, NULL);
	return r;
}

int
dispatch_cancel(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	int n, r = dispatch_get(reg, id, &d, err);

	if (r < 0)
		return r;
	n = db_do(registry_db(reg), err, "UPDATE dispatches SET cancel = 1 WHERE id = ? AND state < 3",
	          "s", d.id);
	if (n < 0)
		return n;
	if (n == 0)
		return err_set(err, EALREADY, "dispatch %s is over already: it is %s", d.id,
		               dispatch_state_name(d.state));
	dispatch_tell();
	/* From now on there are no new children. */
	r = dispatch_cancel_children(reg, d.id, grace_ms, err);
	return r < 0 ? r : see_to_end(reg, d.id, grace_ms, err);
}

int
dispatch_cancel_all(struct registry *reg, unsigned *ret_n, struct err *err)
{
	OWN(strv_freep) char **ids = NULL;
	int one, r, n = db_do(registry_db(reg), err, "UPDATE dispatches SET cancel = 2 WHERE state < 3 AND "
	                      "cancel < ?", "i", (int64_t)2);

	if (n < 0)
		return n;
	*ret_n = (unsigned)n;
	dispatch_tell();
	r = dispatch_list_open(registry_db(reg), false, &ids, err);
	/* If one of them cannot be ended, the others still can. */
	for (char **id = ids; id != NULL && *id != NULL; id++) {
		one = see_to_end(reg, *id, 0, r == 0 ? err : NULL);
		r = r == 0 ? one : r;
	}
	return r;
}
