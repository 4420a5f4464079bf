/* api.h - the service's API: one table of routes, and the handling of a request by its route.
 *
 * Blocking work runs in a thread of a pool, with a registry handle of its own; the loop's thread
 * only reads and writes.  The table alone decides who may use a route. */
#ifndef CLOISTER_API_H
#define CLOISTER_API_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/own.h"
#include "loop/loop.h"
#include "serve/pool.h"
#include "serve/route.h"
#include "serve/serve.h"
#include "serve/session.h"
#include "steer/steer.h"

#define API_THREADS 8                   /* they block on the disk, or on a supervisor */
#define API_POINTER_MAX 256
#define API_PAGE_MAX 1000
#define API_PATIENCE_S 30               /* for answers that a supervisor should give at once */
#define API_PAGE 100                    /* rows, by default */
#define API_ID_MAX 32
/* The dashboard's name without TLS.  Browsers look for any name under "localhost" on this machine, and
 * cookies of this one go to no page at 127.0.0.1, such as those that an agent publishes. */
#define API_PAGE_HOST "cloister.localhost"
#define API_OBJECT_MAX (4u << 20)       /* the JSON of an object; of a capability SERVE_BODY_MAX */
#define API_DISPATCH_MAX (96u << 20)    /* an input of 64 MiB in base64, and the rest */
#define API_FILE_MAX (64u << 20)        /* a file of a sandbox */

struct api_call;
struct cell_entry;
struct checker;
struct dispatch;
struct dispatcher;
struct e2b;
struct e2b_call;
struct exec_stream;
struct follow;
struct inside;
struct live;
struct metrics;
struct publishing;
struct registry;
struct serve_options;
struct tallies;

struct api_route {
	const char *method, *path;
	unsigned roles;                 /* enum serve_role, one bit each */
	const char *id;                 /* of the operation: "listCells" */
	const char *summary;
	const char *query;              /* names of parameters, separated by blanks; NULL: none */
	const char *body;               /* schema of the body; NULL: none, "?X": optional */
	const char *answer;             /* schema of the response, or a media type */
	uint16_t status;                /* on success */
	uint64_t body_max;
	/* In a thread: returns 0, or the value of api_fail(). */
	int (*work)(struct api_call *c);
	/* In the loop, when WORK has returned 0: answers, or sends C to a thread again (api_go_on).
	 * NULL: WORK's result is the response. */
	void (*begin)(struct api_call *c);
	/* For a request to a running cell: */
	enum steer_verb verb;
	const char *record;             /* in the operator's timeline */
	bool heavy;                     /* WORK may take minutes: others do not wait for it */
};
const struct api_route *api_routes(void);       /* ends with a NULL method */

struct api {
	struct loop *loop;
	struct serve_server *server;
	struct serve_pool *pool;
	struct follow *follow;
	struct tallies *tallies;
	struct metrics *metrics;
	struct live *live;
	struct checker *checker;
	struct exec_stream *execs;      /* commands that run in sandboxes, and terminals */
	struct publishing *published;   /* ports of sandboxes */
	struct e2b *e2b;                /* NULL: its API is not served */
	struct registry *registry;      /* used by the loop only */
	struct dispatcher *dispatcher;
	unsigned concurrency;           /* of dispatches */
	char build[80];                 /* the hash of this build's programs, or "" */
	uint64_t started_ms;            /* realtime */
	bool stopping;                  /* nothing new begins */
	/* Browser sessions; used by the loop only. */
	struct sessions sessions;
	struct loop_timer expire;
	uint16_t page_port;             /* the dashboard's port; 0: none */
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
	bool again;                     /* set by THEN: it is not over, and BEGIN is called again */
	bool kept;                      /* the loop's: BEGIN keeps it, or has sent it to a thread */
	struct route_params params;
	char *query[ROUTE_QUERY_MAX];   /* in the route's order */
	struct serve_stats stats;       /* as of the request */
	/* The dispatch of the requesting agent, by its token; "": none.  DELEGATE has its rights. */
	char parent[API_ID_MAX];
	json_t *delegate;
	json_t *body;
	void *own;                      /* in a thread: struct api_thread */
	/* The response: one of these, */
	unsigned status;                /* 0: the route's */
	json_t *answer;
	char *text;                     /* of type TYPE */
	size_t text_len;
	int fd;                         /* FD_LEN bytes of it; 0: none */
	uint64_t fd_len;
	const char *type;
	/* or the reason why there is none. */
	const char *code;
	char pointer[API_POINTER_MAX];
	struct err err;
	/* For BEGIN. */
	struct follow_source *source;
	bool is_all_told;               /* SOURCE has nothing left */
	char id[API_ID_MAX];            /* of a dispatch */
	struct inside *inside;          /* a process in its cell */
	int lock;                       /* of one that is to begin, or 0 */
	struct e2b_call *e2b;           /* e2b.h */
	bool is_signed;                 /* e2b_admit() has counted it */
};

