/* child.h - a child process in a loop. */
#ifndef CLOISTER_CHILD_H
#define CLOISTER_CHILD_H
#include <stdbool.h>

#include "base/spawn.h"
#include "loop/loop.h"

struct err;

struct child {
	/* It ended.  EXITED: by itself, with STATUS; else by the signal STATUS.  CHILD may be started
	 * again, or freed. */
	void (*ended)(void *arg, bool exited, int status);
	void *arg;
	struct loop *loop;              /* private, as is what follows; NULL while none runs */
	struct loop_source source;      /* a pidfd */
};

/* Start a program.  ENDED and ARG are set, and none runs.  -EINPROGRESS: it was started, but ENDED
 * will not be called. */
int child_start(struct child *child, struct loop *loop, const struct spawn *how, struct err *err);
/* Wait for it no longer.  It goes on. */
void child_drop(struct child *child);
bool child_runs(const struct child *child);
#endif
