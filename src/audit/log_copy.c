/* log_copy.c - puts the end of a timeline on the disk sooner than the timeline itself.
 *
 * To sync a file that has grown, the file system must also write where the new data is and how
 * large the file is, one after the other.  So lines are written again, to a file of fixed size, and
 * only that one is synced.  When it is full, the timeline is synced, and the copy begins anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/log.h"
#include "audit/log_parts.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

void
audit_copy_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name)
{
	snprintf(ret_name, AUDIT_NAME_MAX + 12, "%s.sync", name);
}

/* If it cannot be created, the timeline itself is synced each time. */
static void
make_copy(struct audit_log *log)
{
	OWN(freep) char *zeros = calloc(1, AUDIT_COPY_SIZE);
	char name[AUDIT_NAME_MAX + 12];
	OWN(closep) int fd = -1;

	log->copy.tried = true;
	audit_copy_name(name, log->name);
	fd = openat(log->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (zeros == NULL || write_all(fd, zeros, AUDIT_COPY_SIZE, NULL) < 0 || fsync(fd) < 0) {
		unlinkat(log->dir, name, 0);
		return;
	}
	buf_init(&log->copy.lines, AUDIT_COPY_SIZE);
	log->copy.fd = TAKE_FD(fd);
}

void
audit_copy_add(struct audit_log *log, const void *lines, size_t len)
{
	struct audit_copy *c = &log->copy;
	char place[AUDIT_COPY_PLACE];

	if (!c->follows)
		return;
	if (c->at == 0 && c->lines.len == 0) {
		snprintf(place, sizeof(place), "%llu\n", (unsigned long long)log->size);
		buf_put_text(&c->lines, place);
	}
	buf_put(&c->lines, lines, len);
	c->follows = !buf_failed(&c->lines) && c->at + c->lines.len <= AUDIT_COPY_SIZE;
}

static int
write_copy(struct audit_copy *c)
{
	int r = write_all(c->fd, c->lines.data, c->lines.len, NULL);

	if (r == 0 && c->lines.len > 0 && fdatasync(c->fd) < 0)
		r = -errno;
	c->at += c->lines.len;
	buf_reset(&c->lines);
	return r;
}

/* The disk has all of the timeline. */
static void
begin_anew(struct audit_log *log)
{
	struct audit_copy *c = &log->copy;

	buf_reset(&c->lines);
	c->at = 0;
	c->follows = c->fd >= 0 && lseek(c->fd, 0, SEEK_SET) == 0;
}

static int
sync_timeline(struct audit_log *log)
{
	if (log->fd >= 0 && fdatasync(log->fd) < 0)
		return -errno;
	begin_anew(log);
	return 0;
}

int
audit_log_sync(struct audit_log *log, struct err *err)
{
	struct audit_copy *c = &log->copy;

	if (!c->tried && log->fd >= 0)
		make_copy(log);
	/* A disk that fails once is not trusted again.  Without a newest file, everything was
	 * synced when the one before was rotated. */
	if (c->failed == 0 && log->fd >= 0)
		c->failed = c->follows ? write_copy(c) : sync_timeline(log);
	return c->failed == 0 ? 0 : err_set(err, -c->failed, "the timeline does not reach the disk: %s",
	                                    strerrordesc_np(-c->failed));
}

void
audit_copy_turns_over(struct audit_log *log)
{
	if (log->syncs && log->copy.failed == 0 && fdatasync(log->fd) < 0)
		log->copy.failed = -errno;
}

void
audit_copy_turned_over(struct audit_log *log)
{
	if (!log->syncs)
		return;
	/* Syncs the names too; not every file system can. */
	(void)!fsync(log->dir);
	begin_anew(log);
}

void
audit_copy_close(struct audit_log *log)
{
	char name[AUDIT_NAME_MAX + 12];

	if (log->copy.fd < 0)
		return;
	audit_copy_name(name, log->name);
	if (sync_timeline(log) == 0)
		unlinkat(log->dir, name, 0);
	close(log->copy.fd);
	log->copy.fd = -1;
	buf_free(&log->copy.lines);
}
