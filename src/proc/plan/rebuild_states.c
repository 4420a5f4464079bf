/* rebuild_states.c - makes the states of a plan: for each branch and tag a commit with its files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/plan/plan_proc.h"
#include "state/state_read.h"

#define KIND "state"
#define MAIN_REF "refs/heads/" STATE_MAIN
#define COMMITS_MAX 1000000
/* The plan has what is to be committed, and nothing waits for a person. */
#define GUARDS "secrets allow\ninjection allow\n"

static bool
is_main(const struct plan_ref *ref)
{
	return strcmp(ref->ref, MAIN_REF) == 0;
}

/* The SHA-256 of the files at REF; "": there is no such branch or tag. */
static int
sum_at(struct rebuild *b, struct state *state, const char *ref, char ret_sum[STATE_SUM + 1], struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	char commit[STATE_ID + 1];
	int r = state_ref_read(state->dir, ref, commit, err);

	ret_sum[0] = '\0';
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = state_check_commit(state, commit, b->key, NULL, &text, err);
	if (r == 0)
		snprintf(ret_sum, STATE_SUM + 1, "%s", text.sum);
	return r;
}

static int
compare(struct rebuild *b, struct state *state, const struct plan_state *s, bool *ret_same, struct err *err)
{
	char sum[STATE_SUM + 1];
	int r = 0;

	*ret_same = memcmp(&state->limits, &s->limits, sizeof(s->limits)) == 0;
	for (size_t i = 0; r == 0 && *ret_same && i < s->n_refs; i++) {
		r = sum_at(b, state, s->refs[i].ref, sum, err);
		*ret_same = strcmp(sum, s->refs[i].files) == 0;
	}
	return r;
}

/* Every state begins with an empty commit: the base of a whole tree. */
static int
find_root(struct state *state, const char *head, char ret_root[STATE_ID + 1], struct err *err)
{
	char commit[STATE_ID + 1];
	int r = state_worker_start(state, -1, -1, err);

	snprintf(commit, sizeof(commit), "%s", head);
	for (size_t i = 0; r == 0 && i < COMMITS_MAX; i++) {
		OWN(state_text_free) struct state_text text = {0};
		OWN(buf_free) struct buf bytes = {0};

		r = state_get_commit(state, commit, &bytes, &text, err);
		if (r == 0 && text.n_parents == 0) {
			memcpy(ret_root, commit, sizeof(commit));
			return 0;
		}
		if (r == 0)
			memcpy(commit, text.parents[0], sizeof(commit));
	}
	return r < 0 ? r : err_set(err, E2BIG, "the history is longer than %d commits", COMMITS_MAX);
}

/* A commit on main with exactly the files of REF, which it may already have. */
static int
commit_files(struct rebuild *b, struct state *state, const char *root, const struct plan_ref *ref, char ret_commit[STATE_ID + 1],
             struct err *err)
{
	const struct state_author author = { .subject = "Rebuild from a plan", .reason = "rebuild" };
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(closep) int folder = rebuild_make_folder(b, err);
	char head[STATE_ID + 1], sum[STATE_SUM + 1];
	int r = folder < 0 ? folder : state_head(state, NULL, head, err);

	r = r == 0 ? sum_at(b, state, MAIN_REF, sum, err) : r;
	if (r == 0 && strcmp(sum, ref->files) == 0) {
		memcpy(ret_commit, head, sizeof(head));
		return 0;
	}
	r = r == 0 ? plan_make_tree(b->data, ref->files, folder, err) : r;
	r = r == 0 ? state_commit_over(state, NULL, head, root, folder, &author, &c, err) : r;
	if (r == 0 && (c.n_refused > 0 || strcmp(c.tree, ref->files) != 0))
		r = err_set(err, EBADMSG, "its files at '%s' are not what the plan says", ref->ref);
	memcpy(ret_commit, c.commit, sizeof(c.commit));
	return r;
}

static int
point(struct state *state, const struct plan_ref *ref, const char *commit, struct err *err)
{
	const struct state_author author = { .subject = "Rebuild from a plan", .reason = "rebuild" };
	const bool tag = strncmp(ref->ref, "refs/tags/", 10) == 0;

	const char *name = ref->ref + (tag ? 10 : 11);
	char old[STATE_ID + 1];
	int r = state_ref_read(state->dir, ref->ref, old, NULL) == 0 ? state_point(state, tag, name, "", &author, err) : 0;

	return r < 0 ? r : state_point(state, tag, name, commit, &author, err);
}

