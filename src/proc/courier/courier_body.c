/* courier_body.c - request bodies: scans them for secrets as they pass, or holds them until
 * cloister-inspect has inspected them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "base/num.h"
#include "base/own.h"
#include "ipc/courier_channel.h"
#include "ipc/inspect_channel.h"
#include "proc/courier/courier_upstream.h"

/* ---- sending on ---- */

bool
exchange_pass_on(struct exchange *ex, const unsigned char *data, size_t len)
{
	size_t taken = 0;

	if ((ex->step == STEP_SENT || ex->step == STEP_RAW) && buf_left(&ex->body) == 0)
		taken = ex->upstream->kind->send(ex->upstream, ex, data, len);
	if (ex->step == STEP_OVER || ex->step == STEP_DRAIN)
		return false;
	if (taken > 0) {
		ex->sent += taken;
		exchange_used(ex, POLICY_BYTES_OUT, taken);
		if (ex->secrets == NULL)
			exchange_credit(ex, taken);
		exchange_touch(ex, ex->step == STEP_RAW ? COURIER_RAW_IDLE_S : COURIER_ANSWER_S);
	}
	if (taken == len)
		return true;
	courier_queue(&ex->body, data + taken, len - taken);
	if (ex->step == STEP_SENT || ex->step == STEP_RAW)
		ex->upstream->kind->more(ex->upstream, ex);
	return ex->step != STEP_OVER && ex->step != STEP_DRAIN;
}

void
exchange_pay(struct exchange *ex)
{
	if (ex->owed == 0 || ex->stream == NULL || buf_left(&ex->body) > 0)
		return;
	exchange_credit(ex, ex->owed);
	ex->owed = 0;
}

/* The data may contain real values. */
static void
wipe(const struct exchange *ex, void *data, size_t len)
{
	if (ex->secrets != NULL)
		explicit_bzero(data, len);
}

static void
let_tail_go(struct exchange *ex)
{
	unsigned char tail[SECRETS_TAIL];
	size_t n = ex->n_tail;

	memcpy(tail, ex->tail, n);
	ex->n_tail = 0;
	if (n > 0)
		(void)exchange_pass_on(ex, tail, n);
	wipe(ex, tail, n);
	wipe(ex, ex->tail, n);
}

static void
tail_is_due(void *arg)
{
	let_tail_go(arg);
}

/* A secret that spans two pieces must not be half sent when it is found. */
static void
pass_but_tail(struct exchange *ex, const unsigned char *data, size_t len)
{
	unsigned char first[SECRETS_TAIL];
	bool goes;
	size_t all = ex->n_tail + len, go = all > SECRETS_TAIL ? all - SECRETS_TAIL : 0;
	size_t of_tail = go < ex->n_tail ? go : ex->n_tail, of_data = go - of_tail;

	memcpy(first, ex->tail, of_tail);
	ex->n_tail -= of_tail;
	memmove(ex->tail, ex->tail + of_tail, ex->n_tail);
	goes = (of_tail == 0 || exchange_pass_on(ex, first, of_tail)) &&
	       (of_data == 0 || exchange_pass_on(ex, data, of_data));
	wipe(ex, first, of_tail);
	if (!goes)
		return;
	memcpy(ex->tail + ex->n_tail, data + of_data, len - of_data);
	ex->n_tail += len - of_data;
	/* Nothing can follow; or the client waits for a response to the part that it has sent. */
	if (ex->came == ex->length)
		let_tail_go(ex);
	else if (ex->length == HTTP_LENGTH_UNKNOWN)
		loop_set_timer(ex->courier->loop, &ex->tail_timer, COURIER_TAIL_MS);
}

bool
exchange_scan(struct exchange *ex, const unsigned char *data, size_t len)
{
	/* A value that the courier put in is legitimate: the scan sees a space instead. */
	bool ours = exchange_is_filling(ex);
	const char *found = ex->scans ? secrets_find(&ex->scan, ours ? (const unsigned char *)" " : data,
	                                             ours ? 1 : len) : NULL;
	char reason[160];

	if (found == NULL)
		return true;
	snprintf(reason, sizeof(reason), "the body carries what looks like a credential (%s)", found);
	exchange_refuse(ex, "secret", reason);
	return false;
}

