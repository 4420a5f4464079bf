/* boundary.h - the interface to a cell's walls: one table of functions per kind.
 *
 * Only a kind's own folder knows what its walls are made of.  Everybody else has the cell's
 * description, this table and a pointer. */
#ifndef CLOISTER_BOUNDARY_H
#define CLOISTER_BOUNDARY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "boundary/capture/capture.h"
#include "cell/cell_dirs.h"
#include "cell/cell_spec.h"
#include "policy/policy_boundary.h"

struct cell_steer_who;
struct err;
struct findings;
struct loop;
struct overlay_collector;
struct port;
struct walls;                           /* opaque; each kind has its own */

/* The cell's own certificate authority, which cloister-mint is still making. */
struct boundary_trust {
	int ready;                      /* a pipe that gets one line once the other files are complete */
	int certificate;                /* PEM */
	int keystore;                   /* for Java; -1 without Java */
	int authorities;                /* the operator's own, PEM; -1: none */
};

#define BOUNDARY_HIDDEN_MAX 15

/* The resources that the supervisor has made before the walls go up.  Borrowed: descriptors until
 * the walls are closed, the rest until start() returns. */
struct boundary_ground {
	unsigned slot;                  /* unique among this user's running cells */
	int entry;                      /* the cell's runtime folder, for CELL_WALLS */
	int libexec;                    /* folder of the helper executables */
	int changes;                    /* folder for overlays' changes, or -1: see keeps_changes */
	/* Cloister's own folders, under all their paths: no grant shows them.  Ends with NULL. */
	const char *hidden[BOUNDARY_HIDDEN_MAX + 1];
	const struct boundary_trust *trust;     /* with a policy; else NULL */
	struct loop *loop;              /* of the port */
	/* The first INIT_SPAWN, for the agent: the agent starts without a round trip between init and
	 * supervisor.  It is sent after `meanwhile`.  NULL: the agent is started later, by the port. */
	const struct buf *spawn;
	const int *spawn_fds;
	size_t n_spawn_fds;
	/* Called while the cell is being made, which takes a while, unless NULL.  If it fails, no agent runs. */
	int (*meanwhile)(void *arg, struct walls *walls, struct err *err);
	/* Unless NULL: called as soon as the cell's first process has its namespaces and ids, which may be never; and
	 * before SPAWN is sent, or could be, once init is ready for it, unless the agent's filter notifies. */
	void (*begun)(void *arg, struct walls *walls);
	int (*before_spawn)(void *arg, struct err *err);
	/* Tells the operator that a default is not in force, once for each TOPIC. */
	void (*tell_once)(void *arg, const char *topic, const char *text);
	void *arg;
	int memory, state;              /* of a fork: the point (take_point()) that it starts from; else -1 */
	struct walls *waiting;          /* of wait(), which start() uses or takes down; else NULL */
	/* Whether the agent's filter reports its calls before they are done: see listener().  From the agent's first
	 * call on they wait for an answer, its execution included.  Called after `begun`, as late as possible.  NULL: it
	 * does not. */
	bool (*notifies)(void *arg);
	const struct call_set *calls;   /* if it does: taken away from all processes of the cell; NULL: none */
};

#define BOUNDARY_LABEL_MAX 80

struct boundary_waiting {
	char label[BOUNDARY_LABEL_MAX]; /* what they were made from */
	int64_t until_s;                /* the time (since 1970) after which they are not to be used */
};

/* The gate's sockets, with a policy: enum capture_socket, and the SSH agent's.  Without a policy there
 * is only CAPTURE_DNS4. */
#define BOUNDARY_SSH CAPTURE_SOCKETS
#define BOUNDARY_SOCKETS (CAPTURE_SOCKETS + 1)

#define BOUNDARY_NET_FDS 2

enum boundary_can { BOUNDARY_CAN_FREEZE = 1 };

/* By the kernel, for all processes of a pid namespace; by the agent's filter, which asks. */
enum boundary_sight { BOUNDARY_SIGHT_KERNEL = 1, BOUNDARY_SIGHT_FILTER = 2 };

