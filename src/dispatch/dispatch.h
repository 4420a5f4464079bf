/* dispatch.h - registered agents put to work: resolved, queued, run in cells, their results kept.
 *
 * A dispatch is a row of the registry's database, committed before anything happens, and a
 * folder DATA/dispatches/ID/.  It is queued, starting, running, and then one of four ends.  Who
 * drives it holds a lock in its folder; what is not over and has no driver is adopted by the next
 * dispatcher that looks (dispatcher_recover).  Each attempt has one cell, whose id is committed
 * before the cell is started; its state entry is the claim that makes sure it is not started twice.
 *
 * Nothing here has a thread or prints.  Asynchronous parts live in the caller's struct loop. */
#ifndef CLOISTER_DISPATCH_H
#define CLOISTER_DISPATCH_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/hash.h"

struct err;
struct loop;
struct registry;

#define DISPATCH_ID_LEN 16              /* letters and digits */
#define DISPATCH_PREFIX_MIN 4           /* of an id that is cut short */
#define DISPATCH_ENVS_MAX 16
#define DISPATCH_CAPABILITIES_MAX 31    /* each may have a setup, and tools are checked by one more */
#define DISPATCH_SECRETS_MAX 128
#define DISPATCH_INPUT_MAX (64u << 20)
#define DISPATCH_KEY_MAX 255            /* an idempotency key; printable ASCII */
#define DISPATCH_AGENT_KEYS "agent/"    /* so begin the keys of agents, and no others */
#define DISPATCH_PRINCIPAL_MAX 255      /* UTF-8 without control characters */
#define DISPATCH_REASON_MAX 512
#define DISPATCH_RETRIES_MAX 100
#define DISPATCH_TIMEOUT_MAX (30ull * 24 * 3600 * 1000)   /* ms */
#define DISPATCH_BOOT_MAX 40            /* a boot id, with its NUL */
#define DISPATCH_DEPTH_MAX 16
#define DISPATCH_CHAIN_MAX 1025         /* "a/b/c", with its NUL */
#define DISPATCH_CONCURRENCY 32         /* unless something else is said */
#define DISPATCH_TOKEN_MAX (DISPATCH_ID_LEN + 1 + 64 + 1)  /* "ID.hex", with its NUL */
#define DISPATCH_OPEN_MAX 10000         /* that wait or run; agents may ask until half as many do */
#define DISPATCH_LIST_MAX 1000          /* rows of one page */
#define DISPATCH_FILES_MAX 10000        /* results: files of /out */
#define DISPATCH_FILES_BYTES_MAX (2ull << 30)
#define DISPATCH_EVENTS_OUTPUT_MAX (8u << 20)   /* of each stream; the rest is in the result only */

enum dispatch_state {
	DISPATCH_QUEUED, DISPATCH_STARTING, DISPATCH_RUNNING,
	/* Over: */
	DISPATCH_FINISHED, DISPATCH_FAILED, DISPATCH_CANCELLED, DISPATCH_TIMED_OUT,
	DISPATCH_STATES
};
/* "queued", "starting", ... "timed_out". */
const char *dispatch_state_name(enum dispatch_state state);
int dispatch_state_parse(const char *name, enum dispatch_state *ret_state);     /* or -EINVAL */
bool dispatch_state_is_over(enum dispatch_state state);

/* What is asked for.  All of it is borrowed. */
struct dispatch_request {
	const char *agent;              /* NAME or NAME@sha256:HEX */
	const char *const *envs;        /* likewise; n_envs of them */
	size_t n_envs;
	const void *input;              /* the agent's standard input; NULL: nothing */
	size_t input_len;
	const char *principal;          /* on whose behalf; NULL or "": the operator's own */
	const char *target;             /* NULL or "local" */
	uint64_t timeout_ms;            /* of each attempt; 0: what the agent's limits say */
	unsigned retries;
	const char *key;                /* idempotency key; NULL: none */
	/* The dispatch out of which this one is made, as the connection says and never the message;
	 * NULL: an operator's.  Keys of one parent's children are a space of their own. */
	const char *parent;
	bool by_agent;                  /* half of the queue is for others */
	/* Whoever asks drives it at once, with dispatcher_begin(): it does not wait if fewer than so
	 * many run, and *LOCK is its driver's lock, so that nobody adopts it in between (the caller's;
	 * -1 if there was such a dispatch already). */
	unsigned begin;
	int *lock;
	/* Told of a new one, ID, and of the hash of what it was resolved to (canonical JSON), before
	 * it is there: if that cannot be, it is not.  NULL: nobody. */
	int (*note)(void *arg, const char *id, const char *resolved, struct err *err);
	void *note_arg;
};

