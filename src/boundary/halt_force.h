/* halt_force.h - kills a cell through the kernel, without its supervisor. */
#ifndef CLOISTER_HALT_FORCE_H
#define CLOISTER_HALT_FORCE_H

struct cell_entry;
struct cell_steer_who;
struct err;

/* Returns 1 if nothing of the cell runs any more; 0 if nothing of it ran and its supervisor tidies
 * up; or a negative errno if it may live.  SOCKET, which may be -1, is a connection to the
 * supervisor.
 *
 * The supervisor itself is spared, because it still has to keep the cell's changes.  It gets
 * SIGCONT, in case somebody stopped it.  It is killed only if no pid 1 is found. */
int halt_force(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who,
               struct err *err);
#endif