int api_start(struct loop *loop, int spool, const struct serve_options *options,
              struct api **ret_api, struct err *err);
/* Begins nothing new; calls DONE when all requests are answered. */
void api_stop(struct api *api, void (*done)(void *arg), void *arg);
/* Whether nothing is under way. */
bool api_is_idle(const struct api *api);
/* The table, for people and tests: roles, method, path. */
void api_print_routes(void);
void api_free(struct api *api);         /* NULL is fine */
OWN_BY(api_freep, struct api *, api_free)
extern const struct serve_handler api_handler;

/* ---- for WORK ---- */

/* Fails with CALL->err as it is: its code determines the status. */
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
/* The state entry of the cell WORD, open; -ENOENT.  BARE: also of a cell with only a timeline, as
 * most ended cells have. */
int api_open_state(const char *word, bool bare, struct cell_entry *ret_entry, struct err *err);
/* A connection to the supervisor of the cell in the path's first parameter, whose id is in C->id
 * then; otherwise the call has failed. */
int api_reach(struct api_call *c, unsigned patience_s);
/* The runtime folder, open, and the cell's entry there; fails like api_reach(). */
int api_find_running(struct api_call *c, struct cell_entry *ret_entry);
/* In BEGIN: sends the response that is in C. */
void api_answer(struct api_call *c);
/* The same for a request without a call: its code determines the status. */
void api_refuse_request(struct serve_request *q, const struct err *err);
/* Whether the client accepts TYPE, with whatever weight. */
bool api_accepts(const struct serve_request *q, const char *type);
/* The dispatch in the path's first parameter, if the client may see it; otherwise the call has failed.  The caller
 * frees it. */
int api_find_dispatch(struct api_call *c, struct dispatch *ret_d);
/* Makes a dispatch, whose id is in C->id then, and records it.  BEGIN must call api_submit_begin(). */
struct dispatch_request;
int api_submit(struct api_call *c, struct dispatch_request *request, bool *ret_created);
void api_submit_begin(struct api_call *c);
/* The folder of a dispatch, open; negative if it has none. */
int api_dispatch_folder(const char *id);
/* Whether the client of C may see it. */
bool api_may_see(const struct api_call *c, const struct dispatch *d);
/* Records in the operator's timeline: TYPE, the requester, and MEMBERS (name and text; NULL is left
 * out).  NOW: signed and on the disk. */
int api_note(struct api_call *c, bool now, const char *type, const char *const (*members)[2],
             size_t n);
/* The same before the action; a failure is in c->err, and not answered yet. */
int api_note_first(struct api_call *c, const char *type, const char *const (*members)[2], size_t n);
/* The same as a text for registry_put() and the like, NUL-terminated. */
int api_note_text(struct api_call *c, const char *type, const char *const (*members)[2], size_t n,
                  struct buf *ret_text);
/* Writes the events that wait in the registry to the timeline. */
int api_tell_notes(struct api_call *c);
/* From now on, every few seconds, writes waiting events and signs unsigned ones. */
void api_settle_begin(struct api *api);
/* Now, without a pool. */
void api_settle(struct registry *registry);

/* A JSON text that was written with base/json.h; takes ownership. */
int api_answer_text(struct api_call *c, char *text, size_t len, const char *type);

/* ---- bodies (api_body.c) ---- */

