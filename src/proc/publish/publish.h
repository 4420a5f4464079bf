/* publish.h - what the files of cloister-publish share. */
#ifndef CLOISTER_PUBLISH_H
#define CLOISTER_PUBLISH_H
#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

struct err;

#define PUBLISH_CONNECTIONS_MAX 256

extern struct loop *publish_loop;

/* One more, which was taken from a listener, or one less. */
void publish_came(void);
void publish_went(void);
/* A socket that is being connected to a server of the cell's; -1: it cannot be. */
int publish_connect(uint16_t port, bool v6);
/* Whether it is connected now. */
bool publish_is_connected(int fd);

/* ---- publish_webhook.c: requests that are checked before they go in ---- */

/* In seconds. */
#define WEBHOOK_READ_S 30               /* for all of a request */
#define WEBHOOK_CHECK_S 30              /* the courier may have to be started */
#define WEBHOOK_ANSWER_S 300            /* between two pieces of the cell's answer */
#define WEBHOOK_LINGER_S 3              /* after our last words */
#define WEBHOOK_HELD_ALL (32 * 1024 * 1024)     /* bodies, all together */

/* The channel to the courier is there. */
int webhook_start(struct err *err);
/* FD, which becomes the webhook's, leads to PORT of the cell. */
void webhook_take(uint16_t port, int fd);
#endif
