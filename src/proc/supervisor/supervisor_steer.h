/* supervisor_steer.h - what operators change about a running cell: from the control socket to
 * the courier, and back when it is in force.
 *
 * Where no courier runs it is in force at once, because the next one is told at its start.  The
 * same is so when a courier dies that was told: whatever a `done` keeps is what the next one
 * gets.  The supervisor understands none of it beyond fixed fields and bounded texts. */
#ifndef CLOISTER_SUPERVISOR_STEER_H
#define CLOISTER_SUPERVISOR_STEER_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "ipc/control_channel.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"

struct client;
struct err;
struct members;
struct steer;
struct supervisor;

#define STEERS_MAX 256                  /* under way; what a courier is told at its start beside it */

/* Who asked for it, and why. */
struct steer_who {
	char by[CONTROL_BY_MAX + 1];
	char why[CONTROL_WHY_MAX + 1];
	uid_t uid;                      /* of the peer */
	bool tells;                     /* the operator's timeline, itself */
	bool named;                     /* BY was in the request: it is not the peer's own doing */
};

/* Called once: ERR->code is 0 if it is in force; else it is not, and nothing is to be kept.
 * What CONTROL_DONE is to carry may be put to s->answer, and descriptors to be sent with it to
 * answer_fds, which are borrowed. */
typedef void steer_done(struct supervisor *sv, struct steer *s, const struct err *err);

struct steer {
	struct steer *next;
	struct client *client;          /* who waits for it, or NULL */
	uint64_t number;
	struct steer_who who;
	struct buf message;             /* COURIER_STEER, up to the fields of its kind */
	int fds[IPC_FDS_MAX];           /* its own */
	size_t n_fds;
	bool sent;
	steer_done *done;
	void *arg;                      /* DONE's own */
	struct buf answer;              /* CONTROL_DONE */
	int answer_fds[IPC_FDS_MAX];
	size_t n_answer_fds;
};

/* The book of what is under way. */
struct steering {
	struct steer *first;
	size_t n;
	uint64_t number;                /* of the last */
	struct loop_timer again;
};

/* The first fields of a request.  -EBADMSG: the client is to be dropped. */
int steer_take_who(struct client *client, struct buf *body, struct steer_who *ret_who);

/* For N more that steer_begin() is to make. */
bool steer_has_room(const struct supervisor *sv, size_t n);
/* One for the courier, whose fields then go to ->message; NULL if there are too many.  CLIENT
 * waits for it, and may be NULL. */
struct steer *steer_begin(struct supervisor *sv, struct client *client, enum courier_steer kind,
                          const struct steer_who *who, steer_done *done, void *arg);
/* A copy of FD rides along. */
int steer_add_fd(struct steer *s, int fd);
/* On its way, or done already.  What an answer of supervisor_control.c then returns. */
int steer_send(struct supervisor *sv, struct steer *s);
/* Why there was none: -EBUSY. */
int steer_busy(struct err *err);
/* For a request that never gets to a courier: the client is told that it is refused. */
int steer_refuse(struct client *client, const struct err *err);

/* The beginning of a record of it: type "steer", did, by, why; the caller adds what it has, and
 * gives it to steer_record(), for the cell's timeline and the operator's. */
void steer_members(struct members *m, const char *did, const struct steer_who *who);
void steer_record(struct supervisor *sv, const char *did, const struct steer_who *who,
                  const struct members *m);

/* For the functions in courier_is_told: one more that the courier gets at its start. */
struct steer *steer_tell(struct supervisor *sv, enum courier_steer kind);

/* ---- for the rest of the supervisor ---- */

/* A courier is about to be started: what it has to know, and how many that are. */
int supervisor_steer_prepare(struct supervisor *sv, uint32_t *ret_n, struct err *err);
void supervisor_steer_flush(struct supervisor *sv);
/* COURIER_STEERED. */
int supervisor_steered(struct supervisor *sv, struct ipc_message *message);
/* The courier has gone. */
void supervisor_steer_gone(struct supervisor *sv);
/* The client has gone: nobody waits any more. */
void supervisor_steer_forget(struct supervisor *sv, const struct client *client);
#endif
