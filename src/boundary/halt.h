/* halt.h - ends cells, whether their supervisors answer or not.
 *
 * The supervisor is asked first.  If it has not answered within CELL_ANSWER_MS, the kernel kills
 * the cell: by its cgroup, and by its pid 1, with which everything in a pid namespace dies.
 *
 * A cell that is ended does not start again (cell/cell_series.h).
 *
 * A cell counts as dead if its supervisor reports so, if its slot's lock is free, or if the kernel
 * reports that its pid 1 is gone; never because a socket was closed.  All of this blocks. */
#ifndef CLOISTER_HALT_H
#define CLOISTER_HALT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cell/cell_dirs.h"

struct cell_steer_who;

enum halt_state {
	HALT_ASKED,                     /* not yet dead */
	HALT_GONE,                      /* it had ended before the request */
	HALT_DEAD,                      /* nothing of it runs any more */
	HALT_FAILED,                    /* it may live: see err */
};
struct halt {
	struct cell_entry entry;
	int socket;                     /* to its supervisor, which tidies up once it is closed */
	enum halt_state state;
	bool forced;                    /* the supervisor did not answer: the kernel killed it */
	bool asked;                     /* the supervisor has the order, if it still lives */
	bool stops;                     /* and the order was to stop */
	struct err err;
};

/* Kills N cells, whose entries are filled in and whose other members are 0.  All are asked before
 * the first is waited for, or as many as there are descriptors for.  WHO may be NULL.  The caller
 * frees them with halt_close(). */
void halt_kill(int runtime, struct halt *halts, size_t n, const struct cell_steer_who *who);
/* Asks one cell to end within GRACE_MS.  If its supervisor does not answer, the cell is killed:
 * *forced.  Returns 0, -ENOENT if it had ended before, or the reason why it may live. */
int halt_stop(int runtime, struct halt *h, uint32_t grace_ms, const struct cell_steer_who *who,
              struct err *err);
/* Waits until a cell that was killed (GRACE_MS 0) or stopped has ended and is tidied up; returns
 * its status and cause.  Kills it if it is not dead in time.  -EPIPE: it is dead, and its status is
 * unknown. */
int halt_await_end(int runtime, struct halt *h, uint32_t grace_ms, uint32_t *ret_status, char cause[256],
                   struct err *err);
void halt_close(struct halt *halts, size_t n);

/* A sentence for a cell that was forced; "" for the others. */
#define HALT_TEXT_MAX 256
void halt_describe(const struct halt *h, char text[HALT_TEXT_MAX]);
#endif
