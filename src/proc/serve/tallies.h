/* tallies.h - keeps sums of cells' timelines, so that each record is read once.
 *
 * Shared by threads: a thread that uses a tally locks them all.  No descriptor stays open. */
#ifndef CLOISTER_TALLIES_H
#define CLOISTER_TALLIES_H
#include <stdbool.h>
#include <stdint.h>

#include "audit/tally.h"
#include "cell/cell_spec.h"

struct cell_entry;
struct err;
struct tallies;                         /* opaque */

#define TALLIES_MAX 8192                /* beyond them, the least recently used go */
#define TALLIES_READ_MAX (16u << 20)    /* bytes of a timeline at a time */

struct tally {
	char id[CELL_ID_LEN + 1];
	struct audit_tally sum;
	uint64_t approvals;             /* records about approvals so far */
	unsigned was;                   /* what the last call read (enum audit_tally_was) */
	bool behind;                    /* there was more to read */
	/* private: */
	uint32_t file;                  /* the number that the current file has or will have */
	uint64_t at;                    /* offset in it */
	uint64_t inode, size;           /* of the newest, at the last check */
	uint64_t folder;                /* the entry's inode: an id can be used again */
	uint64_t used;
};

int tallies_new(struct tallies **ret_tallies, struct err *err);
void tallies_free(struct tallies *t);   /* NULL is fine */
/* The tally of the cell ID, whose state entry is ENTRY in the folder STATE, up to date.  NULL: out
 * of memory.  Locked until tallies_done() in any case. */
struct tally *tallies_get(struct tallies *t, int state, const char *entry, const char *id);
void tallies_done(struct tallies *t);
/* The same, once all of the timeline is read, however long that takes; others get their turn meanwhile. */
struct tally *tallies_get_whole(struct tallies *t, int state, const char *entry, const char *id);

struct tallies_cell {
	const struct cell_entry *entry;
	const struct audit_tally *sum;  /* of all of its timeline */
	uint64_t last_s;                /* when that was written to */
	bool is_live;
};
/* Call EACH for the cells in the folder STATE (negative: none) that run, or whose timelines were written to since then.  Others
 * are not opened. */
void tallies_each_since(struct tallies *t, int state, uint64_t since_s,
                        void (*each)(void *arg, const struct tallies_cell *cell), void *arg);
#endif
