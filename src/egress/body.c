/* body.c - see body.h. */
#include "egress/body.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "egress/courier.h"

/* ---- sending on ---- */

void
exchange_took(struct exchange *ex, size_t len)
{
	size_t free_bytes = len < ex->flow.free ? len : ex->flow.free;

	ex->t.body.pos += len;
	ex->flow.free -= free_bytes;
	ex->t.sent += len;
	exchange_used(ex, POLICY_BYTES_OUT, len);
	if (len > free_bytes && ex->secrets == NULL)
		exchange_credit(ex, len - free_bytes);
	if (buf_left(&ex->t.body) == 0)
		buf_free(&ex->t.body);
	exchange_pay(ex);
	transfer_touch(&ex->t, ex->state == EXCHANGE_PASSES ? TRANSFER_RAW_IDLE_S : TRANSFER_ANSWER_S);
}

bool
exchange_pass_on(struct exchange *ex, const unsigned char *data, size_t len)
{
	size_t taken = 0;

	if ((ex->state == EXCHANGE_SENT || ex->state == EXCHANGE_PASSES) && buf_left(&ex->t.body) == 0)
		taken = transfer_send(&ex->t, data, len);
	if (ex->state == EXCHANGE_OVER || ex->state == EXCHANGE_DRAINS)
		return false;
	if (taken > 0) {
		ex->t.sent += taken;
		exchange_used(ex, POLICY_BYTES_OUT, taken);
		if (ex->secrets == NULL)
			exchange_credit(ex, taken);
		transfer_touch(&ex->t, ex->state == EXCHANGE_PASSES ? TRANSFER_RAW_IDLE_S : TRANSFER_ANSWER_S);
	}
	if (taken == len)
		return true;
	courier_queue(&ex->t.body, data + taken, len - taken);
	if (ex->state == EXCHANGE_SENT || ex->state == EXCHANGE_PASSES)
		transfer_more(&ex->t);
	return ex->state != EXCHANGE_OVER && ex->state != EXCHANGE_DRAINS;
}

void
exchange_pay(struct exchange *ex)
{
	if (ex->flow.owed == 0 || ex->stream == NULL || buf_left(&ex->t.body) > 0)
		return;
	exchange_credit(ex, ex->flow.owed);
	ex->flow.owed = 0;
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
	size_t n = ex->t.held_back;

	memcpy(tail, ex->scan.tail, n);
	ex->t.held_back = 0;
	if (n > 0)
		(void)exchange_pass_on(ex, tail, n);
	wipe(ex, tail, n);
	wipe(ex, ex->scan.tail, n);
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
	size_t all = ex->t.held_back + len, go = all > SECRETS_TAIL ? all - SECRETS_TAIL : 0;
	size_t of_tail = go < ex->t.held_back ? go : ex->t.held_back, of_data = go - of_tail;

	memcpy(first, ex->scan.tail, of_tail);
	ex->t.held_back -= of_tail;
	memmove(ex->scan.tail, ex->scan.tail + of_tail, ex->t.held_back);
	goes = (of_tail == 0 || exchange_pass_on(ex, first, of_tail)) &&
	       (of_data == 0 || exchange_pass_on(ex, data, of_data));
	wipe(ex, first, of_tail);
	if (!goes)
		return;
	memcpy(ex->scan.tail + ex->t.held_back, data + of_data, len - of_data);
	ex->t.held_back += len - of_data;
	/* Nothing can follow; or the client waits for a response to the part that it has sent. */
	if (ex->flow.came == ex->request.length)
		let_tail_go(ex);
	else if (ex->request.length == HTTP_LENGTH_UNKNOWN)
		loop_set_timer(ex->courier->loop, &ex->scan.timer, COURIER_TAIL_MS);
}

