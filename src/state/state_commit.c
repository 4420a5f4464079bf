/* state_commit.c - commits a cell's changes, and goes back to an earlier commit. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/utf8.h"
#include "state/state_parts.h"

void
state_committed_free(struct state_committed *c)
{
	for (size_t i = 0; i < c->n_listed; i++) {
		free(c->refused[i].path);
		free(c->refused[i].why);
	}
	free(c->refused);
	*c = (struct state_committed){0};
}

static int
add_refused(struct state_committed *c, const char *path, const char *why, enum state_kept kept, struct err *err)
{
	struct state_refused *more = realloc(c->refused, (c->n_listed + 1) * sizeof(*more)), one;

	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	c->refused = more;
	one = (struct state_refused){ strdup(path), strdup(why), kept };
	more[c->n_listed++] = one;
	return one.path == NULL || one.why == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

#define FLAG_PART 80                    /* bytes of a path or of what it has */
#define FLAG_REST 32                    /* of " and N more" */

/* Paths are an agent's. */
static void
put_flag_part(char ret[FLAG_PART + 1], const char *text)
{
	size_t len = strnlen(text, FLAG_PART), at = 0, n;
	uint32_t code;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_next(text + i, len - i, &code);
		if (n == 0 || utf8_is_control(code)) {
			n = n == 0 ? 1 : n;
			ret[at++] = '?';
		} else {
			memcpy(ret + at, text + i, n);
			at += n;
		}
	}
	ret[at] = '\0';
}

/* At least one is named, however long its path is. */
static void
add_flag(struct state_committed *c, const char *path, const char *what)
{
	char part[FLAG_PART + 1], kind[FLAG_PART + 1];
	size_t len = strlen(c->flags);

	put_flag_part(part, path);
	put_flag_part(kind, what);
	if (c->n_flags == c->n_flagged && len + strlen(part) + strlen(kind) + 4 + FLAG_REST < sizeof(c->flags)) {
		snprintf(c->flags + len, sizeof(c->flags) - len, "%s%s: %s", len > 0 ? ", " : "", part, kind);
		c->n_flagged++;
	}
	c->n_flags++;
}

static void
end_flags(struct state_committed *c)
{
	size_t len = strlen(c->flags);

	if (c->n_flags > c->n_flagged)
		snprintf(c->flags + len, sizeof(c->flags) - len, " and %llu more", (unsigned long long)(c->n_flags - c->n_flagged));
}

int
state_take_refused(void *arg, struct ipc_message *m, struct err *err)
{
	struct state_committed *c = arg;
	const char *path, *why;
	uint32_t pending = 0;

	if ((m->type != STATE_REFUSED && m->type != STATE_WITHHELD && m->type != STATE_FLAG) ||
	    (m->type == STATE_WITHHELD && (buf_get_u32(&m->body, &pending) < 0 || pending > 1)) ||
	    buf_get_str(&m->body, &path) < 0 || buf_get_str(&m->body, &why) < 0)
		return -EBADMSG;
	if (m->type == STATE_FLAG) {
		add_flag(c, path, why);
		return 0;
	}
	return c->n_listed >= 2 * STATE_REFUSED_MAX ? 0 :
	       add_refused(c, path, why, m->type == STATE_REFUSED ? STATE_KEPT_ASIDE : pending != 0 ? STATE_KEPT_PENDING :
	                   STATE_KEPT_REFUSED, err);
}

int
state_take_withheld(struct buf *b, struct state_withheld *ret, struct state_committed *c, struct err *err)
{
	const char *tree, *listing, *sum;

	if (buf_get_str(b, &tree) < 0 || buf_get_str(b, &listing) < 0 || buf_get_str(b, &sum) < 0 || buf_get_u64(b, &c->n_withheld) < 0 ||
	    buf_get_u64(b, &c->n_pending) < 0 || (c->n_withheld > 0 && (!state_is_id(tree) || strlen(listing) != STATE_SUM || strlen(sum) != STATE_SUM)))
		return err_set(err, EPROTO, "the process that writes the state answered nonsense");
	snprintf(ret->tree, sizeof(ret->tree), "%s", tree);
	snprintf(ret->listing, sizeof(ret->listing), "%s", listing);
	snprintf(ret->sum, sizeof(ret->sum), "%s", sum);
	return 0;
}

