/* courier.h - takes canonical requests from the gate, decides on them, and carries those
 * that may go to the world: what its files share.
 *
 * Each stream of the gate (courier_gate.c) is an exchange (courier_exchange.c): a
 * request, or a connection that is passed through.  An exchange is decided on (courier_decide.c), perhaps after
 * its body was looked into (courier_body.c) and people were asked (courier_ask.c), then refused
 * (courier_refuse.c) or given a
 * connection (courier_pool.c, courier_upstream.c) that speaks HTTP/1.1 (courier_h1.c),
 * HTTP/2 (courier_h2.c), nothing in particular (courier_raw.c), or logs in to Postgres or Redis
 * first (courier_wire.c).  What became of it is recorded (courier_event.c).
 *
 * Memory that callbacks may still hold - exchanges and connections - is given back when
 * the loop's round ends; until then it says that it is over. */
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
#define COURIER_ANSWER_S 300            /* to the head of the answer: models think long */
#define COURIER_IDLE_S 300              /* between two pieces of a body */
#define COURIER_RAW_IDLE_S 3600
#define COURIER_QUEUE_S 60              /* to a connection, while there are too many */
#define COURIER_INSPECT_S 30
#define COURIER_PRESSED_S 3             /* between two pieces of a request, while others wait */

#define COURIER_INTERIM_MAX 64          /* heads before the last one (103 and the like) */
#define COURIER_DRAIN_MAX (4 * 1024 * 1024) /* of a request that was answered early */
#define COURIER_SPARE_MAX 64            /* exchanges kept to be used again */
#define COURIER_QUIET_S 2               /* without any, their memory is given back */
#define COURIER_KEPT_FRAME (8 * 1024)   /* and the memory that each of them keeps */
#define COURIER_PENDING_MAX (4 * 1024 * 1024) /* of an answer, that the gate does not take */
#define COURIER_NOTE_MAX EGRESS_REASON_MAX
#define COURIER_HELD_MAX ((size_t)64 * 1024 * 1024)     /* of one body, whatever rules say */
#define COURIER_HELD_ALL ((size_t)256 * 1024 * 1024)    /* of all */
#define COURIER_LOOK_HELD ((size_t)10 * 1024 * 1024)    /* of one that nothing but its price or what
                                         * looks like a credential is looked for in */
#define COURIER_TAIL_MS 5               /* how long the end of a stream is held back */
#define COURIER_IN_SIZE (64 * 1024)     /* read from a connection at once */

/* A policy, as long as an exchange goes by it. */
struct courier_policy {
	struct policy *policy;
	uint32_t number;
	size_t users;
	bool asks;                      /* some rule does */
	bool fires, tripwires;          /* something may come of it: courier_fire.h */
	struct courier_policy *before;  /* whose COUNTS they are, or NULL: its own */
	uint64_t *counts;               /* of its rules, shared with who asks; NULL: nobody does */
	size_t n_counts;
	struct courier_budgets budgets;
};

/* Why an allowed request came to nothing.  Strings but NOTE are static. */
struct courier_failure {
	uint16_t status;                /* 502, 504; 403 if that is a refusal */
	const char *why;                /* as in events: "unreachable" */
	const char *error;              /* "upstream unreachable" */
	char note[COURIER_NOTE_MAX];    /* one sentence */
};

enum exchange_kind { EXCHANGE_HTTP, EXCHANGE_TCP, EXCHANGE_TLS };
enum exchange_step {
	STEP_HOLD,                      /* its body is looked into; nothing goes out */
	STEP_WAIT,                      /* for a connection */
	STEP_SENT,                      /* on a connection */
	STEP_RAW,                       /* on a connection, bytes both ways */
	STEP_DRAIN,                     /* answered: what else comes is thrown away */
	STEP_OVER,
};

