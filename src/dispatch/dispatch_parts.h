/* dispatch_parts.h - shared by the files of src/dispatch. */
#ifndef CLOISTER_DISPATCH_PARTS_H
#define CLOISTER_DISPATCH_PARTS_H
#include <limits.h>
#include <sys/types.h>

#include "canon/hash.h"
#include "cell/cell_spec.h"
#include "dispatch/dispatch.h"
#include "target/target.h"

struct policy;
struct policy_limits;
struct child;
struct buf;
struct db;
struct db_query;
struct dispatch_plan;
struct policy_boundary;
struct policy_images;

#define DISPATCH_POLICY_FILE "policy.json"
#define DISPATCH_TOOLS_FILE "tools"
#define DISPATCH_RESULT_FILE "result.json"
#define DISPATCH_EVENTS_FILE "events.jsonl"
#define DISPATCH_ASKED_FILE "asked.json"        /* the resolution, of dispatches that were asked for here */
#define DISPATCH_TIME_MAX 32
#define DISPATCH_JSON_MAX (16u << 20)   /* of any own file that is read back */
#define DISPATCH_RESULT_MAX (64u << 10) /* result.json */

/* Paths in the cell. */
#define DISPATCH_OUT CELL_OUT
#define DISPATCH_CAPABILITIES CELL_CAPABILITIES
#define DISPATCH_TOOLS DISPATCH_CAPABILITIES "/.tools"

/* ---- dispatch_dirs.c ---- */

char *dispatch_show_time(char text[DISPATCH_TIME_MAX], uint64_t ms);    /* "2026-11-15T16:00:00.000Z" */
/* The id of the machine's current boot. */
bool dispatch_boot(char ret_boot[DISPATCH_BOOT_MAX]);
bool dispatch_is_of_this_boot(const char *boot);
bool dispatch_id_ok(const char *id);
int dispatch_make_id(char ret_id[DISPATCH_ID_LEN + 1], struct err *err);

int dispatch_top(struct err *err);      /* DATA/dispatches, created if missing; a descriptor */
/* DATA/dispatches/ID; a descriptor. */
int dispatch_folder(const char *id, bool make, struct err *err);
/* For a new dispatch; quicker if a folder was prepared. */
int dispatch_new_folder(const char *id, struct err *err);
void dispatch_prepare_folder(void);
char *dispatch_path(const char *id, const char *name, struct err *err); /* the caller owns it */
/* The resolution of ID, which was asked for with this data folder.  Others write to a shared database, too, so it is then read
 * from the file that only this machine writes.  -EPERM: there is none. */
int dispatch_get_asked(struct registry *reg, const char *id, json_t **ret_resolved, struct err *err);
/* The resolution to run D by, on this machine. */
int dispatch_get_to_run(struct registry *reg, const struct dispatch *d, json_t **ret_resolved, struct err *err);
/* Becomes its driver: returns a descriptor that holds the lock, or -EBUSY. */
int dispatch_lock(const char *id, struct err *err);
/* Wakes all processes that wait for a place, or for news of their own dispatches. */
void dispatch_tell(void);
/* It is over: removes files that only its cells needed, and its resolution, so that it never runs again. */
void dispatch_tidy(const char *id);
/* Whether that was not done yet, of one that was asked for here. */
bool dispatch_is_untidy(const char *id);
/* An empty folder, which every /out shows before its cell writes: a descriptor, and its path, which
 * the caller owns. */
int dispatch_empty(struct err *err);
char *dispatch_empty_path(struct err *err);
/* Removes the folder of ID, which has no row. */
void dispatch_remove_folder(const char *id);
/* Writes NAME in FOLDER as a whole, or not at all; durable with SYNC. */
int dispatch_write_file(int folder, const char *name, const void *data, size_t len, bool sync,
                        struct err *err);

/* ---- dispatch_events.c ---- */

