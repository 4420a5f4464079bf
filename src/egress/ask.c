/* ask.c - see ask.h. */
#include "egress/ask.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "egress/git.h"
#include "egress/secrets_parts.h"
#include "inspect/body_shape.h"
#include "ipc/ipc.h"

#define HOOK_ASK_MS (10 * 60 * 1000)    /* time for people to answer, if a hook asks */
#define LATE_S 60                       /* longer than the supervisor's own timeout */

/* ---- open rules ---- */

static bool
name_rule(const struct policy *p, int rule, struct ask_rule *ret_rule)
{
	OWN(buf_free) struct buf meaning = BUF(POLICY_ENCODED_MAX);

	policy_put_meaning(&meaning, p, rule);
	return !buf_failed(&meaning) &&
	       EVP_Digest(meaning.data, meaning.len, ret_rule->hash, NULL, EVP_sha256(), NULL) == 1;
}

static bool
same_rule(const struct ask_rule *a, const struct ask_rule *b)
{
	return memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

static void
drop_ended(struct courier_asks *a)
{
	uint64_t now = loop_now_ms();

	for (size_t i = a->n_open; i-- > 0;)
		if (a->open[i].until_ms != 0 && a->open[i].until_ms <= now)
			a->open[i] = a->open[--a->n_open];
}

bool
exchange_is_answered(const struct exchange *ex, const struct ask_rule *rule)
{
	struct courier_asks *a = &ex->courier->asks;

	for (size_t i = 0; ex->ask != NULL && i < ex->ask->n_given; i++)
		if (same_rule(&ex->ask->given[i], rule))
			return true;
	drop_ended(a);
	for (size_t i = 0; i < a->n_open; i++)
		if (same_rule(&a->open[i].rule, rule))
			return true;
	return false;
}

int
courier_take_open(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	struct courier_asks *a = &c->asks;
	struct ask_rule rule;
	uint64_t ms;
	size_t i = 0;

	(void)number;
	if (buf_left(&message->body) != sizeof(rule.hash) + 8)
		return -EBADMSG;
	memcpy(rule.hash, message->body.data + message->body.pos, sizeof(rule.hash));
	message->body.pos += sizeof(rule.hash);
	(void)buf_get_u64(&message->body, &ms);
	drop_ended(a);
	while (i < a->n_open && !same_rule(&a->open[i].rule, &rule))
		i++;
	if (i == COURIER_OPEN_MAX)
		return err_set(err, E2BIG, "too many rules are open already");
	a->n_open += i == a->n_open;
	a->open[i].rule = rule;
	a->open[i].until_ms = ms == 0 ? 0 : loop_now_ms() + ms;
	return 0;
}

/* ---- the question ---- */

static struct exchange_ask *
ask_of(struct exchange *ex)
{
	if (ex->ask == NULL)
		ex->ask = calloc(1, sizeof(*ex->ask));
	return ex->ask;
}

/* Write at most MAX bytes of TEXT, and mark a cut. */
static void
put_cut(struct buf *b, struct http_text text, size_t max)
{
	size_t n = text.len <= max ? text.len : max - 3;

	buf_put_u32(b, (uint32_t)(n < text.len ? n + 3 : n));
	buf_put(b, n > 0 ? text.at : "", n);
	buf_put(b, n < text.len ? "..." : "", n < text.len ? 4 : 1);
}

static void
put_head(struct buf *b, const struct exchange *ex)
{
	static const char *const kinds[] = { "http", "tcp", "tls" };
	const char *query = ex->request.path.len > 0 ? memchr(ex->request.path.at, '?', ex->request.path.len) : NULL;
	struct http_text path = { ex->request.path.at, query == NULL ? ex->request.path.len
	                                                     : (size_t)(query - ex->request.path.at) };
	char shown[INSPECT_SHAPE_MAX] = "", called[COURIER_ASK_PATH];

	/* No path that is sent has a '#'. */
	if (exchange_is_for_tools(ex) && strchr(ex->inspect.call, ' ') != NULL) {
		int n = snprintf(called, sizeof(called), "%.*s#%s", path.len < 64 ? (int)path.len : 64, path.at, ex->inspect.call);

		*strchr(called, ' ') = ':';
		path = (struct http_text){ called, (size_t)n };
	}
	if (query != NULL)
		body_shape_form((struct http_text){ query + 1, ex->request.path.len - path.len - 1 }, shown);
	buf_put_str(b, kinds[ex->kind]);
	put_cut(b, ex->t.method, 64);
	buf_put_str(b, ex->kind != EXCHANGE_HTTP ? "" : ex->t.scheme == HTTP_TLS ? "https" : "http");
	buf_put_str(b, ex->host);
	buf_put_u32(b, ex->t.port);
	put_cut(b, path, COURIER_ASK_PATH);
	put_cut(b, (struct http_text){ shown, strlen(shown) }, INSPECT_SHAPE_MAX - 1);
}

/* "refs/heads/x": the pushed refs explain more than the bytes of the body. */
static void
put_shape(struct buf *b, const struct exchange *ex)
{
	const char *refs[COURIER_GIT_REFS_MAX];
	char room[INSPECT_PUSHED_MAX], shape[INSPECT_SHAPE_MAX] = "";
	size_t n = ex->inspect.pushed[0] != '\0' ? courier_git_refs(ex->inspect.pushed, room, refs) : 0, len = 0;

	for (size_t i = 0; i < n && len < sizeof(shape); i++)
		len += (size_t)snprintf(shape + len, sizeof(shape) - len, "%spush %s", i > 0 ? "\n" : "",
		                        refs[i]);
	buf_put_str(b, n > 0 ? shape : ex->ask->shape);
}

static void
put_body(struct buf *b, struct exchange *ex)
{
	struct http_text type = {0};

	if (ex->kind == EXCHANGE_HTTP)
		type = http_head_get(exchange_head(ex), "content-type");
	put_cut(b, type, COURIER_ASK_TYPE);
	buf_put_u64(b, ex->kind != EXCHANGE_HTTP ? 0 : ex->t.came_all && ex->t.has_body ? ex->flow.came :
	               ex->request.length == HTTP_LENGTH_UNKNOWN ? UINT64_MAX : ex->request.length);
	put_shape(b, ex);
}

/* Whether SECRET's placeholder is in the part of the body that has come.  In a compressed or
 * encoded body that is unknown until it is replaced. */
static bool
is_in_body(const struct exchange *ex, const struct bound_secret *secret)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		if (secret->placeholder[i].len > 0 && ex->t.body.len > 0 &&
		    memmem(ex->t.body.data, ex->t.body.len, secret->placeholder[i].at,
		           secret->placeholder[i].len) != NULL)
			return true;
	return false;
}