struct exchange {
	struct courier *courier;
	struct mux_stream *stream;      /* NULL once it is over */
	struct exchange *next, **at;    /* of all; then of those to be used again */
	struct exchange *wait_next;     /* in its origin's queue */
	struct exchange *up_next;       /* on its HTTP/2 connection */
	struct origin *origin;          /* STEP_WAIT */
	struct upstream *upstream;      /* STEP_SENT, STEP_RAW; tunnels also in STEP_WAIT */
	enum exchange_kind kind;
	enum exchange_step step;
	uint64_t deadline_s;            /* on the courier's clock; 0: none */
	uint64_t heard_s;               /* when the gate last sent something of it */
	uint64_t began_ms, left_ms;     /* LEFT_MS: nobody is asked any more; 0: not yet */
	uint64_t first_ms;              /* of the answer's head; 0: none yet */

	/* What is asked for. */
	struct buf frame;               /* as it came from the gate */
	size_t head_at;                 /* where the head is in it */
	uint16_t port;
	enum http_scheme scheme;
	enum egress_via via;
	uint32_t version;
	struct http_text method, path;  /* in FRAME; path with its query */
	uint64_t length;
	bool has_body, is_head, is_upgrade, is_grpc, expects;
	bool h1_only;                   /* of what HTTP/2 has not: an upgrade, or a signed coding */
	bool is_shut;                   /* its client will send no more: see exchange_shut() */
	bool has_key;                   /* KEY is the client's, proven in its handshake */

	/* What was decided. */
	struct courier_policy *policy;
	struct policy_decision decision;
	struct policy_logged logged;
	bool learned;                   /* no rule allows it, but it is only watched */
	bool recorded, refused;
	bool fired, tripped;            /* that was done: courier_fire.h */
	const char *why;                /* as in events, or NULL */
	const char *quiet;              /* the scheme of a secret that was revoked quietly, or NULL */
	uint64_t intent;                /* the number of the record that it waits for; 0: none */
	struct exchange *awaits_next, **awaits_at;      /* while it does; AWAITS_AT is NULL if not */
	struct exchange_budget budget;
	uint32_t retry_after_s;         /* of a refusal: when it may be tried again; 0: it may not */

	struct exchange_ask *ask;       /* NULL: nobody was asked, or is about to be */

	/* The request's body. */
	struct buf body;                /* not yet sent on; POS is where */
	size_t body_free;               /* of it, the gate has its credit back */
	uint64_t came, sent, drained;   /* bytes from the gate; sent on; thrown away */
	bool came_all, sent_all;
	struct buf trailers;            /* encoded; empty if there are none */
	bool scans;                     /* plain: looked at as it passes */
	bool scans_filled;              /* held: looked at when it is filled in */
	bool holds_back;                /* the last of it, until it is known to be harmless */
	size_t n_tail;
	struct loop_timer tail_timer;

	/* The same, held to be looked into. */
	struct mux_stream *inspect;
	uint32_t inspect_wanted;
	uint32_t inspect_policy;        /* the number of the policy that it was given */
	size_t inspect_at;              /* of BODY */
	bool inspect_ended;
	uint32_t inspect_result;
	unsigned char *fits;            /* what was found */
	size_t n_fits, n_held;

	/* With the cell's secrets. */
	struct exchange_secrets *secrets;       /* NULL: none were looked for */
	uint8_t certificate;            /* that it goes with: courier_mtls.h */
	struct exchange_wire *wire;     /* NULL: it is no Postgres or Redis that one goes with */
	size_t owed;                    /* of the body, the gate has no credit back for it: its
	                                 * length may change on the way */

	struct exchange_ssh *ssh;       /* NULL: nothing of SSH was heard on it */

	/* The answer. */
	uint16_t status;                /* of the last head; 0: none yet */
	uint16_t n_interim;
	bool answered, bodiless;        /* that head was a final one; and was all */
	struct buf pending;             /* of its body, that the gate does not take yet */
	struct buf end;                 /* EGRESS_END's, if it has to wait for PENDING */
	uint64_t received;
	bool ending, ended;             /* the end is known; was sent */

	/* The connection's. */
	bool retried;                   /* once is enough */
	bool upstream_ended;            /* raw: the server has half-closed */
	int32_t h2_id;
	bool h2_deferred;               /* waits for more of BODY */
	size_t h2_unconsumed;           /* of PENDING, the server has no credit back for it */

