/* courier.h - takes requests from the gate, decides on them, and sends the allowed ones to their
 * servers.
 *
 * Each stream of the gate is an exchange (exchange.h).  It passes the row of stages (stages.c), and
 * leaves as a transfer through the pool of connections (upstream/). */
#ifndef CLOISTER_EGRESS_COURIER_H
#define CLOISTER_EGRESS_COURIER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/cell_spec.h"
#include "egress/event.h"
#include "egress/exchange.h"
#include "egress/stage.h"
#include "egress/steer.h"
#include "egress/webhook.h"
#include "http/http_head.h"
#include "ipc/courier_channel.h"
#include "ipc/egress_channel.h"
#include "loop/loop.h"
#include "policy/policy.h"
#include "upstream/pool.h"

#define COURIER_IDLE_S 300              /* seconds between two pieces of a body */
#define COURIER_PRESSED_S 3             /* the same, while others wait */
#define COURIER_INTERIM_MAX 64          /* interim heads before the final one (such as 103) */
#define COURIER_SPARE_MAX 64            /* exchanges kept for reuse */
#define COURIER_QUIET_S 2               /* seconds: after this time without exchanges, memory is freed */
#define COURIER_KEPT_FRAME (8 * 1024)   /* bytes of frame memory that a spare exchange keeps */
#define COURIER_PENDING_MAX (4 * 1024 * 1024) /* bytes of a response that the gate has not taken */

/* A policy, kept as long as an exchange uses it. */
struct courier_policy {
	struct policy *policy;
	uint32_t number;
	size_t users;
	bool asks;                      /* some rule asks for approval */
	bool rewrites;                  /* some rule has a hook or a rewrite */
	bool fires, tripwires;          /* the policy has consequences or tripwires: consequence.h */
	struct courier_policy *before;  /* the policy that owns COUNTS; NULL: this one does */
	uint64_t *counts;               /* matches per rule, shared with the supervisor; NULL: not counted */
	size_t n_counts;
	struct courier_budgets budgets;
};

/* The cell, and who it acts for. */
struct courier_who {
	char cell[CELL_ID_LEN + 1];
	char chain[CELL_CHAIN_MAX + 1];
	char principal[CELL_PRINCIPAL_MAX + 1];
};

struct courier {
	struct loop *loop;
	struct courier_who who;
	struct mux *gate, *inspect, *hooks;     /* the last two may be NULL */
	int tools;                      /* the channel to cloister-tools, borrowed; 0: there is none */
	struct mux *dead_hooks;         /* cloister-hook has ended */
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
	struct buf out;                 /* a frame for the gate */
	const unsigned char *reserved;  /* memory that a connection reads into, until it is committed */
};

/* ---- courier.c ---- */

/* Set up everything that needs no descriptors.  The courier takes over POLICY. */
int courier_init(struct courier *c, struct policy *policy, bool learn,
                 char *const *environment, const char *pem, size_t pem_len, struct err *err);
/* Start on the three channels.  HANDLER takes the gate's messages.  INSPECT may be -1. */
int courier_start(struct courier *c, struct loop *loop, int supervisor, int gate,
                  const struct mux_handler *handler, int inspect, struct err *err);
void courier_close(struct courier *c);

/* Start the tick timer: there are deadlines to watch. */
void courier_wake(struct courier *c);
/* Run the end-of-round work when this round ends. */
void courier_at_round_end(struct courier *c);
/* Append behind the unread bytes of B.  The caller has made sure that there is room. */
void courier_queue(struct buf *b, const void *data, size_t len);

/* ---- connections.c ---- */

extern const struct pool_owner courier_pool_owner;

/* ---- policy_in_force.c ---- */

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
#endif
