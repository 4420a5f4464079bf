/* e2b.h - E2B's API for the service's sandboxes, so that programs written for its SDKs run unchanged: docs/e2b.md.
 *
 * It has a door of its own.  One half of its requests makes, lists and ends sandboxes, which are dispatches of agents
 * that are registered with `sandbox: true`; their client shows a token of the service.  The other half uses one sandbox,
 * and stands in for E2B's own daemon in it (envd): Connect's protocol with JSON.  Its client shows that sandbox's token,
 * and can do nothing else with it. */
#ifndef CLOISTER_E2B_H
#define CLOISTER_E2B_H
#include "cell/cell_spec.h"
#include "dispatch/dispatch.h"
#include "proc/serve/api.h"
#include "proc/serve/inside.h"

struct cell_info;
struct e2b_host;
struct e2b_process;
struct e2b_watch;

#define E2B_ENVD "0.6.1"                /* the version of envd whose behaviour clients get */
#define E2B_DOMAIN "e2b.localhost"       /* names below it are this machine, for whoever follows RFC 6761 */
#define E2B_TIMEOUT_MS 300000           /* of a sandbox for which none is asked */
#define E2B_TOKEN_LEN 64
#define E2B_BODY_MAX SERVE_BODY_KEPT
#define E2B_STREAM "application/connect+json"
#define E2B_PROCESSES_MAX 1024          /* of all sandboxes, also those that ended a moment ago */
#define E2B_SIGNED_MAX 16               /* bodies at a time whose signature is not judged yet */

/* All of it belongs to the loop, but KEY. */
struct e2b {
	struct api *api;
	unsigned char key[32];          /* constant; sandboxes' tokens are made with it */
	struct e2b_process *processes;
	struct e2b_watch *watches;
	struct e2b_host *hosts;
	uint16_t port;                  /* of its door */
	uint32_t last_pid;
	unsigned n_signed;
	struct api_call *waiting;       /* for news of their dispatch; linked by e2b->next */
	uint64_t news;                  /* counts them */
};

/* What a request of this API has besides its call. */
struct e2b_call {
	struct api_call *next;
	uint64_t news;                  /* when it last looked */
	bool asked;                     /* the dispatch is begun */
	uint64_t end_ms;                /* how long it is to live */
	json_t *record;                 /* e2b_record_load() */
	/* Of a request to a process: */
	json_t *config;
	char *tag;
	uint64_t timeout_ms;
	/* Of a request to files: */
	char *path, *to;                /* absolute */
	void *map;                      /* the body, if it is in a file */
	size_t map_len, at;             /* read up to here */
	const char *part;               /* to be written */
	size_t part_len;
	json_t *written;
	int (*after)(struct api_call *c);       /* when init's own program has ended with STATUS */
	int status;
	struct buf got;                 /* its output */
	struct loop_source out, in;
	struct loop_timer late;
	unsigned last;
};
void e2b_call_free(struct e2b_call *call);      /* NULL is fine */
/* C->e2b, which is made if it is missing; NULL: the call has failed. */
struct e2b_call *e2b_call_of(struct api_call *c);

/* FOLDER is that of the service's files.  From then on, API->e2b is there. */
int e2b_start(struct api *api, int folder, struct err *err);
void e2b_free(struct e2b *e);           /* NULL is fine, as below */
bool e2b_is_idle(const struct e2b *e);
/* Nothing new begins: answers those who wait for it. */
void e2b_stop(struct e2b *e);
/* For dispatcher_options: ARG is the api. */
void e2b_changed(void *arg, const char *id, enum dispatch_state state);
void e2b_over(void *arg);

/* ---- for the door ---- */

const struct api_route *e2b_routes(void);
bool e2b_judge(void *arg, struct serve_request *q);
/* A signature is judged with the sandboxes that there are, when the body has come: anybody's bodies must not fill the disk.
 * False: there are too many.  Bounds the request's body, and is undone by e2b_dismiss(). */
bool e2b_admit(struct api_call *c);
void e2b_dismiss(const struct api_call *c);
void e2b_refuse(struct serve_request *q, unsigned status, const char *code, const char *message);
void e2b_make_token(const struct e2b *e, const char *id, char ret_token[E2B_TOKEN_LEN + 1]);

