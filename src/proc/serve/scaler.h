/* scaler.h - starts workers of registered targets by the length of their pools' queues.
 *
 * The loop only keeps the time: a few threads ask the database and cloister-fleet, one target at a time each.  Of several
 * services on one store, the one that has a target's lease does it.  No worker is ended here: one without work leaves by
 * itself. */
#ifndef CLOISTER_SCALER_H
#define CLOISTER_SCALER_H
#include <stdbool.h>

struct err;
struct loop;
struct scaler;                          /* opaque */

/* FOLDER is DATA/serve, borrowed.  LETS_IN: workers can join this service. */
int scaler_start(struct loop *loop, int folder, bool lets_in, struct scaler **ret_scaler, struct err *err);
/* Workers stay.  Another service may go on at once. */
void scaler_stop(struct scaler *scaler);        /* NULL is fine */
#endif
