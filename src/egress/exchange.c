/* exchange.c - the life of an exchange, and its messages to the gate. */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "upstream/postgres.h"

static const struct transfer_owner owner;

/* ---- beginning and end ---- */

void
exchange_free(struct exchange *ex)
{
	exchange_free_stages(ex);
	exchange_ssh_free(ex);
	buf_free(&ex->request.frame);
	buf_free(&ex->t.body);
	buf_free(&ex->t.trailers);
	buf_free(&ex->t.pending);
	buf_free(&ex->response.end);
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
		frame = ex->request.frame;
	} else {
		ex = malloc(sizeof(*ex));
		if (ex == NULL)
			return NULL;
		buf_init(&frame, MUX_FRAME_MAX);
	}
	memset(ex, 0, offsetof(struct exchange, inspect));
	memset(&ex->inspect, 0, offsetof(struct exchange_inspect, what));
	memset(&ex->scan, 0, offsetof(struct exchange_scan, state));
	ex->host[0] = ex->note[0] = ex->inspect.pushed[0] = ex->inspect.call[0] = '\0';
	ex->courier = c;
	ex->t.owner = &owner;
	ex->t.pool = c->pool;
	ex->t.host = ex->host;
	ex->kind = kind;
	ex->request.frame = frame;
	ex->decision.rule = -1;
	/* There is nothing to record until its kind is known. */
	ex->outcome.recorded = true;
	ex->stream = mux_open_as(c->gate, id, ex);
	if (ex->stream == NULL) {
		exchange_free(ex);
		return NULL;
	}
	buf_reset(&ex->request.frame);
	buf_init_secret(&ex->t.body, 4 * MUX_WINDOW);
	buf_init(&ex->t.trailers, MUX_FRAME_MAX);
	buf_init(&ex->t.pending, COURIER_PENDING_MAX);
	buf_init(&ex->response.end, MUX_FRAME_MAX);
	ex->policy = courier_policy_use(c->policy);
	ex->times.began_ms = loop_now_ms();
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
	exchange_free_stages(ex);
	exchange_ssh_free(ex);
	if (c->n_spare >= COURIER_SPARE_MAX) {
		exchange_free(ex);
		return;
	}
	buf_free(&ex->t.body);
	buf_free(&ex->t.trailers);
	buf_free(&ex->t.pending);
	buf_free(&ex->response.end);
	if (ex->request.frame.cap > COURIER_KEPT_FRAME)
		buf_free(&ex->request.frame);
	ex->next = c->spare;
	c->spare = ex;
	c->n_spare++;
}

/* Whether the gate takes no more for now. */
static bool
exchange_is_full(const struct exchange *ex)
{
	return buf_left(&ex->t.pending) > 0 || ex->stream->may_send == 0;
}

bool
exchange_give_way(struct exchange *ex)
{
	struct failure failure;
	/* The agent is not to blame if the server takes nothing, or if the body has to wait for the
	 * server. */
	bool agents_turn = ex->state == EXCHANGE_WAITS ? buf_left(&ex->t.body) < MUX_WINDOW / 2 :
	                                           buf_left(&ex->t.body) == 0;

	if (ex->kind != EXCHANGE_HTTP || (ex->state != EXCHANGE_WAITS && ex->state != EXCHANGE_SENT) ||
	    ex->t.came_all || ex->t.is_upgrade || ex->t.answered || (ex->request.expects && ex->flow.came == 0) ||
	    !agents_turn || ex->courier->now_s - ex->heard_s < COURIER_PRESSED_S ||
	    !pool_is_pressed(&ex->t))
		return false;
	failure_set(&failure, 504, "unreachable", "request not complete",
	                    "the rest of the body did not come within %d s, and others waited",
	                    COURIER_PRESSED_S);
	exchange_fail(ex, &failure);
	return true;
}

void
exchange_late(struct exchange *ex)
{
	struct failure failure;

	if (ex->stage != NULL) {
		exchange_late_at_stage(ex);
		return;
	}
	switch (ex->state) {
	case EXCHANGE_WAITS:
		if (ex->t.postgres != NULL && transfer_is_connected(&ex->t))
			failure_set(&failure, 504, "login", "login failed",
			            "the server did not finish the login within %d s", POSTGRES_LOGIN_S);
		else
			failure_set(&failure, 504, "unreachable", "upstream unreachable",
			            "no connection could be had within %d s", TRANSFER_QUEUE_S);
		break;
	case EXCHANGE_DRAINS:
		exchange_reset(ex, ex->response.ended ? EGRESS_RESET_DONE : EGRESS_RESET_TIMEOUT);
		return;
	case EXCHANGE_PASSES:
		failure_set(&failure, 504, "unreachable", "upstream silent",
		            "neither side said anything for %d s", TRANSFER_RAW_IDLE_S);
		break;
	default:
		failure_set(&failure, 504, "unreachable", "upstream silent",
		            exchange_is_full(ex) ? "the client took nothing for %d s" :
		            ex->t.answered ? "the server sent nothing more for %d s" :
		                             "the server did not answer within %d s",
		            TRANSFER_ANSWER_S);
	}
	exchange_fail(ex, &failure);
}

