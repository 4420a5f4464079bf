/* supervisor_pause.c - pauses a cell: it is frozen, its memory goes to a file, and its connections are reset.
 *
 * A child moves the memory, because the supervisor serves the cell's clients meanwhile.  The file has no name, so
 * nothing of it is left, however the cell ends.  The child writes "S" once the file is complete and on the disk.  Before
 * that, the memory is whole, and if the child fails the cell goes on.  After it, the file is whole: whatever has happened
 * to the memory, a resume brings all of it back.  No process of the cell runs before that is done. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define PAUSED_FILE "memory"

/* ---- the child ---- */

_Noreturn static void
move(const struct supervisor *sv, bool aside, int result)
{
	struct err err = {0};
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = aside ? sv->boundary->put_aside(sv->walls, sv->pausing.file, result, &err) :
	    sv->boundary->bring_back(sv->walls, sv->pausing.file, &err);
	(void)!write(result, r < 0 ? err.text : "D", r < 0 ? strlen(err.text) : 1);
	_exit(0);
}

/* ---- clients ---- */

/* Answers all that wait for REQUEST.  WHY: it failed. */
static void
answer_all(struct supervisor *sv, uint32_t request, const struct err *why)
{
	OWN(buf_free) struct buf answer;

	ipc_begin(&answer, CONTROL_DONE);
	for (struct client *next, *c = sv->clients; c != NULL; c = next) {
		next = c->next;
		if (c->request != request)
			continue;
		if (why != NULL)
			supervisor_client_refuse(c, why);
		else
			supervisor_client_send(c, &answer, NULL, 0);
		supervisor_client_drop(c);
	}
}

static struct client *
find_held(struct supervisor *sv)
{
	struct client *c = sv->clients;

	while (c != NULL && c->held == NULL)
		c = c->next;
	return c;
}

/* The requests for which the cell was resumed.  WHY: it could not be. */
static void
let_held_go(struct supervisor *sv, const struct err *why)
{
	struct client *c;

	while ((c = find_held(sv)) != NULL) {
		struct ipc_message *message = TAKE(c->held);

		if (why != NULL)
			supervisor_client_refuse(c, why);
		if (why != NULL || loop_watch(sv->loop, &c->source, EPOLLIN, NULL) < 0 ||
		    supervisor_client_answer(c, message) != 0)
			supervisor_client_drop(c);
		ipc_message_free(message);
		free(message);
	}
	if (sv->dials.fd >= 0 && why == NULL)
		(void)loop_watch(sv->loop, &sv->dials, EPOLLIN, NULL);
}

/* ---- the end of a move ---- */

static void
close_file(struct pausing *p)
{
	closep(&p->file);
	p->file = -1;
}

static void
go_on(struct supervisor *sv, struct err *err)
{
	struct pausing *p = &sv->pausing;

	p->state = PAUSE_NOT;
	sv->idle.since_ms = loop_now_ms();
	if (!p->was_frozen && supervisor_let_go(sv, err) == 0)
		sv->frozen = false;
}

static void
paused_or_not(struct supervisor *sv, bool is_saved, const char *text)
{
	struct pausing *p = &sv->pausing;
	struct err err = {0}, ignored = {0};

	if (!is_saved) {
		(void)err_set(&err, EIO, "%s", text[0] != '\0' ? text : "the memory of the cell could not be saved: try again");
		go_on(sv, &ignored);
		close_file(p);
		answer_all(sv, CONTROL_PAUSE, &err);
		let_held_go(sv, NULL);
		return;
	}
	p->state = PAUSE_IS;
	supervisor_record(sv, "paused", p->by, "");
	/* The next request of the cell starts them anew, with the policy and the secrets of then. */
	if (sv->egress.running) {
		sv->egress.stopping = true;
		supervisor_egress_stop(sv);
	}
	answer_all(sv, CONTROL_PAUSE, NULL);
	if (p->wanted)
		(void)supervisor_wake(sv);
}

static void
resumed_or_not(struct supervisor *sv, bool is_done, const char *text)
{
	struct pausing *p = &sv->pausing;
	struct err err = {0};

	if (is_done)
		go_on(sv, &err);
	else
		(void)err_set(&err, EIO, "%s", text[0] != '\0' ? text : "the memory of the cell could not be brought back: try again");
	if (!is_done)
		p->state = PAUSE_IS;
	else
		close_file(p);
	if (is_done)
		supervisor_record(sv, "resumed", p->by, "");
	answer_all(sv, CONTROL_RESUME, err.code != 0 ? &err : NULL);
	let_held_go(sv, err.code != 0 ? &err : NULL);
}

/* Ends the child, and closes what it was heard by. */
static void
end_child(struct supervisor *sv)
{
	struct pausing *p = &sv->pausing;

	(void)kill(p->pid, SIGKILL);
	(void)waitpid(p->pid, NULL, 0);
	p->pid = 0;
	loop_unwatch(sv->loop, &p->result);
	closep(&p->result.fd);
}

static void
result_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct pausing *p = &sv->pausing;
	const bool aside = p->state == PAUSE_WRITES;
	ssize_t n = read(p->result.fd, p->text + p->len, sizeof(p->text) - 1 - p->len);
	const char *text = p->text;
	bool is_saved;

	(void)events;
	if (n > 0) {
		p->len += (size_t)n;
		if (p->len < sizeof(p->text) - 1)
			return;
	}
	p->text[p->len] = '\0';
	end_child(sv);
	is_saved = aside && text[0] == 'S';
	if (aside)
		paused_or_not(sv, is_saved, text);
	else
		resumed_or_not(sv, strcmp(text, "D") == 0, text);
}

