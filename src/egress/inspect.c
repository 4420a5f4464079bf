/* inspect.c - see inspect.h. */
#include "egress/inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "base/num.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/courier_channel.h"
#include "policy/policy_tools.h"

/* ---- holding ---- */

/* Whether the decision requires EX's body to be searched for credentials. */
static bool
exchange_looks_for_secrets(const struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;

	return d->must_look && !d->may_carry_secrets && ex->t.has_body && CONTROL_ON("secrets");
}

/* The chunks of S3 are plain bytes with lines in between: nothing is compressed. */
static bool
is_packed(const struct http_head *head)
{
	return http_head_is_packed(head) &&
	       !http_text_is_nocase(http_head_get(head, "content-encoding"), "aws-chunked");
}

static void
drop_stream(struct exchange *ex)
{
	if (ex->inspect.stream == NULL)
		return;
	mux_send(ex->courier->inspect, ex->inspect.stream->id, INSPECT_DROP, NULL);
	mux_close(TAKE(ex->inspect.stream));
}

static void
feed_inspect(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (ex->inspect.stream == NULL)
		return;
	if (ex->inspect.at < ex->t.body.len)
		ex->inspect.at += mux_send_data(ex->inspect.stream, ex->t.body.data + ex->inspect.at,
		                                ex->t.body.len - ex->inspect.at);
	if (ex->t.came_all && ex->inspect.at == ex->t.body.len && !ex->inspect.ended) {
		mux_send(c->inspect, ex->inspect.stream->id, INSPECT_END, NULL);
		ex->inspect.ended = true;
	}
}

static uint64_t
held_max(const struct exchange *ex)
{
	return ex->decision.held_max < COURIER_HELD_MAX ? ex->decision.held_max : COURIER_HELD_MAX;
}

/* The limit for a body that is held only to be shown, priced or searched. */
static uint64_t
enough(const struct exchange *ex)
{
	uint64_t most = (ex->inspect.wanted & INSPECT_SHAPE) != 0 ? COURIER_ASK_HELD : COURIER_LOOK_HELD;

	return most < held_max(ex) ? most : held_max(ex);
}

/* A body that was held only for this is too large for it: send it as one that is not held. */
static bool
hold_no_more(struct exchange *ex)
{
	OWN(buf_free) struct buf held = {0};

	if (!ex->inspect.begun || ex->rewrite != NULL || (ex->inspect.wanted & INSPECT_RULES) != 0 ||
	    exchange_signs_body(ex) || is_packed(exchange_head(ex)))
		return false;
	drop_stream(ex);
	held = ex->t.body;
	buf_init_secret(&ex->t.body, held.max);
	exchange_scan_as_it_passes(ex, exchange_looks_for_secrets(ex), true);
	ex->inspect.holds = false;
	exchange_set(ex, EXCHANGE_WAITS);
	/* The gate has its credit back for these bytes. */
	if (exchange_stream(ex, &held))
		exchange_resume(ex);
	return true;
}

/* `cloister why` shows which rule would help. */
static void
refuse_to_hold(struct exchange *ex)
{
	bool signs = exchange_signs_body(ex);
	char reason[160], size[NUM_TEXT_MAX];

	snprintf(reason, sizeof(reason), "%s too large %s: over %s%s",
	         !signs && is_packed(exchange_head(ex)) ? COURIER_IS_PACKED : "the body is",
	         ex->rewrite != NULL ? "for a rule to change it or for a hook to judge it" :
	         signs ? "for a secret to sign it or be put into it" : "to be looked into",
	         num_format_size(size, held_max(ex)),
	         signs && held_max(ex) == COURIER_HELD_MAX ? "; " COURIER_NO_RULE_HELPS : "");
	exchange_refuse(ex, "too-large", reason);
}

/* False: EX is refused. */
static bool
keep_piece(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (ex->flow.came > ex->decision.upload_max) {
		exchange_refuse(ex, "too-large", NULL);
		return false;
	}
	if (ex->flow.came > held_max(ex)) {
		refuse_to_hold(ex);
		return false;
	}
	if (len > COURIER_HELD_ALL - ex->courier->held) {
		exchange_refuse(ex, "too-large", "too much of other bodies is held for this one to be: send it "
		                "again later; " COURIER_NO_RULE_HELPS);
		return false;
	}
	buf_put(&ex->t.body, data, len);
	if (buf_failed(&ex->t.body)) {
		exchange_refuse(ex, "too-large", "there is no memory to look into the body");
		return false;
	}
	return true;
}

