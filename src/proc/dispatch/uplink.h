/* uplink.h - a worker's streams to the services that it has joined, which cloister-link brings. */
#ifndef CLOISTER_DISPATCH_UPLINK_H
#define CLOISTER_DISPATCH_UPLINK_H
#include <stdbool.h>

struct err;
struct loop;
struct uplink;                          /* opaque */

/* *RET_UPLINK is NULL if this worker has joined none. */
int uplink_new(struct loop *loop, struct uplink **ret_uplink, struct err *err);
void uplink_free(struct uplink *u);     /* NULL is fine */
#endif
