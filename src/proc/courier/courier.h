/* courier.h - takes requests from the gate, decides on them, and sends the allowed ones to their
 * servers.
 *
 * Each stream of the gate (courier_gate.c) is an exchange (courier_exchange.c): a request, or a
 * connection that is passed through.  An exchange takes these steps:
 *
 * - The courier decides on it (courier_decide.c).  It may first inspect the body (courier_body.c)
 *   and ask people for approval (courier_ask.c).
 * - A refused exchange is answered by courier_refuse.c.
 * - An allowed exchange gets a connection (courier_pool.c, courier_upstream.c).  The connection
 *   speaks HTTP/1.1 (courier_h1.c), HTTP/2 (courier_h2.c) or raw bytes (courier_raw.c), or first
 *   logs in to Postgres or Redis (courier_wire.c).
 * - The courier records the outcome (courier_event.c).
 *
 * Callbacks may still hold exchanges and connections, so their memory is freed when the loop's
 * round ends.  Until then they are marked as over. */
#ifndef CLOISTER_COURIER_H
#define CLOISTER_COURIER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"
#include "inspect/inspect.h"
#include "ipc/courier_channel.h"
#include "ipc/egress_channel.h"
#include "loop/loop.h"
#include "policy/policy.h"
#include "proc/courier/courier_ask.h"
#include "proc/courier/courier_budget.h"
#include "proc/courier/courier_event.h"
#include "proc/courier/courier_fire.h"
#include "proc/courier/courier_proxy.h"
#include "proc/courier/courier_resolve.h"
#include "proc/courier/courier_secrets.h"
#include "proc/courier/courier_ssh.h"
#include "proc/courier/courier_steer.h"
#include "proc/courier/courier_tls.h"
#include "proc/courier/courier_webhook.h"
#include "proc/courier/courier_wire.h"

struct origin;
struct upstream;
struct pool;

/* In seconds. */
#define COURIER_ANSWER_S 300            /* until the head of the response: models think long */
#define COURIER_IDLE_S 300              /* between two pieces of a body */
#define COURIER_RAW_IDLE_S 3600
#define COURIER_QUEUE_S 60              /* waiting for a connection, when all are in use */
#define COURIER_INSPECT_S 30
#define COURIER_PRESSED_S 3             /* between two pieces of a request, while others wait */

#define COURIER_INTERIM_MAX 64          /* interim heads before the final one (such as 103) */
#define COURIER_DRAIN_MAX (4 * 1024 * 1024) /* bytes of a request body, after an early response */
#define COURIER_SPARE_MAX 64            /* exchanges kept for reuse */
#define COURIER_QUIET_S 2               /* after this time without exchanges, memory is freed */
#define COURIER_KEPT_FRAME (8 * 1024)   /* bytes of frame memory that a spare exchange keeps */
#define COURIER_PENDING_MAX (4 * 1024 * 1024) /* bytes of a response that the gate has not taken */
#define COURIER_NOTE_MAX EGRESS_REASON_MAX
#define COURIER_HELD_MAX ((size_t)64 * 1024 * 1024)     /* of one body, whatever the rules allow */
#define COURIER_HELD_ALL ((size_t)256 * 1024 * 1024)    /* of all bodies together */
#define COURIER_LOOK_HELD ((size_t)10 * 1024 * 1024)    /* of a body that is only searched for its price or
                                                         * for credentials */
#define COURIER_TAIL_MS 5               /* how long the end of a request body is held back */
#define COURIER_IN_SIZE (64 * 1024)     /* bytes read from a connection at once */

/* A policy, kept as long as an exchange uses it. */
struct courier_policy {
	struct policy *policy;
	uint32_t number;
	size_t users;
	bool asks;                      /* some rule asks for approval */
	bool fires, tripwires;          /* the policy has consequences or tripwires: courier_fire.h */
	struct courier_policy *before;  /* the policy that owns COUNTS; NULL: this one does */
	uint64_t *counts;               /* matches per rule, shared with the supervisor; NULL: not counted */
	size_t n_counts;
	struct courier_budgets budgets;
};

