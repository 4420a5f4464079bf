/* steer.h - applies operators' changes while the courier runs: COURIER_STEER.
 *
 * The comment at enum courier_steer explains how to add a kind. */
#ifndef CLOISTER_EGRESS_STEER_H
#define CLOISTER_EGRESS_STEER_H
#include <stdint.h>

#include "base/buf.h"
#include "loop/loop.h"

struct courier;
struct err;
struct ipc_message;

#define STEERED_WAITING_MAX 4096        /* messages that the supervisor has not read */

/* The change is not in force yet; courier_steered() answers it later. */
#define COURIER_STEER_LATER 1

/* Handle a message of one kind; its number and kind were read already.  0: the change is in force.
 * -EBADMSG: the supervisor is broken, and the courier ends.  For other errors, ERR has the reason. */
typedef int courier_steer_take(struct courier *c, uint64_t number, struct ipc_message *message,
                               struct err *err);
courier_steer_take courier_take_policy, courier_take_counts, courier_take_answer,
	courier_take_open, courier_take_revoke, courier_take_rotate, courier_take_fired;

struct steered;
struct steered_queue {
	struct steered *first, **end;
	size_t n;
	struct loop_timer again;
};

void courier_steer_init(struct courier *c);
void courier_steer_close(struct courier *c);
/* Block until the supervisor has taken all messages. */
void courier_say_all(struct courier *c);
/* Handle COURIER_STEER as received. */
int courier_steer(struct courier *c, struct ipc_message *message);
/* Send MESSAGE (ipc_begin()) after the messages queued so far.  Takes over MESSAGE. */
void courier_say(struct courier *c, struct buf *message);
/* Report that NUMBER is in force (ERR->code is 0), or why it is not.  Number 0 is not reported. */
void courier_steered(struct courier *c, uint64_t number, const struct err *err);
#endif
