/* worker_checkout.c - lays out the files of a commit in tree/ID. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/tree.h"
#include "proc/state/state_proc.h"

#define NEW ".new"

struct laying {
	struct worker *w;
	int dir;                        /* the folder of the last file, */
	char *folder;                   /* and its path; "" is the top */
	int top;
	uint64_t files;
};

/* Files come folder by folder, so most are where the one before was. */
static int
enter(struct laying *l, const char *path, size_t len, struct err *err)
{
	OWN(closep) int at = -1;
	char part[256];

	if (l->folder != NULL && strlen(l->folder) == len && memcmp(l->folder, path, len) == 0)
		return 0;
	at = openat(l->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; at >= 0 && i < len;) {
		size_t n = strcspn(path + i, "/");
		int next;

		snprintf(part, sizeof(part), "%.*s", (int)n, path + i);
		if (state_refuses_name(part, n) != NULL)
			return err_set(err, EBADMSG, "the commit has a folder with a name that must not be stored");
		if (mkdirat(at, part, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make a folder");
		next = tree_open_dir(at, part);
		close(at);
		at = next;
		i += n + 1;
	}
	if (at < 0)
		return err_set(err, EIO, "cannot make a folder");
	free(l->folder);
	l->folder = strndup(path, len);
	close_fd(&l->dir);
	l->dir = TAKE_FD(at);
	return l->folder == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
lay_link(struct laying *l, const char *name, const struct listed *file, git_odb_object *object, struct err *err)
{
	OWN(freep) char *target = strndup(git_odb_object_data(object), git_odb_object_size(object));

	if (target == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (state_link_leads_out(file->path, target, strlen(target)))
		return err_set(err, EBADMSG, "the commit has a link that leads out of the state");
	return symlinkat(target, l->dir, name) < 0 ? err_errno(err, "cannot make a link") : 0;
}

static int
lay(void *arg, const struct listed *file, struct err *err)
{
	OWN(git_odb_object_freep) git_odb_object *object = NULL;
	const char *slash = strrchr(file->path, '/'), *name = slash == NULL ? file->path : slash + 1;
	OWN(closep) int fd = -1;
	struct laying *l = arg;
	int r = enter(l, file->path, slash == NULL ? 0 : (size_t)(slash - file->path), err);

	if (r < 0)
		return r;
	if (state_refuses_name(name, strlen(name)) != NULL || file->mode == GIT_FILEMODE_COMMIT)
		return err_set(err, EBADMSG, "the commit has a file that must not be stored");
	if (git_odb_read(&object, l->w->odb, file->id) < 0)
		return worker_git_error(err, "cannot read a file of the commit");
	if (file->mode == GIT_FILEMODE_LINK)
		return lay_link(l, name, file, object, err);
	fd = openat(l->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	            file->mode == GIT_FILEMODE_BLOB_EXECUTABLE ? 0755 : 0644);
	if (fd < 0)
		return err_errno(err, "cannot make a file");
	r = write_all(fd, git_odb_object_data(object), git_odb_object_size(object), err);
	return r == 0 ? worker_step(l->w, ++l->files, 0, err) : r;
}

static int
remove_half(int trees, struct err *err)
{
	OWN(closep) int fd = tree_open_dir(trees, NEW);
	int r = fd < 0 ? 0 : tree_empty(fd, err);

	return r == 0 && unlinkat(trees, NEW, AT_REMOVEDIR) < 0 && errno != ENOENT ?
	       err_errno(err, "cannot remove an incomplete folder") : r;
}

static int
lay_out(struct worker *w, const git_oid *commit, int trees, struct err *err)
{
	OWN(git_tree_freep) git_tree *tree = NULL;
	struct laying l = { .w = w };
	uint64_t files, bytes;
	int r = worker_tree_of(w->repo, commit, &tree, err);

	r = r == 0 ? remove_half(trees, err) : r;
	if (r == 0 && mkdirat(trees, NEW, 0755) < 0)
		r = err_errno(err, "cannot make a folder");
	if (r < 0)
		return r;
	l.top = tree_open_dir(trees, NEW);
	if (l.top < 0)
		return err_set(err, -l.top, "cannot open a folder");
	r = worker_walk(w, w->repo, git_tree_id(tree), lay, &l, &files, &bytes, err);
	free(l.folder);
	close_fd(&l.dir);
	close_fd(&l.top);
	return r;
}

int
worker_answer_checkout(struct worker *w, struct ipc_message *m, struct err *err)
{
	OWN(closep) int trees = openat(STATE_DIR_FD, STATE_TREES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(buf_free) struct buf done = {0};
	char name[STATE_ID + 1];
	git_oid id;
	int r = worker_get_id(&m->body, &id, err);

	if (r == 0 && trees < 0)
		r = err_errno(err, "cannot open '" STATE_TREES "'");
	r = r == 0 ? lay_out(w, &id, trees, err) : r;
	if (r < 0)
		return r;
	git_oid_tostr(name, sizeof(name), &id);
	/* After a power failure, it must not be there without the files' bytes. */
	if (syncfs(trees) < 0 || (renameat(trees, NEW, trees, name) < 0 && errno != EEXIST && errno != ENOTEMPTY))
		return err_errno(err, "cannot keep the files of a commit");
	ipc_begin(&done, STATE_DONE);
	return worker_send(&done, err);
}
