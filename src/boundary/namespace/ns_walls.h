/* ns_walls.h - the walls of a cell that is made of namespaces, as its supervisor holds them. */
#ifndef CLOISTER_NS_WALLS_H
#define CLOISTER_NS_WALLS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boundary/boundary.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/overlay/overlay.h"

struct dk_container;

struct walls {
	char id[CELL_ID_LEN + 1];
	struct cgroup *cgroup;
	unsigned unlimited;             /* enum cgroup_limit bits: limits that it does not enforce */
	struct port *port;
	pid_t init;                     /* as the host sees it; 0: none */
	int pidfd;                      /* init's */
	int channel;                    /* to the child; the port's, if init has it too */
	int userns;                     /* for processes that have to enter it */
	/* Held open so that the supervisor takes them down last, and not the dying agent.  When
	 * many cells are killed at once, all are dead sooner. */
	int mntns, netns;
	int scratch;                    /* holds all that --disk limits */
	bool notifies;                  /* the agent's filter does */
	int listener;                   /* of that filter, or -1 */
	uint32_t filter;                /* the agent's: enum filter_profile */
	int sockets[BOUNDARY_SOCKETS];
	int uppers[CELL_GRANTS_MAX];    /* changed files of each overlay grant, or -1 */
	int changes, libexec;           /* borrowed: see boundary_ground */
	bool has_range;                 /* the cell has an id range of its own, and an inner root */
	int points;                     /* of a virtual machine that can be copied: to its keeper; else -1 */
	int memory;                     /* of a virtual machine, if it can be put aside: see boundary.h; else -1 */
	bool frozen, reaped;
	int stream;                     /* while they wait for a cell: to what will start init; else -1 */
	void *waiting;                  /* likewise: the maker's own; else NULL */
	int porter;                     /* with the boundary `process`: the channel to the porter; else -1 */
	pid_t first;                    /* likewise: the first process within; else 0 */
	int folder;                     /* likewise: the cell's own; else -1 */
	struct dk_container *container; /* the engine's, with that boundary; else NULL */
};

struct ns_inside;
struct ns_plan;

/* namespace.c: the parts of ns_start() that other walls have, too. */
struct walls *ns_new_walls(const struct cell_spec *spec, const struct boundary_ground *ground); /* NULL: no memory */
struct ns_plan ns_new_plan(const struct cell_spec *spec, const struct boundary_ground *ground,
                           const struct ns_inside *inside);
void ns_close_plan(struct ns_plan *plan);
/* Takes what the process that makes the cell's file system sends to w->channel.  BY_STREAM: until it ends. */
int ns_await_ready(const struct cell_spec *spec, struct walls *w, bool by_stream, struct err *err);
/* Sends the first INIT_SPAWN. */
int ns_send_spawn(const struct boundary_ground *ground, const struct walls *w, struct err *err);

/* namespace.c: builds the walls, and starts INSIDE in them, or init if it is NULL.  See boundary.h. */
int ns_start(const struct cell_spec *spec, const struct boundary_ground *ground, bool by_stream,
             const struct ns_inside *inside, struct walls **ret_walls, struct err *err);
/* Builds walls without a cell, and starts INSIDE in them, which waits.  They are in no cgroup. */
int ns_wait(const struct cell_spec *shape, const struct boundary_ground *ground, const struct ns_inside *inside,
            struct walls **ret_walls, struct err *err);
/* Makes waiting walls those of the cell SPEC; on failure the caller abandons them. */
int ns_adopt(const struct cell_spec *spec, const struct boundary_ground *ground, const struct ns_inside *inside,
             struct walls *w, struct err *err);
