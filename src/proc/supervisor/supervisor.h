/* supervisor.h - the supervisor of one cell: builds the walls, owns the cell's
 * life, limits, input and output, and its control socket.
 *
 * It parses nothing that the agent wrote.  If it dies, the cell dies. */
#ifndef CLOISTER_SUPERVISOR_H
#define CLOISTER_SUPERVISOR_H
#include <stdbool.h>

#include "audit/log.h"
#include "audit/operator.h"
#include "base/json.h"
#include "boundary/boundary.h"
#include "boundary/cgroup.h"
#include "cell/cell_dirs.h"
#include "cell/cell_refusals.h"
#include "cell/cell_spec.h"
#include "canon/members.h"
#include "canon/repeats.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "loop/stdio.h"
#include "proc/supervisor/supervisor_budget.h"
#include "proc/supervisor/supervisor_approvals.h"
#include "proc/supervisor/supervisor_policy.h"
#include "proc/supervisor/supervisor_fired.h"
#include "proc/supervisor/supervisor_revoke.h"
#include "proc/supervisor/supervisor_steer.h"
#include "proc/supervisor/supervisor_taken.h"

#define SUPERVISOR_SPEC_FD 3            /* the cell's description, a memory file */
#define SUPERVISOR_STARTED_FD 4         /* detached: '+' is written once the agent runs */
#define SUPERVISOR_CLIENTS_MAX 96
#define SUPERVISOR_STAY_MAX 64          /* of them may stay; the others' seats are for ending the cell */
#define SUPERVISOR_LOG_MAX (8u << 20)   /* then the log is turned over; two are kept */
#define SUPERVISOR_EVENTS_MAX (32u << 20)       /* of the timeline's newest file; all are kept */

struct supervisor;

/* supervisor_own.c: cloister's own folders, under all paths that the grants contain; -EPERM if such a
 * grant cannot be given. */
struct own_paths {
	char *at[BOUNDARY_HIDDEN_MAX];
	size_t n;
};
void own_paths_free(struct own_paths *own);     /* for OWN() too */
int supervisor_find_own(const struct cell_spec *spec, struct own_paths *own, struct err *err);

struct client {
	struct supervisor *sv;
	struct loop_source source;
	enum { CLIENT_NEW, CLIENT_WAITS, CLIENT_KILLS, CLIENT_EXEC, CLIENT_STEERS,
	       CLIENT_APPROVALS } state;
	uint32_t handle;                /* of the process, with CLIENT_EXEC */
	bool started;
	bool stays;                     /* it waits, as long as it likes */
	uint64_t seen;                  /* with CLIENT_APPROVALS: the last change */
	bool follows;                   /* it waits for the next */
	struct client *next;
};

/* With a policy: the processes of egress and what they are given. */
struct egress {
	struct boundary_trust trust;
	int key;                        /* of the cell's certificate authority: a memory file */
	struct cell_policy policy;
	int names;                      /* a memory file, the gate's own */
	int secrets;                    /* the courier's own: it is not read here */
	int keeper, keeper_process;     /* likewise its channel to who renews them, and a pidfd of that */
	pid_t mint, starter;            /* 0 if there is none */
	struct cgroup *cgroup;          /* the helpers' own */
	struct loop_source starter_channel, listeners[BOUNDARY_LISTENERS];
	struct loop_source webhooks;    /* the courier's end of publish's channel; it is not read here */
	struct loop_source gate, courier;       /* while they run */
	struct loop_timer again, patience;
	uint64_t started_ms;
	unsigned quick_ends;
	bool running, stopping, finishing, over;
};

#define TIMELINE_LAST_WORDS (8 * 1024)  /* of the room on a full disk, for the supervisor's own */
#define TIMELINE_SLACK (4u << 20)       /* beyond `max`: what was under way */

/* Why nothing may leave, from the least to the most. */
enum timeline_halt { HALT_NOT, HALT_ROOM, HALT_MAX, HALT_FAILED };

#define ACTS_MAX 64                     /* of operators, that wait for their timeline */
struct acts {
	struct buf at[ACTS_MAX];        /* events */
	size_t n;
	struct loop_timer again;
};

