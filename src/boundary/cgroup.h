/* cgroup.h - a cell's resource limits: cgroup v2, or v1 on hybrid hosts.
 *
 * A cgroup is made before the cell's first process exists and removed after the
 * last one is gone.  What cannot be enforced is reported in `missing`, never
 * passed over: the caller decides whether that is an error (the operator asked
 * for it) or a line for the operator (it was a default).
 *
 * v2: <near>/cloister/cloister-<id>, where <near> is the nearest group above the
 * caller that it may divide: what limits the caller limits its cells too.  The
 * group between keeps the controllers on (systemd turns off, and so lifts,
 * what none of its own units needs) and goes with its last cell.
 * v1: <own>/cloister-<id> in each hierarchy that carries a limit; and in the v2
 * one where it can be, without limits, for its kill, freeze and events. */
#ifndef CLOISTER_CGROUP_H
#define CLOISTER_CGROUP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct cgroup;                          /* opaque */

enum cgroup_limit {
	CGROUP_MEMORY = 1 << 0,
	CGROUP_CPUS   = 1 << 1,
	CGROUP_PIDS   = 1 << 2,
	CGROUP_IO     = 1 << 3,
	CGROUP_ALL    = (1 << 4) - 1,
};

#define CGROUP_DEVICES_MAX 16
#define CGROUP_ID_MAX      64

/* A limit of 0 is not asked for: not set, never missing. */
struct cgroup_limits {
	uint64_t memory;                /* bytes; swap is not added to it */
	uint64_t cpus_milli;            /* thousandths of a CPU */
	uint64_t pids;
	/* Bytes a second, each way, per device.  v1 cannot count what the kernel
	 * writes back later: there it holds for reads and for direct writes. */
	uint64_t io;
	const dev_t *devices;           /* st_dev of what the cell may write or read */
	size_t n_devices;               /* what has no disk behind it (tmpfs) is fine */
};

/* Make the cgroup (every hierarchy of it) for cell ID and set the limits.  On
 * success the caller owns *ret_cgroup (cgroup_destroy), and *ret_missing has a
 * bit for each limit that is not in force, with the reason for people ("this
 * user has no delegated cgroup: ...what to do...") in WHY, which is empty when
 * nothing is missing.  No cgroup at all is a success with every bit missing. */
int cgroup_create(const char *id, const struct cgroup_limits *limits,
                  struct cgroup **ret_cgroup, unsigned *ret_missing,
                  char *why, size_t why_size, struct err *err);

/* What serves a cell and is not in it has a group beside the cell's, made with
 * cgroup_create() under the cell's id with this behind it. */
#define CGROUP_HELPERS "-egress"

/* The cell's first process gets in by both of the following, before it makes its
 * cgroup namespace (CLONE_NEWCGROUP on the same clone3 would take the caller's
 * group for its root, and show the cell the files of its own limits).
 *
 * v2: a directory fd for CLONE_INTO_CGROUP, borrowed; -1 where there is none. */
int cgroup_clone_fd(const struct cgroup *cg);
/* v1: the calling process, which has one thread, enters.  Only what a new process
 * may do after clone: no allocation.  Does nothing where there is only v2. */
int cgroup_enter_self(const struct cgroup *cg, struct err *err);
/* Both, from outside, for PID of one thread.  Costs the kernel a grace period
 * (up to milliseconds), which the ways above do not. */
int cgroup_enter(const struct cgroup *cg, pid_t pid, struct err *err);

struct cgroup_usage {
	uint64_t memory, memory_peak, cpu_us, pids;
	uint64_t oom_kills, pids_refused;   /* what struck, since the start */
};
bool cgroup_counts_cpu(const struct cgroup *cg);
/* What cannot be read is 0. */
void cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret_usage);

/* SIGKILL for everything in it: cgroup.kill, or the freezer and a loop.  The
 * processes are dead or dying on return. */
void cgroup_kill(const struct cgroup *cg);
/* Whether there is anything to freeze it by. */
bool cgroup_can_freeze(const struct cgroup *cg);
/* Returns once the kernel has the order; it is carried out as each process next
 * enters or leaves the kernel. */
int cgroup_freeze(const struct cgroup *cg, bool frozen, struct err *err);

/* Directories to remove, one per line, for the cell's record, so that a later
 * run can clear them after a crash.  Empty when there are none. */
const char *cgroup_paths(const struct cgroup *cg);
/* Remove the directories and free CG (NULL is fine).  The processes in them must
 * be dead or dying: it waits for those, at most two seconds, and kills what is
 * alive.  -EBUSY when something is left; keep the paths then. */
int cgroup_destroy(struct cgroup *cg);
void cgroup_free(struct cgroup *cg);        /* memory only; NULL is fine */
void cgroup_freep(struct cgroup **cg);
/* Kill what is left in, and remove, directories that cgroup_paths() named, and the
 * helpers' beside them.
 * Only cgroups whose last part is "cloister-<id>" are touched. */
int cgroup_clear_stale(const char *paths);
/* As cgroup_kill(), of the directories that cgroup_paths() named. */
void cgroup_kill_paths(const char *paths);
/* Where another cell, OTHER, has what the cell ID has in cgroup_paths(); the caller's, or NULL. */
char *cgroup_paths_of(const struct cgroup *cg, const char *id, const char *other);
/* Remove the groups beside that of the cell ID whose cells nobody knows of any more, as IS_KNOWN says of
 * each once they are listed.  Only if nothing is in any group of such a cell, and only if these are older than
 * this: another runtime folder may know a cell that is about to get its first process. */
#define CGROUP_FORGOTTEN_S 60
void cgroup_clear_forgotten(const struct cgroup *cg, const char *id,
                            bool (*is_known)(void *arg, const char *id), void *arg);

/* For `cloister doctor`: what is there, as one sentence each. */
struct cgroup_report {
	int version;                    /* 2, 1, or 0: none usable */
	unsigned enforceable;           /* enum cgroup_limit bits */
	bool can_freeze;
	char text[512], todo[512];      /* todo is empty when nothing is to do */
};
/* Makes a group with every limit and removes it again. */
void cgroup_examine(struct cgroup_report *ret_report);
#endif