/* The events of a driven dispatch. */
struct dispatch_log {
	int fd;
	char id[DISPATCH_ID_LEN + 1];
	uint64_t n;                     /* of the last */
	uint64_t size;                  /* of the file, in all attempts */
	/* For the cell whose events were begun last: */
	char cell[CELL_ID_LEN + 1];
	uint64_t steps;                 /* recorded */
	uint64_t output[2];             /* bytes of each stream recorded */
	uint64_t setup[2];              /* bytes of each stream that setups wrote, as far as known */
	bool cut[2];
	json_t *end;                    /* dispatch.finished, if that is the last event; else NULL */
};
/* A new, empty file. */
int dispatch_log_make(int folder, const char *id, struct dispatch_log *ret_log, struct err *err);
/* The file may end in the middle of a line, which is then removed. */
int dispatch_log_open(const char *id, struct dispatch_log *ret_log, struct err *err);
void dispatch_log_close(struct dispatch_log *log);      /* for OWN() too */
/* MEMBERS, of which it takes ownership, are the event's own members; may be NULL. */
int dispatch_log_put(struct dispatch_log *log, const char *event, json_t *members, bool sync,
                     struct err *err);
#define DISPATCH_LINE_MAX (4u << 20)    /* bytes of one event */
struct buf;
/* Appends the event's line, with its end, to B; LINE has its own members. */
int dispatch_put_line(struct buf *b, const char *id, uint64_t n, const char *event, json_t *line, struct err *err);
/* Records the agent's output, in one event or several.  With MORE to come, an incomplete character
 * at the end is left: log->output has how far it got. */
int dispatch_log_output(struct dispatch_log *log, enum dispatch_stream stream, const char *data,
                        size_t len, bool more, struct err *err);

/* dispatch.finished, if that is the last event; else NULL.  The row will follow in a moment, and
 * callers must already see the end.  The caller owns it. */
json_t *dispatch_peek_end(const char *id);
/* The event on LINE, if it is dispatch.finished; else NULL.  The caller owns it. */
json_t *dispatch_read_end(const char *line, size_t len);

/* ---- dispatch_reserve.c ---- */

#define DISPATCH_SEEN_MS 30000          /* a worker that was not seen for so long is none */
#define DISPATCH_SEEN_EVERY_MS 10000
/* This data folder is a worker with so many slots, for DISPATCH_SEEN_MS. */
int dispatch_worker_stays(struct db *db, const char *pool, unsigned slots, struct err *err);
void dispatch_worker_leaves(struct db *db);
/* Whether a worker without work is not needed for a reserve; then it counts as one no more. */
bool dispatch_worker_may_leave(struct registry *reg, const char *pool);

/* ---- dispatch_resolve.c ---- */

/* Where dispatches of AGENT run, which is registered with `sandbox: true`, and how many at a time there at most. */
int dispatch_find_place(struct registry *reg, const char *agent, char ret_target[DISPATCH_TARGET_MAX], uint64_t *ret_slots,
                        struct err *err);

/* ---- dispatch_policy.c ---- */

/* The policy in force: DOCUMENT (NULL: none) followed by the rules of capabilities.  Rules that
 * earlier ones make unreachable are left out.  *ret_policy NULL: no rule, no network. */
int dispatch_policy_merge(const json_t *document, json_t *const *rules, size_t n,
                          json_t **ret_policy, struct err *err);

/* As policy_load_text(), for a policy that may have tools: those of its capabilities. */
int dispatch_policy_load(const char *name, const char *text, size_t len, struct policy **ret_policy,
                         struct policy_limits *ret_limits, struct err *err);

/* DOCUMENT (NULL: none) with RULE in front, without rules that it makes unreachable. */
int dispatch_policy_front(const json_t *document, json_t *rule, json_t **ret_policy,
                          struct err *err);

/* ---- dispatch_module.c: capabilities of type `wasm`, which are servers of tools ---- */

bool dispatch_is_module(const json_t *capability);
/* The rules that let an agent call its tools; OWNED, an array, keeps them.  NULL: out of memory. */
json_t *dispatch_module_rules(const json_t *capability, json_t *owned);
/* Puts the servers into POLICY.  CONTENTS are those of the objects NAMED. */
int dispatch_module_servers(json_t *const *contents, const json_t *named, json_t *policy, struct err *err);

/* ---- dispatch_mcp.c ---- */

