/* link_lanes.h - pipes and terminals of one control connection, whose other ends are on another machine.
 *
 * Each direction of a lane has credit, so that neither side holds more than WORKER_LANE_WINDOW of it. */
#ifndef CLOISTER_LINK_LANES_H
#define CLOISTER_LINK_LANES_H
#include "base/buf.h"
#include "ipc/worker_channel.h"
#include "loop/loop.h"

struct link_lanes;

struct link_lane {
	struct link_lanes *lanes;
	uint32_t id;                    /* 0: not in use */
	struct loop_source fd;          /* owns its descriptor */
	bool reads, writes;             /* bytes still come from it; bytes still go to it */
	bool finishing;                 /* nothing more comes from the peer */
	bool both, is_terminal;
	size_t due;                     /* bytes that were there when link_lanes_mark() was called */
	uint32_t may_send, written;     /* credit; bytes that left, and were not given back as credit */
	struct buf out;
};

struct link_lanes {
	struct loop *loop;
	uint32_t last;
	struct link_lane at[WORKER_LANES_MAX];
	/* Sends MESSAGE to the peer (NULL: nothing); whether there is room for more. */
	bool (*say)(void *arg, const struct buf *message);
	void (*changed)(void *arg);     /* one is over, or has passed on what was due */
	void *arg;
};

/* THEIRS: the peer opened the talk, so ids of lanes that begin here differ from the peer's. */
void link_lanes_begin(struct link_lanes *lanes, struct loop *loop, bool theirs,
                      bool (*say)(void *arg, const struct buf *message), void (*changed)(void *arg), void *arg);
void link_lanes_free(struct link_lanes *lanes);
/* A lane with a descriptor of FD's file: READS from it, WRITES to it.  ID: the peer's number; 0: a new one. */
int link_lanes_add(struct link_lanes *lanes, int fd, bool reads, bool writes, uint32_t id, uint32_t *ret_id);
/* A message other than WORKER_MESSAGE and WORKER_HANGUP.  Negative: the peer may not say that. */
int link_lanes_hear(struct link_lanes *lanes, uint32_t type, struct buf *body);
/* There is room for more. */
void link_lanes_go_on(struct link_lanes *lanes);
/* Gives the terminal among them the size of BODY (CONTROL_RESIZE); false: there is none. */
bool link_lanes_resize(struct link_lanes *lanes, const struct buf *body);
/* What is in pipes and buffers now is due: a message that comes after it must not overtake it. */
void link_lanes_mark(struct link_lanes *lanes);
bool link_lanes_are_due(const struct link_lanes *lanes);
/* Nothing more comes from the peer. */
void link_lanes_finish(struct link_lanes *lanes);
/* Nobody is at them any more. */
void link_lanes_drop_terminals(struct link_lanes *lanes);
bool link_lanes_are_over(const struct link_lanes *lanes);
#endif