/* Why an allowed request failed.  All strings but NOTE are static. */
struct courier_failure {
	uint16_t status;                /* 502 or 504; 403 if the failure is a refusal */
	const char *why;                /* as in events: "unreachable" */
	const char *error;              /* "upstream unreachable" */
	char note[COURIER_NOTE_MAX];    /* one sentence */
};

enum exchange_kind { EXCHANGE_HTTP, EXCHANGE_TCP, EXCHANGE_TLS };
enum exchange_step {
	STEP_HOLD,                      /* the body is being inspected; nothing is sent */
	STEP_WAIT,                      /* waits for a connection */
	STEP_SENT,                      /* on a connection */
	STEP_RAW,                       /* on a connection, bytes both ways */
	STEP_DRAIN,                     /* answered: the rest of the request is discarded */
	STEP_OVER,
};

struct exchange {
	struct courier *courier;
	struct mux_stream *stream;      /* NULL once it is over */
	struct exchange *next, **at;    /* list of all exchanges, or of the spare ones */
	struct exchange *wait_next;     /* in its origin's queue */
	struct exchange *up_next;       /* on its HTTP/2 connection */
	struct origin *origin;          /* STEP_WAIT */
	struct upstream *upstream;      /* STEP_SENT, STEP_RAW; tunnels also in STEP_WAIT */
	enum exchange_kind kind;
	enum exchange_step step;
	uint64_t deadline_s;            /* on the courier's clock; 0: none */
	uint64_t heard_s;               /* when the gate last sent something of it */
	uint64_t began_ms, left_ms;     /* LEFT_MS: when nothing held it back any more; 0: not yet */
	uint64_t first_ms;              /* when the head of the response came; 0: not yet */

	/* The request. */
	struct buf frame;               /* as it came from the gate */
	size_t head_at;                 /* where the head is in FRAME */
	uint16_t port;
	enum http_scheme scheme;
	enum egress_via via;
	uint32_t version;
	struct http_text method, path;  /* in FRAME; path with its query */
	uint64_t length;
	bool has_body, is_head, is_upgrade, is_grpc, expects;
	bool h1_only;                   /* needs what HTTP/2 lacks: an upgrade, or a signed coding */
	bool is_shut;                   /* the client has closed its side: see exchange_shut() */
	bool has_key;                   /* KEY is the client's key, proven in its handshake */

	/* The decision. */
	struct courier_policy *policy;
	struct policy_decision decision;
	struct policy_logged logged;
	bool learned;                   /* no rule allows it, but learn mode lets it pass */
	bool recorded, refused;
	bool fired, tripped;            /* consequences and tripwires were applied: courier_fire.h */
	const char *why;                /* the reason as in events, or NULL */
	const char *quiet;              /* the scheme of a secret that was revoked quietly, or NULL */
	uint64_t intent;                /* the number of the record that it waits for; 0: none */
	struct exchange *awaits_next, **awaits_at;      /* list of waiting exchanges; AWAITS_AT is NULL if
	                                                 * it does not wait */
	struct exchange_budget budget;
	uint32_t retry_after_s;         /* for a refusal: seconds until a retry; 0: do not retry */

	struct exchange_ask *ask;       /* NULL: no approval was asked for, and none will be */

	/* The request's body. */
	struct buf body;                /* bytes not yet sent; POS is the first of them */
	size_t body_free;               /* bytes of BODY for which the gate has its credit back */
	uint64_t came, sent, drained;   /* bytes from the gate; bytes sent; bytes discarded */
	bool came_all, sent_all;
	struct buf trailers;            /* encoded; empty if there are none */
	bool scans;                     /* plain body: scanned for credentials as it passes */
	bool scans_filled;              /* held body: scanned when its placeholders are replaced */
	bool holds_back;                /* keeps the end of the body until it is known to be harmless */
	size_t n_tail;
	struct loop_timer tail_timer;

