/* workers_parts.h - shared by the files of the service that speak with workers. */
#ifndef CLOISTER_SERVE_WORKERS_PARTS_H
#define CLOISTER_SERVE_WORKERS_PARTS_H
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
	bool over;
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
	bool listens, stopping;
};

/* ---- workers_lend.c ---- */

/* WORKER_SECRETS was opened.  Negative: M may not say that. */
int workers_lend(struct member *m, struct link_talk *talk, struct buf *body);
void workers_sweep_loans(struct workers *w);
/* Those of M, whose stream is about to be freed; NULL: all. */
void workers_drop_loans(struct workers *w, const struct member *m);
#endif
