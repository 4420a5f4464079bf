/* mcp_proc.h - shared by the files of cloister-mcp. */
#ifndef CLOISTER_MCP_PROC_H
#define CLOISTER_MCP_PROC_H
#include <stdbool.h>

#include "loop/loop.h"
#include "mcp/mcp.h"
#include "serve/serve.h"
#include "serve/serve_events.h"

#define MCP_JOBS_MAX 256                /* running calls of all peers together */
#define MCP_GUEST_JOBS_MAX 32           /* of one token that is not the server's own */

/* ---- mcp_keeper.c: the trusted half ---- */

/* A new connection to the service, which is started if none runs and it MAY_START. */
int keeper_connect(int runtime, bool may_start, struct err *err);

/* ---- mcp_worker.c: the half that reads agents' messages ---- */

extern struct loop *mcp_loop;
extern struct mcp_config mcp_config;
/* For clients with a token of their own: the service knows their principal. */
extern const struct mcp_config mcp_guest_config;

/* Returns only to exit, with the status. */
int worker_main(void);

/* ---- mcp_job.c: a call and the service ---- */

struct job;
struct job_handler {
	/* Sends MESSAGE to the client, and takes ownership of it.  LAST: it is the result, or NULL
	 * if nobody wants one, and the job is gone after this. */
	void (*say)(struct job *job, json_t *message, bool last);
};
struct job {
	struct mcp_call *call;          /* owned */
	const struct job_handler *handler;
	void *arg;                      /* for the transport */
	/* private */
	struct job *next, **at;         /* of all, */
	char token[SERVE_TOKEN_MAX + 1];
	struct job *next_waiting;       /* of those that wait for a connection */
	struct link *link;
	bool is_waiting;
	struct loop_round round;
};

/* TOKEN goes with every request that has none of its own, unless it is "". */
void job_start(const char *token);
/* Takes ownership of CALL; TOKEN is "" for the common one.  say() is not called before this
 * returns.  NULL: no more can run, or out of memory; CALL is gone. */
struct job *job_new(struct mcp_call *call, const char *token, const struct job_handler *handler,
                    void *arg);
/* The client no longer wants it. */
void job_cancel(struct job *job);
/* The client is gone; what it started goes on. */
void job_drop(struct job *job);
/* Whether there is a job other than those that wait for a dispatch to end. */
bool job_any_brief(void);

/* ---- mcp_stdio.c ---- */

int stdio_begin(struct err *err);

/* ---- mcp_http.c ---- */

/* TOKEN may be NULL: then it is for agents in cells. */
int http_begin(uint16_t port, const struct serve_token *token, struct err *err);

/* ---- mcp_session.c: HTTP sessions of the older revisions ---- */

#define SESSION_ID_LEN 32               /* hex digits */
#define SESSIONS_MAX 64
#define SESSIONS_GUEST_MAX 4             /* of one token that is not the server's own */
#define SESSION_STREAMS_MAX 16          /* whose events are kept, to be sent again */
#define SESSION_IDLE_S 3600

struct stream;
struct session {
	struct session *next;
	char id[SESSION_ID_LEN + 1];
	char token[SERVE_TOKEN_MAX + 1];        /* owner; "" for the server's own clients */
	struct mcp_peer peer;
	struct stream *streams;         /* the newest first */
	unsigned n_streams;             /* so far: numbers of new ones */
	uint64_t used_ms;
};

/* The least recently used session makes room, one of the same token if that has many.  NULL: out of
 * memory. */
struct session *mcp_session_new(const char *token);
struct session *mcp_session_find(const char *id, const char *token);
/* Drops its calls and ends its streams; its dispatches go on. */
void mcp_session_end(struct session *s);

/* ---- mcp_stream.c: the response to one HTTP request ---- */

struct stream {
	struct stream *next;            /* of the session */
	struct session *session;        /* NULL: a revision without sessions */
	struct mcp_peer own;            /* the peer, in that case */
	struct serve_request *q;        /* to be answered; NULL if it is, or with events */
	struct job *job;                /* NULL once it is over */
	bool streams;                   /* else the response is one JSON object */
	struct serve_events events;
};

/* For the response to Q; S may be NULL.  NULL: out of memory. */
struct stream *stream_new(struct serve_request *q, struct session *s);
/* Sends the messages of CALL, of which it takes ownership. */
void stream_begin(struct stream *stream, struct mcp_call *call);
/* Continues after the event LAST of S; false: it is unknown, and Q is unanswered. */
bool stream_resume(struct session *s, struct serve_request *q, const char *last);
/* No more of it will be sent. */
void stream_free(struct stream *stream);
#endif
