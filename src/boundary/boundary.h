/* boundary.h - what a cell's walls are made of: one table of functions per kind. */
#ifndef CLOISTER_BOUNDARY_H
#define CLOISTER_BOUNDARY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "cell/cell_spec.h"

struct err;
struct cgroup;

/* The cell's own certificate authority, which cloister-mint is still making. */
struct boundary_trust {
	int ready;                      /* a pipe with its one line, once the others are there */
	int certificate;                /* PEM */
	int keystore;                   /* Java's; -1 where there is no Java */
	int authorities;                /* the operator's own, PEM; -1 if there are none */
};

#define BOUNDARY_HIDDEN_MAX 15

/* What the supervisor has made before the walls go up. */
struct boundary_ground {
	unsigned slot;                  /* unique among this user's running cells */
	const struct cgroup *cgroup;
	int libexec;                    /* folder of the helper executables */
	int changes;                    /* folder for overlays' changes, or -1: see keeps_changes */
	bool pids_limited;              /* by the cgroup */
	/* Cloister's own folders, under all their paths: shown by no grant.  Ends with NULL. */
	const char *hidden[BOUNDARY_HIDDEN_MAX + 1];
	const struct boundary_trust *trust;     /* with a policy; else NULL */
	/* The first INIT_SPAWN, the agent's: it waits for init in the channel, so
	 * that the agent starts without init and supervisor asking each other.  It is sent
	 * behind `meanwhile`. */
	const struct buf *spawn;
	const int *spawn_fds;
	size_t n_spawn_fds;
	/* Called while the cell is being made, which takes a while; if it fails, no agent runs. */
	int (*meanwhile)(void *arg, struct err *err);
	void *arg;
};

#define BOUNDARY_LISTENERS 5
#define BOUNDARY_DNS4 2
struct boundary_cell {
	pid_t init;                     /* as the host sees it */
	int pidfd, channel;             /* init's; see ipc/init_channel.h */
	int userns;                     /* for who has to enter it; -1 if nobody has */
	/* Held so that taking them down is the supervisor's last work and not the dying
	 * agent's: of many cells that are killed at once, all are dead sooner. */
	int mntns, netns;
	int scratch;                    /* where all that is limited by --disk is */
	/* The gate's sockets, with a policy: TCP and DNS, each IPv4 and IPv6, and that of the
	 * SSH agent; -1 where there is none.  Without a policy there is BOUNDARY_DNS4 alone. */
	int listeners[BOUNDARY_LISTENERS];
	int uppers[CELL_GRANTS_MAX];    /* changed files of each overlay grant, or -1 */
};

struct boundary {
	const char *name;
	/* Who, outside, the inner root of a cell in SLOT is: the one to own what is
	 * kept of it.  An ordinary user's cell has none: the user. */
	uid_t (*inner_root)(unsigned slot);
	/* Whether overlays' changes are in the cell's own memory until it ends.  Otherwise they need
	 * their folder from the start. */
	bool (*keeps_changes)(void);
	/* Make the agent of that cell the owner of a pipe, where that takes a hand. */
	void (*give_to_agent)(int fd, unsigned slot, bool root);
	/* Build the walls and start init behind them, ready to spawn (INIT_READY has
	 * come).  On failure nothing is left; on success the caller owns the
	 * descriptors in *ret_cell and waits for the process. */
	int (*start)(const struct cell_spec *spec, const struct boundary_ground *ground,
	             struct boundary_cell *ret_cell, struct err *err);
};

extern const struct boundary boundary_namespace;
#endif