	/* Large, and not cleared for each exchange: */
	char host[HTTP_HOST_MAX + 1];
	unsigned char key[EGRESS_KEY];
	char note[COURIER_NOTE_MAX];    /* one sentence for people, or "" */
	char inspect_what[128];
	char model[POLICY_MODEL_MAX + 1];       /* that is asked; set by exchange_price() */
	char pushed[INSPECT_PUSHED_MAX]; /* as INSPECT_RESULT has it, or "" */
	struct secrets_scan scan;       /* with SCANS */
	unsigned char tail[SECRETS_TAIL];
};

struct courier {
	struct loop *loop;
	struct mux *gate, *inspect;
	int gate_error;                 /* why it has gone, a negative errno; 0: in order */
	bool bereft;                    /* gate or inspect has gone, and it with them */
	struct loop_source supervisor;
	struct events events;
	struct courier_policy *policy;
	struct steered_queue steered;
	bool learn, alarms, strict;     /* see COURIER_ALARMS, COURIER_STRICT */
	char halted[COURIER_HALT_MAX + 1];      /* why nothing may leave; "": it may */
	uint64_t n_intents;
	struct courier_asks asks;
	struct exchange *awaits, **awaits_end;  /* whose record is not on the disk yet */
	uint32_t inspect_knows;         /* the number of the policy that was sent there last; 0: none */
	size_t held;                    /* see COURIER_HELD_ALL */

	struct budgets budgets;
	struct fires fires;
	struct secrets secrets;
	struct loop_source keeper;      /* who renews them; -1: nobody */
	uint32_t keeper_asked, keeper_answered;
	struct webhooks webhooks;
	struct proxies proxies;
	struct resolver *resolver;
	struct tls tls;
	struct pool *pool;

	struct exchange *exchanges;     /* all that are not over */
	struct exchange *over, **over_end, *spare;
	size_t n_exchanges, n_spare;
	struct loop_round round;        /* when it ends */
	struct loop_timer tick;         /* once a second, while there is something to watch */
	uint64_t now_s, quiet_since_s;
	bool rests;                     /* nothing happens, and memory was given back */

	struct http_head head;          /* the request that is being dealt with: */
	const struct exchange *head_of;
	struct buf out;                 /* a frame, or what goes to a server */
	const unsigned char *reserved;  /* see exchange_reserve() */
	unsigned char in[COURIER_IN_SIZE];
};

/* ---- courier.c ---- */

/* Everything but what needs the descriptors.  POLICY becomes the courier's. */
int courier_init(struct courier *c, struct policy *policy, bool learn,
                 char *const *environment, const char *pem, size_t pem_len, struct err *err);
/* On the three channels; INSPECT may be -1. */
int courier_start(struct courier *c, struct loop *loop, int supervisor, int gate, int inspect,
                  struct err *err);
void courier_close(struct courier *c);

/* There is something to watch the time of. */
void courier_wake(struct courier *c);
/* Something is to be done when the round ends. */
void courier_at_round_end(struct courier *c);
/* LEN bytes that were read into c->in: they may have had values in them. */
void courier_wipe_in(struct courier *c, size_t len);
/* Behind what is unread in B; there must be room. */
void courier_queue(struct buf *b, const void *data, size_t len);

/* ---- courier_policy.c ---- */

struct courier_policy *courier_policy_use(struct courier_policy *p);
void courier_policy_release(struct courier_policy *p);
/* POLICY, which becomes the courier's, is what new exchanges go by. */
int courier_set_policy(struct courier *c, struct policy *policy, struct err *err);
/* A memory file, from its start; it may be somebody else's, so not by its name. */
int courier_read_whole(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err);
int courier_read_policy(int fd, struct policy **ret_policy, struct err *err);
/* The rules that decided on it did so once more. */
void exchange_count(const struct exchange *ex);

/* ---- courier_gate.c ---- */

extern const struct mux_handler courier_gate_handler;

/* ---- courier_exchange.c ---- */