	/* A body that is held for inspection. */
	struct mux_stream *inspect;
	uint32_t inspect_wanted;
	uint32_t inspect_policy;        /* the number of the policy that cloister-inspect has */
	size_t inspect_at;              /* offset in BODY */
	bool inspect_ended;
	uint32_t inspect_result;
	unsigned char *fits;            /* the inspection's result */
	size_t n_fits, n_held;

	/* The cell's secrets. */
	struct exchange_secrets *secrets;       /* NULL: not searched for placeholders */
	uint8_t certificate;            /* the client certificate to use: courier_mtls.h */
	struct exchange_wire *wire;     /* NULL: not Postgres or Redis with a secret */
	size_t owed;                    /* bytes of the body without credit to the gate yet: its length may
	                                 * change on the way */

	struct exchange_ssh *ssh;       /* NULL: no SSH was seen on it */

	/* The response. */
	uint16_t status;                /* of the last head; 0: none yet */
	uint16_t n_interim;
	bool answered, bodiless;        /* the last head was final; it has no body */
	struct buf pending;             /* bytes of the body that the gate has not taken */
	struct buf end;                 /* of EGRESS_END, if the end has to wait for PENDING */
	uint64_t received;
	bool ending, ended;             /* the end is known; the end was sent */

	/* The connection. */
	bool retried;                   /* an exchange is retried once only */
	bool upstream_ended;            /* raw: the server has half-closed */
	int32_t h2_id;
	bool h2_deferred;               /* waits for more of BODY */
	size_t h2_unconsumed;           /* bytes of PENDING without credit to the server yet */
	uint64_t h2_length, h2_came;    /* of the response's body: as announced, and so far */

	/* Large, and not cleared for each exchange: */
	char host[HTTP_HOST_MAX + 1];
	unsigned char key[EGRESS_KEY];
	char note[COURIER_NOTE_MAX];    /* one sentence for people, or "" */
	char inspect_what[128];
	char model[POLICY_MODEL_MAX + 1];       /* the model in the request; set by exchange_price() */
	char pushed[INSPECT_PUSHED_MAX]; /* as in INSPECT_RESULT, or "" */
	struct secrets_scan scan;       /* with SCANS */
	unsigned char tail[SECRETS_TAIL];
};

struct courier {
	struct loop *loop;
	struct mux *gate, *inspect;
	int gate_error;                 /* why the gate has gone, a negative errno; 0: it has not */
	bool bereft;                    /* gate or inspect has gone, so the courier ends too */
	struct loop_source supervisor;
	struct events events;
	struct courier_policy *policy;
	struct steered_queue steered;
	bool learn, alarms, strict;     /* see COURIER_ALARMS, COURIER_STRICT */
	char halted[COURIER_HALT_MAX + 1];      /* why nothing may leave; "": requests may leave */
	uint64_t n_intents;
	struct courier_asks asks;
	struct exchange *awaits, **awaits_end;  /* those whose record is not on disk yet */
	uint32_t inspect_knows;         /* the number of the policy that inspect was sent last; 0: none */
	size_t held;                    /* see COURIER_HELD_ALL */

	struct budgets budgets;
	struct fires fires;
	struct secrets secrets;
	struct loop_source keeper;      /* renews secrets; fd is -1 if there is none */
	uint32_t keeper_asked, keeper_answered;
	struct webhooks webhooks;
	struct proxies proxies;
	struct resolver *resolver;
	struct tls tls;
	struct pool *pool;

	struct exchange *exchanges;     /* all that are not over */
	struct exchange *over, **over_end, *spare;
	size_t n_exchanges, n_spare;
	struct loop_round round;        /* runs when the loop's round ends */
	struct loop_timer tick;         /* once a second, while there is something to watch */
	uint64_t now_s, quiet_since_s;
	bool rests;                     /* the courier is idle and has given memory back */

	struct http_head head;          /* the parsed head of HEAD_OF, used for one request at a time */
	const struct exchange *head_of;
	struct buf out;                 /* a frame for the gate, or bytes for a server */
	const unsigned char *reserved;  /* see exchange_reserve() */
	unsigned char in[COURIER_IN_SIZE];
};

