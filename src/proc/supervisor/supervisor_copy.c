/* supervisor_copy.c - copies the changes of a running cell's workspaces, for `cloister diff`.
 *
 * A child does it, because the supervisor serves the cell meanwhile.  If the cell can be frozen, it stands still until
 * the copy is complete, or for SUPERVISOR_COPY_MS.  This freezing is no state of the cell: nobody is told of it, and an
 * operator's freeze outlasts it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

/* The child's result, written at once. */
struct copied {
	uint32_t changed, left_out[CELL_GRANTS_MAX];
	char incomplete[256];
};
_Static_assert(sizeof(struct copied) <= 4096, "a pipe takes it whole");

/* ---- the child ---- */

static int
copy_one(const struct supervisor *sv, size_t grant, int folder, struct copied *copied, struct err *err)
{
	OWN(closep) int target = -1;
	bool changed = false;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "%zu", grant);
	target = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (target < 0)
		return err_errno(err, "cannot copy the workspace's changes");
	r = sv->boundary->collect(sv->walls, grant, target, &copied->left_out[grant], &changed, err);
	copied->changed |= changed;
	return r;
}

_Noreturn static void
copy_all(const struct supervisor *sv, int folder, int result)
{
	struct copied copied = {0};
	struct err err = {0};

	/* A group of its own, so that the collector is killed with it. */
	(void)setsid();
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sv->spec.n_grants; i++)
		if (sv->boundary->is_changed(sv->walls, i) && copy_one(sv, i, folder, &copied, &err) < 0)
			snprintf(copied.incomplete, sizeof(copied.incomplete), "%.255s", err.text);
	_exit(write(result, &copied, sizeof(copied)) == (ssize_t)sizeof(copied) ? 0 : 1);
}

/* ---- the supervisor ---- */

static void
thaw(struct supervisor *sv)
{
	struct err err = {0};

	if (sv->copying.freezes && !sv->frozen && !sv->dead && supervisor_let_go(sv, &err) < 0)
		supervisor_say(sv, "cell %s cannot go on: %s", sv->spec.id, err.text);
	sv->copying.freezes = false;
}

void
supervisor_copy_end(struct supervisor *sv, const struct client *client)
{
	struct copying *c = &sv->copying;

	if (c->client == NULL || (client != NULL && client != c->client))
		return;
	(void)kill(-c->pid, SIGKILL);
	(void)kill(c->pid, SIGKILL);
	(void)waitpid(c->pid, NULL, 0);
	loop_cancel_timer(sv->loop, &c->patience);
	loop_unwatch(sv->loop, &c->result);
	closep(&c->result.fd);
	c->client = NULL;
	thaw(sv);
}

static void
patience_over(void *arg)
{
	struct supervisor *sv = arg;

	sv->copying.still = sv->copying.still && sv->frozen;
	thaw(sv);
}

static void
answer(struct client *client, const struct copied *copied, bool still)
{
	const size_t n = client->sv->spec.n_grants;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_DONE);
	buf_put_u32(&message, (still ? CONTROL_COPIED_STILL : 0) | (copied->changed ? CONTROL_COPIED_CHANGED : 0));
	buf_put_str(&message, copied->incomplete);
	buf_put_u32(&message, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_put_u32(&message, copied->left_out[i]);
	supervisor_client_send(client, &message, NULL, 0);
}

static void
result_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct client *client = sv->copying.client;
	struct copied copied;
	const bool still = sv->copying.still;
	const bool is_whole = read(sv->copying.result.fd, &copied, sizeof(copied)) == (ssize_t)sizeof(copied);
	struct err err;

	(void)events;
	supervisor_copy_end(sv, client);
	copied.incomplete[sizeof(copied.incomplete) - 1] = '\0';
	if (is_whole) {
		answer(client, &copied, still);
	} else {
		(void)err_set(&err, EIO, "the copy of the workspace's changes failed");
		supervisor_client_refuse(client, &err);
	}
	supervisor_client_drop(client);
}

static int
start_child(struct supervisor *sv, int folder, struct err *err)
{
	struct copying *c = &sv->copying;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot copy the workspace's changes");
	c->pid = fork();
	if (c->pid == 0)
		copy_all(sv, folder, ends[1]);
	close(ends[1]);
	c->result = (struct loop_source){ .fd = ends[0], .ready = result_ready, .arg = sv };
	if (c->pid > 0 && loop_watch(sv->loop, &c->result, EPOLLIN, err) == 0)
		return 0;
	(void)err_errno(err, "cannot copy the workspace's changes");
	if (c->pid > 0) {
		(void)kill(c->pid, SIGKILL);
		(void)waitpid(c->pid, NULL, 0);
	}
	close(ends[0]);
	return -err->code;
}

int
supervisor_answer_copy(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct copying *c = &sv->copying;
	struct err err = {0};

	if (c->client != NULL) {
		(void)err_set(&err, EBUSY, "the changes of cell %s are being read already: try again", sv->spec.id);
		return steer_refuse(client, &err);
	}
	c->freezes = !sv->frozen && sv->boundary->facts(sv->walls).can_freeze && sv->boundary->freeze(sv->walls, NULL) == 0;
	c->still = c->freezes || sv->frozen;
	if (start_child(sv, call->message->fds[0], &err) < 0) {
		thaw(sv);
		return steer_refuse(client, &err);
	}
	c->client = client;
	loop_prepare_timer(&c->patience, patience_over, sv);
	loop_set_timer(sv->loop, &c->patience, SUPERVISOR_COPY_MS);
	return 0;
}
