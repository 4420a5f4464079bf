/* supervisor.h - the supervisor of one cell: builds the walls, owns the cell's
 * life, limits, input and output, and its control socket.
 *
 * It parses nothing that the agent wrote.  If it dies, the cell dies. */
#ifndef CLOISTER_SUPERVISOR_H
#define CLOISTER_SUPERVISOR_H
#include <stdbool.h>

#include "boundary/boundary.h"
#include "boundary/cgroup.h"
#include "cell/cell_dirs.h"
#include "cell/cell_spec.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "loop/stdio.h"

#define SUPERVISOR_SPEC_FD 3            /* the cell's description, a memory file */
#define SUPERVISOR_STARTED_FD 4         /* detached: '+' is written once the agent runs */
#define SUPERVISOR_CLIENTS_MAX 64
#define SUPERVISOR_LOG_MAX (8u << 20)   /* then the log is turned over; two are kept */

struct supervisor;

struct client {
	struct supervisor *sv;
	struct loop_source source;
	enum { CLIENT_NEW, CLIENT_WAITS, CLIENT_KILLS, CLIENT_EXEC } state;
	uint32_t handle;                /* of the process, with CLIENT_EXEC */
	bool started;
	struct client *next;
};

struct supervisor {
	struct cell_spec spec;
	struct cell_place place;
	struct cgroup *cgroup;
	struct boundary_cell cell;
	int libexec, state, changes;    /* folders; -1 where nothing is kept */
	bool pids_limited;              /* by the cgroup */
	bool has_inner_root;            /* root's cells: who fills the folder of changes */
	struct loop *loop;
	struct loop_source channel, exited, listener;
	struct loop_timer time, ttl, grace, patience;
	struct client *clients;
	size_t n_clients;
	uint32_t next_handle;

	struct stdio stdio;
	int log;                        /* a detached cell's, or -1 */
	uint64_t log_size;

	/* the end */
	uint64_t started_ns;
	bool agent_ran, agent_exited, dead, ending;
	int agent_status;               /* as wait(2) gives it */
	int spawn_error;
	int killed_by;                  /* enum supervisor_reason */
	char cause[256];
};

enum supervisor_reason { KILLED_NOT, KILLED_BY_OPERATOR, KILLED_BY_TIME, KILLED_BY_TTL,
                         KILLED_BY_PEER };

/* supervisor_log.c: a detached cell's output goes to its log. */
int supervisor_open_log(struct supervisor *sv, int ret_inside[3], struct err *err);

/* supervisor_control.c */
int supervisor_listen(struct supervisor *sv, struct err *err);
void supervisor_spawned(struct supervisor *sv, uint32_t handle, uint32_t error, int master);
void supervisor_exited(struct supervisor *sv, uint32_t handle, uint32_t status);
/* Whoever had it killed is told that it is dead. */
void supervisor_tell_dead(struct supervisor *sv);
/* Whether one of them is still to answer to that. */
bool supervisor_is_awaited(const struct supervisor *sv);
void supervisor_tell_ended(struct supervisor *sv, uint32_t status);

/* supervisor_init.c: the channel to init. */
int supervisor_send_spawn(struct supervisor *sv, uint32_t handle, struct buf *rest,
                          const int *fds, size_t n_fds, struct err *err);
void supervisor_signal(struct supervisor *sv, uint32_t handle, int number);
void supervisor_channel_ready(void *arg, uint32_t events);

/* supervisor_end.c */
void supervisor_kill(struct supervisor *sv, enum supervisor_reason reason);
void supervisor_stop(struct supervisor *sv, uint64_t grace_ms, enum supervisor_reason reason);
/* Exit status for `run`; also fills in the cause. */
int supervisor_status(struct supervisor *sv);
/* Keep what is to be kept, remove everything else. */
void supervisor_clean_up(struct supervisor *sv, int status);
/* If the last output is carried and init is reaped, leave the loop. */
void supervisor_check_end(struct supervisor *sv);

/* One line on standard error, safe on a terminal whatever is in it. */
void supervisor_complain(const char *text);
/* The same for what is no error: not when detached or with -q. */
void supervisor_say(const struct supervisor *sv, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#endif
