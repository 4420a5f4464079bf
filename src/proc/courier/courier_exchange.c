/* courier_exchange.c - the life of an exchange, and its messages to the gate. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/courier/courier_upstream.h"

/* ---- beginning and end ---- */

void
exchange_free(struct exchange *ex)
{
	exchange_secrets_free(ex);
	exchange_wire_free(ex);
	exchange_ssh_free(ex);
	exchange_ask_free(ex);
	buf_free(&ex->frame);
	buf_free(&ex->body);
	buf_free(&ex->trailers);
	buf_free(&ex->pending);
	buf_free(&ex->end);
	free(ex);
}

struct exchange *
exchange_new(struct courier *c, uint32_t id, enum exchange_kind kind)
{
	struct exchange *ex = c->spare;
	struct buf frame = {0};

	if (ex != NULL) {
		c->spare = ex->next;
		c->n_spare--;
		frame = ex->frame;
	} else {
		ex = malloc(sizeof(*ex));
		if (ex == NULL)
			return NULL;
		buf_init(&frame, MUX_FRAME_MAX);
	}
	memset(ex, 0, offsetof(struct exchange, host));
	ex->host[0] = ex->note[0] = ex->pushed[0] = '\0';
	ex->courier = c;
	ex->kind = kind;
	ex->frame = frame;
	ex->decision.rule = -1;
	/* There is nothing to record until its kind is known. */
	ex->recorded = true;
	ex->stream = mux_open_as(c->gate, id, ex);
	if (ex->stream == NULL) {
		exchange_free(ex);
		return NULL;
	}
	buf_reset(&ex->frame);
	buf_init_secret(&ex->body, 4 * MUX_WINDOW);
	buf_init(&ex->trailers, MUX_FRAME_MAX);
	buf_init(&ex->pending, COURIER_PENDING_MAX);
	buf_init(&ex->end, MUX_FRAME_MAX);
	ex->policy = courier_policy_use(c->policy);
	ex->began_ms = loop_now_ms();
	ex->next = c->exchanges;
	ex->at = &c->exchanges;
	if (c->exchanges != NULL)
		c->exchanges->at = &ex->next;
	c->exchanges = ex;
	c->n_exchanges++;
	courier_wake(c);
	return ex;
}

void
exchange_recycle(struct exchange *ex)
{
	struct courier *c = ex->courier;

	/* Not sooner: a search may still have been using it. */
	exchange_secrets_free(ex);
	exchange_wire_free(ex);
	exchange_ssh_free(ex);
	exchange_ask_free(ex);
	if (c->n_spare >= COURIER_SPARE_MAX) {
		exchange_free(ex);
		return;
	}
	buf_free(&ex->body);
	buf_free(&ex->trailers);
	buf_free(&ex->pending);
	buf_free(&ex->end);
	if (ex->frame.cap > COURIER_KEPT_FRAME)
		buf_free(&ex->frame);
	ex->next = c->spare;
	c->spare = ex;
	c->n_spare++;
}

/* Whether the gate takes no more for now. */
static bool
exchange_is_full(const struct exchange *ex)
{
	return buf_left(&ex->pending) > 0 || ex->stream->may_send == 0;
}

bool
exchange_give_way(struct exchange *ex)
{
	struct courier_failure failure;
	/* The agent is not to blame if the server takes nothing, or if the body has to wait for the
	 * server. */
	bool agents_turn = ex->step == STEP_WAIT ? buf_left(&ex->body) < MUX_WINDOW / 2 :
	                                           buf_left(&ex->body) == 0;

	if (ex->kind != EXCHANGE_HTTP || (ex->step != STEP_WAIT && ex->step != STEP_SENT) ||
	    ex->came_all || ex->is_upgrade || ex->answered || (ex->expects && ex->came == 0) ||
	    !agents_turn || ex->courier->now_s - ex->heard_s < COURIER_PRESSED_S ||
	    !pool_is_pressed(ex))
		return false;
	courier_failure_set(&failure, 504, "unreachable", "request not complete",
	                    "the rest of the body did not come within %d s, and others waited",
	                    COURIER_PRESSED_S);
	exchange_fail(ex, &failure);
	return true;
}

