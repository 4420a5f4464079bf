/* dispatch_parts.h - between the files of src/dispatch. */
#ifndef CLOISTER_DISPATCH_PARTS_H
#define CLOISTER_DISPATCH_PARTS_H
#include <limits.h>
#include <sys/types.h>

#include "canon/hash.h"
#include "cell/cell_spec.h"
#include "dispatch/dispatch.h"

struct db;
struct dispatch_plan;
struct dispatcher;

#define DISPATCH_POLICY_FILE "policy.json"
#define DISPATCH_TOOLS_FILE "tools"
#define DISPATCH_RESULT_FILE "result.json"
#define DISPATCH_EVENTS_FILE "events.jsonl"
#define DISPATCH_TIME_MAX 32
#define DISPATCH_JSON_MAX (16u << 20)   /* of anything of ours that is read back */
#define DISPATCH_RESULT_MAX (64u << 10) /* result.json */

/* Where things are in the cell. */
#define DISPATCH_OUT "/out"
#define DISPATCH_CAPABILITIES "/capabilities"
#define DISPATCH_TOOLS DISPATCH_CAPABILITIES "/.tools"

/* ---- dispatch_dirs.c ---- */

uint64_t dispatch_now_ms(void);         /* realtime */
char *dispatch_show_time(char text[DISPATCH_TIME_MAX], uint64_t ms);    /* "2026-11-15T16:00:00.000Z" */
/* Which start of the machine this is. */
bool dispatch_boot(char ret_boot[DISPATCH_BOOT_MAX]);
bool dispatch_is_of_this_boot(const char *boot);
bool dispatch_id_ok(const char *id);
int dispatch_make_id(char ret_id[DISPATCH_ID_LEN + 1], struct err *err);

int dispatch_top(struct err *err);      /* DATA/dispatches, made if it is missing; a descriptor */
/* DATA/dispatches/ID; a descriptor. */
int dispatch_folder(const char *id, bool make, struct err *err);
/* Of a dispatch that is new; quicker where one was prepared. */
int dispatch_new_folder(const char *id, struct err *err);
void dispatch_prepare_folder(void);
char *dispatch_path(const char *id, const char *name, struct err *err); /* the caller owns it */
/* Be its driver: a descriptor that holds the lock, or -EBUSY. */
int dispatch_lock(const char *id, struct err *err);
/* Tell all who wait for a place, or for news of one of their own. */
void dispatch_tell(void);
/* It is over: what was only there for its cells goes. */
void dispatch_tidy(const char *id);
/* An empty folder, what every /out shows before its cell writes; a descriptor, and its path, which
 * the caller owns. */
int dispatch_empty(struct err *err);
char *dispatch_empty_path(struct err *err);
/* Remove the folder of ID, of which there is no row. */
void dispatch_remove_folder(const char *id);
/* Write NAME in FOLDER whole, or not at all; durable with SYNC. */
int dispatch_write_file(int folder, const char *name, const void *data, size_t len, bool sync,
                        struct err *err);

/* ---- dispatch_events.c ---- */

/* The events of a dispatch that we drive. */
struct dispatch_log {
	int fd;
	char id[DISPATCH_ID_LEN + 1];
	uint64_t n;                     /* of the last */
	uint64_t size;                  /* of the file, in all attempts */
	/* Of the cell whose events were last begun: */
	char cell[CELL_ID_LEN + 1];
	uint64_t steps;                 /* told */
	uint64_t output[2];             /* bytes told of each stream */
	bool cut[2];
	json_t *end;                    /* dispatch.finished, if that is the last; else NULL */
};
/* A new file, with nothing in it. */
int dispatch_log_make(int folder, const char *id, struct dispatch_log *ret_log, struct err *err);
/* One that may have been cut off in the middle of a line, which is then removed. */
int dispatch_log_open(const char *id, struct dispatch_log *ret_log, struct err *err);
void dispatch_log_close(struct dispatch_log *log);      /* for OWN() too */
/* MEMBERS, which is taken over, is what the event has besides what all have; may be NULL. */
int dispatch_log_put(struct dispatch_log *log, const char *event, json_t *members, bool sync,
                     struct err *err);
