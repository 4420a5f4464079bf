/* cell_rlimits.h - the names of resource limits, as OCI's runtime specification has them. */
#ifndef CLOISTER_CELL_RLIMITS_H
#define CLOISTER_CELL_RLIMITS_H
#include <stdint.h>

/* By number, which a NULL follows. */
extern const char *const cell_rlimit_names[];
/* The number of the limit NAME, or -1. */
int cell_rlimit_find(const char *name);
#endif
