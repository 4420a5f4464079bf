/* uplink.h - a worker's streams to the services that it has joined, which cloister-link brings. */
#ifndef CLOISTER_DISPATCH_UPLINK_H
#define CLOISTER_DISPATCH_UPLINK_H
#include <stdbool.h>

struct dispatch;
struct err;
struct loop;
struct uplink;                          /* opaque */

/* HOME: this worker's data folder.  *RET_UPLINK is NULL if this worker has joined none. */
int uplink_new(struct loop *loop, const char *home, struct uplink **ret_uplink, struct err *err);
void uplink_free(struct uplink *u);     /* NULL is fine */
/* A socket of ipc/lend_channel.h for the cell of D, which the caller closes: the service that asked for it lends its
 * secrets. */
int uplink_lend(struct uplink *u, const struct dispatch *d, struct err *err);
/* D has come to another state: the service that asked for it steers its cell, while that runs. */
void uplink_tell(struct uplink *u, const struct dispatch *d);
/* Whether uplink_tell() would have something new for ID in this state. */
bool uplink_wants(const struct uplink *u, const char *id, bool runs);
#endif
