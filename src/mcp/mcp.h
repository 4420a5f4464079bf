/* mcp.h - the Model Context Protocol, as `cloister mcp` speaks it: messages in, messages out.
 *
 * Pure: no sockets, no clock, no files.  A transport reads a message (jsonrpc.h), passes it to
 * mcp_receive(), and sends the result.  A tool call becomes a struct mcp_call.  It names the
 * requests to the service (struct mcp_ask), gets the service's responses, and has its result in the
 * end.
 *
 * There are three revisions of the protocol: 2026-07-28, where every request is self-contained, and
 * 2025-11-25 and 2025-06-18, where `initialize` begins a session.  The request itself shows its
 * revision.
 *
 * Run-time verbs only.  The operator decides on an agent's rights, grants and name, and no request
 * here can change them; tests/scenario/test_agent_verbs.py has the list. */
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
#define MCP_JSON_MAX (4u << 20)         /* a short response of the service, as JSON */
#define MCP_TEXT_MAX (256u << 10)       /* of output or a file, in one response */
#define MCP_TEXT_SHOWN (64u << 10)      /* the default */
#define MCP_FILES_SHOWN 1000
#define MCP_PROGRESS_MS 500             /* between two notifications about output only */
#define MCP_BROKEN_MAX 5                /* restarts of a wait without any response */
#define MCP_PRINCIPAL_MAX 255

struct mcp_config {
	const char *version;            /* of cloister */
	const char *principal;          /* acts on behalf of; "": the operator */
};

/* The fields of an HTTP request that mirror its message; NULL if one is missing. */
struct mcp_fields {
	const char *version, *method, *name;
};

struct mcp_call;

/* One side of a conversation: standard input, an HTTP session of the older revisions, or one HTTP
 * request of the newest. */
struct mcp_peer {
	const char *version;            /* agreed by `initialize`; NULL before, or without */
	struct mcp_call *calls;         /* running */
	size_t n_calls;
};

/* A request to the service. */
struct mcp_ask {
	const char *method;
	char path[MCP_PATH_MAX];
	char *body;                     /* JSON, or NULL */
	bool lines;                     /* the response is lines, each for mcp_call_line() */
	uint64_t skip;                  /* of the response's body: bytes to skip, */
	size_t max;                     /* and how many to keep after them */
};
struct mcp_answer {
	unsigned status;
	const char *body;               /* from ask.skip on, at most ask.max */
	size_t len;
	bool is_cut;                    /* there was more */
};

enum mcp_next {
	MCP_ASK,                        /* send call->ask now */
	MCP_WAIT,                       /* continue with the current request */
	MCP_DONE,                       /* mcp_call_result(), then mcp_call_free() */
};

struct mcp_call {
	struct mcp_ask ask;
	void *app;                      /* for the transport */
	bool waits;                     /* may take long: send events as they come */
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
	json_t *message;                /* owned; NULL with call == NULL: no response */
	unsigned status;                /* for HTTP */
	struct mcp_call *call;          /* owned; send its ask, unless ask.method is NULL: then it is done */
	bool begins;                    /* the response to `initialize`: the peer is a session now */
	struct mcp_call *cancel;        /* one of the peer's; for mcp_call_cancel() */
};

/* Whether VERSION is one of the three; NULL (not given) is fine. */
bool mcp_speaks(const char *version);
/* Whether M belongs to a revision without sessions. */
bool mcp_is_modern(const struct mcp_fields *fields, const struct jsonrpc *m);
/* FIELDS is NULL without HTTP.  -ENOMEM: then the conversation cannot go on. */
int mcp_receive(const struct mcp_config *config, struct mcp_peer *peer,
                const struct mcp_fields *fields, const struct jsonrpc *m,
                struct mcp_reply *ret_reply);

/* ---- calls (mcp_call.c) ---- */

/* The service has answered call->ask completely. */
enum mcp_next mcp_call_answer(struct mcp_call *call, const struct mcp_answer *answer);
/* One line of a response to ask.lines.  The caller sends and owns *ret_progress, unless it is NULL. */
void mcp_call_line(struct mcp_call *call, const char *line, size_t len, uint64_t now_ms,
                   json_t **ret_progress);
/* The service could not be reached, or its response broke off. */
enum mcp_next mcp_call_broken(struct mcp_call *call, const struct err *why);
/* The client no longer wants the result, and the peer forgets the call.  If it waits for a
 * dispatch, that is cancelled too. */
enum mcp_next mcp_call_cancel(struct mcp_call *call);
/* Whether its dispatch was made. */
bool mcp_call_is_begun(const struct mcp_call *call);
/* The response to the request, which the caller owns; NULL: out of memory. */
json_t *mcp_call_result(struct mcp_call *call);
void mcp_call_free(struct mcp_call *call);      /* NULL is fine; the peer forgets it */
/* An internal call: checks whether the service accepts its token.  When it is done, the status is
 * 200, 401, or 503 if the service could not be reached. */
struct mcp_call *mcp_call_check(const struct mcp_config *config, struct mcp_peer *peer);
unsigned mcp_call_checked(const struct mcp_call *call);
/* The peer goes: its calls have no effect from now on, and are dropped as they end. */
void mcp_peer_leave(struct mcp_peer *peer);
#endif
