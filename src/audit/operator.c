/* operator.c - see operator.h. */
#include "audit/operator.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "audit/log.h"
#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/hash.h"

#define LOCK_STEP_MS 2

/* Polled: a process that was stopped with the lock held must not block all others for good. */
static int
take_lock(struct operator *op, struct err *err)
{
	const struct timespec step = { .tv_nsec = LOCK_STEP_MS * 1000000L };

	for (int waited = 0; flock(op->lock, LOCK_EX | LOCK_NB) < 0; waited += LOCK_STEP_MS) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_errno(err, "cannot lock the operator's timeline");
		if (waited >= OPERATOR_LOCK_MS)
			return err_set(err, ETIMEDOUT, "the operator's timeline has been locked for %d s: "
			               "a process that holds '" OPERATOR_LOCK "' is stuck",
			               OPERATOR_LOCK_MS / 1000);
		nanosleep(&step, NULL);
	}
	return 0;
}

static void
leave_lock(struct operator *op)
{
	flock(op->lock, LOCK_UN);
}

/* ---- adding ---- */

static int
put_members(struct audit_log *log, const char *time, struct audit_member *members, size_t n)
{
	OWN(buf_free) struct buf event = BUF(256);

	audit_event_put(&event, members, n);
	return buf_failed(&event) ? -ENOMEM :
	       audit_log_put(log, time, (const char *)event.data, event.len);
}

/* Records about the timeline itself: that it begins, or that half a line was cut off. */
static int
put_own(struct audit_log *log, const char *time)
{
	char key[2 * AUDIT_KEY + 1];
	struct audit_member begun[] = { { .name = "key", .text = key },
	                                { .name = "type", .text = "log.begun" } };
	struct audit_member torn[] = {
		{ .name = "bytes", .kind = AUDIT_NUMBER, .number = log->torn },
		{ .name = "type", .text = "log.repaired" },
	};
	int r = 0;

	if (log->chain.tree.size == 0)
		codec_hex(log->key->public, AUDIT_KEY, key);
	if (log->chain.tree.size == 0)
		r = put_members(log, time, begun, ARRAY_LEN(begun));
	if (r == 0 && log->torn > 0)
		r = put_members(log, time, torn, ARRAY_LEN(torn));
	return r;
}

