/* cell_warm.h - virtual machines that wait for a cell: which of them fit it. */
#ifndef CLOISTER_CELL_WARM_H
#define CLOISTER_CELL_WARM_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "cell/cell_spec.h"

struct err;

#define CELL_SHAPE_SIZE 17
#define CELL_WARM_LABEL 12              /* characters of a template's name */
#define CELL_WARM_MAX 64                /* machines at a time */

/* One that waits. */
struct cell_warm {
	char file[64];                  /* its socket's name */
	char shape[CELL_SHAPE_SIZE], label[CELL_WARM_LABEL + 1];
	pid_t pid;                      /* of its supervisor, which lives */
};

/* All that a machine must have in common with the cell that takes it.  False: no machine can wait for such a
 * cell. */
bool cell_warm_shape(const struct cell_spec *spec, char ret_shape[CELL_SHAPE_SIZE]);
/* Their folder, open; only with MAKE it is made. */
int cell_warm_folder(bool make, struct err *err);
/* Those that wait, at most CELL_WARM_MAX; returns how many.  FOLDER may be -1. */
size_t cell_warm_list(int folder, struct cell_warm ret_list[CELL_WARM_MAX]);
/* A connection to it; negative if it is gone, or taken. */
int cell_warm_connect(int folder, const struct cell_warm *warm);
/* A socket that listens for one client.  LABEL is the machine's. */
int cell_warm_listen(int folder, const char *shape, const char *label, struct cell_warm *ret_warm, struct err *err);
#endif