bool
exchange_scan(struct exchange *ex, const unsigned char *data, size_t len)
{
	/* A value that the courier put in is legitimate: the scan sees a space instead. */
	bool ours = exchange_is_filling(ex);
	const char *found = ex->scan.on ? secrets_find(&ex->scan.state, ours ? (const unsigned char *)" " : data,
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
	if (!ex->scan.holds_back)
		return exchange_pass_on(ex, data, len);
	pass_but_tail(ex, data, len);
	return ex->state != EXCHANGE_OVER && ex->state != EXCHANGE_DRAINS;
}

static void
stream(struct exchange *ex, const unsigned char *data, size_t len)
{
	if (ex->flow.came > ex->decision.upload_max)
		exchange_refuse(ex, "too-large", NULL);
	else {
		ex->flow.owed += ex->secrets == NULL ? 0 : len;
		if (exchange_use_body(ex, data, len, stream_piece))
			exchange_pay(ex);
	}
}

void
exchange_scan_as_it_passes(struct exchange *ex, bool scans, bool may_hold_back)
{
	loop_prepare_timer(&ex->scan.timer, tail_is_due, ex);
	ex->scan.on = scans;
	ex->scan.holds_back = scans && may_hold_back;
	ex->scan.state = (struct secrets_scan){0};
}

bool
exchange_stream(struct exchange *ex, const struct buf *held)
{
	return exchange_use_body(ex, held->data, held->len, stream_piece);
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
	if (ex->state != EXCHANGE_DRAINS && ex->state != EXCHANGE_OVER &&
	    !exchange_may_send(ex, ex->flow.came)) {
		exchange_watch(ex, data, len);
		return;
	}
	/* Bytes behind a login wait for its end. */
	switch (ex->wire != NULL && ex->state == EXCHANGE_WAITS ? EXCHANGE_PASSES : ex->state) {
	case EXCHANGE_HOLDS:
		exchange_hold_piece(ex, data, len);
		break;
	case EXCHANGE_NEW:
	case EXCHANGE_WAITS:
	case EXCHANGE_SENT:
		stream(ex, data, len);
		break;
	case EXCHANGE_PASSES:
		ex->flow.owed += ex->secrets == NULL ? 0 : len;
		if (exchange_use_raw(ex, data, len, exchange_pass_on))
			exchange_pay(ex);
		break;
	case EXCHANGE_DRAINS:
		exchange_watch(ex, data, len);
		ex->flow.drained += len;
		if (ex->flow.drained > COURIER_DRAIN_MAX && ex->response.ended)
			exchange_reset(ex, EGRESS_RESET_DONE);
		else
			give_credit(ex);
		break;
	case EXCHANGE_OVER:
		break;
	}
}

void
exchange_body_end(struct exchange *ex)
{
	ex->t.came_all = true;
	switch (ex->state) {
	case EXCHANGE_HOLDS:
		exchange_hold_end(ex);
		break;
	case EXCHANGE_NEW:
	case EXCHANGE_WAITS:
		if (ex->wire == NULL && exchange_use_body_end(ex, stream_piece))
			let_tail_go(ex);
		break;
	case EXCHANGE_SENT:
	case EXCHANGE_PASSES:
		if (ex->state == EXCHANGE_SENT && !exchange_use_body_end(ex, stream_piece))
			break;
		loop_cancel_timer(ex->courier->loop, &ex->scan.timer);
		let_tail_go(ex);
		transfer_more(&ex->t);
		break;
	case EXCHANGE_DRAINS:
		exchange_watch_end(ex);
		if (ex->response.ended)
			exchange_over(ex);
		break;
	case EXCHANGE_OVER:
		break;
	}
}

void
exchange_drop_body(struct exchange *ex)
{
	struct courier *c = ex->courier;

	loop_cancel_timer(c->loop, &ex->scan.timer);
	exchange_drop_inspect(ex);
	ex->t.held_back = 0;
	ex->flow.free = 0;
	buf_free(&ex->t.body);
}

void
exchange_drain(struct exchange *ex)
{
	exchange_detach(ex);
	exchange_drop_body(ex);
	ex->flow.owed = ex->budget.owed = 0;
	exchange_set(ex, EXCHANGE_DRAINS);
	transfer_touch(&ex->t, COURIER_IDLE_S);
	if (ex->t.has_body && !ex->t.came_all)
		give_credit(ex);
}
