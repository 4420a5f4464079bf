/* log.h - a timeline on disk: records are added, never changed.
 *
 * NAME in a folder holds the newest records.  A large file is rotated to NAME.1, the next to
 * NAME.2, and so on.  The chain continues, and each new file begins with a checkpoint, so that it
 * can be verified without those before it.
 *
 * Everything uses the folder's descriptor, and after audit_log_open() only openat, write, lseek,
 * fsync, fdatasync, ftruncate, fallocate, renameat and unlinkat: a process that has locked itself
 * down can go on writing.  One process writes a timeline at a time; processes that share one must
 * lock it. */
#ifndef CLOISTER_AUDIT_LOG_H
#define CLOISTER_AUDIT_LOG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "audit/key.h"
#include "audit/record.h"
#include "base/buf.h"

struct err;

#define AUDIT_NAME_MAX 48
#define AUDIT_BATCH_MAX (512 * 1024)    /* bytes put, but not yet written */
#define AUDIT_UNSIGNED_MAX 256          /* records, in a cell's timeline */
#define AUDIT_UNSIGNED_MS 10000         /* how long a record may be without a signature */
/* Disk space reserved in advance (with .keeps_room), so that the last records can still be written
 * when the disk is full. */
#define AUDIT_RESERVE (64 * 1024)

/* See audit_log_sync(). */
struct audit_copy {
	int fd;                         /* -1: there is none */
	bool tried;                     /* to create it */
	bool follows;                   /* with .lines, it has all that the disk may still lack */
	int failed;                     /* -errno, from the failure on */
	uint64_t at;                    /* offset for .lines */
	struct buf lines;               /* in the timeline, but not yet in the copy */
};

struct audit_log {
	int dir, fd;                    /* DIR is borrowed */
	char name[AUDIT_NAME_MAX], timeline[AUDIT_TIMELINE_MAX];
	const struct audit_key *key;    /* borrowed; NULL: never signed nor rotated */
	struct audit_chain chain;       /* including what is put */
	struct audit_chain written;     /* without it */
	uint64_t unsigned_n, unsigned_written;  /* records since a checkpoint, likewise */
	char signed_time[AUDIT_TIME_LEN + 1];   /* of the last checkpoint, or "" */
	uint64_t size, reserved, size_max;      /* bytes of the file; the size at which it is rotated */
	uint32_t first, last;           /* numbers of the older files; 0: there are none */
	uint64_t torn;                  /* bytes of an incomplete line that was cut off when the
	                                 * timeline was opened */
	bool keeps_room;                /* set by the caller, once it is open */
	bool is_full;                   /* no room could be reserved: stop actions that need a
	                                 * record; a few more records can be written */
	bool syncs;                     /* set by callers of audit_log_sync() */
	struct buf pending;
	struct audit_copy copy;
};

/* Opens the timeline, creates it if it is missing, and finds its end: reads the newest files back
 * to the last checkpoint, and nothing before.  -EBADMSG: its end is inconsistent (`cloister audit
 * verify` reports more).  TIMELINE: "operator" or "cell/ID". */
int audit_log_open(struct audit_log *ret_log, int dir, const char *name, const char *timeline,
                   const struct audit_key *key, uint64_t size_max, struct err *err);
/* The end of a timeline.  A caller that got it from the last writer can open without searching:
 * like audit_log_open(), or -ESTALE if it is outdated. */
struct audit_log_end {
	uint64_t size, unsigned_n;
	uint32_t first, last;
	char signed_time[AUDIT_TIME_LEN + 1];
	struct audit_chain chain;
};
void audit_log_get_end(const struct audit_log *log, struct audit_log_end *ret_end);
int audit_log_open_at(struct audit_log *ret_log, int dir, const char *name, const char *timeline,
                      const struct audit_key *key, uint64_t size_max,
                      const struct audit_log_end *end, struct err *err);
/* Releases the reserved space.  Records that are put and not written are lost. */
void audit_log_close(struct audit_log *log);

/* Puts a record.  EVENT is a canonical object, or -EINVAL; -EMSGSIZE: it is over AUDIT_EVENT_MAX;
 * -ENOBUFS: too much waits to be written. */
int audit_log_put(struct audit_log *log, const char *time, const char *event, size_t len);
/* The same for an event that is known to be canonical. */
int audit_log_put_known(struct audit_log *log, const char *time, const char *event, size_t len);
/* Puts a checkpoint, if there is a key and any unsigned record. */
int audit_log_checkpoint(struct audit_log *log, const char *time);

/* How many bytes can be put and written on a full disk if LEN more are needed.  UINT64_MAX: the
 * disk is not full, as far as is known. */
uint64_t audit_log_left(struct audit_log *log, size_t len);

/* Writes what is put, all or nothing.  If it fails the file is unchanged, the records are dropped,
 * and their numbers are used again.  SYNC: also puts it on the disk. */
int audit_log_write(struct audit_log *log, bool sync, struct err *err);

/* Puts everything written on the disk.  If called often, it syncs a copy of the last lines,
 * NAME.sync, which is quicker.  If the machine stops, audit_log_open() restores lost lines from it. */
int audit_log_sync(struct audit_log *log, struct err *err);

/* Removes the oldest file, if there is one beside the newest: 1; else 0.  First records that, and
 * the last record in it. */
int audit_log_drop(struct audit_log *log, const char *time, struct err *err);

/* The numbers of older files: the lowest that is at least FROM, and the highest; 0 if there are none. */
int audit_log_files(int dir, const char *name, uint32_t from, uint32_t *ret_first,
                    uint32_t *ret_last, struct err *err);
/* NAME, NAME.1 ... for number N; 0 is the newest. */
void audit_log_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name, uint32_t n);
#endif
