/* ns_home.c - makes files that tools look for in the agent's home, with placeholders in the tools'
 * own formats. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"

/* The home is new and no process uses it yet, so every file in it was made here. */
static int
make_file(int home, const struct cell_file *file, uid_t agent, struct err *err)
{
	OWN(freep) char *path = strdup(file->path);
	OWN(closep) int fd = -1;

	for (char *slash = path; slash != NULL && (slash = strchr(slash, '/')) != NULL; slash++) {
		*slash = '\0';
		if (mkdirat(home, path, 0700) == 0) {
			if (fchownat(home, path, agent, agent, AT_SYMLINK_NOFOLLOW) < 0)
				return err_errno(err, "cannot make '%s' in the home folder", path);
		} else if (errno != EEXIST) {
			return err_errno(err, "cannot make '%s' in the home folder", path);
		}
		*slash = '/';
	}
	if (path != NULL)
		fd = openat(home, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fchown(fd, agent, agent) < 0)
		return err_errno(err, "cannot make '%s' in the home folder", file->path);
	return write_all(fd, file->text, strlen(file->text), err);
}

int
ns_fill_home(int home, const struct cell_spec *spec, uid_t agent, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_files; i++)
		r = make_file(home, &spec->files[i], agent, err);
	return r;
}

int
ns_make_home(int root, const struct cell_spec *spec, struct err *err)
{
	OWN(closep) int home = -1;

	if (spec->n_files == 0)
		return 0;
	home = openat(root, "home/agent", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return home < 0 ? err_errno(err, "cannot open the home folder") :
	       ns_fill_home(home, spec, cell_spec_uid(spec), err);
}