void
exchange_hold_piece(struct exchange *ex, const unsigned char *data, size_t len)
{
	struct courier *c = ex->courier;

	if (ex->flow.came > enough(ex) && hold_no_more(ex)) {
		exchange_body(ex, data, len);
		return;
	}
	if (!keep_piece(ex, data, len)) {
		exchange_watch(ex, data, len);
		return;
	}
	ex->flow.free += len;
	ex->inspect.held += len;
	c->held += len;
	mux_consumed(ex->stream, len);
	transfer_touch(&ex->t, COURIER_IDLE_S);
	/* With secrets, the body is searched when its placeholders are replaced. */
	if (ex->secrets == NULL && ex->inspect.wanted == 0 && !exchange_scan(ex, data, len))
		return;
	feed_inspect(ex);
}

void
courier_show_policy(struct courier *c, const struct courier_policy *p)
{
	OWN(buf_free) struct buf policy = {0}, piece = {0};
	size_t n;

	/* An inspection that began under another policy uses that policy to its end. */
	if (c->inspect_knows == p->number)
		return;
	buf_init(&policy, POLICY_ENCODED_MAX);
	buf_init(&piece, MUX_FRAME_MAX);
	policy_put(&policy, p->policy);
	while ((n = buf_left(&policy)) > 0) {
		if (n > MUX_FRAME_MAX - 4)
			n = MUX_FRAME_MAX - 4;
		buf_reset(&piece);
		buf_put_u32(&piece, n < buf_left(&policy));
		buf_put(&piece, policy.data + policy.pos, n);
		policy.pos += n;
		mux_send(c->inspect, 0, INSPECT_POLICY, &piece);
	}
	c->inspect_knows = p->number;
}

/* False: EX was refused. */
static bool
ask_inspect(struct exchange *ex)
{
	struct courier *c = ex->courier;
	const struct http_head *head = exchange_head(ex);

	ex->inspect.stream = c->inspect == NULL ? NULL : mux_open(c->inspect, ex);
	if (ex->inspect.stream == NULL) {
		exchange_refuse(ex, "unreadable", "nobody is there to look into the body");
		return false;
	}
	courier_show_policy(c, ex->policy);
	ex->inspect.at = 0;
	ex->inspect.ended = false;
	ex->inspect.policy = ex->policy->number;
	buf_reset(&c->out);
	http_text_put(&c->out, head->method);
	http_text_put(&c->out, head->path);
	http_text_put(&c->out, http_head_get(head, "content-type"));
	http_text_put(&c->out, http_head_get(head, "content-encoding"));
	buf_put_u32(&c->out, ex->inspect.wanted);
	mux_send(c->inspect, ex->inspect.stream->id, INSPECT_BODY, &c->out);
	return true;
}

/* The client waits for this before it sends the body to be inspected. */
static void
send_continue(struct exchange *ex)
{
	struct http_head head = { .status = 100 };

	if (ex->request.expects)
		(void)exchange_respond(ex, &head, false);
	ex->t.status = 0;
}

/* Signing, replacing, searching and pricing need the whole body. */
static bool
needs_all(const struct exchange *ex)
{
	return ex->t.has_body &&
	       (ex->secrets != NULL || ex->inspect.wanted == 0 || ex->budget.sure);
}

enum stage_answer
exchange_begin_hold(struct exchange *ex)
{
	if (!ex->t.has_body || ex->inspect.holds)
		return STAGE_CONTINUE;
	if (ex->request.length != HTTP_LENGTH_UNKNOWN && ex->request.length > held_max(ex)) {
		refuse_to_hold(ex);
		return STAGE_REFUSE;
	}
	ex->t.body.max = COURIER_HELD_MAX + 4 * MUX_WINDOW;
	ex->inspect.holds = true;
	exchange_set(ex, EXCHANGE_HOLDS);
	transfer_touch(&ex->t, COURIER_IDLE_S);
	send_continue(ex);
	return STAGE_CONTINUE;
}

enum stage_answer
exchange_hold_all(struct exchange *ex)
{
	enum stage_answer answer = exchange_begin_hold(ex);

	return answer == STAGE_CONTINUE && !ex->t.came_all && ex->t.has_body ? STAGE_WAIT : answer;
}

