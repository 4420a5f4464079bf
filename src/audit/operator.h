/* operator.h - the timeline of what operators did, of which there is one.
 *
 *   DATA/audit/                 (see base/data.h)
 *     operator.jsonl            records, as in record.h; older ones in operator.jsonl.1 and so on.
 *                               The first is of type log.begun, with the key; log.repaired says
 *                               that half a line was found, left by a crash, and cut off
 *     operator.head             the number and hash of the last checkpoint: what comes to be
 *                               missing behind it was taken away
 *     key                       the seed of the operator's Ed25519 key, made at first use
 *     operator.end              where it ends, for who adds the next record; it may be missing
 *     lock                      held while something is added
 *
 * Any number of processes add to it, one at a time.  For a command one call is enough:
 *
 *   operator_note("secret.added", (struct audit_member[]){ { .name = "secret", .text = name } },
 *                 1, &err);
 *
 * Who writes more often, or will be locked down, keeps a struct operator: then each record takes
 * openat, flock, read, write and fdatasync in the folder's descriptor, and nothing else.
 * Secrets' values are never put here. */
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
#define OPERATOR_FILE_MAX (64u << 20)   /* then the file is turned over */
#define OPERATOR_FILES_MAX 16           /* older ones; then the oldest is dropped */
#define OPERATOR_UNSIGNED_MAX 64        /* records that OPERATOR_LATER leaves unsigned */
#define OPERATOR_LOCK_MS 10000          /* how long one waits for the others */
#define OPERATOR_MEMBERS_MAX 32

struct operator {
	int dir, lock, end;             /* END may be -1 */
	struct audit_key key;
	bool has_key;                   /* it is read when something is to be signed */
	uint64_t file_max;              /* OPERATOR_FILE_MAX and OPERATOR_FILES_MAX, but in tests */
	uint32_t files_max;
};

/* Where it all is; the folder and the key are made.  The caller closes it. */
int operator_open(struct operator *ret_op, struct err *err);
/* The same in a folder that somebody else opened: DIR is taken over. */
int operator_open_at(int dir, struct operator *ret_op, struct err *err);
/* For who wants more of the key than that what is added gets signed with it. */
int operator_load_key(struct operator *op, struct err *err);
void operator_close(struct operator *op);               /* for OWN() too; {.dir = -1} is fine */

enum operator_when {
	OPERATOR_NOW,                   /* signed, and on the disk on return */
	OPERATOR_LATER,                 /* in the file on return: it outlives the process, not the
	                                 * machine's power.  Signed with the next that is NOW, or once
	                                 * OPERATOR_UNSIGNED_MAX are waiting, or the last checkpoint is
	                                 * AUDIT_UNSIGNED_MS old when something is added */
};
/* Add a record.  EVENT is a canonical object, at most AUDIT_EVENT_MAX.  On return it is in the
 * timeline; on failure nothing was added. */
int operator_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                    struct err *err);
/* The same, but -EAGAIN where another adds something just now. */
int operator_try_append(struct operator *op, enum operator_when when, const char *event, size_t len,
                        struct err *err);
/* An event of TYPE with these members, for operator_append(); RET_EVENT is one that is not begun. */
int operator_event(const char *type, const struct audit_member *members, size_t n,
                   struct buf *ret_event, struct err *err);
/* An event of TYPE with these members (at most OPERATOR_MEMBERS_MAX - 1; sorted in place). */
int operator_append_members(struct operator *op, enum operator_when when, const char *type,
                            struct audit_member *members, size_t n, struct err *err);
/* Sign what is not, and have it on the disk. */
int operator_checkpoint(struct operator *op, struct err *err);

/* For commands: open, add OPERATOR_NOW, close.  The event also tells the user ("uid"). */
int operator_note(const char *type, struct audit_member *members, size_t n, struct err *err);

/* ---- cells: what ties their timelines to this one ---- */

/* GRANT: "sha256:..." of what it was given. */
int operator_cell_started(struct operator *op, const char *cell,
                          const unsigned char key[AUDIT_KEY], const char *grant,
                          struct err *err);
/* CHAIN: how far its timeline came.  STATUS: as `run` gives it. */
int operator_cell_ended(struct operator *op, const char *cell, const struct audit_chain *chain,
                        uint32_t status, struct err *err);
/* Its supervisor was killed; CHAIN: how much of the timeline there is, NULL if none. */
int operator_cell_lost(struct operator *op, const char *cell, const struct audit_chain *chain,
                       struct err *err);
/* Its timeline is going to be removed (this comes first), by whom or why: "retention", "discard". */
int operator_cell_pruned(struct operator *op, const char *cell, const char *why,
                         struct err *err);
#endif
