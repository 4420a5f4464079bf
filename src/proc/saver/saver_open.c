/* saver_open.c - opens states for a cell, and takes their locks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "policy/policy_state.h"
#include "proc/saver/saver.h"

#define PATIENCE_MS 15000               /* for the saver of a cell that has ended */
#define STEP_NS 20000000

struct asked {
	const char *name, *commit, *guards;
	uint32_t on_busy;
};

/* Whether a cell with this id has a living supervisor. */
static bool
runs(const char *cell)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	struct cell_entry entry;

	return runtime >= 0 && cell[0] != '\0' && cell_find(runtime, true, cell, &entry, NULL) == 0 &&
	       cell_is_alive(runtime, &entry);
}

/* The saver of a cell that has just ended, or crashed, is about to give it up. */
static int
lock_patiently(const struct saver *s, const struct saved *one, const char *branch, char ret_holder[STATE_CELL_MAX],
               struct err *err)
{
	const int64_t until = io_now_ms() + PATIENCE_MS;
	int fd;

	while ((fd = state_lock_writer(&one->state, branch, s->cell, ret_holder, err)) == -EBUSY && !runs(ret_holder) &&
	       io_now_ms() < until)
		(void)nanosleep(&(struct timespec){ .tv_nsec = STEP_NS }, NULL);
	return fd;
}

static int
open_or_make(const char *name, struct state *ret_state, struct err *err)
{
	int r = state_open(name, ret_state, err);

	if (r != -ENOENT)
		return r;
	r = state_create(name, NULL, err);
	return r < 0 && r != -EEXIST ? r : state_open(name, ret_state, err);
}

static int
take_branch(struct saver *s, struct saved *one, struct err *err)
{
	const struct state_author author = { .subject = "Make a branch for a cell", .reason = "branch", .cell = s->cell };
	int r;

	snprintf(one->branch, sizeof(one->branch), "cell-%s", s->cell);
	r = state_make_branch(&one->state, one->branch, one->head, &author, err);
	if (r < 0)
		return r;
	one->lock = state_lock_writer(&one->state, one->branch, s->cell, NULL, err);
	return one->lock < 0 ? one->lock : 0;
}

/* HOLDER has it. */
static int
make_do(struct saver *s, struct saved *one, const struct asked *asked, const char *holder, struct err *err)
{
	int r;

	if (asked->on_busy == POLICY_STATE_REFUSE)
		return err_set(err, EBUSY, "cell %s has the state '%s': wait until it has ended, or write `on_busy: branch` or "
		               "`on_busy: read-only` in the policy's `state`", holder, asked->name);
	r = state_head(&one->state, NULL, one->head, err);
	return r < 0 || asked->on_busy == POLICY_STATE_READ_ONLY ? r : take_branch(s, one, err);
}

static int
open_one(struct saver *s, struct saved *one, const struct asked *asked, struct buf *answer, struct err *err)
{
	char holder[STATE_CELL_MAX] = "";
	OWN(freep) char *path = NULL;
	int r = open_or_make(asked->name, &one->state, err);

	if (r < 0)
		return r;
	one->guards = strdup(asked->guards);
	one->state.guards = one->guards;
	snprintf(one->branch, sizeof(one->branch), STATE_MAIN);
	one->lock = lock_patiently(s, one, STATE_MAIN, holder, err);
	if (one->lock >= 0) {
		holder[0] = '\0';
		r = saver_recover(&one->state, err);
		r = r == 0 ? state_head(&one->state, NULL, one->head, err) : r;
	} else {
		r = one->lock == -EBUSY ? make_do(s, one, asked, holder, err) : one->lock;
	}
	if (r == 0 && asked->commit[0] != '\0' && strcmp(asked->commit, one->head) != 0)
		r = err_set(err, ESTALE, "the state '%s' is at %.12s, and no longer at %.12s, for which the cell's document was "
		            "made: make a new one", asked->name, one->head, asked->commit);
	memcpy(one->base, one->head, sizeof(one->base));
	r = r == 0 ? state_checkout(&one->state, one->base, &path, err) : r;
	if (r < 0 || one->guards == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	buf_put_str(answer, one->base);
	buf_put_str(answer, path);
	buf_put_str(answer, one->branch);
	buf_put_u32(answer, one->lock < 0);
	buf_put_str(answer, holder);
	return 0;
}

int
saver_open(struct saver *s, struct ipc_message *m, struct buf *ret_answer, struct err *err)
{
	uint32_t n;
	int r = 0;

	if (buf_dup_str(&m->body, &s->cell) < 0 || !cell_id_ok(s->cell) || buf_get_u32(&m->body, &n) < 0 || n == 0 ||
	    n > CELL_STATES_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		struct asked asked;

		if (buf_get_str(&m->body, &asked.name) < 0 || buf_get_str(&m->body, &asked.commit) < 0 ||
		    buf_get_u32(&m->body, &asked.on_busy) < 0 || asked.on_busy > POLICY_STATE_BRANCH ||
		    buf_get_str(&m->body, &asked.guards) < 0 || !policy_state_guards_ok(asked.guards))
			return -EBADMSG;
		s->n++;
		r = open_one(s, &s->states[i], &asked, ret_answer, err);
	}
	return r;
}