int
state_take_tree(struct buf *b, char ret_tree[STATE_ID + 1], struct state_committed *c, struct err *err)
{
	const char *tree, *sum;

	if (buf_get_str(b, &tree) < 0 || buf_get_str(b, &sum) < 0 || buf_get_u64(b, &c->files) < 0 ||
	    buf_get_u64(b, &c->bytes) < 0 || buf_get_u64(b, &c->added) < 0 || buf_get_u64(b, &c->changed) < 0 ||
	    buf_get_u64(b, &c->removed) < 0 || buf_get_u64(b, &c->n_refused) < 0 || !state_is_id(tree) ||
	    strlen(sum) != STATE_SUM)
		return err_set(err, EPROTO, "the process that writes the state answered nonsense");
	memcpy(ret_tree, tree, STATE_ID + 1);
	memcpy(c->tree, sum, STATE_SUM + 1);
	return 0;
}

void
state_name_aside(const struct state_author *author, char ret_name[STATE_NAME_MAX])
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(ret_name, STATE_NAME_MAX, "%lld.%09ld-%.20s", (long long)now.tv_sec, now.tv_nsec,
	         author->cell != NULL && state_is_name(author->cell) ? author->cell : "refused");
}

/* What a commit is made of, and what is kept from it. */
struct trees {
	char tree[STATE_ID + 1];
	struct state_withheld withheld;
};

static int
ask_tree(struct state *state, const char *base, const char *head, int changes, const struct state_author *author,
         struct trees *ret, struct state_committed *c, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	int r = state_worker_start(state, changes, -1, err);

	if (r < 0)
		return r;
	state_name_aside(author, c->aside);
	ipc_begin(&b, STATE_ASK_TREE);
	buf_put_str(&b, base);
	buf_put_str(&b, c->aside);
	buf_put_u32(&b, STATE_CHANGES);
	buf_put_str(&b, head);
	buf_put_str(&b, state->guards != NULL ? state->guards : "");
	r = state_room_check(state, false, err);
	r = r == 0 ? state_ask(state, &b, state_take_refused, c, &done, err) : r;
	r = r == 0 ? state_take_withheld(&done.body, &ret->withheld, c, err) : r;
	r = r == 0 ? state_take_tree(&done.body, ret->tree, c, err) : r;
	end_flags(c);
	if (r == 0 && c->n_refused == 0)
		c->aside[0] = '\0';
	/* The caller may throw the changes away then. */
	if (r == 0 && c->n_refused > 0 && syncfs(state->dir) < 0)
		r = err_errno(err, "cannot write state '%s' to its disk", state->name);
	return r;
}

/* Its tree is TREE. */
static int
has_tree(struct state *state, const char *commit, const char *tree, char ret_parent[STATE_ID + 1], bool *ret_has,
         struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	int r = state_get_commit(state, commit, &bytes, &text, err);

	if (r < 0)
		return r;
	*ret_has = strcmp(text.tree, tree) == 0;
	snprintf(ret_parent, STATE_ID + 1, "%s", text.n_parents > 0 ? text.parents[0] : "");
	return 0;
}

static int
check_base(struct state *state, const char *ref, const char *head, const char *base, const char *tree,
           struct state_committed *c, struct err *err)
{
	char parent[STATE_ID + 1];
	bool has;
	int r = has_tree(state, head, tree, parent, &has, err);

	if (r < 0)
		return r;
	c->same = has && (strcmp(head, base) == 0 || strcmp(parent, base) == 0);
	if (c->same || strcmp(head, base) == 0)
		return 0;
	return err_set(err, ESTALE, "'%s' of state '%s' has moved from %.12s to %.12s meanwhile: commit to a branch of its own, then "
	               "merge it", ref, state->name, base, head);
}

static int
commit_locked(struct state *state, const char *ref, const char *parent, const char *base, int changes,
              const struct state_author *author, struct state_committed *c, struct err *err)
{
	struct state_change change = { .type = "state.committed", .sum = c->tree, .author = author };
	struct state_author flagged = *author;
	char head[STATE_ID + 1];
	struct trees trees;
	int r = state_ref_read(state->dir, ref, head, err);

	if (r == 0)
		r = ask_tree(state, base, parent, changes, author, &trees, c, err);
	if (r == 0)
		r = check_base(state, ref, head, parent, trees.tree, c, err);
	if (r == 0 && c->n_refused + c->n_withheld > 0)
		r = state_review_keep(state, ref, parent, &trees.withheld, author, c, err);
	if (r < 0)
		return r;
	memcpy(c->commit, head, sizeof(head));
	if (c->same)
		return 0;
	flagged.flags = c->flags;
	change.author = &flagged;
	r = state_put_commit(state, trees.tree, c->tree, &parent, 1, &flagged, c->commit, err);
	if (r < 0)
		return r;
	memcpy(change.ref, ref, sizeof(change.ref));
	memcpy(change.from, head, sizeof(head));
	memcpy(change.to, c->commit, sizeof(c->commit));
	return state_change(state, &change, err);
}

