/* worker_tree.c - makes the tree of a commit: that of its base, with a cell's changes.
 *
 * The agent made the changes (workspace/workspace.h has their form), so every name, type and size in them is hostile.  They
 * are walked by folder descriptor, no link is followed.  What must not be stored is copied to aside/. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/tree.h"
#include "proc/state/worker_guard.h"
#include "workspace/workspace_tree.h"

#define ENTRIES_MOST 4                  /* names in the changes, for each file that a commit may have */

struct making {
	struct worker *w;
	struct tree_made made;
	uint64_t entries, bytes;        /* read so far */
	struct wtree_path path;
	struct worker_aside aside;
	struct looks *looks;            /* NULL: nobody asks what is in files */
};

/* ---- files ---- */

static int
write_stream(struct worker *w, int fd, uint64_t size, struct look *look, git_oid *ret_id, struct err *err)
{
	git_odb *large = worker_pack_large(w, err);
	git_odb_stream *stream = NULL;
	char piece[65536];
	uint64_t left = size;
	ssize_t n = 1;
	int r = 0;

	if (large == NULL)
		return -err->code;
	if (git_odb_open_wstream(&stream, large, (git_object_size_t)size, GIT_OBJECT_BLOB) < 0)
		return worker_git_error(err, "cannot write a file");
	while (r == 0 && left > 0 && n > 0) {
		n = read(fd, piece, left < sizeof(piece) ? left : sizeof(piece));
		if (n > 0 && git_odb_stream_write(stream, piece, (size_t)n) < 0)
			r = worker_git_error(err, "cannot write a file");
		if (n > 0 && look != NULL)
			worker_look(look, piece, (size_t)n);
		left -= n > 0 ? (uint64_t)n : 0;
	}
	if (r == 0 && left > 0)
		r = n < 0 ? err_errno(err, "cannot read a changed file") : err_set(err, ESTALE, "a changed file is shorter now");
	if (r == 0 && git_odb_stream_finalize_write(ret_id, stream) < 0)
		r = worker_git_error(err, "cannot write a file");
	git_odb_stream_free(stream);
	return r;
}

static int
write_file(struct making *m, int fd, uint64_t size, git_oid *ret_id, struct err *err)
{
	struct look memory = {0}, *look = m->looks == NULL ? NULL : &memory;
	OWN(freep) char *data = NULL;
	int r;

	m->bytes += size;
	if (m->bytes > m->w->limits.bytes)
		return err_set(err, EFBIG, "the changes are larger than the whole state may be (%llu bytes)",
		               (unsigned long long)m->w->limits.bytes);
	data = size > WORKER_WHOLE_MAX ? NULL : malloc(size + 1);
	if (size <= WORKER_WHOLE_MAX && data == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = data == NULL ? write_stream(m->w, fd, size, look, ret_id, err) : read_exactly(fd, data, size, err);
	if (r == 0 && data != NULL)
		r = worker_write(m->w, data, size, GIT_OBJECT_BLOB, ret_id, err);
	if (r == 0 && data != NULL && look != NULL)
		worker_look(look, data, size);
	return r == 0 && look != NULL ? worker_look_end(m->looks, look, ret_id, err) : r;
}

/* ---- what is refused ---- */

static int
refuse(struct making *m, int dir, const char *name, const char *why, struct err *err)
{
	int r = m->aside.leaves ? 0 : worker_keep_aside(&m->aside, dir, name, m->path.text, err);

	m->made.refused++;
	return r < 0 ? r : m->made.refused > STATE_REFUSED_MAX ? 0 : worker_send_refused(m->path.text, why, err);
}

static int
refuse_file(struct making *m, int dir, const char *name, uint64_t size, struct err *err)
{
	char text[NUM_TEXT_MAX], most[NUM_TEXT_MAX], why[160];

	snprintf(why, sizeof(why), "it has %s, and a file may have %s", num_format_size(text, size),
	         num_format_size(most, m->w->limits.file_bytes));
	return refuse(m, dir, name, why, err);
}

/* ---- one name ---- */

static int
put(git_treebuilder *builder, const char *name, const git_oid *id, git_filemode_t mode, struct err *err)
{
	return git_treebuilder_insert(NULL, builder, name, id, mode) == 0 ? 0 : worker_git_error(err, "cannot make a folder");
}

static int
take_file(struct making *m, int dir, const char *name, const struct stat *st, git_treebuilder *builder, struct err *err)
{
	OWN(closep) int fd = -1;
	git_oid id;
	int r;

	if ((uint64_t)st->st_size > m->w->limits.file_bytes)
		return refuse_file(m, dir, name, (uint64_t)st->st_size, err);
	fd = wtree_open_file(dir, name);
	if (fd < 0)
		return err_set(err, -fd, "cannot open a changed file: %s", strerror(-fd));
	r = write_file(m, fd, (uint64_t)st->st_size, &id, err);
	return r < 0 ? r : put(builder, name, &id, (wtree_mode(fd, st) & 0100) != 0 ? GIT_FILEMODE_BLOB_EXECUTABLE :
	                       GIT_FILEMODE_BLOB, err);
}

static int
take_link(struct making *m, int dir, const char *name, git_treebuilder *builder, struct err *err)
{
	char target[STATE_PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));
	git_oid id;
	int r;

	if (n < 0)
		return err_errno(err, "cannot read a changed link");
	if (n == sizeof(target) || state_link_leads_out(m->path.text, target, (size_t)n))
		return refuse(m, dir, name, "it is a link that leads out of the state", err);
	r = worker_write(m->w, target, (size_t)n, GIT_OBJECT_BLOB, &id, err);
	return r < 0 ? r : put(builder, name, &id, GIT_FILEMODE_LINK, err);
}