/* Whether the agent of PLAN can dispatch others from its cell.  If so, "mcp" in the resolution has
 * the "url", and the policy in force a rule for it; else "mcp" has a "reason".  An agent without
 * `delegate` has no "mcp".  PARENT is its parent's resolution; NULL: none. */
int dispatch_mcp_offer(const json_t *parent, struct dispatch_plan *plan, struct err *err);

/* ---- dispatch_token.c ---- */

/* A new token for D, which is about to run; the one before it becomes invalid. */
int dispatch_token_mint(struct db *db, const struct dispatch *d,
                        char ret_token[DISPATCH_TOKEN_MAX], struct err *err);
/* The agent has ended. */
int dispatch_token_drop(struct db *db, const char *id, struct err *err);

/* ---- dispatch_resolve.c ---- */

struct dispatch_plan {
	json_t *resolved;
	char *policy;                   /* canonical JSON; NULL: there is none */
	size_t policy_len;
	char *programs;                 /* lines "HASH FILE", for the record */
	char *outer;                    /* of a child: the nearest policy that it is within; NULL: none */
	size_t outer_len;
};
void dispatch_plan_free(struct dispatch_plan *plan);    /* for OWN() too */
int dispatch_plan_make(struct registry *reg, const struct dispatch_request *request,
                       struct dispatch_plan *ret_plan, struct err *err);
int dispatch_check_request(const struct dispatch_request *request, struct err *err);
/* Member NAME of OBJECT, if it is a string; else "". */
const char *dispatch_text(const json_t *object, const char *name);
/* Whether an object in LIST has TEXT as its member NAME. */
bool dispatch_lists(const json_t *list, const char *name, const char *text);
/* The hash of VALUE as canonical JSON, of at most MAX bytes. */
int dispatch_hash_json(json_t *value, size_t max, char ret_hash[HASH_NAME + 1], struct err *err);

/* ---- dispatch_layers.c ---- */

#define DISPATCH_LAYERS_MAX 128
#define DISPATCH_MINIMAL "minimal:"     /* the image of cloister's own */

/* The root of a cell, to look at.  {0} is one without any file. */
struct dispatch_root {
	bool is_host;                   /* of the host, a cell sees only a few folders */
	bool is_engines;                /* the layers are a container engine's */
	int layers[DISPATCH_LAYERS_MAX];        /* folders, the lowest first */
	char *paths[DISPATCH_LAYERS_MAX];
	size_t n;
	char *search;                   /* PATH of an image; NULL: the usual one */
};
void dispatch_root_close(struct dispatch_root *root);   /* for OWN() too */
int dispatch_root_add(struct dispatch_root *root, const char *path, struct err *err);

struct dispatch_found {
	int fd;                         /* the caller closes it */
	char file[PATH_MAX];            /* its path in the cell, without links */
	char host[PATH_MAX + PATH_MAX]; /* its path on this machine */
};
/* The program at PATH in the cell: -ENOENT if there is none. */
int dispatch_root_find(const struct dispatch_root *root, const char *path, struct dispatch_found *ret_found);

/* ---- dispatch_root.c ---- */

/* Decides on the root: "root" of RESOLVED, and for an image "image", which is loaded if it is missing.
 * The caller closes *ret_root. */
int dispatch_root_resolve(struct registry *reg, const struct dispatch_request *request, const json_t *agent,
                          json_t *resolved, struct dispatch_root *ret_root, struct err *err);
/* Whether the root meets "images" of RESOLVED, which has the requirements of its ancestors by now. */
int dispatch_root_require(const json_t *resolved, struct err *err);
/* Whether its image is a container engine's: then its files are not in the store. */
bool dispatch_root_is_engines(const json_t *resolved);
/* Opens the root that was resolved; -EUCLEAN if it is another one by now. */
int dispatch_root_open(struct registry *reg, const json_t *resolved, struct dispatch_root *ret_root, struct err *err);

/* Whether the image that was resolved is missing in this machine's store. */
bool dispatch_root_lacks(const json_t *resolved);
/* Pulls it by its name and digest. */
int dispatch_root_bring(const json_t *resolved, struct err *err);

/* Puts it into the cell document DOC. */
int dispatch_root_describe(const struct dispatch_root *root, const json_t *resolved, json_t *doc, struct err *err);