/* On the stream ID, which the gate has opened; NULL when there are too many. */
struct exchange *exchange_new(struct courier *c, uint32_t id, enum exchange_kind kind);
/* The head of EX's request, until the next one is asked for; it may be changed. */
struct http_head *exchange_head(struct exchange *ex);
/* The same as it is to be sent: with secrets in it, never to be shown or recorded. */
struct http_head *exchange_head_to_send(struct exchange *ex);
/* A head from the server, or our own; its fields may be changed.  After a final one without
 * a body the answer has ended.  False: it was not fit to be sent on, and EX failed. */
bool exchange_respond(struct exchange *ex, struct http_head *head, bool has_body);
/* The last step of that: HEAD goes to the gate as it is. */
bool exchange_send_head(struct exchange *ex, struct http_head *head, bool has_body);
/* Bytes of the answer's body.  What the gate does not take is kept, up to
 * COURIER_PENDING_MAX: the caller sees to it that there is never more. */
void exchange_give(struct exchange *ex, const void *data, size_t len);
/* What was read from a server, before anything is done to it: counted. */
void exchange_came_in(struct exchange *ex, const void *data, size_t len);
/* The same, when nothing secret can be in it any more. */
void exchange_give_plain(struct exchange *ex, const void *data, size_t len);
/* The same without a copy: as mux_reserve() and mux_commit(). */
unsigned char *exchange_reserve(struct exchange *ex, size_t *ret_room);
void exchange_commit(struct exchange *ex, size_t len);
/* The answer (or the server's side of raw bytes) is complete. */
void exchange_end(struct exchange *ex, const struct http_field *trailers, size_t n);
/* LEN bytes of ex->body have gone on. */
void exchange_took(struct exchange *ex, size_t len);
/* The server is through with it: what is left is between the gate and us. */
void exchange_detach(struct exchange *ex);
/* Over, whatever has been said: RESET, unless the answer is complete. */
void exchange_reset(struct exchange *ex, enum egress_reset why);
void exchange_over(struct exchange *ex);
/* Sign of life. */
void exchange_touch(struct exchange *ex, uint64_t seconds);
/* Answer the gate's question about a connection; with EGRESS_TUNNEL its bytes follow. */
void exchange_routed(struct exchange *ex, enum egress_routed routed, const char *reason,
                     const char *hint);
/* Its request does not come, and others wait: so it gives way.  True: it did. */
bool exchange_give_way(struct exchange *ex);
/* Its time is up. */
void exchange_late(struct exchange *ex);
/* The gate takes bytes again. */
void exchange_writable(struct exchange *ex);
void exchange_free(struct exchange *ex);
/* Those that are over are to be used again. */
void exchange_recycle(struct exchange *ex);

/* ---- courier_decide.c ---- */

/* Answer the gate; NAME is the agent's own, and perhaps no host's. */
void courier_resolve_name(struct courier *c, uint32_t id, const char *name, bool is_host);
/* HOST and PORT are those of the connection that it came on. */
void exchange_decide(struct exchange *ex, const char *host, uint16_t port);
/* The body was looked into: decide again. */
void exchange_decide_body(struct exchange *ex, const unsigned char *fits, size_t n);
/* Go by P from now on: what it refuses is refused, or cut off if its answer has begun. */
void exchange_decide_again(struct exchange *ex, struct courier_policy *p);
/* By the policy that EX goes by now, without its body. */
void exchange_decide_anew(struct exchange *ex);
/* Refuse, unless it is allowed, or people are to be asked (courier_ask.h): then true. */
bool exchange_settle(struct exchange *ex);
/* A new connection that looks like LOOKS: what is to be done with it. */
void exchange_route(struct exchange *ex, enum egress_looks looks, const char *sni);
/* The rules that let it go; those before them may still deny addresses. */
struct policy_way exchange_way(const struct exchange *ex);

/* ---- courier_look.c ---- */

/* Look for what may be a credential in EX's head, unless a rule lets it be.  False: EX is refused. */
bool exchange_look_at_head(struct exchange *ex);

/* ---- courier_body.c ---- */

extern const struct mux_handler courier_inspect_handler;

