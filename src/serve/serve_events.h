/* serve_events.h - a response of server-sent events, which may be continued over another connection.
 *
 * A client whose connection broke comes back with the number of the last event that it got, and gets
 * the rest.  Everything runs in the loop's thread. */
#ifndef CLOISTER_SERVE_EVENTS_H
#define CLOISTER_SERVE_EVENTS_H
#include <stdbool.h>
#include <stddef.h>

#include "loop/loop.h"

struct serve_event;
struct serve_request;

#define SERVE_EVENTS_KEPT (4u << 20)    /* bytes, of one response, of events that were sent */
#define SERVE_EVENTS_ALIVE_S 15         /* between two signs of life */

struct serve_events {
	/* Set by the owner, who embeds it. */
	struct loop *loop;
	bool keeps;                     /* events have ids, "NUMBER-N", and are kept after they are sent */
	unsigned number;
	void *arg;
	void (*sent)(void *arg);        /* all events were sent; may free the owner */
	void (*gone)(void *arg);        /* the client has gone, and is detached; may free the owner */
	/* private */
	struct serve_request *q;        /* NULL while no client is connected */
	struct serve_event *first, **end;       /* kept or still to be sent, */
	struct serve_event *at;         /* from here on, */
	size_t part;                    /* bytes of that one */
	size_t kept;
	unsigned n;
	struct loop_timer alive;
};

void serve_events_init(struct serve_events *e);
/* Detaches the client, who sees that more was to come, and forgets everything. */
void serve_events_free(struct serve_events *e);
/* Begins the response to Q, which is E's from now on. */
void serve_events_attach(struct serve_events *e, struct serve_request *q);
/* CUT: the client must see that more was to come. */
void serve_events_detach(struct serve_events *e, bool cut);
/* TYPE NULL: a message.  DATA has no newline.  It is sent by the next serve_events_pump(), which may call
 * sent().  False: out of memory. */
bool serve_events_add(struct serve_events *e, const char *type, const char *data);
void serve_events_pump(struct serve_events *e);
/* Continues behind event N over the connection of Q.  False: it is unknown, and Q is unanswered. */
bool serve_events_resume(struct serve_events *e, struct serve_request *q, unsigned n);
/* Reads an id of a kept event. */
bool serve_events_id(const char *id, unsigned *ret_number, unsigned *ret_n);
/* Whether Q sends JSON and, unless it comes for no ANSWER, accepts JSON as well as events.  Else it is refused. */
bool serve_events_fit(struct serve_request *q, bool no_answer);
/* Bytes that wait for the client. */
size_t serve_events_waiting(const struct serve_events *e);
#endif
