/* cell_find.c - finds the cell that a word means, see cell_dirs.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"

#define DISPATCH_MAX 64                 /* bytes of the file */

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

/* The dispatch of a worker's cell; false: it is no such cell. */
static bool
read_dispatch(int folder, const struct cell_entry *entry, char ret_id[DISPATCH_MAX], struct timespec *ret_made)
{
	OWN(closep) int fd = -1;
	char path[CELL_ENTRY_MAX + sizeof(CELL_DISPATCH) + 1];
	struct stat st;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/" CELL_DISPATCH, entry->dir);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 || fstat(fd, &st) < 0 ? -1 : read(fd, ret_id, DISPATCH_MAX - 1);
	if (n <= 0)
		return false;
	ret_id[n] = '\0';
	*ret_made = st.st_mtim;
	return true;
}

static bool
is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Finds among cells of workers the one of the dispatch that WORD means: of several attempts, the last.  Returns how many
 * dispatches WORD could mean. */
static size_t
find_dispatched(int folder, bool runtime, const struct cell_entry *entries, size_t n, const char *word,
                const struct cell_entry **ret_entry)
{
	char id[DISPATCH_MAX], found[DISPATCH_MAX] = "";
	struct timespec made, last = {0};
	size_t len = strlen(word), hits = 0;

	for (size_t i = 0; i < n; i++) {
		if ((runtime && !entries[i].far) || !read_dispatch(folder, &entries[i], id, &made) ||
		    strncmp(id, word, len) != 0)
			continue;
		if (strcmp(id, found) != 0) {
			hits++;
			snprintf(found, sizeof(found), "%s", id);
		} else if (!is_newer(&made, &last)) {
			continue;
		}
		last = made;
		*ret_entry = &entries[i];
	}
	return hits;
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
	} else if (len >= CELL_PREFIX_MIN) {
		hits += find_dispatched(folder, runtime, entries, n, word, &found);
		/* A cell of this machine has no file for that. */
		hits += hits == 0 ? cell_find_asked(word, entries, n, &found) : 0;
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
