/* gate_names.h - maps synthetic addresses to names.
 *
 * The table is in a memory file that outlives the gate.  So an address that a program in the cell
 * remembers keeps its meaning when the gate is restarted.  A new gate does not trust the entries of
 * the former one, but validates them. */
#ifndef CLOISTER_GATE_NAMES_H
#define CLOISTER_GATE_NAMES_H
#include <stdint.h>

struct err;
struct gate_names;                      /* opaque */

/* When all numbers are taken, one that was not asked for this long may be given to another name. */
#define GATE_NAMES_REUSE_MS (10 * 60 * 1000)

int gate_names_new(int fd, struct gate_names **ret_names, struct err *err);
void gate_names_free(struct gate_names *names);         /* NULL is fine */
/* The number of NAME (canonical); a new one if it has none; 0 if there is none left.  NOW_MS is any
 * clock that keeps running when the gate is restarted. */
uint32_t gate_names_add(struct gate_names *names, const char *name, uint64_t now_ms);
/* NULL: the number has no name. */
const char *gate_names_get(const struct gate_names *names, uint32_t number);
#endif
