/* stages.c - the rows of stages, and how an exchange goes along them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "egress/courier.h"

/* On the way out, in this order.  The order has reasons:
 * - The decision comes first, so that a request that no rule allows costs little.
 * - Hooks and rewrites come next: everything that follows judges the request as it will be sent.
 * - Placeholders are found before the body is inspected: an inspection would take them for
 *   credentials.
 * - The body is inspected before people are asked, so that they see what it is.
 * - Signing comes after that: it needs the whole body as it is sent.
 * - Then it is settled which rules let the request through, and which secrets are in it.
 * - Only a request that is about to leave counts for budgets and has consequences, and its record
 *   is the last thing that it waits for. */
static const struct stage way_out[] = {
	{ "decide",      STAGE_BOTH, stage_decide,      NULL,         NULL,         NULL },
	{ "hook",        STAGE_HTTP, stage_hook,        hook_stop,    hook_late,    exchange_hook_free },
	{ "rewrite",     STAGE_HTTP, stage_rewrite,     rewrite_stop, inspect_late, exchange_rewrite_free },
	{ "look",        STAGE_HTTP, stage_look,        NULL,         NULL,         NULL },
	{ "certificate", STAGE_HTTP, stage_certificate, NULL,         NULL,         NULL },
	{ "swap",        STAGE_HTTP, stage_swap,        NULL,         NULL,         exchange_secrets_free },
	{ "inspect",     STAGE_HTTP, stage_inspect,     NULL,         inspect_late, NULL },
	{ "ask",         STAGE_BOTH, stage_ask,         ask_stop,     ask_late,     exchange_ask_free },
	{ "sign",        STAGE_HTTP, stage_sign,        NULL,         NULL,         NULL },
	{ "login",       STAGE_RAW,  stage_login,       NULL,         login_late,   exchange_wire_free },
	{ "uses",        STAGE_BOTH, stage_uses,        NULL,         NULL,         NULL },
	{ "tripwire",    STAGE_BOTH, stage_tripwire,    NULL,         NULL,         NULL },
	{ "budget",      STAGE_BOTH, stage_budget,      budget_stop,  budget_late,  NULL },
	{ "consequence", STAGE_BOTH, stage_consequence, NULL,         NULL,         NULL },
	{ "strict",      STAGE_BOTH, stage_strict,      strict_stop,  strict_late,  NULL },
};

/* On the way back.  The meter sees what the server sent; scrubbing holds responses that contain
 * tokens (capture.c), and takes values out of the others.  Each exchange ends with its record
 * (record.c). */
static const struct answer_stage way_back[] = {
	{ "meter", meter_head, meter_data },
	{ "injection", injection_head, injection_data },
	{ "scrub", scrub_head, scrub_data },
};

static enum stage_kinds
kind_of(const struct exchange *ex)
{
	return ex->kind == EXCHANGE_HTTP ? STAGE_HTTP : STAGE_RAW;
}

static const struct stage *
find(const char *name)
{
	const struct stage *s = way_out;

	while (strcmp(s->name, name) != 0)
		s++;
	return s;
}

/* Nothing holds EX back any more. */
static void
leave(struct exchange *ex)
{
	ex->stage = NULL;
	ex->times.left_ms = loop_now_ms();
	ex->t.may_use_private = ex->decision.may_use_private;
	ex->t.named_bits = ex->decision.named_bits;
	/* gRPC requires HTTP/2; old servers can serve other requests. */
	ex->t.h2_unasked = ex->t.scheme == HTTP_PLAIN && ex->request.version == 20 &&
	                   ex->request.is_grpc;
	if (ex->kind == EXCHANGE_HTTP)
		pool_send(&ex->t);
	else
		pool_connect(&ex->t);
}

static void
run(struct exchange *ex, const struct stage *from)
{
	for (const struct stage *s = from; s < way_out + ARRAY_LEN(way_out); s++) {
		if ((s->kinds & kind_of(ex)) == 0)
			continue;
		ex->stage = s;
		switch (s->run(ex)) {
		case STAGE_CONTINUE:
			break;
		case STAGE_WAIT:
			assert(s->late != NULL);
			if (ex->state != EXCHANGE_HOLDS)
				exchange_set(ex, EXCHANGE_WAITS);
			return;
		case STAGE_AGAIN:
			s = find("hook") - 1;
			break;
		case STAGE_REFUSE:
		case STAGE_ANSWER:
			assert(ex->state == EXCHANGE_DRAINS || ex->state == EXCHANGE_OVER);
			return;
		}
	}
	leave(ex);
}

void
exchange_begin(struct exchange *ex)
{
	run(ex, way_out);
}

void
exchange_resume(struct exchange *ex)
{
	assert(ex->stage != NULL && (ex->state == EXCHANGE_HOLDS || ex->state == EXCHANGE_WAITS));
	/* Something may have been stopped while EX waited. */
	if (!exchange_is_halted(ex))
		run(ex, ex->stage);
}

void
exchange_stop(struct exchange *ex)
{
	const struct stage *s = TAKE(ex->stage);

	if (s != NULL && s->stop != NULL)
		s->stop(ex);
}

void
exchange_free_stages(struct exchange *ex)
{
	for (size_t i = 0; i < ARRAY_LEN(way_out); i++)
		if (way_out[i].free != NULL)
			way_out[i].free(ex);
	free(TAKE(ex->injection));
}

enum stage_answer
exchange_pass_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	enum stage_answer answer = STAGE_CONTINUE;

	for (size_t i = 0; answer == STAGE_CONTINUE && i < ARRAY_LEN(way_back); i++)
		answer = way_back[i].head(ex, head, has_body);
	return answer;
}

enum stage_answer
exchange_pass_data(struct exchange *ex, const void *data, size_t len)
{
	enum stage_answer answer = STAGE_CONTINUE;

	for (size_t i = 0; answer == STAGE_CONTINUE && i < ARRAY_LEN(way_back); i++)
		answer = way_back[i].data(ex, data, len);
	return answer;
}

void
exchange_late_at_stage(struct exchange *ex)
{
	ex->stage->late(ex);
}