static void
put_secrets(struct buf *b, const struct exchange *ex)
{
	const struct exchange_secrets *x = ex->secrets;
	const char *names[COURIER_ASK_SECRETS];
	size_t n = 0;

	for (size_t i = 0; x != NULL && i < x->view->n_bound && n < COURIER_ASK_SECRETS; i++)
		if (x->carried[i] != 0 || exchange_is_signed_by(x, x->view->at[i]) || is_in_body(ex, x->view->at[i]))
			names[n++] = x->view->at[i]->secret->name;
	buf_put_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_put_str(b, names[i]);
}

static void
put_headers(struct buf *b, struct exchange *ex)
{
	char shown[INSPECT_SHAPE_MAX] = "";

	if (ex->kind == EXCHANGE_HTTP)
		body_shape_headers(exchange_head(ex), shown);
	put_cut(b, (struct http_text){ shown, strlen(shown) }, INSPECT_SHAPE_MAX - 1);
}

static void
put_question(struct buf *b, struct exchange *ex, const struct courier_question *q)
{
	const char *reason = q->of.reason != NULL ? q->of.reason : "";

	buf_put_u64(b, ex->ask->number);
	buf_put_u64(b, q->of.timeout_ms);
	buf_put_u32(b, q->of.approvals);
	buf_put_u32(b, q->of.freeze);
	buf_put(b, q->rule.hash, sizeof(q->rule.hash));
	put_head(b, ex);
	put_cut(b, (struct http_text){ q->text, strlen(q->text) }, COURIER_ASK_TEXT);
	put_cut(b, (struct http_text){ q->place, strlen(q->place) }, COURIER_ASK_TEXT);
	put_cut(b, (struct http_text){ reason, strlen(reason) }, COURIER_ASK_TEXT);
	put_body(b, ex);
	put_secrets(b, ex);
	buf_put_u32(b, (uint32_t)q->of.n_approvers);
	for (size_t i = 0; i < q->of.n_approvers; i++)
		buf_put_str(b, q->of.approvers[i]);
	put_headers(b, ex);
}

