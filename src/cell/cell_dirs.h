/* cell_dirs.h - where cells leave their traces, and how they are found again.
 *
 * The runtime folder has one entry per running cell, `ID.SLOT.NAME/`, with its
 * control socket and the list of its cgroups.  A running cell holds a lock on
 * byte SLOT of the file `slots`, so that the kernel tells the living from the
 * dead, and no two running cells of root share a range of user ids.  It also holds a lock on the
 * entry itself, by which the kernel names its supervisor's pid.
 *
 * The state folder has one entry per cell that keeps something, `ID.NAME/`: the
 * changes of an overlay workspace, the log of a detached cell, its timeline, and, once the
 * cell has ended, its record.  The supervisor holds a lock on the entry.
 *
 * Whoever makes the entry of an id that was chosen (`run --id`) has it, and no cell of that id
 * starts again while the entry is there. */
#ifndef CLOISTER_CELL_DIRS_H
#define CLOISTER_CELL_DIRS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/cell_spec.h"

struct err;

#define CELL_SLOTS 4094
#define CELL_SLOTS_FILE "slots"
#define CELL_ENTRY_MAX 96               /* a folder entry's name */
#define CELL_CONTROL "control"          /* the socket in a runtime entry */
#define CELL_KILLED "killed"            /* likewise: who killed the cell without its supervisor */
#define CELL_LOG "log"                  /* in a state entry; the older half is log.1 */
#define CELL_STDOUT "stdout"            /* in place of a log, with --streams; none if empty */
#define CELL_STDERR "stderr"
#define CELL_STREAM_MAX (64u << 20)     /* of each; the rest is not kept */
#define CELL_STEPS "steps.jsonl"        /* with --id or --streams: what happened, for a dispatch */
#define CELL_LOST "lost"                /* an empty file: the supervisor was killed, and that is told */
#define CELL_POLICY "policy"            /* in a state entry, beside events: see policy_put() */
#define CELL_CHANGES "changes"          /* in a state entry: one folder per workspace */
#define CELL_EVENTS "events.jsonl"      /* in a state entry: the timeline, see audit/log.h */

/* The folders, made if they are missing (state: only with MAKE; else -ENOENT).
 * Refused if somebody else could write there. */
int cell_runtime_open(struct err *err);         /* a descriptor, or negative */
int cell_state_open(bool make, struct err *err);

struct cell_entry {
	char dir[CELL_ENTRY_MAX];       /* the entry's name in its folder */
	char id[CELL_ID_LEN + 1];
	char name[CELL_NAME_MAX + 1];   /* "" if none */
	unsigned slot;                  /* runtime entries only */
};

/* A place among the running: its lock and its entry. */
struct cell_place {
	int runtime, lock, dir;         /* descriptors: folder, locked file, entry */
	struct cell_entry entry;
};
int cell_place_take(const struct cell_spec *spec, struct cell_place *ret_place,
                    struct err *err);
/* Let the lock go; CLEARED: remove the entry. */
void cell_place_leave(struct cell_place *place, bool cleared);
/* Every place at once: a descriptor, and while it is open no cell starts.  -EBUSY if one runs. */
int cell_place_take_all(struct err *err);
/* Remove what supervisors that were killed left in both folders.  LOST is told of the timeline
 * of one of them, in its state entry DIR; if it fails, the entry stays, for a later one. */
struct cell_clearer {
	int (*clear_cgroups)(void *arg, const char *id, const char *paths);
	int (*lost)(void *arg, int dir, const char *id);
	void *arg;
};
void cell_clear_stale(const struct cell_place *place, const struct cell_clearer *clearer);

/* Every entry of a folder, in no order; the caller frees *ret_entries. */
int cell_list(int folder, bool runtime, struct cell_entry **ret_entries,
              size_t *ret_n, struct err *err);
#define CELL_PREFIX_MIN 4
/* The one entry that WORD means: an id, a name, or CELL_PREFIX_MIN letters or more of an id.
 * -ENOENT if none, -ENOTUNIQ if several. */
int cell_find(int folder, bool runtime, const char *word, struct cell_entry *ret_entry,
              struct err *err);

/* Whether the cell of a runtime entry lives: its slot is locked.  A closed socket proves nothing. */
bool cell_is_alive(int runtime, const struct cell_entry *entry);
/* The pid of its supervisor, as the kernel names the holder of the entry's lock; 0 if it has none,
 * or none that this pid namespace can see. */
pid_t cell_supervisor(int runtime, const struct cell_entry *entry);
/* -EAGAIN, and the sentence: it lives, and does not answer. */
int cell_is_silent(const struct cell_entry *entry, struct err *err);

/* How long a supervisor may take to answer before it counts as silent. */
#define CELL_ANSWER_MS 1000
/* A connection to the supervisor of a running cell, see ipc/control_channel.h; -ENOENT if it has
 * just ended, -EAGAIN if it is silent. */
