/* workers_parts.h - shared by the files of the service that speak with workers. */
#ifndef CLOISTER_SERVE_WORKERS_PARTS_H
#define CLOISTER_SERVE_WORKERS_PARTS_H
#include "cell/cell_spec.h"
#include "link/link_line.h"
#include "link/link_workers.h"
#include "loop/child.h"
#include "proc/serve/workers.h"

/* One that is connected. */
struct member {
	struct workers *workers;
	struct member *next;
	struct link_worker who;
	struct link_line *line;
	bool over, has_cells;           /* WORKER_CELLS is open, or was */
	struct followed *followed;      /* workers_timeline.c; the first N_BEGUN do not wait */
	size_t n_followed, n_begun;
};

struct workers {
	struct loop *loop;
	struct registry *reg;           /* the loop's */
	char address[LINK_ADDRESS_MAX + 8];
	struct child link;
	struct loop_source channel;     /* owns its descriptor */
	struct loop_timer again;
	struct loop_round sweep;
	struct member *members;
	struct loan *loans;             /* workers_lend.c */
	struct far *fars;               /* workers_cells.c */
	struct visit *visits;
	struct loop_timer look;
	struct mirror *mirrors;         /* workers_timeline.c */
	bool listens, stopping;
};

/* ---- workers_cells.c ---- */

void workers_begin_cells(struct workers *w);
/* WORKER_CELLS was opened.  Negative: M may not say that. */
int workers_take_cells(struct member *m, struct link_talk *talk, struct buf *body);
/* M's stream is over: its cells are silent. */
void workers_lose_cells(struct workers *w, const struct member *m);
void workers_sweep_cells(struct workers *w);
void workers_free_cells(struct workers *w);

/* ---- workers_timeline.c ---- */

/* Fetches the timeline of CELL, of the dispatch ID, which M has or had, as far as it is not here; if it LIVES, its output,
 * too. */
void workers_follow(struct member *m, const char *id, const char *cell, bool lives);
void workers_sweep_timelines(struct workers *w);
/* M's stream is about to be freed; NULL: all. */
void workers_lose_timelines(struct workers *w, const struct member *m);

/* ---- workers_lend.c ---- */

/* WORKER_SECRETS was opened.  Negative: M may not say that. */
int workers_lend(struct member *m, struct link_talk *talk, struct buf *body);
void workers_sweep_loans(struct workers *w);
/* Those of M, whose stream is about to be freed; NULL: all. */
void workers_drop_loans(struct workers *w, const struct member *m);
#endif
