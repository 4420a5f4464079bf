/* verify.h - tells whether a timeline is as it was written, and if not, what was done to it.
 *
 * Pure: it is given one line after the other.  What no hash and no signature can tell (that the
 * newest records were taken away) is told by an anchor: a number and a hash that somebody else
 * keeps, for a cell the operator's timeline. */
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
	AUDIT_UNREADABLE,               /* what is in its file's place is none, or cannot be read */
	AUDIT_UNTIED,                   /* whose it is cannot be told: the operator's timeline would */
};
const char *audit_fault_name(enum audit_fault fault);

struct audit_anchor {
	bool is_there, is_end;          /* IS_END: nothing comes behind it */
	uint64_t n;
	unsigned char head[AUDIT_HASH]; /* of record N */
};

#define AUDIT_FINDING_MAX 320
struct audit_verify {
	/* given: */
	char timeline[AUDIT_TIMELINE_MAX];      /* "": that of the first record */
	unsigned char key[AUDIT_KEY];
	bool has_key;                   /* else that of the first checkpoint, which proves less */
	struct audit_anchor anchor;
	/* Asked where there is no key, once what signs it is known, or (NULL) at the end if nothing
	 * does: may set .key, .has_key and .anchor, by .timeline.  May be NULL. */
	void (*pick)(struct audit_verify *v, const unsigned char *key);
	const void *arg;                /* for PICK */
	/* found: */
	struct audit_chain chain;
	uint64_t first;                 /* the first record's number; 0 before it */
	unsigned char first_hash[AUDIT_HASH];
	uint64_t checkpoints;
	uint64_t signed_n;              /* the last record that a checkpoint vouches for */
	uint64_t dropped, dropped_unsigned;     /* through there, as it is said */
	enum audit_fault fault;
	uint64_t fault_n;               /* the record it is about */
	bool about_before;              /* it is in the line before, which is in .chain */
	char finding[AUDIT_FINDING_MAX];
	/* kept for audit_verify_refine(): */
	unsigned char failed_hash[AUDIT_HASH];
	struct audit_record failed;
	enum { AUDIT_REFINE_NOT, AUDIT_REFINE_ORDER, AUDIT_REFINE_PREV, AUDIT_REFINE_OWNER } refine;
};

/* The next line, without its newline.  -EBADMSG: .fault, .fault_n and .finding tell; no more
 * lines may follow, but if there is one, audit_verify_refine() can tell better. */
int audit_verify_line(struct audit_verify *v, const char *line, size_t len);
void audit_verify_refine(struct audit_verify *v, const char *line, size_t len);
/* There are no more lines. */
int audit_verify_end(struct audit_verify *v);
#endif