/* ---- dispatch_programs.c ---- */

/* What a dispatch starts.  All of it is borrowed. */
struct dispatch_asked {
	json_t *const *capabilities;    /* contents */
	size_t n_capabilities;
	const json_t *command;
	const char *search;             /* PATH; NULL: that of the root */
};
struct dispatch_programs {
	json_t *list;                   /* [{"file","hash","path"}]: the programs of the root that it starts by
	                                 * their names, and the interpreters of its scripts */
	json_t *starts;                 /* [{"hashes","start"}]: the files that the kernel executes for its
	                                 * set-ups and its command, as a cell document has them */
	char *text;                     /* a line "HASH FILE" for each of the list, with its path on this machine */
};
/* The caller owns all three. */
int dispatch_programs_find(struct registry *reg, const struct dispatch_root *root, const struct dispatch_asked *asked,
                           struct dispatch_programs *ret_programs, struct err *err);
/* Whether they still have these hashes: -EUCLEAN. */
int dispatch_programs_check(const struct dispatch_root *root, const json_t *list, struct err *err);

/* ---- dispatch_confine.c ---- */

/* The dispatch that requests another one.  All of it is borrowed. */
struct dispatch_parent {
	const struct dispatch *d;
	const json_t *resolved;
	const char *chain;              /* the child's */
	unsigned n_children;            /* existing children */
	uint64_t now_ms;
	/* Reads the blob HASH, a policy; the caller owns *ret_text. */
	int (*read)(void *arg, const char *hash, char **ret_text, size_t *ret_len, struct err *err);
	void *arg;
};
/* Makes PLAN, of a child that is about to be queued, no wider than PARENT's: the agents that it may
 * request, depth, fan-out, rules, secrets, walls, images, limits, the workspace.  The plan's "confined",
 * "within" and "deadline_ms" have the outcome.  -EPERM with the reason if the child is not permitted at all. */
int dispatch_confine(const struct dispatch_parent *parent, const struct dispatch_request *request,
                     struct dispatch_plan *plan, struct err *err);
/* Sets "boundary" and "runtime" of a resolution: all that it, its policy and its ancestors ask for; null for
 * nothing. */
int dispatch_put_boundary(json_t *resolved, const struct policy_boundary *b, struct err *err);
/* The same for "images": what its own policy and its ancestors' require of its image. */
int dispatch_put_images(json_t *resolved, const struct policy_images *images, struct err *err);

/* ---- dispatch_record.c ---- */

struct policy_limits;
/* Whether a request may want this level; NULL: it wants none. */
int dispatch_record_check(const char *wanted, struct err *err);
/* Sets "record" of RESOLVED: the level of the agent, or else CLOISTER_RECORD, or else the policy's, and more if the
 * policy demands or the request wants it; null for nothing. */
int dispatch_record_resolve(const json_t *agent, const struct policy_limits *policy, const char *wanted,
                            json_t *resolved, struct err *err);
/* Raises that of a child to its parent's resolution. */
int dispatch_record_confine(const json_t *parent, json_t *resolved, struct err *err);

/* ---- dispatch_within.c ---- */

/* Does so for rules and secrets; CONFINED gets "rules" and what is left out. */
int dispatch_within(const struct dispatch_parent *parent, struct dispatch_plan *plan,
                    json_t *confined, struct err *err);
/* Whether SECRETS, a list of words or a map of definitions, contains the secret of WORD. */
bool dispatch_gives_secret(const json_t *secrets, const char *word);
#define DISPATCH_WITHIN_MAX 112
/* The name of the policy of the Ith ancestor, AGENT, in a dispatch's folder and in records. */
void dispatch_within_name(size_t i, const char *agent, char ret_name[DISPATCH_WITHIN_MAX]);

/* ---- dispatch_cancel.c ---- */

/* Cancels all unfinished dispatches that ID has made. */
int dispatch_cancel_children(struct registry *reg, const char *id, uint64_t grace_ms,
                             struct err *err);

/* ---- dispatch_submit.c ---- */