/* Find out whether the body is held, and for what.  False: EX is refused. */
static bool
begin(struct exchange *ex)
{
	const struct http_head *head = exchange_head(ex);
	const struct policy_decision *d = &ex->decision;
	/* If the body may contain our placeholders, inspection would report them as stray.  So such
	 * a body is searched when they are replaced. */
	bool ours = !is_packed(head) && (exchange_may_fill_body(ex) || exchange_may_pass_placeholders(ex));
	bool secrets = exchange_looks_for_secrets(ex), shape = exchange_wants_shape(ex);
	bool inspect = d->needs_body || (secrets && is_packed(head)) || shape;
	bool price = exchange_wants_price(ex);
	bool looks = (secrets || price) && ex->t.has_body && !is_packed(head) && !ex->request.is_grpc &&
	             (ex->request.length == HTTP_LENGTH_UNKNOWN || ex->request.length <= enough(ex));

	/* In gRPC, messages of both sides alternate: nothing can be held back. */
	exchange_scan_as_it_passes(ex, !inspect && secrets && !is_packed(head), !ex->request.is_grpc);
	if (!inspect && !exchange_signs_body(ex) && !looks && !ex->inspect.holds)
		return true;
	ex->scan.holds_back = false;
	/* The body decides which rule applies, and whether that rule permits secrets. */
	ex->scan.on_filled = inspect && ours;
	if (inspect)
		ex->inspect.wanted = (ours ? 0u : INSPECT_SECRETS) | (d->needs_body ? INSPECT_RULES : 0u) |
		                     (shape ? INSPECT_SHAPE : 0u);
	if (inspect && !ask_inspect(ex))
		return false;
	if (exchange_begin_hold(ex) == STAGE_REFUSE)
		return false;
	/* Some of it may be here already. */
	feed_inspect(ex);
	return ex->secrets != NULL || inspect || exchange_scan(ex, ex->t.body.data, ex->t.body.len);
}

/* The decision is final, and the rule changes the request: begin again with what it makes of it. */
static void
begin_again(struct exchange *ex)
{
	free(TAKE(ex->inspect.fits));
	ex->inspect.n_fits = 0;
	ex->inspect.wanted = 0;
	ex->inspect.begun = ex->inspect.judged = ex->inspect.ended = false;
	ex->inspect.at = 0;
	exchange_secrets_free(ex);
}

void
exchange_hold_end(struct exchange *ex)
{
	transfer_touch(&ex->t, COURIER_INSPECT_S);
	feed_inspect(ex);
	exchange_resume(ex);
}

void
exchange_drop_inspect(struct exchange *ex)
{
	drop_stream(ex);
	free(TAKE(ex->inspect.fits));
	ex->courier->held -= ex->inspect.held;
	ex->inspect.held = 0;
}

/* ---- the result of the inspection ---- */

/* The inspection is over: it saw the whole body, or the rest could not change the result.  False: EX
 * is refused. */
static bool
judge(struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	char reason[256];
	bool looked;

	if (ex->inspect.wanted & INSPECT_RULES) {
		/* The rules have changed in between, and so has the meaning of the bits. */
		if (ex->inspect.policy != ex->policy->number) {
			exchange_refuse(ex, "unreadable", "the policy changed while the body was looked into");
			return false;
		}
		if (ex->inspect.n_fits * 8 < policy_n_rules(ex->policy->policy)) {
			snprintf(reason, sizeof(reason), "the body cannot be looked into: %s",
			         ex->inspect.what);
			exchange_refuse(ex, "unreadable", reason);
			return false;
		}
		exchange_decide_body(ex, ex->inspect.fits, ex->inspect.n_fits);
		if (!exchange_settle(ex) || !exchange_look_at_head(ex))
			return false;
	}
	looked = d->must_look && !d->may_carry_secrets;
	if (looked && ex->scan.on_filled && CONTROL_ON("secrets")) {
		ex->scan.state = (struct secrets_scan){0};
		ex->scan.on = true;
	}
	if (looked && ex->inspect.result != INSPECT_CLEAN) {
		snprintf(reason, sizeof(reason), ex->inspect.result == INSPECT_SECRET
		         ? "the body carries what looks like a credential (%s)"
		         : "the body cannot be looked into: %s", ex->inspect.what);
		exchange_refuse(ex, ex->inspect.result == INSPECT_SECRET ? "secret" : "unreadable",
		                reason);
		return false;
	}
	return true;
}