/* What the agent printed, in one event or several.  With MORE to come, a character that is not
 * complete is left: log->output tells how far it came. */
int dispatch_log_output(struct dispatch_log *log, enum dispatch_stream stream, const char *data,
                        size_t len, bool more, struct err *err);

/* dispatch.finished, if that is the last event: then the row will say so in a moment, and who asks
 * now is to hear nothing else.  NULL: it is not.  The caller owns it. */
json_t *dispatch_peek_end(const char *id);

/* ---- dispatch_policy.c ---- */

/* The policy in force: DOCUMENT (NULL: there is none) with the rules of capabilities behind its
 * own, without those that earlier ones leave nothing for.  *ret_policy NULL: no rule, no network. */
int dispatch_policy_merge(const json_t *document, json_t *const *rules, size_t n,
                          json_t **ret_policy, struct err *err);

/* DOCUMENT (NULL: there is none) with RULE in front, without those that it leaves nothing for. */
int dispatch_policy_front(const json_t *document, json_t *rule, json_t **ret_policy,
                          struct err *err);

/* ---- dispatch_mcp.c ---- */

/* Whether the agent of PLAN can dispatch others from its cell: then "mcp" of what was resolved has
 * the "url", and the policy in force a rule for it; else a "reason".  An agent without `delegate`
 * has no "mcp".  PARENT is what its parent was resolved to; NULL: there is none. */
int dispatch_mcp_offer(const json_t *parent, struct dispatch_plan *plan, struct err *err);

/* ---- dispatch_token.c ---- */

/* A new one for D, which is about to run; the one before it is nobody's. */
int dispatch_token_mint(struct db *db, const struct dispatch *d,
                        char ret_token[DISPATCH_TOKEN_MAX], struct err *err);
/* The agent is over. */
int dispatch_token_drop(struct db *db, const char *id, struct err *err);

/* ---- dispatch_resolve.c ---- */

struct dispatch_plan {
	json_t *resolved;
	char *policy;                   /* canonical JSON; NULL: there is none */
	size_t policy_len;
	char *outer;                    /* of a child: what it lies within first; NULL: nothing */
	size_t outer_len;
};
void dispatch_plan_free(struct dispatch_plan *plan);    /* for OWN() too */
int dispatch_plan_make(struct registry *reg, const struct dispatch_request *request,
                       struct dispatch_plan *ret_plan, struct err *err);
int dispatch_check_request(const struct dispatch_request *request, struct err *err);
/* Member NAME of OBJECT, which is a string: or "". */
const char *dispatch_text(const json_t *object, const char *name);
/* The hash of VALUE as canonical JSON, of at most MAX bytes. */
int dispatch_hash_json(json_t *value, size_t max, char ret_hash[HASH_NAME + 1], struct err *err);

/* ---- dispatch_confine.c ---- */

/* The dispatch that asks for another one.  All of it is borrowed. */
struct dispatch_parent {
	const struct dispatch *d;
	const json_t *resolved;
	const char *chain;              /* the child's */
	unsigned n_children;            /* that it has already */
	uint64_t now_ms;
	/* The blob HASH, a policy; the caller owns *ret_text. */
	int (*read)(void *arg, const char *hash, char **ret_text, size_t *ret_len, struct err *err);
	void *arg;
};
/* Make PLAN, of a child that is about to be queued, no wider than what PARENT has: agents that it
 * may ask for, depth, fan-out, rules, secrets, limits, the workspace.  What came of it is in the
 * plan's "confined", "within" and "deadline_ms".  -EPERM with the reason if it may not be at all. */
