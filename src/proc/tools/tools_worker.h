/* tools_worker.h - shared by the files of the worker: see tools_proc.h.
 *
 * The agent has sessions.  A session has a cell of each server that it uses (an instance).  A message of the agent's
 * that needs an answer is a call; a question to a server is an ask. */
#ifndef CLOISTER_TOOLS_WORKER_H
#define CLOISTER_TOOLS_WORKER_H
#include <jansson.h>

#include "mcp/jsonrpc.h"
#include "proc/tools/tools_proc.h"
#include "serve/serve.h"
#include "serve/serve_events.h"

#define GATEWAY_MESSAGE_MAX (4u << 20)  /* bytes of one message, unless `result` is more */
#define GATEWAY_SESSIONS_MAX 64
#define GATEWAY_SESSION_IDLE_S 3600
#define GATEWAY_ID_LEN 32               /* hex digits of a session's id */
#define GATEWAY_CALLS_MAX 64            /* of one session, at once */
#define GATEWAY_CHANNELS_MAX 32         /* of one session: responses that are kept for a client to come back */
#define GATEWAY_PAGES_MAX 100           /* of one list of a server */
#define GATEWAY_ITEMS_MAX 2000          /* of one list of a server */
#define GATEWAY_PAGE 1000               /* items in one answer to the agent */
#define GATEWAY_REVERSE_MAX 16          /* questions of one server to the agent, at once, */
#define GATEWAY_REVERSE_CALL_MAX 100    /* and during one call */
#define GATEWAY_NOTES_MAX 1000          /* notifications of one server in a second */
#define GATEWAY_WAITING_MAX (8u << 20)  /* bytes that a client or a server has not taken yet */
#define GATEWAY_BROKEN_MAX 20           /* lines of a server that are no messages, in its life */
#define GATEWAY_START_MS (60 * 1000)    /* until a server has answered `initialize` */
#define GATEWAY_STREAM_MS 5000          /* then a call's answer becomes a stream */

enum gateway_code {
	GATEWAY_FAILED = -32000,        /* the server failed, or did not answer */
	GATEWAY_BUSY = -32001,
	GATEWAY_NO_RESOURCE = -32002,
};

extern struct loop *gateway_loop;
extern const struct policy_tools *gateway_tools;
extern const struct policy *gateway_policy;     /* NULL: the cell learns, so that anything is allowed */

struct instance;
struct session;
struct call;

/* ---- tools_worker.c: the keeper ---- */

void worker_send(const struct buf *message);

/* ---- tools_record.c ---- */

/* Records an event of SERVER; the rest may be NULL.  There is a limit in a second. */
void gateway_record(const struct policy_tools_server *server, const char *cell, const char *event, const char *tool,
                    const char *why);

/* ---- tools_channel.c: where messages for the agent go ---- */

/* One HTTP request and its response: JSON, or events; or the events that a session listens to. */
struct channel {
	struct channel *next;
	struct session *session;
	struct serve_request *q;        /* not answered yet; NULL: it is, or streams */
	bool streams, over, listens;
	struct serve_events events;
	struct loop_timer turn;         /* the answer becomes a stream */
};
/* NULL: out of memory, and Q is unanswered. */
struct channel *channel_new(struct session *s, struct serve_request *q);
/* The stream of a session that listens. */
void channel_listen(struct channel *c);
/* Takes ownership of MESSAGE.  False: the client does not take what it was sent. */
bool channel_send(struct channel *c, json_t *message);
/* The last message; NULL: there is none.  C may be gone then. */
void channel_finish(struct channel *c, json_t *message);
bool channel_resume(struct session *s, struct serve_request *q, const char *last);
void channel_free(struct channel *c);

/* ---- tools_session.c ---- */

struct session {
	struct session *next;
	char id[GATEWAY_ID_LEN + 1];
	const char *version;            /* agreed by `initialize`; NULL before */
	json_t *abilities, *client;     /* of the client: capabilities, name and version */
	char *level;                    /* of logging; NULL: not set */
	struct instance *instances[POLICY_TOOLS_SERVERS_MAX];
	struct channel *channels;       /* the newest first */
	struct channel *listener;       /* NULL: none */
	bool is_old;                    /* all answers go to LISTENER: HTTP+SSE of 2024-11-05 */
	struct call *calls;
	size_t n_calls;
	unsigned n_channels;
	uint64_t n_reverse;             /* ids of questions to the agent */
	struct reverse *reverses;
	uint64_t used_ms;
};
struct session *gateway_session_new(void);      /* NULL: out of memory */
struct session *gateway_session_find(const char *id);
void gateway_session_end(struct session *s);
/* The cell of server I, started if there is none.  NULL: there are too many. */
struct instance *gateway_session_instance(struct session *s, size_t i);
/* A notification of a server, of which it takes ownership: to the call that I works for, or to the listener. */
void gateway_session_tell(struct session *s, const struct instance *i, json_t *message);

