/* supervisor.h - the supervisor of one cell: builds the walls, owns the cell's life, limits, input,
 * output and control socket.
 *
 * It parses nothing that the agent wrote.  If it dies, the cell dies. */
#ifndef CLOISTER_SUPERVISOR_H
#define CLOISTER_SUPERVISOR_H
#include <stdbool.h>

#include "audit/log.h"
#include "audit/operator.h"
#include "base/call.h"
#include "base/json.h"
#include "boundary/boundary.h"
#include "boundary/port/port.h"
#include "canon/members.h"
#include "canon/repeats.h"
#include "cell/cell_dirs.h"
#include "cell/cell_refusals.h"
#include "cell/cell_spec.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "ipc/witness_channel.h"
#include "loop/loop.h"
#include "loop/stdio.h"
#include "proc/supervisor/supervisor_approvals.h"
#include "proc/supervisor/supervisor_budget.h"
#include "proc/supervisor/supervisor_fired.h"
#include "proc/supervisor/supervisor_lost_rights.h"
#include "proc/supervisor/supervisor_policy.h"
#include "proc/supervisor/supervisor_revoke.h"
#include "proc/supervisor/supervisor_saver.h"
#include "proc/supervisor/supervisor_steer.h"
#include "proc/supervisor/supervisor_watch.h"

#define SUPERVISOR_CLIENTS_MAX 96
#define SUPERVISOR_STAY_MAX 64          /* may stay connected; the rest are for ending the cell */
#define SUPERVISOR_LOG_MAX (8u << 20)   /* at this size the log is rotated; two files are kept */
#define SUPERVISOR_EVENTS_MAX (32u << 20)       /* size of the timeline's newest file; all files are kept */

struct cgroup;
struct supervisor;

/* supervisor_own.c: finds cloister's own folders, under every path that the grants contain.  -EPERM
 * if such a grant cannot be given. */
struct own_paths {
	char *at[BOUNDARY_HIDDEN_MAX];
	size_t n;
};
void own_paths_free(struct own_paths *own);     /* for OWN() too */
int supervisor_find_own(const struct cell_spec *spec, struct own_paths *own, struct err *err);

struct client {
	struct supervisor *sv;
	struct loop_source source;
	uint32_t request;               /* the last one, enum control_message; 0: none yet */
	uint32_t handle;                /* with CONTROL_EXEC: of the process */
	bool started;
	bool stays;                     /* it may stay connected as long as it likes */
	uint64_t seen;                  /* with CONTROL_APPROVALS: the last change that it got */
	bool follows;                   /* it waits for the next change */
	struct ipc_message *held;       /* its request waits until the cell is resumed; or NULL */
	struct seat *seat;              /* at the agent's terminal; NULL: none */
	struct client *next;
};

/* A process that starts before the cell, with the operator's rights, and works for its courier. */
struct side {
	int channel;                    /* the starter's to it, until there is a starter; -1: none */
	pid_t pid;                      /* 0: none */
};

/* With a policy: the egress processes, and the descriptors that they get. */
struct egress {
	struct boundary_trust trust;
	int key;                        /* the certificate authority's private key: a memory file */
	struct cell_policy policy;
	int names;                      /* a memory file; only the gate reads it */
	int secrets;                    /* a memory file; only the courier reads it */
	struct side hooks, tools;       /* cloister-hook, cloister-tools */
	struct loop_source tool_events; /* from cloister-tools; fd is -1 if there is none */
	int keeper, keeper_process;     /* the courier's channel to the secrets' keeper; the keeper's pidfd */
	pid_t mint, starter;            /* 0: none */
	struct cgroup *cgroup;          /* the helpers' group */
	struct loop_source starter_channel, listeners[BOUNDARY_SOCKETS];
	struct loop_source webhooks;    /* the courier's end of publish's channel; never read here */
	struct loop_source gate, courier;       /* while they run */
	struct loop_timer again, patience;
	uint64_t started_ms;
	unsigned quick_ends;
	bool running, stopping, finishing, over;
};

#define TIMELINE_LAST_WORDS (8 * 1024)  /* room kept on a full disk for the supervisor's own records */
#define TIMELINE_SLACK (4u << 20)       /* above `max`: room for requests that are under way */

/* Why nothing may leave the cell, the least severe first. */
enum timeline_halt { HALT_NOT, HALT_ROOM, HALT_MAX, HALT_FAILED };

