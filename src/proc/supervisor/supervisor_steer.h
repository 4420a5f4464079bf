/* supervisor_steer.h - changes that operators make to a running cell: from the control socket to
 * the courier, and back once they are in force.
 *
 * If no courier runs, a change is in force at once, because the next courier gets it at its start.
 * The same holds if the courier dies after it was sent a change: the next one gets whatever the
 * `done` function keeps.  The supervisor understands only fixed fields and bounded texts. */
#ifndef CLOISTER_SUPERVISOR_STEER_H
#define CLOISTER_SUPERVISOR_STEER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "steer/steer.h"

struct client;
struct err;
struct members;
struct steer;
struct supervisor;

#define STEERS_MAX 256                  /* under way, besides those that a courier gets at its start */

/* The person who asked for the change, and the reason. */
struct steer_who {
	char by[CONTROL_BY_MAX + 1];
	char why[CONTROL_WHY_MAX + 1];
	uid_t uid;                      /* of the peer */
	bool tells;                     /* the caller writes to the operator's timeline itself */
	bool named;                     /* BY was in the request: the peer acts for somebody else */
};

/* Called once.  ERR->code is 0 if the change is in force; otherwise it is not, and must not be
 * kept.  The function may add to s->answer (CONTROL_DONE), and to answer_fds descriptors to send
 * with it, which are borrowed. */
typedef void steer_done(struct supervisor *sv, struct steer *s, const struct err *err);

struct steer {
	struct steer *next;
	struct client *client;          /* waits for the outcome, or NULL */
	uint64_t number;
	struct steer_who who;
	struct buf message;             /* COURIER_STEER, up to the fields of its kind */
	int fds[IPC_FDS_MAX];           /* owned */
	size_t n_fds;
	bool sent;
	steer_done *done;
	void *arg;                      /* for DONE */
	struct buf answer;              /* CONTROL_DONE */
	int answer_fds[IPC_FDS_MAX];
	size_t n_answer_fds;
};

/* The changes that are under way. */
struct steering {
	struct steer *first;
	size_t n;
	uint64_t number;                /* of the last change */
	struct loop_timer again;
};

/* A request of a client.  Handlers in the answers of supervisor_control.c get it once it is permitted;
 * they check the values of its fields.  They return 0, or a negative number to drop the client. */
struct steer_call {
	struct steer_request q;
	struct steer_who who;
	struct ipc_message *message;    /* for its descriptors, and the bytes behind the fields */
};

/* supervisor_may_ask.c: the only decision about who may ask for what, and when, for every request.
 * Otherwise ERR is the reason for the client. */
int supervisor_may_ask(struct client *client, const struct steer_call *call, struct err *err);
/* The unique name of the person who asks, for records and for people. */
void supervisor_name_person(const struct steer_who *who, char ret_name[COURIER_ASK_BY + 1]);

/* Fills in call->who: the name in the request, or else the peer as the kernel reports it. */
void steer_find_who(const struct client *client, struct steer_call *call);

/* Whether steer_begin() has room for N more. */
bool steer_has_room(const struct supervisor *sv, size_t n);
/* Begins a change for the courier; the caller adds the fields to ->message.  NULL if there are too
 * many.  CLIENT waits for the outcome, and may be NULL. */
struct steer *steer_begin(struct supervisor *sv, struct client *client, enum courier_steer kind,
                          const struct steer_who *who, steer_done *done, void *arg);
/* Sends a copy of FD along. */
int steer_add_fd(struct steer *s, int fd);
/* Sends S, or completes it if no courier runs.  Handlers of supervisor_control.c return this value. */
int steer_send(struct supervisor *sv, struct steer *s);
/* The error for a steer_begin() that returned NULL: -EBUSY. */
int steer_busy(struct err *err);
/* Refuses a request that never reaches a courier. */
int steer_refuse(struct client *client, const struct err *err);

/* Begins a record of the change: type "steer", did, by, why.  The caller adds its own members and
 * passes it to steer_record(), which writes to the cell's timeline and the operator's. */
void steer_members(struct members *m, const char *did, const struct steer_who *who);
void steer_record(struct supervisor *sv, enum steer_verb verb, const struct steer_who *who,
                  const struct members *m);

/* For the functions in supervisor_courier_start.c: begins one more message that the courier gets at its start. */
struct steer *steer_tell(struct supervisor *sv, enum courier_steer kind);

/* ---- for the rest of the supervisor ---- */

/* supervisor_courier_start.c: a courier is about to start.  Collects what it must know, and counts the
 * messages. */
int supervisor_steer_prepare(struct supervisor *sv, uint32_t *ret_n, struct err *err);
void supervisor_steer_flush(struct supervisor *sv);
/* COURIER_STEERED. */
int supervisor_steered(struct supervisor *sv, struct ipc_message *message);
/* The courier is gone. */
void supervisor_steer_gone(struct supervisor *sv);
#endif