struct dispatch_descent {
	struct dispatch parent;         /* all zero: none */
	char chain[DISPATCH_CHAIN_MAX];
	unsigned depth;
};
void dispatch_descent_free(struct dispatch_descent *descent);   /* for OWN() too */
/* A child acts for its parent's principal, and within its parent's rights: confines PLAN to them. */
int dispatch_descend(struct registry *reg, const struct dispatch_request *request,
                     struct dispatch_plan *plan, struct dispatch_descent *ret, struct err *err);

/* ---- dispatch_limits.c ---- */

/* The limits in force, as `run` takes them: the agent's, else the policy's, else the most that a
 * capability needs.  Time is at most TIMEOUT_MS, if that is not 0. */
int dispatch_limits_merge(const json_t *agent, const json_t *policy, const json_t *const *wanted,
                          size_t n, uint64_t timeout_ms, json_t **ret_limits, struct err *err);
/* LIMITS, each no larger than in OUTER, and the time no longer than LEFT_MS.  A limit that is not
 * set means the default of `run`. */
int dispatch_limits_narrow(const json_t *limits, const json_t *outer, uint64_t left_ms,
                           json_t **ret_limits, struct err *err);
/* The time of LIMITS, in ms. */
uint64_t dispatch_limits_time(const json_t *limits);
/* LIMITS as the numbers of a cell document.  The time is TIME_MS, if that is not 0. */
int dispatch_limits_number(const json_t *limits, uint64_t time_ms, json_t **ret_numbers,
                           struct err *err);

/* ---- dispatch_store.c ---- */

/* What dispatch_read_row() reads. */
#define DISPATCH_COLUMNS "seq, id, state, agent, agent_hash, principal, parent, chain, depth, target, " \
	"policy_hash, build_hash, retries, attempts, timeout_ms, cell, cancel, created_ms, " \
	"started_ms, ended_ms, exit_code, reason, boot, home, origin, claims"
#define DISPATCH_N_COLUMNS 26
/* The row of Q whose first columns these are; the caller frees *ret_d. */
int dispatch_read_row(const struct db_query *q, struct dispatch *ret_d, struct err *err);
/* Where it runs. */
int dispatch_target(const struct dispatch *d, const struct target **ret_target, struct err *err);
/* Ids of all unfinished dispatches, the oldest first; strv_free().  HELD: that this data folder has; else also those that it
 * has asked for, and that wait for a worker or are with one. */
int dispatch_list_open(struct db *db, bool held, char ***ret_ids, struct err *err);
/* Ids of those behind *SEQ that this data folder asked a pool for, and that are over already; strv_free().  *SEQ becomes that of
 * the newest of all; -1: none are listed. */
int dispatch_list_ended(struct db *db, int64_t *seq, char ***ret_ids, struct err *err);

/* ---- dispatch_queue.c ---- */

/* -EAGAIN if MAX or more wait or run. */
int dispatch_check_room(struct db *db, unsigned max, struct err *err);
/* Begins its next attempt, in CELL, if it is queued and there is a place.  1: begun; 0: not yet,
 * and nothing changes by itself before *ret_wait_ms (0: until another one ends).  -ECANCELED. */
int dispatch_begin(struct db *db, const char *id, const char *cell, unsigned limit,
                   uint64_t *ret_wait_ms, struct err *err);
/* The same, within a transaction. */
int dispatch_begin_inside(struct db *db, const char *id, const char *cell, unsigned limit,
                   uint64_t *ret_wait_ms, struct err *err);
/* Replaces the cell of the current attempt, because the one before never started. */
int dispatch_replace_cell(struct db *db, const char *id, const char *cell, const char *buried,
                          struct err *err);
