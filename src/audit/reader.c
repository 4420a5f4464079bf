/* reader.c - see reader.h. */
#include "audit/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

#define READ_SIZE (1 << 20)             /* more than a line */

static int
open_file(int dir, const char *name, struct err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 && errno == ELOOP)
		return err_set(err, ELOOP, "'%s' is a link, and no file", name);
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return err_set(err, EINVAL, "'%s' is no file", name);
	}
	return fd;
}

static void
count_bytes(struct audit_reader *r)
{
	char name[AUDIT_NAME_MAX + 12];
	struct stat st;

	for (uint32_t n = r->next; n != 0 && n <= r->last; n++) {
		audit_log_name(name, r->name, n);
		if (fstatat(r->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			break;
		r->total += (uint64_t)st.st_size;
	}
	if (r->newest > 0 && fstat(r->newest, &st) == 0)
		r->total += (uint64_t)st.st_size;
}

int
audit_reader_open(struct audit_reader *ret_reader, int dir, const char *name, struct err *err)
{
	struct audit_reader r = { .dir = dir };
	int code;

	if (strlen(name) >= sizeof(r.name))
		return err_set(err, ENAMETOOLONG, "the name '%s' is too long", name);
	memcpy(r.name, name, strlen(name) + 1);
	r.newest = open_file(dir, name, err);
	code = audit_log_files(dir, name, 1, &r.next, &r.last, err);
	/* Older files are read all the same; the fault of the newest is reported after them. */
	r.is_newest_odd = r.newest < 0 && r.newest != -ENOENT;
	if (code == 0 && r.next == 0 && r.is_newest_odd)
		code = r.newest;
	else if (code == 0 && r.next == 0 && r.newest < 0)
		code = err_set(err, ENOENT, "there is no timeline '%s'", name);
	if (code == 0) {
		r.data = malloc(READ_SIZE);
		code = r.data == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (code < 0) {
		close_fd(&r.newest);
		return code;
	}
	count_bytes(&r);
	r.file_ended = true;
	*ret_reader = r;
	return 0;
}

void
audit_reader_close(struct audit_reader *r)
{
	close_fd(&r->fd);
	close_fd(&r->newest);
	free(r->data);
	*r = (struct audit_reader){0};
}

/* If it was rotated meanwhile, it has been read already. */
static bool
is_same(int a, int b)
{
	struct stat x, y;

	return a > 0 && b > 0 && fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* 1: the next older file is open; 0: there are no more.  A missing file shows in the numbers of
 * records; a forged name could make millions seem missing. */
static int
next_older(struct audit_reader *r, struct err *err)
{
	uint32_t turned_over;           /* rotated meanwhile: has another name now, and is open */
	int code = 0;

	while (code == 0 && r->next != 0 && r->next <= r->last) {
		audit_log_name(r->file, r->name, r->next);
		r->fd = open_file(r->dir, r->file, err);
		if (r->fd != -ENOENT) {
			r->next++;
			return r->fd < 0 ? r->fd : 1;
		}
		code = audit_log_files(r->dir, r->name, r->next + 1, &r->next, &turned_over, err);
	}
	if (code < 0)
		r->next = 0;
	return code;
}

/* 1: the next file is open; 0: there are no more. */
static int
next_file(struct audit_reader *r, struct err *err)
{
	OWN(close_fd) int before = TAKE_FD(r->fd);
	int code = next_older(r, err);

	r->line = 0;
	r->at = r->len = 0;
	r->file_ended = false;
	if (code != 0)
		return code;
	if (r->at_newest || (r->newest <= 0 && !r->is_newest_odd) || is_same(before, r->newest))
		return 0;
	r->at_newest = true;
	audit_log_name(r->file, r->name, 0);
	r->fd = r->is_newest_odd ? open_file(r->dir, r->file, err) : TAKE_FD(r->newest);
	return r->fd < 0 ? r->fd : 1;
}

/* Reads more bytes after the existing ones; false at the end of the file. */
static int
fill(struct audit_reader *r, struct err *err)
{
	ssize_t n;

	memmove(r->data, r->data + r->at, r->len - r->at);
	r->len -= r->at;
	r->at = 0;
	do
		n = read(r->fd, r->data + r->len, READ_SIZE - r->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, "cannot read '%s'", r->file);
	r->len += (size_t)n;
	r->bytes += (size_t)n;
	return n > 0;
}

int
audit_reader_next(struct audit_reader *r, const char **ret_line, size_t *ret_len, struct err *err)
{
	size_t seen = 0;
	char *end;
	int more = 1;

	for (;;) {
		if (r->fd <= 0 || r->file_ended) {
			if (r->torn > 0)
				return 0;
			more = next_file(r, err);
			if (more <= 0)
				return more;
			seen = 0;
		}
		end = memchr(r->data + r->at + seen, '\n', r->len - r->at - seen);
		if (end != NULL || r->len - r->at == READ_SIZE)
			break;
		seen = r->len - r->at;
		more = fill(r, err);
		if (more < 0) {
			r->file_ended = true;
			return more;
		}
		if (more == 0) {
			r->torn = r->len - r->at;
			r->line += r->torn > 0;
			r->file_ended = true;
		}
	}
	r->line++;
	*ret_line = r->data + r->at;
	/* A line without an end is over AUDIT_LINE_MAX. */
	*ret_len = end != NULL ? (size_t)(end - *ret_line) : r->len - r->at;
	r->taken = *ret_len + (end != NULL);
	r->at += r->taken;
	return 1;
}

/* Only the newest file may end so: an older one was complete when it was rotated. */
static bool
pass_torn(struct audit_reader *r, struct err *err)
{
	if (r->torn == 0 || r->at_newest)
		return false;
	if (err->code == 0)
		(void)err_set(err, EBADMSG, "'%s' ends in half a line, its line %" PRIu64, r->file, r->line);
	r->torn = 0;
	return true;
}

bool
audit_reader_any(struct audit_reader *r, const char **ret_line, size_t *ret_len, struct err *err)
{
	struct err why;
	int code;

	do {
		code = audit_reader_next(r, ret_line, ret_len, &why);
		if (code < 0 && err->code == 0)
			*err = why;
	} while (code < 0 || (code == 0 && pass_torn(r, err)));
	return code == 1;
}

void
audit_reader_back(struct audit_reader *r)
{
	r->at -= r->taken;
	r->line -= r->taken > 0;
	r->taken = 0;
}
