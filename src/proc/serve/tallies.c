/* tallies.c - see tallies.h. */
#include "proc/serve/tallies.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log.h"
#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"

#define BLOCK (512 * 1024)              /* read at once: more than a line */

struct tallies {
	pthread_mutex_t lock;
	struct tally **at;              /* sorted by id */
	size_t n, cap;
	uint64_t uses;
	char *data;                     /* BLOCK of it */
};

int
tallies_new(struct tallies **ret_tallies, struct err *err)
{
	struct tallies *t = calloc(1, sizeof(*t));

	if (t != NULL)
		t->data = malloc(BLOCK);
	if (t == NULL || t->data == NULL) {
		free(t);
		return err_set(err, ENOMEM, "out of memory");
	}
	pthread_mutex_init(&t->lock, NULL);
	*ret_tallies = t;
	return 0;
}

void
tallies_free(struct tallies *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->at[i]);
	free(t->at);
	free(t->data);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- finding ---- */

/* The position of ID, or where it would be. */
static size_t
place_of(const struct tallies *t, const char *id)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(t->at[mid]->id, id) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
forget_oldest(struct tallies *t)
{
	size_t oldest = 0;

	for (size_t i = 1; i < t->n; i++)
		if (t->at[i]->used < t->at[oldest]->used)
			oldest = i;
	free(t->at[oldest]);
	memmove(t->at + oldest, t->at + oldest + 1, (t->n - oldest - 1) * sizeof(struct tally *));
	t->n--;
}

static struct tally *
find_or_make(struct tallies *t, const char *id)
{
	size_t i = place_of(t, id);
	struct tally **more, *tally;

	if (i < t->n && strcmp(t->at[i]->id, id) == 0)
		return t->at[i];
	if (t->n == TALLIES_MAX) {
		forget_oldest(t);
		i = place_of(t, id);
	}
	if (t->n == t->cap) {
		more = realloc(t->at, (t->cap + 64) * sizeof(struct tally *));
		if (more == NULL)
			return NULL;
		t->at = more;
		t->cap += 64;
	}
	tally = calloc(1, sizeof(*tally));
	if (tally == NULL)
		return NULL;
	snprintf(tally->id, sizeof(tally->id), "%s", id);
	memmove(t->at + i + 1, t->at + i, (t->n - i) * sizeof(struct tally *));
	t->at[i] = tally;
	t->n++;
	return tally;
}

/* ---- reading ---- */

static void
take_line(struct tally *tally, const char *line, size_t len)
{
	unsigned was = audit_tally_line(&tally->sum, line, len);

	tally->approvals += (was & AUDIT_WAS_ASK) != 0;
	tally->was |= was;
}

/* The current file, and whether it was rotated: then it gets no more lines. */
static int
open_current(const struct tally *tally, int dir, bool *ret_is_over)
{
	char name[AUDIT_NAME_MAX + 12];
	int fd;

	audit_log_name(name, CELL_EVENTS, tally->file);
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*ret_is_over = fd >= 0;
	if (fd >= 0)
		return fd;
	fd = openat(dir, CELL_EVENTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	/* It was rotated in between. */
	if (fd >= 0 && faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		close(fd);
		fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		*ret_is_over = fd >= 0;
	}
	return fd;
}

/* Reads whole lines from FD, at most *BUDGET bytes; true if that is all there is. */
static bool
read_lines(struct tallies *t, struct tally *tally, int fd, uint64_t *budget)
{
	for (;;) {
		ssize_t len = pread(fd, t->data, BLOCK, (off_t)tally->at);
		const char *line = t->data, *end;

		if (len <= 0)
			return true;
		while ((end = memchr(line, '\n', (size_t)(t->data + len - line))) != NULL) {
			take_line(tally, line, (size_t)(end - line));
			line = end + 1;
		}
		/* A line over the maximum length is not a record. */
		if (line == t->data && len == BLOCK)
			line = t->data + len;
		if (line == t->data)
			return true;
		tally->at += (uint64_t)(line - t->data);
		if ((uint64_t)(line - t->data) >= *budget)
			return false;
		*budget -= (uint64_t)(line - t->data);
	}
}

static void
catch_up(struct tallies *t, struct tally *tally, int dir)
{
	uint64_t budget = TALLIES_READ_MAX;
	uint32_t first, last;
	struct stat st;

	if (fstat(dir, &st) < 0)
		return;
	if (tally->folder != st.st_ino) {
		tally->sum = (struct audit_tally){0};
		tally->approvals = tally->at = 0;
		tally->file = 0;
		tally->folder = st.st_ino;
	}
	if (tally->file == 0) {
		if (audit_log_files(dir, CELL_EVENTS, 1, &first, &last, NULL) < 0)
			return;
		tally->file = first == 0 ? 1 : first;
	}
	for (;;) {
		bool is_over, all;
		OWN(closep) int fd = open_current(tally, dir, &is_over);

		if (fd < 0)
			return;
		all = read_lines(t, tally, fd, &budget);
		tally->behind = !all;
		if (!all || !is_over)
			return;
		tally->file++;
		tally->at = 0;
	}
}

struct tally *
tallies_get(struct tallies *t, int state, const char *entry, const char *id)
{
	char path[CELL_ENTRY_MAX + sizeof(CELL_EVENTS) + 1];
	struct tally *tally;
	struct stat st;

	pthread_mutex_lock(&t->lock);
	tally = find_or_make(t, id);
	if (tally == NULL)
		return NULL;
	tally->used = ++t->uses;
	tally->was = 0;
	snprintf(path, sizeof(path), "%s/" CELL_EVENTS, entry);
	if (fstatat(state, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return tally;
	if (!tally->behind && tally->inode == st.st_ino && tally->size == (uint64_t)st.st_size)
		return tally;
	tally->inode = st.st_ino;
	tally->size = (uint64_t)st.st_size;
	{
		OWN(closep) int dir = openat(state, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (dir >= 0)
			catch_up(t, tally, dir);
	}
	return tally;
}

void
tallies_done(struct tallies *t)
{
	pthread_mutex_unlock(&t->lock);
}

struct tally *
tallies_get_whole(struct tallies *t, int state, const char *entry, const char *id)
{
	struct tally *tally = tallies_get(t, state, entry, id);

	while (tally != NULL && tally->behind) {
		tallies_done(t);
		tally = tallies_get(t, state, entry, id);
	}
	return tally;
}

void
tallies_each_since(struct tallies *t, int state, uint64_t since_s,
                   void (*each)(void *arg, const struct tallies_cell *cell), void *arg)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n = 0;

	if (state < 0 || cell_list(state, false, &entries, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		OWN(closep) int dir = openat(state, entries[i].dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		struct tallies_cell cell = { .entry = &entries[i], .is_live = dir >= 0 && cell_state_is_live(dir) };
		const struct tally *tally;
		struct stat st;

		if (dir < 0 || fstatat(dir, CELL_EVENTS, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		cell.last_s = (uint64_t)st.st_mtime;
		if (!cell.is_live && cell.last_s < since_s)
			continue;
		tally = tallies_get_whole(t, state, entries[i].dir, entries[i].id);
		if (tally != NULL) {
			cell.sum = &tally->sum;
			each(arg, &cell);
		}
		tallies_done(t);
	}
}
