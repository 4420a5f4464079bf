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

#define IDS_TOLD 4

/* List the matches, so that the user can type one of them. */
static int
not_unique(const struct cell_entry *entries, size_t n, const char *name, size_t same, struct err *err)
{
	char ids[IDS_TOLD * (CELL_ID_LEN + 2) + 4] = "";
	size_t len = 0, told = 0;

	for (size_t i = 0; i < n && told <= IDS_TOLD; i++) {
		if (strcmp(entries[i].name, name) != 0)
			continue;
		len += (size_t)snprintf(ids + len, sizeof(ids) - len, "%s%s", told > 0 ? ", " : "",
		                        told == IDS_TOLD ? "..." : entries[i].id);
		told++;
	}
	return err_set(err, ENOTUNIQ, "%zu cells are called '%s': give an id (%s), see `cloister ps -a`",
	               same, name, ids);
}

int
cell_find(int folder, bool runtime, const char *word, struct cell_entry *ret_entry,
          struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	const struct cell_entry *found = NULL, *called = NULL;
	size_t n, len = strlen(word), hits = 0, same = 0;
	int r;

	r = cell_list(folder, runtime, &entries, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct cell_entry *e = &entries[i];

		if (len > 0 && strcmp(e->id, word) == 0) {
			*ret_entry = *e;
			return 0;
		}
		if (len > 0 && strcmp(e->name, word) == 0) {
			called = e;
			same++;
		} else if (len >= CELL_PREFIX_MIN && strncmp(e->id, word, len) == 0) {
			found = e;
			hits++;
		}
	}
	if (same > 1)
		return not_unique(entries, n, word, same, err);
	if (same == 1) {
		found = called;
		hits = 1;
	}
	if (hits == 0)
		return err_set(err, ENOENT, "there is no cell '%s': see `cloister ps -a`%s", word,
		               len > 0 && len < CELL_PREFIX_MIN ? " (of an id, write 4 letters at least)" :
		               "");
	if (hits > 1)
		return err_set(err, ENOTUNIQ, "'%s' could be any of %zu cells: give more of the id",
		               word, hits);
	*ret_entry = *found;
	return 0;
}
