/* tallies.h - what the timelines of cells come to, kept, so that each record is read once.
 *
 * Shared by threads: who has a tally in hand has them all locked.  No descriptor stays open. */
#ifndef CLOISTER_TALLIES_H
#define CLOISTER_TALLIES_H
#include <stdbool.h>
#include <stdint.h>

#include "audit/tally.h"
#include "cell/cell_spec.h"

struct err;
struct tallies;                         /* opaque */

#define TALLIES_MAX 8192                /* then those that were asked for least lately go */
#define TALLIES_READ_MAX (16u << 20)    /* bytes of a timeline at a time */

struct tally {
	char id[CELL_ID_LEN + 1];
	struct audit_tally sum;
	uint64_t approvals;             /* records that tell of asking, so far */
	unsigned was;                   /* of what was read by the last call (enum audit_tally_was) */
	bool behind;                    /* there was more to read */
	/* private: */
	uint32_t file;                  /* which one is being read: the number that it has or will have */
	uint64_t at;                    /* how far */
	uint64_t inode, size;           /* of the newest, when it was looked at */
	uint64_t folder;                /* the entry's inode: an id can be used again */
	uint64_t used;
};

int tallies_new(struct tallies **ret_tallies, struct err *err);
void tallies_free(struct tallies *t);   /* NULL is fine */
/* The tally of the cell ID, whose state entry is ENTRY in the folder STATE, up to date.  NULL: there
 * is no memory.  Locked until tallies_done() in any case. */
struct tally *tallies_get(struct tallies *t, int state, const char *entry, const char *id);
void tallies_done(struct tallies *t);
#endif
