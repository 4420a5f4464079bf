/* workspace_tree.c - see workspace_tree.h. */
#include "workspace/workspace_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "base/utf8.h"

char *
wtree_show(char shown[WTREE_SHOWN_MAX], const char *path)
{
	size_t len = strlen(path), out = 0, n;
	uint32_t code;

	/* An escaped byte takes four; leave room for the dots. */
	for (size_t i = 0; i < len; i += n) {
		if (out + 8 > WTREE_SHOWN_MAX) {
			memcpy(shown + out, "...", 4);
			return shown;
		}
		n = utf8_next(path + i, len - i, &code);
		if (n > 0 && !utf8_is_control(code)) {
			memcpy(shown + out, path + i, n);
			out += n;
		} else {
			n = 1;
			out += (size_t)snprintf(shown + out, 5, "\\x%02x", (unsigned char)path[i]);
		}
	}
	shown[out] = '\0';
	return shown;
}

int
wtree_path_push(struct wtree_path *path, const char *name, struct err *err)
{
	size_t len = strlen(name);

	if (path->text == NULL && (path->text = calloc(1, WTREE_PATH_MAX)) == NULL)
		return err_errno(err, "cannot look through the changes");
	if (path->len + len + 2 > WTREE_PATH_MAX)
		return err_set(err, ENAMETOOLONG, "folders are nested too deep");
	if (path->len > 0)
		path->text[path->len++] = '/';
	memcpy(path->text + path->len, name, len + 1);
	path->len += len;
	return 0;
}

void
wtree_path_pop(struct wtree_path *path, size_t len)
{
	path->len = len;
	if (path->text != NULL)
		path->text[len] = '\0';
}

void
wtree_path_free(struct wtree_path *path)
{
	free(path->text);
	*path = (struct wtree_path){0};
}

bool
wtree_is_ours(const char *name)
{
	size_t len = strlen(name);

	return len >= 14 && strncmp(name, ".cloister-", 10) == 0 &&
	       strcmp(name + len - 4, ".tmp") == 0;
}

bool
wtree_is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

bool
wtree_is_opaque(int dir)
{
	char value[2];

	return fgetxattr(dir, WTREE_OPAQUE, value, sizeof(value)) == 1 && value[0] == 'y';
}

int
wtree_stat(int dir, const char *name, struct stat *ret_st)
{
	*ret_st = (struct stat){0};
	if (dir < 0)
		return 0;
	if (fstatat(dir, name, ret_st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	*ret_st = (struct stat){0};
	return errno == ENOENT ? 0 : -errno;
}

static int
open_beneath(int dir, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned)flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
		           RESOLVE_NO_XDEV,
	};
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

int
wtree_open_file(int dir, const char *name)
{
	int fd = open_beneath(dir, name, O_RDONLY);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		fd = -EINVAL;
	}
	return fd;
}

int
wtree_open_folder(int dir, const char *path)
{
	return open_beneath(dir, path, O_RDONLY | O_DIRECTORY);
}

int
workspace_open(int root, const char *path, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];
	int fd = wtree_open_file(root, path);

	if (fd < 0) {
		errno = -fd;
		return err_errno(err, "cannot open '%s'", wtree_show(shown, path));
	}
	return fd;
}

mode_t
wtree_mode(int fd, const struct stat *st)
{
	mode_t kept = S_ISDIR(st->st_mode) ? 01777 : 0777;
	char text[WTREE_MODE_TEXT] = "", *end;
	ssize_t n = fgetxattr(fd, WTREE_MODE, text, sizeof(text) - 1);
	unsigned long mode;

	if (n <= 0)
		return st->st_mode & kept;
	mode = strtoul(text, &end, 8);
	return *end == '\0' ? (mode_t)mode & kept : st->st_mode & kept;
}

int
wtree_set_mode(int fd, mode_t mode)
{
	char text[WTREE_MODE_TEXT];
	struct stat st;
	mode_t needed;

	if (fstat(fd, &st) < 0)
		return -errno;
	needed = S_ISDIR(st.st_mode) ? 0700 : 0600;
	mode &= S_ISDIR(st.st_mode) ? 01777 : 0777;
	if ((mode & needed) != needed) {
		snprintf(text, sizeof(text), "%04o", (unsigned)mode);
		if (fsetxattr(fd, WTREE_MODE, text, strlen(text), 0) < 0)
			return -errno;
	}
	return fchmod(fd, mode | needed) < 0 ? -errno : 0;
}

static int
order_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
read_names(DIR *stream, struct wtree_names *names, struct err *err)
{
	size_t used = 0, cap = 0, len;
	struct dirent *d;
	char *bytes;

	for (errno = 0; (d = readdir(stream)) != NULL; errno = 0) {
		if (tree_is_dots(d->d_name) || wtree_is_ours(d->d_name))
			continue;
		len = strlen(d->d_name) + 1;
		if (used + len > cap) {
			if (used + len > WORKSPACE_NAMES_MAX || names->n >= WORKSPACE_ENTRIES_MAX)
				return err_set(err, E2BIG, "too many files in one folder");
			cap = cap == 0 ? 4096 : cap * 2;
			bytes = realloc(names->bytes, cap);
			if (bytes == NULL)
				return err_errno(err, "cannot list a folder");
			names->bytes = bytes;
		}
		memcpy(names->bytes + used, d->d_name, len);
		used += len;
		names->n++;
	}
	return errno != 0 ? err_errno(err, "cannot list a folder") : 0;
}

int
wtree_names_load(int dir, struct wtree_names *ret_names, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	OWN(closedirp) DIR *stream = NULL;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	char *p;

	stream = fd < 0 ? NULL : fdopendir(fd);
	if (stream == NULL) {
		r = err_errno(err, "cannot list a folder");
		if (fd >= 0)
			close(fd);
		return r;
	}
	r = read_names(stream, &names, err);
	if (r < 0)
		return r;
	if (names.n > 0) {
		names.name = calloc(names.n, sizeof(*names.name));
		if (names.name == NULL)
			return err_errno(err, "cannot list a folder");
		p = names.bytes;
		for (size_t i = 0; i < names.n; i++, p += strlen(p) + 1)
			names.name[i] = p;
		qsort(names.name, names.n, sizeof(*names.name), order_names);
	}
	*ret_names = names;
	names = (struct wtree_names){0};
	return 0;
}

void
wtree_names_free(struct wtree_names *names)
{
	free(names->name);
	free(names->bytes);
	*names = (struct wtree_names){0};
}

/* ---- removing --------------------------------------------------------------- */

int
wtree_remove(int dir, const char *name, const struct stat *only, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];
	OWN(closep) int fd = -1;
	struct stat st;
	int r;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR)
		return err_errno(err, "cannot remove '%s'", wtree_show(shown, name));
	fd = tree_open_dir_anyway(dir, name);
	if (fd < 0) {
		errno = -fd;
		fd = -1;
		return err_errno(err, "cannot remove '%s'", wtree_show(shown, name));
	}
	if (only != NULL && (fstat(fd, &st) < 0 || st.st_ino != only->st_ino ||
	                     st.st_dev != only->st_dev))
		return err_set(err, EBUSY, "cannot remove '%s': something else is there now",
		               wtree_show(shown, name));
	r = tree_empty(fd, err);
	if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		r = err_errno(err, "cannot remove '%s'", wtree_show(shown, name));
	return r;
}
