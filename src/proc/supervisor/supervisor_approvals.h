/* supervisor_approvals.h - requests of the cell that wait for an operator's approval, from question
 * to answer.
 *
 * The courier holds the request and describes it; the supervisor gives it an id, a timeout and an
 * answer.  An attacker may have written the description: the supervisor only forwards and records
 * it, and it decides nothing but who may answer.  Rules that approvals open are kept here, because
 * couriers come and go. */
#ifndef CLOISTER_SUPERVISOR_APPROVALS_H
#define CLOISTER_SUPERVISOR_APPROVALS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "cell/cell_spec.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "steer/steer.h"

struct client;
struct err;
struct members;
struct steer_call;
struct steer_who;
struct supervisor;

#define APPROVALS_PENDING_MAX 64        /* of each kind */
#define APPROVALS_KEPT_MAX 64           /* answered ones, for callers that ask for the outcome */
#define APPROVALS_OPEN_MAX 64           /* rules */
#define APPROVAL_ID_MAX (CELL_ID_LEN + 24)
#define APPROVAL_NAMES 3                /* names by which a person may be addressed */
/* What waits for the answer. */
enum approval_of {
	APPROVAL_OF_REQUEST,            /* a request, which the courier holds */
	APPROVAL_OF_RESULT,             /* a result of a tool, which cloister-tools holds */
	APPROVAL_OF_CELL,               /* a rule of `watch` asks: the cell is frozen until the answer, and killed if
	                                 * that is not yes */
};

enum approval_state { APPROVAL_PENDING, APPROVAL_APPROVED, APPROVAL_REFUSED, APPROVAL_TIMED_OUT,
                      APPROVAL_GONE };

/* The content of COURIER_ASK; the texts are in the approval's own BODY. */
struct approval_question {
	uint64_t number, ms, size;
	uint32_t needs, freeze, port;
	const unsigned char *rule;      /* COURIER_ASK_RULE bytes */
	const char *protocol, *method, *scheme, *host, *path, *query;
	const char *text, *place, *reason, *type, *shape, *headers;
	const char *secrets[COURIER_ASK_SECRETS], *approvers[COURIER_ASK_APPROVERS];
	uint32_t n_secrets, n_approvers;
};

struct approval_answer {
	char by[COURIER_ASK_BY + 1];
	uint64_t ns;                    /* realtime */
};

struct approval {
	struct approval *next;
	struct supervisor *sv;
	enum approval_of of;
	uint64_t n, change;             /* the number of its id; of its last change */
	struct buf body;
	struct approval_question q;
	enum approval_state state;
	uint64_t asked_ns, until_ns;
	struct loop_timer timer;
	bool froze;                     /* the cell is frozen until the answer */
	struct approval_answer given[COURIER_ASK_APPROVALS], last;
	size_t n_given;
	enum control_approve how;       /* what all answers agree on */
	uint64_t for_ms;
	char why[CONTROL_WHY_MAX + 1];  /* from the last answer */
};

struct approvals {
	struct approval *first;         /* the oldest */
	size_t n, n_pending;
	uint64_t last, change;
	struct {
		unsigned char rule[COURIER_ASK_RULE];
		uint64_t until_ms;      /* on the loop's clock; 0: for good */
		enum approval_of of;
	} open[APPROVALS_OPEN_MAX];
	size_t n_open;
};

/* ---- supervisor_question.c ---- */

/* -EBADMSG if the message is malformed.  The texts point into B. */
int approval_question_get(struct buf *b, struct approval_question *q);

/* ---- supervisor_approvals.c ---- */

/* COURIER_ASK and COURIER_WITHDRAW. */
int supervisor_asked(struct supervisor *sv, struct ipc_message *message);
int supervisor_withdrawn(struct supervisor *sv, struct ipc_message *message);
/* TOOLS_ASK and TOOLS_WITHDRAW. */
int supervisor_asked_of_result(struct supervisor *sv, struct ipc_message *message);
int supervisor_withdrawn_of_result(struct supervisor *sv, struct ipc_message *message);
/* Answers cloister-tools. */
void approval_answer_result(struct approval *a, bool yes, const char *text);
/* The question of a rule of `watch`.  Texts are cut.  Nothing happens if one of the same rule waits, or was
 * answered for the rule as a whole. */
struct approval_act {
	uint64_t key, ms;
	const char *kind, *what;        /* "exec", "/tmp/x" */
	const char *text, *place, *reason;
};
int supervisor_ask_of_cell(struct supervisor *sv, const struct approval_act *act);
/* The answer is not yes: kills the cell. */
void approval_refuse_cell(struct approval *a, const char *why);
/* Whoever holds what waits is gone: close the pending approvals of it.  If the cell has ended: all. */
void supervisor_approvals_gone(struct supervisor *sv, enum approval_of of, const char *why);
void supervisor_approvals_free(struct supervisor *sv);
/* For supervisor_courier_start.c: sends the rules that are open. */
int supervisor_approvals_tell(struct supervisor *sv);

/* The approval of that number, or NULL. */
struct approval *approval_find(const struct supervisor *sv, uint64_t n);
/* A has changed: inform the clients that follow. */
void approval_changed(struct approval *a);
/* Ends the waiting for A and records that.  The caller answers the courier. */
void approval_close(struct approval *a, enum approval_state state);
/* Requests of A's rule need no approval for MS, or from now on; -E2BIG. */
int approval_open_rule(struct approval *a, uint64_t ms);

/* ---- supervisor_approve.c: the control socket's side ---- */

int supervisor_answer_approve(struct client *client, struct steer_call *call);
int supervisor_answer_refuse_asked(struct client *client, struct steer_call *call);

/* ---- supervisor_approvals_list.c ---- */

int supervisor_answer_approvals(struct client *client, struct steer_call *call);
/* Informs every client that waits for the next change. */
void supervisor_tell_approvals(struct supervisor *sv);

/* ---- supervisor_approval_json.c ---- */

void approval_id(const struct approval *a, char ret_id[APPROVAL_ID_MAX]);
void approval_json(const struct approval *a, struct buf *out);
/* DID is "asked", "timed_out" or "gone".  False: in a flood, the record is only counted. */
bool approval_record(const struct approval *a, const char *did);
/* VERB is VERB_APPROVE or VERB_REFUSE. */
void approval_record_answer(const struct approval *a, enum steer_verb verb, const struct steer_who *who);
#endif