struct timeline {
	struct audit_log log;           /* .fd -1 while there is none */
	struct audit_key key;
	struct operator operator;       /* .dir -1 where there is none */
	struct acts acts;
	unsigned char last[AUDIT_HASH]; /* the hash of the last record of the supervisor's own */
	struct buf event;
	uint64_t bytes;                 /* of all its files */
	bool has_key, has_policy;       /* made; kept beside it */
	bool failed;                    /* and that was said */
	bool started;                   /* the operator's timeline knows of the cell */
	bool ended, kept;
	struct loop_timer sign, again;

	enum timeline_halt halt;
	char halted[COURIER_HALT_MAX + 1];
	bool untold;                    /* the courier does not know */
	struct buf held;                /* a message of the courier's, for which there is no room */
	bool holds;
	/* Numbers of the courier's requests: whose records were written, are on the disk, and were
	 * told to be. */
	uint64_t awaited, synced, told;
	struct loop_round sync;
	struct loop_timer gather;       /* others, before it syncs */
	uint64_t together;              /* so many requests the last sync was for */
	struct cell_refusals refusals;
};

/* With --setup: what runs before the agent. */
struct setup {
	size_t next;                    /* which of spec.setups it is */
	bool runs, spawned;             /* the agent is still to come; this one was started */
	struct buf agent;               /* the agent's INIT_SPAWN, and its descriptors */
	int inside[3], null;
	int steps;                      /* CELL_STEPS, or -1 */
};

/* What the agent can bring about as often as it likes: supervisor_fold.c. */
struct fold {
	struct repeats repeats;
	struct loop_timer due;          /* when what was counted is told */
};

#define NOTIFY_MINUTE_MAX 60            /* things of a kind that are told of in a minute */
#define NOTIFY_KINDS 4
struct notifier {
	struct loop_source channel;     /* to cloister-notify; -1: there is none */
	struct loop_timer minute;       /* while it lasts */
	struct {
		unsigned told;          /* in this minute */
		uint64_t untold;        /* likewise; LAST is the last of them */
		struct buf last;
	} kinds[NOTIFY_KINDS];
};

struct stream {
	const struct supervisor *sv;
	const char *name;
	int fd;                         /* -1 until there is something to keep */
	size_t size;
	bool cut;
};

struct supervisor {
	struct cell_spec spec;
	struct cell_place place;
	struct cgroup *cgroup;
	struct boundary_cell cell;
	int libexec, state, changes;    /* folders; -1 where nothing is kept */
	int marks;                      /* open for as long as the agent may write to the host: trust_mark() */
	unsigned unlimited;             /* enum cgroup_limit bits: not in force by the cgroup */
	bool has_inner_root;            /* root's cells: who fills the folder of changes */
	struct loop *loop;
	struct loop_source channel, exited, listener;
	struct loop_timer time, ttl, grace, patience;
	bool ttl_set;                   /* the ttl, by an operator */
	struct client *clients;
	size_t n_clients, n_staying;
	uint32_t next_handle;

	struct egress egress;
	struct steering steering;
	struct cell_secrets secrets;
	struct supervisor_fired fired;
	struct supervisor_budgets budgets;
	struct approvals approvals;
	struct notifier notifier;
	struct fold fold;
	struct timeline timeline;
	int counters;                   /* of the cell's network, if it has no policy; or -1 */
	struct loop_source resolver;    /* likewise: it knows no name */
	bool told_net;                  /* that there is no network */
	pid_t publish;                  /* 0 if there is none */
	int ports[2 * CELL_PORTS_MAX];  /* listening on the host, IPv4 and IPv6 of each */
	int webhooks;                   /* publish's end of its channel to the courier, or -1 */

	struct stdio stdio;
	int log;                        /* a detached cell's, or -1 */
	uint64_t log_size;
	struct stream streams[2];       /* or these: stdout, stderr */
	struct setup setup;

