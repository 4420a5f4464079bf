/* log.h - a timeline on disk: records are added, never changed.
 *
 * NAME in a folder holds the newest records.  Once it is large it becomes NAME.1, the next time
 * NAME.2, and so on; the chain goes on, and each new file begins with a checkpoint, so that it
 * can be verified without those before it.
 *
 * All works on the folder's descriptor, and after audit_log_open() with openat, write, lseek,
 * fsync, fdatasync, ftruncate, fallocate, renameat and unlinkat only: a process that has locked itself
 * down can go on writing.  One process writes a timeline at a time; who shares one, locks. */
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
#define AUDIT_BATCH_MAX (512 * 1024)    /* bytes that are put and not yet written */
#define AUDIT_UNSIGNED_MAX 256          /* records, in a cell's timeline */
#define AUDIT_UNSIGNED_MS 10000         /* and how long one may be without a signature */
/* Room on the disk that is taken beforehand (with .keeps_room), so that the last word can still
 * be written when there is no other left. */
#define AUDIT_RESERVE (64 * 1024)

/* See audit_log_sync(). */
struct audit_copy {
	int fd;                         /* -1: there is none */
	bool tried;                     /* to make it */
	bool follows;                   /* with .lines it has all that the disk may still lack */
	int failed;                     /* -errno, from then on */
	uint64_t at;                    /* where .lines go */
	struct buf lines;               /* in the timeline, and not yet in the copy */
};

struct audit_log {
	int dir, fd;                    /* DIR is borrowed */
	char name[AUDIT_NAME_MAX], timeline[AUDIT_TIMELINE_MAX];
	const struct audit_key *key;    /* borrowed; NULL: it is never signed nor turned over */
	struct audit_chain chain;       /* with what is put */
	struct audit_chain written;     /* without */
	uint64_t unsigned_n, unsigned_written;  /* records since a checkpoint, likewise */
	char signed_time[AUDIT_TIME_LEN + 1];   /* of the last checkpoint, or "" */
	uint64_t size, reserved, size_max;      /* bytes of the file, and where it is turned over */
	uint32_t first, last;           /* numbers of the older files; 0: there are none */
	uint64_t torn;                  /* bytes of a line that a writer did not end, and which were
	                                 * cut off when it was opened */
	bool keeps_room;                /* set by who wants it, once it is open */
	bool is_full;                   /* room could not be had again: stop making things happen
	                                 * that need a record; a few more can be written */
	bool syncs;                     /* set by who calls audit_log_sync() */
	struct buf pending;
	struct audit_copy copy;
};

/* Open the timeline, made if it is not there, and find where it ends: the newest files are read
 * back to the last checkpoint, the rest is not looked at.  -EBADMSG: its end does not hang
 * together (`cloister audit verify` tells more).  TIMELINE: "operator" or "cell/ID". */
int audit_log_open(struct audit_log *ret_log, int dir, const char *name, const char *timeline,
                   const struct audit_key *key, uint64_t size_max, struct err *err);
/* Where a timeline ends.  Who was told by who wrote last need not look: as audit_log_open(), or
 * -ESTALE if it is not so any more. */
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
/* Gives back what is reserved.  What is put and not written is lost. */
void audit_log_close(struct audit_log *log);

/* Put a record.  EVENT is a canonical object, or -EINVAL; -EMSGSIZE: it is over AUDIT_EVENT_MAX;
 * -ENOBUFS: too much is waiting to be written. */
int audit_log_put(struct audit_log *log, const char *time, const char *event, size_t len);
/* The same for an event that is known to be canonical. */
int audit_log_put_known(struct audit_log *log, const char *time, const char *event, size_t len);
/* Put a checkpoint, if there is a key and anything that is not signed. */
int audit_log_checkpoint(struct audit_log *log, const char *time);

/* How many bytes can be put and written although the disk is full, LEN more being wanted;
 * UINT64_MAX: it is not full, as far as is known. */
uint64_t audit_log_left(struct audit_log *log, size_t len);

/* Write what is put, all or nothing: when it fails the file is as it was, the records are
 * forgotten and their numbers will be given again.  SYNC: and have it on the disk. */
int audit_log_write(struct audit_log *log, bool sync, struct err *err);

/* Have on the disk all that was written.  Where that is asked for often, it is a copy of the last
 * lines, NAME.sync, that is there at once; should the machine stop, audit_log_open() puts into the
 * timeline what it lost. */
int audit_log_sync(struct audit_log *log, struct err *err);

/* Remove the oldest file, if there is one beside the newest: 1; else 0.  That it was, and how
 * far it went, is written down first. */
int audit_log_drop(struct audit_log *log, const char *time, struct err *err);

/* The older files' numbers, the lowest that is at least FROM and the highest; 0 if there are none. */
int audit_log_files(int dir, const char *name, uint32_t from, uint32_t *ret_first,
                    uint32_t *ret_last, struct err *err);
/* NAME, NAME.1 ...: of number N, 0 being the newest. */
void audit_log_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name, uint32_t n);
#endif
