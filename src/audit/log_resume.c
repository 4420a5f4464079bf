/* log_resume.c - finds the end of a timeline, reading backwards. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log.h"
#include "audit/log_parts.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"

/* Size of the first read, and the most that is read if no checkpoint comes. */
#define TAIL_FIRST (64 * 1024)
#define TAIL_MAX (256u << 20)

int
audit_log_files(int dir, const char *name, uint32_t from, uint32_t *ret_first,
                uint32_t *ret_last, struct err *err)
{
	OWN(closedirp) DIR *list = NULL;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t len = strlen(name);
	struct dirent *entry;
	uint64_t n;

	list = fd < 0 ? NULL : fdopendir(fd);
	if (list == NULL) {
		int r = err_errno(err, "cannot list the timeline's folder");

		if (fd >= 0)
			close(fd);
		return r;
	}
	*ret_first = *ret_last = 0;
	while ((entry = readdir(list)) != NULL) {
		if (strncmp(entry->d_name, name, len) != 0 || entry->d_name[len] != '.' ||
		    entry->d_name[len + 1] == '0' ||
		    num_parse_count(entry->d_name + len + 1, from, UINT32_MAX - 1, &n, NULL) < 0)
			continue;
		if (*ret_first == 0 || n < *ret_first)
			*ret_first = (uint32_t)n;
		if (n > *ret_last)
			*ret_last = (uint32_t)n;
	}
	return 0;
}

static int
damaged(const struct audit_log *log, const struct err *why, struct err *err)
{
	return err_set(err, EBADMSG, "the end of the timeline '%s' is damaged (%s): see `cloister "
	               "audit verify`", log->name, why->text);
}

/* Continues with a record: C is the state after the one before it. */
static int
follow(struct audit_log *log, const char *line, size_t len, struct err *err)
{
	struct audit_record record;
	int r = audit_record_read(line, len, &record, err);

	if (r < 0)
		return r;
	if (strcmp(record.timeline, log->timeline) != 0)
		return err_set(err, EBADMSG, "a record is of '%s'", record.timeline);
	if (record.n != log->chain.tree.size + 1 ||
	    memcmp(record.prev, log->chain.head, AUDIT_HASH) != 0)
		return err_set(err, EBADMSG, "record %llu does not follow on the one before",
		               (unsigned long long)record.n);
	audit_chain_add(&log->chain, line, len);
	log->unsigned_n = record.is_checkpoint ? 0 : log->unsigned_n + 1;
	if (record.is_checkpoint)
		memcpy(log->signed_time, record.time.at, AUDIT_TIME_LEN);
	return 0;
}

/* The last checkpoint among the lines from AT to END: its state, and where it begins. */
static const char *
find_checkpoint(struct audit_log *log, const char *at, const char *end)
{
	struct audit_checkpoint checkpoint;
	struct audit_record record;
	const char *line, *line_end = end;

	while (line_end > at) {
		line = memrchr(at, '\n', (size_t)(line_end - 1 - at));
		line = line == NULL ? at : line + 1;
		if (audit_record_read(line, (size_t)(line_end - 1 - line), &record, NULL) == 0 &&
		    record.is_checkpoint && audit_checkpoint_read(&record, &checkpoint, NULL) == 0) {
			log->chain.tree = checkpoint.tree;
			memcpy(log->chain.head, record.prev, AUDIT_HASH);
			return line;
		}
		line_end = line;
	}
	return NULL;
}

static int
follow_all(struct audit_log *log, const char *at, const char *end, struct err *err)
{
	struct err why = {0};
	const char *line_end;
	int r = 0;

	for (; r == 0 && at < end; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		r = follow(log, at, (size_t)(line_end - at), &why);
	}
	return r == 0 ? 0 : damaged(log, &why, err);
}

/* The last LEN bytes of a file of SIZE bytes, whole lines only. */
static int
read_tail(int fd, uint64_t size, uint64_t len, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(freep) char *text = malloc(len + 1);
	size_t got = 0;
	ssize_t n = 1;

	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (got < len && n > 0) {
		n = pread(fd, text + got, len - got, (off_t)(size - len + got));
		if (n < 0 && errno != EINTR)
			return err_errno(err, "cannot read the timeline");
		got += n > 0 ? (size_t)n : 0;
		n = n < 0 ? 1 : n;
	}
	*ret_text = TAKE(text);
	*ret_len = got;
	return 0;
}

