/* cells.h - collects the operator's records of cells: their keys, and where their timelines end.
 * Pure but for memory. */
#ifndef CLOISTER_AUDIT_CELLS_H
#define CLOISTER_AUDIT_CELLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/chain.h"
#include "audit/key.h"
#include "audit/record.h"
#include "audit/verify.h"

#define AUDIT_CELLS_MAX (1u << 20)
#define AUDIT_ID_MAX 24
#define AUDIT_GRANT_MAX 80

enum audit_cell_end { AUDIT_CELL_OPEN, AUDIT_CELL_ENDED, AUDIT_CELL_LOST };

struct audit_cell {
	char id[AUDIT_ID_MAX + 1];
	char grant[AUDIT_GRANT_MAX], started[AUDIT_TIME_LEN + 1], ended[AUDIT_TIME_LEN + 1];
	uint64_t started_n;             /* the operator's record of it */
	unsigned char key[AUDIT_KEY];
	enum audit_cell_end end;
	bool has_chain;                 /* the end of its timeline is known: */
	unsigned char head[AUDIT_HASH], root[AUDIT_HASH];
	uint64_t size;
	uint64_t status;
	bool pruned;                    /* its timeline was removed, and that is recorded */
	uint32_t before;                /* an earlier cell of that id: its number plus one, or 0 */
};

struct audit_cells {
	struct audit_cell *at;          /* in order of their start */
	size_t n, cap;
	uint32_t *places;               /* by id: an index into at[], plus one */
	size_t n_places;
};
void audit_cells_free(struct audit_cells *cells);       /* for OWN() too */
/* Takes what a record of the operator's states about a cell, if anything.  -ENOMEM, -E2BIG. */
int audit_cells_note(struct audit_cells *cells, const struct audit_record *record);
/* The last cell that was started with this id. */
struct audit_cell *audit_cells_find(const struct audit_cells *cells, const char *id);
/* The cell of this id with this key; without one, or with NULL, the last that was started. */
const struct audit_cell *audit_cells_pick(const struct audit_cells *cells, const char *id,
                                          const unsigned char *key);
/* The end that its timeline must have. */
void audit_cell_anchor(const struct audit_cell *cell, struct audit_anchor *ret_anchor);
#endif