enum stage_answer
stage_inspect(struct exchange *ex)
{
	if (!ex->inspect.begun) {
		ex->inspect.begun = true;
		if (!begin(ex))
			return STAGE_REFUSE;
	}
	/* Without a body, rules may still ask about the query. */
	if (!ex->inspect.holds && (ex->t.has_body || ex->inspect.wanted == 0))
		return STAGE_CONTINUE;
	if (ex->inspect.stream != NULL)
		return STAGE_WAIT;
	if (ex->inspect.wanted != 0 && !ex->inspect.judged) {
		ex->inspect.judged = true;
		if (!judge(ex))
			return STAGE_REFUSE;
		if (exchange_is_to_be_rewritten(ex)) {
			begin_again(ex);
			return STAGE_AGAIN;
		}
	}
	if (needs_all(ex) && !ex->t.came_all)
		return STAGE_WAIT;
	exchange_set(ex, EXCHANGE_WAITS);
	return STAGE_CONTINUE;
}

bool
exchange_is_for_tools(const struct exchange *ex)
{
	return ex->kind == EXCHANGE_HTTP && strcmp(ex->host, POLICY_TOOLS_HOST) == 0;
}

void
inspect_late(struct exchange *ex)
{
	struct failure failure;

	if (!ex->t.came_all)
		failure_set(&failure, 504, "unreadable", "request not complete",
		            "the rest of the body did not come within %d s", COURIER_IDLE_S);
	else
		failure_set(&failure, 504, "unreadable", "request not looked into",
		            "the body could not be looked into within %d s", COURIER_INSPECT_S);
	exchange_fail(ex, &failure);
}

static int
take_result(struct exchange *ex, struct buf *body)
{
	const char *what, *pushed, *call, *shape;
	uint32_t n;

	if (buf_get_u32(body, &ex->inspect.result) < 0 || buf_get_str(body, &what) < 0 ||
	    buf_get_str(body, &pushed) < 0 || strlen(pushed) >= sizeof(ex->inspect.pushed) ||
	    buf_get_str(body, &call) < 0 || strlen(call) >= sizeof(ex->inspect.call) || buf_get_str(body, &shape) < 0 || strlen(shape) >= INSPECT_SHAPE_MAX ||
	    buf_get_u32(body, &n) < 0 || buf_left(body) != n ||
	    ex->inspect.result > INSPECT_UNREADABLE || n > POLICY_FITS_MAX)
		return -EBADMSG;
	snprintf(ex->inspect.what, sizeof(ex->inspect.what), "%s", what);
	snprintf(ex->inspect.pushed, sizeof(ex->inspect.pushed), "%s", pushed);
	snprintf(ex->inspect.call, sizeof(ex->inspect.call), "%s", call);
	/* No match is not the same as no inspection: FITS must not be NULL. */
	ex->inspect.fits = calloc(1, (size_t)n + 1);
	if (ex->inspect.fits == NULL)
		return -ENOMEM;
	memcpy(ex->inspect.fits, body->data + body->pos, n);
	ex->inspect.n_fits = n;
	mux_close(TAKE(ex->inspect.stream));
	if (ex->inspect.wanted & INSPECT_SHAPE)
		exchange_keep_shape(ex, shape);
	exchange_resume(ex);
	return 0;
}

/* Whether STREAM, which belongs to an exchange, is for its rewrite. */
static bool
is_for_rewrite(const struct mux_stream *stream)
{
	const struct exchange *ex = stream->arg;

	return ex->rewrite != NULL && ex->rewrite->stream == stream;
}

static int
inspect_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
              struct buf *body)
{
	int r;

	(void)id;
	if (meter_hears(arg, stream, type, body, &r))
		return r;
	switch (type) {
	case INSPECT_RESULT:
		return stream == NULL ? 0 : is_for_rewrite(stream) ? -EBADMSG : take_result(stream->arg, body);
	case INSPECT_REWRITTEN:
		return stream == NULL ? 0 : !is_for_rewrite(stream) ? -EBADMSG :
		       exchange_take_rewritten(stream->arg, body);
	default:
		return -EBADMSG;
	}
}

static int
inspect_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	if (meter_owns(arg, stream) || !is_for_rewrite(stream))
		return -EBADMSG;
	return exchange_take_rewritten_data(stream->arg, data, len);
}

static void
inspect_writable(void *arg, struct mux_stream *stream)
{
	if (meter_writable(arg, stream))
		return;
	if (is_for_rewrite(stream))
		exchange_rewrite_feed(stream->arg);
	else
		feed_inspect(stream->arg);
}

/* Gate, courier and inspect end together. */
static void
inspect_ended(void *arg, int error)
{
	struct courier *c = arg;

	(void)error;
	c->bereft = true;
	loop_quit(c->loop);
}

const struct mux_handler courier_inspect_handler = {
	.frame = inspect_frame, .data = inspect_data, .writable = inspect_writable,
	.ended = inspect_ended,
};
