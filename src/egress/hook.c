/* hook.c - see hook.h. */
#include "egress/hook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/hook_channel.h"

/* ---- state ---- */

static struct exchange_hook *
hook_of(struct exchange *ex)
{
	if (ex->hook == NULL && (ex->hook = calloc(1, sizeof(*ex->hook))) != NULL)
		buf_init(&ex->hook->question, POLICY_HOOK_QUESTION_MAX);
	return ex->hook;
}

static void
forget_answer(struct exchange_hook *x)
{
	policy_hook_answer_free(&x->answer);
	x->answer = (struct policy_hook_answer){0};
	free(TAKE(x->text));
}

void
exchange_hook_free(struct exchange *ex)
{
	struct exchange_hook *x = TAKE(ex->hook);

	if (x == NULL)
		return;
	forget_answer(x);
	buf_free(&x->question);
	free(x);
}

/* Whether X has the answer of the layer that is at work. */
static bool
is_current(const struct exchange *ex)
{
	return ex->hook != NULL && ex->hook->answered && ex->rewrite != NULL &&
	       ex->hook->layer == ex->rewrite->layer;
}

const struct policy_rewrite *
exchange_hook_rewrite(const struct exchange *ex)
{
	return is_current(ex) ? ex->hook->answer.rewrite : NULL;
}

struct http_text
exchange_hook_answer_text(const struct exchange *ex)
{
	if (exchange_hook_rewrite(ex) == NULL)
		return (struct http_text){ "", 0 };
	return (struct http_text){ ex->hook->text, strlen(ex->hook->text) };
}

const char *
exchange_hook_asks(const struct exchange *ex)
{
	return ex->hook != NULL && ex->hook->asks ? ex->hook->reason : NULL;
}

/* ---- questions ---- */

static void
feed(struct exchange *ex)
{
	struct exchange_hook *x = ex->hook;
	struct buf *q = &x->question;

	if (buf_left(q) > 0)
		q->pos += mux_send_data(x->stream, q->data + q->pos, buf_left(q));
	if (buf_left(q) == 0 && !x->ended) {
		x->ended = true;
		mux_send(ex->courier->hooks, x->stream->id, HOOK_END, NULL);
	}
}