int dispatch_confine(const struct dispatch_parent *parent, const struct dispatch_request *request,
                     struct dispatch_plan *plan, struct err *err);

/* ---- dispatch_within.c ---- */

/* Its rules and secrets; CONFINED gets "rules" and what is left out. */
int dispatch_within(const struct dispatch_parent *parent, struct dispatch_plan *plan,
                    json_t *confined, struct err *err);
#define DISPATCH_WITHIN_MAX 112
/* What the policy of the Ith ancestor, AGENT, is called in a dispatch's folder and in records. */
void dispatch_within_name(size_t i, const char *agent, char ret_name[DISPATCH_WITHIN_MAX]);

/* ---- dispatch_cancel.c ---- */

/* All that ID has dispatched and that is not over. */
int dispatch_cancel_children(struct registry *reg, const char *id, uint64_t grace_ms,
                             struct err *err);

/* ---- dispatch_submit.c ---- */

struct dispatch_descent {
	struct dispatch parent;         /* all zero: there is none */
	char chain[DISPATCH_CHAIN_MAX];
	unsigned depth;
};
void dispatch_descent_free(struct dispatch_descent *descent);   /* for OWN() too */
/* A child acts for whom its parent acts, and within what that may: PLAN is confined to it. */
int dispatch_descend(struct registry *reg, const struct dispatch_request *request,
                     struct dispatch_plan *plan, struct dispatch_descent *ret, struct err *err);

/* ---- dispatch_limits.c ---- */

/* The limits in force, as `run` takes them: the agent's, else the policy's, else the most that a
 * capability wants; time at most TIMEOUT_MS, if that is not 0. */
int dispatch_limits_merge(const json_t *agent, const json_t *policy, const json_t *const *wanted,
                          size_t n, uint64_t timeout_ms, json_t **ret_limits, struct err *err);
/* LIMITS, each no larger than in OUTER, and the time no longer than LEFT_MS; where nothing is said,
 * what `run` has by itself is meant. */
int dispatch_limits_narrow(const json_t *limits, const json_t *outer, uint64_t left_ms,
                           json_t **ret_limits, struct err *err);
/* The time of LIMITS, in ms. */
uint64_t dispatch_limits_time(const json_t *limits);


/* ---- dispatch_store.c ---- */

/* By its very id. */
int dispatch_read(struct db *db, const char *id, struct dispatch *ret_d, struct err *err);
/* Ids of all that are not over, the oldest first; strv_free(). */
int dispatch_list_open(struct db *db, char ***ret_ids, struct err *err);

/* ---- dispatch_queue.c ---- */

/* -EAGAIN if MAX or more wait or run. */
int dispatch_check_room(struct db *db, unsigned max, struct err *err);
/* Begin its next attempt, in CELL, if it is queued and there is a place.  1: begun; 0: not yet,
 * and before *ret_wait_ms nothing changes by itself (0: when somebody else ends).  -ECANCELED. */
int dispatch_begin(struct db *db, const char *id, const char *cell, unsigned limit,
                   uint64_t *ret_wait_ms, struct err *err);
/* The same, within a transaction. */
int dispatch_begin_inside(struct db *db, const char *id, const char *cell, unsigned limit,
                   uint64_t *ret_wait_ms, struct err *err);
/* The cell of the attempt that is under way is another one: the one before never started. */
int dispatch_replace_cell(struct db *db, const char *id, const char *cell, const char *buried,
                          struct err *err);
int dispatch_set_running(struct db *db, const char *id, struct err *err);
/* Back into the queue, until BEFORE_MS. */
int dispatch_requeue(struct db *db, const char *id, uint64_t before_ms, struct err *err);
struct dispatch_ending {
	enum dispatch_state state;
	int exit_code;
	const char *reason;
	json_t *result;                 /* or NULL */
	uint64_t ended_ms;
};
int dispatch_set_end(struct db *db, const char *id, const struct dispatch_ending *end,
                     struct err *err);
