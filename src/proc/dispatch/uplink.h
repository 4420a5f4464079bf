/* uplink.h - a worker's streams to the services that it has joined, which cloister-link brings. */
#ifndef CLOISTER_DISPATCH_UPLINK_H
#define CLOISTER_DISPATCH_UPLINK_H
#include <stdbool.h>

struct dispatch;
struct err;
struct loop;
struct uplink;                          /* opaque */

/* HOME: this worker's data folder.  REMOVED is called when a service has removed this worker, and HEARD once, when each
 * service has answered or was not to be reached; they must not free the uplink.
 * *RET_UPLINK is NULL if this worker has joined none.  While it is there, cells that this folder runs ask services for
 * their secrets (ipc/lend_channel.h). */
int uplink_new(struct loop *loop, const char *home, void (*removed)(void *arg), void (*heard)(void *arg), void *arg, struct uplink **ret_uplink,
               struct err *err);
void uplink_free(struct uplink *u);     /* NULL is fine */
/* D runs here: the service that asked for it steers its cell, until uplink_tell_over(). */
void uplink_tell(struct uplink *u, const struct dispatch *d);
void uplink_tell_over(struct uplink *u, const char *id);
/* Whether uplink_tell() would have something new for ID. */
bool uplink_wants(const struct uplink *u, const char *id);
#endif