#define ACTS_MAX 64                     /* events of operators that wait for the operator's timeline */
struct acts {
	struct buf at[ACTS_MAX];        /* events */
	size_t n;
	struct loop_timer again;
};

struct timeline {
	struct audit_log log;           /* .fd is -1 while it is not open */
	struct audit_key key;
	struct operator operator;       /* .dir is -1 if there is none */
	struct acts acts;
	unsigned char last[AUDIT_HASH]; /* the hash of the supervisor's own last record */
	struct buf event;
	uint64_t bytes;                 /* of all its files */
	bool has_key, has_policy;       /* the key was made; the policy is stored beside the timeline */
	bool serves;                    /* a courier: its requests are recorded before they leave */
	bool failed;                    /* writing failed, and the operator was informed */
	bool started;                   /* the operator's timeline has a record of the cell */
	bool ended, kept;
	struct loop_timer sign, again;

	enum timeline_halt halt;
	char halted[COURIER_HALT_MAX + 1];
	bool untold;                    /* the courier has not got the last COURIER_HALT */
	struct buf held;                /* a message from the courier that did not fit on the disk */
	bool holds;
	/* Numbers of the courier's requests: the last whose record was written, the last whose
	 * record is on the disk, and the last that the courier was sent as recorded. */
	uint64_t awaited, synced, told;
	struct loop_round sync;
	struct loop_timer gather;       /* lets records of other requests join before the sync */
	uint64_t together;              /* number of requests that the last sync covered */
	struct cell_refusals refusals;
};

/* With --setup: the commands that run before the agent. */
struct setup {
	size_t next;                    /* index into spec.setups */
	bool holds;                     /* with spec.held: the agent has yet to start */
	bool runs, spawned;             /* the agent has yet to start; the current setup was started */
	struct buf agent;               /* the agent's INIT_SPAWN, and its descriptors */
	int inside[3], null;
	size_t from[2];                 /* the size of each stream as the current setup was started */
	int steps;                      /* CELL_STEPS, or -1 */
};

/* Records that the agent can cause as often as it likes: supervisor_repeats.c. */
struct supervisor_repeats {
	struct repeats seen;
	struct loop_timer due;          /* when the counted records are written */
};

/* cloister-witness, which reports what the cell's processes do: supervisor_witness.c. */
#define WITNESS_PORTS 1024              /* connections whose process is remembered */
#define WITNESS_MS 2000                 /* for its last events, when the cell has ended */
struct witness_ward {
	struct loop_source channel;     /* .fd -1: it does not run */
	struct loop_timer patience;
	pid_t pid;
	bool by_filter;                 /* it gets the listener of the agent's filter */
	bool ready, finishing;
	char by[16];                    /* its source, or "none" */
	char why[WITNESS_TEXT_MAX];     /* it sees by another source than was chosen; "": by that one */
	uint64_t bytes, max;            /* of its records */
	uint64_t programs, refused;     /* executions, and calls that were refused */
	uint64_t unrecorded;            /* events for which there was no room */
	struct { uint16_t port; uint32_t pid; } ports[WITNESS_PORTS];
	size_t next_port;
};

/* What the cell uses, each second: supervisor_resources.c. */
struct resources {
	struct loop_timer due;
	struct boundary_usage last;     /* as recorded */
	uint64_t begun_ms, recorded_ms, processes;      /* PROCESSES: the most at once */
	bool known;                     /* anything is */
};

#define NOTIFY_MINUTE_MAX 60            /* notifications of a kind in one minute */
#define NOTIFY_KINDS 5
struct notifier {
	struct loop_source channel;     /* to cloister-notify; .fd -1: none */
	struct loop_timer minute;       /* armed while the minute lasts */
	struct {
		unsigned told;          /* sent in this minute */
		uint64_t untold;        /* held back in this minute; LAST is the newest of them */
		struct buf last;
	} kinds[NOTIFY_KINDS];
};

struct stream {
	struct supervisor *sv;
	const char *name;
	int fd;                         /* -1 until there is output to store */
	size_t size;
	bool cut;
};

/* The changes of the running cell are being copied, by a child: supervisor_copy.c. */
struct copying {
	struct client *client;          /* who asked; NULL: nobody, and there is no child */
	pid_t pid;
	struct loop_source result;
	struct loop_timer patience;
	bool freezes;                   /* the cell stands still for it alone */
	bool still;                     /* it did so far */
};

