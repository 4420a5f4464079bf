/* state_refs.c - finds commits by what people call them; makes and removes branches and tags; merges. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "state/state_parts.h"

#define ANCESTORS_MAX 100000

/* ---- names of commits ---- */

static int
find(struct state *state, const char *word, char ret_commit[STATE_ID + 1], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	const char *id;
	int r = state_worker_start(state, -1, -1, err);

	if (r < 0)
		return r;
	ipc_begin(&b, STATE_ASK_FIND);
	buf_put_str(&b, word);
	r = state_ask(state, &b, NULL, NULL, &done, err);
	if (r < 0)
		return r;
	if (buf_get_str(&done.body, &id) < 0 || !state_is_id(id))
		return err_set(err, EPROTO, "the process that reads the state answered nonsense");
	memcpy(ret_commit, id, STATE_ID + 1);
	return 0;
}

static int
named(struct state *state, const char *word, char ret_commit[STATE_ID + 1], struct err *err)
{
	static const char *const kinds[] = { "refs/tags/", "refs/heads/" };
	size_t len = strlen(word);
	char ref[STATE_REF_MAX];

	for (size_t i = 0; state_is_name(word) && i < ARRAY_LEN(kinds); i++) {
		int r;

		snprintf(ref, sizeof(ref), "%s%s", kinds[i], word);
		r = state_ref_read(state->dir, ref, ret_commit, err);
		if (r != -ENOENT)
			return r;
	}
	if (len >= 4 && len <= STATE_ID && strspn(word, "0123456789abcdef") == len)
		return find(state, word, ret_commit, err);
	return err_set(err, ENOENT, "state '%s' has no tag, branch or commit '%.80s'", state->name, word);
}

static int
go_back(struct state *state, uint64_t n, char commit[STATE_ID + 1], struct err *err)
{
	int r = state_worker_start(state, -1, -1, err);

	for (; r == 0 && n > 0; n--) {
		OWN(state_text_free) struct state_text text = {0};
		OWN(buf_free) struct buf bytes = {0};

		r = state_get_commit(state, commit, &bytes, &text, err);
		if (r == 0 && text.n_parents == 0)
			return err_set(err, ENOENT, "the history of state '%s' does not go back so far", state->name);
		if (r == 0)
			memcpy(commit, text.parents[0], STATE_ID + 1);
	}
	return r;
}

int
state_resolve(struct state *state, const char *word, char ret_commit[STATE_ID + 1], struct err *err)
{
	char name[STATE_NAME_MAX], commit[STATE_ID + 1];
	const char *tilde = strchr(word, '~');
	size_t len = tilde == NULL ? strlen(word) : (size_t)(tilde - word);
	uint64_t n = 0;
	int r = 0;

	if (len >= sizeof(name))
		return err_set(err, ENOENT, "state '%s' has no tag, branch or commit '%.80s'", state->name, word);
	if (tilde != NULL)
		r = num_parse_count(tilde + 1, 0, ANCESTORS_MAX, &n, err);
	snprintf(name, sizeof(name), "%.*s", (int)len, word);
	r = r == 0 ? named(state, name, commit, err) : r;
	r = r == 0 ? go_back(state, n, commit, err) : r;
	if (r == 0)
		memcpy(ret_commit, commit, sizeof(commit));
	return r;
}

/* ---- branches and tags ---- */