/* dispatch.finished, durable: once it is there, the row follows. */
int dispatch_log_end(struct dispatch_log *log, const struct dispatch *d,
                     const struct dispatch_ending *end, struct err *err);
/* Cells that were buried long ago: nobody can start them any more. */
int dispatch_clear_graves(struct db *db, struct err *err);

/* ---- dispatch_spawn.c ---- */

#define DISPATCH_SPAWN_FDS 4
/* Start the program at PATH: a pidfd.  FDS become its first descriptors; -1 is /dev/null, or none. */
int dispatch_spawn(const char *path, char *const *argv, const int fds[DISPATCH_SPAWN_FDS],
                   struct err *err);

/* The same of a program in libexec, which ARGV begins with. */
int dispatch_spawn_helper(char *const *argv, const int fds[DISPATCH_SPAWN_FDS], struct err *err);
/* `cloister dispatches prune`, of what is over for so long: a pidfd. */
int dispatch_prune_start(uint64_t older_ms, struct err *err);

/* ---- dispatch_words.c ---- */

/* What `cloister run` or a supervisor said, as it is to be understood of a dispatch. */
void dispatch_own_words(char text[DISPATCH_REASON_MAX]);

/* ---- dispatch_start.c ---- */

/* Start `cloister run -d` for the attempt: a pidfd, and what it says goes to *ret_said, a memory
 * file.  The caller closes both. */
/* GIVEN gets, by the hash of each capability, the moment since which its files must not change. */
int dispatch_start(struct registry *reg, const struct dispatch *d, json_t *given, int *ret_said,
                   struct err *err);

/* ---- dispatch_harvest.c ---- */

/* What the ended cell left becomes blobs, and *ret_result, which is the caller's: {"cell","cause",
 * "end","files","status","stderr","stdout"}. */
int dispatch_harvest_take(struct registry *reg, const struct dispatch *d, json_t **ret_result,
                          struct err *err);
/* The same, and the result becomes DISPATCH_RESULT_FILE. */
int dispatch_harvest(struct registry *reg, const struct dispatch *d, struct err *err);
/* Whether that is so little that nobody needs to wait for it. */
bool dispatch_harvest_is_small(const struct dispatch *d);
/* The same in a process of its own, `cloister-dispatch harvest`: a pidfd.  It ends with us, and
 * has LOCK, so that whoever adopts the dispatch waits until it has. */
int dispatch_harvest_start(const struct dispatch *d, int lock, struct err *err);
/* What it wrote, if that is of CELL; else NULL.  The caller owns it. */
json_t *dispatch_harvest_read(const char *id, const char *cell);

/* ---- dispatch_cell.c ---- */

enum dispatch_cell_state {
	DISPATCH_CELL_NONE,             /* there is no entry: it may yet start */
	DISPATCH_CELL_GRAVE,            /* it never ran, and never will */
	DISPATCH_CELL_LIVE,             /* its supervisor is at it */
	DISPATCH_CELL_ENDED,            /* there is a record */
	DISPATCH_CELL_LOST,             /* its supervisor was killed */
};
enum dispatch_cell_state dispatch_cell_look(const char *cell);
int dispatch_cell_open(const char *cell);       /* its state entry; a descriptor or -ENOENT */
/* A connection to its supervisor that does not block, asked to tell of the end; -ENOENT. */
int dispatch_cell_wait(const char *cell, struct err *err);
int dispatch_cell_stop(const char *cell, uint64_t grace_ms, struct err *err);
/* What was taken back of what the cell was granted: enum cell_taken bits.  It must be live. */
int dispatch_cell_taken(const char *cell, uint32_t *ret_taken, struct err *err);
/* One of it, in words that can stand behind "because". */
const char *dispatch_taken_text(uint32_t taken);
/* What is kept of it goes. */
int dispatch_cell_discard(const char *cell, struct err *err);
#endif