	/* the end */
	uint64_t started_ns;
	bool begun;                     /* something was started: the first setup, or the agent */
	bool gave_up;                   /* the cell could not be made */
	bool agent_ran, agent_exited, dead, ending;
	int agent_status;               /* as wait(2) gives it */
	int spawn_error;
	int killed_by;                  /* enum supervisor_reason */
	bool frozen;
	bool frozen_for_approval;       /* and by nothing else: it goes on with the answer */
	char not_frozen[160];           /* why it could not be, when it had to */
	char cause[256];
};

enum supervisor_reason { KILLED_NOT, KILLED_BY_OPERATOR, KILLED_BY_TIME, KILLED_BY_TTL,
                         KILLED_BY_PEER, KILLED_BY_ALARM, KILLED_BY_SETUP, KILLED_BY_BUDGET };

/* supervisor_agent.c: the setups and the agent.  The first of them, described, with what it
 * gets as input and output. */
int supervisor_describe_first(struct supervisor *sv, struct buf *ret_spawn, int ret_inside[3],
                              struct err *err);
/* What init says of a setup; -EBADMSG if there is none to say it of. */
int supervisor_setup_spawned(struct supervisor *sv, uint32_t error);
int supervisor_setup_exited(struct supervisor *sv, uint32_t wait_status);
/* The cell is dead, or the agent's turn: nothing more is held for it. */
void supervisor_setup_over(struct supervisor *sv);
void supervisor_agent_started(const struct supervisor *sv);

/* supervisor_log.c: a detached cell's output goes to its log, or its two streams. */
int supervisor_open_log(struct supervisor *sv, int ret_inside[3], struct err *err);
/* The log, and the list of steps: before the agent runs.  A stream's file comes with its first byte. */
int supervisor_make_logs(struct supervisor *sv, struct err *err);

/* supervisor_steps.c: a line of CELL_STEPS; false: there is no such file.  Between the two, members
 * are written with .w. */
#define STEPS_ASKED_MAX 1000            /* approvals that are told of: who reads it takes 1 MiB */
struct step {
	struct json w;
	char *text;
	size_t len;
};
bool supervisor_step_begin(const struct supervisor *sv, struct step *ret_step, const char *event);
void supervisor_step_end(const struct supervisor *sv, struct step *step);

/* supervisor_control.c */
int supervisor_listen(struct supervisor *sv, struct err *err);
void supervisor_client_send(struct client *client, const struct buf *message, const int *fds,
                            size_t n_fds);
void supervisor_client_refuse(struct client *client, const struct err *err);
void supervisor_client_drop(struct client *client);
/* Who it is, for the record: as the kernel says. */
uid_t supervisor_client_describe(const struct client *client, char *ret_by, size_t size);
void supervisor_spawned(struct supervisor *sv, uint32_t handle, uint32_t error, int master);
void supervisor_exited(struct supervisor *sv, uint32_t handle, uint32_t status);
/* To whoever sits at a command of `exec`. */
void supervisor_say_to_execs(const struct supervisor *sv, const char *text);
/* Whoever had it killed is told that it is dead. */
void supervisor_tell_dead(struct supervisor *sv);
/* Whether one of them is still to answer to that. */
bool supervisor_is_awaited(const struct supervisor *sv);
void supervisor_tell_ended(struct supervisor *sv, uint32_t status);

/* supervisor_net.c: for `run` in the foreground, without a policy. */
void supervisor_watch_net(struct supervisor *sv);
void supervisor_tell_net(struct supervisor *sv);

/* supervisor_init.c: the channel to init. */
/* Something runs: `run -d` may go. */
void supervisor_begun(struct supervisor *sv);
int supervisor_send_spawn(struct supervisor *sv, uint32_t handle, struct buf *rest,
                          const int *fds, size_t n_fds, struct err *err);
void supervisor_signal(struct supervisor *sv, uint32_t handle, int number);
/* How long the cell may live was changed: init watches that, too. */
void supervisor_tell_limit(struct supervisor *sv);
void supervisor_channel_ready(void *arg, uint32_t events);