struct boundary_usage {
	uint64_t memory, memory_peak, cpu_us, pids, pids_peak;  /* 0: unknown */
	uint64_t disk;                          /* bytes in the scratch space */
	uint64_t read, written;                 /* bytes, from and to disks */
	/* The share of the time in which something waited for it, in the last 10 s: hundredths of a per cent. */
	uint64_t pressure_cpu, pressure_io, pressure_memory;
	bool has_io, has_pressure;              /* these are known */
	uint64_t oom_kills, pids_refused;       /* number of times each limit applied */
	bool disk_full;                         /* the scratch space is */
};

/* What is in force for one cell; it does not change. */
struct boundary_facts {
	unsigned unlimited;             /* enum cell_limit bits: limits that are not in force */
	bool counts_cpu;                /* its use of processors is known */
	bool can_freeze;
};

struct boundary {
	const char *name;

	/* ---- before a cell is made ---- */

	/* Examines this machine, and appends to F what its cells need and use (findings.h).  Leaves
	 * nothing behind. */
	void (*examine)(struct findings *f);
	/* Whether this machine has what its cells need; the error explains what is missing: -ENOENT,
	 * -ENOTSUP or -EACCES.  After any other error it may be able another time.  EMULATED: without the
	 * help of the processor, for tests.  NULL: they need nothing. */
	int (*able)(bool emulated, struct err *err);
	/* The program that runs the virtual machine of a cell.  NULL if it has none. */
	const char *(*monitor)(const struct cell_spec *spec);
	/* What its cells can do on this machine: enum boundary_can bits. */
	unsigned (*can)(void);
	/* Refuses a cell that this kind cannot hold on this machine. */
	int (*check)(const struct cell_spec *spec, struct err *err);
	/* Replaces the paths of the cell's own folders and certificates in a command, in variables and in the working folder
	 * *cwd by those that cells of this kind have.  ARGV and ENV may be NULL.  NULL: they are there. */
	int (*settle)(const char *id, char **argv, char ***env, char **cwd, struct err *err);
	/* The user id, outside, of the inner root of a cell in SLOT, which owns the kept changes.
	 * An ordinary user's cell has no inner root: then it is the user. */
	uid_t (*inner_root)(unsigned slot);
	/* Whether overlays' changes stay in the cell's own memory until it ends.  Otherwise they
	 * need their folder from the start. */
	bool (*keeps_changes)(void);
	/* Makes the agent of that cell the owner of a pipe, if it is not already. */
	void (*give_to_agent)(int fd, unsigned slot, const struct cell_spec *spec);

	/* ---- life ---- */

	/* Builds the walls and starts init behind them, ready to spawn.  On failure nothing is left.
	 * On success the caller owns *ret_walls: close(). */
	int (*start)(const struct cell_spec *spec, const struct boundary_ground *ground,
	             struct walls **ret_walls, struct err *err);
	/* Builds walls that wait for a cell like SHAPE, whose grants, files and policy do not count.  Nothing
	 * of an operator is in them.  The caller gives them to start(), or kills them; NULL: none can wait. */
	int (*wait)(const struct cell_spec *shape, const struct boundary_ground *ground,
	            struct walls **ret_walls, struct boundary_waiting *ret_waiting, struct err *err);
	/* The way to the processes inside; borrowed. */
	struct port *(*port)(const struct walls *w);
	/* A descriptor that is readable once the cell is dead; borrowed. */
	int (*died)(const struct walls *w);
	/* Whether the cell is dead; with WAIT, waits for its death. */
	bool (*reap)(struct walls *w, bool wait);
	/* Kills everything inside, frozen or not; does not wait. */
	void (*kill)(struct walls *w);
	int (*freeze)(struct walls *w, struct err *err);
	int (*thaw)(struct walls *w, struct err *err);
	/* Whether the memory of this cell can be put aside.  NULL, and likewise the next two: these walls cannot. */
	int (*can_pause)(const struct walls *w, struct err *err);
	/* For a cell that was frozen, and stays so; in a child of its supervisor.  Writes its memory to FILE, writes "S" to
	 * TOLD once that is on the disk, and then frees it. */
	int (*put_aside)(const struct walls *w, int file, int told, struct err *err);
	/* Brings all of it back. */
	int (*bring_back)(const struct walls *w, int file, struct err *err);
	/* For a cell whose machine can be copied, and which holds still (port_hold()): writes its memory and the state of its
	 * devices to these files, from which another cell can start.  NULL: these walls cannot. */
	int (*take_point)(const struct walls *w, int memory, int state, struct err *err);
	void (*usage)(const struct walls *w, struct boundary_usage *ret_usage);
	struct boundary_facts (*facts)(const struct walls *w);
	/* How the acts of its processes can be seen: enum boundary_sight bits. */
	unsigned sights;
	/* Host pids of the first process and of the agent, which was started; 0: unknown. */
	void (*pids)(const struct walls *w, pid_t *ret_first, pid_t *ret_agent);