/* People cannot approve what they cannot see.  A query is shown by its shape, a path is shown
 * whole. */
static bool
can_be_shown(const struct exchange *ex)
{
	return ex->request.path.len <= COURIER_ASK_PATH ||
	       memchr(ex->request.path.at, '?', COURIER_ASK_PATH + 1) != NULL;
}

/* Why no question can be asked, or NULL. */
static const char *
cannot_ask(const struct exchange *ex)
{
	if (ex->ask == NULL)
		return "there is no memory to ask anybody";
	if (ex->courier->asks.n_waiting >= COURIER_ASKS_MAX)
		return "too many requests wait for approval already";
	return can_be_shown(ex) ? NULL : "a person has to approve this, and its path is too long to be shown";
}

static void
refuse_shut(struct exchange *ex)
{
	exchange_refuse(ex, "ask", "a person has to approve this, and its client has closed its side of the "
	                "connection, as one that has gone: leave it open until the answer comes");
}

void
exchange_shut(struct exchange *ex)
{
	ex->request.is_shut = true;
	if (exchange_is_asked_for(ex))
		refuse_shut(ex);
}

enum stage_answer
exchange_ask(struct exchange *ex, const struct courier_question *q)
{
	struct courier *c = ex->courier;
	struct exchange_ask *ask = ask_of(ex);
	struct buf message;

	if (exchange_is_answered(ex, &q->rule))
		return STAGE_CONTINUE;
	if (ex->request.is_shut) {
		refuse_shut(ex);
		return STAGE_REFUSE;
	}
	if (cannot_ask(ex) != NULL) {
		exchange_refuse(ex, "ask", cannot_ask(ex));
		return STAGE_REFUSE;
	}
	ask->number = ++c->asks.n;
	ask->rule = q->rule;
	snprintf(ask->reason, sizeof(ask->reason), "%s", q->of.reason != NULL ? q->of.reason : "");
	c->asks.n_waiting++;
	transfer_touch(&ex->t, q->of.timeout_ms / 1000 + LATE_S);
	ipc_begin(&message, COURIER_ASK);
	put_question(&message, ex, q);
	courier_say(c, &message);
	return STAGE_WAIT;
}

/* Whether RULE asks about EX and has no answer. */
static bool
is_open(const struct exchange *ex, int rule, struct courier_question *ret_q)
{
	const struct policy *p = ex->policy->policy;

	if (!policy_question(p, rule, &ret_q->of) ||
	    (name_rule(p, rule, &ret_q->rule) && exchange_is_answered(ex, &ret_q->rule)))
		return false;
	ret_q->text = policy_rule_text(p, rule);
	ret_q->place = policy_rule_place(p, rule);
	return true;
}

/* Find the next rule of the policy that asks about EX, as it is or as it was before it was rewritten, and
 * has no answer.  -1: none. */