/* ---- courier.c ---- */

/* Set up everything that needs no descriptors.  The courier takes over POLICY. */
int courier_init(struct courier *c, struct policy *policy, bool learn,
                 char *const *environment, const char *pem, size_t pem_len, struct err *err);
/* Start on the three channels.  INSPECT may be -1. */
int courier_start(struct courier *c, struct loop *loop, int supervisor, int gate, int inspect,
                  struct err *err);
void courier_close(struct courier *c);

/* Start the tick timer: there are deadlines to watch. */
void courier_wake(struct courier *c);
/* Run the end-of-round work when this round ends. */
void courier_at_round_end(struct courier *c);
/* Wipe the first LEN bytes of c->in if the cell has secrets: they may hold real values. */
void courier_wipe_in(struct courier *c, size_t len);
/* Append behind the unread bytes of B.  The caller has made sure that there is room. */
void courier_queue(struct buf *b, const void *data, size_t len);

/* ---- courier_policy.c ---- */

struct courier_policy *courier_policy_use(struct courier_policy *p);
void courier_policy_release(struct courier_policy *p);
/* Use POLICY for new exchanges.  The courier takes over POLICY. */
int courier_set_policy(struct courier *c, struct policy *policy, struct err *err);
/* Read the memory file FD from its start.  FD may be shared with another process, so its file
 * offset is not used. */
int courier_read_whole(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err);
int courier_read_policy(int fd, struct policy **ret_policy, struct err *err);
/* Count one more match for each rule that decided on EX. */
void exchange_count(const struct exchange *ex);

/* ---- courier_gate.c ---- */

extern const struct mux_handler courier_gate_handler;

/* ---- courier_exchange.c ---- */

/* For the stream ID, which the gate has opened.  NULL: there are too many. */
struct exchange *exchange_new(struct courier *c, uint32_t id, enum exchange_kind kind);
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
/* Count bytes as read from a server, before they are changed. */
void exchange_came_in(struct exchange *ex, const void *data, size_t len);
/* As exchange_give(), for bytes that cannot contain secrets any more. */
void exchange_give_plain(struct exchange *ex, const void *data, size_t len);
/* As exchange_give_plain() without a copy: see mux_reserve() and mux_commit(). */
unsigned char *exchange_reserve(struct exchange *ex, size_t *ret_room);
void exchange_commit(struct exchange *ex, size_t len);
/* The response is complete, or the server has closed its side of a raw connection. */
void exchange_end(struct exchange *ex, const struct http_field *trailers, size_t n);
/* LEN bytes of ex->body have been sent. */
void exchange_took(struct exchange *ex, size_t len);
/* Release EX's connection and whatever EX waits for.  The exchange with the gate goes on. */
void exchange_detach(struct exchange *ex);
/* End EX at once.  The gate gets a RESET, unless the response is complete. */
void exchange_reset(struct exchange *ex, enum egress_reset why);
void exchange_over(struct exchange *ex);
/* Set EX's deadline to SECONDS from now. */
void exchange_touch(struct exchange *ex, uint64_t seconds);
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

/* ---- courier_decide.c ---- */

/* Answer the gate.  NAME is the agent's own text, and possibly not a host name. */
void courier_resolve_name(struct courier *c, uint32_t id, const char *name, bool is_host);
/* HOST and PORT are those of the connection on which the request came. */
void exchange_decide(struct exchange *ex, const char *host, uint16_t port);
/* Decide again after the inspection of the body. */
void exchange_decide_body(struct exchange *ex, const unsigned char *fits, size_t n);
/* Use P from now on.  If P refuses EX, EX is refused, or cut off if its response has begun. */
void exchange_decide_again(struct exchange *ex, struct courier_policy *p);
/* Decide by EX's current policy, without the body. */
void exchange_decide_anew(struct exchange *ex);
/* True: EX is allowed, or people have to approve it (courier_ask.h).  Otherwise EX is refused. */
bool exchange_settle(struct exchange *ex);
/* Decide what to do with a new connection that looks like LOOKS. */
void exchange_route(struct exchange *ex, enum egress_looks looks, const char *sni);
/* The rules that allow EX.  Earlier rules may still deny addresses. */
struct policy_way exchange_way(const struct exchange *ex);

