/* dispatch.h - runs registered agents: resolves, queues and runs them in cells, and keeps their
 * results.
 *
 * A dispatch is a row of the registry's database, committed before anything happens, and a folder
 * DATA/dispatches/ID/.  It is queued, starting, running, and then in one of four final states.  Its
 * driver holds a lock in its folder.  The next dispatcher that looks (dispatcher_recover) adopts
 * every unfinished dispatch without a driver.  Each attempt has one cell, whose id is committed
 * before the cell is started.  The id is the claim that keeps it from being started twice.
 *
 * A target (target/target.h) runs the cells.  Whether a cell lives, what it prints and what it left
 * are known through the target alone.
 *
 * Nothing here has a thread or prints.  Asynchronous parts live in the caller's struct loop. */
#ifndef CLOISTER_DISPATCH_H
#define CLOISTER_DISPATCH_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "canon/hash.h"
#include "store/db.h"

struct err;
struct loop;
struct registry;

#define DISPATCH_ID_LEN 16              /* letters and digits */
#define DISPATCH_PREFIX_MIN 4           /* of an abbreviated id */
#define DISPATCH_ENVS_MAX 16
#define DISPATCH_CAPABILITIES_MAX 31    /* each may have a setup, plus one that checks tools */
#define DISPATCH_SECRETS_MAX 128
#define DISPATCH_INPUT_MAX (64u << 20)
#define DISPATCH_TARGET "local"         /* the default */
#define DISPATCH_KEY_MAX 255            /* an idempotency key; printable ASCII */
#define DISPATCH_AGENT_KEYS "agent/"    /* prefix of the keys of agents, and of no others */
#define DISPATCH_PRINCIPAL_MAX 255      /* UTF-8 without control characters */
#define DISPATCH_REASON_MAX 512
#define DISPATCH_RETRIES_MAX 100
#define DISPATCH_TIMEOUT_MAX (30ull * 24 * 3600 * 1000)   /* ms */
#define DISPATCH_SANDBOX_TIME "1h"      /* of a sandbox without a time limit */
#define DISPATCH_BOOT_MAX 40            /* a boot id, with its NUL */
#define DISPATCH_DEPTH_MAX 16
#define DISPATCH_CHAIN_MAX 1025         /* "a/b/c", with its NUL */
#define DISPATCH_CONCURRENCY 32         /* the default */
#define DISPATCH_TOKEN_MAX (DISPATCH_ID_LEN + 1 + 64 + 1)  /* "ID.hex", with its NUL */
#define DISPATCH_OPEN_MAX 10000         /* waiting or running; agents may only fill half of it */
#define DISPATCH_LIST_MAX 1000          /* rows of one page */
#define DISPATCH_FILES_MAX 10000        /* results: files of /out */
#define DISPATCH_FILES_BYTES_MAX (2ull << 30)
#define DISPATCH_EVENTS_OUTPUT_MAX (8u << 20)   /* of each stream; the rest is only in the result */

enum dispatch_state {
	DISPATCH_QUEUED, DISPATCH_STARTING, DISPATCH_RUNNING,
	/* Final: */
	DISPATCH_FINISHED, DISPATCH_FAILED, DISPATCH_CANCELLED, DISPATCH_TIMED_OUT,
	DISPATCH_STATES
};
/* "queued", "starting", ... "timed_out". */
uint64_t dispatch_now_ms(void);         /* realtime */
const char *dispatch_state_name(enum dispatch_state state);
int dispatch_state_parse(const char *name, enum dispatch_state *ret_state);     /* or -EINVAL */
bool dispatch_state_is_over(enum dispatch_state state);

/* What the operator's timeline records of a new dispatch.  All of it is borrowed. */
struct dispatch_note {
	const char *id;
	const char *resolved;           /* the hash of its resolution (canonical JSON) */
	const char *image;              /* the digest of its image; NULL: none */
	const char *programs;           /* lines "HASH FILE": the programs that it starts; NULL: none */
};