static int
next_rule(const struct exchange *ex, struct courier_question *ret_q)
{
	for (unsigned layer = 0; layer < POLICY_LAYERS_MAX; layer++) {
		int rule = policy_way_rule(ex->policy->policy, &ex->decision.way, layer);

		if (is_open(ex, rule, ret_q))
			return rule;
	}
	for (size_t i = 0; ex->rewrite != NULL && i < ex->rewrite->n_asked; i++)
		if (is_open(ex, ex->rewrite->asked[i], ret_q))
			return ex->rewrite->asked[i];
	return -1;
}

/* A hook wants people to approve EX.  The answer is for EX alone. */
static enum stage_answer
ask_for_hook(struct exchange *ex)
{
	const char *reason = exchange_hook_asks(ex);
	struct courier_question q = { .text = "a hook asks for approval", .place = ex->hook->place,
		.of = { .approvals = 1, .timeout_ms = HOOK_ASK_MS, .reason = reason } };
	char text[POLICY_HOOK_REASON_MAX + 64];
	int n = snprintf(text, sizeof(text), "hook %llu %u %s", (unsigned long long)ex->times.began_ms,
	                 ex->stream->id, reason);

	(void)EVP_Digest(text, (size_t)n, q.rule.hash, NULL, EVP_sha256(), NULL);
	return exchange_ask(ex, &q);
}

enum stage_answer
stage_ask(struct exchange *ex)
{
	struct courier_question q;

	if (!CONTROL_ON("policy"))
		return STAGE_CONTINUE;
	if (ex->decision.verdict == POLICY_ASK && next_rule(ex, &q) >= 0)
		return exchange_ask(ex, &q);
	return exchange_hook_asks(ex) == NULL ? STAGE_CONTINUE : ask_for_hook(ex);
}

void
ask_late(struct exchange *ex)
{
	struct failure failure;

	failure_set(&failure, 403, "ask", "refused by cloister",
	            "nobody answered whether this may be done");
	exchange_fail(ex, &failure);
}

bool
exchange_wants_shape(const struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	struct courier_question q;

	if (!ex->t.has_body || ex->request.is_grpc || ex->courier->inspect == NULL ||
	    (!ex->policy->asks && exchange_hook_asks(ex) == NULL) ||
	    (ex->request.length != HTTP_LENGTH_UNKNOWN && ex->request.length > COURIER_ASK_HELD))
		return false;
	/* If the body decides, a question may follow. */
	return d->needs_body || exchange_hook_asks(ex) != NULL ||
	       (d->verdict == POLICY_ASK && next_rule(ex, &q) >= 0);
}

void
exchange_keep_shape(struct exchange *ex, const char *shape)
{
	if (shape[0] != '\0' && ask_of(ex) != NULL)
		snprintf(ex->ask->shape, sizeof(ex->ask->shape), "%s", shape);
}

/* ---- answers ---- */

bool
exchange_is_asked_for(const struct exchange *ex)
{
	return ex->ask != NULL && ex->ask->number != 0;
}

static void
close_question(struct exchange *ex)
{
	ex->ask->number = 0;
	ex->courier->asks.n_waiting--;
}

void
exchange_withdraw(struct exchange *ex)
{
	struct buf message;

	ipc_begin(&message, COURIER_WITHDRAW);
	buf_put_u64(&message, ex->ask->number);
	close_question(ex);
	courier_say(ex->courier, &message);
}

void
ask_stop(struct exchange *ex)
{
	if (!exchange_is_asked_for(ex))
		return;
	exchange_withdraw(ex);
	/* Nobody has allowed it.  A later refusal is more specific. */
	ex->outcome.refused = true;
	ex->outcome.why = "ask";
}

void
exchange_ask_free(struct exchange *ex)
{
	free(TAKE(ex->ask));
}