/* The memory of the cell is on the disk, or on its way: supervisor_pause.c. */
enum pause_state { PAUSE_NOT, PAUSE_WRITES, PAUSE_IS, PAUSE_READS };
struct pausing {
	enum pause_state state;
	int file;                       /* without a name */
	pid_t pid;                      /* the child that moves it; 0: none */
	struct loop_source result;
	size_t len;                     /* of what the child has written */
	char text[512];
	char by[CONTROL_BY_MAX + 1];
	bool was_frozen;                /* it stays frozen when it is resumed */
	bool wanted;                    /* a request waits for it */
};

/* With --forkable: the machine is being copied, or about to be: supervisor_fork.c. */
struct forking {
	struct client *client;          /* NULL: it is gone */
	bool holds;                     /* the cell stands still, or will */
	int memory, state;              /* the client's files */
	char by[CONTROL_BY_MAX + 1];
	struct loop_timer patience;
};

/* With --idle-pause: supervisor_idle.c. */
struct idle {
	struct loop_timer look;
	int counters;                   /* of the cell's network */
	uint64_t looked_ms, cpu_us;     /* the last look, and what the cell had used then */
	uint64_t since_ms;              /* it has done nothing since then */
};

struct supervisor {
	struct copying copying;
	struct pausing pausing;
	struct idle idle;
	struct forking forking;
	struct saving saving;           /* with a state that is written */
	struct walls *waiting;          /* of supervisor_wait(), until the cell starts; else NULL */
	int taker;                      /* likewise, the client: see ipc/warm_channel.h; else -1 */
	struct cell_spec spec;
	struct cell_place place;
	const struct boundary *boundary;
	struct walls *walls;            /* NULL before they are built */
	int sockets[BOUNDARY_SOCKETS];  /* the gate's */
	int libexec, state, changes;    /* folders; -1 if nothing is kept */
	int volumes[CELL_GRANTS_MAX];   /* of volumes that are written: the folder of the changes; 0: none */
	int marks;                      /* held open while the agent may write to the host: trust_mark() */
	bool has_inner_root;            /* cells of root: the inner root fills the folder of changes */
	bool timing_json;               /* print the times as JSON */
	struct loop *loop;
	struct loop_source died, listener;
	struct loop_timer time, ttl, grace, patience;
	bool ttl_set;                   /* an operator changed the ttl */
	struct client *clients;
	size_t n_clients, n_staying;
	uint32_t next_handle;

	struct egress egress;
	struct steering steering;
	struct cell_secrets secrets;
	struct supervisor_fired fired;
	struct supervisor_budgets budgets;
	struct approvals approvals;
	struct policy *watch;           /* the rules of `watch`: supervisor_watch.h; NULL: none */
	struct call_set calls;          /* the policy's `syscalls`, settled when the cell starts */
	struct buf programs;            /* likewise its `programs`, as INIT_SPAWN has them; empty: there are none */
	struct notifier notifier;
	struct supervisor_repeats repeats;
	struct timeline timeline;
	struct witness_ward witness;
	struct resources resources;
	int counters;                   /* without a policy: the cell's network counters; else -1 */
	struct loop_source resolver;    /* without a policy: a DNS server that knows no name */
	bool told_net;                  /* the user was informed that there is no network */
	pid_t publish;                  /* 0: none */
	int ports[2 * CELL_PORTS_MAX];  /* listening sockets on the host, IPv4 and IPv6 for each port */
	struct loop_source dials;       /* to publish, if only the port reaches the cell's servers: publish_channel.h */
	int webhooks;                   /* publish's end of its channel to the courier, or -1 */

	struct stdio stdio;
	int log;                        /* of a detached cell; else -1 */
	uint64_t log_size;
	uint64_t log_total;             /* bytes since the beginning */
	struct stream streams[2];       /* instead of the log: stdout, stderr */
	struct {                        /* CELL_TIMES */
		int fd;                 /* 0: not made yet; -1: it could not be */
		uint32_t n;
		uint64_t last_ms[3];    /* of log, stdout, stderr */
	} times;
	struct setup setup;

	/* the end */
	uint64_t started_ns;
	bool made;                      /* with spec.held: its holder has its id */
	bool begun;                     /* the first setup or the agent was started */
	bool gave_up;                   /* the cell could not be made */
	bool agent_ran, agent_exited, dead, ending;
	int agent_status;               /* as wait(2) returns it */
	int spawn_error;
	struct { uint64_t oom_kills; bool disk_full; } guest;   /* what a virtual machine said of itself */
	struct boundary_usage used;     /* its counters, as they were last known */
	int killed_by;                  /* enum supervisor_reason */
	bool frozen;
	bool frozen_for_approval;       /* only an approval froze the cell; the answer thaws it */
	char not_frozen[160];           /* why a freeze that the policy requires failed */
	char cause[256];
};

