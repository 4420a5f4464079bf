/* exchange.h - a request of the agent and its response, or a connection that is passed through.
 *
 * Each stream of the gate is an exchange.  It goes through the row of stages (stage.h), and then to
 * the pool of connections as a transfer (upstream/transfer.h).  What only one stage needs is in that
 * stage's own struct.
 *
 * Callbacks may still hold an exchange that is over, so its memory is reused when the loop's round
 * ends. */
#ifndef CLOISTER_EGRESS_EXCHANGE_H
#define CLOISTER_EGRESS_EXCHANGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "egress/ask.h"
#include "egress/body.h"
#include "egress/budget.h"
#include "egress/consequence.h"
#include "egress/hook.h"
#include "egress/inspect.h"
#include "egress/rewrite.h"
#include "egress/secrets.h"
#include "egress/ssh.h"
#include "egress/strict.h"
#include "egress/wire.h"
#include "policy/policy.h"
#include "upstream/transfer.h"

#define COURIER_NOTE_MAX EGRESS_REASON_MAX

struct courier;
struct courier_policy;
struct stage;

enum exchange_kind { EXCHANGE_HTTP, EXCHANGE_TCP, EXCHANGE_TLS };

enum exchange_state {
	EXCHANGE_NEW,
	EXCHANGE_HOLDS,                 /* a stage holds the body; nothing is sent */
	EXCHANGE_WAITS,                 /* waits for a stage, or for a connection */
	EXCHANGE_SENT,                  /* on a connection */
	EXCHANGE_PASSES,                /* on a connection, bytes both ways */
	EXCHANGE_DRAINS,                /* answered: the rest of the request is discarded */
	EXCHANGE_OVER,
};

/* The request, as the gate sent it. */
struct exchange_request {
	struct buf frame;               /* as it came from the gate */
	size_t head_at;                 /* where the head is in FRAME */
	enum egress_via via;
	uint16_t from;                  /* the port of the cell's side of the connection; 0: unknown */
	uint32_t version;
	struct http_text path;          /* in FRAME; with its query */
	uint64_t length;
	bool is_grpc, expects;
	bool is_shut;                   /* the client has closed its side: see exchange_shut() */
	bool has_key;                   /* KEY is the client's key, proven in its handshake */
	unsigned char key[EGRESS_KEY];
};

/* What came of it, for the record. */
struct exchange_outcome {
	bool recorded, refused;
	const char *why;                /* the reason as in events, or NULL */
	const char *quiet;              /* the scheme of a secret that was revoked quietly, or NULL */
	uint32_t retry_after_s;         /* for a refusal: seconds until a retry; 0: do not retry */
};

struct exchange_times {
	uint64_t began_ms;
	uint64_t left_ms;               /* when nothing held it back any more; 0: not yet */
	uint64_t first_ms;              /* when the head of the response came; 0: not yet */
};

/* The response, on its way to the gate. */
struct exchange_response {
	uint16_t n_interim;
	bool ending, ended;             /* the end is known; the end was sent */
	uint64_t received;
	struct buf end;                 /* of EGRESS_END, if the end has to wait for t.pending */
};

struct exchange {
	struct courier *courier;
	struct mux_stream *stream;      /* NULL once it is over */
	struct exchange *next, **at;    /* list of all exchanges, or of the spare ones */
	enum exchange_kind kind;
	enum exchange_state state;      /* changed by exchange_set() only */
	const struct stage *stage;      /* where it is in the row; NULL: not begun, or through */
	uint64_t heard_s;               /* when the gate last sent something of it */
	struct exchange_times times;
	struct transfer t;
	struct exchange_request request;
	struct exchange_flow flow;

	struct courier_policy *policy;
	struct policy_decision decision;
	struct policy_logged logged;
	bool learned;                   /* no rule allows it, but learn mode lets it pass */
	struct exchange_outcome outcome;
	struct exchange_response response;

	/* The state of stages. */
	struct exchange_hook *hook;     /* NULL: no hook was asked */
	struct exchange_rewrite *rewrite;       /* NULL: nothing is changed */
	struct exchange_ask *ask;       /* NULL: no approval was asked for, and none will be */
	struct exchange_budget budget;
	struct exchange_consequence consequence;
	struct exchange_strict strict;
	struct exchange_secrets *secrets;       /* NULL: not searched for placeholders */
	struct exchange_wire *wire;     /* NULL: not Postgres or Redis with a secret */
	struct injection *injection;    /* NULL: the response is no result of a tool, or is not searched */
	struct exchange_ssh *ssh;       /* NULL: no SSH was seen on it */

	/* Large, and not cleared as a whole for each exchange: */
	struct exchange_inspect inspect;
	struct exchange_scan scan;
	char host[HTTP_HOST_MAX + 1];
	char note[COURIER_NOTE_MAX];    /* one sentence for people, or "" */
};

struct exchange *exchange_of(struct transfer *t);
const struct exchange *exchange_of_const(const struct transfer *t);
/* The only place where the state changes. */
void exchange_set(struct exchange *ex, enum exchange_state state);

/* ---- exchange.c ---- */

/* For the stream ID, which the gate has opened.  NULL: there are too many. */
struct exchange *exchange_new(struct courier *c, uint32_t id, enum exchange_kind kind);
/* EX's head is in request.frame: read it, and set what follows from it.  -EBADMSG: it is invalid. */
int exchange_take_head(struct exchange *ex);
/* The head of EX's request, which the caller may change.  Valid until the next call for any
 * exchange. */
