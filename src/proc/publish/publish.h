/* publish.h - shared by the files of cloister-publish. */
#ifndef CLOISTER_PUBLISH_H
#define CLOISTER_PUBLISH_H
#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

struct err;

#define PUBLISH_CONNECTIONS_MAX 256

extern struct loop *publish_loop;

/* Counts a connection that was accepted, or that ended. */
void publish_came(void);
void publish_went(void);
/* A socket that is connecting to a server in the cell; -1: it cannot. */
int publish_connect(uint16_t port, bool v6);
/* Whether the connection is established. */
bool publish_is_connected(int fd);

/* ---- publish_webhook.c: requests that are checked before they go in ---- */

/* In seconds. */
#define WEBHOOK_READ_S 30               /* for all of a request */
#define WEBHOOK_CHECK_S 30              /* the courier may have to be started */
#define WEBHOOK_ANSWER_S 300            /* between two pieces of the cell's response */
#define WEBHOOK_LINGER_S 3              /* after the end of the response */
#define WEBHOOK_HELD_ALL (32 * 1024 * 1024)     /* bodies, all together */

/* The channel to the courier must exist. */
int webhook_start(struct err *err);
/* FD, which the webhook owns, leads to PORT of the cell. */
void webhook_take(uint16_t port, int fd);
#endif