static int make_folder(struct making *m, git_tree *base, int changes, unsigned depth, git_oid *ret_id, bool *ret_empty,
                       struct err *err);

static int
take_folder(struct making *m, int dir, const char *name, git_treebuilder *builder, unsigned depth, struct err *err)
{
	OWN(closep) int fd = -1;
	OWN(git_tree_freep) git_tree *base = NULL;
	const git_tree_entry *was;
	git_oid id;
	bool empty;
	int r;

	if (depth + 1 > m->w->limits.depth)
		return refuse(m, dir, name, "its folders are nested deeper than the state may have them", err);
	fd = tree_open_dir(dir, name);
	if (fd < 0)
		return err_set(err, -fd, "cannot open a changed folder: %s", strerror(-fd));
	was = git_treebuilder_get(builder, name);
	if (was != NULL && git_tree_entry_type(was) == GIT_OBJECT_TREE && !wtree_is_opaque(fd) &&
	    git_tree_lookup(&base, m->w->repo, git_tree_entry_id(was)) < 0)
		return worker_git_error(err, "cannot read a folder of the base");
	r = make_folder(m, base, fd, depth + 1, &id, &empty, err);
	if (r < 0)
		return r;
	if (!empty)
		return put(builder, name, &id, GIT_FILEMODE_TREE, err);
	if (was != NULL)
		(void)git_treebuilder_remove(builder, name);
	return 0;
}

static int
take_name(struct making *m, int dir, const char *name, git_treebuilder *builder, unsigned depth, struct err *err)
{
	const char *why = state_refuses_name(name, strlen(name));
	struct stat st;

	if (++m->entries > m->w->limits.files * ENTRIES_MOST)
		return err_set(err, E2BIG, "the changes have more files than the whole state may have (%llu)",
		               (unsigned long long)m->w->limits.files);
	if (wtree_stat(dir, name, &st) < 0 || st.st_mode == 0)
		return err_set(err, ESTALE, "the changes change while they are read");
	/* It is not in the base, as nothing is that must not be stored. */
	if (wtree_is_whiteout(&st)) {
		if (git_treebuilder_get(builder, name) != NULL)
			(void)git_treebuilder_remove(builder, name);
		return 0;
	}
	if (why != NULL)
		return refuse(m, dir, name, why, err);
	if (m->path.len > m->w->limits.path)
		return refuse(m, dir, name, "its path is longer than the state may have them", err);
	if (S_ISDIR(st.st_mode))
		return take_folder(m, dir, name, builder, depth, err);
	if (S_ISREG(st.st_mode))
		return take_file(m, dir, name, &st, builder, err);
	return S_ISLNK(st.st_mode) ? take_link(m, dir, name, builder, err) :
	       refuse(m, dir, name, "it is a socket, a pipe or a device", err);
}

static int
make_folder(struct making *m, git_tree *base, int changes, unsigned depth, git_oid *ret_id, bool *ret_empty, struct err *err)
{
	OWN(git_treebuilder_freep) git_treebuilder *builder = NULL;
	OWN(wtree_names_free) struct wtree_names names = {0};
	int r = 0;

	if (git_treebuilder_new(&builder, m->w->repo, base) < 0)
		return worker_git_error(err, "cannot make a folder");
	if (changes >= 0)
		r = wtree_names_load(changes, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		size_t len = m->path.len;

		r = wtree_path_push(&m->path, names.name[i], err);
		if (r == 0)
			r = take_name(m, changes, names.name[i], builder, depth, err);
		wtree_path_pop(&m->path, len);
		if (r == 0)
			r = worker_step(m->w, m->entries, 0, err);
	}
	*ret_empty = git_treebuilder_entrycount(builder) == 0;
	if (r == 0 && git_treebuilder_write(ret_id, builder) < 0)
		r = worker_git_error(err, "cannot write a folder");
	return r;
}

/* ---- all ---- */

int
worker_check_limits(const struct worker *w, uint64_t files, uint64_t bytes, struct err *err)
{
	char text[NUM_TEXT_MAX], most[NUM_TEXT_MAX];

	if (files > w->limits.files)
		return err_set(err, E2BIG, "the state would have %llu files, and may have %llu", (unsigned long long)files,
		               (unsigned long long)w->limits.files);
	if (bytes > w->limits.bytes)
		return err_set(err, EFBIG, "the state would have %s, and may have %s", num_format_size(text, bytes),
		               num_format_size(most, w->limits.bytes));
	return 0;
}

