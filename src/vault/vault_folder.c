/* vault_folder.c - where the vault is; for those, too, that never open it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "vault/vault.h"

char *
vault_path(struct err *err)
{
	const char *given = getenv("CLOISTER_DATA_DIR"), *xdg = getenv("XDG_DATA_HOME");
	const char *home = getenv("HOME");
	char *path = NULL;

	if (given != NULL && given[0] == '/')
		path = str_format("%s/vault", given);
	else if (geteuid() == 0)
		path = strdup("/var/lib/cloister/vault");
	else if (xdg != NULL && xdg[0] == '/')
		path = str_format("%s/cloister/vault", xdg);
	else if (home != NULL && home[0] == '/')
		path = str_format("%s/.local/share/cloister/vault", home);
	else
		err_set(err, ENOENT, "there is no HOME to keep the vault in: set HOME or "
		        "CLOISTER_DATA_DIR");
	return path;
}

int
vault_folder(bool make, struct err *err)
{
	OWN(freep) char *path = vault_path(err);
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
