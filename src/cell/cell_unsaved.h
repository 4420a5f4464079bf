/* cell_unsaved.h - changes of a cell to a state that were collected, and are not committed yet.
 *
 * In the cell's state entry, the folder "unsaved.N" has them, and the file "unsaved.N.to" says where they belong; the folder
 * appears last.  While there is one, the entry stays.  cloister-saver commits them when the state is opened next. */
#ifndef CLOISTER_CELL_UNSAVED_H
#define CLOISTER_CELL_UNSAVED_H
#include <stdbool.h>
#include <stdint.h>

#include "cell/cell_spec.h"

struct err;

#define CELL_UNSAVED_TEXT 80            /* bytes of each text */

struct cell_unsaved {
	char state[CELL_UNSAVED_TEXT], branch[CELL_UNSAVED_TEXT];
	char base[CELL_COMMIT_MAX + 1]; /* the changes are over this commit; */
	char head[CELL_COMMIT_MAX + 1]; /* and the branch was here */
	char guards[CELL_GUARDS_MAX + 1];
	bool goes_back;                 /* a tripwire demands that the state goes back once they are committed */
};

/* The folder FROM of DIR has them. */
int cell_unsaved_put(int dir, const char *from, uint32_t number, const struct cell_unsaved *u, struct err *err);
/* Opens them: a descriptor; -ENOENT if there are none. */
int cell_unsaved_get(int dir, uint32_t number, struct cell_unsaved *ret, struct err *err);
int cell_unsaved_remove(int dir, uint32_t number, struct err *err);
/* Whether there are any. */
bool cell_has_unsaved(int dir);
#endif
