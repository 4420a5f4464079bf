/* cell_dirs.h - manages the runtime and state folders of cells, and finds cells in them.
 *
 * The runtime folder has one entry per running cell, `ID.SLOT.NAME/`, with its control socket and
 * what its boundary needs to end it.  A running cell holds a lock on byte SLOT of the file `slots`.  So the
 * kernel distinguishes living cells from dead ones, and no two running cells of root share a range
 * of user ids.  The cell also holds a lock on the entry itself, from which the kernel reports its
 * supervisor's pid.
 *
 * The state folder has one entry per cell that keeps something, `ID.NAME/`: the changes of an
 * overlay workspace, the log of a detached cell, its timeline, and, once the cell has ended, its
 * record.  The supervisor holds a lock on the entry.  For a chosen id (`run --id`), the process
 * that creates the entry owns the id.  While the entry exists, no other cell with that id starts. */
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
#define CELL_FAR "far"                  /* in place of a slot: another machine has the cell, and the service of this one
                                         * answers at the entry's socket for it (cell_far.h) */
#define CELL_MACHINE "machine"          /* in such an entry: the machine's name */
#define CELL_MACHINE_MAX 64
#define CELL_DISPATCH "dispatch"        /* in such an entry, and in the state entry of such a cell: its dispatch's id */
#define CELL_BOUNDARY "boundary"        /* in a runtime entry: the kind of its walls, unless it is
                                         * the default */
#define CELL_WALLS "cgroups"            /* in a runtime entry: what the boundary needs to kill and
                                         * clear the cell without its supervisor */
#define CELL_ENGINE "engine"            /* in a runtime entry: the socket of the engine that has its
                                         * container */
#define CELL_PORT "port"                /* in a runtime entry: the socket where init in a container
                                         * finds the supervisor, until it has */
#define CELL_KILLED "killed"            /* in a runtime entry: who killed the cell without its
                                         * supervisor */
#define CELL_LOG "log"                  /* in a state entry; the older half is log.1 */
#define CELL_STDOUT "stdout"            /* instead of a log, with --streams; absent if empty */
#define CELL_STDERR "stderr"
#define CELL_TIMES "times"              /* when output was written: lines "STREAM OFFSET MS", at most
                                         * CELL_TIMES_MAX.  STREAM: l, o, e for log, stdout, stderr, and r if the
                                         * log was rotated there.  OFFSET counts from its beginning.  MS: since 1970 */
#define CELL_TIMES_MAX 65536
#define CELL_TIMES_STEP_MS 100          /* one line for all output in that time */
#define CELL_STREAM_MAX (64u << 20)     /* bytes of each; the rest is dropped */
#define CELL_STEPS "steps.jsonl"        /* with --id or --streams: the steps of a dispatch */
#define CELL_LOST "lost"                /* an empty file: the supervisor was killed, and the timeline
                                         * has a record of it */
#define CELL_POLICY "policy"            /* in a state entry, beside events: see policy_put() */
#define CELL_CHANGES "changes"          /* in a state entry: one folder per workspace */
#define CELL_BASE "base"                /* in a state entry, the same: files as the cell found them */
#define CELL_EVENTS "events.jsonl"      /* in a state entry: the timeline, see audit/log.h */

/* Open the folders, creating them if they are missing (state: only with MAKE; else -ENOENT).
 * Refused if somebody else can write there. */
int cell_runtime_open(struct err *err);         /* a descriptor, or negative */
int cell_state_open(bool make, struct err *err);

struct cell_entry {
	char dir[CELL_ENTRY_MAX];       /* the entry's name in its folder */
	char id[CELL_ID_LEN + 1];
	char name[CELL_NAME_MAX + 1];   /* "" if it has none */
	unsigned slot;                  /* runtime entries only */
	bool far;                       /* runtime entries only: CELL_FAR, and no slot */
};

