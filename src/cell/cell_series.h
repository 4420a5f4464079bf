/* cell_series.h - cells that are started again and again: `run --restart`.
 *
 * A series has a file in the runtime folder, `restart-ID`, where ID is the id of its first cell.  Its keeper,
 * which starts the cells, makes the file and holds a lock on it.  Each cell of the series writes its id and name
 * into the file as soon as other processes can find the cell.  If the file is gone by then, the cell does not
 * start.
 *
 * So whoever removes the file ends the series, at any moment: it kills the cells that it finds afterwards, and
 * any cell that it does not find yet does not start.  The cell's supervisor removes the file too, if the cell is ended by
 * anything but itself.
 *
 * A series that is held starts no cell until it is let go: `freeze` and `thaw` do so. */
#ifndef CLOISTER_CELL_SERIES_H
#define CLOISTER_CELL_SERIES_H
#include <stdbool.h>
#include <stddef.h>

#include "cell/cell_spec.h"

struct buf;
struct err;

#define CELL_SERIES_MAX 256             /* of one user */

/* Makes and locks the file of the series ID.  The caller owns *ret_fd, with the lock. */
int cell_series_make(int runtime, const char *id, int *ret_fd, struct err *err);
/* How a series is started again elsewhere, in the file of a detached one: what --restart says ("always:5"), the folder, and
 * the words behind `cloister run`. */
#define CELL_SERIES_WORDS_MAX (1u << 20)
int cell_series_describe(int fd, const char *restart, const char *folder, char *const *words, size_t n, struct err *err);
/* The same: strings one after the other, RET_B's.  -ENOENT: it has none. */
int cell_series_described(int runtime, const char *id, struct buf *ret_b, struct err *err);
/* By the cell that SPEC describes: -ECANCELED if its series was ended, or is held.  A cell without a series may go on. */
int cell_series_enter(int runtime, const struct cell_spec *spec, struct err *err);
/* Ends the series ID; "" is none. */
void cell_series_end(int runtime, const char *id);
/* Ends the series that WORD means: the id of the first cell or of the last one, CELL_PREFIX_MIN letters or more of
 * these, or the name; NULL: all.  Returns how many there were. */
size_t cell_series_end_each(int runtime, const char *word);
/* Holds the series ID, or lets it go; "" is none.  Whoever freezes cells holds their series before it looks for cells. */
void cell_series_hold(int runtime, const char *id, bool holds);
/* The same for those that WORD means, as above. */
size_t cell_series_hold_each(int runtime, const char *word, bool holds);
/* FD is cell_series_make()'s. */
bool cell_series_is_held(int fd);

struct cell_series {
	char id[CELL_ID_LEN + 1];
	char last[CELL_ID_LEN + 1];     /* the last cell's id; "" before the first */
	char name[CELL_NAME_MAX + 1];
};
/* Lists those that have a keeper, in no order, and removes the files of the others.  RET_LIST has room for
 * CELL_SERIES_MAX.  Returns how many there are. */
size_t cell_series_list(int runtime, struct cell_series *ret_list);
#endif
