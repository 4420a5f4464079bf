/* api.h - the service's API: one table of routes, and how a request is carried out by one.
 *
 * What blocks runs in a thread of a pool, with a registry handle of its own; the loop's thread
 * only reads and writes.  Who may use a route is in the table, and nowhere else. */
#ifndef CLOISTER_API_H
#define CLOISTER_API_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"
#include "serve/pool.h"
#include "serve/route.h"
#include "serve/serve.h"
#include "serve/session.h"

#define API_THREADS 8                   /* what blocks is the disk, or a supervisor */
#define API_POINTER_MAX 256
#define API_PAGE_MAX 1000
#define API_PATIENCE_S 30               /* for what a supervisor should answer at once */
#define API_PAGE 100                    /* rows, unless asked for more */
#define API_ID_MAX 32
#define API_STEER_MAX (16u << 10)       /* a few words */
#define API_OBJECT_MAX (4u << 20)       /* the JSON of an object; of a capability SERVE_BODY_MAX */
#define API_DISPATCH_MAX (96u << 20)    /* an input of 64 MiB in base64, and the rest */

struct api_call;
struct cell_entry;
struct checker;
struct dispatcher;
struct follow;
struct live;
struct registry;
struct serve_options;
struct tallies;

struct api_route {
	const char *method, *path;
	unsigned roles;                 /* enum serve_role, one bit each */
	const char *id;                 /* of the operation: "listCells" */
	const char *summary;
	const char *query;              /* names of parameters with blanks between; NULL: none */
	const char *body;               /* schema of the body; NULL: there is none, "?X": there may be */
	const char *answer;             /* schema of the answer, or a media type */
	uint16_t status;                /* when it went well */
	uint64_t body_max;
	/* In a thread: 0, or what api_fail() returned. */
	int (*work)(struct api_call *c);
	/* In the loop, when WORK has returned 0: it answers, or sends C to a thread again
	 * (api_go_on).  NULL: what WORK left is the answer. */
	void (*begin)(struct api_call *c);
};
extern const struct api_route api_routes[];     /* ends with a NULL method */

struct api {
	struct loop *loop;
	struct serve_server *server;
	struct serve_pool *pool;
	struct follow *follow;
	struct tallies *tallies;
	struct live *live;
	struct checker *checker;
	struct registry *registry;      /* the loop's */
	struct dispatcher *dispatcher;
	unsigned concurrency;           /* of dispatches */
	char build[80];                 /* the hash of this build's programs, or "" */
	uint64_t started_ms;            /* realtime */
	bool stopping;                  /* nothing new is begun */
	/* Of browsers; the loop's. */
	struct sessions sessions;
	struct loop_timer expire;
	uint16_t page_port;             /* where they come; 0: nowhere */
	bool page_tls;
	struct serve_job settle;
	struct loop_timer settle_due;
};

struct api_call {
	struct serve_job job;           /* first */
	struct api *api;
	struct serve_request *q;
	const struct api_route *route;
	int (*then)(struct api_call *c); /* instead of the route's WORK, the second time */
	struct route_params params;
	char *query[ROUTE_QUERY_MAX];   /* in the route's order */
	struct serve_stats stats;       /* when it came */
	/* The dispatch whose agent asks, by its token; "": none.  What it may is in DELEGATE. */
	char parent[API_ID_MAX];
	json_t *delegate;
	json_t *body;
	void *own;                      /* in a thread: struct api_thread */
	/* The answer: one of these, */
	unsigned status;                /* 0: the route's */
	json_t *answer;
	char *text;                     /* of type TYPE */
	size_t text_len;
	int fd;                         /* FD_LEN bytes of it; -1: none */
	uint64_t fd_len;
	const char *type;
	/* or why there is none. */
	const char *code;
	char pointer[API_POINTER_MAX];
	struct err err;
	/* For BEGIN. */
	struct follow_source *source;
	bool is_all_told;               /* of SOURCE nothing is left */
	char id[API_ID_MAX];            /* of a dispatch */
	int lock;                       /* of one that is to begin, or -1 */
};

void api_freep(struct api **api);
int api_start(struct loop *loop, int spool, const struct serve_options *options,
              struct api **ret_api, struct err *err);
/* Nothing new is begun; DONE is called when all that was asked is answered. */
void api_stop(struct api *api, void (*done)(void *arg), void *arg);
/* Nothing is under way. */
bool api_is_idle(const struct api *api);
/* The table, for people and tests: roles, method, path. */
void api_print_routes(void);
void api_free(struct api *api);         /* NULL is fine */
extern const struct serve_handler api_handler;

/* ---- for WORK ---- */