/* A request for a dispatch.  All of it is borrowed. */
struct dispatch_request {
	const char *agent;              /* NAME or NAME@sha256:HEX */
	const char *const *envs;        /* likewise; n_envs of them */
	size_t n_envs;
	/* Granted for this dispatch only: what the agent's `grantable` names. */
	const char *const *capabilities;
	size_t n_capabilities;
	const char *const *secrets;     /* NAME, or as `run -s` takes them */
	size_t n_secrets;
	const char *image;              /* the root of its cell; "": cloister's own; NULL: the agent's root */
	const char *record;             /* acts or full: no less is recorded than that; NULL: as the agent says */
	const void *input;              /* the agent's standard input; NULL: nothing */
	size_t input_len;
	const char *principal;          /* the user it acts for; NULL or "": the operator */
	const char *target;             /* where it runs; NULL: DISPATCH_TARGET */
	uint64_t timeout_ms;            /* of each attempt; 0: from the agent's limits */
	unsigned retries;
	const char *key;                /* idempotency key; NULL: none */
	bool sandbox;                   /* only if the agent is registered as one: else -EPERM */
	/* The dispatch that makes this one, known from the connection, never from the message;
	 * NULL: an operator's.  The children of each parent have their own space of keys. */
	const char *parent;
	bool by_agent;                  /* half of the queue is reserved for others */
	/* The caller drives it at once, with dispatcher_begin(): it does not wait if fewer than so
	 * many run.  *LOCK is its driver's lock, so that nobody adopts it in between (the caller
	 * owns it; -1 if the dispatch existed already). */
	unsigned begin;
	int *lock;
	/* Called before a new one exists.  If this fails, it is not created.  NULL: none. */
	int (*note)(void *arg, const struct dispatch_note *note, struct err *err);
	void *note_arg;
};

/* One row, in its current state. */
struct dispatch {
	int64_t seq;                    /* counts up; for paging */
	char id[DISPATCH_ID_LEN + 1];
	enum dispatch_state state;
	char *agent, *agent_hash;       /* "name", "sha256:..." */
	char *principal;                /* "" for the operator's own */
	char *parent;                   /* an id; "" if none */
	char *chain;                    /* names of agents down to this one */
	unsigned depth;                 /* 0 without a parent */
	char *target;
	char *policy_hash, *build_hash; /* "" without a policy: no network */
	unsigned retries, attempts;     /* attempts: begun so far */
	uint64_t timeout_ms;
	char *cell;                     /* the id of the last attempt's cell; "" before the first */
	bool mine;                      /* this data folder asked for it */
	char home[DB_HOME_MAX];         /* whose data folder has it; "": nobody's yet, or there is only one */
	char origin[DB_HOME_MAX];       /* whose data folder asked */
	uint64_t claim;                 /* how often a worker took it: the number of its claim */
	bool away;                      /* another data folder's, or nobody's yet */
	char boot[DISPATCH_BOOT_MAX];   /* the boot of the machine in which that was */
	bool cancel, cancel_now;        /* was requested; without any grace */
	uint64_t created_ms, started_ms, ended_ms;      /* realtime; 0: not yet */
	int exit_code;                  /* DISPATCH_FINISHED: the agent's; else -1 */
	char *reason;                   /* why it did not finish, or ""; one sentence */
	char *resolved;                 /* canonical JSON, of dispatch_get() and of a claim; else NULL */
};
void dispatch_free(struct dispatch *d);         /* its fields; for OWN() too */
/* The JSON for the API and --json: id, state, agent, exit_code, reason and so on; NULL when out of
 * memory.  The caller owns it. */
json_t *dispatch_to_json(const struct dispatch *d);

/* ---- resolving: dispatch_resolve.c, dispatch_build.c ---- */

/* "sha256:..." over all executables of this cloister. */
int dispatch_build_hash(char ret_hash[HASH_NAME + 1], struct err *err);

/* Resolves a request: {"agent":{name,hash},"build":"sha256:..","capabilities":[{name,hash}],
 * "envs":[{name,hash}],"policy":{name?,hash}|null (the policy in force),"limits":{},"secrets":[..],
 * "target":"local",...}.  Writes nothing, except that an image that is missing is brought into the
 * store.  The caller owns *ret_resolved; for --dry-run. */
int dispatch_resolve(struct registry *reg, const struct dispatch_request *request,
                     json_t **ret_resolved, struct err *err);

/* ---- submitting: dispatch_submit.c ---- */