enum supervisor_reason { KILLED_NOT, KILLED_BY_OPERATOR, KILLED_BY_TIME, KILLED_BY_TTL,
                         KILLED_BY_PEER, KILLED_BY_ALARM, KILLED_BY_SETUP, KILLED_BY_BUDGET, KILLED_BY_WITNESS };

/* supervisor_agent.c: the setups and the agent.  Describes the first process to run, and makes its
 * input and output. */
int supervisor_describe_first(struct supervisor *sv, struct buf *ret_spawn, int ret_inside[3],
                              struct err *err);
/* For spec.held: starts the agent.  The clients that asked for it get the outcome from
 * supervisor_tell_started(). */
int supervisor_start_held(struct supervisor *sv, struct err *err);
/* init reports on a setup.  -EBADMSG if none is being started or running. */
int supervisor_setup_spawned(struct supervisor *sv, uint32_t error);
int supervisor_setup_exited(struct supervisor *sv, uint32_t wait_status);
/* The cell is dead, or the agent starts: close all that was held for the setups. */
void supervisor_setup_over(struct supervisor *sv);
void supervisor_agent_started(const struct supervisor *sv);

/* supervisor_log.c: a detached cell's output goes to its log, or to a file for each stream. */
int supervisor_open_log(struct supervisor *sv, int ret_inside[3], struct err *err);
/* Makes the log and the list of steps, before the agent runs.  A stream's file is made with its
 * first byte. */
int supervisor_make_logs(struct supervisor *sv, struct err *err);

/* Stores LEN bytes of the agent's output; returns LEN. */
ssize_t supervisor_log(struct supervisor *sv, const unsigned char *data, size_t len);

/* supervisor_terminal.c: the terminal of a detached cell's agent.  Its output goes to the log, and to every client
 * that has a seat. */
#define SUPERVISOR_SEATS_MAX 8
#define SUPERVISOR_SEAT_MS 10000        /* a client that takes no output for so long loses its seat */
#define SUPERVISOR_ROWS 24              /* of a terminal that nobody is at */
#define SUPERVISOR_COLUMNS 80
struct seat;
/* Takes MASTER, the near side of the terminal or a socket that stands for it. */
int supervisor_terminal_begin(struct supervisor *sv, int master, struct err *err);
int supervisor_answer_attach(struct client *client, struct steer_call *call);
void supervisor_seat_free(struct client *client);
/* Whether every client has all output so far. */
bool supervisor_terminal_is_idle(const struct supervisor *sv);

/* supervisor_steps.c: writes one line of CELL_STEPS.  Begin returns false if there is no such file.
 * Between begin and end, the caller writes members with .w. */
#define STEPS_ASKED_MAX 1000            /* approvals listed: its reader takes at most 1 MiB */
struct step {
	struct json w;
	char *text;
	size_t len;
};
bool supervisor_step_begin(const struct supervisor *sv, struct step *ret_step, const char *event);
void supervisor_step_end(const struct supervisor *sv, struct step *step);

/* supervisor_control.c: the control socket. */
int supervisor_listen(struct supervisor *sv, struct err *err);

/* supervisor_fork.c; the second is a port_handler's. */
int supervisor_answer_fork(struct client *client, struct steer_call *call);
void supervisor_held(void *arg);
void supervisor_fork_left(struct supervisor *sv, const struct client *client);

/* supervisor_idle.c: pauses a cell that does nothing, if it was asked to.  The first refuses a boundary that cannot, before
 * there are walls. */
#define SUPERVISOR_BY_IDLE "--idle-pause"
int supervisor_idle_check(const struct supervisor *sv, struct err *err);
int supervisor_idle_begin(struct supervisor *sv, struct err *err);

/* Anything but 0: drop the client. */
int supervisor_client_answer(struct client *client, struct ipc_message *message);

/* supervisor_pause.c */
struct steer_call;
int supervisor_pause(struct supervisor *sv, const char *by, struct err *err);    /* begins it */
int supervisor_answer_pause(struct client *client, struct steer_call *call);
int supervisor_answer_resume(struct client *client, struct steer_call *call);
bool supervisor_is_paused(const struct supervisor *sv);
/* Resumes a cell that is paused and was not frozen before: false if it is no such cell. */
bool supervisor_wake(struct supervisor *sv);
/* The same for a client's request, which is answered once the cell runs: takes the MESSAGE. */
bool supervisor_hold_client(struct client *client, struct ipc_message *message);
/* The cell is dead. */
void supervisor_pause_end(struct supervisor *sv);

