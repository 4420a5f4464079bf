/* dispatcher_parts.h - shared by the files that drive dispatches. */
#ifndef CLOISTER_DISPATCHER_PARTS_H
#define CLOISTER_DISPATCHER_PARTS_H
#include "dispatch/dispatch_parts.h"
#include "loop/child.h"
#include "loop/loop.h"

enum drive_phase {
	DRIVE_ENTERS,                   /* its state is determined from the beginning */
	DRIVE_WAITS,                    /* for a place, or for the time of the next attempt */
	DRIVE_BRINGS,                   /* a process brings the files that it needs */
	DRIVE_STARTS,                   /* the target starts its cell */
	DRIVE_RUNS,                     /* the target will report the end */
	DRIVE_SETTLES,                  /* its cell is at its end, or has only just begun */
	DRIVE_HARVESTS,                 /* a process harvests the results */
	DRIVE_AWAY,                     /* another machine has it, or will: what it records is copied here */
	DRIVE_OVER,                     /* to be dropped */
};

/* A target whose cells are driven here. */
struct dispatcher_at {
	const struct target *target;
	struct target_place *place;     /* NULL: not opened yet */
};

/* One driven dispatch. */
struct drive {
	struct dispatcher *dispatcher;
	const struct dispatcher_at *at; /* where it runs; NULL: away */
	struct drive *next;
	enum drive_phase phase;
	int lock;
	struct dispatch d;              /* the row, as last read */
	struct dispatch_log log;
	struct child helper;            /* brings what it needs, or harvests large results */
	int said;                       /* by the first; 0: none */
	struct target_link *link;       /* to its cell; NULL: none */
	struct loop_timer timer;
	bool unsent;                    /* others have not got all that is recorded of it */
	bool kept;                      /* it is still this data folder's, by the last look */
	uint64_t sent;                  /* bytes of its events that others have */
	bool appeared;                  /* its cell is there, and cell.boot is recorded */
	int streams[TARGET_STREAMS];    /* 0: not open */
	uint64_t steps_read;            /* lines */
	bool is_new;                    /* it was begun with its row, and its cell was not started yet */
	bool began;                     /* this process has started its cell, or could not */
	/* By hash, the time since which the cell's capabilities must be unchanged; NULL: only
	 * another process knew. */
	json_t *given;
	unsigned failures, looks;       /* consecutive */
	char trouble[DISPATCH_REASON_MAX];      /* why the cell did not start, or was not harvested */
};

struct dispatcher {
	struct loop *loop;
	struct registry *reg;
	struct dispatcher_options options;
	struct drive *drives;           /* the oldest first */
	struct loop_round round;
	struct loop_timer tick;
	struct dispatcher_at at[TARGETS_MAX];
	struct loop_file turn;          /* the folder of dispatches: a place may be free */
	struct loop_timer prune;
	struct child pruning;
	struct loop_timer claim;        /* of a worker */
	struct loop_timer send;         /* events to the database: those of some ms in one go */
	bool sends;                     /* that timer is set */
	struct loop_source news;        /* of the database */
	size_t looked_at;               /* of those that wait for a worker: where the next round begins */
	uint64_t renewed_ns;            /* when its claims were last renewed for certain */
	bool adopting, draining;
};

/* ---- dispatcher.c ---- */

/* The target NAME, opened; borrowed. */
int dispatcher_open_target(struct dispatcher *dispatcher, const char *name,
                           const struct dispatcher_at **ret_at, struct err *err);
/* The drive of ID; NULL: it is not driven here. */
struct drive *dispatcher_find(struct dispatcher *dispatcher, const char *id);
/* Drives ID.  Takes ownership of LOCK. */
int dispatcher_add(struct dispatcher *dispatcher, const char *id, int lock, bool is_new, struct err *err);
/* Looks after the drives soon, but not from within the caller. */
void dispatcher_soon(struct dispatcher *dispatcher);
void dispatcher_tell(struct drive *drive);

/* ---- dispatcher_pool.c ---- */

int dispatcher_begin_pools(struct dispatcher *dispatcher, struct err *err);
void dispatcher_end_pools(struct dispatcher *dispatcher);
/* Now and then. */
void dispatcher_look_after_pools(struct dispatcher *dispatcher);

/* ---- dispatcher_drive.c ---- */

int drive_new(struct dispatcher *dispatcher, const char *id, int lock, struct drive **ret_drive,
              struct err *err);
void drive_drop(struct drive *drive);
/* DRIVE_ENTERS: continues from its current state. */
void drive_enter(struct drive *drive);
/* DRIVE_ENTERS, for one that was just submitted here: at once, before anything else. */
void drive_begin(struct drive *drive);
/* DRIVE_WAITS: begins if there is a place; false if there is none, so that those behind it need not ask. */
bool drive_try(struct drive *drive);
/* Its attempt has begun: starts the cell. */
void drive_launch(struct drive *drive);
/* Reads whether it was cancelled, and if so stops its cell. */
void drive_heed_cancel(struct drive *drive);
/* DRIVE_AWAY: copies what was recorded of it, and sees whether it is over, or this machine's now. */
void drive_mirror(struct drive *drive);
/* The events of claimed dispatches are sent soon. */
void dispatcher_send_soon(struct dispatcher *dispatcher);
/* It had no worker when its row was last read. */
bool drive_waits_for_worker(const struct drive *drive);
/* Whether it is a pool's, and this machine runs it. */
bool drive_is_claimed(const struct drive *drive);
/* Sends what was recorded of it since, so that all machines have it; of one that is claimed. */
int drive_upload(struct drive *drive, struct err *err);
/* It is another machine's: kills its cell here, and leaves the rest to that one. */
void drive_lose(struct drive *drive);
/* Lets go of its cell, which goes on. */
void drive_detach(struct drive *drive);

/* ---- dispatcher_tail.c ---- */

/* Records what the cell has printed and done since. */
void drive_tail(struct drive *drive);
void drive_tail_close(struct drive *drive);
/* The last line of a stream, if any; else ret_line is untouched. */
void drive_last_line(struct drive *drive, enum dispatch_stream stream,
                     char ret_line[DISPATCH_REASON_MAX]);

/* ---- dispatcher_end.c ---- */

/* The attempt is over: RESULT has what was harvested. */
int drive_conclude(struct drive *drive, const json_t *result, struct err *err);
/* The attempt is over, and there is nothing to harvest.  RAN: the agent may have run, so there is
 * no other attempt unless the cell's record permits one. */
int drive_fail(struct drive *drive, const char *reason, bool ran, struct err *err);
/* The dispatch is over without an attempt. */
int drive_cancel(struct drive *drive, struct err *err);
/* The end is recorded, but not yet in the row. */
int drive_end_again(struct drive *drive, struct err *err);
#endif
