/* metrics.h - numbers about cells for Prometheus, from their timelines: of each cell, and of all.
 *
 * An ended cell stays for METRICS_KEPT_S, so that its last numbers are read, and then leaves.  The counters
 * of all cells never shrink while the service runs. */
#ifndef CLOISTER_METRICS_H
#define CLOISTER_METRICS_H
#include <stdint.h>
#include <stdio.h>

struct err;
struct metrics;                         /* opaque */
struct tallies;

#define METRICS_KEPT_S 300
#define METRICS_CELLS_MAX 1000          /* with numbers of their own; those that run come first */

/* TALLIES is borrowed.  SINCE_MS is when the service started: the counters of all cells begin there. */
int metrics_new(struct tallies *tallies, uint64_t since_ms, struct metrics **ret_metrics, struct err *err);
void metrics_free(struct metrics *m);   /* NULL is fine */
/* Any thread may call this; out of memory, numbers are missing. */
void metrics_put(struct metrics *m, FILE *out);
#endif
