/* cell_dirs.c - opens the runtime and state folders, and lists their entries. */
#include "cell/cell_dirs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/tree.h"

#define OTHERWISE "set CLOISTER_RUNTIME_DIR or CLOISTER_STATE_DIR"

int
cell_runtime_open(struct err *err)
{
	OWN(freep) char *path = data_runtime_path(err);

	return path == NULL ? -ENOMEM : tree_open_made(path, true, OTHERWISE, err);
}

/* Anyone who can read a folder can lock it for good, and every start waits for that lock. */
static void
shut_out_others(int folder)
{
	struct stat st;

	if (fstat(folder, &st) == 0 && (st.st_mode & 077) != 0)
		(void)fchmod(folder, st.st_mode & 07700);
}

int
cell_state_open(bool make, struct err *err)
{
	OWN(freep) char *path = data_state_path(err);
	int fd = path == NULL ? -ENOENT : tree_open_made(path, make, OTHERWISE, err);

	if (fd >= 0)
		shut_out_others(fd);
	return fd;
}

/* Parse "ID.SLOT.NAME" or "ID.NAME"; false for anything else. */
static bool
parse_entry(const char *dir, bool runtime, struct cell_entry *ret_entry)
{
	struct cell_entry entry = {0};
	const char *rest = dir + CELL_ID_LEN + 1;
	uint64_t slot;
	char *dot;

	if (strlen(dir) >= CELL_ENTRY_MAX || strlen(dir) <= CELL_ID_LEN ||
	    dir[CELL_ID_LEN] != '.')
		return false;
	memcpy(entry.dir, dir, strlen(dir) + 1);
	memcpy(entry.id, dir, CELL_ID_LEN);
	if (runtime) {
		char number[CELL_ENTRY_MAX];

		snprintf(number, sizeof(number), "%s", rest);
		dot = strchr(number, '.');
		if (dot == NULL)
			return false;
		*dot = '\0';
		entry.far = strcmp(number, CELL_FAR) == 0;
		if (!entry.far && num_parse_count(number, 0, CELL_SLOTS - 1, &slot, NULL) < 0)
			return false;
		entry.slot = entry.far ? CELL_SLOTS : (unsigned)slot;
		rest += dot - number + 1;
	}
	if (!cell_name_ok(entry.id) || (*rest != '\0' && !cell_name_ok(rest)))
		return false;
	memcpy(entry.name, rest, strlen(rest) + 1);
	*ret_entry = entry;
	return true;
}

int
cell_list(int folder, bool runtime, struct cell_entry **ret_entries, size_t *ret_n,
          struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(closedirp) DIR *dir = NULL;
	size_t n = 0, cap = 0;
	struct dirent *d;
	int fd;

	fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL)
		return err_errno(err, "cannot list the cells");
	while ((d = readdir(dir)) != NULL) {
		if (n == cap) {
			struct cell_entry *more;

			cap = cap == 0 ? 16 : cap * 2;
			more = realloc(entries, cap * sizeof(*entries));
			if (more == NULL)
				return err_errno(err, "cannot list the cells");
			entries = more;
		}
		if (parse_entry(d->d_name, runtime, &entries[n]))
			n++;
	}
	*ret_entries = TAKE(entries);
	*ret_n = n;
	return 0;
}