enum api_type { API_TEXT, API_NUMBER, API_TEXTS, API_TRUTH, API_ANY };
struct api_member {
	const char *name;               /* NULL at the end of a table */
	enum api_type type;
	bool required;
};
/* Checks that the body is an object with only these members, each of its type (or null). */
int api_body_check(struct api_call *c, const struct api_member *members);
const json_t *api_body_get(const struct api_call *c, const char *name);        /* or json_null() */
/* The bytes of PLAIN, a text, or of CODED, the same in base64; NULL if there is neither.  The caller frees
 * *ret_owned, which is untouched unless it is needed. */
int api_body_bytes(struct api_call *c, const char *plain, const char *coded, const void **ret_data, size_t *ret_len,
                   void **ret_owned);
/* MEMBER caused the failure R; returns R. */
int api_body_wrong(struct api_call *c, const char *member, int r);

/* ---- browsers (api_session.c) ---- */

/* For a door's judge(); ARG is the api. */
bool api_judge(void *arg, struct serve_request *q);
void api_sessions_start(struct api *api);
/* The fields of every response. */
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
int api_assign(struct api_call *c);
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

int api_reserve(struct api_call *c);
int api_reserves(struct api_call *c);

int api_sandbox_exec(struct api_call *c);
void api_sandbox_exec_begin(struct api_call *c);
int api_sandbox_use(struct api_call *c);
void api_sandbox_input_begin(struct api_call *c);
int api_sandbox_signal(struct api_call *c);
void api_sandbox_signal_begin(struct api_call *c);
int api_sandbox_resize(struct api_call *c);
void api_sandbox_resize_begin(struct api_call *c);
int api_sandbox_attach(struct api_call *c);
int api_sandbox_attach_resize(struct api_call *c);
int api_cell_attach(struct api_call *c);
int api_cell_attach_resize(struct api_call *c);
int api_cell_use(struct api_call *c);   /* only finds it */
void api_attach_begin(struct api_call *c);
void api_attach_input_begin(struct api_call *c);
void api_attach_resize_begin(struct api_call *c);
int api_sandbox_read(struct api_call *c);
void api_sandbox_read_begin(struct api_call *c);
int api_sandbox_write(struct api_call *c);
void api_sandbox_write_begin(struct api_call *c);
int api_sandbox_list(struct api_call *c);
void api_sandbox_list_begin(struct api_call *c);
int api_sandbox_watch(struct api_call *c);
void api_sandbox_watch_begin(struct api_call *c);
int api_sandbox_publish(struct api_call *c);
void api_sandbox_publish_begin(struct api_call *c);
/* Frees what is published. */
void api_sandboxes_free(struct api *api);

int api_version(struct api_call *c);
int api_store(struct api_call *c);
int api_healthz(struct api_call *c);
int api_metrics(struct api_call *c);
int api_openapi(struct api_call *c);
json_t *api_openapi_document(unsigned role);
int api_cells_list(struct api_call *c);
int api_cell_show(struct api_call *c);
int api_cell_stop(struct api_call *c);
int api_cell_kill(struct api_call *c);
int api_cell_freeze_or_thaw(struct api_call *c);
int api_cell_events(struct api_call *c);
int api_cell_policy(struct api_call *c);
int api_cell_policy_check(struct api_call *c);
int api_cell_policy_set(struct api_call *c);
int api_cell_add_rule(struct api_call *c);
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
int api_cells_freeze_or_thaw(struct api_call *c);
int api_secrets_list(struct api_call *c);
int api_states_list(struct api_call *c);
int api_state_drift(struct api_call *c);
int api_secret_revoke(struct api_call *c);
int api_secret_rotate(struct api_call *c);
int api_cell_timeline(struct api_call *c);
int api_cell_traffic(struct api_call *c);
int api_traffic(struct api_call *c);
int api_cell_resources(struct api_call *c);
int api_resources(struct api_call *c);
int api_ended(struct api_call *c);
int api_ended_one(struct api_call *c);
int api_changes_list(struct api_call *c);
int api_changes_diff(struct api_call *c);
int api_changes_apply(struct api_call *c);
int api_changes_discard(struct api_call *c);
int api_live(struct api_call *c);
void api_live_begin(struct api_call *c);
void api_audit_state_begin(struct api_call *c);
/* Reads how the client wants C->source; ALWAYS: it is followed unless the client declines. */
int api_follow_prepare(struct api_call *c, bool always);
void api_follow_begin(struct api_call *c);
#endif
