/* operator.h - the one timeline of all operators' actions.
 *
 *   DATA/audit/                 (see base/data.h)
 *     operator.jsonl            records, as in record.h; older ones in operator.jsonl.1 and so on.
 *                               The first is of type log.begun, with the key; log.repaired records
 *                               that a crash left half a line, which was cut off
 *     operator.head             the number and hash of the last checkpoint: if the timeline ends
 *                               before it, somebody removed records
 *     key                       the seed of the operator's Ed25519 key, made at first use
 *     operator.end              its end, for the next writer; may be missing
 *     lock                      held while something is added
 *
 * Any number of processes add to it, one at a time.  For a command one call is enough:
 *
 *   operator_note("secret.added", (struct audit_member[]){ { .name = "secret", .text = name } },
 *                 1, &err);
 *
 * A process that writes more often, or will be locked down, keeps a struct operator.  Then each
 * record takes only openat, flock, read, write and fdatasync in the folder's descriptor.  Secrets'
 * values are never put here. */
#ifndef CLOISTER_AUDIT_OPERATOR_H
#define CLOISTER_AUDIT_OPERATOR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/key.h"
#include "audit/record.h"

struct err;

#define OPERATOR_LOG "operator.jsonl"
#define OPERATOR_HEAD "operator.head"
#define OPERATOR_KEY "key"
#define OPERATOR_LOCK "lock"
#define OPERATOR_END "operator.end"
#define OPERATOR_END_MAGIC "cl-end1"
#define OPERATOR_FILE_MAX (64u << 20)   /* then the file is rotated */
#define OPERATOR_FILES_MAX 16           /* older ones; beyond them the oldest is dropped */
#define OPERATOR_UNSIGNED_MAX 64        /* records that OPERATOR_LATER leaves unsigned */
#define OPERATOR_LOCK_MS 10000          /* how long to wait for other writers */
#define OPERATOR_MEMBERS_MAX 32

struct operator {
	int dir, lock, end;             /* END may be closed */
	struct audit_key key;
	bool has_key;                   /* read when something is to be signed */
	uint64_t file_max;              /* OPERATOR_FILE_MAX and OPERATOR_FILES_MAX, except in tests */
	uint32_t files_max;
};

/* Opens it, and creates the folder and the key.  The caller closes it. */
int operator_open(struct operator *ret_op, struct err *err);
/* The same in a folder that is already open.  Takes ownership of DIR. */
int operator_open_at(int dir, struct operator *ret_op, struct err *err);
/* For callers that need the key for more than signing what they add. */
int operator_load_key(struct operator *op, struct err *err);
void operator_close(struct operator *op);               /* for OWN() too; {0} is fine */

enum operator_when {
	OPERATOR_NOW,                   /* signed, and on the disk on return */
	OPERATOR_LATER,                 /* in the file on return: it outlives the process, not a
	                                 * power failure.  Signed with the next that is NOW, or once
	                                 * OPERATOR_UNSIGNED_MAX are waiting, or if something is
	                                 * added AUDIT_UNSIGNED_MS after the last checkpoint */
};
/* Adds a record.  EVENT is a canonical object, at most AUDIT_EVENT_MAX.  On return it is in the
 * timeline; on failure nothing was added. */
int operator_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                    struct err *err);
/* The same, but -EAGAIN if another process is adding something. */
int operator_try_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                        struct err *err);
/* An event of TYPE with these members, for operator_append(); RET_EVENT is not yet initialised. */
int operator_event(const char *type, const struct audit_member *members, size_t n,
                   struct buf *ret_event, struct err *err);
/* An event of TYPE with these members (at most OPERATOR_MEMBERS_MAX - 1; sorted in place). */
int operator_append_members(struct operator *op, enum operator_when when, const char *type,
                            struct audit_member *members, size_t n, struct err *err);
/* Signs all unsigned records, and puts them on the disk. */
int operator_checkpoint(struct operator *op, struct err *err);

/* For commands: opens, adds OPERATOR_NOW, closes.  The event also has the user ("uid"). */
int operator_note(const char *type, struct audit_member *members, size_t n, struct err *err);

/* ---- cells: records that tie their timelines to this one ---- */

/* GRANT: "sha256:..." of the cell's grants. */
int operator_cell_started(struct operator *op, const char *cell,
                          const unsigned char key[AUDIT_KEY], const char *grant,
                          struct err *err);
/* CHAIN: the end of its timeline.  STATUS: as `run` returns it. */
int operator_cell_ended(struct operator *op, const char *cell, const struct audit_chain *chain,
                        uint32_t status, struct err *err);
/* Its supervisor was killed; CHAIN: the end of the existing timeline, NULL if none. */
int operator_cell_lost(struct operator *op, const char *cell, const struct audit_chain *chain,
                       struct err *err);
/* Its timeline is about to be removed (call this first); who or why: "retention", "discard". */
int operator_cell_pruned(struct operator *op, const char *cell, const char *why,
                         struct err *err);
#endif