/* supervisor_spawn.c */
#define SPAWN_FDS_MAX (3 + 2 * CELL_PORTS_MAX)
struct spawn_how {
	char *const *argv;              /* the first names the executable */
	const int *fds;                 /* to be 3 and what follows; -1: closed */
	size_t n_fds;
	uid_t uid;                      /* who it is to be; 0: who this process is */
	bool silent;                    /* nothing on standard error */
	char **env;                     /* NULL: none */
};
/* The caller waits for it; it dies with the caller. */
pid_t supervisor_spawn(int libexec, const struct spawn_how *how, struct err *err);

/* supervisor_starter.c, and what is said over its channel: */
enum starter_helper { STARTER_GATE, STARTER_COURIER, STARTER_INSPECT, STARTER_HELPERS };
enum starter_message {
	STARTER_START = 1,              /* fds: the gate's and the courier's channel */
	STARTER_STOP,                   /* kill them */
	STARTER_ENDED,                  /* back: u32 who (or STARTER_HELPERS), u32 status */
};
int supervisor_fork_starter(struct supervisor *sv, int *ret_channel, pid_t *ret_pid,
                            struct err *err);

/* supervisor_egress.c; all but the first three do nothing without a policy. */
int supervisor_egress_prepare(struct supervisor *sv, struct err *err);
int supervisor_egress_start(struct supervisor *sv, struct err *err);
/* A channel has ended. */
void supervisor_egress_hung_up(struct supervisor *sv, struct loop_source *channel);
void supervisor_egress_stop(struct supervisor *sv);
/* The cell is going: let them say what they have to, and go. */
void supervisor_egress_finish(struct supervisor *sv);
bool supervisor_egress_is_over(const struct supervisor *sv);
/* -EBUSY when something is left in their cgroup. */
int supervisor_egress_close(struct supervisor *sv);

/* supervisor_events.c: one message of the courier's; -EAGAIN if there is none. */
int supervisor_hear_courier(struct supervisor *sv);
void supervisor_courier_ready(void *arg, uint32_t events);
/* Again, what there was no room for. */
void supervisor_hear_held(struct supervisor *sv);
/* The courier that said it has gone, and nobody waits for it. */
void supervisor_held_is_anothers(struct supervisor *sv);
void supervisor_tell_refusals(const struct supervisor *sv, const char *cell);

/* supervisor_timeline.c: every cell has one, if it can be had. */
void supervisor_timeline_begin(struct supervisor *sv);
/* 0 if it is open; else it is tried. */
int supervisor_timeline_open(struct supervisor *sv);
/* The courier starts: there is room for what it will tell, or it is told that there is none. */
void supervisor_timeline_egress(struct supervisor *sv);
/* There is another policy than the one that was kept beside it. */
void supervisor_timeline_keep_policy(struct supervisor *sv);
/* Whether LEN bytes may be put; nothing leaves the cell any more once it gets close. */
bool supervisor_timeline_has_room(struct supervisor *sv, size_t len);
/* Members of an event, as members_put() gives them; and then write all that was put. */
int supervisor_timeline_put(struct supervisor *sv, const char *members, size_t len);
int supervisor_timeline_write(struct supervisor *sv);
/* Something waits for what was written to be on the disk. */
void supervisor_timeline_sync(struct supervisor *sv);
/* The last record, signed, and tied to the operator's timeline; once only. */
void supervisor_timeline_end(struct supervisor *sv, int status, bool is_changed);
/* Timelines of others: that of one whose supervisor was killed is closed, and the oldest go. */
int supervisor_timeline_lost(void *arg, int dir, const char *id);
void supervisor_timeline_prune(struct supervisor *sv);
/* What befell the cell itself, and who did it; NOTE may be "". */
void supervisor_record(struct supervisor *sv, const char *did, const char *by, const char *note);
int supervisor_put_members(struct supervisor *sv, const struct members *members);
void supervisor_record_members(struct supervisor *sv, const struct members *members);

/* supervisor_operator.c: what was done to the cell is in the operator's timeline too: M, which was
 * recorded just now, as TYPE.  Nobody waits for who else writes there. */
void supervisor_tell_operator(struct supervisor *sv, const char *type, const struct members *m);
/* What still waits, now. */
void supervisor_tell_operator_all(struct supervisor *sv);