/* Resolves and queues a request.  When it returns 0 the dispatch is durable, and will be run once.
 * If its key was used before for the same request, returns that dispatch (*ret_created false); for
 * another request, -EEXIST.  -EINVAL for errors in the request, -ENOENT for unknown names, -EPERM
 * for what its parent may not do. */
int dispatch_submit(struct registry *reg, const struct dispatch_request *request,
                    char ret_id[DISPATCH_ID_LEN + 1], bool *ret_created, struct err *err);

/* ---- queries: dispatch_store.c ---- */

/* Whether ID, which has a folder, has a driver. */
bool dispatch_is_driven(const char *id);

/* ID may be cut to DISPATCH_PREFIX_MIN letters or more if that is unambiguous.  -ENOENT, -ENOTUNIQ.
 * The caller frees *ret_d. */
int dispatch_get(struct registry *reg, const char *id, struct dispatch *ret_d, struct err *err);
/* Its row as it is, by its exact id. */
int dispatch_read(struct db *db, const char *id, struct dispatch *ret_d, struct err *err);
/* The resolution of ID (in full), as dispatch_resolve() returns it; the caller owns it. */
int dispatch_get_resolved(struct registry *reg, const char *id, json_t **ret_resolved,
                          struct err *err);

/* The same of one that dispatch_get() has filled. */
int dispatch_read_resolved(const struct dispatch *d, json_t **ret_resolved, struct err *err);

struct dispatch_filter {
	int state;                      /* enum dispatch_state, or -1: all */
	const char *parent;             /* children of this one only; NULL: all */
	int64_t before;                 /* seq; only those below; 0: from the newest */
	unsigned limit;                 /* 0: DISPATCH_LIST_MAX */
};
/* The newest first.  If EACH returns other than 0, that ends the list and is returned. */
int dispatch_list(struct registry *reg, const struct dispatch_filter *filter,
                  int (*each)(void *arg, const struct dispatch *d), void *arg, struct err *err);
/* The number of dispatches in each state. */
int dispatch_count(struct registry *reg, uint64_t ret_counts[DISPATCH_STATES], struct err *err);
/* Calls EACH for every pool that has a dispatch that is not over.  OLDEST_MS: when the first that waits was asked for;
 * 0: none waits. */
int dispatch_count_pools(struct registry *reg, void (*each)(void *arg, const char *pool, uint64_t waiting, uint64_t taken,
                         uint64_t oldest_ms), void *arg, struct err *err);

/* ---- slots in reserve: dispatch_reserve.c ---- */

#define DISPATCH_RESERVE_MS 60000       /* a reserve that is not renewed is over then */
#define DISPATCH_RESERVES_MAX 256       /* of a registry */
#define DISPATCH_RESERVE_AGENTS "agents/"       /* names of agents' reserves begin so: at most half of all are theirs */
#define DISPATCH_RESERVE_NAME_MAX 96
#define DISPATCH_TARGET_MAX 48          /* "pool:NAME", with its NUL */
struct dispatch_reserve {
	const char *name;               /* whose it is: another one of this name takes its place */
	const char *agent;              /* registered with `sandbox: true` */
	unsigned slots;                 /* 0: releases it, and AGENT may be NULL */
	unsigned local;                 /* how many dispatches run on this machine at a time */
};
struct dispatch_reserved {
	char target[DISPATCH_TARGET_MAX];       /* of the agent; "" if it was released */
	unsigned slots;                 /* at most what the target can have */
	unsigned free;                  /* of these, how many a dispatch could take at once */
	bool changed;                   /* it is not a renewal */
};
/* Keeps slots ready for dispatches of an agent: the autoscaler counts them, and idle workers of its pool stay.  They are
 * kept from nobody.  -EDQUOT: there are too many reserves. */
int dispatch_reserve(struct registry *reg, const struct dispatch_reserve *ask, struct dispatch_reserved *ret_reserved,
                     struct err *err);
/* Those of a pool, and how many slots of its workers are free; RET_FREE may be NULL. */
int dispatch_count_reserves(struct registry *reg, const char *pool, uint64_t *ret_slots, uint64_t *ret_free, struct err *err);
/* Calls EACH for every pool that has some. */
int dispatch_each_reserved(struct registry *reg, void (*each)(void *arg, const char *pool, uint64_t slots), void *arg,
                           struct err *err);
