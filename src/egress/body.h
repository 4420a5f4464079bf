/* body.h - request bodies on their way from the gate to the server, searched for credentials as
 * they pass. */
#ifndef CLOISTER_EGRESS_BODY_H
#define CLOISTER_EGRESS_BODY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/inspect.h"
#include "loop/loop.h"

struct buf;
struct exchange;

#define COURIER_DRAIN_MAX (4 * 1024 * 1024) /* bytes of a request body, after an early response */
#define COURIER_TAIL_MS 5               /* how long the end of a request body is held back */

/* Bytes of the request's body, and the credit for them. */
struct exchange_flow {
	uint64_t came, drained;         /* bytes from the gate; bytes discarded */
	size_t free;                    /* bytes of t.body for which the gate has its credit back */
	size_t owed;                    /* bytes of t.body without credit to the gate yet: its length may
	                                 * change on the way */
};

struct exchange_scan {
	bool on;                        /* plain body: scanned for credentials as it passes */
	bool on_filled;                 /* held body: scanned when its placeholders are replaced */
	bool holds_back;                /* keeps the end of the body (t.held_back bytes) until it is known to
	                                 * be harmless */
	struct loop_timer timer;
	/* Not cleared for each exchange: */
	struct secrets_scan state;      /* with ON */
	unsigned char tail[SECRETS_TAIL];
};

void exchange_body(struct exchange *ex, const unsigned char *data, size_t len);
void exchange_body_end(struct exchange *ex);
/* EX's body is not held: prepare to scan it as it passes. */
void exchange_scan_as_it_passes(struct exchange *ex, bool scans, bool may_hold_back);
/* Scan bytes of the body for credentials that the courier did not put in, where the decision
 * requires it.  False: EX is refused. */
bool exchange_scan(struct exchange *ex, const unsigned char *data, size_t len);
/* Pass on HELD, which was held so far, as a body that is not held.  False: EX takes no more. */
bool exchange_stream(struct exchange *ex, const struct buf *held);
/* Send LEN bytes on.  Bytes that the server does not take wait in t.body.  False: the server is
 * gone, and EX takes no more. */
bool exchange_pass_on(struct exchange *ex, const unsigned char *data, size_t len);
/* For a body with secrets: give the gate its credit once none of the body waits. */
void exchange_pay(struct exchange *ex);
void exchange_drop_body(struct exchange *ex);
/* Stop sending the request and receiving the response.  The rest of the request is discarded. */
void exchange_drain(struct exchange *ex);
/* Bytes of t.body were sent: see struct transfer_owner. */
void exchange_took(struct exchange *ex, size_t len);
#endif