void
exchange_late(struct exchange *ex)
{
	struct courier_failure failure;

	switch (ex->step) {
	case STEP_HOLD:
		if (!ex->came_all)
			courier_failure_set(&failure, 504, "unreadable", "request not complete",
			                    "the rest of the body did not come within %d s", COURIER_IDLE_S);
		else
			courier_failure_set(&failure, 504, "unreadable", "request not looked into",
			                    "the body could not be looked into within %d s",
			                    COURIER_INSPECT_S);
		break;
	case STEP_WAIT:
		if (exchange_refuse_waiting(ex))
			return;
		if (ex->awaits_at != NULL)
			courier_failure_set(&failure, 504, "audit", "request not recorded",
			                    "the record of the request was not on the disk in time");
		else if (exchange_is_asked_for(ex))
			courier_failure_set(&failure, 403, "ask", "refused by cloister",
			                    "nobody answered whether this may be done");
		else if (ex->wire != NULL && ex->upstream != NULL && ex->upstream->step == UP_READY)
			courier_failure_set(&failure, 504, "login", "login failed",
			                    "the server did not finish the login within %d s", WIRE_LOGIN_S);
		else
			courier_failure_set(&failure, 504, "unreachable", "upstream unreachable",
			                    "no connection could be had within %d s", COURIER_QUEUE_S);
		break;
	case STEP_DRAIN:
		exchange_reset(ex, ex->ended ? EGRESS_RESET_DONE : EGRESS_RESET_TIMEOUT);
		return;
	case STEP_RAW:
		courier_failure_set(&failure, 504, "unreachable", "upstream silent",
		                    "neither side said anything for %d s", COURIER_RAW_IDLE_S);
		break;
	default:
		courier_failure_set(&failure, 504, "unreachable", "upstream silent",
		                    exchange_is_full(ex) ? "the client took nothing for %d s" :
		                    ex->answered ? "the server sent nothing more for %d s" :
		                                   "the server did not answer within %d s",
		                    COURIER_ANSWER_S);
	}
	exchange_fail(ex, &failure);
}

void
exchange_touch(struct exchange *ex, uint64_t seconds)
{
	ex->deadline_s = ex->courier->now_s + seconds + 1;
}

void
exchange_detach(struct exchange *ex)
{
	struct upstream *up = TAKE(ex->upstream);

	exchange_stop_awaiting(ex);
	exchange_stop_settling(ex);
	exchange_stop_asking(ex);
	pool_forget(ex);
	if (up == NULL)
		return;
	if (up->step == UP_READY)
		up->kind->cancel(up, ex);
	else
		upstream_drop(up, true);
}

void
exchange_over(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (ex->step == STEP_OVER)
		return;
	ex->step = STEP_OVER;
	exchange_meter_end(ex, false);
	exchange_detach(ex);
	exchange_drop_body(ex);
	if (c->head_of == ex)
		c->head_of = NULL;
	mux_close(TAKE(ex->stream));
	*ex->at = ex->next;
	if (ex->next != NULL)
		ex->next->at = ex->at;
	c->n_exchanges--;
	ex->next = NULL;
	*c->over_end = ex;
	c->over_end = &ex->next;
	courier_at_round_end(c);
}

void
exchange_reset(struct exchange *ex, enum egress_reset why)
{
	unsigned char code[4] = { (unsigned char)why };
	struct buf body;

	if (ex->step == STEP_OVER)
		return;
	buf_init_borrowed(&body, code, sizeof(code));
	mux_send(ex->courier->gate, ex->stream->id, EGRESS_RESET, &body);
	exchange_over(ex);
}

struct http_head *
exchange_head(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct buf encoded;

	if (c->head_of != ex) {
		buf_init_borrowed(&encoded, ex->frame.data, ex->frame.len);
		encoded.pos = ex->head_at;
		/* It was decoded before. */
		if (!http_head_decode_checked(&encoded, &c->head))
			abort();
		c->head_of = ex;
	}
	return &c->head;
}

/* ---- messages to the gate ---- */

bool
exchange_respond(struct exchange *ex, struct http_head *head, bool has_body)
{
	struct courier_failure failure;
	const char *why;

	exchange_meter_head(ex, head, has_body);
	/* Servers announce HTTP/3 here, which a cell cannot use. */
	http_head_drop(head, "alt-svc");
	if (exchange_is_scrubbed(ex) && !exchange_scrub_head(ex, head, has_body, &why)) {
		courier_failure_set(&failure, 502, "protocol", "upstream answers nonsense",
		                    "the server's answer cannot be passed on: %s", why);
		exchange_detach(ex);
		exchange_fail(ex, &failure);
		return false;
	}
	if (!exchange_is_held(ex))
		return exchange_send_head(ex, head, has_body);
	ex->status = head->status;
	ex->answered = true;
	exchange_touch(ex, COURIER_IDLE_S);
	return true;
}

