/* record.h - one record of a timeline: a line of canonical JSON.
 *
 *   {"cell":"ID","event":{...},"n":1,"prev":"64 digits","time":"2026-11-15T16:00:00.000Z"}
 *   {"event":{...},"log":"operator","n":1,"prev":"64 digits","time":"..."}
 *
 * N counts from 1; PREV is the hash of the record before, zeros for the first.  From time to time a
 * record is a checkpoint, in which the keeper of the timeline signs everything up to there.
 *
 *   {"key":"...","root":"...","signature":"...","size":N,"tree":["...",...],"type":"checkpoint"}
 *
 * ROOT is that of the tree over the SIZE records before it.  TREE has the tree's complete subtrees,
 * so that a reader can continue from there.  audit_checkpoint_text() has the signed text.  Pure. */
#ifndef CLOISTER_AUDIT_RECORD_H
#define CLOISTER_AUDIT_RECORD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "audit/key.h"
#include "http/http_head.h"

struct buf;
struct err;

#define AUDIT_LINE_MAX (64 * 1024)      /* of a record, without the newline */
#define AUDIT_EVENT_MAX (63 * 1024)     /* of the event in it */
#define AUDIT_TIMELINE_MAX 32           /* "operator" or "cell/ID", with a NUL */
#define AUDIT_OPERATOR "operator"
#define AUDIT_TIME_LEN 24

/* The current time, in the format of records. */
void audit_time_now(char ret_time[AUDIT_TIME_LEN + 1]);
/* The time MS milliseconds ago (whole seconds only).  Times in this format sort as texts. */
void audit_time_ago(uint64_t ms, char ret_time[AUDIT_TIME_LEN + 1]);

/* ---- writing ---- */

/* A member of an event.  Text may be anything: see members.h for how it is escaped. */
struct audit_member {
	const char *name;               /* a key, as in members.h */
	enum { AUDIT_TEXT, AUDIT_NUMBER, AUDIT_TRUTH, AUDIT_JSON } kind;
	const char *text;               /* AUDIT_JSON: canonical JSON; NULL: omit the member */
	uint64_t number;                /* at most 2^53 - 1; for a boolean: 0 or 1 */
};
/* An event of these members, sorted. */
void audit_event_put(struct buf *b, const struct audit_member *members, size_t n);

/* Writes the next record of TIMELINE, and a newline; advances C.  EVENT is a canonical object
 * (canon_check_object()). */
void audit_record_put(struct buf *b, struct audit_chain *c, const char *timeline,
                      const char *time, const char *event, size_t len);
/* Likewise, for a checkpoint. */
void audit_checkpoint_put(struct buf *b, struct audit_chain *c, const char *timeline,
                          const char *time, const struct audit_key *key);

/* ---- reading ---- */

struct audit_record {
	char timeline[AUDIT_TIMELINE_MAX];
	struct http_text event, time;   /* borrowed from the line */
	uint64_t n;
	unsigned char prev[AUDIT_HASH];
	bool is_checkpoint;
};
/* LINE is without its newline.  -EBADMSG: it is no canonical record; ERR explains why. */
int audit_record_read(const char *line, size_t len, struct audit_record *ret_record,
                      struct err *err);

struct audit_checkpoint {
	unsigned char key[AUDIT_KEY], root[AUDIT_HASH], signature[AUDIT_SIGNATURE];
	struct audit_tree tree;         /* its .size is the checkpoint's */
};
/* For a record that is a checkpoint; -EBADMSG also if TREE does not have that root. */
int audit_checkpoint_read(const struct audit_record *record,
                          struct audit_checkpoint *ret_checkpoint, struct err *err);
bool audit_checkpoint_is_signed(const struct audit_record *record,
                                const struct audit_checkpoint *checkpoint);

#define AUDIT_CHECKPOINT_TEXT_MAX 256
/* The text that a checkpoint's key signs. */
size_t audit_checkpoint_text(char ret_text[AUDIT_CHECKPOINT_TEXT_MAX], const char *timeline,
                             uint64_t size, const unsigned char root[AUDIT_HASH],
                             const char *time);
#endif
