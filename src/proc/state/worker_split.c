/* worker_split.c - takes some of the changes between two trees, and leaves the others.
 *
 * Folders have no changes of their own: they are there as long as they have files.  So a folder whose guarded file is removed
 * stays with that file, and what would take its place is left, too. */
#include <errno.h>
#include <string.h>

#include "proc/state/worker_guard.h"

#define DEPTH_MAX 256

struct splitting {
	struct worker *w;
	worker_takes *takes;
	void *arg;
	char path[STATE_PATH_MAX + 256];
};

struct node {
	git_oid id;
	git_filemode_t mode;            /* 0: it is not there */
};
struct nodes {
	struct node taken, left;
};

static const struct node nothing;

static bool
is_folder(const struct node *n)
{
	return n->mode == GIT_FILEMODE_TREE;
}

static bool
is_file(const struct node *n)
{
	return n->mode != 0 && !is_folder(n);
}

static int split_folder(struct splitting *s, const struct node *old, const struct node *new, size_t len, unsigned depth, bool blocked,
                        struct nodes *ret, struct err *err);

/* 1: it is taken. */
static int
ask(struct splitting *s, const struct node *old, const struct node *new, bool blocked, struct err *err)
{
	return s->takes(s->arg, &(struct split_file){ .path = s->path, .old = old->mode == 0 ? NULL : &old->id,
		.new = new->mode == 0 ? NULL : &new->id, .old_mode = old->mode, .new_mode = new->mode, .blocked = blocked }, err);
}

static int
split_file(struct splitting *s, const struct node *old, const struct node *new, bool blocked, struct nodes *ret, struct err *err)
{
	int r = ask(s, old, new, blocked, err);

	ret->taken = r > 0 && !blocked ? *new : *old;
	ret->left = r > 0 && !blocked ? *old : *new;
	return r < 0 ? r : 0;
}

/* A folder gives way to a file. */
static int
split_to_file(struct splitting *s, const struct node *old, const struct node *new, size_t len, unsigned depth, bool blocked,
              struct nodes *ret, struct err *err)
{
	struct nodes inner, file;
	int r = split_folder(s, old, &nothing, len, depth, blocked, &inner, err);

	s->path[len] = '\0';
	r = r == 0 ? split_file(s, &nothing, new, blocked || inner.taken.mode != 0, &file, err) : r;
	if (r < 0)
		return r;
	ret->taken = file.taken.mode != 0 ? file.taken : inner.taken;
	ret->left = file.left.mode != 0 ? file.left : inner.left;
	return 0;
}

/* A file gives way to a folder. */
static int
split_to_folder(struct splitting *s, const struct node *old, const struct node *new, size_t len, unsigned depth, bool blocked,
                struct nodes *ret, struct err *err)
{
	struct nodes file, inner;
	int r = split_file(s, old, &nothing, blocked, &file, err);

	r = r == 0 ? split_folder(s, &nothing, new, len, depth, blocked || file.taken.mode != 0, &inner, err) : r;
	s->path[len] = '\0';
	if (r < 0)
		return r;
	ret->taken = file.taken.mode != 0 ? file.taken : inner.taken;
	ret->left = inner.left.mode != 0 ? inner.left : file.left;
	return 0;
}

static int
split(struct splitting *s, const struct node *old, const struct node *new, size_t len, unsigned depth, bool blocked,
      struct nodes *ret, struct err *err)
{
	if (old->mode == new->mode && (old->mode == 0 || git_oid_equal(&old->id, &new->id))) {
		*ret = (struct nodes){ *old, *old };
		return 0;
	}
	if (is_folder(old) && is_file(new))
		return split_to_file(s, old, new, len, depth, blocked, ret, err);
	if (is_file(old) && is_folder(new))
		return split_to_folder(s, old, new, len, depth, blocked, ret, err);
	return is_folder(old) || is_folder(new) ? split_folder(s, old, new, len, depth, blocked, ret, err) :
	       split_file(s, old, new, blocked, ret, err);
}

/* ---- folders ---- */

static struct node
node_of(const git_tree *tree, const char *name)
{
	const git_tree_entry *e = tree == NULL ? NULL : git_tree_entry_byname(tree, name);
	struct node n = {0};

	if (e != NULL) {
		git_oid_cpy(&n.id, git_tree_entry_id(e));
		n.mode = git_tree_entry_filemode_raw(e);
	}
	return n;
}