/* Nobody can guess it: neither the agent nor a hook can answer a question before it is asked. */
static bool
make_id(char ret_id[POLICY_HOOK_ID + 1])
{
	unsigned char random[POLICY_HOOK_ID / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return false;
	codec_hex(random, sizeof(random), ret_id);
	return true;
}

static void
write_question(struct exchange *ex, const struct policy_hook *hook, int rule)
{
	const struct policy *p = ex->policy->policy;
	const struct policy_hook_question question = {
		.id = ex->hook->id, .head = exchange_head(ex), .has_body = hook->body_max > 0,
		.body = (const char *)ex->t.body.data, .n_body = hook->body_max > 0 ? ex->t.body.len : 0,
		.cell = ex->courier->who.cell, .agent = ex->courier->who.chain,
		.principal = ex->courier->who.principal,
		.rule = policy_rule_text(p, rule), .place = policy_rule_place(p, rule),
	};

	buf_reset(&ex->hook->question);
	policy_hook_put(&ex->hook->question, &question);
}

/* The record has the details.  The agent does not see them: they name the operator's programs. */
static enum stage_answer
refuse(struct exchange *ex, const char *why)
{
	snprintf(ex->note, sizeof(ex->note), "%.300s", why);
	exchange_refuse(ex, "hook", "the operator's hook must judge this request, and gave no valid answer");
	return STAGE_REFUSE;
}

static enum stage_answer
ask(struct exchange *ex, const struct policy_hook *hook, int rule)
{
	struct exchange_hook *x = ex->hook;
	struct courier *c = ex->courier;

	x->stream = c->hooks == NULL ? NULL : mux_open(c->hooks, ex);
	if (x->stream == NULL)
		return refuse(ex, "nobody is there to ask it; start the cell again");
	if (!make_id(x->id))
		return refuse(ex, "there are no random bytes");
	write_question(ex, hook, rule);
	buf_reset(&c->out);
	buf_put_u64(&c->out, hook->timeout_ms);
	policy_hook_put_call(&c->out, hook);
	if (buf_failed(&x->question) || buf_failed(&c->out))
		return refuse(ex, "there is no memory");
	x->asked = true;
	x->answered = x->ended = false;
	mux_send(c->hooks, x->stream->id, HOOK_ASK, &c->out);
	/* cloister-hook has a timeout of its own, which is shorter. */
	transfer_touch(&ex->t, hook->timeout_ms / 1000 + COURIER_INSPECT_S);
	feed(ex);
	return STAGE_WAIT;
}

/* ---- answers ---- */

static enum stage_answer
take(struct exchange *ex, int rule)
{
	struct exchange_hook *x = ex->hook;
	char reason[COURIER_NOTE_MAX];

	if (x->why[0] != '\0')
		return refuse(ex, x->why);
	switch (x->answer.verdict) {
	case POLICY_ALLOW:
		return STAGE_CONTINUE;
	case POLICY_ASK:
		x->asks = true;
		snprintf(x->reason, sizeof(x->reason), "%s", x->answer.reason);
		snprintf(x->place, sizeof(x->place), "%s", policy_rule_place(ex->policy->policy, rule));
		return STAGE_CONTINUE;
	default:
		if (!CONTROL_ON("hook"))
			return STAGE_CONTINUE;
		snprintf(reason, sizeof(reason), "%.300s", x->answer.reason[0] != '\0' ? x->answer.reason :
		         "the operator's hook denies it");
		exchange_refuse(ex, "hook", reason);
		return STAGE_REFUSE;
	}
}

/* The layer's hook gets the body too, if it is to judge it. */
static enum stage_answer
hold_for(struct exchange *ex, const struct policy_hook *hook)
{
	enum stage_answer answer = exchange_begin_hold(ex);

	if (answer != STAGE_CONTINUE)
		return answer;
	/* They came while the body decided which rule applies. */
	if (ex->t.trailers.len > 0) {
		exchange_refuse(ex, "malformed", "the rule's hook does not see trailers, so the request cannot "
		                "have any");
		return STAGE_REFUSE;
	}
	if (hook->body_max == 0)
		return answer;
	answer = exchange_hold_all(ex);
	if (answer == STAGE_CONTINUE && ex->t.body.len > hook->body_max) {
		exchange_refuse(ex, "too-large", "the body is larger than what the rule's hook may read");
		return STAGE_REFUSE;
	}
	return answer;
}

enum stage_answer
stage_hook(struct exchange *ex)
{
	const struct policy_hook *hook;
	struct exchange_hook *x;
	enum stage_answer answer;
	unsigned layer;
	int rule;

	/* If the body decides which rule applies, EX comes here again. */
	if (ex->decision.needs_body || !exchange_is_to_be_rewritten(ex))
		return STAGE_CONTINUE;
	if (exchange_rewrite_of(ex) == NULL)
		return refuse(ex, "there is no memory");
	layer = ex->rewrite->layer;
	rule = exchange_rule_of_layer(ex, layer);
	hook = policy_hook_of(ex->policy->policy, rule);
	if (hook == NULL)
		return STAGE_CONTINUE;
	x = hook_of(ex);
	if (x == NULL)
		return refuse(ex, "there is no memory");
	if (x->asked && x->layer == layer)
		return x->answered ? take(ex, rule) : STAGE_WAIT;
	answer = hold_for(ex, hook);
	if (answer != STAGE_CONTINUE)
		return answer;
	forget_answer(x);
	x->why[0] = '\0';
	x->layer = layer;
	return ask(ex, hook, rule);
}

void
hook_stop(struct exchange *ex)
{
	struct exchange_hook *x = ex->hook;

	if (x == NULL || x->stream == NULL)
		return;
	mux_send(ex->courier->hooks, x->stream->id, HOOK_DROP, NULL);
	mux_close(TAKE(x->stream));
}

void
hook_late(struct exchange *ex)
{
	if (!ex->t.came_all && (ex->hook == NULL || ex->hook->stream == NULL))
		inspect_late(ex);
	else
		(void)refuse(ex, "it gave no answer in time");
}

static int
take_answer(struct exchange *ex, struct buf *body)
{
	struct exchange_hook *x = ex->hook;
	struct err err = {0};
	const char *text;
	uint32_t result;

	if (buf_get_u32(body, &result) < 0 || buf_get_str(body, &text) < 0 || buf_left(body) != 0 ||
	    result > HOOK_FAILED)
		return -EBADMSG;
	mux_close(TAKE(x->stream));
	x->answered = true;
	if (result == HOOK_FAILED)
		snprintf(x->why, sizeof(x->why), "%s", text[0] != '\0' ? text : "it failed");
	else if (policy_hook_get(text, strlen(text), &x->answer, &err) < 0)
		snprintf(x->why, sizeof(x->why), "%.300s", err.text);
	/* cloister-hook has compared it too, and has ended a hook that answers another question. */
	else if (strcmp(x->answer.id, x->id) != 0)
		snprintf(x->why, sizeof(x->why), "the hook answered another question");
	else if ((x->text = strdup(text)) == NULL)
		snprintf(x->why, sizeof(x->why), "there is no memory");
	exchange_resume(ex);
	return 0;
}

static int
hook_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type, struct buf *body)
{
	(void)arg;
	(void)id;
	if (type != HOOK_ANSWER)
		return -EBADMSG;
	return stream == NULL ? 0 : take_answer(stream->arg, body);
}

static int
hook_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	(void)arg;
	(void)stream;
	(void)data;
	(void)len;
	return -EBADMSG;
}

static void
hook_writable(void *arg, struct mux_stream *stream)
{
	(void)arg;
	feed(stream->arg);
}

/* Refuse the first exchange that waits for a hook.  It may take others with it, so the list is
 * searched anew each time. */
static bool
refuse_one(struct courier *c)
{
	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next)
		if (ex->hook != NULL && ex->hook->stream != NULL) {
			mux_close(TAKE(ex->hook->stream));
			(void)refuse(ex, "cloister-hook has ended; start the cell again");
			return true;
		}
	return false;
}

static void
hook_ended(void *arg, int error)
{
	struct courier *c = arg;
	struct mux *hooks = TAKE(c->hooks);

	(void)error;
	while (refuse_one(c))
		;
	c->dead_hooks = hooks;          /* freed at the end: this is its callback */
}

int
courier_start_hooks(struct courier *c, int fd, struct err *err)
{
	static const struct mux_handler handler = {
		.frame = hook_frame, .data = hook_data, .writable = hook_writable, .ended = hook_ended,
	};

	return mux_new(c->loop, fd, &handler, c, &c->hooks, err);
}
