/* initramfs_modules.c - lists the module files of a kernel. */
#include "proc/initramfs/initramfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "vm/kernel.h"

#define BUILTIN "modules.builtin"
#define BUILTIN_MAX ((size_t)1 << 20)
#define DEPTH_MAX 16

void
initramfs_files_free(struct initramfs_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->at[i].path);
	free(f->at);
	free(f->builtin);
	close_fd(&f->dir);
	*f = (struct initramfs_files){0};
}

static int
grow(struct initramfs_files *f)
{
	size_t cap = f->cap == 0 ? 1024 : f->cap * 2;
	struct initramfs_file *more;

	if (f->n < f->cap)
		return 0;
	if (cap > INITRAMFS_FILES_MAX)
		return -EFBIG;
	more = realloc(f->at, cap * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	f->at = more;
	f->cap = cap;
	return 0;
}

/* Takes PATH over. */
static int
add_file(struct initramfs_files *f, const struct stat *st, char *path)
{
	struct initramfs_file file = { .path = path, .size = (uint64_t)st->st_size,
		.ctime_ns = st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
		.device = st->st_dev, .inode = st->st_ino };
	int r = -ENOENT;

	if (!S_ISREG(st->st_mode) || !module_file_name(path, strlen(path), file.name, &file.suffix) ||
	    (r = grow(f)) < 0) {
		free(path);
		return r == -ENOENT ? 0 : r;
	}
	f->at[f->n++] = file;
	return 0;
}

/* PREFIX is the path of the folder FD, which this closes.  No link is followed. */
static int
list_folder(struct initramfs_files *f, int fd, const char *prefix, unsigned depth)
{
	OWN(closedirp) DIR *dir = fdopendir(fd);
	struct stat st;
	int r = 0;

	if (dir == NULL) {
		close(fd);
		return -ENOMEM;
	}
	for (struct dirent *e; r == 0 && (e = readdir(dir)) != NULL;) {
		OWN(freep) char *path = NULL;

		if (tree_is_dots(e->d_name) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		path = str_format("%s/%s", prefix, e->d_name);
		if (path == NULL)
			return -ENOMEM;
		if (!S_ISDIR(st.st_mode)) {
			r = add_file(f, &st, TAKE(path));
			continue;
		}
		r = depth == DEPTH_MAX ? -ELOOP : tree_open_dir(dirfd(dir), e->d_name);
		if (r >= 0)
			r = list_folder(f, r, path, depth + 1);
	}
	return r;
}

static int
compare_paths(const void *a, const void *b)
{
	return strcmp(((const struct initramfs_file *)a)->path, ((const struct initramfs_file *)b)->path);
}

static int
read_builtin(struct initramfs_files *f, const char *folder, struct err *err)
{
	OWN(closep) int fd = kernel_open_file(f->dir, BUILTIN, err);

	if (fd == -ENOENT)
		return err_set(err, ENOENT, "'%s' has no file " BUILTIN ": it is not the folder of a kernel's modules, such "
		               "as /lib/modules/RELEASE", folder);
	if (fd < 0)
		return fd;
	return read_open(fd, BUILTIN, BUILTIN_MAX, &f->builtin, NULL, err);
}

int
initramfs_files_list(const char *folder, struct initramfs_files *ret_files, struct err *err)
{
	OWN(initramfs_files_free) struct initramfs_files f = {0};
	int r;

	f.dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f.dir < 0)
		return err_errno(err, "cannot open the modules '%s'", folder);
	r = read_builtin(&f, folder, err);
	if (r < 0)
		return r;
	/* A kernel without modules has no such folder. */
	r = tree_open_dir(f.dir, "kernel");
	if (r >= 0)
		r = list_folder(&f, r, "kernel", 0);
	if (r < 0 && r != -ENOENT)
		return err_set(err, -r, "cannot list the modules in '%s': %s", folder, strerror(-r));
	if (f.n > 0)
		qsort(f.at, f.n, sizeof(*f.at), compare_paths);
	*ret_files = f;
	f = (struct initramfs_files){0};
	return 0;
}