static int
point_locked(struct state *state, bool tag, const char *name, const char *commit, const struct state_author *author,
             struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	OWN(freep) struct state_ref *refs = NULL;
	struct state_change change = { .type = tag ? "state.tagged" : "state.branched", .author = author };
	size_t n = 0;
	int r;

	snprintf(change.ref, sizeof(change.ref), "refs/%s/%s", tag ? "tags" : "heads", name);
	r = state_ref_read(state->dir, change.ref, change.from, NULL);
	if (r < 0 && r != -ENOENT)
		return err_set(err, -r, "cannot read '%s' of state '%s'", change.ref, state->name);
	if (r == 0 && *commit != '\0')
		return err_set(err, EEXIST, "state '%s' has a %s '%s' already: remove it first, or take another name", state->name,
		               tag ? "tag" : "branch", name);
	if (r < 0 && *commit == '\0')
		return err_set(err, ENOENT, "state '%s' has no %s '%s'", state->name, tag ? "tag" : "branch", name);
	if (*commit == '\0') {
		change.type = tag ? "state.untagged" : "state.unbranched";
		return state_change(state, &change, err);
	}
	change.from[0] = '\0';
	r = state_ref_list(state->dir, &refs, &n, err);
	if (r == 0 && n >= STATE_REFS_MAX)
		return err_set(err, E2BIG, "state '%s' has %d branches and tags already", state->name, STATE_REFS_MAX);
	r = r == 0 ? state_worker_start(state, -1, -1, err) : r;
	r = r == 0 ? state_get_commit(state, commit, &bytes, &text, err) : r;
	if (r < 0)
		return r;
	snprintf(change.to, sizeof(change.to), "%s", commit);
	change.sum = text.sum;
	return state_change(state, &change, err);
}

int
state_point(struct state *state, bool tag, const char *name, const char *commit, const struct state_author *author,
            struct err *err)
{
	OWN(closep) int writer = -1, lock = -1;
	int r = state_check_name(tag ? "tag" : "branch", name, err);

	if (r < 0)
		return r;
	if (!tag && *commit == '\0' && strcmp(name, STATE_MAIN) == 0)
		return err_set(err, EPERM, "the branch '" STATE_MAIN "' is the state itself: `cloister state remove` removes that");
	if (!tag && *commit == '\0') {
		writer = state_lock_writer(state, name, "", NULL, err);
		if (writer < 0)
			return writer;
	}
	lock = state_lock(state, err);
	r = lock < 0 ? lock : state_repair(state, err);
	return r < 0 ? r : point_locked(state, tag, name, commit, author, err);
}

/* ---- merges ---- */

static int
ask_merge(struct state *state, const char *ours, const char *theirs, char ret_tree[STATE_ID + 1], struct state_committed *c,
          struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	int r = state_worker_start(state, -1, -1, err);

	if (r < 0)
		return r;
	ipc_begin(&b, STATE_ASK_MERGE);
	buf_put_str(&b, ours);
	buf_put_str(&b, theirs);
	r = state_room_check(state, false, err);
	r = r == 0 ? state_ask(state, &b, state_take_refused, c, &done, err) : r;
	return r == 0 ? state_take_tree(&done.body, ret_tree, c, err) : r;
}

static int
merge_locked(struct state *state, const char *ref, const char *theirs, const struct state_author *author,
             struct state_committed *c, struct err *err)
{
	struct state_change change = { .type = "state.merged", .sum = c->tree, .source = theirs, .author = author };
	char tree[STATE_ID + 1], ours[STATE_ID + 1];
	int r = state_ref_read(state->dir, ref, ours, err);

	r = r == 0 ? ask_merge(state, ours, theirs, tree, c, err) : r;
	if (r < 0)
		return r;
	memcpy(c->commit, ours, sizeof(ours));
	c->same = strcmp(ours, theirs) == 0 || c->added + c->changed + c->removed == 0;
	if (c->n_refused > 0 || c->same)
		return 0;
	r = state_put_commit(state, tree, c->tree, (const char *const[]){ ours, theirs }, 2, author, c->commit, err);
	if (r < 0)
		return r;
	memcpy(change.ref, ref, sizeof(change.ref));
	memcpy(change.from, ours, sizeof(ours));
	memcpy(change.to, c->commit, sizeof(c->commit));
	return state_change(state, &change, err);
}

int
state_merge(struct state *state, const char *branch, const char *commit, const struct state_author *author,
            struct state_committed *ret, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(closep) int writer = -1, lock = -1;
	char ref[STATE_REF_MAX] = "";
	int r = state_ref_of(branch, ref, err);

	writer = r < 0 ? r : state_lock_writer(state, branch, "", NULL, err);
	if (writer < 0)
		return writer;
	lock = state_lock(state, err);
	r = lock < 0 ? lock : state_repair(state, err);
	r = r == 0 ? merge_locked(state, ref, commit, author, &c, err) : r;
	if (r < 0)
		return r;
	*ret = c;
	c = (struct state_committed){0};
	return 0;
}