static bool
stream_piece(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (!exchange_scan(ex, data, len))
		return false;
	if (!ex->holds_back)
		return exchange_pass_on(ex, data, len);
	pass_but_tail(ex, data, len);
	return ex->step != STEP_OVER && ex->step != STEP_DRAIN;
}

static void
stream(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (ex->came > ex->decision.upload_max)
		exchange_refuse(ex, "too-large", NULL);
	else {
		ex->owed += ex->secrets == NULL ? 0 : len;
		if (exchange_use_body(ex, data, len, stream_piece))
			exchange_pay(ex);
	}
}

/* ---- holding ---- */

static bool
looks_for_secrets(const struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;

	return d->must_look && !d->may_carry_secrets && ex->has_body && CONTROL_ON("secrets");
}

/* The chunks of S3 are plain bytes with lines in between: nothing is compressed. */
static bool
is_packed(const struct http_head *head)
{
	return http_head_is_packed(head) &&
	       !http_text_is_nocase(http_head_get(head, "content-encoding"), "aws-chunked");
}

static void
drop_inspect(struct exchange *ex)
{
	if (ex->inspect == NULL)
		return;
	mux_send(ex->courier->inspect, ex->inspect->id, INSPECT_DROP, NULL);
	mux_close(TAKE(ex->inspect));
}

static void
feed_inspect(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (ex->inspect == NULL)
		return;
	if (ex->inspect_at < ex->body.len)
		ex->inspect_at += mux_send_data(ex->inspect, ex->body.data + ex->inspect_at,
		                                ex->body.len - ex->inspect_at);
	if (ex->came_all && ex->inspect_at == ex->body.len && !ex->inspect_ended) {
		mux_send(c->inspect, ex->inspect->id, INSPECT_END, NULL);
		ex->inspect_ended = true;
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
	uint64_t most = (ex->inspect_wanted & INSPECT_SHAPE) != 0 ? COURIER_ASK_HELD : COURIER_LOOK_HELD;

	return most < held_max(ex) ? most : held_max(ex);
}

/* A body that was held only for this is too large for it: send it as one that is not held. */
static bool
hold_no_more(struct exchange *ex)
{
	OWN(buf_free) struct buf held = {0};

	if ((ex->inspect_wanted & INSPECT_RULES) != 0 || exchange_signs_body(ex) ||
	    is_packed(exchange_head(ex)))
		return false;
	drop_inspect(ex);
	held = ex->body;
	buf_init_secret(&ex->body, held.max);
	ex->scans = looks_for_secrets(ex);
	ex->scan = (struct secrets_scan){0};
	ex->holds_back = ex->scans;
	ex->step = STEP_WAIT;
	/* The gate has its credit back for these bytes. */
	if (!exchange_use_body(ex, held.data, held.len, stream_piece))
		return true;
	if (exchange_may_pass(ex, pool_send))
		pool_send(ex);
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
	         signs ? "for a secret to sign it or be put into it" : "to be looked into",
	         num_format_size(size, held_max(ex)),
	         signs && held_max(ex) == COURIER_HELD_MAX ? "; " COURIER_NO_RULE_HELPS : "");
	exchange_refuse(ex, "too-large", reason);
}

