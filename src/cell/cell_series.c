/* cell_series.c - see cell_series.h. */
#include "cell/cell_series.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

#define PREFIX "restart-"
#define PART "restarts-"                /* not locked yet */
#define FILE_MAX (sizeof(PART) + CELL_ID_LEN)
#define TEXT_MAX (CELL_ID_LEN + CELL_NAME_MAX + 2)
#define HELD_AT TEXT_MAX                /* a byte: HELD, or anything else */
#define HELD 'H'
#define WORDS_AT (HELD_AT + 1)

int
cell_series_make(int runtime, const char *id, int *ret_fd, struct err *err)
{
	char part[FILE_MAX], name[FILE_MAX];
	OWN(closep) int fd = -1;

	snprintf(part, sizeof(part), PART "%s", id);
	snprintf(name, sizeof(name), PREFIX "%s", id);
	fd = openat(runtime, part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	/* Under its own name it is locked from the first moment. */
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || renameat(runtime, part, runtime, name) < 0)
		return err_errno(err, "cannot make the file of a cell that is started again");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int
cell_series_describe(int fd, const char *restart, const char *folder, char *const *words, size_t n, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(CELL_SERIES_WORDS_MAX);

	buf_put(&b, restart, strlen(restart) + 1);
	buf_put(&b, folder, strlen(folder) + 1);
	for (size_t i = 0; i < n; i++)
		buf_put(&b, words[i], strlen(words[i]) + 1);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the command line of a cell that is started again is over %u MiB", CELL_SERIES_WORDS_MAX >> 20);
	return pwrite(fd, b.data, b.len, WORDS_AT) != (ssize_t)b.len ?
	       err_errno(err, "cannot write the file of a cell that is started again") : 0;
}

int
cell_series_described(int runtime, const char *id, struct buf *ret_b, struct err *err)
{
	char name[FILE_MAX];
	OWN(closep) int fd = -1;
	ssize_t n = -1;
	unsigned char *at;

	snprintf(name, sizeof(name), PREFIX "%s", id);
	fd = openat(runtime, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	at = fd < 0 ? NULL : buf_add(ret_b, CELL_SERIES_WORDS_MAX);
	if (at != NULL)
		n = pread(fd, at, CELL_SERIES_WORDS_MAX, WORDS_AT);
	if (n < 0)
		return err_errno(err, "cannot read the file of a cell that is started again");
	ret_b->len -= CELL_SERIES_WORDS_MAX - (size_t)n;
	return n == 0 || at[n - 1] != '\0' ? -ENOENT : 0;
}

int
cell_series_enter(int runtime, const struct cell_spec *spec, struct err *err)
{
	char name[FILE_MAX], text[TEXT_MAX + 1];
	OWN(closep) int fd = -1;
	int len;

	if (spec->series[0] == '\0')
		return 0;
	snprintf(name, sizeof(name), PREFIX "%s", spec->series);
	/* It is not made here: that is its whole purpose. */
	fd = openat(runtime, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, ECANCELED, "the cell does not start again, because it was stopped");
	if (cell_series_is_held(fd))
		return err_set(err, ECANCELED, "the cell does not start now, because it was frozen: see `cloister thaw`");
	len = snprintf(text, sizeof(text), "%s %s", spec->id, spec->name);
	if (pwrite(fd, text, (size_t)len, 0) != len)
		return err_errno(err, "cannot write the file of a cell that is started again");
	return 0;
}

void
cell_series_end(int runtime, const char *id)
{
	char name[FILE_MAX];

	snprintf(name, sizeof(name), PREFIX "%s", id);
	if (id[0] != '\0')
		(void)unlinkat(runtime, name, 0);
}

bool
cell_series_is_held(int fd)
{
	char byte;

	return pread(fd, &byte, 1, HELD_AT) == 1 && byte == HELD;
}

void
cell_series_hold(int runtime, const char *id, bool holds)
{
	const char byte = holds ? HELD : '\0';
	char name[FILE_MAX];
	OWN(closep) int fd = -1;

	snprintf(name, sizeof(name), PREFIX "%s", id);
	fd = id[0] == '\0' ? -1 : openat(runtime, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		(void)!pwrite(fd, &byte, 1, HELD_AT);
}

/* False if the file is none of a series, or its keeper is gone. */
static bool
read_series(int runtime, const char *file, struct cell_series *ret_series)
{
	const size_t n = strlen(PREFIX);
	char text[TEXT_MAX + 1] = "";
	OWN(closep) int fd = -1;
	char *space;

	*ret_series = (struct cell_series){0};
	if (strncmp(file, PREFIX, n) != 0 || !cell_id_ok(file + n))
		return false;
	fd = openat(runtime, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0) {
		(void)unlinkat(runtime, file, 0);
		return false;
	}
	snprintf(ret_series->id, sizeof(ret_series->id), "%s", file + n);
	if (read(fd, text, sizeof(text) - 1) > 0 && (space = strchr(text, ' ')) != NULL) {
		*space = '\0';
		snprintf(ret_series->last, sizeof(ret_series->last), "%s", text);
		snprintf(ret_series->name, sizeof(ret_series->name), "%s", space + 1);
	}
	return true;
}

size_t
cell_series_list(int runtime, struct cell_series *ret_list)
{
	OWN(closedirp) DIR *dir = tree_list(runtime);
	size_t n = 0;

	for (struct dirent *e; dir != NULL && n < CELL_SERIES_MAX && (e = readdir(dir)) != NULL;)
		n += read_series(runtime, e->d_name, &ret_list[n]);
	return n;
}

static bool
is_meant(const struct cell_series *series, const char *word)
{
	const size_t len = strlen(word);

	return (series->name[0] != '\0' && strcmp(series->name, word) == 0) ||
	       (len >= CELL_PREFIX_MIN && (strncmp(series->id, word, len) == 0 || strncmp(series->last, word, len) == 0));
}

/* Without a list, which might be too short for all. */
static size_t
each(int runtime, const char *word, void (*act)(int runtime, const char *id))
{
	OWN(closedirp) DIR *dir = tree_list(runtime);
	struct cell_series series;
	size_t n = 0;

	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;)
		if (read_series(runtime, e->d_name, &series) && (word == NULL || is_meant(&series, word))) {
			act(runtime, series.id);
			n++;
		}
	return n;
}

size_t
cell_series_end_each(int runtime, const char *word)
{
	return each(runtime, word, cell_series_end);
}

static void
hold(int runtime, const char *id)
{
	cell_series_hold(runtime, id, true);
}

static void
let_go(int runtime, const char *id)
{
	cell_series_hold(runtime, id, false);
}

size_t
cell_series_hold_each(int runtime, const char *word, bool holds)
{
	return each(runtime, word, holds ? hold : let_go);
}
