/* worker_show.c - lists, shows and compares files of commits. */
#include <errno.h>
#include <string.h>

#include "proc/state/state_proc.h"
#include "workspace/compare.h"

#define PART_MAX (STATE_CHUNK_MAX - STATE_PATH_MAX - 64)        /* then a chunk is sent */

static int
tree_id(struct worker *w, const git_oid *commit, git_oid *ret_tree, struct err *err)
{
	OWN(git_tree_freep) git_tree *tree = NULL;
	int r = worker_tree_of(w->repo, commit, &tree, err);

	if (r == 0)
		git_oid_cpy(ret_tree, git_tree_id(tree));
	return r;
}

/* A commit's tree; "" is none, whose *RET_TREE is NULL. */
static int
take_tree(struct worker *w, struct buf *b, git_oid *memory, const git_oid **ret_tree, struct err *err)
{
	struct buf look = *b;
	const char *text;
	git_oid id;
	int r;

	*ret_tree = NULL;
	if (buf_get_str(&look, &text) == 0 && *text == '\0') {
		*b = look;
		return 0;
	}
	r = worker_get_id(b, &id, err);
	r = r == 0 ? tree_id(w, &id, memory, err) : r;
	if (r == 0)
		*ret_tree = memory;
	return r;
}

/* ---- chunks with many entries ---- */

struct chunks {
	struct worker *w;
	struct buf b;
};

static int
flush(struct chunks *c, size_t most, struct err *err)
{
	int r = c->b.len > sizeof(uint32_t) && c->b.len >= most ? worker_send(&c->b, err) : 0;

	if (c->b.len >= most || c->b.len == 0) {
		buf_free(&c->b);
		ipc_begin(&c->b, STATE_CHUNK);
	}
	return r;
}

static int
done(struct buf *b, struct err *err)
{
	return worker_send(b, err);
}

/* ---- files ---- */

static int
put_file(void *arg, const struct listed *file, struct err *err)
{
	struct chunks *c = arg;

	buf_put_u32(&c->b, (uint32_t)file->mode);
	buf_put_u64(&c->b, file->size);
	buf_put_str(&c->b, file->path);
	return flush(c, PART_MAX, err);
}

int
worker_answer_files(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(buf_free) struct buf end = {0};
	struct chunks c = { .w = w };
	git_oid memory;
	const git_oid *tree;
	int r = take_tree(w, &m->body, &memory, &tree, err);

	if (r == 0 && tree == NULL)
		r = err_set(err, EBADMSG, "the question has no commit");
	if (r < 0)
		return r;
	ipc_begin(&c.b, STATE_CHUNK);
	r = worker_walk(w, w->repo, tree, put_file, &c, NULL, NULL, err);
	r = r == 0 ? flush(&c, 0, err) : r;
	buf_free(&c.b);
	ipc_begin(&end, STATE_DONE);
	return r == 0 ? done(&end, err) : r;
}

int
worker_answer_sum(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(buf_free) struct buf end = {0};
	char sum[STATE_SUM + 1];
	uint64_t files, bytes;
	git_oid memory;
	const git_oid *tree;
	int r = take_tree(w, &m->body, &memory, &tree, err);

	if (r == 0 && tree == NULL)
		r = err_set(err, EBADMSG, "the question has no commit");
	r = r == 0 ? worker_sum(w, tree, sum, &files, &bytes, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&end, STATE_DONE);
	buf_put_str(&end, sum);
	buf_put_u64(&end, files);
	buf_put_u64(&end, bytes);
	return done(&end, err);
}

/* The file at PATH; *ret_object is NULL if there is none. */
static int
find_file(struct worker *w, const git_oid *tree, const char *path, git_odb_object **ret_object, uint32_t *ret_mode,
          struct err *err)
{
	OWN(git_tree_entry_freep) git_tree_entry *entry = NULL;
	OWN(git_tree_freep) git_tree *top = NULL;
	int r;

	if (tree == NULL || *path == '\0')
		return 0;
	if (git_tree_lookup(&top, w->repo, tree) < 0)
		return worker_git_error(err, "cannot read the files of a commit");
	r = git_tree_entry_bypath(&entry, top, path);
	if (r == GIT_ENOTFOUND)
		return 0;
	if (r < 0)
		return worker_git_error(err, "cannot find a file");
	if (git_tree_entry_type(entry) != GIT_OBJECT_BLOB)
		return 0;
	*ret_mode = (uint32_t)git_tree_entry_filemode_raw(entry);
	return git_odb_read(ret_object, w->odb, git_tree_entry_id(entry)) == 0 ? 0 :
	       worker_git_error(err, "cannot read a file of the commit");
}