bool
exchange_send_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	struct courier *c = ex->courier;
	struct courier_failure failure;
	struct err err = {0};

	buf_reset(&c->out);
	buf_put_u32(&c->out, has_body ? EGRESS_HAS_BODY : 0);
	if (head->status < 200 && ex->n_interim++ == COURIER_INTERIM_MAX)
		err_set(&err, EBADMSG, "there are too many before the last one");
	else if (http_head_check(head, &err) == 0)
		http_head_encode(&c->out, head);
	if (err.code != 0 || buf_failed(&c->out) || c->out.len > MUX_FRAME_MAX) {
		courier_failure_set(&failure, 502, "protocol", "upstream answers nonsense",
		                    "the head of the server's answer cannot be passed on: %s",
		                    err.code != 0 ? err.text : "it is too large");
		exchange_detach(ex);
		exchange_fail(ex, &failure);
		return false;
	}
	mux_send(c->gate, ex->stream->id, EGRESS_RESPONSE, &c->out);
	ex->status = head->status;
	exchange_touch(ex, COURIER_IDLE_S);
	if (head->status >= 200 || head->status == 101) {
		ex->answered = true;
		ex->bodiless = !has_body && head->status != 101;
		if (ex->is_upgrade && head->status != 101)
			ex->came_all = true;
		ex->first_ms = loop_now_ms();
	}
	return true;
}

void
exchange_routed(struct exchange *ex, enum egress_routed routed, const char *reason,
                const char *hint)
{
	struct courier *c = ex->courier;

	buf_reset(&c->out);
	buf_put_u32(&c->out, routed);
	buf_put_str(&c->out, reason);
	buf_put_str(&c->out, hint);
	mux_send(c->gate, ex->stream->id, EGRESS_ROUTED, &c->out);
	if (routed == EGRESS_TUNNEL || routed == EGRESS_POSTGRES || routed == EGRESS_REDIS)
		ex->answered = true;
}

void
exchange_came_in(struct exchange *ex, const void *data, size_t len)
{
	exchange_meter_feed(ex, data, len);
	exchange_used(ex, POLICY_BYTES_IN, len);
}

void
exchange_give(struct exchange *ex, const void *data, size_t len)
{
	if (ex->upstream != NULL)
		exchange_came_in(ex, data, len);
	if (!exchange_is_scrubbed(ex))
		exchange_give_plain(ex, data, len);
	else if (ex->step != STEP_RAW)
		(void)exchange_scrub(ex, data, len);
	else if (!exchange_scrub_raw(ex, data, len))
		exchange_reset(ex, EGRESS_RESET_UPSTREAM);
}

void
exchange_give_plain(struct exchange *ex, const void *data, size_t len)
{
	size_t taken = 0;

	ex->received += len;
	if (buf_left(&ex->pending) == 0)
		taken = mux_send_data(ex->stream, data, len);
	if (taken < len)
		courier_queue(&ex->pending, (const char *)data + taken, len - taken);
	exchange_touch(ex, ex->step == STEP_RAW ? COURIER_RAW_IDLE_S : COURIER_IDLE_S);
}

unsigned char *
exchange_reserve(struct exchange *ex, size_t *ret_room)
{
	unsigned char *at;

	if (buf_left(&ex->pending) > 0 || exchange_is_scrubbed(ex) || courier_is_slowed(ex->courier))
		return NULL;
	at = mux_reserve(ex->stream, ret_room);
	ex->courier->reserved = at;
	return at;
}

void
exchange_commit(struct exchange *ex, size_t len)
{
	/* Before the commit: committed bytes may be sent and gone. */
	if (len > 0)
		exchange_came_in(ex, ex->courier->reserved, len);
	mux_commit(ex->stream, len);
	if (len == 0)
		return;
	ex->received += len;
	exchange_touch(ex, ex->step == STEP_RAW ? COURIER_RAW_IDLE_S : COURIER_IDLE_S);
}