/* supervisor_client.c */
/* Whether it is the cell's user or root, as the kernel reports. */
bool supervisor_client_is_operator(const struct client *client);
void supervisor_client_send(struct client *client, const struct buf *message, const int *fds,
                            size_t n_fds);
void supervisor_client_refuse(struct client *client, const struct err *err);
void supervisor_client_drop(struct client *client);
/* Describes the client for the record, from what the kernel reports. */
uid_t supervisor_client_describe(const struct client *client, char *ret_by, size_t size);
void supervisor_spawned(struct supervisor *sv, uint32_t handle, uint32_t error, int master);
void supervisor_exited(struct supervisor *sv, uint32_t handle, uint32_t status);
/* The agent of a held cell was started, or could not be: see sv->spawn_error. */
void supervisor_tell_started(struct supervisor *sv);
/* Prints TEXT to everyone who runs a command with `exec`, or is at the agent's terminal. */
void supervisor_say_to_execs(const struct supervisor *sv, const char *text);
/* Reports the death to every client that had the cell killed, once its helpers have ended, too. */
void supervisor_tell_dead(struct supervisor *sv);
/* Whether a client is still to get that report. */
bool supervisor_is_awaited(const struct supervisor *sv);
void supervisor_tell_ended(struct supervisor *sv, uint32_t status);

/* supervisor_net.c: for `run` in the foreground, without a policy. */
void supervisor_watch_net(struct supervisor *sv);
void supervisor_tell_net(struct supervisor *sv);
/* TCP connections of the cell's network that are open, by its counters. */
uint64_t supervisor_open_connections(int counters);

/* supervisor_port.c: the cell's port. */
int supervisor_watch_port(struct supervisor *sv, struct err *err);
/* The cell is dead, and so is all that it sent. */
void supervisor_cell_died(struct supervisor *sv);
/* A process of the cell runs: `run -d` may return. */
void supervisor_begun(struct supervisor *sv);
/* Append what every process of the cell is held to, as INIT_SPAWN ends. */
void supervisor_put_walls(const struct supervisor *sv, struct buf *spawn);
int supervisor_send_spawn(struct supervisor *sv, uint32_t handle, struct buf *rest,
                          const int *fds, size_t n_fds, struct err *err);
void supervisor_signal(struct supervisor *sv, uint32_t handle, int number);
/* For struct stdio: the agent's terminal is behind walls that pass no descriptors. */
void supervisor_resize(void *arg, unsigned rows, unsigned columns);
/* The cell's time limit has changed: init enforces it too. */
void supervisor_tell_limit(struct supervisor *sv);
/* Sends the same once a second if a budget of time may end the cell.  Init ends the cell when this stops. */
void supervisor_renew_lease(struct supervisor *sv);

/* supervisor_spawn.c */
#define SUPERVISOR_FDS_MAX (4 + 2 * CELL_PORTS_MAX)
struct spawn_how {
	char *const *argv;              /* the first names the executable */
	const int *fds;                 /* become 3 and up; -1: closed */
	size_t n_fds;
	uid_t uid;                      /* to run as this user; 0: as this process's */
	bool silent;                    /* its standard error is discarded */
	bool aside;                     /* the caller does not wait for its execution: see SPAWN_ASIDE */
	char **env;                     /* NULL: none */
};
/* The caller waits for the process, which dies with the caller. */
pid_t supervisor_spawn(int libexec, const struct spawn_how *how, struct err *err);

/* supervisor_starter.c, and the messages on its channel. */
enum starter_helper { STARTER_GATE, STARTER_COURIER, STARTER_INSPECT, STARTER_HELPERS };
enum starter_message {
	STARTER_START = 1,              /* fds: the gate's and the courier's channel */
	STARTER_STOP,                   /* kill them */
	STARTER_ENDED,                  /* reply: u32 helper (or STARTER_HELPERS), u32 status */
};
int supervisor_fork_starter(struct supervisor *sv, int *ret_channel, pid_t *ret_pid,
                            struct err *err);

/* supervisor_sides.c: if the policy has hooks or tools, starts cloister-hook or cloister-tools and waits until it is
 * ready.  Call this before the supervisor locks itself down. */
