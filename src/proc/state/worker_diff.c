/* worker_diff.c - which files differ between two trees.  Folders with the same id are not entered. */
#include <errno.h>
#include <string.h>

#include "proc/state/state_proc.h"

#define DEPTH_MAX 256

struct differing {
	struct worker *w;
	worker_differs *note;
	void *arg;
	char path[STATE_PATH_MAX + 256];
};

static int diff_trees(struct differing *d, const git_oid *old, const git_oid *new, size_t len, unsigned depth, struct err *err);

static bool
is_folder(const git_tree_entry *e)
{
	return e != NULL && git_tree_entry_type(e) == GIT_OBJECT_TREE;
}

static int
diff_entry(struct differing *d, const git_tree_entry *old, const git_tree_entry *new, size_t len, unsigned depth, struct err *err)
{
	const char *name = git_tree_entry_name(old != NULL ? old : new);
	size_t n = strlen(name), at = len + (len > 0);
	const git_oid *old_id = old == NULL ? NULL : git_tree_entry_id(old), *new_id = new == NULL ? NULL : git_tree_entry_id(new);
	int r = 0;

	if (old != NULL && new != NULL && git_oid_equal(old_id, new_id) &&
	    git_tree_entry_filemode_raw(old) == git_tree_entry_filemode_raw(new))
		return 0;
	if (depth > DEPTH_MAX || at + n + 1 > sizeof(d->path))
		return err_set(err, E2BIG, "the commit has too long paths");
	if (len > 0)
		d->path[len] = '/';
	memcpy(d->path + at, name, n + 1);
	if (is_folder(old) || is_folder(new))
		r = diff_trees(d, is_folder(old) ? old_id : NULL, is_folder(new) ? new_id : NULL, at + n, depth + 1, err);
	d->path[at + n] = '\0';
	old = is_folder(old) ? NULL : old;
	new = is_folder(new) ? NULL : new;
	if (r < 0 || (old == NULL && new == NULL))
		return r;
	return d->note(d->arg, &(struct differs){
		.path = d->path, .old = old == NULL ? NULL : old_id, .new = new == NULL ? NULL : new_id,
		.old_mode = old == NULL ? 0 : git_tree_entry_filemode_raw(old),
		.new_mode = new == NULL ? 0 : git_tree_entry_filemode_raw(new) }, err);
}

/* As git sorts them: a folder as if its name ended with a slash. */
static int
order(const git_tree_entry *a, const git_tree_entry *b)
{
	return git_tree_entry_cmp(a, b);
}

static int
diff_trees(struct differing *d, const git_oid *old, const git_oid *new, size_t len, unsigned depth, struct err *err)
{
	OWN(git_tree_freep) git_tree *a = NULL;
	OWN(git_tree_freep) git_tree *b = NULL;
	size_t i = 0, j = 0, n = 0, m = 0;
	int r = 0;

	if ((old != NULL && git_tree_lookup(&a, d->w->repo, old) < 0) || (new != NULL && git_tree_lookup(&b, d->w->repo, new) < 0))
		return worker_git_error(err, "cannot read a folder of a commit");
	n = a == NULL ? 0 : git_tree_entrycount(a);
	m = b == NULL ? 0 : git_tree_entrycount(b);
	while (r == 0 && (i < n || j < m)) {
		const git_tree_entry *x = i < n ? git_tree_entry_byindex(a, i) : NULL;
		const git_tree_entry *y = j < m ? git_tree_entry_byindex(b, j) : NULL;
		int which = x == NULL ? 1 : y == NULL ? -1 : order(x, y);

		r = diff_entry(d, which <= 0 ? x : NULL, which >= 0 ? y : NULL, len, depth, err);
		i += which <= 0;
		j += which >= 0;
	}
	return r;
}

int
worker_diff(struct worker *w, const git_oid *old, const git_oid *new, worker_differs *note, void *arg, struct err *err)
{
	struct differing d = { .w = w, .note = note, .arg = arg };

	if (old != NULL && new != NULL && git_oid_equal(old, new))
		return 0;
	return diff_trees(&d, old, new, 0, 0, err);
}

static int
count(void *arg, const struct differs *file, struct err *err)
{
	struct tree_made *t = arg;

	(void)err;
	*(file->old == NULL ? &t->added : file->new == NULL ? &t->removed : &t->changed) += 1;
	return 0;
}

int
worker_count_changes(struct worker *w, const git_oid *old, const git_oid *new, struct tree_made *t, struct err *err)
{
	return worker_diff(w, old, new, count, t, err);
}