int cell_connect(int runtime, const struct cell_entry *entry, struct err *err);
/* The same, tried once: this does not block. */
int cell_connect_now(int runtime, const struct cell_entry *entry, struct err *err);
/* To how many cells this process can be connected at once; it may have as many descriptors as the
 * operator's hard limit says from then on. */
size_t cell_connect_max(void);

/* Whether the state entry stays until it is discarded.  The folder itself is marked, with a mode that
 * means nothing else there: a file in it would be one inode more for each dispatch. */
#define CELL_KEPT S_ISVTX
bool cell_state_is_kept(int dir);

/* A state entry for the cell, locked; the caller closes the descriptor.  -EEXIST: the id is
 * somebody else's. */
int cell_state_make(const struct cell_spec *spec, int *ret_dir, struct err *err);
/* Take a chosen id, so that no cell of that id can start from here on: until it is discarded
 * there is an entry with nothing in it that is kept.  -EEXIST: a cell was first. */
int cell_state_bury(const char *id, struct err *err);
/* Whether a supervisor still holds the state entry open. */
bool cell_state_is_live(int dir);
/* Remove a state entry with all that is in it, but for the timeline, which goes to the ended. */
int cell_state_remove(int state, const char *entry, struct err *err);

/* Cells of which there is nothing but a timeline, perhaps with the policy, have their entries in
 * this folder of the state folder: -ENOENT if there is none. */
#define CELL_ENDED "ended"
int cell_ended_open(int state);
/* The entry goes there; unless it IS_BARE, what else is in it is removed. */
int cell_state_retire(int state, const char *entry, bool is_bare, struct err *err);
/* Remove the oldest, when there are so many more than are to be kept that it is worth it, and
 * those that are too old.  PRUNES is told first, and can forbid it with a negative value; TURN is
 * any number that differs from cell to cell. */
#define CELL_TIMELINES_MAX 1000
#define CELL_TIMELINES_SLACK 100
#define CELL_TIMELINES_DAYS 90
#define CELL_TIMELINES_LOOK 1024        /* one of so many cells looks for what is too old */
void cell_ended_prune(unsigned turn, int (*prunes)(void *arg, const char *id), void *arg);

/* A grant in OWN, a folder of cloister's, would be one of its cells' making; what the registry
 * and dispatches have there for cells is not, as long as it cannot be changed.  Nor is it shown as
 * part of another root file system.  NULL: no folder. */
int cell_grants_check(const struct cell_spec *spec, const char *own, struct err *err);
/* By the links of PATH cloister finds a folder of its own: no cell may write them. */
int cell_grants_check_way(const struct cell_spec *spec, const char *path, struct err *err);

enum cell_end {
	CELL_END_EXITED,                /* the agent did, or was killed in the cell */
	CELL_END_NOT_STARTED,           /* the agent never ran */
	CELL_END_SETUP,                 /* likewise, because a setup failed */
	CELL_END_OPERATOR, CELL_END_TIME, CELL_END_TTL,
	CELL_END_RULES,                 /* its init broke the rules */
	CELL_END_ALARM,                 /* an exfiltration */
	CELL_END_KILLED,                /* all of it died at once: out of memory, say */
	CELL_END_BUDGET,                /* one was reached, of which the policy says so */
};
enum cell_cut { CELL_CUT_STDOUT = 1, CELL_CUT_STDERR = 2 };
/* Of what a cell was granted, what was taken back while it ran. */
enum cell_taken {
	CELL_TAKEN_POLICY = 1,          /* an operator changed it, other than by `allow` */
	CELL_TAKEN_CONSEQUENCE = 2,     /* what the cell did narrowed its policy, or has people asked */
	CELL_TAKEN_SECRET = 4,          /* one was revoked, by whomever */
	CELL_TAKEN_TTL = 8,             /* an operator gave it one */
	/* Not for good, and in no record: */
	CELL_TAKEN_FROZEN = 16, CELL_TAKEN_ENDING = 32,
};

/* How a cell ended. */
struct cell_record {
	struct cell_spec spec;
	uint64_t started_ns, ended_ns;  /* realtime clock */
	uint32_t status;                /* exit status as `run` gives it */
	char cause[256];                /* "" or the limit that struck */
	uint32_t n_changes;             /* how many folders under changes/ */
	char incomplete[256];           /* "" or why not all changes could be kept */
	enum cell_end end;
	uint32_t cut;                   /* enum cell_cut bits: what of the streams is not complete */
	uint32_t taken;                 /* enum cell_taken bits */
	/* Of each grant that is an overlay: how many FIFOs, sockets, devices and files too large for the
	 * disk were not brought to changes/. */
	uint32_t left_out[CELL_GRANTS_MAX];
};
int cell_record_write(int state_dir, const struct cell_record *record, struct err *err);
int cell_record_read(int state_dir, struct cell_record *ret_record, struct err *err);
void cell_record_free(struct cell_record *record);      /* for OWN() too */
#endif
