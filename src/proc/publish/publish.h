/* publish.h - shared by the files of cloister-publish. */
#ifndef CLOISTER_PUBLISH_H
#define CLOISTER_PUBLISH_H
#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "loop/loopback.h"

struct err;

#define PUBLISH_CONNECTIONS_MAX 256

extern struct loop *publish_loop;

/* Counts a connection that was accepted, or that ended. */
void publish_came(void);
void publish_went(void);

/* ---- publish_dial.c: connections to servers in the cell ---- */

struct publish_dial {
	/* FD, connected and non-blocking, is the callee's; negative: nobody listens.  May free the
	 * structure. */
	void (*done)(void *arg, int fd);
	void *arg;
	struct loopback direct;         /* private, as is what follows */
	uint32_t number;
	struct publish_dial *next;
	bool waits;
};

/* With a channel (publish_channel.h), the supervisor makes the connections. */
int publish_dial_start_channel(struct err *err);
/* Calls `done` once, perhaps before it returns.  Fill in the callback first. */
void publish_dial(struct publish_dial *dial, uint16_t port);
/* The callback is not called any more. */
void publish_dial_drop(struct publish_dial *dial);

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
