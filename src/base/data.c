/* data.c - see data.h. */
#include "base/data.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

char *
data_path(const char *name, struct err *err)
{
	const char *given = getenv("CLOISTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char *path;

	if (given != NULL && given[0] == '/')
		path = str_format("%s/%s", given, name);
	else if (geteuid() == 0)
		path = str_format("/var/lib/cloister/%s", name);
	else if (xdg != NULL && xdg[0] == '/')
		path = str_format("%s/cloister/%s", xdg, name);
	else if (home != NULL && home[0] == '/')
		path = str_format("%s/.local/share/cloister/%s", home, name);
	else {
		err_set(err, ENOENT, "there is no HOME to keep the %s in: set HOME or "
		        "CLOISTER_DATA_DIR", name);
		return NULL;
	}
	if (path == NULL)
		err_set(err, ENOMEM, "out of memory");
	return path;
}

int
data_folder(const char *name, bool make, struct err *err)
{
	OWN(freep) char *path = data_path(name, err);
	struct stat st;
	int fd;

	if (path == NULL)
		return -ENOENT;
	fd = tree_open_made(path, make, "set CLOISTER_DATA_DIR", err);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || (st.st_mode & 077) != 0) {
		close(fd);
		return err_set(err, EPERM, "others may look into '%s': `chmod 700` it", path);
	}
	return fd;
}