int
worker_answer_cat(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	OWN(buf_free) struct buf end = {0};
	const git_oid *tree;
	const char *path;
	git_oid memory;
	uint32_t mode = 0;
	int r = take_tree(w, &m->body, &memory, &tree, err);

	if (r == 0 && buf_get_str(&m->body, &path) < 0)
		r = err_set(err, EBADMSG, "the question has no path");
	r = r == 0 ? find_file(w, tree, path, &object, &mode, err) : r;
	if (r == 0 && object == NULL)
		r = err_set(err, ENOENT, "it has no file '%.200s'", path);
	r = r == 0 ? worker_send_bytes(git_odb_object_data(object), git_odb_object_size(object), err) : r;
	if (r < 0)
		return r;
	ipc_begin(&end, STATE_DONE);
	buf_put_u32(&end, mode);
	return done(&end, err);
}

/* ---- differences ---- */

static uint64_t
size_of(const struct worker *w, const git_oid *id)
{
	git_object_t type;
	size_t size = 0;

	return id == NULL || git_odb_read_header(&size, &type, w->odb, id) < 0 ? 0 : size;
}

static int
put_difference(void *arg, const struct differs *file, struct err *err)
{
	struct chunks *c = arg;

	buf_put_u32(&c->b, file->old == NULL ? 'A' : file->new == NULL ? 'D' : 'M');
	buf_put_u32(&c->b, (uint32_t)file->old_mode);
	buf_put_u32(&c->b, (uint32_t)file->new_mode);
	buf_put_u64(&c->b, size_of(c->w, file->old));
	buf_put_u64(&c->b, size_of(c->w, file->new));
	buf_put_str(&c->b, file->path);
	return flush(c, PART_MAX, err);
}

int
worker_answer_diff(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(buf_free) struct buf end = {0};
	struct chunks c = { .w = w };
	git_oid old_memory, new_memory;
	const git_oid *old, *new;
	int r = take_tree(w, &m->body, &old_memory, &old, err);

	r = r == 0 ? take_tree(w, &m->body, &new_memory, &new, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&c.b, STATE_CHUNK);
	r = worker_diff(w, old, new, put_difference, &c, err);
	r = r == 0 ? flush(&c, 0, err) : r;
	buf_free(&c.b);
	ipc_begin(&end, STATE_DONE);
	return r == 0 ? done(&end, err) : r;
}

static int
send_hunks(void *arg, const char *data, size_t len)
{
	return worker_send_bytes(data, len, arg);
}

static struct compare_text
text_of(git_odb_object *object)
{
	return object == NULL ? (struct compare_text){ "", 0 } :
	       (struct compare_text){ git_odb_object_data(object), git_odb_object_size(object) };
}

bool
worker_is_binary(git_odb_object *object)
{
	struct compare_text t = text_of(object);

	return compare_is_binary(t.at, t.len < COMPARE_SNIFF ? t.len : COMPARE_SNIFF);
}

int
worker_answer_diff_file(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *a = NULL;
	OWN(git_odb_object_freep) git_odb_object *b = NULL;
	OWN(buf_free) struct buf end = {0};
	struct compare_count count = {0};
	git_oid old_memory, new_memory;
	const git_oid *old, *new;
	const char *path;
	uint32_t mode;
	bool binary;
	int r = take_tree(w, &m->body, &old_memory, &old, err);

	r = r == 0 ? take_tree(w, &m->body, &new_memory, &new, err) : r;
	if (r == 0 && buf_get_str(&m->body, &path) < 0)
		r = err_set(err, EBADMSG, "the question has no path");
	r = r == 0 ? find_file(w, old, path, &a, &mode, err) : r;
	r = r == 0 ? find_file(w, new, path, &b, &mode, err) : r;
	if (r < 0)
		return r;
	binary = worker_is_binary(a) || worker_is_binary(b);
	if (!binary) {
		r = compare_texts(text_of(a), text_of(b), send_hunks, err, &count);
		if (r < 0)
			return err != NULL && err->code != 0 ? r : err_set(err, -r, "the texts are too large to be compared");
	}
	ipc_begin(&end, STATE_DONE);
	buf_put_u32(&end, binary);
	buf_put_u64(&end, count.added);
	buf_put_u64(&end, count.removed);
	return done(&end, err);
}

/* ---- ids ---- */

int
worker_answer_find(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(git_commit_freep) git_commit *commit = NULL;
	OWN(buf_free) struct buf end = {0};
	const char *text;
	git_oid id;
	size_t len;
	int r;

	if (buf_get_str(&m->body, &text) < 0 || (len = strlen(text)) < 4 || len > STATE_ID ||
	    strspn(text, "0123456789abcdef") != len || git_oid_fromstrn(&id, text, len) < 0)
		return err_set(err, EBADMSG, "the question has no id");
	r = git_commit_lookup_prefix(&commit, w->repo, &id, len);
	if (r == GIT_EAMBIGUOUS)
		return err_set(err, EEXIST, "several commits begin with '%s': give more digits", text);
	if (r < 0)
		return err_set(err, ENOENT, "no commit begins with '%s'", text);
	ipc_begin(&end, STATE_DONE);
	buf_put_str(&end, git_oid_tostr_s(git_commit_id(commit)));
	return done(&end, err);
}
