/* worker_merge.c - merges the trees of two commits, file by file.  Nothing is made if there is a conflict. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ipc/compare_channel.h"
#include "proc/state/worker_guard.h"
#include "workspace/compare_merge.h"

#define DEPTH_MAX 256

struct merging {
	struct worker *w;
	uint64_t conflicts;
	char path[STATE_PATH_MAX + 256];
};

struct side {
	git_oid id;
	git_filemode_t mode;            /* 0: it is not there */
};
struct sides {
	struct side base, ours, theirs;
};

static bool
same(const struct side *a, const struct side *b)
{
	return a->mode == b->mode && (a->mode == 0 || git_oid_equal(&a->id, &b->id));
}

static bool
is_text(git_filemode_t mode)
{
	return mode == GIT_FILEMODE_BLOB || mode == GIT_FILEMODE_BLOB_EXECUTABLE;
}

static int
conflict(struct merging *m, const char *why, struct err *err)
{
	return m->conflicts++ >= STATE_REFUSED_MAX ? 0 : worker_send_refused(m->path, why, err);
}

/* ---- texts ---- */

static int
take(void *arg, const char *data, size_t len)
{
	buf_put(arg, data, len);
	return buf_failed(arg) ? -E2BIG : 0;
}

static int
read_side(struct worker *w, const struct side *side, git_odb_object **ret, struct err *err)
{
	return side->mode == 0 || git_odb_read(ret, w->odb, &side->id) == 0 ? 0 : worker_git_error(err, "cannot read a file");
}

static struct compare_text
text_of(git_odb_object *object)
{
	return object == NULL ? (struct compare_text){ "", 0 } :
	       (struct compare_text){ git_odb_object_data(object), git_odb_object_size(object) };
}

static int
merge_text(struct merging *m, const struct sides *s, struct side *ret, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *base = NULL;
	OWN(git_odb_object_freep) git_odb_object *ours = NULL;
	OWN(git_odb_object_freep) git_odb_object *theirs = NULL;
	OWN(buf_free) struct buf merged = BUF(2 * COMPARE_MERGE_MAX);
	struct compare_merge how = {0};
	uint64_t conflicts = 0;
	int r = read_side(m->w, &s->base, &base, err);

	r = r == 0 ? read_side(m->w, &s->ours, &ours, err) : r;
	r = r == 0 ? read_side(m->w, &s->theirs, &theirs, err) : r;
	if (r < 0)
		return r;
	how = (struct compare_merge){ .base = text_of(base), .ours = text_of(ours), .theirs = text_of(theirs) };
	if (worker_is_binary(base) || worker_is_binary(ours) || worker_is_binary(theirs))
		return conflict(m, "both sides changed it, and it is not text", err);
	if (how.base.len > COMPARE_MERGE_MAX || how.ours.len > COMPARE_MERGE_MAX || how.theirs.len > COMPARE_MERGE_MAX ||
	    compare_merge(&how, take, &merged, &conflicts) < 0)
		return conflict(m, "both sides changed it, and it is too large", err);
	if (conflicts > 0)
		return conflict(m, "both sides changed the same lines", err);
	ret->mode = s->ours.mode == s->base.mode ? s->theirs.mode : s->ours.mode;
	return worker_write(m->w, merged.len > 0 ? (const void *)merged.data : "", merged.len, GIT_OBJECT_BLOB, &ret->id, err);
}

/* ---- folders ---- */

static int merge_folder(struct merging *m, const struct sides *s, size_t len, unsigned depth, struct side *ret, struct err *err);

static int
merge_one(struct merging *m, const struct sides *s, size_t len, unsigned depth, struct side *ret, struct err *err)
{
	*ret = (struct side){0};
	if (same(&s->ours, &s->theirs) || same(&s->base, &s->theirs)) {
		*ret = s->ours;
		return 0;
	}
	if (same(&s->base, &s->ours)) {
		*ret = s->theirs;
		return 0;
	}
	if (s->ours.mode == GIT_FILEMODE_TREE && s->theirs.mode == GIT_FILEMODE_TREE)
		return merge_folder(m, s, len, depth, ret, err);
	if (is_text(s->ours.mode) && is_text(s->theirs.mode) && (s->base.mode == 0 || is_text(s->base.mode)))
		return merge_text(m, s, ret, err);
	return conflict(m, s->ours.mode == 0 || s->theirs.mode == 0 ? "one side removed it, the other changed it" :
	                "both sides changed it, and not both are text", err);
}

static struct side
side_of(const git_tree *tree, const char *name)
{
	const git_tree_entry *e = tree == NULL ? NULL : git_tree_entry_byname(tree, name);
	struct side s = {0};

	if (e != NULL) {
		git_oid_cpy(&s.id, git_tree_entry_id(e));
		s.mode = git_tree_entry_filemode_raw(e);
	}
	return s;
}

