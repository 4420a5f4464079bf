/* saver_own.c - gives root what the inner root of root's cell has collected, so that cloister-state, which has no rights over
 * the files of others, can read it.  Only names and types are looked at. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/saver/saver.h"
#include "workspace/workspace.h"

static int
own(int folder, int depth, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(folder);
	struct dirent *d;
	struct stat st;
	int r = list == NULL || depth > WORKSPACE_DEPTH_MAX ? -ENAMETOOLONG : 0;

	while (r == 0 && (d = readdir(list)) != NULL) {
		OWN(closep) int inner = -1;

		if (tree_is_dots(d->d_name))
			continue;
		if (fstatat(folder, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    (st.st_uid != 0 && fchownat(folder, d->d_name, 0, 0, AT_SYMLINK_NOFOLLOW) < 0))
			return err_errno(err, "cannot take over the changes of a state");
		if (!S_ISDIR(st.st_mode))
			continue;
		inner = openat(folder, d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = inner < 0 ? err_errno(err, "cannot take over the changes of a state") : own(inner, depth + 1, err);
	}
	return r == -ENAMETOOLONG ? err_set(err, ENAMETOOLONG, "the changes of a state are too deep, or cannot be listed") : r;
}

int
saver_own(int changes, struct err *err)
{
	if (geteuid() != 0)
		return 0;
	if (fchown(changes, 0, 0) < 0)
		return err_errno(err, "cannot take over the changes of a state");
	return own(changes, 0, err);
}
