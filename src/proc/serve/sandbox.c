/* sandbox.c - see sandbox.h. */
#include "proc/serve/sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/own.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "target/target.h"

#define REACH_MS 3000                   /* what a worker reports of a cell takes another way than the cell's events */
#define REACH_LOOK_MS 10

static int
check_sandbox(struct api_call *c, const struct dispatch *d)
{
	OWN(json_decrefp) json_t *resolved = NULL;

	if (dispatch_get_resolved(api_registry(c), d->id, &resolved, &c->err) < 0)
		return api_fail(c);
	return json_is_true(json_object_get(resolved, "sandbox")) ? 0 :
	       api_fail_with(c, 403, "forbidden", "dispatch %s is no sandbox: the agent '%s' is registered without "
	                     "`sandbox: true`", d->id, d->agent);
}

static bool
is_here(const char *cell)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	struct cell_entry entry;

	/* A service that was killed leaves entries. */
	return runtime >= 0 && cell_find(runtime, true, cell, &entry, NULL) == 0 && cell_is_alive(runtime, &entry);
}

int
sandbox_reach(struct api_call *c, const struct dispatch *d)
{
	const struct timespec pause = { .tv_nsec = REACH_LOOK_MS * 1000000L };
	OWN(dispatch_free) struct dispatch now = {0};

	if (target_pool(d->target) == NULL)
		return 0;
	for (int i = 0; i < REACH_MS / REACH_LOOK_MS; i++) {
		if (is_here(d->cell))
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	if (dispatch_get(api_registry(c), d->id, &now, NULL) == 0 && dispatch_state_is_over(now.state))
		return 0;
	return api_fail_with(c, 503, "unavailable", "the worker that has the sandbox %s is not connected to this service: try again "
	                     "when `cloister ps` shows the cell %s", d->id, d->cell);
}

int
sandbox_find(struct api_call *c, char ret_cell[CELL_ID_LEN + 1])
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (api_find_dispatch(c, &d) < 0 || check_sandbox(c, &d) < 0)
		return -EIO;
	if (dispatch_state_is_over(d.state))
		return api_fail_with(c, 409, "over", "the sandbox %s is over: it is %s", d.id, dispatch_state_name(d.state));
	if (d.cell[0] == '\0')
		return api_fail_with(c, 409, "busy", "the sandbox %s waits for its turn: wait for its event 'agent.started'",
		                     d.id);
	if (sandbox_reach(c, &d) < 0)
		return -EIO;
	snprintf(c->id, sizeof(c->id), "%s", d.id);
	snprintf(ret_cell, CELL_ID_LEN + 1, "%s", d.cell);
	return 0;
}

int
sandbox_run(struct api_call *c, struct inside_order *order)
{
	char cell[CELL_ID_LEN + 1];

	if (sandbox_find(c, cell) < 0)
		return -EIO;
	order->by = c->q->who;
	if (inside_open(cell, order, &c->inside, &c->err) == 0)
		return 0;
	return c->err.code == ENOENT ? api_fail_as(c, 409, "over") : api_fail(c);
}

int
sandbox_start(struct api_call *c, char *const *argv)
{
	return sandbox_run(c, &(struct inside_order){ .argv = argv, .own = true });
}

int
sandbox_path(struct api_call *c, const char **ret_path)
{
	*ret_path = api_query(c, "path");
	if (*ret_path == NULL || **ret_path == '\0')
		return api_fail_with(c, 400, "invalid", "the parameter 'path' is missing: a path in the cell");
	return strlen(*ret_path) < PATH_MAX ? 0 :
	       api_fail_with(c, 400, "invalid", "the parameter 'path' is over %d bytes long", PATH_MAX - 1);
}

/* The codes that the table of api.c does not have, or has for others. */
static int
code_of(int error)
{
	switch (error) {
	case ENOENT: case EEXIST: case EFBIG: case ENOSPC: case EDQUOT:
		return error;
	case EACCES: case EPERM: case EROFS:
		return EPERM;
	default:
		return EINVAL;
	}
}

bool
sandbox_failed(int status, const char *verb, const char *path, struct err *ret_err)
{
	int error = WEXITSTATUS(status);

	if (WIFSIGNALED(status))
		(void)err_set(ret_err, EAGAIN, "cannot %s '%.200s': the attempt was killed in the cell", verb, path);
	else if (error == EINVAL)
		(void)err_set(ret_err, EINVAL, "cannot %s '%.200s': it is no regular file", verb, path);
	else if (error == EFBIG)
		(void)err_set(ret_err, EFBIG, "cannot %s '%.200s': it is over %u MiB", verb, path, API_FILE_MAX >> 20);
	else if (error != 0)
		(void)err_set(ret_err, code_of(error), "cannot %s '%.200s': %s", verb, path,
		              strerrordesc_np(error) != NULL ? strerrordesc_np(error) : "unknown error");
	return WIFSIGNALED(status) || error != 0;
}
