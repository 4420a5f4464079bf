/* replay_output.c - reads when a cell's output was written: see CELL_TIMES. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cli/replay.h"

enum { OLDER, LOG, OUT, ERRORS, FILES };

#define TIMES_BYTES (CELL_TIMES_MAX * 48)

struct noted {
	char stream;
	uint64_t offset, ms;
};

static uint64_t
size_of(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* "STREAM OFFSET MS": false if it is something else. */
static bool
read_line(const char *line, size_t len, struct noted *ret_noted)
{
	char text[48], *space;

	if (len < 5 || len >= sizeof(text) || line[1] != ' ')
		return false;
	memcpy(text, line, len);
	text[len] = '\0';
	space = strchr(text + 2, ' ');
	if (space == NULL)
		return false;
	*space = '\0';
	ret_noted->stream = text[0];
	return num_parse_count(text + 2, 0, INT64_MAX, &ret_noted->offset, NULL) == 0 &&
	       num_parse_count(space + 1, 0, INT64_MAX, &ret_noted->ms, NULL) == 0;
}

/* Where the log, and the half before it, begin. */
static void
find_bases(const struct noted *noted, size_t n, uint64_t ret_bases[2])
{
	ret_bases[OLDER] = ret_bases[LOG] = 0;
	for (size_t i = 0; i < n; i++)
		if (noted[i].stream == 'r') {
			ret_bases[OLDER] = ret_bases[LOG];
			ret_bases[LOG] = noted[i].offset;
		}
}

/* The part of file FILE that begins at FROM of its stream, up to TO.  It begins there at BASE. */
static void
add(struct replay_output *out, int file, uint64_t base, uint64_t from, uint64_t to, uint64_t ms)
{
	uint64_t size = size_of(out->fds[file]);

	from = from > base ? from - base : 0;
	to = to > base ? to - base : 0;
	to = to < size ? to : size;
	if (from < to)
		out->pieces[out->n++] = (struct replay_piece){ ms, out->fds[file], from, to - from };
}

/* The end of the piece at I: where the next of its stream begins. */
static uint64_t
end_of(const struct noted *noted, size_t n, size_t i)
{
	for (size_t k = i + 1; k < n; k++)
		if (noted[k].stream == noted[i].stream)
			return noted[k].offset;
	return UINT64_MAX;
}

static int
compare(const void *a, const void *b)
{
	const struct replay_piece *one = a, *two = b;

	return one->ms != two->ms ? (one->ms > two->ms) - (one->ms < two->ms) :
	       one->fd != two->fd ? (one->fd > two->fd) - (one->fd < two->fd) : (one->from > two->from) - (one->from < two->from);
}

static void
add_noted(struct replay_output *out, const struct noted *noted, size_t n)
{
	uint64_t bases[2];

	find_bases(noted, n, bases);
	for (size_t i = 0; i < n; i++) {
		uint64_t from = noted[i].offset, to = end_of(noted, n, i), ms = noted[i].ms;

		if (noted[i].stream == 'l' && from < bases[LOG])
			add(out, OLDER, bases[OLDER], from, to < bases[LOG] ? to : bases[LOG], ms);
		if (noted[i].stream == 'l')
			add(out, LOG, bases[LOG], from, to, ms);
		else if (noted[i].stream == 'o' || noted[i].stream == 'e')
			add(out, noted[i].stream == 'o' ? OUT : ERRORS, 0, from, to, ms);
	}
}

/* Lines that make no sense are skipped. */
static struct noted *
read_times(int dir, size_t *ret_n)
{
	OWN(freep) char *text = NULL;
	struct noted *noted = calloc(CELL_TIMES_MAX, sizeof(*noted));
	size_t len = 0;

	*ret_n = 0;
	if (noted == NULL || read_file_at(dir, CELL_TIMES, TIMES_BYTES, &text, &len, NULL) < 0)
		return noted;
	for (size_t at = 0, n; at < len && *ret_n < CELL_TIMES_MAX; at += n + 1) {
		const char *newline = memchr(text + at, '\n', len - at);

		n = newline == NULL ? len - at : (size_t)(newline - text) - at;
		*ret_n += newline != NULL && read_line(text + at, n, &noted[*ret_n]);
	}
	return noted;
}

int
replay_output_open(struct replay_output *out, int dir, struct err *err)
{
	static const char *const names[FILES] = { CELL_LOG ".1", CELL_LOG, CELL_STDOUT, CELL_STDERR };
	OWN(freep) struct noted *noted = NULL;
	size_t n = 0;

	for (int i = 0; i < FILES; i++) {
		out->fds[i] = dir < 0 ? -1 : openat(dir, names[i], O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		out->is_kept |= out->fds[i] >= 0;
	}
	noted = read_times(dir, &n);
	out->pieces = calloc(2 * n + FILES, sizeof(*out->pieces));
	if (noted == NULL || out->pieces == NULL)
		return err_set(err, ENOMEM, "out of memory");
	out->has_times = n > 0;
	add_noted(out, noted, n);
	for (int i = 0; n == 0 && i < FILES; i++)
		add(out, i, 0, 0, UINT64_MAX, UINT64_MAX);
	qsort(out->pieces, out->n, sizeof(*out->pieces), compare);
	return 0;
}

void
replay_output_close(struct replay_output *out)
{
	for (size_t i = 0; out->pieces != NULL && i < FILES; i++)
		if (out->fds[i] >= 0)
			close(out->fds[i]);
	free(out->pieces);
	*out = (struct replay_output){0};
}