/* What is known of the registered target NAME with CONTENT: fleet_row_json(), "reserved" and "free".  The caller owns it; NULL
 * when out of memory. */
json_t *dispatch_target_status(struct registry *reg, const char *name, const json_t *content);
/* [{"name","target","agent","slots","left_ms"}...]: the caller owns it. */
int dispatch_list_reserves(struct registry *reg, json_t **ret_list, struct err *err);

/* ---- results: dispatch_result.c.  For a dispatch that is over; -EBUSY before ---- */

enum dispatch_stream { DISPATCH_STDOUT, DISPATCH_STDERR };
/* A descriptor of the whole output, from its beginning; *ret_truncated: there was more.  While the
 * agent runs, the output so far. */
int dispatch_open_output(struct registry *reg, const char *id, enum dispatch_stream stream,
                         bool *ret_truncated, struct err *err);
/* {"files":[{"executable":..,"hash":"sha256:..","path":"..","size":n}...],"skipped":n,
 * "truncated":bool}: regular files of /out, sorted by path.  The caller owns it. */
int dispatch_get_files(struct registry *reg, const char *id, json_t **ret_files, struct err *err);
/* One of them, by its path: a descriptor. */
int dispatch_open_file(struct registry *reg, const char *id, const char *path, struct err *err);
/* {"stdout":{hash,size,truncated},"stderr":{..},"files":{hash,count,size,..}}; null before the end. */
int dispatch_get_result(struct registry *reg, const char *id, json_t **ret_result, struct err *err);

/* ---- events: dispatch_events.c ---- */

/* DATA/dispatches/ID/events.jsonl, open for reading.  Lines of canonical JSON, only ever appended:
 * {"dispatch","event","n" (from 1, no gaps),"time",...}.  The last is dispatch.finished, and
 * nothing follows it.  A line is complete when its newline is there. */
int dispatch_open_events(struct registry *reg, const char *id, struct err *err);
/* Its path, for inotify; the caller owns it. */
char *dispatch_events_path(const char *id, struct err *err);

/* Whether there are unfinished dispatches without a driver, apart from BUT (NULL: none). */
bool dispatch_has_orphans(struct registry *reg, const char *but);

/* ---- from inside a cell: dispatch_token.c, dispatch_mcp.c ---- */

/* An agent with `delegate` gets an address and a token, so that it can dispatch others: if a
 * service listens at that address when the agent is resolved.  The service keeps this descriptor
 * open.  There is at most one. */
int dispatch_mcp_announce(uint16_t port, struct err *err);
/* The port that was announced last, by any process; 0: none was. */
uint16_t dispatch_mcp_last(void);
/* The running dispatch with this token, and its resolution; the caller frees both.  -EACCES: the
 * token belongs to none, or no longer.  Takes equally long however much of the token is right. */
int dispatch_token_find(struct registry *reg, const char *token, struct dispatch *ret_d,
                        json_t **ret_resolved, struct err *err);
/* Whether AGENTS, of a `delegate`, permits the agent NAME, version HASH, that REF asked for.  A
 * bare name permits only its current version: agents may not bring back a superseded one.  A pinned
 * reference permits exactly that version. */
bool dispatch_may_ask_for(const json_t *agents, const char *name, const char *hash,
                          const char *ref);

/* ---- secrets for a worker: dispatch_lend.c ---- */

#define DISPATCH_LENT_MAX 64
/* What a worker says that it has.  All of it is borrowed. */
struct dispatch_claimed {
	const char *id;                 /* of a dispatch */
	uint64_t claim;
	const char *worker;             /* its data folder, and the pool that it may work for ("": any): both known from its
	                                 * connection, never from the message */
	const char *pool;
};
/* The names of the secrets that its document gives to the cell; strv_free().  -EPERM: this data folder did not ask for the
 * dispatch, or the claim is not the worker's.  -EAGAIN: it is over, and nobody else has it yet. */
int dispatch_lent_names(struct registry *reg, const struct dispatch_claimed *claimed, char ***ret_names, struct err *err);

/* ---- attempts of workers: dispatch_pool.c ---- */

/* Whether WORKER, a data folder, had CELL for an attempt of the dispatch ID. */
bool dispatch_had_cell(struct db *db, const char *id, const char *cell, const char *worker);

