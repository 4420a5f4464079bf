/* page.c - see page.h. */
#include "audit/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log.h"
#include "base/err.h"
#include "base/own.h"

#define BLOCK (512 * 1024)              /* read at once: more than a line */

struct reader {
	struct audit_page *page;
	int dir, newest;
	char name[AUDIT_NAME_MAX];
	uint32_t first, last;           /* numbers of the older files; 0: there are none */
	/* The current file. */
	int fd;
	uint64_t size;
	char *data;                     /* BLOCK and a line */
	struct err *err;
};

static void
close_reader(struct reader *r)
{
	closep(&r->newest);
	free(r->data);
}

/* N 0: the newest, which stays open.  1: it exists. */
static int
open_file(struct reader *r, uint32_t n)
{
	char name[AUDIT_NAME_MAX + 12];
	struct stat st;

	audit_log_name(name, r->name, n);
	r->fd = n == 0 ? fcntl(r->newest, F_DUPFD_CLOEXEC, 3) :
		openat(r->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0 && errno == ENOENT)
		return 0;
	if (r->fd < 0 || fstat(r->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_errno(r->err, "cannot read '%s'", name);
	r->size = (uint64_t)st.st_size;
	return 1;
}

static void
close_file(struct reader *r)
{
	close_fd(&r->fd);
}

/* As much of the LEN bytes at AT as there is. */
static ssize_t
read_at(struct reader *r, char *to, size_t len, uint64_t at)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = pread(r->fd, to + have, len - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(r->err, "cannot read '%s'", r->name);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

/* The number of the first whole line that begins at AT or after it, and where; 0: there is none. */
static int
number_at(struct reader *r, uint64_t at, uint64_t *ret_n, uint64_t *ret_begin)
{
	uint64_t from = at == 0 ? 0 : at - 1;
	ssize_t len = read_at(r, r->data, 2 * AUDIT_LINE_MAX + 4, from);
	const char *begin = r->data, *end;

	*ret_n = 0;
	if (len < 0)
		return (int)len;
	if (at > 0) {
		begin = memchr(r->data, '\n', (size_t)len);
		if (begin == NULL)
			return 0;
		begin++;
	}
	end = memchr(begin, '\n', (size_t)(r->data + len - begin));
	if (end == NULL)
		return 0;
	*ret_n = audit_page_number(begin, (size_t)(end - begin));
	*ret_begin = from + (uint64_t)(begin - r->data);
	return 0;
}

/* The offset of the first line with a number of at least N; the file's end if there is none. */
static int
seek(struct reader *r, uint64_t n, uint64_t *ret_at)
{
	uint64_t low = 0, high = r->size, found = high, its, begin = 0;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		int code = number_at(r, mid, &its, &begin);

		if (code < 0)
			return code;
		if (its == 0) {
			high = mid;
		} else if (its >= n) {
			found = begin;
			high = mid;
		} else {
			low = begin + 1;
		}
	}
	*ret_at = found;
	return 0;
}

/* 1: the page is full, or has examined enough. */
static int
take_line(struct reader *r, const char *line, size_t len)
{
	struct audit_page *page = r->page;
	uint64_t n = audit_page_number(line, len);
	int code;

	if (n == 0 || (page->before != 0 && n >= page->before) || (page->is_after && n <= page->after))
		return 0;
	/* The newest file was rotated meanwhile, and comes twice. */
	if (page->next != 0 && (page->is_after ? n <= page->next : n >= page->next))
		return 0;
	page->scanned += len + 1;
	if (page->scanned > AUDIT_PAGE_SCAN) {
		page->more = true;
		return 1;
	}
	if (!audit_page_wants(page, line, len)) {
		page->next = n;
		return 0;
	}
	if (page->n == page->limit) {
		page->more = true;
		return 1;
	}
	page->next = n;
	page->n++;
	code = page->take(page->arg, line, len);
	return code < 0 ? err_set(r->err, -code, "cannot keep the page: %s", strerrordesc_np(-code)) : 0;
}

/* Reads from END back to the file's beginning.  DATA[..kept] is the beginning of a line whose end
 * was in the block after it. */
static int
go_back(struct reader *r, uint64_t end)
{
	size_t kept = 0;
	bool whole = false;             /* the kept part ends in a newline */

	while (end > 0) {
		size_t step = end < BLOCK ? (size_t)end : BLOCK;
		ssize_t len;

		memmove(r->data + step, r->data, kept);
		len = read_at(r, r->data, step, end - step);
		if (len < 0)
			return (int)len;
		if ((size_t)len < step)
			return 0;       /* cut off meanwhile: none of it was ever acknowledged */
		end -= step;
		for (size_t stop = step + kept;;) {
			const char *newline = stop == 0 ? NULL : memrchr(r->data, '\n', stop);
			size_t begin = newline == NULL ? 0 : (size_t)(newline - r->data) + 1;
			int code;

			if (newline == NULL && end > 0) {
				kept = stop <= AUDIT_LINE_MAX ? stop : 0;
				break;
			}
			code = whole && stop > begin ? take_line(r, r->data + begin, stop - begin) : 0;
			if (code != 0)
				return code;
			whole = true;
			if (newline == NULL)
				return 0;
			stop = begin - 1;
		}
	}
	return 0;
}

static int
go_on(struct reader *r, uint64_t at)
{
	for (;;) {
		ssize_t len = read_at(r, r->data, BLOCK, at);
		const char *line = r->data, *end;

		if (len <= 0)
			return (int)len;
		while ((end = memchr(line, '\n', (size_t)(r->data + len - line))) != NULL) {
			int code = take_line(r, line, (size_t)(end - line));

			if (code != 0)
				return code;
			line = end + 1;
		}
		if (line == r->data)
			return 0;
		at += (uint64_t)(line - r->data);
	}
}

static int
do_file(struct reader *r, uint32_t number)
{
	struct audit_page *page = r->page;
	uint64_t at = r->size;
	int code = open_file(r, number);

	if (code <= 0)
		return code;
	at = r->size;
	if (page->is_after)
		code = seek(r, page->after + 1, &at);
	else if (page->before != 0)
		code = seek(r, page->before, &at);
	else
		code = 0;
	if (code == 0)
		code = page->is_after ? go_on(r, at) : go_back(r, at);
	close_file(r);
	return code;
}

/* The files are in order, and most are skipped after a few reads. */
static int
do_all(struct reader *r)
{
	uint32_t n = r->first == 0 ? 0 : r->last - r->first + 1;
	int code = 0;

	if (!r->page->is_after && r->newest >= 0)
		code = do_file(r, 0);
	for (uint32_t i = 0; code == 0 && i < n; i++)
		code = do_file(r, r->page->is_after ? r->first + i : r->last - i);
	if (r->page->is_after && code == 0 && r->newest >= 0)
		code = do_file(r, 0);
	return code < 0 ? code : 0;
}

int
audit_page_read(struct audit_page *page, int dir, const char *name, struct err *err)
{
	OWN(close_reader) struct reader r = { .page = page, .dir = dir, .err = err };
	OWN(freep) char *low = malloc(AUDIT_LINE_MAX + 1);
	int code;

	snprintf(r.name, sizeof(r.name), "%s", name);
	r.data = malloc(2 * BLOCK);
	if (r.data == NULL || low == NULL)
		return err_set(err, ENOMEM, "out of memory");
	page->low = low;
	page->n = 0;
	page->more = false;
	page->next = page->scanned = 0;
	memset(page->needle, 0, sizeof(page->needle));
	if (page->search != NULL)
		for (size_t i = 0; page->search[i] != '\0' && i < AUDIT_PAGE_SEARCH_MAX; i++)
			page->needle[i] = page->search[i] >= 'A' && page->search[i] <= 'Z' ?
				(char)(page->search[i] | 0x20) : page->search[i];
	/* The newest is opened first, so that a rotation meanwhile loses nothing. */
	r.newest = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (r.newest < 0 && errno != ENOENT)
		return err_errno(err, "cannot open '%s'", name);
	code = audit_log_files(dir, name, 1, &r.first, &r.last, err);
	if (code < 0)
		return code;
	if (r.newest < 0 && r.first == 0)
		return err_set(err, ENOENT, "there is no timeline");
	code = do_all(&r);
	page->low = NULL;
	return code;
}