/* A running cell's slot and entry, with their locks. */
struct cell_place {
	int runtime, lock, dir;         /* descriptors: folder, locked file, entry */
	struct cell_entry entry;
};
/* Makes the entry of a cell in a slot that was taken, and has no entry. */
int cell_place_enter(const struct cell_spec *spec, struct cell_place *place, struct err *err);
/* Removes the entry, and keeps the slot. */
void cell_place_vacate(struct cell_place *place);
/* Takes a slot, and makes the entry. */
int cell_place_take(const struct cell_spec *spec, struct cell_place *ret_place,
                    struct err *err);
/* Release the lock; CLEARED: remove the entry. */
void cell_place_leave(struct cell_place *place, bool cleared);
/* Take all slots: while the returned descriptor is open, no cell starts.  -EBUSY if one runs. */
int cell_place_take_all(struct err *err);
/* Remove what killed supervisors left in both folders.  CLEAR_WALLS is called for each runtime entry
 * DIR.  LOST is called for the timeline of each, in its state entry DIR.  If one fails, the entry
 * stays for a later attempt. */
struct cell_clearer {
	int (*clear_walls)(void *arg, int dir, const char *id);
	int (*lost)(void *arg, int dir, const char *id);
	void *arg;
};
void cell_clear_stale(const struct cell_place *place, const struct cell_clearer *clearer);

/* List the entries of a folder, in no order; the caller frees *ret_entries. */
int cell_list(int folder, bool runtime, struct cell_entry **ret_entries,
              size_t *ret_n, struct err *err);
#define CELL_PREFIX_MIN 4
/* Find the one entry that WORD means: an id, a name, or CELL_PREFIX_MIN letters or more of an id, or of the id of its
 * dispatch.  -ENOENT if none, -ENOTUNIQ if several. */
int cell_find(int folder, bool runtime, const char *word, struct cell_entry *ret_entry,
              struct err *err);
/* Find among ENTRIES the cells of this machine's dispatches whose ids begin with WORD; how many there are, the last in
 * *ret_entry. */
size_t cell_find_asked(const char *word, const struct cell_entry *entries, size_t n, const struct cell_entry **ret_entry);

/* Whether the cell of a runtime entry lives: its slot is locked.  A closed socket proves nothing. */
bool cell_is_alive(int runtime, const struct cell_entry *entry);
/* The pid of its supervisor, from the kernel's data on the entry's lock; 0 if there is none, or
 * none visible in this pid namespace. */
pid_t cell_supervisor(int runtime, const struct cell_entry *entry);
/* Set the error for a cell that lives and does not answer; returns -EAGAIN. */
int cell_is_silent(const struct cell_entry *entry, struct err *err);

/* A supervisor that takes longer to answer counts as silent. */
#define CELL_ANSWER_MS 1000
/* Connect to the supervisor of a running cell, see ipc/control_channel.h; -ENOENT if the cell has
 * just ended, -EAGAIN if it is silent. */
int cell_connect(int runtime, const struct cell_entry *entry, struct err *err);
/* The same with one attempt, without blocking. */
int cell_connect_now(int runtime, const struct cell_entry *entry, struct err *err);
/* The number of cells that this process can be connected to at once.  Raises the process's limit on
 * descriptors to the hard limit. */
size_t cell_connect_max(void);

/* Whether the state entry stays until it is discarded.  The mark is a mode bit of the folder that
 * has no other use there: a file would cost one more inode per dispatch. */
#define CELL_KEPT S_ISVTX
bool cell_state_is_kept(int dir);

/* Create and lock the cell's state entry; the caller closes the descriptor.  -EEXIST: the id is
 * taken. */
int cell_state_make(const struct cell_spec *spec, int *ret_dir, struct err *err);
/* Take a chosen id, so that no cell with that id can start: an empty, kept entry exists until it is
 * discarded.  -EEXIST: a cell was first. */
int cell_state_bury(const char *id, struct err *err);
/* Whether a supervisor still holds the state entry's lock. */
bool cell_state_is_live(int dir);
/* Remove a state entry with everything in it.  Only the timeline stays: it moves to the folder of
 * ended cells. */