int supervisor_sides_start(struct supervisor *sv, struct err *err);
/* Answers its question of that number. */
void supervisor_tools_answer(struct supervisor *sv, uint64_t number, bool yes, const char *text);
/* Record what cloister-tools reports, and ask for it. */
int supervisor_sides_watch(struct supervisor *sv, struct err *err);
/* What cloister-tools recorded at its end. */
void supervisor_sides_hear_last(struct supervisor *sv);

/* supervisor_egress.c: the egress processes. */
int supervisor_egress_prepare(struct supervisor *sv, struct err *err);
int supervisor_egress_start(struct supervisor *sv, struct err *err);
/* -EBUSY if a process is left in their cgroup. */
int supervisor_egress_close(struct supervisor *sv);

/* supervisor_egress_end.c */
/* Whether a connection or a query of the cell starts them. */
void supervisor_egress_listen(struct supervisor *sv, bool on);
/* CHANNEL was closed by its peer. */
void supervisor_egress_hung_up(struct supervisor *sv, struct loop_source *channel);
void supervisor_egress_stop(struct supervisor *sv);
/* The cell ends: let the helpers send their last messages and exit. */
void supervisor_egress_finish(struct supervisor *sv);
bool supervisor_egress_is_over(const struct supervisor *sv);

/* supervisor_events.c: whether TEXT, from a process that may be compromised, is the members of a record of one of the
 * N TYPES. */
bool supervisor_is_event(const char *text, const char *const *types, size_t n);
#define SUPERVISOR_WRAP_MAX 256         /* bytes added around an event, share of a checkpoint included */
/* Handles one message from the courier; -EAGAIN if there is none. */
int supervisor_hear_courier(struct supervisor *sv);
void supervisor_courier_ready(void *arg, uint32_t events);
/* Tries again to record the message that did not fit. */
void supervisor_hear_held(struct supervisor *sv);
/* A new courier starts: no request waits for the held message of the one before it. */
void supervisor_held_is_anothers(struct supervisor *sv);
void supervisor_tell_refusals(const struct supervisor *sv, const char *cell);

/* supervisor_witness.c */
/* Starts it, before the walls are built: it takes a while to be there. */
int supervisor_witness_prepare(struct supervisor *sv, struct err *err);
/* The walls go up: it may begin to look.  The second waits until it does, and records what it sees.  No process of
 * the agent's runs before that. */
void supervisor_witness_begin(struct supervisor *sv, const struct walls *walls);
/* Waits until it knows which source works here, and returns whether that needs the agent's filter. */
bool supervisor_witness_choose(struct supervisor *sv);
int supervisor_witness_await(struct supervisor *sv, struct err *err);
/* Sends the policy's rules over acts; again after the policy was replaced. */
void supervisor_witness_rules(const struct supervisor *sv);
/* The walls are up.  If it sees by the agent's filter, the agent waits until it has the filter's listener. */
int supervisor_witness_listen(struct supervisor *sv, struct err *err);
int supervisor_witness_watch(struct supervisor *sv, struct err *err);
/* Reads all that the witness has sent.  This may freeze or kill the cell, but closes no channel besides its own. */
void supervisor_witness_catch_up(struct supervisor *sv);
/* The process that has connected from PORT of the cell; 0: unknown. */
uint32_t supervisor_witness_process(const struct supervisor *sv, uint64_t port);
/* The cell has ended: it sends its last events. */
void supervisor_witness_finish(struct supervisor *sv);
bool supervisor_witness_is_over(const struct supervisor *sv);
void supervisor_witness_close(struct supervisor *sv);
/* It ends while the supervisor cleans up; this waits until it has. */
void supervisor_witness_reap(struct supervisor *sv);
void supervisor_witness_put_totals(const struct supervisor *sv, struct members *m);

/* supervisor_resources.c */
void supervisor_resources_begin(struct supervisor *sv);
/* The cell is dead: the last record, with all that it used. */
void supervisor_resources_end(struct supervisor *sv);
void supervisor_resources_put_totals(const struct supervisor *sv, struct members *m);

/* supervisor_timeline_life.c: every cell has a timeline, unless it cannot be created. */
void supervisor_timeline_begin(struct supervisor *sv);
/* A courier starts: make room for its records, or send it COURIER_HALT. */
void supervisor_timeline_egress(struct supervisor *sv);
/* Writes the last record, signs it, and ties it to the operator's timeline; only the first call counts. */
void supervisor_timeline_end(struct supervisor *sv, int status, bool is_changed);
/* Timelines of other cells.  The first closes the timeline of a cell whose supervisor was killed;
 * the second removes the oldest ones. */