/* The response has ended, or ends when the gate has taken it. */
static void
exchange_try_end(struct exchange *ex, const struct buf *end)
{
	struct courier *c = ex->courier;

	if (!ex->ending || buf_left(&ex->pending) > 0)
		return;
	if (!ex->ended && !ex->bodiless)
		mux_send(c->gate, ex->stream->id, EGRESS_END, end);
	ex->ended = true;
	if (ex->upstream != NULL)       /* raw, and the other direction is still open */
		return;
	if (ex->came_all)
		exchange_over(ex);
	else
		exchange_record(ex);
}

/* The rest of the request has no receiver, whether or not the gate has taken the response. */
static void
drain_request(struct exchange *ex)
{
	if (ex->upstream == NULL && !ex->came_all && ex->step != STEP_DRAIN)
		exchange_drain(ex);
}

static void
end_with(struct exchange *ex, const struct http_field *trailers, size_t n)
{
	struct courier *c = ex->courier;
	struct buf *end = buf_left(&ex->pending) > 0 ? &ex->end : &c->out;

	if (!ex->ending && !ex->bodiless) {
		/* Invalid trailers of a hostile server are left out. */
		if (n > 0 && http_trailers_check(trailers, n, NULL) < 0)
			n = 0;
		buf_reset(end);
		http_fields_encode(end, trailers, n);
	}
	ex->ending = true;
	exchange_meter_end(ex, true);
	drain_request(ex);
	exchange_try_end(ex, end);
}

/* TRAILERS are changed. */
static void
end_scrubbed(struct exchange *ex, struct http_field *trailers, size_t n)
{
	switch (exchange_scrub_end(ex, trailers, n, &n)) {
	case SCRUB_ENDED:
		end_with(ex, trailers, n);
		break;
	case SCRUB_WAITS:
		drain_request(ex);
		break;
	case SCRUB_FAILED:
		break;
	}
}

/* A separate function, because the array is cleared with each call. */
__attribute__((noinline)) static void
end_with_trailers(struct exchange *ex, const struct http_field *trailers, size_t n)
{
	struct http_field scrubbed[HTTP_FIELDS_MAX];

	memcpy(scrubbed, trailers, n * sizeof(scrubbed[0]));
	end_scrubbed(ex, scrubbed, n);
}

void
exchange_end(struct exchange *ex, const struct http_field *trailers, size_t n)
{
	if (!ex->ending && exchange_is_scrubbed(ex) && n > 0)
		end_with_trailers(ex, trailers, n);
	else if (!ex->ending && exchange_is_scrubbed(ex))
		end_scrubbed(ex, NULL, 0);
	else
		end_with(ex, trailers, n);
}

void
exchange_took(struct exchange *ex, size_t len)
{
	size_t free_bytes = len < ex->body_free ? len : ex->body_free;

	ex->body.pos += len;
	ex->body_free -= free_bytes;
	ex->sent += len;
	exchange_used(ex, POLICY_BYTES_OUT, len);
	if (len > free_bytes && ex->secrets == NULL)
		exchange_credit(ex, len - free_bytes);
	if (buf_left(&ex->body) == 0)
		buf_free(&ex->body);
	exchange_pay(ex);
	exchange_touch(ex, ex->step == STEP_RAW ? COURIER_RAW_IDLE_S : COURIER_ANSWER_S);
}

void
exchange_writable(struct exchange *ex)
{
	size_t n = buf_left(&ex->pending);

	if (n > 0) {
		n = mux_send_data(ex->stream, ex->pending.data + ex->pending.pos, n);
		ex->pending.pos += n;
		if (n > 0)
			exchange_touch(ex, ex->step == STEP_RAW ? COURIER_RAW_IDLE_S : COURIER_IDLE_S);
		if (buf_left(&ex->pending) == 0) {
			buf_free(&ex->pending);
			if (!exchange_scrub_more(ex))
				return;
		}
		if (ex->upstream != NULL && ex->upstream->kind != NULL &&
		    ex->upstream->kind->given != NULL)
			ex->upstream->kind->given(ex->upstream, ex);
		if (buf_left(&ex->pending) > 0)
			return;
	}
	if (ex->ending)
		exchange_try_end(ex, &ex->end);
	else if (ex->upstream != NULL && ex->upstream->step == UP_READY)
		ex->upstream->kind->resume(ex->upstream, ex);
}