static int
start_child(struct supervisor *sv, bool aside, struct err *err)
{
	struct pausing *p = &sv->pausing;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	p->len = 0;
	p->pid = fork();
	if (p->pid == 0)
		move(sv, aside, ends[1]);
	close(ends[1]);
	p->result = (struct loop_source){ .fd = ends[0], .ready = result_ready, .arg = sv };
	if (p->pid > 0 && loop_watch(sv->loop, &p->result, EPOLLIN, err) == 0)
		return 0;
	(void)err_errno(err, "cannot start the process that moves the cell's memory");
	if (p->pid > 0)
		end_child(sv);
	else
		close(ends[0]);
	p->pid = 0;
	return -err->code;
}

/* ---- requests ---- */

/* Without a name from its first moment on, for whoever looks later. */
static int
make_file(struct supervisor *sv, struct err *err)
{
	int r = sv->state < 0 ? cell_state_make(&sv->spec, &sv->state, err) : 0;

	if (r < 0)
		return r;
	sv->pausing.file = openat(sv->state, PAUSED_FILE, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (sv->pausing.file < 0 || unlinkat(sv->state, PAUSED_FILE, 0) < 0)
		return err_errno(err, "cannot make a file for the cell's memory");
	return 0;
}

static int
check_pause(const struct supervisor *sv, struct err *err)
{
	if (sv->boundary->put_aside == NULL)
		return err_set(err, ENOTSUP, "a cell with the boundary `%s` cannot be paused: only `microvm` can; `cloister freeze` "
		               "stops it and keeps its memory", sv->boundary->name);
	if (sv->frozen_for_approval || sv->approvals.n_pending > 0)
		return err_set(err, EBUSY, "requests of the cell wait for approval: answer them first, see `cloister approvals`");
	if (sv->copying.client != NULL || sv->forking.holds || sv->pausing.state != PAUSE_NOT)
		return err_set(err, EBUSY, "the cell is being paused or resumed, or its changes are read: try again");
	return sv->boundary->can_pause(sv->walls, err);
}

int
supervisor_pause(struct supervisor *sv, const char *by, struct err *err)
{
	struct pausing *p = &sv->pausing;
	int r = check_pause(sv, err);

	if (r < 0)
		return r;
	*p = (struct pausing){ .file = -1, .was_frozen = sv->frozen };
	snprintf(p->by, sizeof(p->by), "%s", by);
	r = make_file(sv, err);
	if (r == 0 && !p->was_frozen)
		r = sv->boundary->freeze(sv->walls, err);
	if (r < 0) {
		close_file(p);
		return r;
	}
	sv->frozen = true;
	p->state = PAUSE_WRITES;
	r = start_child(sv, true, err);
	if (r < 0) {
		go_on(sv, &(struct err){0});
		close_file(p);
	}
	return r;
}

static int
start_resume(struct supervisor *sv, const char *by, struct err *err)
{
	struct pausing *p = &sv->pausing;
	int r;

	snprintf(p->by, sizeof(p->by), "%s", by);
	p->wanted = false;
	p->state = PAUSE_READS;
	r = start_child(sv, false, err);
	if (r < 0)
		p->state = PAUSE_IS;
	return r;
}

int
supervisor_answer_pause(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer;
	struct err err = {0};

	if (sv->pausing.state == PAUSE_IS) {
		ipc_begin(&answer, CONTROL_DONE);
		supervisor_client_send(client, &answer, NULL, 0);
		return -EPIPE;
	}
	return supervisor_pause(sv, call->who.by, &err) < 0 ? steer_refuse(client, &err) : 0;
}

int
supervisor_answer_resume(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct err err = {0};

	if (sv->pausing.state == PAUSE_READS)
		return 0;
	if (sv->pausing.state == PAUSE_IS)
		return start_resume(sv, call->who.by, &err) < 0 ? steer_refuse(client, &err) : 0;
	(void)err_set(&err, EBUSY, sv->pausing.state == PAUSE_WRITES ? "the cell is being paused: try again" :
	              "the cell is not paused: `cloister ps` shows its state");
	return steer_refuse(client, &err);
}

/* ---- waking ---- */

bool
supervisor_is_paused(const struct supervisor *sv)
{
	return sv->pausing.state != PAUSE_NOT;
}

bool
supervisor_wake(struct supervisor *sv)
{
	struct err err = {0};

	if (!supervisor_is_paused(sv) || sv->pausing.was_frozen || sv->dead || sv->killed_by != KILLED_NOT)
		return false;
	sv->pausing.wanted = true;
	if (sv->pausing.state == PAUSE_IS && start_resume(sv, "a request", &err) < 0)
		let_held_go(sv, &err);
	return true;
}

bool
supervisor_hold_client(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	struct ipc_message *held;

	if (!supervisor_is_paused(sv) || sv->pausing.was_frozen || sv->dead || sv->killed_by != KILLED_NOT)
		return false;
	held = malloc(sizeof(*held));
	if (held == NULL)
		return false;
	*held = *message;
	*message = (struct ipc_message){0};
	client->held = held;
	loop_unwatch(sv->loop, &client->source);
	(void)supervisor_wake(sv);
	return true;
}

void
supervisor_pause_end(struct supervisor *sv)
{
	struct pausing *p = &sv->pausing;
	struct err err = {0};

	if (p->state == PAUSE_NOT)
		return;
	if (p->pid > 0)
		end_child(sv);
	close_file(p);
	p->state = PAUSE_NOT;
	(void)err_set(&err, ESRCH, "the cell is ending");
	answer_all(sv, CONTROL_PAUSE, &err);
	answer_all(sv, CONTROL_RESUME, &err);
	let_held_go(sv, &err);
}
