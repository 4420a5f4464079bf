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
	DRIVE_LEAVES,                   /* another machine has it: its cell here ends, and what is here of it is removed */
	DRIVE_AWAY,                     /* another machine has it, or will: what it records is copied here */
	DRIVE_OVER,                     /* to be dropped */
};

/* What was told of results that wait for their place. */
enum drive_wait { DRIVE_WAIT_UNTOLD, DRIVE_WAIT_TOLD, DRIVE_WAIT_EXPLAINED };

#define DRIVE_BUCKETS 4096              /* of a table by id */

/* A target whose cells are driven here. */
struct dispatcher_at {
	const struct target *target;
	struct target_place *place;     /* NULL: not opened yet */
};

struct drive;
struct drive_list {
	struct drive *first, **end;     /* the oldest first */
	size_t n;
};

/* One driven dispatch. */
struct drive {
	struct dispatcher *dispatcher;
	const struct dispatcher_at *at; /* where it runs; NULL: away */
	struct drive_list *list;        /* that it is in; NULL: none */
	struct drive *next, **back;     /* in that */
	struct drive *same;             /* the next with the same hash of its id */
	struct drive *next_told;        /* the next with news */
	enum drive_phase phase;
	int lock;
	struct dispatch d;              /* the row, as last read */
	struct dispatch_log log;
	struct child helper;            /* brings what it needs, or harvests large results */
	int said;                       /* by that process; 0: none */
	struct target_link *link;       /* to its cell; NULL: none */
	struct loop_timer timer;
	bool unsent;                    /* others have not got all that is recorded of it */
	bool runs;                      /* its cell was seen running, which its row does not say yet; of a claim */
	bool news;                      /* others have recorded something: it is among those told */
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
	uint64_t harvest_ms;            /* when its results were first to be kept: loop_now_ms(); 0: not yet */
	enum drive_wait told_wait;
	char left[CELL_ID_LEN + 1];     /* DRIVE_LEAVES: its cell here */
	uint64_t appears_until;         /* that may not have begun yet: loop_now_ms() */
	char trouble[DISPATCH_REASON_MAX];      /* why the cell did not start, or was not harvested */
};

struct dispatcher {
	struct loop *loop;
	struct registry *reg;
	struct dispatcher_options options;
	struct drive_list drives, away; /* with something to do here; DRIVE_AWAY */
	struct drive *told;             /* of those away: the ones with news */
	struct drive *by_id[DRIVE_BUCKETS];
	struct loop_round round;
	struct loop_timer tick;
	struct dispatcher_at at[TARGETS_MAX];
	struct loop_file turn;          /* the folder of dispatches: a place may be free */
	struct loop_timer prune;
	struct child pruning;
	struct loop_timer claim;        /* of a worker */
	char left[DISPATCH_ID_LEN + 1]; /* the dispatch that it last said it leaves to others */
	struct loop_timer send;         /* events to the database: those of some ms in one go */
	bool sends;                     /* that timer is set */
	uint64_t sent_ms;               /* when that was done last */
	struct loop_source news;        /* of the database */
	size_t looked_at;               /* of those that wait for a worker: where the next round begins */
	uint64_t renewed_ms;            /* when its claims were last renewed for certain: loop_now_ms() */
	struct dispatch_suspects suspects;
	int64_t ended_seq;              /* no dispatch up to this one has ended unseen */
	bool adopting, draining;
};

/* ---- dispatcher.c ---- */

/* The target NAME, opened; borrowed. */
int dispatcher_open_target(struct dispatcher *dispatcher, const char *name,
                           const struct dispatcher_at **ret_at, struct err *err);
/* Drives ID.  Takes ownership of LOCK. */
int dispatcher_add(struct dispatcher *dispatcher, const char *id, int lock, bool is_new, struct err *err);
/* Drives what was claimed, and begun, just now; SENT bytes of its events come from others.  Takes ownership of LOCK, and of *D
 * if it succeeds. */
int dispatcher_add_claimed(struct dispatcher *dispatcher, struct dispatch *d, uint64_t sent, int lock, struct err *err);
/* Looks after the drives soon, but not from within the caller. */
void dispatcher_soon(struct dispatcher *dispatcher);
void dispatcher_tell(struct drive *drive);

/* ---- dispatcher_list.c ---- */

