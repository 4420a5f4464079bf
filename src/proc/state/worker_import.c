/* worker_import.c - copies the tree of a commit of another repository.
 *
 * That repository is a stranger's.  It is opened read-only, without its work tree, and Landlock lets nothing around it be
 * read: neither alternates nor included configuration count. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proc/state/state_proc.h"

struct importing {
	struct worker *w;
	git_repository *from;
	git_odb *odb;
	struct tree_made made;
	uint64_t entries, bytes;
	char path[STATE_PATH_MAX + 256];
};

OWN_BY(git_object_freep, git_object *, git_object_free)

static int
refuse(struct importing *g, const char *why, struct err *err)
{
	return g->made.refused++ >= STATE_REFUSED_MAX ? 0 : worker_send_refused(g->path, why, err);
}

static int copy_tree(struct importing *g, const git_oid *id, size_t len, unsigned depth, git_oid *ret_id, bool *ret_empty,
                     struct err *err);

/* 1: it is refused. */
static int
copy_file(struct importing *g, const git_tree_entry *entry, git_oid *ret_id, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	bool is_link = git_tree_entry_filemode_raw(entry) == GIT_FILEMODE_LINK;
	git_object_t type;
	size_t size;
	int r = 0;

	if (git_odb_read_header(&size, &type, g->odb, git_tree_entry_id(entry)) < 0 || type != GIT_OBJECT_BLOB)
		return worker_git_error(err, "cannot read a file of the repository");
	if (size > g->w->limits.file_bytes || (is_link && size >= STATE_PATH_MAX))
		r = refuse(g, "it is larger than a file may be", err);
	else if ((g->bytes += size) > g->w->limits.bytes)
		return err_set(err, EFBIG, "the repository has more bytes than the state may have (%llu)",
		               (unsigned long long)g->w->limits.bytes);
	else if (git_odb_read(&object, g->odb, git_tree_entry_id(entry)) < 0)
		return worker_git_error(err, "cannot read a file of the repository");
	else if (is_link && state_link_leads_out(g->path, git_odb_object_data(object), git_odb_object_size(object)))
		r = refuse(g, "it is a link that leads out of the state", err);
	else
		return worker_write(g->w, git_odb_object_data(object), git_odb_object_size(object), GIT_OBJECT_BLOB, ret_id, err);
	return r < 0 ? r : 1;
}

static int
copy_entry(struct importing *g, const git_tree_entry *entry, size_t len, unsigned depth, git_treebuilder *builder,
           struct err *err)
{
	const char *name = git_tree_entry_name(entry), *why = state_refuses_name(name, strlen(name));
	git_filemode_t mode = git_tree_entry_filemode_raw(entry);
	size_t n = strlen(name), at = len + (len > 0);
	git_oid id;
	bool empty = false;
	int r;

	if (++g->entries > g->w->limits.files * 4)
		return err_set(err, E2BIG, "the repository has more files than the state may have (%llu)",
		               (unsigned long long)g->w->limits.files);
	if (at + n + 1 > sizeof(g->path))
		return err_set(err, ENAMETOOLONG, "the repository has too long paths");
	if (len > 0)
		g->path[len] = '/';
	memcpy(g->path + at, name, n + 1);
	if (why == NULL && at + n > g->w->limits.path)
		why = "its path is longer than the state may have them";
	if (why == NULL && mode == GIT_FILEMODE_COMMIT)
		why = "it is a submodule";
	if (why == NULL && git_tree_entry_type(entry) == GIT_OBJECT_TREE && depth + 1 > g->w->limits.depth)
		why = "its folders are nested deeper than the state may have them";
	if (why != NULL)
		return refuse(g, why, err);
	if (git_tree_entry_type(entry) == GIT_OBJECT_TREE)
		r = copy_tree(g, git_tree_entry_id(entry), at + n, depth + 1, &id, &empty, err);
	else
		r = copy_file(g, entry, &id, err);
	if (r != 0 || empty)
		return r < 0 ? r : 0;
	/* Older repositories have other modes of files. */
	mode = mode == GIT_FILEMODE_TREE || mode == GIT_FILEMODE_LINK ? mode :
	       (mode & 0100) != 0 ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB;
	return git_treebuilder_insert(NULL, builder, name, &id, mode) == 0 ? worker_step(g->w, g->entries, 0, err) :
	       worker_git_error(err, "cannot make a folder");
}

static int
copy_tree(struct importing *g, const git_oid *id, size_t len, unsigned depth, git_oid *ret_id, bool *ret_empty, struct err *err)
{
	OWN(git_treebuilder_freep) git_treebuilder *builder = NULL;
	OWN(git_tree_freep) git_tree *tree = NULL;
	int r = 0;

	if (git_tree_lookup(&tree, g->from, id) < 0)
		return worker_git_error(err, "cannot read a folder of the repository");
	if (git_treebuilder_new(&builder, g->w->repo, NULL) < 0)
		return worker_git_error(err, "cannot make a folder");
	for (size_t i = 0; r == 0 && i < git_tree_entrycount(tree); i++)
		r = copy_entry(g, git_tree_entry_byindex(tree, i), len, depth, builder, err);
	*ret_empty = git_treebuilder_entrycount(builder) == 0;
	if (r == 0 && git_treebuilder_write(ret_id, builder) < 0)
		r = worker_git_error(err, "cannot write a folder");
	return r;
}

int
worker_answer_import(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_repository_freep) git_repository *from = NULL;
	OWN(git_object_freep) git_object *commit = NULL;
	OWN(git_object_freep) git_object *found = NULL;
	OWN(git_odb_freep) git_odb *odb = NULL;
	OWN(git_tree_freep) git_tree *tree = NULL;
	OWN(buf_free) struct buf done = {0};
	struct importing g = { .w = w };
	const char *ref;
	bool empty;
	int r;

	if (buf_get_str(&m->body, &ref) < 0)
		return err_set(err, EBADMSG, "the question is malformed");
	(void)git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
	if (git_repository_open_ext(&from, STATE_SOURCE_PATH, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) < 0 || git_repository_odb(&odb, from) < 0)
		return worker_git_error(err, "cannot open the repository");
	if (git_revparse_single(&found, from, *ref != '\0' ? ref : "HEAD") < 0 || git_object_peel(&commit, found, GIT_OBJECT_COMMIT) < 0 ||
	    git_commit_tree(&tree, (git_commit *)commit) < 0)
		return worker_git_error(err, "the repository has no commit '%.100s'", *ref != '\0' ? ref : "HEAD");
	g.from = from;
	g.odb = odb;
	r = copy_tree(&g, git_tree_id(tree), 0, 0, &g.made.tree, &empty, err);
	if (r < 0)
		return r;
	ipc_begin(&done, STATE_DONE);
	buf_put_str(&done, git_oid_tostr_s(git_object_id(commit)));
	return worker_send_tree(w, NULL, &g.made, &done, err);
}
