/* halt.h - ends cells, whether their supervisors answer or not.
 *
 * A supervisor is asked first.  If it has not answered within CELL_ANSWER_MS, the kernel kills the
 * cell: by its cgroup, and by its pid 1, with which everything in a pid namespace dies.  A cell is
 * dead when its supervisor says so, when its slot's lock is free, or when the kernel says that
 * its pid 1 is gone; never because a socket was closed.  All of this blocks. */
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
	HALT_GONE,                      /* it had ended before it was asked */
	HALT_DEAD,                      /* nothing of it runs any more */
	HALT_FAILED,                    /* it may live: err says why */
};
struct halt {
	struct cell_entry entry;
	int socket;                     /* to its supervisor, which tidies up once it is closed; or -1 */
	enum halt_state state;
	bool forced;                    /* the supervisor did not answer: the kernel killed it */
	bool asked;                     /* the supervisor has the order, if it still lives */
	bool stops;                     /* and that was to stop */
	struct err err;
};

/* Kill N cells, whose entries are filled in and whose other members are 0.  All are asked before
 * the first is waited for, or as many as there are descriptors for.  WHO may be NULL.  The caller frees them with halt_close(). */
void halt_kill(int runtime, struct halt *halts, size_t n, const struct cell_steer_who *who);
/* Ask one cell to end within GRACE_MS.  Where its supervisor does not answer, it is killed: *forced.
 * 0, -ENOENT if it had ended before, or why it may live. */
int halt_stop(int runtime, struct halt *h, uint32_t grace_ms, const struct cell_steer_who *who,
              struct err *err);
/* Its end, once it was killed (0) or stopped with GRACE_MS, and tidied up: its status and cause.  One
 * that is not dead by then is killed.  -EPIPE: it is dead, and nobody says more. */
int halt_await_end(int runtime, struct halt *h, uint32_t grace_ms, uint32_t *ret_status, char cause[256],
                   struct err *err);
void halt_close(struct halt *halts, size_t n);

/* What to say of one that was forced; "" of the others. */
#define HALT_TEXT_MAX 256
void halt_describe(const struct halt *h, char text[HALT_TEXT_MAX]);
#endif
