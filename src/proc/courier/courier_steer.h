/* courier_steer.h - what operators change while the courier runs: COURIER_STEER.
 *
 * How a new kind is made is said at enum courier_steer. */
#ifndef CLOISTER_COURIER_STEER_H
#define CLOISTER_COURIER_STEER_H
#include <stdint.h>

#include "base/buf.h"
#include "loop/loop.h"

struct courier;
struct err;
struct ipc_message;

#define STEERED_WAITING_MAX 4096        /* messages that the supervisor has not read */

/* It is not in force yet, and is answered with courier_steered() later. */
#define COURIER_STEER_LATER 1

/* Take a message of one kind, from behind its number and kind.  0: it is in force.  -EBADMSG:
 * the supervisor is not what it should be, and the courier ends.  Else ERR says why not. */
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
/* Until the supervisor has all that was said. */
void courier_say_all(struct courier *c);
/* COURIER_STEER, as it came. */
int courier_steer(struct courier *c, struct ipc_message *message);
/* Send MESSAGE (ipc_begin()), which is taken over, behind what was decided so far. */
void courier_say(struct courier *c, struct buf *message);
/* Tell that NUMBER is in force (ERR->code is 0), or why it is not; nothing for number 0. */
void courier_steered(struct courier *c, uint64_t number, const struct err *err);
#endif