/* supervisor_fold.c: a record of the kind that the first N of its members make.  In floods EACH of
 * a kind are recorded one by one, the rest is counted: false. */
bool supervisor_record_folded(struct supervisor *sv, const struct members *m, size_t n, uint64_t each);
/* What was counted is told, the last time. */
void supervisor_fold_end(struct supervisor *sv);

/* supervisor_records.c */
int supervisor_record_boot(struct supervisor *sv, struct err *err);
void supervisor_put_end(struct supervisor *sv, int status, bool is_changed);     /* and not written yet */
void supervisor_record_setup(struct supervisor *sv, const char *path, int status);
void supervisor_record_exec(struct supervisor *sv, const char *by, char *const *argv);

/* supervisor_freeze.c; BY is for the record. */
int supervisor_freeze(struct supervisor *sv, const char *by, struct err *err);
int supervisor_thaw(struct supervisor *sv, const char *by, struct err *err);
/* While the approval ID is waited for; an operator's word goes before. */
int supervisor_freeze_for(struct supervisor *sv, const char *id, struct err *err);
void supervisor_thaw_after(struct supervisor *sv, const char *id);
/* SIGTSTP, the terminal's Ctrl-Z: the cell stands still with its supervisor, and goes on with it.  One
 * that cannot be frozen goes on, and so does the supervisor. */
void supervisor_suspend(struct supervisor *sv);
/* Whether what a policy says, to FREEZE or to kill, is still to be done.  Who stands still already
 * can be killed: an operator's thaw must not save them. */
bool supervisor_is_to_stop(const struct supervisor *sv, bool freeze);
/* The courier has seen an exfiltration: what the policy says for that.  What should be frozen
 * and cannot be is killed. */
void supervisor_alarm(struct supervisor *sv);

/* supervisor_notify.c: tells the operator's own programs, if there is a file that names any. */
/* Before the supervisor locks itself down. */
void supervisor_notify_start(struct supervisor *sv);
/* EVENT is "ask", "budget", "tripwire" or "consequence"; DATA a JSON object.  Of more than
 * NOTIFY_MINUTE_MAX in a minute, the last is told when that is over, with the number of others. */
void supervisor_notify(struct supervisor *sv, const char *event, const struct buf *data);
/* The same of DATA that does not say which cell it is of. */
void supervisor_notify_own(struct supervisor *sv, const char *event, const struct buf *data);

/* The cell ends: what waits for the minute to be over. */
void supervisor_notify_end(struct supervisor *sv);

/* supervisor_publish.c: the host's ports are taken before the cell is made. */
int supervisor_take_ports(struct supervisor *sv, struct err *err);
int supervisor_publish(struct supervisor *sv, struct err *err);
void supervisor_unpublish(struct supervisor *sv);

/* supervisor_end.c */
void supervisor_kill(struct supervisor *sv, enum supervisor_reason reason);
void supervisor_stop(struct supervisor *sv, uint64_t grace_ms, enum supervisor_reason reason);
/* The cell is dead: why, where neither the agent nor this process brought that about.  It was killed
 * without us (boundary/halt_force.h), or init ended it at its limit because we did not. */
void supervisor_find_reason(struct supervisor *sv);
/* Exit status for `run`; also fills in the cause. */
int supervisor_status(struct supervisor *sv);
/* Folders for the changes, each the inner root's, who will fill it. */
int supervisor_make_changes(struct supervisor *sv, struct err *err);
/* Keep what is to be kept, remove everything else. */
void supervisor_clean_up(struct supervisor *sv, int status);
/* If the last output is carried and init is reaped, leave the loop. */
void supervisor_check_end(struct supervisor *sv);

uint64_t supervisor_now_ns(void);       /* since 1970 */

/* To standard error.  Nobody may ever read it: a full pipe, or a terminal that was told to wait, must
 * not keep us from the cell.  Once that was so, the rest is not waited for. */
void supervisor_print(const char *text, size_t len);
/* One line there, safe on a terminal whatever is in it. */
void supervisor_complain(const char *text);
/* The same for what is no error: not when detached or with -q. */
void supervisor_say(const struct supervisor *sv, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
#endif
