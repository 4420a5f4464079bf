/* warm.h - the virtual machines that wait for dispatches: `cloister serve --warm`.
 *
 * Each belongs to a supervisor of its own, which ends with the service unless a dispatch has taken it.  One that
 * is taken or dies is replaced.  Dispatches find them by themselves: see cell/cell_warm.h. */
#ifndef CLOISTER_WARM_H
#define CLOISTER_WARM_H
#include "proc/serve/serve_options.h"

struct err;
struct loop;
struct warm;                            /* opaque */

int warm_start(struct loop *loop, const struct serve_options *options, struct warm **ret_warm, struct err *err);
void warm_stop(struct warm *warm);      /* NULL is fine */
#endif
