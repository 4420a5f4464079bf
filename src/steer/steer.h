/* steer.h - the requests that a running cell answers: one table for its control socket, the service's
 * API and the commands.
 *
 * A row states the request's name, its message and fields, who may make it, when, how it is recorded,
 * and its routes in the API.  To add a request, add a row here and a function to the answers in
 * supervisor_control.c.  If it has a route, add a function to the work in api_routes.c, too. */
#ifndef CLOISTER_STEER_H
#define CLOISTER_STEER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/control_channel.h"

struct buf;

enum steer_verb {
	VERB_INFO, VERB_WAIT, VERB_STOP, VERB_KILL, VERB_FREEZE, VERB_THAW, VERB_EXEC, VERB_SIGNAL,
	VERB_RESIZE, VERB_TTL, VERB_GET_POLICY, VERB_POLICY, VERB_ALLOW, VERB_DENY, VERB_GET_BUDGET, VERB_BUDGET,
	VERB_APPROVALS, VERB_APPROVE, VERB_REFUSE, VERB_SECRETS, VERB_REVOKE, VERB_ROTATE,
	VERB_LOST_RIGHTS, VERB_START, VERB_SIGNAL_AGENT, VERB_ATTACH,
	VERB_COPY, VERB_PAUSE, VERB_RESUME, VERB_FORK, VERB_CHECKPOINT,
	STEER_VERBS
};

/* Who may make a request.  No request is for agents: an agent never steers a cell. */
enum steer_by {
	STEER_OPERATOR = 1,             /* the cell's user or root; in the API, an operator */
	STEER_APPROVER,                 /* an operator whom the rule names, and not the cell's principal */
};

/* What must be true of the cell. */
enum steer_when {
	STEER_ALIVE = 1,                /* a process of the cell is left */
	STEER_BEGUN = 2,                /* and one was started */
	STEER_LASTING = 4,              /* and nobody has ended the cell yet */
	STEER_THAWED = 8,               /* it is not frozen */
	STEER_AWAKE = 16,               /* if it is paused, it is resumed first */
};

/* A route of the API; METHOD NULL: none.  BODY and ANSWER are schemas; "?X": the body is optional. */
struct steer_http {
	const char *method, *path, *id, *summary, *query, *body, *answer;
	size_t body_max;
};

struct steer_row {
	const char *name;               /* in records; "policy", "allow" and "deny" in the message, too */
	enum control_message message;
	/* In their order: w who asks, and why (control_channel.h); W the same at the end, unless nothing
	 * is known of it; n the request's name, by which rows with the same message differ; s a text; u a
	 * u32; U a u64; o a u32 that is left out if it is 0; x bytes that the answering function reads. */
	const char *fields;
	int n_fds;                      /* descriptors with it; -1: the answering function counts them */
	enum steer_by who;
	unsigned when;                  /* enum steer_when; all that are set must be true */
	bool later;                     /* never the first request of its connection */
	enum control_message after;     /* may also follow this one on its connection; 0: none */
	bool stays;                     /* its client stays connected as long as it likes */
	const char *record;             /* in the operator's timeline; NULL: it is not recorded there */
	const char *record_every;       /* the same for all cells at once */
	struct steer_http one, every;   /* for one cell; for all */
};
extern const struct steer_row steer_rows[STEER_VERBS];

#define STEER_NUMBERS_MAX 4
#define STEER_TEXTS_MAX 2

/* One request.  Texts are borrowed. */
struct steer_request {
	enum steer_verb verb;
	const char *by, *why;           /* "" or NULL: not given */
	bool tells;                     /* CONTROL_WHO_TELLS */
	uint64_t n[STEER_NUMBERS_MAX];  /* u, U and o, in the order of the fields */
	const char *text[STEER_TEXTS_MAX];      /* s, in the same way */
};

/* Begins MESSAGE (ipc_begin()) and writes Q's fields; behind them the caller puts those of x. */
void steer_put(struct buf *message, const struct steer_request *q);
/* Reads the fields of a message of TYPE, with N_FDS descriptors.  -EBADMSG: no row has this form.  Only
 * with x are there bytes left in BODY. */
int steer_get(uint32_t type, struct buf *body, size_t n_fds, struct steer_request *ret_q);
#endif
