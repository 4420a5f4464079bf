/* log.c - see log.h. */
#include "audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/log_parts.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon_check.h"

#define LAST_MAX 4096                   /* of a last record that is identified by its hash */
#define RESERVE_STEP (64 * 1024)        /* further reserve for a timeline that has grown: as much
                                         * as it has, between these two */
#define RESERVE_STEP_MAX (4 * 1024 * 1024)

void
audit_log_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name, uint32_t n)
{
	if (n == 0)
		snprintf(ret_name, AUDIT_NAME_MAX + 12, "%s", name);
	else
		snprintf(ret_name, AUDIT_NAME_MAX + 12, "%s.%u", name, n);
}

static int
open_newest(struct audit_log *log, struct err *err)
{
	log->fd = openat(log->dir, log->name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC |
	                 O_NONBLOCK, 0600);
	if (log->fd < 0)
		return err_errno(err, "cannot open the timeline '%s'", log->name);
	return 0;
}

/* If the file system cannot reserve space, nothing can be done about it. */
static bool
reserve_to(struct audit_log *log, uint64_t end)
{
	if (fallocate(log->fd, FALLOC_FL_KEEP_SIZE, (off_t)log->size, (off_t)(end - log->size)) < 0 &&
	    (errno == ENOSPC || errno == EDQUOT))
		return false;
	log->reserved = end;
	return true;
}

/* The next records must fit, whatever else fills the disk. */
static void
reserve(struct audit_log *log, uint64_t len)
{
	uint64_t least = log->size + len + AUDIT_RESERVE;
	uint64_t step = log->size == 0 ? 0 : log->size < RESERVE_STEP ? RESERVE_STEP :
	                log->size < RESERVE_STEP_MAX ? log->size : RESERVE_STEP_MAX;

	log->is_full = log->keeps_room && log->reserved < least &&
	               !reserve_to(log, least + step) && !reserve_to(log, least);
}

/* Whether the file's last record has that hash: a single read, for lines of the usual length. */
static bool
ends_with(int fd, uint64_t size, const unsigned char head[AUDIT_HASH])
{
	char text[LAST_MAX];
	uint64_t from = size < sizeof(text) ? 0 : size - sizeof(text);
	ssize_t n = pread(fd, text, sizeof(text), (off_t)from);
	unsigned char hash[AUDIT_HASH];
	const char *line;

	if (n <= 0 || from + (uint64_t)n != size || text[n - 1] != '\n')
		return false;
	line = memrchr(text, '\n', (size_t)n - 1);
	if (line == NULL && from > 0)
		return false;
	line = line == NULL ? text : line + 1;
	audit_hash_record(line, (size_t)(text + n - 1 - line), hash);
	return memcmp(hash, head, sizeof(hash)) == 0;
}

