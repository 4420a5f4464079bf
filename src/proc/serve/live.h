/* live.h - one stream of server-sent events for dashboards: the changes in all cells.
 *
 *   cells      {"cells":[...]}: all of them; at the beginning, and for clients that fell behind
 *   cell       one that is new, or that changed
 *   gone       {"id"}: one that has ended
 *   refusal    {"cell","name","time","what","why","count"}: the last, and how many there were
 *   approval   a request that is held, or was answered
 *   audit      the state of verification
 *
 * While somebody follows, a thread of the pool looks at all cells a few times a second.  All
 * changes of a cell in between are one event.  Timelines are read on from where reading stopped
 * (tallies.h), also after a time without clients. */
#ifndef CLOISTER_LIVE_H
#define CLOISTER_LIVE_H
#include "serve/pool.h"

struct api;
struct buf;
struct err;
struct live;                            /* opaque */
struct serve_request;

#define LIVE_LOOK_MS 300
#define LIVE_PING_MS 15000              /* a comment that shows both sides that the other is there */
#define LIVE_INFOS 40                   /* supervisors that are asked each time, in turn */
#define LIVE_HUNG_MS 30000              /* how long one that does not answer is left alone */
#define LIVE_OUT_MAX (32u << 20)

int live_new(struct api *api, struct live **ret_live, struct err *err);
/* Call this when the pool is gone and no stream is left; NULL is fine. */
void live_free(struct live *l);
/* Answers Q with the stream. */
void live_begin(struct live *l, struct serve_request *q);

/* ---- for live.c: looking (live_look.c) ---- */

struct live_look;                       /* opaque: the last state of the cells */
struct live_look *live_look_new(struct api *api);       /* NULL: out of memory */
void live_look_free(struct live_look *look);            /* NULL is fine */
/* Puts the changes to DELTA as events, and to SNAPSHOT, if given, the whole state. */
void live_look(struct live_look *look, struct buf *delta, struct buf *snapshot);
#endif