/* One row, as it is now. */
struct dispatch {
	int64_t seq;                    /* counts up; for paging */
	char id[DISPATCH_ID_LEN + 1];
	enum dispatch_state state;
	char *agent, *agent_hash;       /* "name", "sha256:..." */
	char *principal;                /* "" if nobody else's */
	char *parent;                   /* an id; "" if none */
	char *chain;                    /* names of agents down to this one */
	unsigned depth;                 /* 0 without a parent */
	char *target;
	char *policy_hash, *build_hash; /* "" where there is no policy: no network */
	unsigned retries, attempts;     /* attempts: begun so far */
	uint64_t timeout_ms;
	char *cell;                     /* the id of the last attempt's cell; "" before the first */
	char boot[DISPATCH_BOOT_MAX];   /* in which start of the machine that was */
	bool cancel, cancel_now;        /* was asked for; without any grace */
	uint64_t created_ms, started_ms, ended_ms;      /* realtime; 0: not yet */
	int exit_code;                  /* DISPATCH_FINISHED: the agent's; else -1 */
	char *reason;                   /* why it did not finish, or ""; one sentence */
};
void dispatch_free(struct dispatch *d);         /* its fields; for OWN() too */
/* As the API and --json show it: id, state, agent, exit_code, reason and so on; NULL when out of
 * memory.  The caller owns it. */
json_t *dispatch_to_json(const struct dispatch *d);

/* ---- resolving: dispatch_resolve.c, dispatch_build.c ---- */

/* "sha256:..." over all executables of this cloister. */
int dispatch_build_hash(char ret_hash[HASH_NAME + 1], struct err *err);

/* What a request means now: {"agent":{name,hash},"build":"sha256:..","capabilities":[{name,hash}],
 * "envs":[{name,hash}],"policy":{name?,hash}|null (the policy in force),"limits":{},"secrets":[..],
 * "target":"local",...}.  Nothing is written.  The caller owns *ret_resolved; for --dry-run. */
int dispatch_resolve(struct registry *reg, const struct dispatch_request *request,
                     json_t **ret_resolved, struct err *err);

/* ---- submitting: dispatch_submit.c ---- */

/* Resolve and queue.  When it returns 0 the dispatch is durable, and will be run once.  With a key
 * that was used before for the same request, the dispatch that there is (*ret_created false); for
 * another request, -EEXIST.  -EINVAL for what is wrong in the request, -ENOENT for names that there
 * are not, -EPERM for what a parent may not. */
int dispatch_submit(struct registry *reg, const struct dispatch_request *request,
                    char ret_id[DISPATCH_ID_LEN + 1], bool *ret_created, struct err *err);

/* ---- looking: dispatch_store.c ---- */

/* Whether somebody drives ID, of which there is a folder. */
bool dispatch_is_driven(const char *id);

/* ID, or DISPATCH_PREFIX_MIN letters or more of it that are no other's beginning.  -ENOENT,
 * -ENOTUNIQ.  The caller frees *ret_d. */
int dispatch_get(struct registry *reg, const char *id, struct dispatch *ret_d, struct err *err);
/* What ID, the whole of it, was resolved to, as dispatch_resolve() gives it; the caller owns it. */
int dispatch_get_resolved(struct registry *reg, const char *id, json_t **ret_resolved,
                          struct err *err);

struct dispatch_filter {
	int state;                      /* enum dispatch_state, or -1: all */
	const char *parent;             /* children of this one only; NULL: all */
	int64_t before;                 /* seq; only those below; 0: from the newest */
	unsigned limit;                 /* 0: DISPATCH_LIST_MAX */
};
/* The newest first.  A return other than 0 of EACH ends it, and is returned. */
int dispatch_list(struct registry *reg, const struct dispatch_filter *filter,
                  int (*each)(void *arg, const struct dispatch *d), void *arg, struct err *err);
/* How many are in each state. */
int dispatch_count(struct registry *reg, uint64_t ret_counts[DISPATCH_STATES], struct err *err);

/* ---- results: dispatch_result.c.  Of a dispatch that is over; -EBUSY before ---- */

enum dispatch_stream { DISPATCH_STDOUT, DISPATCH_STDERR };
/* An open descriptor of all of it, from its beginning; *ret_truncated: there was more.  While the
 * agent runs, what there is so far. */
int dispatch_open_output(struct registry *reg, const char *id, enum dispatch_stream stream,
                         bool *ret_truncated, struct err *err);
/* {"files":[{"executable":..,"hash":"sha256:..","path":"..","size":n}...],"skipped":n,
 * "truncated":bool}: regular files of /out, sorted by path.  The caller owns it. */
int dispatch_get_files(struct registry *reg, const char *id, json_t **ret_files, struct err *err);
/* One of them, by its path; a descriptor. */
int dispatch_open_file(struct registry *reg, const char *id, const char *path, struct err *err);
/* {"stdout":{hash,size,truncated},"stderr":{..},"files":{hash,count,size,..}}; null before the end. */
int dispatch_get_result(struct registry *reg, const char *id, json_t **ret_result, struct err *err);

/* ---- events: dispatch_events.c ---- */

/* DATA/dispatches/ID/events.jsonl, open for reading.  Lines of canonical JSON that only ever grow:
 * {"dispatch","event","n" (from 1, no gaps),"time",...}.  The last is dispatch.finished, and nothing
 * follows it.  A line is complete when its newline is there. */
int dispatch_open_events(struct registry *reg, const char *id, struct err *err);
/* Its path, for inotify; the caller owns it. */
char *dispatch_events_path(const char *id, struct err *err);

