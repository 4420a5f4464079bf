/* cell_try.h - runs a real cell, to know whether any can run here. */
#ifndef CLOISTER_CELL_TRY_H
#define CLOISTER_CELL_TRY_H
#define CELL_TRY_WHY_MAX 512

/* Runs `true` in a cell, in a container of RUNTIME unless that is NULL, started by `cloister run` like any other; nothing
 * is kept of it.  0: it ran.  1: it did not, and RET_WHY is the message of `run`.  Negative: it could not be tried. */
int cell_try(const char *runtime, char ret_why[CELL_TRY_WHY_MAX]);
#endif
