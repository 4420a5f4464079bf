/* saver_show.c - lets cloister-state read what a dead cell left where it lies, which saves a copy.
 *
 * Only names, types and modes are looked at.  The owner stays: if this process dies, others collect the same files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/saver/saver.h"
#include "workspace/workspace.h"

#define FILE_BITS 0444
#define FOLDER_BITS 0555

/* With these bits, the file at FD, which is O_PATH. */
static int
add_bits(int fd, mode_t bits)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fstat(fd, &st) < 0 || ((st.st_mode & bits) != bits && chmod(path, (st.st_mode | bits) & 07777) < 0) ? -errno : 0;
}

static int show(int folder, int depth, uint64_t *left);

static int
show_one(int folder, const char *name, int depth, uint64_t *left)
{
	OWN(closep) int fd = -1, inner = -1;
	struct stat st;
	mode_t bits;
	int r;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	bits = S_ISREG(st.st_mode) ? FILE_BITS : FOLDER_BITS;
	/* cloister-state cannot open what is no file, and would keep it aside. */
	if (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode) || (*left)-- == 0)
		return -ENOTSUP;
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	if ((st.st_mode & bits) != bits) {
		fd = openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? -errno : add_bits(fd, bits);
		if (r < 0)
			return r;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	inner = tree_open_dir(folder, name);
	return inner < 0 ? inner : show(inner, depth + 1, left);
}

static int
show(int folder, int depth, uint64_t *left)
{
	OWN(closedirp) DIR *list = tree_list(folder);
	const struct dirent *entry;
	int r = list == NULL ? -EIO : depth > WORKSPACE_DEPTH_MAX ? -ENAMETOOLONG : 0;

	while (r == 0 && (entry = readdir(list)) != NULL)
		if (!tree_is_dots(entry->d_name))
			r = show_one(folder, entry->d_name, depth, left);
	return r;
}

bool
saver_show(int upper)
{
	OWN(closep) int fd = openat(upper, ".", O_PATH | O_CLOEXEC), folder = -1;
	uint64_t left = WORKSPACE_ENTRIES_MAX;

	if (fd < 0 || add_bits(fd, FOLDER_BITS) < 0)
		return false;
	folder = openat(upper, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return folder >= 0 && show(folder, 0, &left) == 0;
}
