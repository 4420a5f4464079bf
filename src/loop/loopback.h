/* loopback.h - connects to a server on loopback, which listens on 127.0.0.1, on ::1, or on both. */
#ifndef CLOISTER_LOOPBACK_H
#define CLOISTER_LOOPBACK_H
#include <stdint.h>

#include "loop/loop.h"

struct loopback {
	/* FD, connected and non-blocking, is the callee's; negative errno: nobody listens.  May free the
	 * structure. */
	void (*done)(void *arg, int fd);
	void *arg;
	struct loop *loop;              /* private, as is what follows */
	struct loop_source source;
	unsigned n_tried;
	uint16_t port;
};

/* Calls DONE once, perhaps before it returns.  Fill in `done` and `arg` first. */
void loopback_connect(struct loopback *l, struct loop *loop, uint16_t port);
/* Gives up: DONE is not called any more.  Only between loopback_connect() and DONE. */
void loopback_drop(struct loopback *l);
#endif
