/* follow_lines.c - reads the lines of a file that grows and is sometimes rotated. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "base/own.h"
#include "proc/serve/follow.h"

#define NEWEST UINT64_MAX
#define CAP_FIRST (16 * 1024)

struct follow_source *
follow_source_new(int dir, const char *name)
{
	struct follow_source *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		closep(&dir);
		return NULL;
	}
	s->dir = dir;
	snprintf(s->name, sizeof(s->name), "%s", name);
	return s;
}

void
follow_source_free(struct follow_source *s)
{
	if (s == NULL)
		return;
	closep(&s->dir);
	close_fd(&s->fd);
	free(s->data);
	free(s);
}

/* The lowest number above ABOVE of the older files; NEWEST if there is none. */
static uint64_t
next_segment(const struct follow_source *s, uint64_t above)
{
	int fd = openat(s->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t len = strlen(s->name);
	uint64_t lowest = NEWEST, n;
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (strncmp(d->d_name, s->name, len) == 0 && d->d_name[len] == '.' &&
		    num_parse_count(d->d_name + len + 1, 1, NEWEST - 1, &n, NULL) == 0 &&
		    n > above && n < lowest)
			lowest = n;
	return lowest;
}

/* Opens the file after the current one; false: there is none yet. */
static bool
open_next(struct follow_source *s, uint64_t above)
{
	uint64_t segment = next_segment(s, above);
	char name[96];
	int fd;

	if (segment == NEWEST)
		snprintf(name, sizeof(name), "%s", s->name);
	else
		snprintf(name, sizeof(name), "%s.%llu", s->name, (unsigned long long)segment);
	fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	close_fd(&s->fd);
	s->fd = fd;
	s->segment = segment;
	return true;
}

static bool
is_turned_over(const struct follow_source *s)
{
	struct stat now, latest;

	return fstat(s->fd, &now) == 0 && fstatat(s->dir, s->name, &latest, AT_SYMLINK_NOFOLLOW) == 0 &&
	       (now.st_ino != latest.st_ino || now.st_dev != latest.st_dev);
}

static int
make_room(struct follow_source *s)
{
	char *more;

	if (s->at > 0)
		memmove(s->data, s->data + s->at, s->len - s->at);
	s->len -= s->at;
	s->at = 0;
	if (s->len < s->cap)
		return 0;
	if (s->cap == FOLLOW_LINE_MAX) {
		s->skipping = true;
		s->len = 0;
		return 0;
	}
	more = realloc(s->data, s->cap == 0 ? CAP_FIRST : 2 * s->cap);
	if (more == NULL)
		return -ENOMEM;
	s->data = more;
	s->cap = s->cap == 0 ? CAP_FIRST : 2 * s->cap;
	return 0;
}

/* Reads more bytes after the existing ones: returns how many, 0 at the end. */
static ssize_t
fill(struct follow_source *s)
{
	ssize_t n;
	bool over;

	if (make_room(s) < 0)
		return -ENOMEM;
	for (;;) {
		/* Ask before reading, so that lines from before the rotation are not missed. */
		over = s->segment != NEWEST || is_turned_over(s);
		n = read(s->fd, s->data + s->len, s->cap - s->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		s->len += (size_t)n;
		if (n > 0 || !over)
			return n;
		/* After a rotation the new name of this file is unknown: start again, and skip by
		 * number what the client has. */
		if (!open_next(s, s->segment == NEWEST ? 0 : s->segment))
			return 0;
		s->len = s->at = 0;
	}
}

int
follow_next_line(struct follow_source *s, const char **ret_line, size_t *ret_len)
{
	if (s->fd <= 0 && !open_next(s, 0))
		return 0;
	for (;;) {
		const char *line = s->data + s->at;
		const char *end = s->len > s->at ? memchr(line, '\n', s->len - s->at) : NULL;
		ssize_t n;

		if (end != NULL) {
			bool whole = !s->skipping;

			s->at = (size_t)(end - s->data) + 1;
			s->skipping = false;
			if (!whole)
				continue;
			*ret_line = line;
			*ret_len = (size_t)(end - line);
			return 1;
		}
		n = fill(s);
		if (n <= 0)
			return (int)n;
	}
}
