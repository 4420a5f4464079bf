/* hook_pool.c - the hooks of a cell, and the questions that wait for them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/hook/hook.h"

/* ---- the hooks ---- */

static struct hook *
find_hook(struct hook_pool *pool, const void *name, size_t len)
{
	for (size_t i = 0; i < pool->n_hooks; i++)
		if (pool->hooks[i].name.len == len && memcmp(pool->hooks[i].name.data, name, len) == 0)
			return &pool->hooks[i];
	return NULL;
}

static int
add_hook(struct hook_pool *pool, const struct policy_hook *call)
{
	OWN(buf_free) struct buf name;

	buf_init(&name, POLICY_HOOK_CALL_MAX);
	policy_hook_put_call(&name, call);
	if (buf_failed(&name))
		return -ENOMEM;
	if (find_hook(pool, name.data, name.len) != NULL)
		return 0;
	pool->hooks[pool->n_hooks++] = (struct hook){ .pool = pool, .call = call, .name = name };
	buf_init(&name, 0);
	return 0;
}

int
hook_pool_new(struct loop *loop, struct policy *policy, struct hook_pool **ret_pool,
              struct err *err)
{
	OWN(hook_pool_freep) struct hook_pool *pool = calloc(1, sizeof(*pool));
	size_t n = policy_n_rules(policy);
	int r = pool != NULL ? 0 : -ENOMEM;

	if (r == 0) {
		*pool = (struct hook_pool){ .loop = loop, .idle_ms = HOOK_IDLE_MS };
		pool->hooks = calloc(n + 1, sizeof(*pool->hooks));
		r = pool->hooks != NULL ? 0 : -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		if (policy_hook_of(policy, (int)i) != NULL)
			r = add_hook(pool, policy_hook_of(policy, (int)i));
	if (r < 0)
		return err_set(err, ENOMEM, "out of memory");
	pool->policy = policy;
	*ret_pool = TAKE(pool);
	return 0;
}

void
hook_pool_free(struct hook_pool *pool)
{
	if (pool == NULL)
		return;
	for (size_t i = 0; i < pool->n_hooks; i++) {
		struct hook *hook = &pool->hooks[i];

		loop_cancel_round(pool->loop, &hook->next);
		while (hook->workers != NULL)
			hook_worker_free(hook->workers);
		buf_free(&hook->name);
	}
	free(pool->hooks);
	policy_free(pool->policy);
	free(pool);
}

/* ---- questions ---- */

static void
leave_line(struct hook_question *q)
{
	struct hook_question **at = &q->hook->first;

	while (*at != NULL && *at != q)
		at = &(*at)->next;
	if (*at == q)
		*at = q->next;
}

void
hook_question_forget_text(struct hook_question *q)
{
	q->hook->pool->held -= q->held;
	q->held = 0;
	buf_free(&q->text);
	buf_init(&q->text, 0);
}

static void
question_free(struct hook_question *q)
{
	struct hook_pool *pool = q->hook->pool;

	if (q->worker != NULL)
		q->worker->question = NULL;
	else
		leave_line(q);
	loop_cancel_timer(pool->loop, &q->deadline);
	hook_question_forget_text(q);
	pool->n_questions--;
	free(q);
}

void
hook_question_answer(struct hook_question *q, enum hook_result result, const char *text)
{
	hook_answered *answered = q->answered;
	void *arg = q->arg;

	question_free(q);
	if (answered != NULL)
		answered(arg, result, text);
}

static void
question_is_late(void *arg)
{
	struct hook_question *q = arg;

	if (q->worker != NULL)
		hook_worker_end(q->worker, "did not answer in time");
	else
		hook_question_answer(q, HOOK_FAILED, q->is_complete ?
		                     "the hook had no time for the request: all its workers are busy" :
		                     "the request did not reach the hook in time");
}

int
hook_question_new(struct hook_pool *pool, const void *name, size_t len, uint64_t timeout_ms,
                  hook_answered *answered, void *arg, struct hook_question **ret_question,
                  struct err *err)
{
	struct hook *hook = find_hook(pool, name, len);
	struct hook_question *q;

	if (hook == NULL)
		return err_set(err, ENOENT, "the cell was not started with this hook: start a new cell to "
		               "use it");
	if (pool->n_questions >= HOOK_QUESTIONS_MAX)
		return err_set(err, EBUSY, "%d requests wait for hooks already", HOOK_QUESTIONS_MAX);
	q = calloc(1, sizeof(*q));
	if (q == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*q = (struct hook_question){ .hook = hook, .answered = answered, .arg = arg,
	                             .deadline = { .due = question_is_late, .arg = q } };
	buf_init(&q->text, POLICY_HOOK_QUESTION_MAX);
	loop_set_timer(pool->loop, &q->deadline, timeout_ms);
	pool->n_questions++;
	*ret_question = q;
	return 0;
}

int
hook_question_add(struct hook_question *q, const void *data, size_t len)
{
	struct hook_pool *pool = q->hook->pool;

	/* A second line would be a second question, and its answer would be taken for another's. */
	if (q->is_complete || (q->text.len > 0 && q->text.data[q->text.len - 1] == '\n') ||
	    memchr(data, '\n', len > 0 ? len - 1 : 0) != NULL)
		return -EBADMSG;
	if (len > HOOK_HELD_MAX - pool->held) {
		hook_question_answer(q, HOOK_FAILED, "the requests that wait for hooks are too large");
		return 0;
	}
	buf_put(&q->text, data, len);
	if (buf_failed(&q->text)) {
		hook_question_answer(q, HOOK_FAILED, "the request is too large for a hook");
		return 0;
	}
	q->held += len;
	pool->held += len;
	return 0;
}

int
hook_question_end(struct hook_question *q)
{
	struct hook_question **at = &q->hook->first;

	if (q->is_complete || q->text.len == 0 || q->text.data[q->text.len - 1] != '\n' ||
	    !policy_hook_id(q->text.data, q->text.len, q->id))
		return -EBADMSG;
	q->is_complete = true;
	while (*at != NULL)
		at = &(*at)->next;
	*at = q;
	hook_next(q->hook);
	return 0;
}

void
hook_question_drop(struct hook_question *q)
{
	q->answered = NULL;
	if (q->worker == NULL)
		question_free(q);
}

/* ---- giving them out ---- */

static struct hook_worker *
find_free(struct hook *hook)
{
	struct hook_worker *w = hook->workers, *next;

	for (; w != NULL; w = next) {
		next = w->next;
		if (hook_worker_is_free(w))
			return w;
	}
	return NULL;
}

static void
give_out(void *arg)
{
	struct hook *hook = arg;
	const size_t max = hook->call->socket != NULL ? HOOK_CONNECTIONS_MAX : HOOK_PROGRAMS_MAX;

	while (hook->first != NULL) {
		struct hook_worker *w = find_free(hook);
		struct hook_question *q = hook->first;
		struct err err = {0};
		int r = 0;

		if (w == NULL && hook->n_workers >= max)
			return;
		if (w == NULL)
			r = hook_worker_new(hook, &w, &err);
		/* A service that accepts no further connection answers on those that it has. */
		if (r == -EAGAIN && hook->n_workers > 0)
			return;
		if (r < 0) {
			hook_question_answer(q, HOOK_FAILED, err.text);
			continue;
		}
		hook->first = q->next;
		hook_worker_ask(w, q);
	}
}

void
hook_next(struct hook *hook)
{
	hook->next.run = give_out;
	hook->next.arg = hook;
	loop_at_round_end(hook->pool->loop, &hook->next);
}
