/* boundary.h - the interface to a cell's walls: one table of functions per kind. */
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
	int ready;                      /* a pipe that gets one line once the other files are complete */
	int certificate;                /* PEM */
	int keystore;                   /* for Java; -1 without Java */
	int authorities;                /* the operator's own, PEM; -1: none */
};

#define BOUNDARY_HIDDEN_MAX 15

/* The resources that the supervisor has made before the walls go up. */
struct boundary_ground {
	unsigned slot;                  /* unique among this user's running cells */
	const struct cgroup *cgroup;
	int libexec;                    /* folder of the helper executables */
	int changes;                    /* folder for overlays' changes, or -1: see keeps_changes */
	bool pids_limited;              /* the cgroup limits processes */
	/* Cloister's own folders, under all their paths: no grant shows them.  Ends with NULL. */
	const char *hidden[BOUNDARY_HIDDEN_MAX + 1];
	const struct boundary_trust *trust;     /* with a policy; else NULL */
	/* The first INIT_SPAWN, for the agent.  It waits for init in the channel, so that the agent
	 * starts without a round trip between init and supervisor.  It is sent after `meanwhile`. */
	const struct buf *spawn;
	const int *spawn_fds;
	size_t n_spawn_fds;
	/* Called while the cell is being made, which takes a while.  If it fails, no agent runs. */
	int (*meanwhile)(void *arg, struct err *err);
	void *arg;
};

#define BOUNDARY_LISTENERS 5
#define BOUNDARY_DNS4 2
struct boundary_cell {
	pid_t init;                     /* as the host sees it */
	int pidfd, channel;             /* init's; see ipc/init_channel.h */
	int userns;                     /* for processes that have to enter it; -1 if none has */
	/* Held open so that the supervisor takes them down last, and not the dying agent.  When
	 * many cells are killed at once, all are dead sooner. */
	int mntns, netns;
	int scratch;                    /* holds all that --disk limits */
	/* The gate's sockets, with a policy: TCP and DNS, each for IPv4 and IPv6, and the SSH
	 * agent's; -1: none.  Without a policy there is only BOUNDARY_DNS4. */
	int listeners[BOUNDARY_LISTENERS];
	int uppers[CELL_GRANTS_MAX];    /* changed files of each overlay grant, or -1 */
};

struct boundary {
	const char *name;
	/* The user id, outside, of the inner root of a cell in SLOT, which owns the kept changes.
	 * An ordinary user's cell has no inner root: then it is the user. */
	uid_t (*inner_root)(unsigned slot);
	/* Whether overlays' changes stay in the cell's own memory until it ends.  Otherwise they
	 * need their folder from the start. */
	bool (*keeps_changes)(void);
	/* Makes the agent of that cell the owner of a pipe, if it is not already. */
	void (*give_to_agent)(int fd, unsigned slot, bool root);
	/* Builds the walls and starts init behind them, ready to spawn (INIT_READY has come).  On
	 * failure nothing is left.  On success the caller owns the descriptors in *ret_cell and
	 * waits for the process. */
	int (*start)(const struct cell_spec *spec, const struct boundary_ground *ground,
	             struct boundary_cell *ret_cell, struct err *err);
};

extern const struct boundary boundary_namespace;
#endif
