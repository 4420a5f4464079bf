/* verify.h - verifies that a timeline is as it was written, and if not, finds what was done to it.
 *
 * Pure: the caller passes one line after the other.  No hash and no signature can show that the
 * newest records were removed.  An anchor does: a number and a hash that somebody else keeps, for a
 * cell the operator's timeline. */
#ifndef CLOISTER_AUDIT_VERIFY_H
#define CLOISTER_AUDIT_VERIFY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "audit/key.h"
#include "audit/record.h"

enum audit_fault {
	AUDIT_SOUND, AUDIT_CHANGED, AUDIT_REMOVED, AUDIT_ADDED, AUDIT_REORDERED, AUDIT_TRUNCATED,
	AUDIT_SWAPPED, AUDIT_MISSING,
	AUDIT_UNREADABLE,               /* its file is no regular file, or cannot be read */
	AUDIT_UNTIED,                   /* its owner is unknown: the operator's timeline would name it */
};
const char *audit_fault_name(enum audit_fault fault);

struct audit_anchor {
	bool is_there, is_end;          /* IS_END: nothing may follow it */
	uint64_t n;
	unsigned char head[AUDIT_HASH]; /* of record N */
};

#define AUDIT_FINDING_MAX 320
struct audit_verify {
	/* input: */
	char timeline[AUDIT_TIMELINE_MAX];      /* "": that of the first record */
	unsigned char key[AUDIT_KEY];
	bool has_key;                   /* else the key of the first checkpoint, which proves less */
	struct audit_anchor anchor;
	/* Called if there is no key, once the signing key is known, or (NULL) at the end if nothing
	 * is signed.  May set .key, .has_key and .anchor, by .timeline.  May be NULL. */
	void (*pick)(struct audit_verify *v, const unsigned char *key);
	const void *arg;                /* for PICK */
	/* result: */
	struct audit_chain chain;
	uint64_t first;                 /* the first record's number; 0 before it */
	unsigned char first_hash[AUDIT_HASH];
	uint64_t checkpoints;
	uint64_t signed_n;              /* the last record that a checkpoint covers */
	uint64_t dropped, dropped_unsigned;     /* records dropped up to here, as recorded */
	enum audit_fault fault;
	uint64_t fault_n;               /* the record it is about */
	bool about_before;              /* the fault is in the line before, which is in .chain */
	char finding[AUDIT_FINDING_MAX];
	/* kept for audit_verify_refine(): */
	unsigned char failed_hash[AUDIT_HASH];
	struct audit_record failed;
	enum { AUDIT_REFINE_NOT, AUDIT_REFINE_ORDER, AUDIT_REFINE_PREV, AUDIT_REFINE_OWNER } refine;
};

/* Checks the next line, without its newline.  -EBADMSG: see .fault, .fault_n and .finding.  Then no
 * more lines may follow; but if there is one, audit_verify_refine() can be more precise. */
int audit_verify_line(struct audit_verify *v, const char *line, size_t len);
void audit_verify_refine(struct audit_verify *v, const char *line, size_t len);
/* There are no more lines. */
int audit_verify_end(struct audit_verify *v);
#endif