/* ---- tools_reverse.c: questions of servers to the agent ---- */

/* M is borrowed. */
void reverse_ask(struct instance *i, const struct jsonrpc *m);
/* The agent's answer. */
void reverse_answer(struct session *s, const struct jsonrpc *m);
/* The server takes its question with this id back. */
void reverse_cancel(struct instance *i, json_t *id, const char *reason);
void reverse_drop_instance(struct instance *i);
size_t reverse_count(const struct instance *i);

/* ---- tools_instance.c: one server's cell ---- */

/* Exactly one of RESULT and ERROR is there, and borrowed.  IS_OURS: the error is not the server's. */
typedef void ask_answered(void *arg, json_t *result, json_t *error, bool is_ours);

struct ask {
	struct ask *next;
	struct instance *instance;
	uint64_t id;
	const char *method;             /* static */
	json_t *params;                 /* until it is sent */
	size_t result_max;              /* bytes; 0: GATEWAY_MESSAGE_MAX */
	ask_answered *answered;
	void *arg;
	struct call *call;              /* that it is for; NULL: none */
	uint64_t timeout_ms;
	struct loop_timer late;
};

enum instance_step { INSTANCE_STARTS, INSTANCE_BEGINS, INSTANCE_READY, INSTANCE_ENDS };

struct instance {
	char failed[TOOLS_WHY_MAX];     /* why it did not begin; "": it did */
	char frozen[TOOLS_WHY_MAX];     /* why its cell stands still; "": it does not */
	unsigned number;
	size_t index;
	const struct policy_tools_server *server;
	struct session *session;        /* NULL: it has gone */
	struct call *only;              /* with per: call */
	enum instance_step step;
	char cell[16];                  /* its id; "" before */
	struct loop_source in, out, err;        /* its standard streams; fd is -1 */
	struct buf to, from, errors;
	bool skips;                     /* the rest of a line that is too long */
	char tail[128];                 /* the last bytes of that line */
	size_t n_tail;
	struct ask *asks;
	uint64_t n_asks;
	json_t *abilities;              /* capabilities of the server */
	json_t *known;                  /* names of its tools that exist for the agent; NULL: not read */
	uint64_t n_holds, n_held;       /* asked of the keeper, and answered */
	bool holds_again;               /* once it has answered */
	unsigned n_broken, n_notes;
	uint64_t notes_ms;
	struct loop_timer idle;
	struct loop_round next;
};

/* NULL: there are too many. */
struct instance *instance_new(struct session *s, size_t index, struct call *only);
void instance_end(struct instance *i);  /* its asks fail */
void instance_fail(struct instance *i);         /* the same: it does not speak MCP */
void instance_closed(struct instance *i);       /* the same: it has closed its output */
/* Takes ownership of PARAMS (may be NULL).  CALL may be NULL.  NULL: out of memory, or the server does not read;
 * ANSWERED is not called then, nor before this returns. */
struct ask *instance_ask(struct instance *i, const char *method, json_t *params, uint64_t timeout_ms,
                         struct call *call, ask_answered *answered, void *arg);
/* Nobody wants the answer any more; REASON: the server is told. */
void ask_drop(struct ask *a, const char *reason);
/* More time, after the server had to wait for people. */
void ask_renew(struct ask *a, uint64_t timeout_ms);
/* Takes ownership of MESSAGE. */
void instance_send(struct instance *i, json_t *message);
bool instance_can(const struct instance *i, const char *ability);
/* From the keeper. */
void instance_started(unsigned number, const char *cell, int fds[3]);
void instance_ended(unsigned number, const char *why);
void instance_held(unsigned number, const char *why);
void instance_frozen(unsigned number, const char *why);
void instance_each(const struct session *s, void (*each)(struct instance *i, void *arg), void *arg);

/* ---- tools_lines.c: the bytes of a server ---- */