/* Only once it is on the disk: a recorded head must exist. */
static int
keep_head(struct operator *op, const struct audit_log *log, struct err *err)
{
	char hex[AUDIT_HEX + 1], text[160];
	OWN(closep) int fd = openat(op->dir, OPERATOR_HEAD, O_WRONLY | O_CREAT | O_NOFOLLOW |
	                            O_CLOEXEC, 0600);

	codec_hex(log->written.head, AUDIT_HASH, hex);
	snprintf(text, sizeof(text), "{\"head\":\"%s\",\"log\":\"" AUDIT_OPERATOR "\",\"n\":%llu}\n", hex,
	         (unsigned long long)log->written.tree.size);
	/* The text only ever grows, and is one block: nobody reads half of it. */
	if (fd < 0 || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
		return err_errno(err, "cannot keep where the operator's timeline ends");
	return 0;
}

/* ---- the end of the timeline ---- */

/* A hint, so that not every process has to search.  Wrong hints are recognised by their hash, and
 * old ones by the file's size. */
struct end_file {
	char magic[8];
	struct audit_log_end end;
	unsigned char hash[HASH_LEN];
};

static int
open_log(struct operator *op, struct audit_log *ret_log, struct err *err)
{
	struct end_file file;
	unsigned char hash[HASH_LEN];

	if (op->end > 0 && pread(op->end, &file, sizeof(file), 0) == sizeof(file) &&
	    memcmp(file.magic, OPERATOR_END_MAGIC, sizeof(file.magic)) == 0) {
		hash_of(&file, offsetof(struct end_file, hash), hash);
		if (memcmp(hash, file.hash, sizeof(hash)) == 0 &&
		    audit_log_open_at(ret_log, op->dir, OPERATOR_LOG, AUDIT_OPERATOR, NULL,
		                      op->file_max, &file.end, NULL) == 0)
			return 0;
	}
	return audit_log_open(ret_log, op->dir, OPERATOR_LOG, AUDIT_OPERATOR, NULL, op->file_max, err);
}

static void
keep_end(struct operator *op, const struct audit_log *log)
{
	struct end_file file = { .magic = OPERATOR_END_MAGIC };

	audit_log_get_end(log, &file.end);
	hash_of(&file, offsetof(struct end_file, hash), file.hash);
	if (op->end > 0)
		(void)!pwrite(op->end, &file, sizeof(file), 0);
}

int
operator_load_key(struct operator *op, struct err *err)
{
	int r = op->has_key ? 0 : audit_key_load(op->dir, OPERATOR_KEY, false, &op->key, err);

	op->has_key = r == 0;
	return r;
}

/* Whether the unsigned records have waited long enough, or will have with N more. */
static bool
is_due(const struct audit_log *log, uint64_t n)
{
	char before[AUDIT_TIME_LEN + 1];

	audit_time_ago(AUDIT_UNSIGNED_MS, before);
	return log->unsigned_n + n >= OPERATOR_UNSIGNED_MAX || strcmp(log->signed_time, before) < 0;
}

/* Puts and writes; *ret_head: a new checkpoint is on the disk. */
static int
append_to(struct audit_log *log, enum operator_when when, const char *event, size_t len,
          bool *ret_head, struct err *err)
{
	char time[AUDIT_TIME_LEN + 1];
	int r;

	audit_time_now(time);
	r = put_own(log, time);
	if (r == 0 && event != NULL)
		r = audit_log_put(log, time, event, len);
	if (r == 0 && (when == OPERATOR_NOW || is_due(log, 0)))
		r = audit_log_checkpoint(log, time);
	if (r < 0)
		return err_set(err, -r, "an event for the operator's timeline is %s",
		               r == -EINVAL ? "not canonical" : r == -EMSGSIZE ? "too long" : "too much");
	*ret_head = when == OPERATOR_NOW && log->pending.len > 0;
	return log->pending.len == 0 ? 0 : audit_log_write(log, when == OPERATOR_NOW, err);
}

static bool
has_too_many(const struct operator *op, const struct audit_log *log)
{
	return log->first != 0 && log->last - log->first + 1 > op->files_max;
}

/* Called under the lock.  EVENT: NULL to sign only. */
static int
append(struct operator *op, enum operator_when when, const char *event, size_t len,
       struct err *err)
{
	char time[AUDIT_TIME_LEN + 1];
	bool has_head = false;
	struct audit_log log;
	int r = open_log(op, &log, err);

	if (r < 0)
		return r;
	/* Without a signature, the key is not needed. */
	if (when == OPERATOR_NOW || is_due(&log, 2) || log.size == 0 ||
	    log.size + AUDIT_BATCH_MAX >= op->file_max || has_too_many(op, &log))
		r = operator_load_key(op, err);
	log.key = op->has_key ? &op->key : NULL;
	if (r == 0)
		r = append_to(&log, when, event, len, &has_head, err);
	/* If it fails now, the next writer does it. */
	if (r == 0 && has_too_many(op, &log)) {
		audit_time_now(time);
		has_head = audit_log_drop(&log, time, NULL) > 0 || has_head;
	}
	if (r == 0)
		keep_end(op, &log);
	if (r == 0 && has_head)
		r = keep_head(op, &log, err);
	audit_log_close(&log);
	return r;
}

/* ---- opening ---- */

int
operator_open_at(int dir, struct operator *ret_op, struct err *err)
{
	struct operator op = { .dir = dir, .file_max = OPERATOR_FILE_MAX,
	                       .files_max = OPERATOR_FILES_MAX };
	int r = 0;

	op.lock = openat(dir, OPERATOR_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	op.end = openat(dir, OPERATOR_END, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (op.lock < 0)
		r = err_errno(err, "cannot open the lock of the operator's timeline");
	else if (faccessat(dir, OPERATOR_KEY, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = -ENOENT;
	if (r == -ENOENT && op.lock > 0) {
		/* Two processes that come first at once must not create a key each. */
		r = take_lock(&op, err);
		if (r == 0) {
			r = audit_key_load(dir, OPERATOR_KEY, true, &op.key, err);
			op.has_key = r == 0;
			if (r == 0)
				r = append(&op, OPERATOR_NOW, NULL, 0, err);
			leave_lock(&op);
		}
	}
	if (r < 0) {
		operator_close(&op);
		return r;
	}
	*ret_op = op;
	return 0;
}

int
operator_open(struct operator *ret_op, struct err *err)
{
	int dir = data_folder("audit", true, err);

	return dir < 0 ? dir : operator_open_at(dir, ret_op, err);
}

void
operator_close(struct operator *op)
{
	close_fd(&op->dir);
	close_fd(&op->lock);
	close_fd(&op->end);
	audit_key_wipe(&op->key);
}

/* ---- public functions ---- */

static int
append_and_leave(struct operator *op, enum operator_when when, const char *event, size_t len,
                 struct err *err)
{
	int r = append(op, when, event, len, err);

	leave_lock(op);
	return r == 0 ? 0 : err_wrap(err, "cannot write to the operator's timeline");
}

int
operator_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                struct err *err)
{
	int r = take_lock(op, err);

	return r < 0 ? r : append_and_leave(op, when, event, len, err);
}

int
operator_try_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                    struct err *err)
{
	if (flock(op->lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN :
		       err_errno(err, "cannot lock the operator's timeline");
	return append_and_leave(op, when, event, len, err);
}

int
operator_checkpoint(struct operator *op, struct err *err)
{
	return operator_append(op, OPERATOR_NOW, NULL, 0, err);
}

int
operator_event(const char *type, const struct audit_member *members, size_t n,
               struct buf *ret_event, struct err *err)
{
	struct audit_member all[OPERATOR_MEMBERS_MAX] = { { .name = "type", .text = type } };

	assert(n < OPERATOR_MEMBERS_MAX);
	memcpy(all + 1, members, n * sizeof(*members));
	buf_init(ret_event, AUDIT_EVENT_MAX);
	audit_event_put(ret_event, all, n + 1);
	return buf_failed(ret_event) ?
	       err_set(err, EMSGSIZE, "an event for the operator's timeline is too long") : 0;
}

int
operator_append_members(struct operator *op, enum operator_when when, const char *type,
                        struct audit_member *members, size_t n, struct err *err)
{
	OWN(buf_free) struct buf event = {0};
	int r = operator_event(type, members, n, &event, err);

	return r < 0 ? r : operator_append(op, when, (const char *)event.data, event.len, err);
}

int
operator_note(const char *type, struct audit_member *members, size_t n, struct err *err)
{
	struct audit_member all[OPERATOR_MEMBERS_MAX] = {
		{ .name = "uid", .kind = AUDIT_NUMBER, .number = getuid() },
	};
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	assert(n < OPERATOR_MEMBERS_MAX - 1);
	if (r < 0)
		return r;
	memcpy(all + 1, members, n * sizeof(*members));
	return operator_append_members(&op, OPERATOR_NOW, type, all, n + 1, err);
}

/* ---- cells ---- */

int
operator_cell_started(struct operator *op, const char *cell,
                      const unsigned char key[AUDIT_KEY], const char *grant, struct err *err)
{
	char hex[AUDIT_HEX + 1];
	struct audit_member members[] = {
		{ .name = "cell", .text = cell },
		{ .name = "key", .text = hex },
		{ .name = "grant", .text = grant },
	};

	codec_hex(key, AUDIT_KEY, hex);
	return operator_append_members(op, OPERATOR_LATER, "cell.started", members,
	                               ARRAY_LEN(members), err);
}

/* CHAIN: NULL for none; STATUS: negative for none. */
static int
append_end(struct operator *op, const char *type, const char *cell,
           const struct audit_chain *chain, int64_t status, struct err *err)
{
	char head[AUDIT_HEX + 1], root_hex[AUDIT_HEX + 1];
	unsigned char root[AUDIT_HASH];
	struct audit_member members[5] = { { .name = "cell", .text = cell } };
	size_t n = 1;

	if (chain != NULL) {
		audit_tree_root(&chain->tree, root);
		codec_hex(root, AUDIT_HASH, root_hex);
		codec_hex(chain->head, AUDIT_HASH, head);
		members[n++] = (struct audit_member){ .name = "head", .text = head };
		members[n++] = (struct audit_member){ .name = "root", .text = root_hex };
		members[n++] = (struct audit_member){ .name = "size", .kind = AUDIT_NUMBER,
		                                      .number = chain->tree.size };
	}
	if (status >= 0)
		members[n++] = (struct audit_member){ .name = "status", .kind = AUDIT_NUMBER,
		                                      .number = (uint64_t)status };
	return operator_append_members(op, OPERATOR_LATER, type, members, n, err);
}

int
operator_cell_ended(struct operator *op, const char *cell, const struct audit_chain *chain,
                    uint32_t status, struct err *err)
{
	return append_end(op, "cell.ended", cell, chain, status, err);
}

int
operator_cell_lost(struct operator *op, const char *cell, const struct audit_chain *chain,
                   struct err *err)
{
	return append_end(op, "cell.lost", cell, chain, -1, err);
}

int
operator_cell_pruned(struct operator *op, const char *cell, const char *why, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "cell", .text = cell },
		{ .name = "why", .text = why },
	};

	return operator_append_members(op, OPERATOR_LATER, "cell.pruned", members,
	                               ARRAY_LEN(members), err);
}
