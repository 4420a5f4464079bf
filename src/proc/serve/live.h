/* live.h - one stream of server-sent events for dashboards: what changes in any of the cells.
 *
 *   cells      {"cells":[...]}: all of them; at the beginning, and to who could not keep up
 *   cell       one that is new, or of which something changed
 *   gone       {"id"}: one that has ended
 *   refusal    {"cell","name","time","what","why","count"}: the last, and how many there were
 *   approval   a request that is held, or was answered
 *   audit      how verification stands
 *
 * While somebody follows, all cells are looked at a few times a second in one of the pool's threads;
 * what changed meanwhile is one event, however much happened.  Timelines are read on from where they
 * were left (tallies.h), also when nobody has followed for a while. */
#ifndef CLOISTER_LIVE_H
#define CLOISTER_LIVE_H
#include "serve/pool.h"

struct api;
struct buf;
struct err;
struct live;                            /* opaque */
struct serve_request;

#define LIVE_LOOK_MS 300
#define LIVE_PING_MS 15000              /* a comment, so that both sides see that the other is there */
#define LIVE_INFOS 40                   /* supervisors that are asked each time, one after the other */
#define LIVE_HUNG_MS 30000              /* one that does not answer is left alone for so long */
#define LIVE_OUT_MAX (32u << 20)

int live_new(struct api *api, struct live **ret_live, struct err *err);
/* When the pool is gone and no stream is left; NULL is fine. */
void live_free(struct live *l);
/* Answers Q with the stream. */
void live_begin(struct live *l, struct serve_request *q);

/* ---- for live.c: looking (live_look.c) ---- */

struct live_look;                       /* opaque: the cells as they were last */
struct live_look *live_look_new(struct api *api);       /* NULL: there is no memory */
void live_look_free(struct live_look *look);            /* NULL is fine */
/* What has changed is put to DELTA as events, and with SNAPSHOT also all there is, to it. */
void live_look(struct live_look *look, struct buf *delta, struct buf *snapshot);
#endif