int cell_state_remove(int state, const char *entry, struct err *err);

/* The folder in the state folder for cells of which only a timeline is left, perhaps with the
 * policy.  -ENOENT if it does not exist. */
#define CELL_ENDED "ended"
int cell_ended_open(int state);
/* Move the entry there.  Unless IS_BARE, remove everything in it but the timeline. */
int cell_state_retire(int state, const char *entry, bool is_bare, struct err *err);
/* Remove the oldest entries beyond CELL_TIMELINES_MAX, once there are CELL_TIMELINES_SLACK too many,
 * and those older than CELL_TIMELINES_DAYS.  PRUNES is called before each removal, and a negative
 * value forbids it.  TURN is any number that differs between cells. */
#define CELL_TIMELINES_MAX 1000
#define CELL_TIMELINES_SLACK 100
#define CELL_TIMELINES_DAYS 90
#define CELL_TIMELINES_LOOK 1024        /* one in this many cells looks for entries that are too old */
void cell_ended_prune(unsigned turn, int (*prunes)(void *arg, const char *id), void *arg);

/* Refuse grants inside OWN, a folder of cloister's own, and a root file system that contains it.
 * Grants of the registry, of dispatches and of copies of MCP servers there are permitted if they are not writable, and those
 * of an agent's home always.  A NULL OWN permits everything. */
int cell_grants_check(const struct cell_spec *spec, const char *own, struct err *err);
/* Refuse grants by which the cell could write a link on PATH: cloister finds one of its own folders
 * by it. */
int cell_grants_check_way(const struct cell_spec *spec, const char *path, struct err *err);

enum cell_end {
	CELL_END_EXITED,                /* the agent exited, or was killed in the cell */
	CELL_END_NOT_STARTED,           /* the agent never ran */
	CELL_END_SETUP,                 /* the agent never ran, because a setup command failed */
	CELL_END_OPERATOR, CELL_END_TIME, CELL_END_TTL,
	CELL_END_RULES,                 /* its init broke the rules */
	CELL_END_ALARM,                 /* it was stopped at an exfiltration */
	CELL_END_KILLED,                /* all of it died at once, for example out of memory */
	CELL_END_BUDGET,                /* a budget was reached whose effect is to end the cell */
};
enum cell_cut { CELL_CUT_STDOUT = 1, CELL_CUT_STDERR = 2 };
/* Grants that were taken back while the cell ran. */
enum cell_lost {
	CELL_LOST_POLICY = 1,           /* an operator changed the policy, other than by `allow` */
	CELL_LOST_CONSEQUENCE = 2,      /* a consequence narrowed its policy, or requires approvals */
	CELL_LOST_SECRET = 4,           /* a secret was revoked, by anyone */
	CELL_LOST_TTL = 8,              /* an operator set a ttl */
	/* Temporary, and never in a record: */
	CELL_LOST_FROZEN = 16, CELL_LOST_ENDING = 32,
};

/* How a cell ended. */
struct cell_record {
	struct cell_spec spec;
	uint64_t started_ns, ended_ns;  /* realtime clock */
	uint32_t status;                /* the exit status of `run` */
	char cause[256];                /* "" or the limit that ended it */
	uint32_t n_changes;             /* number of folders under changes/ */
	char incomplete[256];           /* "" or why some changes could not be kept */
	enum cell_end end;
	uint32_t cut;                   /* enum cell_cut bits: streams that are incomplete */
	uint32_t lost;                  /* enum cell_lost bits */
	/* For each overlay grant: how many FIFOs, sockets, devices and files too large for the disk
	 * are missing from changes/. */
	uint32_t left_out[CELL_GRANTS_MAX];
	bool is_bare;                   /* made from its events, of which alone something is left; never in a file */
};
int cell_record_write(int state_dir, const struct cell_record *record, struct err *err);
int cell_record_read(int state_dir, struct cell_record *ret_record, struct err *err);
void cell_record_free(struct cell_record *record);      /* for OWN() too */
#endif
