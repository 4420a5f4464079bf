/* state_worker.c - starts cloister-state's worker, and asks it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/progress.h"
#include "base/spawn.h"
#include "state/state_parts.h"

#define ASK_MS ((int64_t)3600 * 1000)    /* for one answer */
#define STEPS_MAX 100000                /* of one answer: there are five in a second at most */
#define LOOK_MS 5000                    /* how often the room on the disk is looked at meanwhile */

int
state_worker_start(struct state *state, int source, int target, struct err *err)
{
	const struct state_limits *l = &state->limits;
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	OWN(closep) int theirs = -1;
	char *off[2] = { NULL };
	int pair[2];

	/* It can read no folder that it was not started with. */
	if (state->channel > 0 && source < 0 && target < 0)
		return 0;
	state_worker_stop(state);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a channel");
	state->channel = pair[0];
	state->reads = source >= 0;
	theirs = pair[1];
#ifdef CLOISTER_MUTANT
	if (getenv("CLOISTER_OFF") != NULL && asprintf(&off[0], "CLOISTER_OFF=%s", getenv("CLOISTER_OFF")) < 0)
		return err_set(err, ENOMEM, "out of memory");
#endif
	state->worker = spawn_start(&(struct spawn){
		.argv = (char *[]){ (char[]){ "cloister-state" }, NULL }, .env = off,
		.fds = (const struct spawn_fd[]){ { theirs, STATE_CHANNEL_FD }, { state->dir, STATE_DIR_FD },
		                                  { source < 0 ? SPAWN_NULL : source, STATE_SOURCE_FD },
		                                  { target < 0 ? SPAWN_NULL : target, STATE_TARGET_FD } },
		.n_fds = 4, .flags = SPAWN_DIES | SPAWN_ONLY }, NULL, err);
	free(off[0]);
	/* If the worker dies now, its end must be closed, or nobody hears of it. */
	closep(&theirs);
	theirs = -1;
	if (state->worker < 0)
		return (int)state->worker;
	ipc_begin(&b, STATE_ASK_BEGIN);
	buf_put_u64(&b, l->bytes);
	buf_put_u64(&b, l->file_bytes);
	buf_put_u64(&b, l->files);
	buf_put_u64(&b, l->depth);
	buf_put_u64(&b, l->path);
	return state_ask(state, &b, NULL, NULL, &done, err);
}

void
state_worker_stop(struct state *state)
{
	close_fd(&state->channel);
	if (state->worker > 0)
		(void)spawn_await(state->worker, NULL);
	state->worker = 0;
}

/* A worker that ended by itself, or answers nonsense, is not asked again. */
static int
gone(struct state *state, struct err *err)
{
	int status;

	if (state->worker > 0)
		(void)kill(state->worker, SIGKILL);
	close_fd(&state->channel);
	status = state->worker > 0 ? spawn_await(state->worker, NULL) : 0;
	state->worker = 0;
	return status > SPAWN_KILLED && status != SPAWN_KILLED + SIGKILL ?
	       err_set(err, EPROTO, "the process that reads the state was killed by signal %d", status - SPAWN_KILLED) :
	       err_set(err, EPROTO, "the process that reads the state has ended");
}

static int
failed(struct ipc_message *m, struct err *err)
{
	const char *why;
	uint32_t code;

	if (buf_get_u32(&m->body, &code) < 0 || buf_get_str(&m->body, &why) < 0 || code == 0 || code > 4095)
		return -EBADMSG;
	(void)err_set(err, (int)code, "%s", why);
	return 1;
}

/* Waits for a message.  The worker may be in an agent's hands: it gets neither all the time nor all the disk. */
static int
await_answer(const struct state *state, int64_t begun, int64_t *look, struct err *err)
{
	for (;;) {
		int64_t now = io_now_ms();

		if (now - begun > ASK_MS)
			return err_set(err, ETIMEDOUT, "the process that reads the state took over an hour");
		if (now >= *look) {
			*look = now + LOOK_MS;
			if (now > begun && state_room_used(state, false) > state->limits.disk + 2 * state->limits.bytes)
				return state_room_check(state, false, err);
		}
		if (io_is_readable(state->channel, *look))
			return 0;
	}
}

/* 1: that was the last. */
static int
hear(const struct state *state, struct ipc_message *m, state_heard *heard, void *arg, struct err *err)
{
	uint64_t done, total;

	if (m->type == STATE_DONE)
		return 1;
	if (m->type == STATE_STEP) {
		if (buf_get_u64(&m->body, &done) < 0 || buf_get_u64(&m->body, &total) < 0)
			return -EBADMSG;
		if (state->progress)
			progress_count(done, total);
		return 0;
	}
	return heard == NULL || (m->type != STATE_CHUNK && m->type != STATE_REFUSED && m->type != STATE_WITHHELD && m->type != STATE_FLAG) ? -EBADMSG : heard(arg, m, err);
}

int
state_ask(struct state *state, const struct buf *question, state_heard *heard, void *arg,
          struct ipc_message *ret_done, struct err *err)
{
	int64_t begun = io_now_ms(), look = begun + LOOK_MS;
	int r = ipc_send(state->channel, question, NULL, 0, err);
	unsigned steps = 0;

	if (r == -EPIPE || r == -ECONNRESET)
		return gone(state, err);
	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message m = {0};

		r = await_answer(state, begun, &look, err);
		if (r < 0) {
			(void)gone(state, NULL);
			return r;
		}
		r = ipc_receive(state->channel, &m, err);
		if (r < 0 || (m.type == STATE_STEP && ++steps > STEPS_MAX))
			return gone(state, err);
		if (m.type == STATE_FAILED) {
			r = failed(&m, err);
			return r == 1 ? -err->code : gone(state, err);
		}
		r = hear(state, &m, heard, arg, err);
		if (r == 1) {
			*ret_done = m;
			m = (struct ipc_message){0};
			return 0;
		}
		/* The worker would go on with the answer. */
		if (r < 0) {
			struct err why = err == NULL ? (struct err){0} : *err;

			(void)gone(state, err);
			if (r != -EBADMSG && err != NULL)
				*err = why;
		}
	}
	return r;
}