/* ---- courier_look.c ---- */

/* Search EX's head for credentials, unless a rule allows them.  False: EX is refused. */
bool exchange_look_at_head(struct exchange *ex);

/* ---- courier_body.c ---- */

extern const struct mux_handler courier_inspect_handler;

/* Prepare for the body as the decision requires.  False: EX is refused, or held. */
bool exchange_prepare_body(struct exchange *ex, const struct http_head *head);
void exchange_body(struct exchange *ex, const unsigned char *data, size_t len);
/* Scan bytes of the body for credentials that the courier did not put in, where the decision
 * requires it.  False: EX is refused. */
bool exchange_scan(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_body_end(struct exchange *ex);
/* Send LEN bytes on.  Bytes that the server does not take wait in ex->body.  False: the server is
 * gone, and EX takes no more. */
bool exchange_pass_on(struct exchange *ex, const unsigned char *data, size_t len);
/* For a body with secrets: give the gate its credit once none of the body waits. */
void exchange_pay(struct exchange *ex);
void exchange_drop_body(struct exchange *ex);
/* Stop sending the request and receiving the response.  The rest of the request is discarded. */
void exchange_drain(struct exchange *ex);

/* ---- courier_refuse.c ---- */

/* Answer 403 (or STATUS) with a body that explains why, and record it.  WHY is as in events.
 * REASON is for people; if NULL, the rule's reason or the meaning of WHY is used. */
void exchange_refuse(struct exchange *ex, const char *why, const char *reason);
/* Answer with HEAD and BODY as the whole response, whatever the state of the request. */
void exchange_answer(struct exchange *ex, struct http_head *head, const struct buf *body);
void exchange_refuse_with(struct exchange *ex, uint16_t status, const char *why,
                          const char *reason);
/* Fail because of the server or the network.  If the response has begun, the gate gets a reset. */
void exchange_fail(struct exchange *ex, const struct courier_failure *failure);
void courier_failure_set(struct courier_failure *f, uint16_t status, const char *why,
                         const char *error, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- courier_record.c ---- */

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

/* ---- courier_strict.c: nothing leaves without a record ---- */

/* Whether EX may leave now.  False: it was refused, or it waits for its record.  In the second case
 * courier_recorded() sends it on. */
bool exchange_may_leave(struct exchange *ex);
void exchange_stop_awaiting(struct exchange *ex);
/* Refuse EX if nothing may leave.  True: it was refused. */
bool exchange_is_halted(struct exchange *ex);
/* The records up to NUMBER are on disk. */
void courier_recorded(struct courier *c, uint64_t number);
/* Stop everything from leaving because of WHY; "" lifts the stop. */
void courier_halt(struct courier *c, const char *why);

/* ---- courier_pool.c ---- */

int pool_new(struct courier *c, struct pool **ret_pool, struct err *err);
void pool_free(struct pool *pool);
/* Callback for tls_open(). */
void pool_keep_session(void *origin, SSL_SESSION *session);
/* Put EX on a connection, or in the queue for one. */
void pool_send(struct exchange *ex);
/* EX no longer waits. */
void pool_forget(struct exchange *ex);
/* Close connections that have been idle for long, and run timeouts.  Returns whether there is
 * anything left to watch. */
bool pool_tick(struct pool *pool);
void pool_round_over(struct pool *pool);
/* Whether other exchanges wait for the connection that EX has or waits for. */
bool pool_is_pressed(const struct exchange *ex);
/* Connections made with this certificate take no new exchanges.  NOW: their current exchanges end
 * too. */
void pool_forget_certificate(struct pool *pool, unsigned certificate, bool now);
/* Make a connection that is EX's own, for raw bytes. */
void pool_connect(struct exchange *ex);
#endif