int supervisor_timeline_lost(void *arg, int dir, const char *id);
void supervisor_timeline_prune(struct supervisor *sv);

/* supervisor_timeline_room.c */
/* 0 if the timeline is open; otherwise tries to open it. */
int supervisor_timeline_open(struct supervisor *sv);
/* Makes room for the records of a new courier, or sends it COURIER_HALT. */
void supervisor_timeline_make_room(struct supervisor *sv);
/* The policy has changed: store the new one beside the timeline. */
void supervisor_timeline_keep_policy(struct supervisor *sv);
/* Whether LEN bytes may be put.  Close to the limit, this stops all egress of the cell. */
bool supervisor_timeline_has_room(struct supervisor *sv, size_t len);
/* The timer is due: does what could not be done yet.  The second sets it again if more is left. */
void supervisor_timeline_try_again(struct supervisor *sv);
void supervisor_timeline_wait(struct supervisor *sv);
/* Requests wait for their records to be on the disk: sync, now or soon. */
void supervisor_timeline_sync(struct supervisor *sv);
/* For the round and the timer that carry that out. */
void supervisor_timeline_sync_due(void *arg);
void supervisor_timeline_sync_now(void *arg);

/* supervisor_timeline.c */
/* Appends the members of an event, as members_put() writes them.  The second function writes all
 * that was put. */
int supervisor_timeline_put(struct supervisor *sv, const char *members, size_t len);
int supervisor_timeline_write(struct supervisor *sv);
/* Records what happened to the cell itself, and BY whom; NOTE may be "". */
void supervisor_record(struct supervisor *sv, const char *did, const char *by, const char *note);
int supervisor_put_members(struct supervisor *sv, const struct members *members);
void supervisor_record_members(struct supervisor *sv, const struct members *members);

/* supervisor_operator.c: copies M, an action on the cell that was just recorded, to the operator's
 * timeline as TYPE.  If another process is writing there, this tries again later, unless ACTS_MAX
 * events already wait. */
void supervisor_tell_operator(struct supervisor *sv, const char *type, const struct members *m);
/* Writes all that still waits, now. */
void supervisor_tell_operator_all(struct supervisor *sv);

/* supervisor_repeats.c: records M.  Its first N members are its kind.  In a flood, EACH records of a
 * kind are written one by one and the rest are only counted: then false. */
bool supervisor_record_repeated(struct supervisor *sv, const struct members *m, size_t n, uint64_t each);
/* Writes the counts for the last time. */
void supervisor_repeats_end(struct supervisor *sv);

/* supervisor_records.c */
/* The hash of the cell's grant, as its first record has it. */
void supervisor_grant_hash(struct supervisor *sv, char ret_name[HASH_NAME + 1]);
int supervisor_record_boot(struct supervisor *sv, struct err *err);
void supervisor_put_end(struct supervisor *sv, int status, bool is_changed);     /* not written yet */
void supervisor_record_setup(struct supervisor *sv, const char *path, int status);
void supervisor_record_exec(struct supervisor *sv, const char *by, char *const *argv);

/* supervisor_freeze.c.  BY is for the record. */
int supervisor_freeze(struct supervisor *sv, const char *by, struct err *err);
int supervisor_thaw(struct supervisor *sv, const char *by, struct err *err);
/* Freezes the cell while approval ID is pending.  An operator's freeze or thaw takes precedence. */
int supervisor_freeze_for(struct supervisor *sv, const char *id, struct err *err);
void supervisor_thaw_after(struct supervisor *sv, const char *id);
/* Lets the processes of a frozen cell run.  The cell's state is the caller's. */
int supervisor_let_go(struct supervisor *sv, struct err *err);
/* SIGTSTP, the terminal's Ctrl-Z: freezes the cell, stops the supervisor, and thaws the cell when
 * it continues.  If the cell cannot be frozen, neither stops. */
void supervisor_suspend(struct supervisor *sv);
/* Whether the policy's order, to FREEZE or to kill, is still to be carried out.  A frozen cell can
 * still be killed: otherwise an operator's thaw would save it. */
bool supervisor_is_to_stop(const struct supervisor *sv, bool freeze);