	/* The listener of the agent's filter and its enum filter_profile, if the ground was to notify; the
	 * caller owns it.  -1: these walls have none.  NULL: no walls of this kind have one. */
	int (*listener)(struct walls *w, uint32_t *ret_filter);

	/* ---- the network ---- */

	/* The gate's sockets, or -1 each.  The caller owns them. */
	void (*sockets)(struct walls *w, int ret_sockets[BOUNDARY_SOCKETS]);
	/* The descriptors with which capture_enter() joins the cell's network; borrowed.  Only with
	 * published ports. */
	void (*enter_net)(const struct walls *w, int ret_fds[BOUNDARY_NET_FDS]);
	/* The network's counters, as /proc/net/snmp has them, or -1.  The caller owns it.  It outlives
	 * the cell. */
	int (*counters)(const struct walls *w);

	/* ---- the end ---- */

	/* The folders that collect() reads: the supervisor keeps its access to them.  Returns how
	 * many there are. */
	size_t (*folders)(const struct walls *w, int ret_fds[CELL_GRANTS_MAX]);
	/* Whether there are changes in overlay grant GRANT, or it cannot be known. */
	bool (*is_changed)(const struct walls *w, size_t grant);
	/* Copies the changes of the cell's overlay grant into the folder TARGET.  RET_CHANGED is NULL for a dead cell.
	 * Otherwise the cell may run: then it says whether something was changed meanwhile. */
	int (*collect)(struct walls *w, size_t grant, int target, uint32_t *ret_left_out, bool *ret_changed,
	               struct err *err);
	/* For a process that collects in place of the supervisor: how, and the upper folder of overlay grant GRANT, or -1.
	 * All is borrowed. */
	void (*collector)(const struct walls *w, struct overlay_collector *ret_collector);
	int (*upper)(const struct walls *w, size_t grant);
	/* Writes the changes of the image's files in a dead cell to OUT, as a layer.  Only for a build; NULL: this kind has
	 * no builds. */
	int (*write_layer)(struct walls *w, const struct cell_spec *spec, int out, struct err *err);
	/* Frees the walls of a dead cell.  -EBUSY if something is left, which clear() removes. */
	int (*close)(struct walls *w);

	/* ---- without the cell's supervisor ---- */

	/* Kills a cell whose supervisor does not answer: returns 1 if nothing of the cell runs any
	 * more; 0 if nothing of it ran and its supervisor tidies up; or a negative errno if it may
	 * live.  SOCKET, which may be -1, is a connection to the supervisor. */
	int (*halt)(int runtime, const struct cell_entry *entry, int socket,
	            const struct cell_steer_who *who, struct err *err);
	/* Kills and removes what is left of the cell ID, whose supervisor is gone and whose runtime
	 * folder is ENTRY.  W is a cell of the same user, or NULL.  -EBUSY: try again later. */
	int (*clear)(const struct walls *w, int entry, const char *id);
	/* The same for old cells that have no runtime folder any more. */
	void (*clear_unknown)(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg);
};

extern const struct boundary boundary_namespace;
extern const struct boundary boundary_oci, boundary_gvisor;
extern const struct boundary boundary_microvm;
extern const struct boundary boundary_docker;
extern const struct boundary boundary_process;
/* In the mutant build alone: the same walls, behind which init has one byte stream and gets no descriptors. */
extern const struct boundary boundary_stream;

/* The kind with this name, "" for the default; NULL with an error that lists the names. */
const struct boundary *boundary_find(const char *name, struct err *err);
/* The kind of the cell whose runtime folder is ENTRY (-1: it is gone); NULL if it is none of this
 * version's. */
const struct boundary *boundary_of(int entry);
#endif
