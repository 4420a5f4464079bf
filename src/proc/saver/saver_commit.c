/* saver_commit.c - collects what the cell has made of its states, and commits it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/overlay/overlay.h"
#include "cell/cell_unsaved.h"
#include "proc/saver/saver.h"

#define COLLECTED "collected"

/* What is collected is kept, until it is committed or this process knows that it must not be. */
static int
collect(struct saver *s, size_t i, bool live, bool *ret_changed, uint32_t *ret_left_out, struct err *err)
{
	const struct saved *one = &s->states[i];
	OWN(closep) int target = saver_make_folder(s, COLLECTED, err);
	struct cell_unsaved u;
	int r;

	if (target < 0)
		return target;
	r = overlay_collect(&s->collector, one->upper, target, ret_left_out, live ? ret_changed : NULL, err);
	if (r < 0)
		return r;
	snprintf(u.state, sizeof(u.state), "%s", one->state.name);
	snprintf(u.branch, sizeof(u.branch), "%s", one->branch);
	snprintf(u.base, sizeof(u.base), "%s", one->base);
	snprintf(u.head, sizeof(u.head), "%s", one->head);
	snprintf(u.guards, sizeof(u.guards), "%s", one->guards);
	u.goes_back = s->goes_back != NULL;
	return cell_unsaved_put(s->entry, COLLECTED, (uint32_t)i, &u, err);
}

static int
commit_changes(struct saver *s, size_t i, int changes, const struct saver_why *why, struct state_committed *c, struct err *err)
{
	struct saved *one = &s->states[i];
	OWN(freep) char *timeline = str_format("cell/%s", s->cell);
	char subject[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = why->reason, .who = s->who, .cell = s->cell,
		.cell_name = s->name, .behalf = s->behalf, .dispatch = s->dispatch, .grant = s->grant,
		.timeline = why->timeline_head[0] != '\0' ? timeline : NULL, .timeline_n = why->timeline_n, .timeline_head = why->timeline_head };

	snprintf(subject, sizeof(subject), "Cell %s: %s", s->name[0] != '\0' ? s->name : s->cell, why->reason);
	return state_commit_over(&one->state, one->branch, one->head, one->base, changes, &author, c, err);
}

static int
commit_collected(struct saver *s, size_t i, const struct saver_why *why, struct state_committed *c, struct err *err)
{
	struct cell_unsaved u;
	OWN(closep) int changes = cell_unsaved_get(s->entry, (uint32_t)i, &u, err);
	int r = changes < 0 ? changes : saver_own(changes, err);

	r = r == 0 ? commit_changes(s, i, changes, why, c, err) : r;
	return r == 0 ? cell_unsaved_remove(s->entry, (uint32_t)i, err) : r;
}

/* Of a dead cell, from where they are.  If that fails for whatever reason, they are collected and kept, and tried again. */
static bool
commit_in_place(struct saver *s, size_t i, const struct saver_why *why, struct state_committed *c)
{
	const int upper = s->states[i].upper;

	return !why->live && saver_show(upper) && commit_changes(s, i, upper, why, c, NULL) == 0;
}

static int
commit_one(struct saver *s, size_t i, const struct saver_why *why, bool *ret_changed, struct state_committed *c,
           struct err *err)
{
	struct saved *one = &s->states[i];
	uint32_t left_out = 0;
	int r = 0;

	memcpy(c->commit, one->head, sizeof(c->commit));
	c->same = true;
	/* An earlier commit may have had what is not there any more. */
	if (!overlay_is_changed(one->upper) && strcmp(one->head, one->base) == 0)
		return 0;
	if (!commit_in_place(s, i, why, c)) {
		r = collect(s, i, why->live, ret_changed, &left_out, err);
		r = r == 0 ? commit_collected(s, i, why, c, err) : r;
	}
	if (r < 0)
		return r;
	memcpy(one->head, c->commit, sizeof(one->head));
	return 0;
}

/* What was committed stays in the history, so that a person can look at it. */
static int
go_back(struct saver *s, size_t i, struct state_committed *c, struct err *err)
{
	OWN(state_committed_free) struct state_committed back = {0};
	struct saved *one = &s->states[i];
	char subject[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = SAVER_TRIPWIRE, .who = s->who, .cell = s->cell,
		.cell_name = s->name, .behalf = s->behalf, .dispatch = s->dispatch, .grant = s->grant };
	int r;

	snprintf(subject, sizeof(subject), "Go back: %.200s", s->goes_back);
	r = state_go_back(&one->state, one->branch, one->base, &author, &back, err);
	if (r < 0)
		return err_wrap(err, "state '%s' has not gone back after a tripwire", one->state.name);
	c->same = c->same && back.same;
	memcpy(c->commit, back.commit, sizeof(c->commit));
	memcpy(c->tree, back.tree, sizeof(c->tree));
	memcpy(one->head, back.commit, sizeof(one->head));
	return 0;
}

static void
put_result(struct buf *answer, size_t i, int r, const struct err *err, const struct state_committed *c, const char *head,
           bool went_back)
{
	buf_put_u32(answer, (uint32_t)i);
	buf_put_u32(answer, r < 0 ? (uint32_t)-r : 0);
	buf_put_str(answer, r < 0 ? err->text : "");
	buf_put_u32(answer, r < 0 || c->same);
	buf_put_str(answer, r < 0 ? head : c->commit);
	buf_put_str(answer, c->tree);
	buf_put_u64(answer, c->files);
	buf_put_u64(answer, c->bytes);
	buf_put_u64(answer, c->added);
	buf_put_u64(answer, c->changed);
	buf_put_u64(answer, c->removed);
	buf_put_u64(answer, c->n_refused);
	buf_put_u64(answer, c->n_withheld);
	buf_put_u64(answer, c->n_pending);
	buf_put_str(answer, c->aside);
	buf_put_str(answer, c->review);
	buf_put_str(answer, c->flags);
	buf_put_u32(answer, went_back);
}

void
saver_commit_all(struct saver *s, const struct saver_why *why, struct buf *answer)
{
	uint32_t n = 0;
	bool changed = false;

	for (size_t i = 0; i < s->n; i++)
		n += s->states[i].upper >= 0;
	buf_put_u32(answer, n);
	for (size_t i = 0; i < s->n; i++) {
		OWN(state_committed_free) struct state_committed c = {0};
		const bool goes_back = why->last && s->goes_back != NULL;
		bool one_changed = false;
		struct err err = {0}, why_not = {0};
		int r, back = 0;

		if (s->states[i].upper < 0)
			continue;
		r = commit_one(s, i, why, &one_changed, &c, &err);
		changed = changed || one_changed;
		/* Also if the last changes could not be committed: earlier ones may have been. */
		back = goes_back ? go_back(s, i, &c, &why_not) : 0;
		put_result(answer, i, r < 0 ? r : back, r < 0 ? &err : &why_not, &c, s->states[i].head, goes_back && back == 0);
	}
	buf_put_u32(answer, changed);
}

void
saver_let_go(struct saver *s)
{
	for (size_t i = 0; i < s->n; i++) {
		closep(&s->states[i].lock);
		s->states[i].lock = -1;
		state_close(&s->states[i].state);
		s->states[i].state = (struct state){0};
		closep(&s->states[i].upper);
		s->states[i].upper = -1;
	}
}
