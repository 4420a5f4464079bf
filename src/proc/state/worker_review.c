/* worker_review.c - merges changes that a person accepts: those of some paths of a commit that was kept from a branch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/state/worker_guard.h"

struct accepting {
	const char **paths;
	uint32_t n;
	uint64_t blocked;               /* that cannot be taken */
};

static int
is_accepted(void *arg, const struct split_file *file, struct err *err)
{
	struct accepting *a = arg;
	bool found = false;

	/* Only files have changes.  What is beneath one's path is a folder that takes its place, and a change of its own. */
	for (uint32_t i = 0; i < a->n && !found; i++)
		found = strcmp(file->path, a->paths[i]) == 0;
	if (!found || !file->blocked)
		return found;
	return a->blocked++ >= STATE_REFUSED_MAX ? 1 :
	       worker_send_refused(file->path, "a change that you do not accept needs its place", err) < 0 ? -err->code : 1;
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

static int
accept(struct worker *w, struct accepting *a, const git_oid commits[3], struct tree_made *made, struct err *err)
{
	git_oid base, ours, kept, theirs, rest;
	int r = tree_of(w, &commits[0], &base, err);

	r = r == 0 ? tree_of(w, &commits[1], &ours, err) : r;
	r = r == 0 ? tree_of(w, &commits[2], &kept, err) : r;
	r = r == 0 ? worker_split(w, &base, &kept, is_accepted, a, &theirs, &rest, err) : r;
	r = r == 0 ? worker_merge(w, &base, &ours, &theirs, made, err) : r;
	made->refused += a->blocked;
	return r;
}

int
worker_answer_accept(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(freep) const char **paths = NULL;
	OWN(buf_free) struct buf done = {0};
	struct tree_made made = {0};
	struct accepting a = {0};
	git_oid commits[3];
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(commits); i++)
		r = worker_get_id(&m->body, &commits[i], err);
	if (r == 0 && (buf_get_u32(&m->body, &a.n) < 0 || a.n == 0 || a.n > STATE_REFUSED_MAX))
		r = err_set(err, EBADMSG, "the question has no paths");
	paths = r < 0 ? NULL : calloc(a.n, sizeof(*paths));
	if (r == 0 && paths == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 0; r == 0 && i < a.n; i++)
		if (buf_get_str(&m->body, &paths[i]) < 0)
			r = err_set(err, EBADMSG, "the question has too few paths");
	a.paths = paths;
	r = r == 0 ? accept(w, &a, commits, &made, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&done, STATE_DONE);
	return worker_send_tree(w, &commits[1], &made, &done, err);
}