/* How the body is to be dealt with, as was decided.  False: EX is refused, or held. */
bool exchange_prepare_body(struct exchange *ex, const struct http_head *head);
void exchange_body(struct exchange *ex, const unsigned char *data, size_t len);
/* Looks at bytes of the body, if that is to be done, for credentials that nobody put in.
 * False: EX is refused. */
bool exchange_scan(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_body_end(struct exchange *ex);
/* LEN bytes may go on; what the server does not take waits in ex->body.  False: the server is
 * gone, and EX takes no more. */
bool exchange_pass_on(struct exchange *ex, const unsigned char *data, size_t len);
/* With secrets: credit for what came, once nothing of it waits. */
void exchange_pay(struct exchange *ex);
void exchange_drop_body(struct exchange *ex);
/* Nothing of it goes on any more, nor comes back from a server; what still comes is thrown
 * away. */
void exchange_drain(struct exchange *ex);

/* ---- courier_refuse.c ---- */

/* 403 (or STATUS) with a body that says why; recorded.  WHY is as in events, REASON for
 * people (NULL: the rule's, or what WHY means). */
void exchange_refuse(struct exchange *ex, const char *why, const char *reason);
/* The whole answer is HEAD and BODY, whatever has become of the request. */
void exchange_answer(struct exchange *ex, struct http_head *head, const struct buf *body);
void exchange_refuse_with(struct exchange *ex, uint16_t status, const char *why,
                          const char *reason);
/* The server's fault, or the network's.  If the answer has begun: a reset. */
void exchange_fail(struct exchange *ex, const struct courier_failure *failure);
void courier_failure_set(struct courier_failure *f, uint16_t status, const char *why,
                         const char *error, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* ---- courier_record.c ---- */

/* EX, as it is now; once only. */
void exchange_record(struct exchange *ex);
/* That EX is about to leave, under its number. */
void exchange_record_intent(struct exchange *ex);
/* EX, which is over, if that has not been done; it lets go of its policy. */
void exchange_record_last(struct exchange *ex);
/* STRAY: why it is an exfiltration to ask for NAME, or NULL. */
void courier_record_name(struct courier *c, const char *name, bool permitted, const char *stray);
/* Behind a refusal's event: if WHY is exfiltration, and the policy wants to know. */
void courier_raise_alarm(struct courier *c, const char *why);
/* What the gate refused by itself (EGRESS_NOTE). */
struct courier_note {
	enum egress_note kind;
	const char *host, *reason;      /* HOST is "" if it is not known */
	uint16_t port, status;          /* 0 likewise */
	enum egress_via via;
	uint32_t times;
};
void courier_record_note(struct courier *c, const struct courier_note *note);

/* ---- courier_strict.c: nothing leaves without a record ---- */

/* Whether EX may leave now.  False: it was refused, or waits for its record, and then
 * courier_recorded() sends it on its way. */
bool exchange_may_leave(struct exchange *ex);
void exchange_stop_awaiting(struct exchange *ex);
/* Refuse, if nothing may leave: then true. */
bool exchange_is_halted(struct exchange *ex);
/* The records up to that of NUMBER are on the disk. */
void courier_recorded(struct courier *c, uint64_t number);
/* WHY nothing may leave any more; "": it may again. */
void courier_halt(struct courier *c, const char *why);

/* ---- courier_pool.c ---- */

int pool_new(struct courier *c, struct pool **ret_pool, struct err *err);
void pool_free(struct pool *pool);
/* What tls_open() is to call. */
void pool_keep_session(void *origin, SSL_SESSION *session);
/* Put EX on a connection, or in the queue for one. */
void pool_send(struct exchange *ex);
/* EX no longer waits. */
void pool_forget(struct exchange *ex);
/* Close what has been idle for long, and let time-outs happen.  Returns whether there is
 * anything left to watch. */
bool pool_tick(struct pool *pool);
void pool_round_over(struct pool *pool);
/* Whether others wait for what EX has, or waits for itself. */
bool pool_is_pressed(const struct exchange *ex);
/* What was made with this certificate is for nothing new; NOW: nor for what it does. */
void pool_forget_certificate(struct pool *pool, unsigned certificate, bool now);
/* A connection of EX's own, for raw bytes. */
void pool_connect(struct exchange *ex);
#endif
