/* supervisor_saver.h - what the supervisor knows of its cloister-saver: supervisor_saver.c. */
#ifndef CLOISTER_SUPERVISOR_SAVER_H
#define CLOISTER_SUPERVISOR_SAVER_H
#include <stdbool.h>

#include "cell/cell_spec.h"
#include "loop/loop.h"

struct client;
struct err;
struct steer_call;
struct supervisor;

#define SAVER_LOOK_MS 10000             /* a quiet moment: so long it used no more than SAVER_QUIET_US of processors */
#define SAVER_QUIET_US 100000
#define SAVER_CAUSE_MAX 240
#define SAVER_UNKNOWN_LOOKS 6           /* if its use is not known, a commit after so many */

struct saving {
	bool has_cell;                  /* it knows the cell */
	bool gone;                      /* it has died */
	bool waits;                     /* a commit is under way, for REASON, */
	const char *reason;
	struct client *client;          /* which asked for it; NULL: nobody waits for it */
	bool freezes;                   /* the cell stands still for it alone */
	struct loop_source channel;     /* watched while it waits */
	struct loop_timer patience, every, quiet;
	uint64_t cpu_us;                /* that the cell had used at the last look for a quiet moment */
	bool busy;                      /* it has used more since the last commit */
	unsigned looks;                 /* since then */
	char heads[CELL_STATES_MAX][CELL_COMMIT_MAX + 1];       /* of each state that is written, the last commit */
	char goes_back[SAVER_CAUSE_MAX];        /* why the states go back at the end, or "" */
	char grant[80];                 /* the hash of the cell's grant, as its first record has it */
};

/* The cell has walls: tells the saver what it needs to go on alone. */
int supervisor_saver_begin(struct supervisor *sv, struct err *err);
/* Commits while the cell runs: once it is served, at its times; for a client; the client leaves; and none any more. */
void supervisor_saver_watch(struct supervisor *sv);
int supervisor_answer_checkpoint(struct client *client, struct steer_call *call);
void supervisor_saver_left(struct supervisor *sv, const struct client *client);
void supervisor_saver_stop(struct supervisor *sv);
/* A tripwire demands that the states go back, once the cell has ended and its changes are committed. */
void supervisor_saver_go_back(struct supervisor *sv, const char *cause);
/* The cell is dead: has its states committed for the last time, and records that.  If the saver is gone, keeps the changes
 * for the next one. */
void supervisor_saver_end(struct supervisor *sv);
#endif