void dispatcher_prepare_lists(struct dispatcher *dispatcher);
/* The drive of ID; NULL: it is not driven here. */
struct drive *dispatcher_find(struct dispatcher *dispatcher, const char *id);
/* Puts DRIVE where its phase belongs. */
void dispatcher_list(struct drive *drive);
void dispatcher_unlist(struct drive *drive);
/* Of one that is away. */
void dispatcher_note_news(struct drive *drive);
/* One with news; NULL: there is none. */
struct drive *dispatcher_take_told(struct dispatcher *dispatcher);

/* ---- dispatcher_pool.c ---- */

int dispatcher_begin_pools(struct dispatcher *dispatcher, struct err *err);
void dispatcher_end_pools(struct dispatcher *dispatcher);
/* Now and then. */
void dispatcher_look_after_pools(struct dispatcher *dispatcher);

/* ---- dispatcher_drive.c ---- */

void drive_init(struct dispatcher *dispatcher, struct drive *ret_drive, const char *id);
int drive_new(struct dispatcher *dispatcher, const char *id, int lock, struct drive **ret_drive,
              struct err *err);
/* The same for one whose row is *D, which it takes if it succeeds. */
int drive_new_claimed(struct dispatcher *dispatcher, struct dispatch *d, int lock, struct drive **ret_drive, struct err *err);
void drive_drop(struct drive *drive);
/* Retries soon, from the beginning. */
void drive_again(struct drive *drive, const struct err *err);
/* Reads its row. */
bool drive_was_cancelled(struct drive *drive);
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
/* DRIVE_AWAY: its row is *D, which it takes, and all that was recorded before has been copied. */
void drive_see(struct drive *drive, struct dispatch *d);
/* The events of claimed dispatches are sent soon. */
void dispatcher_send_soon(struct dispatcher *dispatcher);
/* Sends them now, and that DRIVE has come to its END, if it is not NULL.  -ESTALE: DRIVE is not this data folder's any more. */
int dispatcher_send(struct dispatcher *dispatcher, struct drive *drive, const struct dispatch_ending *end, struct err *err);
/* It had no worker when its row was last read. */
bool drive_waits_for_worker(const struct drive *drive);
/* Whether it is a pool's, and this machine runs it. */
bool drive_is_claimed(const struct drive *drive);
/* Lets go of its cell, which goes on. */
void drive_detach(struct drive *drive);

/* ---- dispatcher_leave.c ---- */

/* It is another machine's: kills its cell here, removes what is here of it, and leaves the rest to that one. */
void drive_lose(struct drive *drive);
/* DRIVE_LEAVES: looks whether its cell has ended. */
void drive_leave(struct drive *drive);
/* The same for those that a worker with this folder lost, which was killed. */
void dispatcher_leave_all(struct dispatcher *dispatcher);

/* ---- dispatcher_tail.c ---- */

/* Records what the cell has printed and done since. */
void drive_tail(struct drive *drive);
void drive_tail_close(struct drive *drive);
/* The last line of a stream, if any; else ret_line is untouched. */
void drive_last_line(struct drive *drive, enum dispatch_stream stream,
                     char ret_line[DISPATCH_REASON_MAX]);

/* ---- dispatcher_harvest.c ---- */

/* Its cell has ended: keeps what the agent left, now and again. */
void drive_harvest(struct drive *drive);
/* DRIVE_HARVESTS: its results still wait; WHY may be NULL. */
void drive_tell_wait(struct drive *drive, const char *why);

/* ---- dispatcher_end.c ---- */

/* Records the end of one that another machine has ended, if that is not done. */
int drive_note_far_end(struct drive *drive, struct err *err);
/* The attempt is over: RESULT has what was harvested. */
int drive_conclude(struct drive *drive, const json_t *result, struct err *err);
/* The attempt is over, and there is nothing to harvest.  RAN: the agent may have run, so there is
 * no other attempt unless the cell's record permits one. */
int drive_fail(struct drive *drive, const char *reason, bool ran, struct err *err);
/* The attempt is over, and what the agent left could not be kept, for the reason WHY: it stays with the cell. */
int drive_leave_results(struct drive *drive, const char *why, struct err *err);
/* The dispatch is over without an attempt. */
int drive_cancel(struct drive *drive, struct err *err);
/* The end is recorded, but not yet in the row. */
int drive_end_again(struct drive *drive, struct err *err);
#endif