/* supervisor_copy.c */
#define SUPERVISOR_COPY_MS 10000        /* the cell stands still for a copy at most so long */
int supervisor_answer_copy(struct client *client, struct steer_call *call);
/* CLIENT goes away, or the cell ends: stops the copy that it asked for, if any.  NULL: whoever asked. */
void supervisor_copy_end(struct supervisor *sv, const struct client *client);

/* supervisor_notify.c: notifies the operator's own programs, if a file names any. */
/* Call this before the supervisor locks itself down. */
void supervisor_notify_start(struct supervisor *sv);
/* EVENT is "ask", "budget", "tripwire", "watch" or "consequence"; DATA is a JSON object.  After
 * NOTIFY_MINUTE_MAX of a kind in a minute, only the newest is sent, at the end of that minute, with
 * the number of those left out. */
void supervisor_notify(struct supervisor *sv, const char *event, const struct buf *data);
/* The same for DATA that does not name its cell: adds the cell's id, name and principal. */
void supervisor_notify_own(struct supervisor *sv, const char *event, const struct buf *data);

/* The cell ends: sends at once what waits for the end of the minute. */
void supervisor_notify_end(struct supervisor *sv);

/* supervisor_publish.c: binds the host's ports before the cell is made. */
int supervisor_take_ports(struct supervisor *sv, struct err *err);
int supervisor_publish(struct supervisor *sv, struct err *err);
/* Handles a message of publish (publish_channel.h): -EBADMSG if it breaks the rules. */
int supervisor_take_dial(struct supervisor *sv, struct ipc_message *message);
/* See port_handler. */
void supervisor_port_connected(void *arg, uint32_t number, uint32_t error, int fd);
void supervisor_unpublish(struct supervisor *sv);

/* supervisor_kill.c */
/* All 0 while there are no walls.  Counters never fall: an engine removes the cgroup of a container that has ended. */
void supervisor_usage(struct supervisor *sv, struct boundary_usage *ret_usage);
void supervisor_kill(struct supervisor *sv, enum supervisor_reason reason);
void supervisor_stop(struct supervisor *sv, uint64_t grace_ms, enum supervisor_reason reason);
/* Leaves the loop if all output is forwarded and init is reaped. */
void supervisor_check_end(struct supervisor *sv);

/* supervisor_end.c */
/* The cell is dead, and neither its agent nor this process ended it: find out why.  It was killed
 * without the supervisor (boundary/halt.h), or init enforced the limit. */
void supervisor_find_reason(struct supervisor *sv);
/* The exit status of `run`; also fills in the cause. */
int supervisor_status(struct supervisor *sv);
/* Makes the folders for changes, owned by the inner root, which fills them. */
int supervisor_make_changes(struct supervisor *sv, struct err *err);

/* supervisor_volumes.c: opens the folders for the changes of volumes; and fills them once the cell is dead. */
int supervisor_volumes_open(struct supervisor *sv, struct err *err);
void supervisor_volumes_keep(struct supervisor *sv);
/* Keeps the records and changes that are to be kept; removes everything else. */
void supervisor_clean_up(struct supervisor *sv, int status);

/* supervisor_timing.c: for `cloister run --timing`.  MODE, the supervisor's argument, is "table" or
 * "json". */
int supervisor_timing_begin(struct supervisor *sv, const char *mode, struct err *err);
void supervisor_timing_print(const struct supervisor *sv);

/* supervisor_say.c */
uint64_t supervisor_now_ns(void);       /* since 1970 */
/* Prints to standard error without blocking for long: a full pipe or a paused terminal must not
 * keep the supervisor from the cell.  Once a write had to wait, later ones do not wait at all. */
void supervisor_print(const char *text, size_t len);
/* Prints one line to standard error, with control characters made safe for a terminal. */
void supervisor_complain(const char *text);
/* The same for messages that are not errors.  Prints nothing when detached or with -q. */
void supervisor_say(const struct supervisor *sv, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* supervisor_wait.c: the first word of a supervisor that waits with a virtual machine for its cell. */
#define SUPERVISOR_WAITS "wait"
/* Makes the machine that CELL_SPEC_FD describes, and waits for a cell that fits.  The descriptors are then those
 * of that cell, as if this process had been started for it.  Ends the process if standard input ends, or the
 * machine does, or is too old. */
int supervisor_wait(struct supervisor *sv, struct err *err);
/* Before that: closes what the operator's shell left open, and keeps the numbers of a cell's descriptors free. */
int supervisor_keep_numbers(struct err *err);
/* The cell did not start. */
void supervisor_tell_taker(const struct supervisor *sv, int status);
#endif