int
state_commit_over(struct state *state, const char *branch, const char *parent, const char *base, int changes,
                  const struct state_author *author, struct state_committed *ret, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(closep) int lock = -1;
	char ref[STATE_REF_MAX] = "";
	int r = state_ref_of(branch, ref, err);

	if (r == 0 && (!state_is_id(base) || !state_is_id(parent)))
		r = err_set(err, EINVAL, "'%.80s' is not the id of a commit", state_is_id(base) ? parent : base);
	if (r < 0)
		return r;
	lock = state_lock(state, err);
	r = lock < 0 ? lock : state_repair(state, err);
	if (r == 0)
		r = commit_locked(state, ref, parent, base, changes, author, &c, err);
	if (r < 0)
		return r;
	*ret = c;
	c = (struct state_committed){0};
	return 0;
}

int
state_commit(struct state *state, const char *branch, const char *base, int changes, const struct state_author *author,
             struct state_committed *ret, struct err *err)
{
	return state_commit_over(state, branch, base, base, changes, author, ret, err);
}

/* ---- branches ---- */

int
state_make_branch(struct state *state, const char *branch, const char *commit, const struct state_author *author,
                  struct err *err)
{
	struct state_change change = { .type = "state.branched", .source = commit, .author = author };
	char there[STATE_ID + 1];
	OWN(closep) int lock = -1;
	int r = state_ref_of(branch, change.ref, err);

	if (r < 0)
		return r;
	lock = state_lock(state, err);
	r = lock < 0 ? lock : state_repair(state, err);
	if (r == 0 && state_ref_read(state->dir, change.ref, there, NULL) == 0)
		return err_set(err, EEXIST, "state '%s' has a branch '%s' already", state->name, branch);
	snprintf(change.to, sizeof(change.to), "%s", commit);
	return r < 0 ? r : state_change(state, &change, err);
}

/* ---- going back ---- */

static int
rollback_locked(struct state *state, const char *ref, const char *commit, const struct state_author *author,
                struct state_committed *c, struct err *err)
{
	OWN(state_text_free) struct state_text text = {0};
	OWN(buf_free) struct buf bytes = {0};
	struct state_change change = { .type = "state.rolled_back", .sum = c->tree, .source = commit, .author = author };
	char head[STATE_ID + 1], parent[STATE_ID + 1];
	int r = state_ref_read(state->dir, ref, head, err);

	r = r == 0 ? state_worker_start(state, -1, -1, err) : r;
	r = r == 0 ? state_get_commit(state, commit, &bytes, &text, err) : r;
	r = r == 0 ? has_tree(state, head, text.tree, parent, &c->same, err) : r;
	if (r < 0)
		return r;
	memcpy(c->commit, head, sizeof(head));
	memcpy(c->tree, text.sum, sizeof(text.sum));
	if (c->same)
		return 0;
	r = state_put_commit(state, text.tree, text.sum, (const char *const[]){ head }, 1, author, c->commit, err);
	if (r < 0)
		return r;
	memcpy(change.ref, ref, sizeof(change.ref));
	memcpy(change.from, head, sizeof(head));
	memcpy(change.to, c->commit, sizeof(c->commit));
	return state_change(state, &change, err);
}

static int
roll_back(struct state *state, const char *ref, const char *commit, const struct state_author *author, struct state_committed *ret,
          struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(closep) int lock = state_lock(state, err);
	int r = lock < 0 ? lock : state_repair(state, err);

	r = r == 0 ? rollback_locked(state, ref, commit, author, &c, err) : r;
	if (r < 0)
		return r;
	*ret = c;
	c = (struct state_committed){0};
	return 0;
}

int
state_rollback(struct state *state, const char *branch, const char *commit, const struct state_author *author,
               struct state_committed *ret, struct err *err)
{
	OWN(closep) int writer = -1;
	char ref[STATE_REF_MAX];
	int r = state_ref_of(branch, ref, err);

	writer = r < 0 ? r : state_lock_writer(state, branch, "", NULL, err);
	return writer < 0 ? writer : roll_back(state, ref, commit, author, ret, err);
}

int
state_go_back(struct state *state, const char *branch, const char *commit, const struct state_author *author,
              struct state_committed *ret, struct err *err)
{
	char ref[STATE_REF_MAX], good[STATE_ID + 1];
	int r = state_ref_of(branch, ref, err);
	const int found = r < 0 ? r : state_ref_read(state->dir, "refs/tags/" STATE_GOOD, good, err);

	if (found < 0 && found != -ENOENT)
		return found;
	return roll_back(state, ref, found == 0 ? good : commit, author, ret, err);
}