int
worker_make_tree(struct worker *w, const git_oid *base, enum state_changes changes, const char *aside, struct looks *looks,
                 struct tree_made *ret, struct err *err)
{
	struct making m = { .w = w, .looks = looks, .aside = { .name = aside, .leaves = changes == STATE_CHANGES_LEAVE } };
	OWN(git_tree_freep) git_tree *tree = NULL;
	bool empty;
	int r = 0;

	if (base != NULL)
		r = worker_tree_of(w->repo, base, &tree, err);
	if (r == 0)
		r = make_folder(&m, tree, changes == STATE_CHANGES_NONE ? -1 : STATE_SOURCE_FD, 0, &m.made.tree, &empty, err);
	wtree_path_free(&m.path);
	if (r < 0 && m.aside.dir > 0)
		worker_drop_aside(aside);
	worker_close_aside(&m.aside);
	if (r == 0)
		*ret = m.made;
	return r;
}

int
worker_send_tree(struct worker *w, const git_oid *base, struct tree_made *t, struct buf *done, struct err *err)
{
	OWN(git_tree_freep) git_tree *tree = NULL;
	char sum[STATE_SUM + 1];
	int r = worker_sum(w, &t->tree, sum, &t->files, &t->bytes, err);

	r = r == 0 ? worker_check_limits(w, t->files, t->bytes, err) : r;
	if (r == 0 && base != NULL)
		r = worker_tree_of(w->repo, base, &tree, err);
	if (r == 0)
		r = worker_count_changes(w, tree == NULL ? NULL : git_tree_id(tree), &t->tree, t, err);
	if (r < 0)
		return r;
	buf_put_str(done, git_oid_tostr_s(&t->tree));
	buf_put_str(done, sum);
	buf_put_u64(done, t->files);
	buf_put_u64(done, t->bytes);
	buf_put_u64(done, t->added);
	buf_put_u64(done, t->changed);
	buf_put_u64(done, t->removed);
	buf_put_u64(done, t->refused);
	return worker_send(done, err);
}

/* Keep what must not be committed without a person from the tree, and append that to DONE. */
static int
guard(struct worker *w, const git_oid *base, const char *parent, const char *guards, struct looks *looks,
      struct tree_made *made, struct buf *done, struct err *err)
{
	OWN(git_tree_freep) git_tree *before = NULL;
	OWN(git_tree_freep) git_tree *begun = NULL;
	char listing[STATE_SUM + 1] = "";
	struct guarded g = {0};
	git_oid id;
	int r = 0;

	if (*parent != '\0') {
		if (base == NULL || !state_is_id(parent) || git_oid_fromstr(&id, parent) < 0)
			return err_set(err, EBADMSG, "the question is malformed");
		r = worker_tree_of(w->repo, &id, &before, err);
		r = r == 0 ? worker_tree_of(w->repo, base, &begun, err) : r;
		r = r == 0 ? worker_guard(w, looks, guards, git_tree_id(begun), git_tree_id(before), made, &g, err) : r;
		r = r == 0 && g.withheld > 0 ? worker_sum(w, &g.left, listing, NULL, NULL, err) : r;
	}
	buf_put_str(done, g.withheld > 0 ? git_oid_tostr_s(&g.left) : "");
	buf_put_str(done, listing);
	buf_put_str(done, g.sum);
	buf_put_u64(done, g.withheld);
	buf_put_u64(done, g.pending);
	return r;
}

int
worker_answer_tree(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(worker_looks_free) struct looks looks = {0};
	OWN(buf_free) struct buf done = {0};
	struct tree_made made = {0};
	const char *base, *aside, *parent, *guards;
	uint32_t has_changes;
	git_oid id;
	bool has_base;
	int r;

	if (buf_get_str(&m->body, &base) < 0 || buf_get_str(&m->body, &aside) < 0 || buf_get_u32(&m->body, &has_changes) < 0 ||
	    buf_get_str(&m->body, &parent) < 0 || buf_get_str(&m->body, &guards) < 0 || (*aside != '\0' && !state_is_name(aside)))
		return err_set(err, EBADMSG, "the question is malformed");
	has_base = *base != '\0';
	if (has_base && (!state_is_id(base) || git_oid_fromstr(&id, base) < 0))
		return err_set(err, EBADMSG, "the question has no base");
	r = worker_make_tree(w, has_base ? &id : NULL, (enum state_changes)has_changes, aside, *parent != '\0' ? &looks : NULL, &made,
	                     err);
	if (r < 0)
		return r;
	ipc_begin(&done, STATE_DONE);
	r = guard(w, has_base ? &id : NULL, parent, guards, &looks, &made, &done, err);
	r = r == 0 ? worker_send_tree(w, has_base ? &id : NULL, &made, &done, err) : r;
	if (r < 0 && made.refused > 0 && has_changes == STATE_CHANGES)
		worker_drop_aside(aside);
	return r;
}
