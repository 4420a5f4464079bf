/* cgroup.h - a cell's resource limits: cgroup v2, or v1 on hybrid hosts.
 *
 * A cgroup is made before the cell's first process exists and removed after the last one is gone.
 * A limit that cannot be enforced is always reported in `missing`.  The caller decides whether that
 * is an error (the operator asked for it) or a message (it was a default).
 *
 * v2: <near>/cloister/cloister-<id>, where <near> is the nearest group above the caller that it may
 * divide.  So the caller's limits apply to its cells too.  The group between keeps the controllers
 * on and goes with its last cell.  (systemd turns off, and so lifts, controllers that none of its
 * own units needs.)
 *
 * v1: <own>/cloister-<id> in each hierarchy that carries a limit.  If possible there is also a
 * group in the v2 hierarchy, without limits, for its kill, freeze and events. */
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

/* A limit of 0 was not requested: it is not set, and never missing. */
struct cgroup_limits {
	uint64_t memory;                /* bytes; swap does not add to it */
	uint64_t cpus_milli;            /* thousandths of a CPU */
	uint64_t pids;
	/* Bytes per second, each way, per device.  v1 cannot count what the kernel writes back
	 * later: there it applies to reads and to direct writes. */
	uint64_t io;
	const dev_t *devices;           /* st_dev of the files that the cell may write or read */
	size_t n_devices;               /* file systems without a disk (tmpfs) are fine */
};

/* Makes the cgroup (in every hierarchy) for cell ID and sets the limits.  On success the caller
 * owns *ret_cgroup (cgroup_destroy), and *ret_missing has a bit for each limit that is not in
 * force.  WHY has the reason for people ("this user has no delegated cgroup: ...what to do..."); it
 * is empty if nothing is missing.  No cgroup at all is a success with every bit missing. */
int cgroup_create(const char *id, const struct cgroup_limits *limits,
                  struct cgroup **ret_cgroup, unsigned *ret_missing,
                  char *why, size_t why_size, struct err *err);

/* The group of the process PID, which somebody else has made: the one whose name contains MARK, in each hierarchy.
 * Its limits are that other's.  *ret_carries has a bit for each limit that it can have.  The caller frees it
 * (cgroup_free), and does not destroy it.  No such group is a success without any bit. */
int cgroup_adopt(pid_t pid, const char *mark, struct cgroup **ret_cgroup, unsigned *ret_carries, struct err *err);

/* The helpers of a cell, which are not in it, have a group beside the cell's.  It is made with
 * cgroup_create() under the cell's id plus this suffix. */
#define CGROUP_HELPERS "-egress"

/* The cell's first process enters by both of the following, before it makes its cgroup namespace.
 * (CLONE_NEWCGROUP on the same clone3 would make the caller's group the root, and show the cell the
 * files of its own limits.)
 *
 * v2: a directory fd for CLONE_INTO_CGROUP, borrowed; -1 if there is none. */
int cgroup_clone_fd(const struct cgroup *cg);
/* fork(), with the child in that group. */
pid_t cgroup_fork(const struct cgroup *cg);
/* v1: the calling process, which has one thread, enters.  Does only what a new process may do after
 * clone: no allocation.  Does nothing on a host with v2 alone. */
int cgroup_enter_self(const struct cgroup *cg, struct err *err);
/* Does both from outside, for PID with all of its threads.  Costs the kernel a grace period (up to
 * milliseconds), which the ways above do not. */
int cgroup_enter(const struct cgroup *cg, pid_t pid, struct err *err);

/* Sets another limit of processes, if one is in force. */
int cgroup_limit_pids(const struct cgroup *cg, uint64_t pids, struct err *err);

struct cgroup_usage {
	uint64_t memory, memory_peak, cpu_us, pids;
	uint64_t pids_peak;             /* of Linux 6.11 */
	uint64_t oom_kills, pids_refused;   /* number of times each limit applied */
	uint64_t read, written;         /* bytes, from and to disks */
	uint64_t pressure_cpu, pressure_io, pressure_memory;    /* over 10 s, in hundredths of a per cent */
	bool has_io, has_pressure;
};
bool cgroup_counts_cpu(const struct cgroup *cg);
/* A value that cannot be read is 0. */
void cgroup_read_usage(const struct cgroup *cg, struct cgroup_usage *ret_usage);

/* Sends SIGKILL to everything in it: by cgroup.kill, or by the freezer and a loop.  The processes
 * are dead or dying on return. */
void cgroup_kill(const struct cgroup *cg);
/* The descriptors of its folders, borrowed; returns how many there are. */
#define CGROUP_FOLDERS_MAX 16
size_t cgroup_folders(const struct cgroup *cg, int ret_fds[CGROUP_FOLDERS_MAX]);
/* Whether the group can be frozen. */
bool cgroup_can_freeze(const struct cgroup *cg);
/* Whether every process in it has stopped. */
bool cgroup_is_frozen(const struct cgroup *cg);
/* Returns once the kernel has the order; each process obeys when it next enters or leaves the kernel. */
int cgroup_freeze(const struct cgroup *cg, bool frozen, struct err *err);

/* Directories to remove, one per line, for the cell's record, so that a later
 * run can clear them after a crash.  Empty when there are none. */
const char *cgroup_paths(const struct cgroup *cg);
/* Removes the directories and frees CG (NULL is fine).  The processes in them must be dead or
 * dying: it waits for them at most two seconds, and kills any that live.  -EBUSY if something is
 * left; then keep the paths. */
int cgroup_destroy(struct cgroup *cg);
void cgroup_free(struct cgroup *cg);        /* memory only; NULL is fine */
void cgroup_freep(struct cgroup **cg);
/* Kills all processes in the directories that cgroup_paths() named, and removes these and the
 * helpers' beside them.  Only cgroups whose last part is "cloister-<id>" are touched. */
int cgroup_clear_stale(const char *paths);
/* Like cgroup_kill(), for the directories that cgroup_paths() named. */
void cgroup_kill_paths(const char *paths);
/* The cgroup_paths() of the cell ID, rewritten for the cell OTHER.  The caller owns it; may be NULL. */
char *cgroup_paths_of(const struct cgroup *cg, const char *id, const char *other);
/* Removes groups beside the cell ID's whose cells no longer exist.  IS_KNOWN is asked for each,
 * after all are listed.  A group goes only if every group of its cell is empty and older than this:
 * another runtime folder may know a cell that is about to get its first process. */
#define CGROUP_FORGOTTEN_S 60
void cgroup_clear_forgotten(const struct cgroup *cg, const char *id,
                            bool (*is_known)(void *arg, const char *id), void *arg);

/* For `cloister doctor`: one sentence each. */
struct cgroup_report {
	int version;                    /* 2, 1, or 0: none usable */
	unsigned enforceable;           /* enum cgroup_limit bits */
	bool can_freeze;
	char text[512], todo[512];      /* todo is empty if there is nothing to do */
};
/* Makes a group with every limit and removes it again. */
void cgroup_examine(struct cgroup_report *ret_report);
#endif