/* Fails with CALL->err as it is: the status is of its code. */
int api_fail(struct api_call *c);
/* The same with this status. */
int api_fail_as(struct api_call *c, unsigned status, const char *code);
int api_fail_with(struct api_call *c, unsigned status, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* This thread's. */
struct registry *api_registry(struct api_call *c);
/* The query's value NAME, or NULL. */
const char *api_query(const struct api_call *c, const char *name);
/* A number from the query, DEFAULT if it is missing. */
int api_query_number(struct api_call *c, const char *name, uint64_t min, uint64_t max,
                     uint64_t otherwise, uint64_t *ret_n);
int api_query_bool(struct api_call *c, const char *name, bool otherwise, bool *ret_value);
/* In BEGIN: THEN, in a thread, makes the answer. */
void api_go_on(struct api_call *c, int (*then)(struct api_call *c));
/* The state entry of the cell WORD, open; -ENOENT.  BARE: also of one that has but a timeline, as most
 * have that are over. */
int api_open_state(const char *word, bool bare, struct cell_entry *ret_entry, struct err *err);
/* A connection to the supervisor of the cell that is the path's first parameter, whose id is in C->id
 * then; or it has failed. */
int api_reach(struct api_call *c, unsigned patience_s);
/* The runtime folder, open, and the cell's entry there; else as api_reach(). */
int api_find_running(struct api_call *c, struct cell_entry *ret_entry);
/* In BEGIN: what was left in C is the answer. */
void api_answer(struct api_call *c);
/* In the operator's timeline: TYPE, who it was, and MEMBERS (name and text; NULL is left out).
 * NOW: signed and on the disk. */
int api_note(struct api_call *c, bool now, const char *type, const char *const (*members)[2],
             size_t n);
/* The same before it is done; what failed is in c->err, and no answer yet. */
int api_note_first(struct api_call *c, const char *type, const char *const (*members)[2], size_t n);
/* The same as a text for registry_put() and the like, with a NUL behind it. */
int api_note_text(struct api_call *c, const char *type, const char *const (*members)[2], size_t n,
                  struct buf *ret_text);
/* What waits in the registry to be told is told. */
int api_tell_notes(struct api_call *c);
/* From now on, what waits is told and what is not signed is, every few seconds. */
void api_settle_begin(struct api *api);
/* Now, without a pool. */
void api_settle(struct registry *registry);

/* A JSON text that was written with base/json.h: taken over. */
int api_answer_text(struct api_call *c, char *text, size_t len, const char *type);

/* ---- bodies (api_body.c) ---- */

enum api_type { API_TEXT, API_NUMBER, API_TEXTS, API_TRUTH, API_ANY };
struct api_member {
	const char *name;               /* NULL at the end of a table */
	enum api_type type;
	bool required;
};
/* Whether the body is an object with these members only, each of its type (or null). */
int api_body_check(struct api_call *c, const struct api_member *members);
const json_t *api_body_get(const struct api_call *c, const char *name);        /* or json_null() */
/* MEMBER is what R, the failure, is about; returns R. */
int api_body_wrong(struct api_call *c, const char *member, int r);

/* ---- browsers (api_session.c) ---- */

/* For a door's judge(); ARG is the api. */
bool api_judge(void *arg, struct serve_request *q);
void api_sessions_start(struct api *api);
/* What every answer says. */
void api_common_fields(struct serve_request *q);

/* ---- routes ---- */

int api_nothing(struct api_call *c);    /* all is done in BEGIN */
int api_login(struct api_call *c);
void api_login_begin(struct api_call *c);
void api_logout_begin(struct api_call *c);
void api_session_begin(struct api_call *c);
void api_login_code_begin(struct api_call *c);
int api_page(struct api_call *c);
void api_page_begin(struct api_call *c);

int api_register(struct api_call *c);
int api_list(struct api_call *c);
int api_show(struct api_call *c);
int api_versions(struct api_call *c);
int api_diff(struct api_call *c);
int api_retire(struct api_call *c);
int api_dispatch(struct api_call *c);
void api_dispatch_begin(struct api_call *c);
int api_dispatches_list(struct api_call *c);
int api_dispatch_show(struct api_call *c);
int api_dispatch_cancel(struct api_call *c);
int api_dispatch_output(struct api_call *c);
int api_dispatch_files(struct api_call *c);
int api_dispatch_file(struct api_call *c);
int api_dispatch_events(struct api_call *c);
int api_operator_events(struct api_call *c);

int api_version(struct api_call *c);
int api_healthz(struct api_call *c);
int api_metrics(struct api_call *c);
int api_openapi(struct api_call *c);
json_t *api_openapi_document(unsigned role);
int api_cells_list(struct api_call *c);
int api_cell_show(struct api_call *c);
int api_cell_stop(struct api_call *c);
int api_cell_kill(struct api_call *c);
int api_cell_freeze(struct api_call *c);
int api_cell_thaw(struct api_call *c);
int api_cell_events(struct api_call *c);
int api_cell_policy(struct api_call *c);
int api_cell_policy_check(struct api_call *c);
int api_cell_policy_set(struct api_call *c);
int api_cell_allow(struct api_call *c);
int api_cell_deny(struct api_call *c);
int api_approvals_list(struct api_call *c);
int api_approve(struct api_call *c);
int api_refuse(struct api_call *c);
int api_cell_budget(struct api_call *c);
int api_cell_budget_raise(struct api_call *c);
int api_cell_secrets(struct api_call *c);
int api_cell_revoke(struct api_call *c);
int api_cell_rotate(struct api_call *c);
int api_cell_ttl(struct api_call *c);
int api_cells_kill(struct api_call *c);
int api_cells_freeze(struct api_call *c);
int api_cells_thaw(struct api_call *c);
int api_secrets_list(struct api_call *c);
int api_secret_revoke(struct api_call *c);
int api_secret_rotate(struct api_call *c);
int api_cell_timeline(struct api_call *c);
int api_cell_traffic(struct api_call *c);
int api_live(struct api_call *c);
void api_live_begin(struct api_call *c);
void api_audit_state_begin(struct api_call *c);
/* What the client says of how it wants C->source; ALWAYS: it is followed unless it says no. */
int api_follow_prepare(struct api_call *c, bool always);
void api_follow_begin(struct api_call *c);
#endif