/* Resumes at a recorded end; -ESTALE. */
static int
resume_at(struct audit_log *log, const struct audit_log_end *end, struct err *err)
{
	struct stat st;

	if (fstat(log->fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != end->size ||
	    !ends_with(log->fd, end->size, end->chain.head))
		return err_set(err, ESTALE, "the timeline '%s' ends elsewhere", log->name);
	log->first = end->first;
	log->last = end->last;
	log->size = end->size;
	log->unsigned_n = end->unsigned_n;
	log->chain = end->chain;
	memcpy(log->signed_time, end->signed_time, sizeof(log->signed_time));
	return 0;
}

void
audit_log_get_end(const struct audit_log *log, struct audit_log_end *ret_end)
{
	memset(ret_end, 0, sizeof(*ret_end));
	ret_end->size = log->size;
	ret_end->unsigned_n = log->unsigned_written;
	ret_end->first = log->first;
	ret_end->last = log->last;
	ret_end->chain = log->written;
	memcpy(ret_end->signed_time, log->signed_time, sizeof(ret_end->signed_time));
}

int
audit_log_open(struct audit_log *ret_log, int dir, const char *name, const char *timeline,
               const struct audit_key *key, uint64_t size_max, struct err *err)
{
	return audit_log_open_at(ret_log, dir, name, timeline, key, size_max, NULL, err);
}

int
audit_log_open_at(struct audit_log *ret_log, int dir, const char *name, const char *timeline,
                  const struct audit_key *key, uint64_t size_max,
                  const struct audit_log_end *end, struct err *err)
{
	struct audit_log log = { .dir = dir, .fd = -1, .key = key, .size_max = size_max,
	                         .copy.fd = -1 };
	int r = 0;

	snprintf(log.name, sizeof(log.name), "%s", name);
	snprintf(log.timeline, sizeof(log.timeline), "%s", timeline);
	if (end == NULL)
		r = audit_log_files(dir, log.name, 1, &log.first, &log.last, err);
	if (r == 0)
		r = open_newest(&log, err);
	if (r == 0)
		r = end != NULL ? resume_at(&log, end, err) : audit_log_resume(&log, err);
	if (r < 0) {
		if (log.fd >= 0)
			close(log.fd);
		return r;
	}
	log.written = log.chain;
	log.unsigned_written = log.unsigned_n;
	log.reserved = log.size;
	buf_init(&log.pending, AUDIT_BATCH_MAX);
	*ret_log = log;
	return 0;
}

void
audit_log_close(struct audit_log *log)
{
	audit_copy_close(log);
	if (log->fd < 0)
		return;
	if (log->reserved > log->size)
		(void)!ftruncate(log->fd, (off_t)log->size);
	close(log->fd);
	log->fd = -1;
	buf_free(&log->pending);
}

/* ---- putting ---- */

static void
put_checkpoint(struct audit_log *log, const char *time)
{
	audit_checkpoint_put(&log->pending, &log->chain, log->timeline, time, log->key);
	log->unsigned_n = 0;
	snprintf(log->signed_time, sizeof(log->signed_time), "%s", time);
}

/* A new file begins with the state of those before it, which may be removed one day. */
static void
begin_file(struct audit_log *log, const char *time)
{
	if (log->key == NULL || log->size > 0 || log->pending.len > 0 || log->chain.tree.size == 0)
		return;
	put_checkpoint(log, time);
}

int
audit_log_put(struct audit_log *log, const char *time, const char *event, size_t len)
{
	if (len <= AUDIT_EVENT_MAX && !canon_check_object(event, len))
		return -EINVAL;
	return audit_log_put_known(log, time, event, len);
}

int
audit_log_put_known(struct audit_log *log, const char *time, const char *event, size_t len)
{
	if (len > AUDIT_EVENT_MAX)
		return -EMSGSIZE;
	if (log->pending.len + 2 * AUDIT_LINE_MAX > AUDIT_BATCH_MAX)
		return -ENOBUFS;
	begin_file(log, time);
	audit_record_put(&log->pending, &log->chain, log->timeline, time, event, len);
	log->unsigned_n++;
	return buf_failed(&log->pending) ? -ENOMEM : 0;
}

int
audit_log_checkpoint(struct audit_log *log, const char *time)
{
	if (log->key == NULL || log->unsigned_n == 0)
		return 0;
	if (log->pending.len + AUDIT_LINE_MAX > AUDIT_BATCH_MAX)
		return -ENOBUFS;
	put_checkpoint(log, time);
	return buf_failed(&log->pending) ? -ENOMEM : 0;
}

/* ---- writing ---- */

static void
turn_over(struct audit_log *log)
{
	char older[AUDIT_NAME_MAX + 12];
	OWN(closep) int before = -1;
	uint64_t end = log->size;

	audit_log_name(older, log->name, log->last + 1);
	audit_copy_turns_over(log);
	/* If this fails the file grows on, and the next write tries again. */
	if (renameat(log->dir, log->name, log->dir, older) < 0)
		return;
	before = TAKE_FD(log->fd);
	log->last++;
	log->first = log->first == 0 ? log->last : log->first;
	log->size = log->reserved = 0;
	/* If it fails now, the next write does it. */
	if (open_newest(log, NULL) == 0)
		reserve(log, 0);
	/* Released only now, so that nobody else gets the space in between; unless there is no other. */
	(void)!ftruncate(before, (off_t)end);
	if (log->fd >= 0 && log->is_full)
		reserve(log, 0);
	audit_copy_turned_over(log);
}

static int
give_up(struct audit_log *log, int r)
{
	/* Half a line would corrupt the next one. */
	if (log->fd >= 0)
		(void)!ftruncate(log->fd, (off_t)log->size);
	log->reserved = log->size;
	log->chain = log->written;
	log->unsigned_n = log->unsigned_written;
	buf_reset(&log->pending);
	return r;
}

uint64_t
audit_log_left(struct audit_log *log, size_t len)
{
	uint64_t used = log->size + log->pending.len;

	if (log->fd < 0)
		return 0;
	reserve(log, log->pending.len + len);
	return !log->is_full ? UINT64_MAX : log->reserved > used ? log->reserved - used : 0;
}

int
audit_log_write(struct audit_log *log, bool sync, struct err *err)
{
	int r = 0;

	if (buf_failed(&log->pending))
		return give_up(log, err_set(err, ENOMEM, "cannot write the timeline: out of memory"));
	if (log->fd < 0)
		r = open_newest(log, err);
	if (r == 0)
		reserve(log, log->pending.len);
	if (r == 0)
		r = write_all(log->fd, log->pending.data, log->pending.len, err);
	if (r == 0 && sync && fdatasync(log->fd) < 0)
		r = err_errno(err, "cannot have it on the disk");
	if (r < 0)
		return give_up(log, r);
	audit_copy_add(log, log->pending.data, log->pending.len);
	log->size += log->pending.len;
	log->written = log->chain;
	log->unsigned_written = log->unsigned_n;
	buf_reset(&log->pending);
	if (log->key != NULL && log->size >= log->size_max)
		turn_over(log);
	return 0;
}

/* ---- dropping ---- */

/* The number of the first record in the file of number N. */
static int
first_record(struct audit_log *log, uint32_t file, uint64_t *ret_n, struct err *err)
{
	char name[AUDIT_NAME_MAX + 12];
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	struct audit_record record;
	const char *end = NULL;
	ssize_t len = 0;
	int r;

	audit_log_name(name, log->name, file);
	fd = openat(log->dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	text = malloc(AUDIT_LINE_MAX + 1);
	if (fd >= 0 && text != NULL)
		len = pread(fd, text, AUDIT_LINE_MAX + 1, 0);
	if (fd < 0 || text == NULL || len < 0)
		return err_errno(err, "cannot read '%s'", name);
	end = memchr(text, '\n', (size_t)len);
	if (end == NULL)
		return err_set(err, EBADMSG, "'%s' has no records", name);
	r = audit_record_read(text, (size_t)(end - text), &record, err);
	if (r == 0)
		*ret_n = record.n;
	return r;
}

int
audit_log_drop(struct audit_log *log, const char *time, struct err *err)
{
	char name[AUDIT_NAME_MAX + 12], event[96];
	uint64_t next = 0;
	int r = 0;

	if (log->first == 0 || log->key == NULL)
		return 0;
	/* The newest file may be empty. */
	if (log->first == log->last && log->size == 0)
		next = log->written.tree.size + 1;
	else
		r = first_record(log, log->first == log->last ? 0 : log->first + 1, &next, err);
	if (r < 0)
		return r;
	snprintf(event, sizeof(event), "{\"through\":%llu,\"type\":\"records.dropped\"}",
	         (unsigned long long)next - 1);
	r = audit_log_put(log, time, event, strlen(event));
	if (r == 0)
		r = audit_log_checkpoint(log, time);
	if (r < 0)
		return err_set(err, -r, "cannot note that records go");
	r = audit_log_write(log, true, err);
	if (r < 0)
		return r;
	audit_log_name(name, log->name, log->first);
	if (unlinkat(log->dir, name, 0) < 0)
		return err_errno(err, "cannot remove '%s'", name);
	if (log->first == log->last)
		log->first = 0;         /* LAST stays: numbers are never reused */
	else
		log->first++;
	return 1;
}