/* Closes what abandoned walls hold. */
void ns_drop_fds(struct walls *w);
/* Takes walls down that are of no use: nothing of the cell stays. */
void ns_abandon(struct walls *w);
unsigned ns_can(void);
int ns_check(const struct cell_spec *spec, struct err *err);
/* -ENOTSUP if a socket is granted: no client behind another kernel reaches it. */
int ns_refuse_sockets(const struct cell_spec *spec, const char *walls, struct err *err);
uid_t ns_inner_root(unsigned slot);
void ns_give_to_agent(int fd, unsigned slot, const struct cell_spec *spec);
/* The functions of a boundary whose walls these are, but for examine(), start(), check() and pids(). */
#define NS_COMMON \
	.can = ns_can, .inner_root = ns_inner_root, \
	.keeps_changes = overlay_fits_memory, .give_to_agent = ns_give_to_agent, \
	.port = ns_port, .died = ns_died, .reap = ns_reap, .kill = ns_kill, \
	.freeze = ns_freeze, .thaw = ns_thaw, .usage = ns_usage, .facts = ns_facts, \
	.sockets = ns_sockets, .enter_net = ns_enter_net, .counters = ns_counters, \
	.folders = ns_folders, .is_changed = ns_is_changed, .collect = ns_collect, .collector = ns_collector, \
	.upper = ns_upper, .close = ns_close, \
	.write_layer = ns_write_layer, .listener = ns_listener, \
	.halt = ns_halt, .clear = ns_clear, .clear_unknown = ns_clear_unknown

/* ns_limits.c: makes the cell's cgroup, and refuses a cell whose limits cannot be enforced. */
int ns_make_cgroup(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w,
                   struct err *err);

/* Refuses a cell whose MISSING limits (enum cgroup_limit bits) were asked for, and tells the operator of the others. */
int ns_judge_limits(const struct cell_spec *spec, const struct boundary_ground *ground, unsigned missing,
                    const char *why, struct err *err);

/* ns_collect.c, ns_examine.c, ns_halt.c, ns_walls.c: see boundary.h. */
void ns_examine(struct findings *f);
bool ns_is_changed(const struct walls *w, size_t grant);
struct overlay_collector;
void ns_collector(const struct walls *w, struct overlay_collector *ret_collector);
int ns_upper(const struct walls *w, size_t grant);
int ns_collect(struct walls *w, size_t grant, int target, uint32_t *ret_left_out, bool *ret_changed, struct err *err);
int ns_write_layer(struct walls *w, const struct cell_spec *spec, int out, struct err *err);
/* Removes the overlays' own folders beside the kept changes. */
void ns_remove_overlay_folders(const struct walls *w);
int ns_halt(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who,
            struct err *err);
/* The same for a cell whose outermost process is the child of the supervisor that IS_OUTER recognises: it gets NUMBER. */
int ns_halt_by(bool (*is_outer)(pid_t pid, pid_t parent), int number, int runtime, const struct cell_entry *entry,
               int socket, const struct cell_steer_who *who, struct err *err);
/* Leaves word in the runtime folder DIR of who killed the cell, for its supervisor. */
void ns_leave_mark(int dir, const struct cell_steer_who *who);
struct port *ns_port(const struct walls *w);
int ns_died(const struct walls *w);
bool ns_reap(struct walls *w, bool wait);
void ns_kill(struct walls *w);
int ns_freeze(struct walls *w, struct err *err);
int ns_thaw(struct walls *w, struct err *err);
void ns_usage(const struct walls *w, struct boundary_usage *ret_usage);
struct boundary_facts ns_facts(const struct walls *w);
void ns_pids(const struct walls *w, pid_t *ret_first, pid_t *ret_agent);
void ns_sockets(struct walls *w, int ret_sockets[BOUNDARY_SOCKETS]);
void ns_enter_net(const struct walls *w, int ret_fds[BOUNDARY_NET_FDS]);
int ns_counters(const struct walls *w);
int ns_listener(struct walls *w, uint32_t *ret_filter);
size_t ns_folders(const struct walls *w, int ret_fds[CELL_GRANTS_MAX]);
int ns_close(struct walls *w);
int ns_clear(const struct walls *w, int entry, const char *id);
void ns_clear_unknown(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg);
#endif
