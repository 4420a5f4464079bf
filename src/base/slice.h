/* slice.h - how long this thread may run at a time. */
#ifndef CLOISTER_BASE_SLICE_H
#define CLOISTER_BASE_SLICE_H
#include <stdint.h>

/* Asks for time slices of NS, which threads and processes that it starts have too.  Before Linux 6.12 this has no
 * effect.  If an operator chose another policy (chrt(1)), that one stays. */
void slice_ask(uint64_t ns);

#endif