static int
merge_name(struct merging *m, git_tree *const trees[3], const char *name, size_t len, unsigned depth,
           git_treebuilder *builder, struct err *err)
{
	const struct sides s = { side_of(trees[0], name), side_of(trees[1], name), side_of(trees[2], name) };
	size_t n = strlen(name), at = len + (len > 0);
	struct side merged;
	int r;

	if (depth > DEPTH_MAX || at + n + 1 > sizeof(m->path))
		return err_set(err, E2BIG, "the commits have too long paths");
	if (len > 0)
		m->path[len] = '/';
	memcpy(m->path + at, name, n + 1);
	r = merge_one(m, &s, at + n, depth, &merged, err);
	if (r == 0 && merged.mode != 0 && git_treebuilder_insert(NULL, builder, name, &merged.id, merged.mode) < 0)
		r = worker_git_error(err, "cannot make a folder");
	return r;
}

static int
open_trees(struct merging *m, const struct sides *s, git_tree *trees[3], struct err *err)
{
	const struct side *all[3] = { &s->base, &s->ours, &s->theirs };

	for (size_t i = 0; i < 3; i++)
		if (all[i]->mode == GIT_FILEMODE_TREE && git_tree_lookup(&trees[i], m->w->repo, &all[i]->id) < 0)
			return worker_git_error(err, "cannot read a folder of a commit");
	return 0;
}

static int
merge_folder(struct merging *m, const struct sides *s, size_t len, unsigned depth, struct side *ret, struct err *err)
{
	OWN(git_treebuilder_freep) git_treebuilder *builder = NULL;
	git_tree *trees[3] = { NULL };
	int r = open_trees(m, s, trees, err);

	if (r == 0 && git_treebuilder_new(&builder, m->w->repo, NULL) < 0)
		r = worker_git_error(err, "cannot make a folder");
	/* Those of ours, and then those that only theirs have; what only the base has, both removed. */
	for (size_t i = 0; r == 0 && i < git_tree_entrycount(trees[1]); i++)
		r = merge_name(m, trees, git_tree_entry_name(git_tree_entry_byindex(trees[1], i)), len, depth + 1, builder, err);
	for (size_t i = 0; r == 0 && i < git_tree_entrycount(trees[2]); i++) {
		const char *name = git_tree_entry_name(git_tree_entry_byindex(trees[2], i));

		if (git_tree_entry_byname(trees[1], name) == NULL)
			r = merge_name(m, trees, name, len, depth + 1, builder, err);
	}
	ret->mode = r == 0 && git_treebuilder_entrycount(builder) > 0 ? GIT_FILEMODE_TREE : 0;
	if (r == 0 && git_treebuilder_write(&ret->id, builder) < 0)
		r = worker_git_error(err, "cannot write a folder");
	for (size_t i = 0; i < 3; i++)
		git_tree_free(trees[i]);
	return r;
}

int
worker_merge(struct worker *w, const git_oid *base, const git_oid *ours, const git_oid *theirs, struct tree_made *made,
             struct err *err)
{
	const struct sides s = { { *base, GIT_FILEMODE_TREE }, { *ours, GIT_FILEMODE_TREE }, { *theirs, GIT_FILEMODE_TREE } };
	struct merging m = { .w = w };
	struct side merged = {0};
	int r = merge_folder(&m, &s, 0, 0, &merged, err);

	git_oid_cpy(&made->tree, &merged.id);
	made->refused = m.conflicts;
	return r;
}

static int
tree_of(struct worker *w, const git_oid *commit, git_oid *ret_tree, struct err *err)
{
	OWN(git_tree_freep) git_tree *tree = NULL;
	int r = worker_tree_of(w->repo, commit, &tree, err);

	if (r == 0)
		git_oid_cpy(ret_tree, git_tree_id(tree));
	return r;
}

int
worker_answer_merge(struct worker *w, struct ipc_message *message, struct err *err)
{
	OWN(buf_free) struct buf done = {0};
	struct tree_made made = {0};
	git_oid base, ours, theirs, trees[3];
	int r = worker_get_id(&message->body, &ours, err);

	r = r == 0 ? worker_get_id(&message->body, &theirs, err) : r;
	r = r == 0 ? tree_of(w, &ours, &trees[1], err) : r;
	r = r == 0 ? tree_of(w, &theirs, &trees[2], err) : r;
	if (r < 0)
		return r;
	if (git_merge_base(&base, w->repo, &ours, &theirs) < 0)
		return worker_git_error(err, "the two have no commit in common");
	r = tree_of(w, &base, &trees[0], err);
	r = r == 0 ? worker_merge(w, &trees[0], &trees[1], &trees[2], &made, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&done, STATE_DONE);
	return worker_send_tree(w, &ours, &made, &done, err);
}
