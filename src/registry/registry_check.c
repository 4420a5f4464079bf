/* registry_check.c - checks byte by byte that a capability's folder matches its hash.
 *
 * Beside the files is the content of the version.  The folder's name is the content's SHA-256, and
 * the content has the SHA-256 of each file.  So a folder can be checked without the database. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "canon/canon.h"
#include "registry/object.h"
#include "registry/registry_tree.h"

#define DEPTH_MAX 128

struct checking {
	json_t *files;                  /* by path: {"hash","executable"}; removed when seen */
	json_t *folders;                /* the folders of files, by path */
	struct err *err;
};

static int
changed(const struct checking *c, const char *path, const char *how)
{
	return err_set(c->err, EUCLEAN, "'%s' %s since it was registered", path, how);
}

/* By path, with the folders above each. */
static int
list_files(struct checking *c, json_t *content)
{
	json_t *list = json_object_get(content, "files"), *file;
	size_t i;

	json_array_foreach(list, i, file) {
		const char *path = json_string_value(json_object_get(file, "path"));

		if (path == NULL || json_object_set(c->files, path, file) < 0)
			return err_set(c->err, EINVAL, "a capability's list of files is none");
		for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
			char above[OBJECT_PATH_MAX + 1];

			if (snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path) >= (int)sizeof(above) ||
			    json_object_set_new(c->folders, above, json_true()) < 0)
				return err_set(c->err, EINVAL, "a capability's list of files is none");
		}
	}
	return 0;
}

static int
check_file(struct checking *c, int dir, const char *name, const char *path, const struct stat *st)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	json_t *file = json_object_get(c->files, path);
	unsigned char hash[HASH_LEN];
	char text[HASH_NAME + 1];
	const char *wanted = json_string_value(json_object_get(file, "hash"));
	uint64_t size;
	int r;

	if (file == NULL || wanted == NULL)
		return changed(c, path, "was added");
	if (fd < 0)
		return err_errno(c->err, "cannot open '%s'", path);
	r = hash_fd(fd, REGISTRY_BLOB_MAX, hash, &size, c->err);
	if (r < 0)
		return r;
	hash_name(hash, text);
	if (strcmp(text, wanted) != 0)
		return changed(c, path, "was changed");
	if ((st->st_mode & 07777) != (json_is_true(json_object_get(file, "executable")) ? 0555u : 0444u))
		return changed(c, path, "got another mode");
	return json_object_del(c->files, path);
}

static int check_folder(struct checking *c, int fd, const char *path, int depth);

static int
check_entry(struct checking *c, int dir, const char *name, const char *path, int depth)
{
	struct stat st;
	int below;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(c->err, "cannot look at '%s'", path);
	if (S_ISREG(st.st_mode))
		return check_file(c, dir, name, path, &st);
	if (!S_ISDIR(st.st_mode) || json_object_get(c->folders, path) == NULL)
		return changed(c, path, "was added");
	below = tree_open_dir(dir, name);
	return below < 0 ? err_set(c->err, -below, "cannot open '%s': %s", path, strerrordesc_np(-below)) :
	       check_folder(c, below, path, depth + 1);
}

/* Takes ownership of FD. */
static int
check_folder(struct checking *c, int fd, const char *path, int depth)
{
	OWN(closedirp) DIR *stream = fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (stream == NULL || depth > DEPTH_MAX) {
		if (stream == NULL)
			close(fd);
		return err_set(c->err, EUCLEAN, "'%s' cannot be listed", path);
	}
	while (r == 0 && (d = readdir(stream)) != NULL) {
		OWN(freep) char *whole = NULL;

		if (tree_is_dots(d->d_name))
			continue;
		whole = str_format("%s%s%s", path, path[0] == '\0' ? "" : "/", d->d_name);
		r = whole == NULL ? err_set(c->err, ENOMEM, "out of memory") :
		    check_entry(c, dirfd(stream), d->d_name, whole, depth);
	}
	return r;
}

/* Reads the content beside the files, if its hash is NAME. */
static int
read_content(int dir, const char *name, json_t **ret_content, struct err *err)
{
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	char is[HASH_NAME + 1];
	size_t len;
	int r = read_file_at(dir, REGISTRY_TREE_CONTENT, OBJECT_TEXT_MAX, &text, &len, err);

	if (r == -ENOENT)
		return err_set(err, ENOENT, "it has no list of its files: remove it, and the next dispatch makes it "
		               "again");
	if (r < 0)
		return r;
	hash_of(text, len, hash);
	hash_name(hash, is);
	if (strcmp(is + strlen(HASH_PREFIX), name) != 0)
		return err_set(err, EUCLEAN, "its list of files is not the one that was registered");
	return canon_read(text, len, ret_content, err);
}

int
registry_check_tree(int trees, const char *name, json_t *content, struct err *err)
{
	OWN(closep) int dir = tree_open_dir(trees, name);
	OWN(json_decrefp) json_t *read = NULL, *files = json_object(), *folders = json_object();
	struct checking c = { .files = files, .folders = folders, .err = err };
	const char *left;
	int fd, r;

	if (dir < 0)
		return err_set(err, -dir, "cannot open it: %s", strerrordesc_np(-dir));
	if (files == NULL || folders == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = content != NULL ? 0 : read_content(dir, name, &read, err);
	r = r == 0 ? list_files(&c, content != NULL ? content : read) : r;
	if (r < 0)
		return r;
	fd = tree_open_dir(dir, REGISTRY_TREE_FILES);
	r = fd < 0 ? err_set(err, -fd, "its files are gone") : check_folder(&c, fd, "", 0);
	if (r == 0 && json_object_size(files) > 0) {
		left = json_object_iter_key(json_object_iter(files));
		return changed(&c, left, "was removed");
	}
	return r;
}

/* ---- time of the last change ---- */

static uint64_t
changed_ns(const struct stat *st)
{
	return (uint64_t)st->st_ctim.tv_sec * 1000000000 + (uint64_t)st->st_ctim.tv_nsec;
}

/* Takes ownership of FD. */
static int
find_newest(int fd, int depth, uint64_t *newest)
{
	OWN(closedirp) DIR *stream = fdopendir(fd);
	struct dirent *d;
	struct stat st;
	int r = 0;

	if (stream == NULL) {
		close(fd);
		return -EUCLEAN;
	}
	while (r == 0 && (d = readdir(stream)) != NULL) {
		int below;

		if (strcmp(d->d_name, "..") == 0)
			continue;
		if (depth > DEPTH_MAX || fstatat(dirfd(stream), d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -EUCLEAN;
		*newest = changed_ns(&st) > *newest ? changed_ns(&st) : *newest;
		if (!S_ISDIR(st.st_mode) || strcmp(d->d_name, ".") == 0)
			continue;
		below = tree_open_dir(dirfd(stream), d->d_name);
		r = below < 0 ? -EUCLEAN : find_newest(below, depth + 1, newest);
	}
	return r;
}

int
registry_newest_change(int trees, const char *name, uint64_t *ret_ns)
{
	OWN(closep) int dir = tree_open_dir(trees, name);
	int fd = dir < 0 ? -1 : tree_open_dir(dir, REGISTRY_TREE_FILES);

	*ret_ns = 0;
	return fd < 0 ? -EUCLEAN : find_newest(fd, 0, ret_ns);
}
