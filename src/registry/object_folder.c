/* object_folder.c - reads a capability from the folder in which somebody wrote it.
 *
 * Only plain files and folders are accepted: the target of a link or a device is not in the folder,
 * and may be something else tomorrow. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "registry/object_parts.h"
#include "registry/registry_parts.h"
#include "trust/trust.h"

struct walk {
	struct registry *r;
	const char *shown;              /* the folder, as it was given */
	struct object_files files;
	char path[OBJECT_PATH_MAX + 2]; /* of the current entry, in the folder */
	struct err *err;
};

static int walk_folder(struct walk *w, int dir, size_t len);

static int
refuse(struct walk *w, const char *what)
{
	return err_set(w->err, EINVAL, "'%s/%s' is %s: a capability has only plain files and folders",
	               w->shown, w->path, what);
}

static int
take_file(struct walk *w, int dir, const char *name)
{
	/* It may have become a pipe meanwhile. */
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(w->err, "cannot open '%s/%s'", w->shown, w->path);
	if (!S_ISREG(st.st_mode))
		return refuse(w, "no file any more");
	r = object_add_file(w->r, &w->files, w->path, fd, NULL, 0, (st.st_mode & 0100) != 0, w->err);
	return r < 0 ? err_wrap(w->err, "'%s/%s'", w->shown, w->path) : 0;
}

static int
take_folder(struct walk *w, int dir, const char *name, size_t len)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r;

	if (fd < 0)
		return err_errno(w->err, "cannot open '%s/%s'", w->shown, w->path);
	/* Checked before it is entered: folders may be nested without end. */
	r = object_check_path(w->path, w->err);
	if (r < 0)
		return err_wrap(w->err, "'%s'", w->shown);
	if (len + 1 >= sizeof(w->path))
		return err_set(w->err, ENAMETOOLONG, "'%s/%.64s...' is too long", w->shown, w->path);
	w->path[len] = '/';
	return walk_folder(w, fd, len + 1);
}

static int
take_entry(struct walk *w, int dir, const char *name, size_t len)
{
	size_t n = strlen(name);
	struct stat st;

	if (len + n >= sizeof(w->path))
		return err_set(w->err, ENAMETOOLONG, "'%s/%.64s...' is too long", w->shown, w->path);
	memcpy(w->path + len, name, n + 1);
	if (strcmp(w->path, OBJECT_ABOUT) == 0)
		return 0;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(w->err, "cannot look at '%s/%s'", w->shown, w->path);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return take_file(w, dir, name);
	case S_IFDIR:
		return take_folder(w, dir, name, len + n);
	case S_IFLNK:
		return refuse(w, "a link");
	case S_IFIFO:
		return refuse(w, "a pipe");
	case S_IFSOCK:
		return refuse(w, "a socket");
	default:
		return refuse(w, "a device");
	}
}

static int
walk_folder(struct walk *w, int dir, size_t len)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	OWN(closedirp) DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;

	if (stream == NULL)
		return err_errno(w->err, "cannot list a folder of '%s'", w->shown);
	while (r == 0 && (errno = 0, d = readdir(stream)) != NULL)
		if (!tree_is_dots(d->d_name))
			r = take_entry(w, dir, d->d_name, len);
	if (r == 0 && errno != 0)
		r = err_errno(w->err, "cannot list a folder of '%s'", w->shown);
	return r;
}

static int
open_about(int dir, const char *path, char **ret_text, size_t *ret_len, struct err *err)
{
	struct stat st;

	if (fstatat(dir, OBJECT_ABOUT, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		return err_set(err, ENOENT, "there is no " OBJECT_ABOUT " in '%s': write one that says `name`",
		               path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "'%s/" OBJECT_ABOUT "' is not a plain file", path);
	return read_file_at(dir, OBJECT_ABOUT, OBJECT_FILE_MAX, ret_text, ret_len, err);
}

int
object_read_folder(struct registry *r, const char *path, const char *name,
                   struct object **ret_object, struct err *err)
{
	OWN(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(freep) char *text = NULL, *file = str_format("%s/" OBJECT_ABOUT, path);
	OWN(json_decrefp) json_t *list = json_array();
	struct walk w = { .r = r, .shown = path, .files = { .list = list }, .err = err };
	OWN(node_freep) struct node *root = NULL;
	OWN(object_freep) struct object *checked = NULL;
	size_t len;
	int n;

	if (dir < 0 && errno == ENOTDIR)
		return err_set(err, ENOTDIR, "'%s' is not a folder: a capability is one, with a "
		               OBJECT_ABOUT " in it", path);
	if (dir < 0)
		return err_errno(err, "cannot open the folder '%s'", path);
	if (file == NULL || list == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = trust_path(TRUST_REGISTERED, path, err);
	n = n == 0 ? open_about(dir, path, &text, &len, err) : n;
	n = n == 0 ? node_parse(file, text, len, &root, err) : n;
	/* A wrong object stores nothing. */
	n = n == 0 ? object_read_node(REGISTRY_CAPABILITY, root, name, NULL, &checked, err) : n;
	n = n == 0 ? walk_folder(&w, dir, 0) : n;
	if (n == 0 && object_sort_files(&w.files, err) < 0)
		n = err_wrap(err, "'%s'", path);
	n = n == 0 ? object_read_node(REGISTRY_CAPABILITY, root, name, list, ret_object, err) : n;
	if (n < 0)
		registry_drop_staged(r);
	return n;
}