/* ---- cancelling: dispatch_cancel.c ---- */

/* Requests it and returns.  Queued ones are over at once.  The cell of a running one is asked to
 * stop and killed after GRACE_MS; its driver writes the end.  The same happens to all that it has
 * dispatched.  -EALREADY if it is over. */
int dispatch_cancel(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err);
/* The same for all that are not over, *ret_n of them, without any grace.  No new one starts. */
int dispatch_cancel_all(struct registry *reg, unsigned *ret_n, struct err *err);

/* ---- removing old ones: dispatch_prune.c ---- */

#define DISPATCH_KEPT 10000             /* finished ones to keep, by default */
#define DISPATCH_KEPT_MS (30ull * 24 * 3600 * 1000)
#define DISPATCH_PRUNE_BATCH 100
struct dispatch_pruning {
	uint64_t older_ms, keep;        /* remove those that ended before, and all but the newest */
	bool dry_run;                   /* only count */
	/* Called before these are removed; if it fails, they are not. */
	int (*note)(void *arg, const char *const *ids, size_t n, struct err *err);
	void *arg;
};
struct dispatch_pruned {
	uint64_t dispatches, blobs, bytes;
};
/* Removes dispatches that are over, with their folders and keys, and then blobs that nothing refers
 * to.  Timelines have a retention of their own. */
int dispatch_prune(struct registry *reg, const struct dispatch_pruning *how,
                   struct dispatch_pruned *ret_pruned, struct err *err);

/* ---- driving: dispatcher.c ---- */

struct dispatcher;                      /* opaque */

struct dispatcher_options {
	const char *pool;               /* takes what waits for it, as a worker; NULL: none */
	bool bare;                      /* of that, only what the boundary `process` can hold */
	unsigned concurrency;           /* running at a time, over all dispatchers of this data
	                                 * folder; 0: DISPATCH_CONCURRENCY */
	/* From time to time a process prunes dispatches that ended this long ago; 0: none does.
	 * Only while adopting. */
	uint64_t prune_ms;
	bool held;                      /* takes nothing of POOL before dispatcher_release() */
	bool lent;                      /* services lend the secrets of what is claimed here; else they are this machine's */
	/* A driven dispatch made progress: its state changed or events were written.  Not called
	 * from within dispatcher_take(); may call anything but dispatcher_free(). */
	void (*changed)(void *arg, const char *id, enum dispatch_state state);
	/* A driven dispatch is over and dropped: dispatcher_driven() is less. */
	void (*over)(void *arg);
	void *arg;
};
/* LOOP and REG are borrowed until dispatcher_free().  It watches the queue itself: places that come
 * free elsewhere, and dispatches that lost their driver. */
int dispatcher_new(struct loop *loop, struct registry *reg, const struct dispatcher_options *options,
                   struct dispatcher **ret_dispatcher, struct err *err);
/* Releases all that it drives: their cells go on, and the next dispatcher adopts them. */
void dispatcher_free(struct dispatcher *dispatcher);    /* NULL is fine */
OWN_BY(dispatcher_freep, struct dispatcher *, dispatcher_free)

/* Drives ID, which was just submitted: begins it now or when there is a place.  -EBUSY: it already
 * has a driver; -EALREADY: it is over. */
int dispatcher_take(struct dispatcher *dispatcher, const char *id, struct err *err);
/* Like dispatcher_take(), for one that was submitted here with `begin`.  Takes ownership of LOCK. */
int dispatcher_begin(struct dispatcher *dispatcher, const char *id, int lock, struct err *err);
/* Adopts all unfinished dispatches without a driver; *ret_n of them (may be NULL).  Also clears
 * what crashes left behind.  A dispatcher repeats it by itself while it is ADOPTING (serve). */
int dispatcher_recover(struct dispatcher *dispatcher, size_t *ret_n, struct err *err);
void dispatcher_set_adopting(struct dispatcher *dispatcher, bool adopting);
/* How many are driven here now, queued ones included. */
size_t dispatcher_driven(const struct dispatcher *dispatcher);
/* From now on it takes what waits for its pool. */
void dispatcher_release(struct dispatcher *dispatcher);
/* Begins and adopts no more: for a graceful stop.  Those that run are still driven. */
void dispatcher_drain(struct dispatcher *dispatcher);
#endif
