/* halt_force.h - kills a cell with the kernel's own means, without its supervisor. */
#ifndef CLOISTER_HALT_FORCE_H
#define CLOISTER_HALT_FORCE_H

struct cell_entry;
struct cell_steer_who;
struct err;

/* 1: nothing of the cell runs any more; 0: nothing of it did, and its supervisor tidies up; or
 * negative, why it may live.  SOCKET, which may be -1, is a connection to the supervisor.
 *
 * The supervisor itself is spared, because it still has to keep what the cell changed: it is
 * told to go on, in case somebody stopped it.  It dies only where no pid 1 is found. */
int halt_force(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who,
               struct err *err);
#endif