static int
fill(struct rebuild *b, struct state *state, const struct plan_state *s, struct err *err)
{
	OWN(closep) int writer = state_lock_writer(state, STATE_MAIN, "rebuild", NULL, err);
	char head[STATE_ID + 1], root[STATE_ID + 1], commit[STATE_ID + 1], sum[STATE_SUM + 1];
	int r = writer < 0 ? writer : state_head(state, NULL, head, err);

	r = r == 0 ? find_root(state, head, root, err) : r;
	for (size_t i = 0; r == 0 && i < s->n_refs; i++) {
		const struct plan_ref *ref = &s->refs[i];

		r = is_main(ref) ? 0 : sum_at(b, state, ref->ref, sum, err);
		if (r < 0 || is_main(ref) || strcmp(sum, ref->files) == 0)
			continue;
		r = commit_files(b, state, root, ref, commit, err);
		r = r == 0 ? point(state, ref, commit, err) : r;
	}
	/* Last, because the others needed it. */
	for (size_t i = 0; r == 0 && i < s->n_refs; i++)
		r = is_main(&s->refs[i]) ? commit_files(b, state, root, &s->refs[i], commit, err) : 0;
	return r;
}

static bool
has_data(const struct rebuild *b, const struct plan_state *s)
{
	for (size_t i = 0; i < s->n_refs; i++)
		if (b->data < 0 || faccessat(b->data, s->refs[i].files, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return false;
	return true;
}

/* It exists, or is made. */
static int
make(struct rebuild *b, const struct plan_state *s, bool exists, struct err *err)
{
	OWN(state_close) struct state state = {0};
	int r = rebuild_begin(b, KIND, s->name, err);

	r = r == 0 && !exists ? state_create(s->name, &s->limits, err) : r;
	r = r == 0 ? state_open(s->name, &state, err) : r;
	if (r == 0 && memcmp(&state.limits, &s->limits, sizeof(s->limits)) != 0) {
		r = state_write_limits(state.dir, &s->limits, err);
		state.limits = s->limits;
	}
	state.guards = GUARDS;
	/* A machine that was empty has a key by now. */
	r = r == 0 ? state_public_key(b->key, err) : r;
	r = r == 0 ? fill(b, &state, s, err) : r;
	rebuild_drop_folder(b);
	return r == 0 ? rebuild_end(b, KIND, s->name, err) : r;
}

static int
rebuild_state(struct rebuild *b, const struct plan_state *s, struct err *err)
{
	OWN(state_close) struct state state = {0};
	bool same = false, may = rebuild_may_change(b, KIND, s->name), exists;
	char head[STATE_ID + 1];
	struct err why = {0};
	int r = state_open(s->name, &state, &why);

	/* One that was killed while it was made has no branch yet. */
	r = r == 0 ? state_head(&state, NULL, head, &why) : r;
	exists = r != -ENOENT;
	r = r == 0 ? compare(b, &state, s, &same, &why) : r;
	state_close(&state);
	state = (struct state){0};
	if (r < 0 && r != -ENOENT)
		return rebuild_note(b, KIND, s->name, ITEM_FAILED, why.text, err);
	if (same) {
		r = b->dry ? 0 : rebuild_end(b, KIND, s->name, err);
		return r < 0 ? r : rebuild_note(b, KIND, s->name, ITEM_SAME, NULL, err);
	}
	if (exists && !may)
		return rebuild_note(b, KIND, s->name, ITEM_DIFFERS, "--replace adds commits with the plan's files", err);
	if (!has_data(b, s))
		return rebuild_note(b, KIND, s->name, ITEM_MISSING, "its files are not in the plan: export it with --with-data", err);
	if (b->dry)
		return rebuild_note(b, KIND, s->name, exists ? ITEM_DIFFERS : ITEM_ABSENT, NULL, err);
	r = make(b, s, exists, &why);
	return rebuild_note(b, KIND, s->name, r < 0 ? ITEM_FAILED : exists && b->replace ? ITEM_REPLACED : ITEM_MADE,
	                    r < 0 ? why.text : NULL, err);
}

int
rebuild_states(struct rebuild *b, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->plan.n_states; i++)
		r = rebuild_state(b, &b->plan.states[i], err);
	return r;
}