int dispatch_set_running(struct db *db, const char *id, struct err *err);
/* Puts it back into the queue, to wait for so long, at most DISPATCH_BACKOFF_MAX_MS. */
#define DISPATCH_BACKOFF_MAX_MS 60000
int dispatch_requeue(struct db *db, const char *id, uint64_t wait_ms, struct err *err);
struct dispatch_ending {
	enum dispatch_state state;
	int exit_code;
	const char *reason;
	json_t *result;                 /* or NULL */
	bool left;                      /* its cell still has what the agent left, and nobody else has */
	uint64_t ended_ms;
};
/* What dispatch.finished says, as long as EVENT is there. */
void dispatch_ending_of(json_t *event, struct dispatch_ending *ret_end);
int dispatch_set_end(struct db *db, const char *id, const struct dispatch_ending *end, struct err *err);
/* The same for one of the data folder HOME's. */
int dispatch_set_end_of(struct db *db, const char *id, const char *home, const struct dispatch_ending *end, struct err *err);
/* Writes dispatch.finished durably; the row follows. */
int dispatch_log_end(struct dispatch_log *log, const struct dispatch *d,
                     const struct dispatch_ending *end, struct err *err);
/* Clears cells that were buried long ago: nobody can start them any more. */
int dispatch_clear_graves(struct db *db, struct err *err);

/* ---- dispatch_pool.c: dispatches that workers of a pool run ---- */

#define DISPATCH_LEASE_MS 30000         /* a claim that is not renewed for so long is another one's */

#define DISPATCH_BACKLOG 64             /* if so many wait, no worker waits for news of another one */
/* What is recorded so far of a new dispatch, for its worker: the numbers and the lines of events. */
int dispatch_offer_events(const char *id, struct buf *numbers, struct buf *lines, struct err *err);
#define DISPATCH_RENEW_MS 5000          /* the age at which a claim is renewed */
#define DISPATCH_CLAIMS_MAX 32          /* in one go */
/* One that was claimed, with an attempt begun. */
struct dispatch_taken {
	struct dispatch d;
	char *events;                   /* lines, all that there are; NULL: they did not come along */
};
void dispatch_taken_free(struct dispatch_taken *taken);
/* Takes up to MAX of those that wait for the pool NAME, and begins an attempt of each: the cell that the row names is to be
 * started.  No more than LIMIT of this data folder's run then.  BARE: only those that the boundary `process` can hold.  Returns
 * how many; the caller frees them. */
int dispatch_claim(struct db *db, const char *pool, bool bare, unsigned limit, struct dispatch_taken *ret_taken, size_t max,
                   struct err *err);
#define DISPATCH_NEEDS_MAX 64
/* The oldest that waits and that `process` cannot hold: 1, with its id and what it needs; 0: there is none. */
int dispatch_find_left(struct db *db, const char *pool, char ret_id[DISPATCH_ID_LEN + 1],
                       char ret_needs[DISPATCH_NEEDS_MAX], struct err *err);
/* Renews the claims of this data folder.  Each row of *ret_query is the id of one that it has, and the number of the claim. */
int dispatch_keep_claims(struct db *db, struct db_query *ret_query, struct err *err);
/* Puts back D, which was just claimed: its cell was not started, and will not be. */
int dispatch_release_claim(struct db *db, const struct dispatch *d, struct err *err);
/* Puts back all that this data folder has claimed and that wait for their next attempt. */
int dispatch_release_claims(struct db *db, struct err *err);
/* Claims that seem to be over. */
#define DISPATCH_BACK_MAX 64
#define DISPATCH_SUSPECT_MS 5000        /* a claim that is not renewed in so long after its end is really over */
struct dispatch_suspects {
	struct {
		char id[DISPATCH_ID_LEN + 1];
		int64_t lease;
		uint64_t since;         /* loop_now_ms() */
	} at[DISPATCH_BACK_MAX];
	size_t n;
};
/* Ends or puts back those that were cancelled while nobody had them, and those whose claim is over: by the database's clock, and
 * by two looks of SUSPECTS, which the caller keeps, since that clock may be set. */
