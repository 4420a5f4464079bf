/* uplink_parts.h - shared by the files of a worker that speak with services. */
#ifndef CLOISTER_DISPATCH_UPLINK_PARTS_H
#define CLOISTER_DISPATCH_UPLINK_PARTS_H
#include "link/link_line.h"
#include "link/link_services.h"
#include "loop/child.h"
#include "proc/dispatch/uplink.h"
#include "vault/lend.h"

struct service {
	struct uplink *uplink;
	struct link_service known;
	struct link_line *line;         /* NULL: it is away */
	bool over;                      /* LINE is to be freed */
	bool heard;                     /* it has answered, or was not to be reached */
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
	void (*removed)(void *arg);
	void (*heard)(void *arg);       /* NULL: it was called */
	void *arg;
	char home[LINK_HOME_MAX + 1];   /* this worker's data folder */
	struct loop_source lends;       /* uplink_lend.c: where cells ask; owns its descriptor */
	uint64_t lends_at;              /* the socket's inode */
	struct loan *loans;
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

/* ---- uplink_value.c ---- */

/* The value of one secret that a service lends for CLAIM, fetched by a cloister-vault.  FD: a sealed memory file, which is
 * closed after that; negative: ERR says why there is none.  The caller drops it then, but not in there. */
struct uplink_value;                    /* opaque */
typedef void uplink_fetched(void *arg, int fd, const struct err *err);
int uplink_value_fetch(struct loop *loop, const struct lend_claim *claim, const char *name, uplink_fetched *fetched, void *arg,
                       struct uplink_value **ret_value, struct err *err);
void uplink_value_drop(struct uplink_value *value);     /* NULL is fine */

/* ---- uplink_lend.c ---- */

int uplink_begin_loans(struct uplink *u, struct err *err);

/* The stream to the service HOME is about to be freed. */
void uplink_forget_talks(struct uplink *u, const char *home);
/* A service is there again. */
void uplink_ask_again(struct uplink *u);
void uplink_sweep_loans(struct uplink *u);
/* After the lines. */
void uplink_free_loans(struct uplink *u);
#endif
