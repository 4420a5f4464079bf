/* overlay.c - see overlay.h. */
#include "boundary/overlay/overlay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "confine/mounts.h"

#define NAME_SIZE 32

/* An overlay keeps its marks in user attributes, which tmpfs has since Linux 6.6. */
static bool
takes_user_attribute(int fd)
{
	return CONTROL_ON("tmpfs-xattr") && fd >= 0 &&
	       (fsetxattr(fd, "user.overlay.cloister", "", 0, 0) == 0 || errno != EOPNOTSUPP);
}

/* A memory file is on a tmpfs, too. */
bool
overlay_fits_memory(void)
{
	OWN(closep) int fd = memfd_create("tmpfs", MFD_CLOEXEC);

	return takes_user_attribute(fd);
}

static bool
has_user_attributes(int folder)
{
	OWN(closep) int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return takes_user_attribute(fd);
}

int
overlay_open_changes(int root, int scratch, int changes, int mount, struct err *err)
{
	OWN(closep) int tree = mount;
	char link[48], path[PATH_MAX];
	ssize_t n;
	int r;

	if (has_user_attributes(scratch))
		return fcntl(scratch, F_DUPFD_CLOEXEC, 0);
	if (tree < 0) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", changes);
		n = readlink(link, path, sizeof(path) - 1);
		if (n < 0)
			return err_errno(err, "cannot find the state folder");
		path[n] = '\0';
		tree = mounts_copy_tree(AT_FDCWD, path, err);
	}
	if (tree < 0)
		return tree;
	r = mounts_set_attrs(tree, MOUNTS_QUIET, false, err);
	if (r == 0)
		r = mounts_attach(tree, root, OVERLAY_CHANGES, err);
	return r < 0 ? r : TAKE_FD(tree);
}

static int
make_upper(int lower, int changes, size_t number, uid_t owner, int *ret_upper, struct err *err)
{
	char name[NAME_SIZE], work[NAME_SIZE];
	OWN(closep) int upper = -1;
	struct stat st;

	snprintf(name, sizeof(name), "upper%zu", number);
	snprintf(work, sizeof(work), "work%zu", number);
	if (fstat(lower, &st) < 0 || mkdirat(changes, name, 0700) < 0 ||
	    mkdirat(changes, work, 0700) < 0)
		return err_errno(err, "cannot make room for the workspace's changes");
	upper = openat(changes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (upper < 0 || fchown(upper, owner, owner) < 0 || fchmod(upper, st.st_mode & 0777) < 0)
		return err_errno(err, "cannot make room for the workspace's changes");
	*ret_upper = TAKE_FD(upper);
	return 0;
}

/* Folders are given by descriptor, so that the agent's list of mounts reveals no path. */
int
overlay_mount(int root, int changes, size_t number, uid_t owner, int *mount, int *ret_upper,
              struct err *err)
{
	char upper[48], work[48];
	const char *const options[] = { "lowerdir", OVERLAY_LOWER, "upperdir", upper,
	                                "workdir", work, "userxattr", NULL, NULL };
	OWN(closep) int folder = -1;
	int overlay, r;

	snprintf(upper, sizeof(upper), "/proc/self/fd/%d/upper%zu", changes, number);
	snprintf(work, sizeof(work), "/proc/self/fd/%d/work%zu", changes, number);
	r = make_upper(*mount, changes, number, owner, &folder, err);
	if (r == 0)
		r = mounts_attach(*mount, root, OVERLAY_LOWER, err);
	if (r < 0)
		return r;
	overlay = mounts_new_fs("overlay", options, MOUNTS_QUIET, err);
	if (overlay < 0)
		return err_wrap(err, "the workspace (try -w DIR:ro or -w DIR:rw)");
	umount2(OVERLAY_LOWER, MNT_DETACH);
	close(*mount);
	*mount = overlay;
	*ret_upper = TAKE_FD(folder);
	return 0;
}

bool
overlay_is_changed(int upper)
{
	OWN(closedirp) DIR *dir = NULL;
	struct dirent *d;
	int fd = openat(upper, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	dir = fd < 0 ? NULL : fdopendir(fd);
	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			return true;
	return dir == NULL;
}

void
overlay_remove(int changes, size_t number)
{
	static const char *const kinds[] = { "upper", "work" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		OWN(closep) int fd = -1;
		char name[NAME_SIZE];

		snprintf(name, sizeof(name), "%s%zu", kinds[i], number);
		fd = openat(changes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && tree_empty(fd, NULL) == 0)
			(void)unlinkat(changes, name, AT_REMOVEDIR);
	}
}
