/* gate_names.h - which name each synthetic address stands for.
 *
 * The table is in a memory file that outlives the gate, so that an address which a
 * program in the cell remembers keeps its meaning when the gate is started again.  What
 * an earlier gate left there is not believed, but looked at again. */
#ifndef CLOISTER_GATE_NAMES_H
#define CLOISTER_GATE_NAMES_H
#include <stddef.h>
#include <stdint.h>

struct err;
struct gate_names;                      /* opaque */

/* A number that was not asked for this long may be given to another name when there
 * are no more. */
#define GATE_NAMES_REUSE_MS (10 * 60 * 1000)

int gate_names_new(int fd, struct gate_names **ret_names, struct err *err);
void gate_names_free(struct gate_names *names);         /* NULL is fine */
/* The number of NAME (canonical), a new one if it has none; 0 if there is none left.
 * NOW_MS is any clock that goes on while gates come and go. */
uint32_t gate_names_add(struct gate_names *names, const char *name, uint64_t now_ms);
/* NULL if the number stands for no name. */
const char *gate_names_get(const struct gate_names *names, uint32_t number);
#endif