/* ---- ports of sandboxes (e2b_host.c): for the door's is_carried and carry ---- */

bool e2b_is_host(const char *host);
void e2b_host(void *arg, struct serve_request *q, const char *host, const void *data, size_t len);
void e2b_hosts_free(struct e2b *e);

/* ---- sandboxes: in a thread (e2b_record.c) ---- */

/* Its agent, metadata, variables and end, in a file of the dispatch's folder.  NULL: it is no sandbox of this API. */
json_t *e2b_record_load(const char *id);
int e2b_record_store(const char *id, json_t *record, struct err *err);
/* The sandbox that the request uses, in C->id, its record in C->e2b, and its cell; otherwise the call has failed. */
int e2b_enter(struct api_call *c, char ret_cell[CELL_ID_LEN + 1]);
/* The cell's description, for those who need more of it.  The caller frees its spec. */
int e2b_look(struct api_call *c, const char *cell, struct cell_info *ret_info);
/* PATH as an absolute one in CELL: "~" is the agent's home folder, and relative paths begin in its working folder.  The
 * caller frees *ret_path. */
int e2b_resolve(struct api_call *c, const char *cell, const char *path, char **ret_path);
/* A cell has one user.  NAME, of a query (NULL: none), or that of the field Authorization, must not be another. */
int e2b_check_user(struct api_call *c, const char *cell, const char *name);
/* Starts ORDER in CELL, as C->inside. */
int e2b_run(struct api_call *c, const char *cell, struct inside_order *order);

/* ---- Connect's protocol (e2b_connect.c) ---- */

/* The one message of a stream's request, as C->body. */
int e2b_read_message(struct api_call *c);
/* As serve_send().  Takes MESSAGE. */
bool e2b_send(struct serve_request *q, json_t *message);
/* The last of a stream.  CODE NULL: it went well. */
void e2b_send_end(struct serve_request *q, const char *code, const char *message);
/* The end of a stream whose client's time is over. */
void e2b_send_late(struct serve_request *q);
/* How long the client has for a stream, in milliseconds; 0: for ever. */
uint64_t e2b_read_timeout(const struct serve_request *q);
bool e2b_is_inside(const char *path);   /* whether PATH is one of a sandbox's */
/* A time as RFC 3339 writes it. */
json_t *e2b_time(uint64_t ms);
/* A text member, which may be missing (NULL). */
const char *e2b_text(const json_t *object, const char *name);

/* ---- routes ---- */

int e2b_create(struct api_call *c);
void e2b_create_begin(struct api_call *c);
int e2b_connect(struct api_call *c);
int e2b_list(struct api_call *c);
int e2b_info(struct api_call *c);
int e2b_metrics(struct api_call *c);
int e2b_set_timeout(struct api_call *c);
int e2b_kill(struct api_call *c);
void e2b_kill_begin(struct api_call *c);
int e2b_unserved(struct api_call *c);

int e2b_health(struct api_call *c);
int e2b_process_start(struct api_call *c);
void e2b_process_start_begin(struct api_call *c);
int e2b_process_use(struct api_call *c);        /* only finds the sandbox */
int e2b_process_connect(struct api_call *c);
void e2b_process_connect_begin(struct api_call *c);
void e2b_process_list_begin(struct api_call *c);
void e2b_process_input_begin(struct api_call *c);
void e2b_process_close_begin(struct api_call *c);
void e2b_process_signal_begin(struct api_call *c);
void e2b_process_update_begin(struct api_call *c);
void e2b_processes_free(struct e2b *e);

int e2b_file_read(struct api_call *c);
int e2b_file_write(struct api_call *c);
int e2b_entry_stat(struct api_call *c);
int e2b_entry_list(struct api_call *c);
int e2b_entry_make(struct api_call *c);
int e2b_entry_move(struct api_call *c);
int e2b_entry_remove(struct api_call *c);
/* Feeds C->inside with the part that is to be written, gathers its output, and then calls `after` in a thread. */
void e2b_run_begin(struct api_call *c);

int e2b_watch(struct api_call *c);
void e2b_watch_begin(struct api_call *c);
void e2b_watch_poll_begin(struct api_call *c);
void e2b_watch_events_begin(struct api_call *c);
void e2b_watch_remove_begin(struct api_call *c);
void e2b_watches_free(struct e2b *e);
#endif
