/* uplink_parts.h - shared by the files of a worker that speak with services. */
#ifndef CLOISTER_DISPATCH_UPLINK_PARTS_H
#define CLOISTER_DISPATCH_UPLINK_PARTS_H
#include "link/link_line.h"
#include "link/link_services.h"
#include "loop/child.h"
#include "proc/dispatch/uplink.h"

struct service {
	struct uplink *uplink;
	struct link_service known;
	struct link_line *line;         /* NULL: it is away */
	bool over;                      /* LINE is to be freed */
	struct link_talk *cells;        /* WORKER_CELLS; NULL: none */
};

struct uplink {
	struct loop *loop;
	struct child link;
	struct loop_source channel;     /* owns its descriptor */
	struct loop_timer again;
	struct loop_round sweep;
	struct service services[LINK_SERVICES_MAX];
	size_t n;
	char home[LINK_HOME_MAX + 1];   /* this worker's data folder */
	struct loan *loans;             /* uplink_lend.c */
	struct held *held;              /* uplink_cells.c */
	struct visit *visits;
	struct delivery *deliveries;    /* uplink_timeline.c */
};

/* ---- uplink.c ---- */

bool uplink_knows(struct uplink *u, const char *home);
/* The stream to the service HOME; NULL: it is away. */
struct link_line *uplink_line(struct uplink *u, const char *home);

/* ---- uplink_cells.c ---- */

/* The service S is there again: tells it which of its cells are here. */
void uplink_tell_all(struct service *s);
/* WORKER_CONTROL was opened.  Negative: S may not say that. */
int uplink_visit(struct service *s, struct link_talk *talk, struct buf *body);
void uplink_sweep_visits(struct uplink *u);
/* The stream to S is about to be freed; NULL: all. */
void uplink_drop_visits(struct uplink *u, const struct service *s);
void uplink_free_cells(struct uplink *u);

/* ---- uplink_timeline.c ---- */

/* The timeline of CELL, of dispatch ID, is owed to the service HOME, until that has all of it. */
void uplink_owe(const char *home, const char *id, const char *cell);
/* Calls EACH for all that is owed to HOME. */
void uplink_each_owed(const char *home, void (*each)(void *arg, const char *id, const char *cell), void *arg);
/* WORKER_FETCH was opened.  Negative: S may not say that. */
int uplink_deliver(struct service *s, struct link_talk *talk, struct buf *body);
/* A cell may have ended. */
void uplink_look_at_deliveries(struct uplink *u);
void uplink_sweep_deliveries(struct uplink *u);
/* The stream to S is about to be freed; NULL: all. */
void uplink_drop_deliveries(struct uplink *u, const struct service *s);

/* ---- uplink_lend.c ---- */

/* The stream to the service HOME is about to be freed. */
void uplink_forget_talks(struct uplink *u, const char *home);
/* A service is there again. */
void uplink_ask_again(struct uplink *u);
void uplink_sweep_loans(struct uplink *u);
/* After the lines. */
void uplink_free_loans(struct uplink *u);
#endif