int dispatch_take_back(struct db *db, struct dispatch_suspects *suspects, struct err *err);
/* Copies to the file what the database has of its events. */
int dispatch_mirror(struct db *db, const char *id, struct err *err);
#define DISPATCH_MIRROR_MAX 64
struct dispatch_mirrored {
	const char *id;
	void *arg;                      /* the caller's */
	struct dispatch d;              /* out: its row, which was read before its events; the caller frees it */
	bool done;                      /* out: else there is no such row, or somebody else copies its events */
};
/* The same of N dispatches. */
int dispatch_mirror_all(struct db *db, struct dispatch_mirrored *mirrored, size_t n, struct err *err);
/* What the file has behind FROM bytes; the caller owns *ret_text, which is NULL if there is nothing. */
int dispatch_read_events(const char *id, uint64_t from, char **ret_text, size_t *ret_len, struct err *err);
/* News of one dispatch for the database. */
struct dispatch_sending {
	const char *id;
	const char *text;               /* its next events, LEN bytes; may be NULL */
	size_t len;
	bool runs;                      /* its cell was seen running */
	const struct dispatch_ending *end;      /* its end, after all of TEXT; NULL: none */
	size_t put;                     /* out: as many bytes are there.  If it is less than LEN, it has not ended */
	bool ours;                      /* out: it was the data folder's, and not over; else nothing was sent */
};
/* Sends all that N dispatches of the data folder HOME have, up to a limit of bytes: all of it is there afterwards, or nothing. */
int dispatch_send(struct db *db, const char *home, struct dispatch_sending *sendings, size_t n, struct err *err);

/* ---- dispatch_spawn.c ---- */

/* Starts `cloister-dispatch` with the words ARGV, in LOOP.  It inherits LOCK as descriptor 3; -1:
 * none. */
int dispatch_spawn(struct child *child, struct loop *loop, char *const *argv, int lock,
                   struct err *err);
/* `cloister-dispatch VERB` for the dispatch ID.  It ends with this process and inherits LOCK, so that a dispatcher that adopts
 * the dispatch waits for its end.  *ret_said is a file with what it writes to its standard error. */
int dispatch_spawn_for(struct child *child, struct loop *loop, const char *verb, const char *id, int lock, int *ret_said,
                       struct err *err);
#define DISPATCH_NO_REGISTRY 2          /* its exit status: try again when the registry is there */
/* The same for `cloister dispatches prune`, of those that ended this long ago. */
int dispatch_prune_start(struct child *child, struct loop *loop, uint64_t older_ms, struct err *err);

/* ---- dispatch_words.c ---- */

/* Rewrites a message of `cloister run` or a supervisor in the terms of a dispatch. */
void dispatch_own_words(char text[DISPATCH_REASON_MAX]);

/* Describes one of the rights that a cell has lost (enum cell_lost bits), to follow "because". */
const char *dispatch_lost_text(uint32_t lost);

/* ---- dispatch_start.c ---- */

/* Starts the attempt's cell, of LINK; LENT is as in struct target_work.  GIVEN gets, by the hash of each capability, the time since
 * which its files must not change. */
int dispatch_start(struct registry *reg, const struct dispatch *d, const struct target *target,
                   struct target_link *link, const char *lent, json_t *given, struct err *err);

/* ---- dispatch_harvest.c ---- */

/* Stores the ended cell's results as blobs, and describes them in *ret_result, which the caller
 * owns: {"cell","cause", "end","files","status","stderr","stdout"}. */
int dispatch_harvest_take(struct registry *reg, const struct dispatch *d, json_t **ret_result,
                          struct err *err);
/* The same, and writes the result to DISPATCH_RESULT_FILE. */
int dispatch_harvest(struct registry *reg, const struct dispatch *d, struct err *err);
/* Whether the results are so small that others can wait for them. */
bool dispatch_harvest_is_small(const struct dispatch *d);
/* The same in a separate process, `cloister-dispatch harvest`.  What it says is in *ret_said, a file. */
int dispatch_harvest_start(const struct dispatch *d, int lock, struct loop *loop, struct child *child, int *ret_said,
                           struct err *err);
/* The result that it wrote, if it belongs to CELL; else NULL.  The caller owns it. */
json_t *dispatch_harvest_read(const char *id, const char *cell);

/* ---- dispatch_bring.c ---- */

/* Whether blobs that D needs are in S3 only. */
bool dispatch_lacks(struct registry *reg, const struct dispatch *d);
int dispatch_bring(struct registry *reg, const struct dispatch *d, struct err *err);
/* The same in a separate process, `cloister-dispatch bring`.  *RET_SAID, the caller's, is for tell_read(). */
int dispatch_bring_start(const struct dispatch *d, int lock, struct loop *loop, struct child *child, int *ret_said,
                         struct err *err);

#endif