static struct exchange *
find(struct courier *c, uint64_t number)
{
	struct exchange *ex = c->exchanges;

	while (ex != NULL && (ex->ask == NULL || ex->ask->number != number))
		ex = ex->next;
	return ex;
}

static void
approved(struct exchange *ex)
{
	struct exchange_ask *ask = ex->ask;

	if (ask->n_given < ARRAY_LEN(ask->given))
		ask->given[ask->n_given++] = ask->rule;
	exchange_resume(ex);
}

/* The record has the rule's reason separately. */
static void
refused(struct exchange *ex, const char *text)
{
	char reason[COURIER_ASK_TEXT + COURIER_NOTE_MAX + 8];

	if (ex->note[0] == '\0')
		snprintf(ex->note, sizeof(ex->note), "%s", text);
	snprintf(reason, sizeof(reason), ex->ask->reason[0] != '\0' ? "%s (%s)" : "%s%s", ex->ask->reason,
	         text);
	exchange_refuse(ex, "ask", reason);
}

int
courier_take_answer(struct courier *c, uint64_t steer, struct ipc_message *message, struct err *err)
{
	const char *id, *by, *text;
	struct exchange *ex;
	uint64_t number;
	uint32_t yes;

	(void)steer, (void)err;
	if (buf_get_u64(&message->body, &number) < 0 || number == 0 ||
	    buf_get_u32(&message->body, &yes) < 0 || yes > 1 || buf_get_str(&message->body, &id) < 0 ||
	    buf_get_str(&message->body, &by) < 0 || buf_get_str(&message->body, &text) < 0 ||
	    buf_left(&message->body) != 0)
		return -EBADMSG;
	ex = find(c, number);
	/* The exchange has ended in between. */
	if (ex == NULL)
		return 0;
	snprintf(ex->ask->id, sizeof(ex->ask->id), "%s", id);
	snprintf(ex->ask->by, sizeof(ex->ask->by), "%s", by);
	close_question(ex);
	if (yes == 1)
		approved(ex);
	else
		refused(ex, text);
	return 0;
}

/* ---- another policy ---- */

bool
exchange_has_question(struct exchange *ex)
{
	struct courier_question q;

	return ex->decision.verdict == POLICY_ASK && next_rule(ex, &q) >= 0;
}

/* EX waits under a policy that is no longer in force. */
static void
ask_again(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct policy_decision before = ex->decision;
	struct courier_question q;

	if (ex->rewrite != NULL || ex->hook != NULL) {
		exchange_refuse(ex, "ask", "the policy was changed while this waited for an answer: send it "
		                "again");
		return;
	}
	courier_policy_release(ex->policy);
	ex->policy = courier_policy_use(c->policy);
	exchange_decide_anew(ex);
	if (ex->decision.verdict == POLICY_DENY && !ex->decision.needs_body) {
		(void)exchange_settle(ex);
		return;
	}
	/* The new policy asks the same question, and treats the request as before. */
	if (ex->decision.verdict == POLICY_ASK && !ex->decision.needs_body &&
	    !exchange_is_to_be_rewritten(ex) && next_rule(ex, &q) >= 0 &&
	    same_rule(&q.rule, &ex->ask->rule) && ex->decision.must_look == before.must_look &&
	    ex->decision.may_carry_secrets == before.may_carry_secrets &&
	    ex->decision.may_pass_placeholders == before.may_pass_placeholders &&
	    ex->decision.upload_max == before.upload_max)
		return;
	exchange_refuse(ex, "ask", "the policy was changed while this waited for an answer: send it "
	                "again");
}

void
courier_ask_again(struct courier *c)
{
	struct exchange *ex = c->exchanges;

	/* Continuing one exchange may end others. */
	while (ex != NULL) {
		if (exchange_is_asked_for(ex) && ex->policy != c->policy) {
			ask_again(ex);
			ex = c->exchanges;
		} else {
			ex = ex->next;
		}
	}
}