bool lines_begin(struct instance *i, int fds[3]);
void lines_close(struct instance *i);
/* TEXT is one line without its newline. */
bool lines_put(struct instance *i, const char *text);
/* Called for each line: tools_instance.c. */
void instance_hear(struct instance *i, const char *text, size_t len);
/* A line was too long; TAIL is its end. */
void instance_hear_cut(struct instance *i, const char *head, const char *tail);
void instance_hear_error(struct instance *i, const char *text, size_t len);

/* ---- tools_call.c: requests of the agent ---- */

struct call {
	struct call *next;
	struct session *session;
	struct channel *channel;
	json_t *id, *token;             /* TOKEN: of progress; NULL: none */
	struct ask *ask;                /* the one it waits for; NULL: none, or several */
	struct listing *listing;
	struct instance *instance;      /* that works for it */
	const struct policy_tools_server *server;       /* NULL: all */
	char *of;                       /* "tool:server.name"; NULL: there is none */
	char *tool;                     /* in the server's own words */
	json_t *params;                 /* of a call that waits for its server's list */
	unsigned n_reverse;
	const struct policy_tool *locked;       /* with a lock */
	uint64_t hold;                  /* the hold of the instance that it waits for; 0: none */
	json_t *held;                   /* the answer, which waits for a person; NULL: none */
	uint64_t question;              /* its number */
	struct loop_timer late;
};
/* Takes M's request from Q. */
void call_begin(struct session *s, struct channel *channel, const struct jsonrpc *m);
/* Takes ownership of RESULT. */
void call_result(struct call *c, json_t *result);
void call_error(struct call *c, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void call_cancel(struct call *c);
void call_free(struct call *c);
/* I is gone, and so are the questions to it. */
void call_fail_all(const struct instance *i, const char *why);
struct call *call_find(const struct session *s, const json_t *id);
/* The session's answer to `initialize`. */
json_t *call_welcome(struct session *s, const struct jsonrpc *m);
/* Notifications of the agent. */
void call_note(struct session *s, const struct jsonrpc *m);

/* The milliseconds that its server has for it: its timeout, or less by the tool's scope. */
uint64_t call_time(const struct call *c);
/* Its scope is in force. */
void call_tool(struct call *c);

/* The call is over: MESSAGE is its answer, which this takes ownership of. */
void call_finish(struct call *c, json_t *message);

/* ---- tools_result.c: results that wait for people ---- */

/* The answer of C's server: MESSAGE, which this takes ownership of, goes to the agent, or waits for a person. */
void result_give(struct call *c, json_t *message);
/* Nobody waits for C's result any more. */
void result_drop(struct call *c);
/* From the keeper. */
void result_answered(uint64_t number, bool yes, const char *why);
/* Whether a person would have to see ONE, text of a server's that is no result: then the agent does not get it. */
bool result_is_withheld(const json_t *one);
/* Whether ONE looks like instructions, and the policy asks about such. */
bool result_is_suspect(const json_t *one);

/* ---- tools_scope.c ---- */

/* Between calls, I may do nothing. */
void gateway_scope_rest(struct instance *i);
/* False: there is nothing to wait for; else call_tool() follows. */
bool gateway_scope_begin(struct call *c);
void gateway_scope_end(struct call *c);
void gateway_scope_held(struct instance *i, const char *why);

/* ---- tools_list.c: lists of all servers ---- */

/* Called once with the items of one server (borrowed), or with the reason why there are none. */
typedef void fetch_done(void *arg, json_t *items, const char *why);
struct fetch;
struct fetch *fetch_begin(struct instance *i, const char *method, const char *key, struct call *call,
                          fetch_done *done, void *arg);
void fetch_drop(struct fetch *f);

void listing_begin(struct call *c, const char *method, const char *key, const json_t *params);
void tools_listing_free(struct listing *l);
/* The tools of ITEMS that exist for the agent, as it sees them; I knows them then. */
json_t *listing_tools(struct instance *i, json_t *items);

/* ---- tools_names.c: names of servers' things, as the agent sees them ---- */

/* "server.name": the server's index, and *ret_name behind the point; -1: there is no such server. */
int names_split(const char *name, char separator, const char **ret_name);
json_t *names_join(const struct policy_tools_server *server, char separator, const char *name);
/* Put the server's name before a member of OBJECT. */
void names_mark(const struct policy_tools_server *server, json_t *object, const char *key, char separator);
/* Mark all URIs of resources in RESULT, in place. */
void names_mark_result(const struct policy_tools_server *server, json_t *result);

/* ---- tools_http.c ---- */

int tools_http_begin(struct err *err);
void tools_http_give(int fd);
#endif
