/* hook.h - cloister-hook: asks the operator's own programs and services about requests.
 *
 * Each hook has workers: running programs, or connections to a service.  A worker answers one
 * question at a time: a line in, a line out, with the id of the question.  Questions wait in line for
 * the next free worker.  A worker that breaks this protocol is ended, and its question fails.  Nothing is asked twice,
 * because an operator's program may have side effects. */
#ifndef CLOISTER_HOOK_H
#define CLOISTER_HOOK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/own.h"
#include "ipc/hook_channel.h"
#include "loop/loop.h"
#include "policy/policy_hook.h"

struct err;
struct hook_worker;

#define HOOK_PROGRAMS_MAX 4             /* running programs of a hook */
#define HOOK_CONNECTIONS_MAX 8          /* connections to a hook's service */
#define HOOK_QUESTIONS_MAX 1024         /* of all hooks, at once */
#define HOOK_HELD_MAX (64 * 1024 * 1024)        /* bytes of questions, all together */
#define HOOK_IDLE_MS (60 * 1000)        /* a worker without a question is ended after this time */
#define HOOK_COURIERS_MAX 4             /* at once: a new one may come before the old one is gone */

/* ---- hook_pool.c ---- */

/* TEXT is the answer without its newline, or the reason why there is none.  Must not call anything
 * here. */
typedef void hook_answered(void *arg, enum hook_result result, const char *text);

struct hook_question {
	struct hook *hook;
	struct hook_worker *worker;     /* NULL: it waits, or is not complete */
	struct buf text;
	char id[POLICY_HOOK_ID + 1];    /* once the question is complete; its answer must repeat it */
	size_t held;                    /* bytes of TEXT that count as held */
	bool is_complete;
	struct loop_timer deadline;
	hook_answered *answered;        /* NULL: nobody wants the answer any more */
	void *arg;
	struct hook_question *next;     /* in line */
};

struct hook {
	struct hook_pool *pool;
	const struct policy_hook *call; /* borrowed from the policy */
	struct buf name;                /* policy_hook_put_call() */
	struct hook_worker *workers;
	size_t n_workers;
	struct hook_question *first;    /* in line */
	struct loop_round next;         /* gives out questions */
};

struct hook_pool {
	struct loop *loop;
	struct policy *policy;
	struct hook *hooks;
	size_t n_hooks;
	size_t n_questions, held;
	uint64_t idle_ms;               /* HOOK_IDLE_MS */
};

/* Takes ownership of POLICY.  The caller owns *ret_pool. */
int hook_pool_new(struct loop *loop, struct policy *policy, struct hook_pool **ret_pool,
                  struct err *err);
/* Kills all workers.  Nobody may still wait for an answer.  NULL is fine. */
void hook_pool_free(struct hook_pool *pool);
OWN_BY(hook_pool_freep, struct hook_pool *, hook_pool_free)

/* Begin a question to the hook with this NAME.  *ret_question is valid until ANSWERED is called, once,
 * or until it is dropped.  -ENOENT: the cell has no such hook. */
int hook_question_new(struct hook_pool *pool, const void *name, size_t len, uint64_t timeout_ms,
                      hook_answered *answered, void *arg, struct hook_question **ret_question,
                      struct err *err);
/* -EBADMSG: the question is not one line that begins with its id.  Adding may call ANSWERED: there is a limit. */
int hook_question_add(struct hook_question *q, const void *data, size_t len);
int hook_question_end(struct hook_question *q);
/* The answer is not wanted any more.  If a worker has the question, the worker still has to answer. */
void hook_question_drop(struct hook_question *q);

/* For workers.  The question leaves its worker and is freed. */
void hook_question_answer(struct hook_question *q, enum hook_result result, const char *text);
/* The text is written, and needs no memory any more. */
void hook_question_forget_text(struct hook_question *q);
/* A worker is free or gone: give out the next questions at the end of the loop's round. */
void hook_next(struct hook *hook);

/* ---- hook_worker.c ---- */

struct hook_worker {
	struct hook *hook;
	pid_t pid;                      /* 0: a connection */
	struct loop_source in, out;     /* questions are written to IN, answers are read from OUT */
	struct loop_source exited;      /* a program's pidfd */
	struct loop_timer idle;
	struct hook_question *question; /* NULL: none */
	size_t written;
	bool is_asked;                  /* all of the question is written */
	bool is_ending;                 /* killed, and not reaped yet */
	struct buf answer;
	struct hook_worker *next;
};

/* Start a program of HOOK, or connect to its service.  -EAGAIN: the service is busy. */
int hook_worker_new(struct hook *hook, struct hook_worker **ret_worker, struct err *err);
/* Whether it can take a question.  If it died or wrote something unasked, it is ended. */
bool hook_worker_is_free(struct hook_worker *w);
void hook_worker_ask(struct hook_worker *w, struct hook_question *q);
/* End it.  Its question fails with WHY, which follows the hook's name.  Without WHY, the question of a
 * program fails once its status is known. */
void hook_worker_end(struct hook_worker *w, const char *why);
/* Kill it, and wait until it is gone.  Its question is freed, and not answered. */
void hook_worker_free(struct hook_worker *w);

/* ---- hook_start.c ---- */

/* Check that no agent could have written what the hook calls, and call it.  The caller owns the
 * descriptors, which do not block. */
int hook_start_program(const struct policy_hook *call, pid_t *ret_pid, int *ret_pidfd, int *ret_in,
                       int *ret_out, struct err *err);
int hook_connect(const struct policy_hook *call, int *ret_in, int *ret_out, struct err *err);

/* ---- hook_serve.c ---- */

struct hook_courier;
struct hook_server {
	struct loop *loop;
	struct hook_pool *pool;
	struct hook_courier *couriers;
	size_t n_couriers;
};
/* Answer the courier on FD, which is taken.  -EBUSY: there are HOOK_COURIERS_MAX. */
int hook_serve(struct hook_server *server, int fd, struct err *err);
/* Drop all couriers and their questions. */
void hook_serve_end(struct hook_server *server);
#endif