void
exchange_detach(struct exchange *ex)
{
	exchange_stop(ex);
	transfer_detach(&ex->t);
}

/* ---- the state ---- */

void
exchange_set(struct exchange *ex, enum exchange_state state)
{
	static const unsigned may_follow[] = {
		[EXCHANGE_NEW] = 1u << EXCHANGE_HOLDS | 1u << EXCHANGE_WAITS | 1u << EXCHANGE_SENT |
		                 1u << EXCHANGE_DRAINS | 1u << EXCHANGE_OVER,
		[EXCHANGE_HOLDS] = 1u << EXCHANGE_HOLDS | 1u << EXCHANGE_WAITS | 1u << EXCHANGE_SENT |
		                   1u << EXCHANGE_DRAINS | 1u << EXCHANGE_OVER,
		/* Waiting for a connection follows waiting at a stage. */
		[EXCHANGE_WAITS] = 1u << EXCHANGE_WAITS | 1u << EXCHANGE_SENT | 1u << EXCHANGE_PASSES |
		                   1u << EXCHANGE_DRAINS | 1u << EXCHANGE_OVER,
		/* A transfer that is retried waits again. */
		[EXCHANGE_SENT] = 1u << EXCHANGE_WAITS | 1u << EXCHANGE_PASSES | 1u << EXCHANGE_DRAINS |
		                  1u << EXCHANGE_OVER,
		[EXCHANGE_PASSES] = 1u << EXCHANGE_DRAINS | 1u << EXCHANGE_OVER,
		[EXCHANGE_DRAINS] = 1u << EXCHANGE_DRAINS | 1u << EXCHANGE_OVER,
		[EXCHANGE_OVER] = 0,
	};

	assert((may_follow[ex->state] & 1u << state) != 0);
	ex->state = state;
}

static void
moved(struct transfer *t, enum transfer_step step)
{
	static const enum exchange_state states[] = {
		[TRANSFER_QUEUED] = EXCHANGE_WAITS, [TRANSFER_SENT] = EXCHANGE_SENT,
		[TRANSFER_RAW] = EXCHANGE_PASSES,
	};
	struct exchange *ex = exchange_of(t);

	exchange_set(ex, states[step]);
	if (step != TRANSFER_RAW || ex->kind == EXCHANGE_HTTP)
		return;
	ex->times.first_ms = loop_now_ms();
	if (t->postgres == NULL)
		exchange_routed(ex, ex->wire != NULL ? EGRESS_REDIS : EGRESS_TUNNEL, "", "");
}

void
exchange_over(struct exchange *ex)
{
	struct courier *c = ex->courier;

	if (ex->state == EXCHANGE_OVER)
		return;
	exchange_set(ex, EXCHANGE_OVER);
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

	if (ex->state == EXCHANGE_OVER)
		return;
	buf_init_borrowed(&body, code, sizeof(code));
	mux_send(ex->courier->gate, ex->stream->id, EGRESS_RESET, &body);
	exchange_over(ex);
}

static bool
is_grpc(const struct http_head *head)
{
	struct http_text type = http_head_get(head, "content-type");

	return type.len >= 16 && strncasecmp(type.at, "application/grpc", 16) == 0;
}

int
exchange_take_head(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct http_head *head = &c->head;
	struct buf encoded;

	buf_init_borrowed(&encoded, ex->request.frame.data, ex->request.frame.len);
	encoded.pos = ex->request.head_at;
	c->head_of = NULL;
	if (http_head_decode(&encoded, head, NULL) < 0 || buf_left(&encoded) != 0 ||
	    head->status != 0 || head->host.len > HTTP_HOST_MAX)
		return -EBADMSG;
	c->head_of = ex;
	ex->t.method = head->method;
	ex->request.path = head->path;
	ex->t.scheme = head->scheme;
	ex->t.port = head->port;
	ex->request.length = head->length;
	memcpy(ex->host, head->host.at, head->host.len);
	ex->host[head->host.len] = '\0';
	ex->t.has_body = head->length != 0;
	ex->t.is_head = http_text_is(head->method, "HEAD");
	ex->t.is_upgrade = ex->t.h1_only = head->upgrade.len > 0;
	ex->request.is_grpc = is_grpc(head);
	ex->request.expects = http_head_get(head, "expect").len > 0;
	return 0;
}

