/* saver.h - cloister-saver: has the states of one cell, and commits what the cell makes of them.
 *
 * It has the operator's rights over states, and outlives the cell's supervisor: if that dies, it commits what there is.  It
 * reads nothing that the agent wrote: cloister-collect copies it, and cloister-state reads it. */
#ifndef CLOISTER_SAVER_H
#define CLOISTER_SAVER_H
#include <stdbool.h>

#include "boundary/overlay/overlay_collect.h"
#include "cell/cell_spec.h"
#include "ipc/ipc.h"
#include "ipc/saver_channel.h"
#include "state/state.h"

/* One state of the cell. */
struct saved {
	struct state state;
	char branch[STATE_NAME_MAX];
	char base[STATE_ID + 1];        /* the commit whose files the cell has below */
	char head[STATE_ID + 1];        /* where its branch is now */
	char *guards;
	int lock;                       /* -1: it is read-only */
	int upper;                      /* -1: the cell has no walls yet */
};

struct saver {
	struct saved states[CELL_STATES_MAX];
	size_t n;
	char *cell, *name, *who, *behalf, *dispatch, *grant;
	struct overlay_collector collector;
	int entry;                      /* the cell's state folder; -1: it has no walls yet */
	int died;                       /* readable when the cell is dead, or -1 */
	uid_t owner;                    /* of what is collected */
	char *goes_back;                /* why the states go back at the end; NULL: they do not */
	bool ended;
};

/* saver_open.c: the answer to SAVER_OPEN. */
int saver_open(struct saver *s, struct ipc_message *m, struct buf *ret_answer, struct err *err);
/* saver_cell.c: the cell has walls. */
int saver_take_cell(struct saver *s, struct ipc_message *m);
int saver_take_upper(struct saver *s, struct ipc_message *m);
/* Makes the folder NAME in the cell's state folder, for the collector.  A descriptor. */
int saver_make_folder(const struct saver *s, const char *name, struct err *err);

/* saver_own.c: before they are committed.  CHANGES is a folder of a finished collector. */
int saver_own(int changes, struct err *err);

/* saver_show.c: lets cloister-state read the upper folder of a dead cell.  If not, its files are collected. */
bool saver_show(int upper);

/* saver_commit.c: commits all states, and appends the result to ANSWER, as SAVER_COMMITTED has it. */
struct saver_why {
	const char *reason, *timeline_head;
	uint64_t timeline_n;
	bool live;                      /* the cell may run */
	bool last;                      /* it does not any more: states go back if they are to */
};
void saver_commit_all(struct saver *s, const struct saver_why *why, struct buf *answer);
/* Gives up the locks. */
void saver_let_go(struct saver *s);

/* saver_recover.c: commits changes of cells that ended without their saver.  Call it with the lock of STATE's main branch. */
int saver_recover(struct state *state, struct err *err);
#endif
