/* cell_far.h - cells of other machines, in the runtime folder of this one: each is an entry whose socket the service
 * answers.  So commands find and steer them as they do those of this machine. */
#ifndef CLOISTER_CELL_FAR_H
#define CLOISTER_CELL_FAR_H
#include "cell/cell_dirs.h"

/* Makes the entry of the cell ID, of DISPATCH and MACHINE, with a socket that listens.  *RET_DIR holds the entry's lock: it
 * is open as long as the cell is there.  -EEXIST: there is a cell with that id. */
int cell_far_make(int runtime, const char *id, const char *dispatch, const char *machine, int *ret_dir, int *ret_socket,
                  struct err *err);
void cell_far_remove(int runtime, const char *id);
/* Removes the entries that a service has left which was killed. */
void cell_far_clear(int runtime);
/* The machine of a runtime entry; false: this one. */
bool cell_far_machine(int runtime, const struct cell_entry *entry, char ret_machine[CELL_MACHINE_MAX + 1]);
#endif