struct http_head *
exchange_head(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct buf encoded;

	if (c->head_of != ex) {
		buf_init_borrowed(&encoded, ex->request.frame.data, ex->request.frame.len);
		encoded.pos = ex->request.head_at;
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
	/* Servers announce HTTP/3 here, which a cell cannot use. */
	http_head_drop(head, "alt-svc");
	switch (exchange_pass_head(ex, head, has_body)) {
	case STAGE_CONTINUE:
		return exchange_send_head(ex, head, has_body);
	case STAGE_WAIT:
		ex->t.status = head->status;
		ex->t.answered = true;
		transfer_touch(&ex->t, COURIER_IDLE_S);
		return true;
	default:
		return false;
	}
}

bool
exchange_send_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	struct courier *c = ex->courier;
	struct failure failure;
	struct err err = {0};

	buf_reset(&c->out);
	buf_put_u32(&c->out, has_body ? EGRESS_HAS_BODY : 0);
	if (head->status < 200 && ex->response.n_interim++ == COURIER_INTERIM_MAX)
		err_set(&err, EBADMSG, "there are too many before the last one");
	else if (http_head_check(head, &err) == 0)
		http_head_encode(&c->out, head);
	if (err.code != 0 || buf_failed(&c->out) || c->out.len > MUX_FRAME_MAX) {
		failure_set(&failure, 502, "protocol", "upstream answers nonsense",
		                    "the head of the server's answer cannot be passed on: %s",
		                    err.code != 0 ? err.text : "it is too large");
		exchange_detach(ex);
		exchange_fail(ex, &failure);
		return false;
	}
	mux_send(c->gate, ex->stream->id, EGRESS_RESPONSE, &c->out);
	ex->t.status = head->status;
	transfer_touch(&ex->t, COURIER_IDLE_S);
	if (head->status >= 200 || head->status == 101) {
		ex->t.answered = true;
		ex->t.bodiless = !has_body && head->status != 101;
		if (ex->t.is_upgrade && head->status != 101)
			ex->t.came_all = true;
		ex->times.first_ms = loop_now_ms();
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
		ex->t.answered = true;
}

void
exchange_give(struct exchange *ex, const void *data, size_t len)
{
	if (exchange_pass_data(ex, data, len) == STAGE_CONTINUE)
		exchange_give_plain(ex, data, len);
}

void
exchange_give_plain(struct exchange *ex, const void *data, size_t len)
{
	size_t taken = 0;

	ex->response.received += len;
	if (buf_left(&ex->t.pending) == 0)
		taken = mux_send_data(ex->stream, data, len);
	if (taken < len)
		courier_queue(&ex->t.pending, (const char *)data + taken, len - taken);
	transfer_touch(&ex->t, ex->state == EXCHANGE_PASSES ? TRANSFER_RAW_IDLE_S : COURIER_IDLE_S);
}

/* As exchange_give_plain() without a copy: see mux_reserve(). */
static unsigned char *
reserve(struct transfer *t, size_t *ret_room)
{
	struct exchange *ex = exchange_of(t);
	unsigned char *at;

	if (buf_left(&ex->t.pending) > 0 || exchange_is_scrubbed(ex) || courier_is_slowed(ex->courier))
		return NULL;
	at = mux_reserve(ex->stream, ret_room);
	ex->courier->reserved = at;
	return at;
}

static void
commit(struct transfer *t, size_t len)
{
	struct exchange *ex = exchange_of(t);

	/* Before the commit: committed bytes may be sent and gone. */
	if (len > 0)
		(void)meter_data(ex, ex->courier->reserved, len);
	mux_commit(ex->stream, len);
	if (len == 0)
		return;
	ex->response.received += len;
	transfer_touch(&ex->t, ex->state == EXCHANGE_PASSES ? TRANSFER_RAW_IDLE_S : COURIER_IDLE_S);
}

/* The response has ended, or ends when the gate has taken it. */
static void
exchange_try_end(struct exchange *ex, const struct buf *end)
{
	struct courier *c = ex->courier;

	if (!ex->response.ending || buf_left(&ex->t.pending) > 0)
		return;
	if (!ex->response.ended && !ex->t.bodiless)
		mux_send(c->gate, ex->stream->id, EGRESS_END, end);
	ex->response.ended = true;
	if (ex->t.upstream != NULL)       /* raw, and the other direction is still open */
		return;
	if (ex->t.came_all)
		exchange_over(ex);
	else
		exchange_record(ex);
}

/* The rest of the request has no receiver, whether or not the gate has taken the response. */
static void
drain_request(struct exchange *ex)
{
	if (ex->t.upstream == NULL && !ex->t.came_all && ex->state != EXCHANGE_DRAINS)
		exchange_drain(ex);
}

static void
end_with(struct exchange *ex, const struct http_field *trailers, size_t n)
{
	struct courier *c = ex->courier;
	struct buf *end = buf_left(&ex->t.pending) > 0 ? &ex->response.end : &c->out;

	if (!ex->response.ending && !ex->t.bodiless) {
		/* Invalid trailers of a hostile server are left out. */
		if (n > 0 && http_trailers_check(trailers, n, NULL) < 0)
			n = 0;
		buf_reset(end);
		http_fields_encode(end, trailers, n);
	}
	ex->response.ending = true;
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
	if (!ex->response.ending && exchange_is_scrubbed(ex) && n > 0)
		end_with_trailers(ex, trailers, n);
	else if (!ex->response.ending && exchange_is_scrubbed(ex))
		end_scrubbed(ex, NULL, 0);
	else
		end_with(ex, trailers, n);
}

void
exchange_writable(struct exchange *ex)
{
	size_t n = buf_left(&ex->t.pending);

	if (n > 0) {
		n = mux_send_data(ex->stream, ex->t.pending.data + ex->t.pending.pos, n);
		ex->t.pending.pos += n;
		if (n > 0)
			transfer_touch(&ex->t, ex->state == EXCHANGE_PASSES ? TRANSFER_RAW_IDLE_S : COURIER_IDLE_S);
		if (buf_left(&ex->t.pending) == 0) {
			buf_free(&ex->t.pending);
			if (!exchange_scrub_more(ex))
				return;
		}
		transfer_given(&ex->t);
		if (buf_left(&ex->t.pending) > 0)
			return;
	}
	if (ex->response.ending)
		exchange_try_end(ex, &ex->response.end);
	else
		transfer_resume(&ex->t);
}

/* ---- what the connection reports ---- */

struct exchange *
exchange_of(struct transfer *t)
{
	return (struct exchange *)(void *)((unsigned char *)t - offsetof(struct exchange, t));
}

const struct exchange *
exchange_of_const(const struct transfer *t)
{
	return (const struct exchange *)(const void *)((const unsigned char *)t -
	                                               offsetof(struct exchange, t));
}

static struct http_head *
head_to_send(struct transfer *t)
{
	return exchange_head_to_send(exchange_of(t));
}

static bool
expects(const struct transfer *t)
{
	return exchange_expects(exchange_of_const(t));
}

static void
took(struct transfer *t, size_t len)
{
	exchange_took(exchange_of(t), len);
}

static void
emptied(struct transfer *t)
{
	exchange_wire_went(exchange_of(t));
}

static bool
respond(struct transfer *t, struct http_head *head, bool has_body)
{
	return exchange_respond(exchange_of(t), head, has_body);
}

static void
give(struct transfer *t, const void *data, size_t len)
{
	exchange_give(exchange_of(t), data, len);
}

static bool
is_changed(const struct transfer *t)
{
	return exchange_is_scrubbed(exchange_of_const(t));
}

static size_t
kept(const struct transfer *t)
{
	return exchange_packed(exchange_of_const(t));
}

static bool
give_raw(struct transfer *t, const void *data, size_t len)
{
	struct exchange *ex = exchange_of(t);

	(void)meter_data(ex, data, len);
	exchange_ssh_hear(ex, data, len);
	return exchange_scrub_raw(ex, data, len);
}

static void
heard(struct transfer *t, const void *data, size_t len)
{
	exchange_ssh_hear(exchange_of(t), data, len);
}

static void
end(struct transfer *t, const struct http_field *trailers, size_t n)
{
	exchange_end(exchange_of(t), trailers, n);
}

static void
fail(struct transfer *t, const struct failure *failure)
{
	exchange_fail(exchange_of(t), failure);
}

static const struct transfer_owner owner = {
	.head = head_to_send, .expects = expects, .moved = moved, .took = took, .emptied = emptied,
	.respond = respond, .give = give, .reserve = reserve, .commit = commit,
	.is_changed = is_changed, .kept = kept, .give_raw = give_raw, .heard = heard, .end = end,
	.fail = fail,
};
