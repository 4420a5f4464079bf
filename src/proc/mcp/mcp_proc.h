/* mcp_proc.h - what the files of cloister-mcp share. */
#ifndef CLOISTER_MCP_PROC_H
#define CLOISTER_MCP_PROC_H
#include <stdbool.h>

#include "loop/loop.h"
#include "mcp/mcp.h"
#include "serve/serve.h"

#define MCP_JOBS_MAX 256                /* calls that run, of all peers together */
#define MCP_GUEST_JOBS_MAX 32           /* of those with one token that is not the server's own */

/* ---- mcp_keeper.c: the half that is trusted ---- */

/* A new connection to the service, which is started if none runs and it MAY_START. */
int keeper_connect(int runtime, bool may_start, struct err *err);

/* ---- mcp_worker.c: the half that reads what agents send ---- */

extern struct loop *mcp_loop;
extern struct mcp_config mcp_config;
/* For those with a token of their own: on whose behalf they act, the service knows. */
extern const struct mcp_config mcp_guest_config;

/* Does not return but with what to exit with. */
int worker_main(void);

/* ---- mcp_job.c: a call and the service ---- */

struct job;
struct job_handler {
	/* MESSAGE, which is taken over, is for the client.  LAST: it is the result, or NULL where
	 * nobody wants one, and the job is gone with this. */
	void (*say)(struct job *job, json_t *message, bool last);
};
struct job {
	struct mcp_call *call;          /* owned */
	const struct job_handler *handler;
	void *arg;                      /* the transport's */
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
/* CALL, which becomes the job's, and TOKEN, "" for the common one; say() is not called before this
 * returns.  NULL: no more can run, or memory is out; CALL is gone. */
struct job *job_new(struct mcp_call *call, const char *token, const struct job_handler *handler,
                    void *arg);
/* The client no longer wants it. */
void job_cancel(struct job *job);
/* Nobody is there any more; what it started goes on. */
void job_drop(struct job *job);
/* Whether there is a job that does not only wait for a dispatch to end. */
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
#define SESSION_STREAMS_MAX 16          /* of which what was said is kept, to be said again */
#define SESSION_IDLE_S 3600

struct stream;
struct session {
	struct session *next;
	char id[SESSION_ID_LEN + 1];
	char token[SERVE_TOKEN_MAX + 1];        /* nobody else's; "" of the server's own clients */
	struct mcp_peer peer;
	struct stream *streams;         /* the newest first */
	unsigned n_streams;             /* so far: numbers of new ones */
	uint64_t used_ms;
};

/* The one that was used the longest ago makes room, of the same token if that has many; NULL: out
 * of memory. */
struct session *session_new(const char *token);
struct session *session_find(const char *id, const char *token);
/* Its calls are dropped, its streams ended; what was dispatched goes on. */
void session_end(struct session *s);

/* ---- mcp_stream.c: the answer to one request over HTTP ---- */

#define STREAM_KEPT_MAX (4u << 20)      /* bytes, of one */
#define STREAM_ALIVE_S 15               /* between two signs of life */

struct stream_event {
	struct stream_event *next;
	unsigned n;
	size_t len;
	char text[];
};
struct stream {
	struct stream *next;            /* of the session's */
	struct session *session;        /* NULL: of a revision without them */
	struct mcp_peer own;            /* the peer, then */
	struct serve_request *q;        /* NULL while nobody listens */
	struct job *job;                /* NULL once it is over */
	unsigned number, n_events;
	bool streams;                   /* else one JSON object is all of the answer */
	struct stream_event *events, **end;     /* kept or still to be sent, */
	struct stream_event *at;        /* from here on, */
	size_t sent;                    /* of that one */
	size_t kept;
	struct loop_timer alive;
};

/* For the answer to Q; S may be NULL.  NULL: out of memory. */
struct stream *stream_new(struct serve_request *q, struct session *s);
/* Says what CALL, which is taken over, comes to. */
void stream_begin(struct stream *stream, struct mcp_call *call);
/* Goes on behind the event LAST of S; false: it is not known, and Q is unanswered. */
bool stream_resume(struct session *s, struct serve_request *q, const char *last);
/* Nobody will hear more of it. */
void stream_free(struct stream *stream);
#endif