struct http_head *exchange_head(struct exchange *ex);
/* The head as it is sent.  It contains secrets: never show or record it. */
struct http_head *exchange_head_to_send(struct exchange *ex);
/* Send a response head, from the server or our own.  Its fields may be changed.  A final head
 * without a body also ends the response.  False: the head could not be sent on, and EX failed. */
bool exchange_respond(struct exchange *ex, struct http_head *head, bool has_body);
/* The last step of exchange_respond(): send HEAD to the gate unchanged. */
bool exchange_send_head(struct exchange *ex, struct http_head *head, bool has_body);
/* Give bytes of the response's body to the gate.  Bytes that the gate does not take are kept.  The
 * caller ensures that these never exceed COURIER_PENDING_MAX. */
void exchange_give(struct exchange *ex, const void *data, size_t len);
/* As exchange_give(), for bytes that cannot contain secrets any more. */
void exchange_give_plain(struct exchange *ex, const void *data, size_t len);
/* The response is complete, or the server has closed its side of a raw connection. */
void exchange_end(struct exchange *ex, const struct http_field *trailers, size_t n);
/* Release EX's connection and whatever EX waits for.  The exchange with the gate goes on. */
void exchange_detach(struct exchange *ex);
/* End EX at once.  The gate gets a RESET, unless the response is complete. */
void exchange_reset(struct exchange *ex, enum egress_reset why);
void exchange_over(struct exchange *ex);
/* Answer the gate's question about a connection.  With EGRESS_TUNNEL, its bytes follow. */
void exchange_routed(struct exchange *ex, enum egress_routed routed, const char *reason,
                     const char *hint);
/* Fail EX if its client stalls in the middle of a request while others wait.  True: it did. */
bool exchange_give_way(struct exchange *ex);
/* EX's deadline has passed. */
void exchange_late(struct exchange *ex);
/* The gate takes bytes again. */
void exchange_writable(struct exchange *ex);
void exchange_free(struct exchange *ex);
/* Make an exchange that is over available for reuse. */
void exchange_recycle(struct exchange *ex);

/* ---- decide.c ---- */

/* Answer the gate.  NAME is the agent's own text, and possibly not a host name. */
void courier_resolve_name(struct courier *c, uint32_t id, const char *name, bool is_host);
/* HOST and PORT are those of the connection on which the request came. */
void exchange_decide(struct exchange *ex, const char *host, uint16_t port);
/* Decide again after the inspection of the body; see exchange_settle(). */
void exchange_decide_body(struct exchange *ex, const unsigned char *fits, size_t n);
/* Use P from now on.  If P refuses EX, EX is refused, or cut off if its response has begun. */
void exchange_decide_again(struct exchange *ex, struct courier_policy *p);
/* Decide by EX's current policy, without the body. */
void exchange_decide_anew(struct exchange *ex);
/* Whether EX with HEAD is DNS over HTTPS, which is refused. */
bool exchange_refuse_doh(struct exchange *ex, const struct http_head *head);
/* True: EX is allowed, or people have to approve it (ask.h).  Otherwise EX is refused. */
bool exchange_settle(struct exchange *ex);
/* Decide what to do with a new connection that looks like LOOKS. */
void exchange_route(struct exchange *ex, enum egress_looks looks, const char *sni);
/* The rules that allow EX.  Earlier rules may still deny addresses. */
struct policy_way exchange_way(const struct exchange *ex);

/* ---- look.c ---- */

/* Search EX's head for credentials, unless a rule allows them.  False: EX is refused. */
bool exchange_look_at_head(struct exchange *ex);

/* ---- refuse.c ---- */

/* Answer 403 (or STATUS) with a body that explains why, and record it.  WHY is as in events.
 * REASON is for people; if NULL, the rule's reason or the meaning of WHY is used. */
void exchange_refuse(struct exchange *ex, const char *why, const char *reason);
/* Answer with HEAD and BODY as the whole response, whatever the state of the request. */
void exchange_answer(struct exchange *ex, struct http_head *head, const struct buf *body);
void exchange_refuse_with(struct exchange *ex, uint16_t status, const char *why,
                          const char *reason);
/* Fail because of the server or the network.  If the response has begun, the gate gets a reset. */
void exchange_fail(struct exchange *ex, const struct failure *failure);

/* ---- record.c ---- */

/* Record EX as it is now; once only. */
void exchange_record(struct exchange *ex);
/* Record that EX is about to leave, under its number. */
void exchange_record_intent(struct exchange *ex);
/* Record EX, which is over, unless that was done.  EX releases its policy. */
void exchange_record_last(struct exchange *ex);
/* Record a lookup of NAME.  STRAY explains why the lookup is an exfiltration, or is NULL. */
void courier_record_name(struct courier *c, const char *name, bool permitted, const char *stray);
/* Call this after the event of a refusal.  Raises an alarm if WHY is exfiltration and the policy
 * wants alarms. */
void courier_raise_alarm(struct courier *c, const char *why);
/* A refusal that the gate made by itself (EGRESS_NOTE). */
struct courier_note {
	enum egress_note kind;
	const char *host, *reason;      /* HOST is "" if unknown */
	uint16_t port, status;          /* 0 if unknown */
	enum egress_via via;
	uint32_t times;
};
void courier_record_note(struct courier *c, const struct courier_note *note);
#endif
