/* layer_changes.c - the changes of a build cell as a layer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "proc/layer/layer.h"

#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

/* The first name of a file with several. */
struct link {
	ino_t ino;
	char *path;
};

struct walk {
	struct layer *layer;
	void *links;                    /* a tree of struct link */
	dev_t dev;
	char path[PATH_MAX];
};

static int
by_inode(const void *a, const void *b)
{
	const struct link *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static void
link_free(void *p)
{
	struct link *link = p;

	free(link->path);
	free(link);
}

/* Another name of this file that was written already, or NULL: then this one is remembered. */
static int
find_link(struct walk *w, const struct stat *st, const char **ret_path, struct err *err)
{
	struct link *link = calloc(1, sizeof(*link)), **found;

	if (link == NULL)
		return err_set(err, ENOMEM, "out of memory");
	link->ino = st->st_ino;
	link->path = strdup(w->path);
	found = link->path == NULL ? NULL : tsearch(link, &w->links, by_inode);
	if (found == NULL || *found != link)
		link_free(link);
	if (found == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_path = *found == link ? NULL : (*found)->path;
	return 0;
}

static struct tar_entry
entry_of(const struct walk *w, const struct stat *st)
{
	return (struct tar_entry){ .path = w->path, .mode = st->st_mode, .uid = st->st_uid, .gid = st->st_gid,
		.mtime = layer_time(w->layer, st) };
}

/* "DIR/.wh.NAME" for "DIR/NAME". */
static int
put_mark(struct walk *w, const char *dir, const char *prefix, const char *name, struct err *err)
{
	char path[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s%s%s%s", dir, dir[0] != '\0' ? "/" : "", prefix, name) >= sizeof(path))
		return err_set(err, ENAMETOOLONG, "the path of '%s' is too long", name);
	return layer_put(w->layer, &(struct tar_entry){ .path = path, .mode = S_IFREG, .mtime = w->layer->epoch }, err);
}

static int
put_file(struct walk *w, int dir, const char *name, const struct stat *st, struct err *err)
{
	OWN(buf_free) struct buf xattrs = BUF(TAR_XATTRS_MAX);
	struct tar_entry e = entry_of(w, st);
	OWN(closep) int fd = -1;
	int r = st->st_nlink > 1 ? find_link(w, st, &e.hard, err) : 0;

	if (r < 0 || e.hard != NULL)
		return r < 0 ? r : layer_put(w->layer, &e, err);
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", w->path);
	r = layer_xattrs(fd, &xattrs, err);
	e.xattrs = &xattrs;
	return r < 0 ? r : layer_put_file(w->layer, &e, fd, err);
}

static int
put_link(struct walk *w, int dir, const char *name, const struct stat *st, struct err *err)
{
	struct tar_entry e = entry_of(w, st);
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_errno(err, "cannot read the link '%s'", w->path);
	target[n] = '\0';
	e.link = target;
	return layer_put(w->layer, &e, err);
}

static int list(struct walk *w, int dir, int depth, struct err *err);

static int
put_folder(struct walk *w, int dir, const char *name, const struct stat *st, int depth, struct err *err)
{
	OWN(buf_free) struct buf xattrs = BUF(TAR_XATTRS_MAX);
	OWN(closep) int inner = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct tar_entry e = entry_of(w, st);
	char opaque;
	int r;

	if (inner < 0)
		return err_errno(err, "cannot open '%s'", w->path);
	if (st->st_dev != w->dev || depth >= LAYER_DEPTH_MAX)
		return err_set(err, ELOOP, "the folder '%s' is too deep", w->path);
	r = layer_xattrs(inner, &xattrs, err);
	e.xattrs = &xattrs;
	if (r == 0)
		r = layer_put(w->layer, &e, err);
	if (r == 0 && fgetxattr(inner, "user.overlay.opaque", &opaque, 1) == 1 && opaque == 'y')
		r = put_mark(w, w->path, "", OPAQUE, err);
	return r < 0 ? r : list(w, inner, depth + 1, err);
}

/* Sockets and devices have no place in an image. */
static int
put_entry(struct walk *w, int dir, const char *name, int depth, struct err *err)
{
	const size_t end = strlen(w->path);
	struct stat st;
	int r = 0;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot look at '%s/%s'", w->path, name);
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
		return put_mark(w, w->path, WHITEOUT, name, err);
	if (strncmp(name, WHITEOUT, strlen(WHITEOUT)) == 0)
		return err_set(err, EINVAL, "'%s/%s' has a name by which images mark removed files", w->path, name);
	if ((size_t)snprintf(w->path + end, sizeof(w->path) - end, "%s%s", end > 0 ? "/" : "", name) >=
	    sizeof(w->path) - end)
		return err_set(err, ENAMETOOLONG, "the path of '%s' is too long", name);
	if (S_ISDIR(st.st_mode))
		r = put_folder(w, dir, name, &st, depth, err);
	else if (S_ISREG(st.st_mode))
		r = put_file(w, dir, name, &st, err);
	else if (S_ISLNK(st.st_mode))
		r = put_link(w, dir, name, &st, err);
	else if (S_ISFIFO(st.st_mode))
		r = layer_put(w->layer, &(struct tar_entry){ .path = w->path, .mode = st.st_mode, .uid = st.st_uid,
		              .gid = st.st_gid, .mtime = layer_time(w->layer, &st) }, err);
	w->path[end] = '\0';
	return r;
}

static int
list(struct walk *w, int dir, int depth, struct err *err)
{
	struct layered_file folder = { .dirs = &dir, .n_dirs = 1 };
	char **names;
	size_t n;
	int r = layered_list(&folder, &names, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = put_entry(w, dir, names[i], depth, err);
	layered_free_names(names, n);
	return r;
}

int
layer_write_changes(struct layer *l, int upper, struct err *err)
{
	struct walk w = { .layer = l };
	struct stat st;
	int r;

	if (fstat(upper, &st) < 0)
		return err_errno(err, "cannot look at the changes");
	w.dev = st.st_dev;
	r = list(&w, upper, 0, err);
	tdestroy(w.links, link_free);
	return r < 0 ? r : tar_end(&l->tar, err);
}
