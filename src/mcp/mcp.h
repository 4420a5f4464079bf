/* mcp.h - the Model Context Protocol, as `cloister mcp` speaks it: messages in, messages out.
 *
 * Pure: no sockets, no clock, no files.  A transport reads a message (jsonrpc.h), gives it to
 * mcp_receive(), and sends what comes back.  A tool that was called becomes a struct mcp_call: it
 * says what is to be asked of the service (struct mcp_ask), is told what the service answered,
 * and has its result in the end.
 *
 * There are three revisions of the protocol: 2026-07-28, where every request says all that there
 * is to know, and 2025-11-25 and 2025-06-18, where `initialize` begins a session.  Which of them a
 * request belongs to is seen from the request.
 *
 * Run-time verbs only.  What an agent gets, may do and is called is an operator's to say, and
 * nothing here can be asked to change it; tests/scenario/test_agent_verbs.py has the list. */
#ifndef CLOISTER_MCP_H
#define CLOISTER_MCP_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "mcp/jsonrpc.h"

#define MCP_MODERN "2026-07-28"
#define MCP_CALLS_MAX 64                /* of one peer, at a time */
#define MCP_PATH_MAX 8192               /* of an ask */
#define MCP_JSON_MAX (4u << 20)         /* what the service answers at once, as JSON */
#define MCP_TEXT_MAX (256u << 10)       /* of output or a file, in one answer */
#define MCP_TEXT_SHOWN (64u << 10)      /* unless more was asked for */
#define MCP_FILES_SHOWN 1000
#define MCP_PROGRESS_MS 500             /* between two that only tell of output */
#define MCP_BROKEN_MAX 5                /* times that a wait is begun anew without having heard */
#define MCP_PRINCIPAL_MAX 255

struct mcp_config {
	const char *version;            /* of cloister */
	const char *principal;          /* on whose behalf all is done; "": the operator's own */
};

/* The fields of an HTTP request that mirror its message; NULL where one is missing. */
struct mcp_fields {
	const char *version, *method, *name;
};

struct mcp_call;

/* One side of a conversation: standard input, an HTTP session of the older revisions, or one
 * HTTP request of the newest. */
struct mcp_peer {
	const char *version;            /* what `initialize` agreed on; NULL before, or without */
	struct mcp_call *calls;         /* that run */
	size_t n_calls;
};

/* What the service is to be asked. */
struct mcp_ask {
	const char *method;
	char path[MCP_PATH_MAX];
	char *body;                     /* JSON, or NULL */
	bool lines;                     /* the answer is lines, each for mcp_call_line() */
	uint64_t skip;                  /* of the answer's body: what is passed over, */
	size_t max;                     /* and how much is kept of what follows */
};
struct mcp_answer {
	unsigned status;
	const char *body;               /* from ask.skip on, at most ask.max */
	size_t len;
	bool is_cut;                    /* there was more */
};

enum mcp_next {
	MCP_ASK,                        /* call->ask is what to ask now */
	MCP_WAIT,                       /* go on with what is being asked */
	MCP_DONE,                       /* mcp_call_result(), then mcp_call_free() */
};

struct mcp_call {
	struct mcp_ask ask;
	void *app;                      /* the transport's own */
	bool waits;                     /* it may take long: send what there is as it comes */
	bool cancelled;                 /* nobody wants its result */
	/* private */
	const struct mcp_config *config;
	struct mcp_peer *peer;
	struct mcp_call *next, **at;
	const struct mcp_tool *tool;
	json_t *id, *token, *args, *out;
	bool modern, failed;
	int step;
	unsigned broken, n_progress;
	uint64_t spoke_ms, event_n;
	char dispatch[65];
};

struct mcp_reply {
	json_t *message;                /* owned; NULL with call == NULL: nothing to answer */
	unsigned status;                /* as HTTP tells it */
	struct mcp_call *call;          /* owned; its ask is to be asked, unless ask.method is NULL:
	                                 * then it is done */
	bool begins;                    /* the answer to `initialize`: the peer is a session now */
	struct mcp_call *cancel;        /* of the peer's; for mcp_call_cancel() */
};

/* Whether VERSION is one of the three; NULL, which says nothing, is fine. */
bool mcp_speaks(const char *version);
/* Whether M belongs to a revision without sessions. */
bool mcp_is_modern(const struct mcp_fields *fields, const struct jsonrpc *m);
/* FIELDS is NULL where there is no HTTP.  -ENOMEM: then the conversation cannot go on. */
int mcp_receive(const struct mcp_config *config, struct mcp_peer *peer,
                const struct mcp_fields *fields, const struct jsonrpc *m,
                struct mcp_reply *ret_reply);

/* ---- calls (mcp_call.c) ---- */

/* The service has answered all of call->ask. */
enum mcp_next mcp_call_answer(struct mcp_call *call, const struct mcp_answer *answer);
/* One line of an answer to ask.lines.  *ret_progress, which the caller owns, is to be sent, unless
 * it is NULL. */
void mcp_call_line(struct mcp_call *call, const char *line, size_t len, uint64_t now_ms,
                   json_t **ret_progress);
/* The service could not be asked, or did not answer to the end. */
enum mcp_next mcp_call_broken(struct mcp_call *call, const struct err *why);
/* The client no longer wants the result, and the peer forgets the call.  A dispatch that is waited
 * for is cancelled too. */
enum mcp_next mcp_call_cancel(struct mcp_call *call);
/* Whether what it waits for has been dispatched. */
bool mcp_call_is_begun(const struct mcp_call *call);
/* The answer to the request, which the caller owns; NULL: out of memory. */
json_t *mcp_call_result(struct mcp_call *call);
void mcp_call_free(struct mcp_call *call);      /* NULL is fine; the peer forgets it */
/* Not a client's: whether the service takes the token that it is asked with.  Then, once it is done:
 * 200, 401, or 503 where the service could not be asked. */
struct mcp_call *mcp_call_check(const struct mcp_config *config, struct mcp_peer *peer);
unsigned mcp_call_checked(const struct mcp_call *call);
/* The peer goes: its calls lead nowhere from now on, and are dropped as they end. */
void mcp_peer_leave(struct mcp_peer *peer);
#endif