static int
put(git_treebuilder *builder, const char *name, const struct node *n, struct err *err)
{
	return n->mode == 0 || git_treebuilder_insert(NULL, builder, name, &n->id, n->mode) == 0 ? 0 :
	       worker_git_error(err, "cannot make a folder");
}

static int
split_name(struct splitting *s, git_tree *const trees[2], const char *name, size_t len, unsigned depth, bool blocked,
           git_treebuilder *const builders[2], struct err *err)
{
	const struct node old = node_of(trees[0], name), new = node_of(trees[1], name);
	size_t n = strlen(name), at = len + (len > 0);
	struct nodes both;
	int r;

	if (depth > DEPTH_MAX || at + n + 1 > sizeof(s->path))
		return err_set(err, E2BIG, "the changes have too long paths");
	if (len > 0)
		s->path[len] = '/';
	memcpy(s->path + at, name, n + 1);
	r = split(s, &old, &new, at + n, depth, blocked, &both, err);
	s->path[len] = '\0';
	r = r == 0 ? put(builders[0], name, &both.taken, err) : r;
	return r == 0 ? put(builders[1], name, &both.left, err) : r;
}

static int
write_folder(git_treebuilder *builder, struct node *ret, struct err *err)
{
	ret->mode = git_treebuilder_entrycount(builder) > 0 ? GIT_FILEMODE_TREE : 0;
	return git_treebuilder_write(&ret->id, builder) < 0 ? worker_git_error(err, "cannot write a folder") : 0;
}

static int
split_names(struct splitting *s, git_tree *const trees[2], size_t len, unsigned depth, bool blocked,
            git_treebuilder *const builders[2], struct err *err)
{
	int r = 0;

	for (int side = 0; side < 2; side++)
		for (size_t i = 0; r == 0 && trees[side] != NULL && i < git_tree_entrycount(trees[side]); i++) {
			const char *name = git_tree_entry_name(git_tree_entry_byindex(trees[side], i));

			/* The second has had those of both. */
			if (side == 0 || trees[0] == NULL || git_tree_entry_byname(trees[0], name) == NULL)
				r = split_name(s, trees, name, len, depth + 1, blocked, builders, err);
		}
	return r;
}

static int
split_folder(struct splitting *s, const struct node *old, const struct node *new, size_t len, unsigned depth, bool blocked,
             struct nodes *ret, struct err *err)
{
	OWN(git_treebuilder_freep) git_treebuilder *taken = NULL;
	OWN(git_treebuilder_freep) git_treebuilder *left = NULL;
	OWN(git_tree_freep) git_tree *before = NULL;
	OWN(git_tree_freep) git_tree *after = NULL;
	int r;

	if ((is_folder(old) && git_tree_lookup(&before, s->w->repo, &old->id) < 0) ||
	    (is_folder(new) && git_tree_lookup(&after, s->w->repo, &new->id) < 0))
		return worker_git_error(err, "cannot read a folder of the changes");
	if (git_treebuilder_new(&taken, s->w->repo, NULL) < 0 || git_treebuilder_new(&left, s->w->repo, NULL) < 0)
		return worker_git_error(err, "cannot make a folder");
	r = split_names(s, (git_tree *const[]){ before, after }, len, depth, blocked, (git_treebuilder *const[]){ taken, left }, err);
	r = r == 0 ? write_folder(taken, &ret->taken, err) : r;
	return r == 0 ? write_folder(left, &ret->left, err) : r;
}

int
worker_split(struct worker *w, const git_oid *old, const git_oid *new, worker_takes *takes, void *arg, git_oid *ret_taken,
             git_oid *ret_left, struct err *err)
{
	struct splitting s = { .w = w, .takes = takes, .arg = arg };
	const struct node before = { *old, GIT_FILEMODE_TREE }, after = { *new, GIT_FILEMODE_TREE };
	struct nodes both;
	int r = split_folder(&s, &before, &after, 0, 0, false, &both, err);

	if (r == 0) {
		git_oid_cpy(ret_taken, &both.taken.id);
		git_oid_cpy(ret_left, &both.left.id);
	}
	return r;
}