static void
hold(struct exchange *ex, const unsigned char *data, size_t len)
{
	struct courier *c = ex->courier;

	if (ex->came > enough(ex) && hold_no_more(ex)) {
		exchange_body(ex, data, len);
		return;
	}
	if (ex->came > ex->decision.upload_max) {
		exchange_refuse(ex, "too-large", NULL);
		return;
	}
	if (ex->came > held_max(ex)) {
		refuse_to_hold(ex);
		return;
	}
	if (len > COURIER_HELD_ALL - c->held) {
		exchange_refuse(ex, "too-large", "too much of other bodies is held for this one to be: send it "
		                "again later; " COURIER_NO_RULE_HELPS);
		return;
	}
	buf_put(&ex->body, data, len);
	if (buf_failed(&ex->body)) {
		exchange_refuse(ex, "too-large", "there is no memory to look into the body");
		return;
	}
	ex->body_free += len;
	ex->n_held += len;
	c->held += len;
	mux_consumed(ex->stream, len);
	exchange_touch(ex, COURIER_IDLE_S);
	/* With secrets, the body is searched when its placeholders are replaced. */
	if (ex->secrets == NULL && ex->inspect_wanted == 0 && !exchange_scan(ex, data, len))
		return;
	feed_inspect(ex);
}

static void
send_policy(struct courier *c, const struct courier_policy *p)
{
	OWN(buf_free) struct buf policy, piece;
	size_t n;

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

static void
put_text(struct buf *b, struct http_text text)
{
	buf_put_u32(b, (uint32_t)text.len);
	buf_put(b, text.at, text.len);
	buf_put(b, "", 1);
}

/* False: EX was refused. */
static bool
ask_inspect(struct exchange *ex)
{
	struct courier *c = ex->courier;
	const struct http_head *head = exchange_head(ex);

	ex->inspect = c->inspect == NULL ? NULL : mux_open(c->inspect, ex);
	if (ex->inspect == NULL) {
		exchange_refuse(ex, "unreadable", "nobody is there to look into the body");
		return false;
	}
	/* An inspection that began under another policy uses that policy to its end. */
	if (c->inspect_knows != ex->policy->number)
		send_policy(c, ex->policy);
	ex->inspect_at = 0;
	ex->inspect_ended = false;
	ex->inspect_policy = ex->policy->number;
	buf_reset(&c->out);
	put_text(&c->out, head->method);
	put_text(&c->out, head->path);
	put_text(&c->out, http_head_get(head, "content-type"));
	put_text(&c->out, http_head_get(head, "content-encoding"));
	buf_put_u32(&c->out, ex->inspect_wanted);
	mux_send(c->inspect, ex->inspect->id, INSPECT_BODY, &c->out);
	return true;
}

/* The client waits for this before it sends the body to be inspected. */
static void
send_continue(struct exchange *ex)
{
	struct http_head head = { .status = 100 };

	if (ex->expects)
		(void)exchange_respond(ex, &head, false);
	ex->status = 0;
}

static void send_approved(struct exchange *ex);

/* Signing, replacing, searching and pricing need the whole body. */
static void
send_held(struct exchange *ex)
{
	if ((ex->secrets != NULL || ex->inspect_wanted == 0 || ex->budget.sure) && ex->has_body &&
	    !ex->came_all)
		return;
	if (exchange_may_pass(ex, send_approved) && exchange_use_held(ex))
		pool_send(ex);
}

static void
send_approved(struct exchange *ex)
{
	ex->step = STEP_HOLD;
	send_held(ex);
}

bool
exchange_prepare_body(struct exchange *ex, const struct http_head *head)
{
	const struct policy_decision *d = &ex->decision;
	/* If the body may contain our placeholders, inspection would report them as stray.  So such
	 * a body is searched when they are replaced. */
	bool ours = !is_packed(head) && (exchange_may_fill_body(ex) || exchange_may_pass_placeholders(ex));
	bool secrets = looks_for_secrets(ex), shape = exchange_wants_shape(ex);
	bool inspect = d->needs_body || (secrets && is_packed(head)) || shape;
	bool price = exchange_wants_price(ex);
	bool looks = (secrets || price) && ex->has_body && !is_packed(head) && !ex->is_grpc &&
	             (ex->length == HTTP_LENGTH_UNKNOWN || ex->length <= enough(ex));

	ex->tail_timer = (struct loop_timer){ .due = tail_is_due, .arg = ex };
	ex->scans = !inspect && secrets && !is_packed(head);
	if (ex->scans)
		ex->scan = (struct secrets_scan){0};
	if (!inspect && !exchange_signs_body(ex) && !looks) {
		/* In gRPC, messages of both sides alternate: nothing can be held back. */
		ex->holds_back = ex->scans && !ex->is_grpc;
		return true;
	}
	if (ex->length != HTTP_LENGTH_UNKNOWN && ex->length > held_max(ex)) {
		refuse_to_hold(ex);
		return false;
	}
	/* The body decides which rule applies, and whether that rule permits secrets. */
	ex->scans_filled = inspect && ours;
	if (inspect)
		ex->inspect_wanted = (ours ? 0u : INSPECT_SECRETS) | (d->needs_body ? INSPECT_RULES : 0u) |
		                     (shape ? INSPECT_SHAPE : 0u);
	ex->body.max = COURIER_HELD_MAX + 4 * MUX_WINDOW;
	ex->step = STEP_HOLD;
	exchange_touch(ex, COURIER_IDLE_S);
	if (inspect && !ask_inspect(ex))
		return false;
	send_continue(ex);
	if (!ex->came_all && ex->has_body)
		return false;
	if (inspect)
		feed_inspect(ex);
	else
		send_held(ex);
	return false;
}

/* ---- bytes from the gate ---- */

/* For all bytes that have come, wherever they are now. */
static void
give_credit(struct exchange *ex)
{
	mux_consumed(ex->stream, MUX_WINDOW - ex->stream->may_receive - ex->stream->unreturned);
}

void
exchange_body(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (ex->step != STEP_DRAIN && ex->step != STEP_OVER &&
	    !exchange_may_send(ex, ex->came))
		return;
	/* Bytes behind a login wait for its end. */
	switch (ex->wire != NULL && ex->step == STEP_WAIT ? STEP_RAW : ex->step) {
	case STEP_HOLD:
		hold(ex, data, len);
		break;
	case STEP_WAIT:
	case STEP_SENT:
		stream(ex, data, len);
		break;
	case STEP_RAW:
		ex->owed += ex->secrets == NULL ? 0 : len;
		if (exchange_use_raw(ex, data, len, exchange_pass_on))
			exchange_pay(ex);
		break;
	case STEP_DRAIN:
		exchange_watch(ex, data, len);
		ex->drained += len;
		if (ex->drained > COURIER_DRAIN_MAX && ex->ended)
			exchange_reset(ex, EGRESS_RESET_DONE);
		else
			give_credit(ex);
		break;
	case STEP_OVER:
		break;
	}
}

void
exchange_body_end(struct exchange *ex)
{
	ex->came_all = true;
	switch (ex->step) {
	case STEP_HOLD:
		exchange_touch(ex, COURIER_INSPECT_S);
		feed_inspect(ex);
		if (ex->inspect == NULL)
			send_held(ex);
		break;
	case STEP_WAIT:
		if (ex->wire == NULL && exchange_use_body_end(ex, stream_piece))
			let_tail_go(ex);
		break;
	case STEP_SENT:
	case STEP_RAW:
		if (ex->step == STEP_SENT && !exchange_use_body_end(ex, stream_piece))
			break;
		loop_cancel_timer(ex->courier->loop, &ex->tail_timer);
		let_tail_go(ex);
		if (ex->upstream != NULL && ex->upstream->step == UP_READY)
			ex->upstream->kind->more(ex->upstream, ex);
		break;
	case STEP_DRAIN:
		exchange_watch_end(ex);
		if (ex->ended)
			exchange_over(ex);
		break;
	case STEP_OVER:
		break;
	}
}

void
exchange_drop_body(struct exchange *ex)
{
	struct courier *c = ex->courier;

	loop_cancel_timer(c->loop, &ex->tail_timer);
	drop_inspect(ex);
	ex->n_tail = 0;
	ex->body_free = 0;
	buf_free(&ex->body);
	free(TAKE(ex->fits));
	c->held -= ex->n_held;
	ex->n_held = 0;
}

void
exchange_drain(struct exchange *ex)
{
	exchange_detach(ex);
	exchange_drop_body(ex);
	ex->owed = ex->budget.owed = 0;
	ex->step = STEP_DRAIN;
	exchange_touch(ex, COURIER_IDLE_S);
	if (ex->has_body && !ex->came_all)
		give_credit(ex);
}

/* ---- the result of the inspection ---- */

/* The inspection is over: it saw the whole body, or the rest could not change the result. */
static void
judge(struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	char reason[256];
	bool looked;

	if (ex->inspect_wanted & INSPECT_RULES) {
		/* The rules have changed in between, and so has the meaning of the bits. */
		if (ex->inspect_policy != ex->policy->number) {
			exchange_refuse(ex, "unreadable", "the policy changed while the body was looked into");
			return;
		}
		if (ex->n_fits * 8 < policy_n_rules(ex->policy->policy)) {
			snprintf(reason, sizeof(reason), "the body cannot be looked into: %s",
			         ex->inspect_what);
			exchange_refuse(ex, "unreadable", reason);
			return;
		}
		exchange_decide_body(ex, ex->fits, ex->n_fits);
		if (!exchange_settle(ex) || !exchange_look_at_head(ex))
			return;
	}
	looked = d->must_look && !d->may_carry_secrets;
	if (looked && ex->scans_filled && CONTROL_ON("secrets")) {
		ex->scan = (struct secrets_scan){0};
		ex->scans = true;
	}
	if (looked && ex->inspect_result != INSPECT_CLEAN) {
		snprintf(reason, sizeof(reason), ex->inspect_result == INSPECT_SECRET
		         ? "the body carries what looks like a credential (%s)"
		         : "the body cannot be looked into: %s", ex->inspect_what);
		exchange_refuse(ex, ex->inspect_result == INSPECT_SECRET ? "secret" : "unreadable",
		                reason);
		return;
	}
	send_held(ex);
}

static int
take_result(struct exchange *ex, struct buf *body)
{
	const char *what, *pushed, *shape;
	uint32_t n;

	if (buf_get_u32(body, &ex->inspect_result) < 0 || buf_get_str(body, &what) < 0 ||
	    buf_get_str(body, &pushed) < 0 || strlen(pushed) >= sizeof(ex->pushed) ||
	    buf_get_str(body, &shape) < 0 || strlen(shape) >= INSPECT_SHAPE_MAX ||
	    buf_get_u32(body, &n) < 0 || buf_left(body) != n ||
	    ex->inspect_result > INSPECT_UNREADABLE || n > POLICY_FITS_MAX)
		return -EBADMSG;
	snprintf(ex->inspect_what, sizeof(ex->inspect_what), "%s", what);
	snprintf(ex->pushed, sizeof(ex->pushed), "%s", pushed);
	/* No match is not the same as no inspection: FITS must not be NULL. */
	ex->fits = calloc(1, (size_t)n + 1);
	if (ex->fits == NULL)
		return -ENOMEM;
	memcpy(ex->fits, body->data + body->pos, n);
	ex->n_fits = n;
	mux_close(TAKE(ex->inspect));
	if (ex->inspect_wanted & INSPECT_SHAPE)
		exchange_keep_shape(ex, shape);
	judge(ex);
	return 0;
}

static int
inspect_frame(void *arg, uint32_t id, struct mux_stream *stream, uint32_t type,
              struct buf *body)
{
	int r;

	(void)id;
	if (meter_hears(arg, stream, type, body, &r))
		return r;
	if (type != INSPECT_RESULT)
		return -EBADMSG;
	return stream == NULL ? 0 : take_result(stream->arg, body);
}

static int
inspect_data(void *arg, struct mux_stream *stream, const unsigned char *data, size_t len)
{
	(void)arg;
	(void)stream;
	(void)data;
	(void)len;
	return -EBADMSG;
}

static void
inspect_writable(void *arg, struct mux_stream *stream)
{
	if (!meter_writable(arg, stream))
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