/* The end of one file; 0 if a state was found, 1 if the file has no records. */
static int
resume_from(struct audit_log *log, int fd, uint64_t size, bool is_newest, struct err *err)
{
	for (uint64_t len = size < TAIL_FIRST ? size : TAIL_FIRST;; len = len * 8 < size ? len * 8 : size) {
		OWN(freep) char *text = NULL;
		const char *at, *end, *from;
		size_t got = 0;
		int r = read_tail(fd, size, len, &text, &got, err);

		if (r < 0)
			return r;
		end = memrchr(text, '\n', got);
		if (end == NULL && len == size)
			return 1;
		if (end != NULL) {
			end++;
			/* The first line is complete only at the file's beginning. */
			at = len == size ? text : (char *)memchr(text, '\n', got) + 1;
			from = find_checkpoint(log, at, end);
			if (from != NULL || len == size) {
				log->size = is_newest ? size - len + (uint64_t)(end - text) : 0;
				return follow_all(log, from != NULL ? from : at, end, err);
			}
		}
		if (len > TAIL_MAX)
			return err_set(err, EFBIG, "the timeline '%s' has no checkpoint in its last %u MiB",
			               log->name, TAIL_MAX >> 20);
	}
}

static int
resume_from_older(struct audit_log *log, struct err *err)
{
	char name[AUDIT_NAME_MAX + 12];
	OWN(closep) int fd = -1;
	struct stat st;
	int r;

	if (log->last == 0)
		return 0;
	audit_log_name(name, log->name, log->last);
	fd = openat(log->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s'", name);
	r = resume_from(log, fd, (uint64_t)st.st_size, false, err);
	return r == 1 ? err_set(err, EBADMSG, "'%s' has no records", name) : r;
}

/* ---- lines that were lost when the machine stopped ---- */

/* Whether the newest file has these bytes at AT. */
static bool
has_bytes(const struct audit_log *log, uint64_t at, const char *bytes, size_t len)
{
	OWN(freep) char *text = NULL;
	size_t got = 0;

	return read_tail(log->fd, at + len, len, &text, &got, NULL) == 0 && got == len &&
	       memcmp(text, bytes, len) == 0;
}

/* The number of bytes in lines that chain to the line that ends at AT. */
static size_t
count_following(const struct audit_log *log, uint64_t at, const char *lines, const char *end)
{
	struct audit_log until = *log;
	const char *line = lines, *newline;
	int r = at == 0 ? resume_from_older(&until, NULL) : resume_from(&until, log->fd, at, true, NULL);

	if (r != 0 || (at > 0 && until.size != at))
		return 0;
	while ((newline = memchr(line, '\n', (size_t)(end - line))) != NULL &&
	       follow(&until, line, (size_t)(newline - line), NULL) == 0)
		line = newline + 1;
	return (size_t)(line - lines);
}

static int
put_back(struct audit_log *log, uint64_t at, const char *lines, size_t len, struct err *err)
{
	if (ftruncate(log->fd, (off_t)at) < 0 || write_all(log->fd, lines, len, err) < 0 ||
	    fdatasync(log->fd) < 0)
		return err_errno(err, "cannot put back what the timeline '%s' lost", log->name);
	return 0;
}

static int
restore_from(struct audit_log *log, uint64_t size, const char *text, size_t len, struct err *err)
{
	const char *lines = memchr(text, '\n', len < AUDIT_COPY_PLACE ? len : AUDIT_COPY_PLACE);
	char place[AUDIT_COPY_PLACE];
	uint64_t at;
	size_t n;

	if (lines == NULL)
		return 0;
	snprintf(place, sizeof(place), "%.*s", (int)(lines - text), text);
	if (num_parse_count(place, 0, size, &at, NULL) < 0)
		return 0;
	lines++;
	n = count_following(log, at, lines, text + len);
	return n == 0 || has_bytes(log, at, lines, n) ? 0 : put_back(log, at, lines, n, err);
}

static int
restore(struct audit_log *log, struct err *err)
{
	char name[AUDIT_NAME_MAX + 12];
	OWN(freep) char *text = NULL;
	struct stat st;
	size_t len = 0;
	int r;

	audit_copy_name(name, log->name);
	if (fstatat(log->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = read_file_at(log->dir, name, AUDIT_COPY_SIZE, &text, &len, err);
	if (r == 0 && fstat(log->fd, &st) < 0)
		r = err_errno(err, "cannot read the timeline '%s'", log->name);
	if (r == 0)
		r = restore_from(log, (uint64_t)st.st_size, text, len, err);
	if (r == 0)
		unlinkat(log->dir, name, 0);
	return r;
}

int
audit_log_resume(struct audit_log *log, struct err *err)
{
	struct stat st;
	int r = restore(log, err);

	if (r < 0)
		return r;
	if (fstat(log->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, EBADMSG, "the timeline '%s' is no file", log->name);
	r = 1;
	if (st.st_size > 0)
		r = resume_from(log, log->fd, (uint64_t)st.st_size, true, err);
	if (r == 1)
		r = resume_from_older(log, err);
	if (r < 0)
		return r;
	log->torn = (uint64_t)st.st_size - log->size;
	if (log->torn > 0 && ftruncate(log->fd, (off_t)log->size) < 0)
		return err_errno(err, "cannot cut off the half line that '%s' ends with", log->name);
	return 0;
}