/* Whether there are some besides BUT (NULL: none) that are not over and that nobody drives. */
bool dispatch_has_orphans(struct registry *reg, const char *but);

/* ---- from inside a cell: dispatch_token.c, dispatch_mcp.c ---- */

/* An agent with `delegate` gets an address and a token, so that it can dispatch others: if there is
 * somebody at that address when it is resolved, who keeps this descriptor open.  There is no more
 * than one. */
int dispatch_mcp_announce(uint16_t port, struct err *err);
/* The port that was announced last, by whomever; 0: none was. */
uint16_t dispatch_mcp_last(void);
/* The running dispatch whose token this is, and what it was resolved to; the caller frees both.
 * -EACCES: it is nobody's, or no longer.  Takes as long whatever of the token is right. */
int dispatch_token_find(struct registry *reg, const char *token, struct dispatch *ret_d,
                        json_t **ret_resolved, struct err *err);
/* Whether AGENTS, of a `delegate`, has the agent NAME, version HASH, that REF asked for.  A bare name
 * stands for what it means now: one that was superseded is not for agents to bring back.  A pinned
 * one is meant. */
bool dispatch_may_ask_for(const json_t *agents, const char *name, const char *hash,
                          const char *ref);

/* ---- cancelling: dispatch_cancel.c ---- */

/* Asks for it and returns: queued ones are over at once, the cell of a running one is told to stop
 * and killed after GRACE_MS; its driver writes the end.  So it is with all that it has dispatched.
 * Of one that is over: -EALREADY. */
int dispatch_cancel(struct registry *reg, const char *id, uint64_t grace_ms, struct err *err);
/* The same of all that are not over, *ret_n of them, without any grace: none begins any more. */
int dispatch_cancel_all(struct registry *reg, unsigned *ret_n, struct err *err);

/* ---- the old ones: dispatch_prune.c ---- */

#define DISPATCH_KEPT 10000             /* that are over, unless something else is said */
#define DISPATCH_KEPT_MS (30ull * 24 * 3600 * 1000)
#define DISPATCH_PRUNE_BATCH 100
struct dispatch_pruning {
	uint64_t older_ms, keep;        /* what ended before, and all but the newest that are over */
	bool dry_run;                   /* only count */
	/* These are going to be removed; if that cannot be written down, they are not. */
	int (*note)(void *arg, const char *const *ids, size_t n, struct err *err);
	void *arg;
};
struct dispatch_pruned {
	uint64_t dispatches, blobs, bytes;
};
/* Remove dispatches that are over, with their folders and keys, and then blobs that nothing refers
 * to.  Timelines have a retention of their own. */
int dispatch_prune(struct registry *reg, const struct dispatch_pruning *how,
                   struct dispatch_pruned *ret_pruned, struct err *err);

/* ---- driving: dispatcher.c ---- */

struct dispatcher;                      /* opaque */

struct dispatcher_options {
	unsigned concurrency;           /* running at a time, over all dispatchers of this data folder;
	                                 * 0: DISPATCH_CONCURRENCY */
	/* Now and then a process of ours prunes what is over for so long; 0: none does.  Only while
	 * adopting. */
	uint64_t prune_ms;
	/* A dispatch that we drive went on: its state changed or events were written.  Not called
	 * from within dispatcher_take(); may call anything but dispatcher_free(). */
	void (*changed)(void *arg, const char *id, enum dispatch_state state);
	/* One that we drove is over and let go of: dispatcher_driven() is less. */
	void (*over)(void *arg);
	void *arg;
};
/* LOOP and REG are borrowed until dispatcher_free().  It watches the queue itself: others' places
 * that come free, and dispatches that lost their driver. */
int dispatcher_new(struct loop *loop, struct registry *reg, const struct dispatcher_options *options,
                   struct dispatcher **ret_dispatcher, struct err *err);
/* Lets go of all that it drives: cells go on, and whoever comes next adopts them. */
void dispatcher_free(struct dispatcher *dispatcher);    /* NULL is fine */
void dispatcher_freep(struct dispatcher **dispatcher);

/* Drive ID, which was just submitted: begins it now or when there is a place.  -EBUSY: somebody
 * else drives it already; -EALREADY: it is over. */
int dispatcher_take(struct dispatcher *dispatcher, const char *id, struct err *err);
/* As dispatcher_take(), of one that was submitted here with `begin`; LOCK is taken over. */
int dispatcher_begin(struct dispatcher *dispatcher, const char *id, int lock, struct err *err);
/* Adopt all that are not over and have no driver; *ret_n of them (may be NULL).  Also clears what
 * crashes left behind.  A dispatcher repeats it by itself while it is ADOPTING (serve). */
int dispatcher_recover(struct dispatcher *dispatcher, size_t *ret_n, struct err *err);
void dispatcher_set_adopting(struct dispatcher *dispatcher, bool adopting);
/* How many are driven here now, queued ones included. */
size_t dispatcher_driven(const struct dispatcher *dispatcher);
/* Begin no more, and adopt none: for a graceful stop.  Those that run are still driven. */
void dispatcher_drain(struct dispatcher *dispatcher);
#endif
