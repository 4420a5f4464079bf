/* meter.c - measures the cost of models' responses.
 *
 * Small uncompressed responses are read here.  For others, a copy goes to cloister-inspect, which
 * decompresses and reads it.
 *
 * The record of the exchange includes the cost, and waits for it.  The highest possible cost was
 * reserved before the request left, and is settled when the cost is known.  A meter outlives its
 * exchange, so the agent need not wait for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "egress/courier.h"
#include "inspect/usage.h"
#include "ipc/inspect_channel.h"

struct meter {
	struct courier *courier;
	struct meter *next, **at;
	struct exchange *exchange;      /* NULL once it is recorded or over */
	struct members *record;         /* its record without the cost; or NULL */
	struct courier_policy *policy;
	size_t n_slots;
	uint64_t most;                  /* reserved for it */
	enum policy_usage usage;
	bool sure;                      /* it is known to be a model's response */
	struct mux_stream *stream;      /* to cloister-inspect, while it reads the response */
	bool reads;                     /* the response is read; */
	bool is_lazy;                   /* later, together with others */
	bool is_plain;                  /* not compressed */
	struct buf pending;             /* of the response, for STREAM */
	bool lost;                      /* some of it could not be kept */
	bool ended, complete, told;     /* the response is over; it came whole; cloister-inspect knows */
	bool answered;                  /* the server has begun a successful response */
	uint64_t sent, received;
	uint64_t began_ms;
	/* The result, once it is known. */
	bool settled, costs, estimated;
	struct policy_tokens tokens;
	uint64_t price;

	/* Not cleared for each meter: */
	struct ledger_slot *slots[BUDGET_SLOTS_MAX];
	char coding[64];                /* of the response */
	char model[POLICY_MODEL_MAX + 1];       /* the requested one until it is settled; or "" */
	char host[HTTP_HOST_MAX + 1];
};

/* ---- beginning and end ---- */

static void
meter_free(struct meter *m)
{
	struct courier *c = m->courier;

	*m->at = m->next;
	if (m->next != NULL)
		m->next->at = m->at;
	c->budgets.n_meters--;
	if (m->is_lazy)
		c->budgets.n_lazy--;
	if (m->exchange != NULL)
		m->exchange->budget.meter = NULL;
	if (m->stream != NULL)
		mux_close(m->stream);
	courier_policy_release(m->policy);
	if (m->record != NULL)
		members_free(m->record);
	free(m->record);
	if (m->pending.cap > 2 * METER_LAZY_MAX)
		buf_free(&m->pending);
	if (c->budgets.n_spare == METERS_SPARE_MAX) {
		buf_free(&m->pending);
		free(m);
		return;
	}
	m->next = c->budgets.spare;
	c->budgets.spare = m;
	c->budgets.n_spare++;
}

/* Reuse a spare meter or make one.  NULL: out of memory. */
static struct meter *
meter_take(struct courier *c)
{
	struct meter *m = c->budgets.spare;
	struct buf pending = {0};

	if (c->budgets.n_meters == METERS_MAX)
		return NULL;
	if (m != NULL) {
		c->budgets.spare = m->next;
		c->budgets.n_spare--;
		pending = m->pending;
	} else {
		m = malloc(sizeof(*m));
		if (m == NULL)
			return NULL;
		buf_init(&pending, METER_PENDING_MAX + MUX_FRAME_MAX);
	}
	memset(m, 0, offsetof(struct meter, slots));
	m->coding[0] = '\0';
	m->pending = pending;
	buf_reset(&m->pending);
	return m;
}

static void
lazy_due(void *arg)
{
	courier_meters_hurry(arg);
}

void
courier_meters_init(struct courier *c)
{
	loop_prepare_timer(&c->budgets.lazy, lazy_due, c);
}

void
courier_meters_trim(struct courier *c)
{
	struct meter *m;

	while ((m = c->budgets.spare) != NULL) {
		c->budgets.spare = m->next;
		buf_free(&m->pending);
		free(m);
	}
	c->budgets.n_spare = 0;
}

void
courier_meters_close(struct courier *c)
{
	if (c->loop != NULL)
		loop_cancel_timer(c->loop, &c->budgets.lazy);
	while (c->budgets.meters != NULL)
		meter_free(c->budgets.meters);
	courier_meters_trim(c);
}

uint64_t
courier_price_of(struct courier_policy *p, const char *model, const struct policy_tokens *tokens)
{
	struct courier_budgets *b = &p->budgets;

	if (b->n_prices == 0 || strcmp(b->model, model) != 0) {
		snprintf(b->model, sizeof(b->model), "%s", model);
		b->n_prices = policy_find_prices(p->policy, model, b->prices, ARRAY_LEN(b->prices));
	}
	return policy_dearest(b->prices, b->n_prices, tokens);
}

static struct meter *
meter_new(struct exchange *ex)
{
	struct courier *c = ex->courier;
	struct meter *m = meter_take(c);

	if (m == NULL)
		return NULL;
	m->courier = c;
	m->exchange = ex;
	m->policy = courier_policy_use(ex->policy);
	m->usage = ex->budget.usage;
	m->sure = ex->budget.sure;
	m->most = ex->budget.most;
	m->began_ms = ex->ask != NULL ? loop_now_ms() : ex->times.began_ms;
	memcpy(m->model, ex->budget.model, strlen(ex->budget.model) + 1);
	m->n_slots = ex->budget.n;
	for (size_t i = 0; i < m->n_slots; i++)
		m->slots[i] = ex->budget.slots[i];
	memcpy(m->host, ex->host, strlen(ex->host) + 1);
	m->next = c->budgets.meters;
	m->at = &c->budgets.meters;
	if (m->next != NULL)
		m->next->at = &m->next;
	c->budgets.meters = m;
	c->budgets.n_meters++;
	return m;
}

bool
exchange_meter_begin(struct exchange *ex)
{
	struct exchange_budget *b = &ex->budget;

	if (b->usage == POLICY_USAGE_NONE)
		return true;
	b->meter = meter_new(ex);
	if (b->meter != NULL)
		return true;
	if (b->most > 0)
		courier_settle(ex->courier, ex->policy, b->slots, b->n, b->most, 0);
	exchange_refuse_with(ex, 429, "budget", "too many answers are being metered at once");
	return false;
}

void
exchange_meter_also(struct exchange *ex, struct ledger_slot *slot)
{
	struct meter *m = ex->budget.meter;

	if (m != NULL && m->n_slots < BUDGET_SLOTS_MAX)
		m->slots[m->n_slots++] = slot;
}

/* The request has cost nothing. */
static void
meter_drop(struct meter *m)
{
	courier_settle(m->courier, m->policy, m->slots, m->n_slots, m->most, 0);
	meter_free(m);
}

/* ---- the response ---- */

/* The types of responses that report tokens: JSON, lines of JSON, or events. */
static bool
may_tell(const struct http_head *head)
{
	struct http_text type = http_head_get(head, "content-type");

	return type.len == 0 || http_text_has_nocase(type, "json") ||
	       http_text_has_nocase(type, "event-stream") || http_text_has_nocase(type, "eventstream");
}

enum stage_answer
meter_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	struct meter *m = ex->budget.meter;
	struct http_text coding = http_head_get(head, "content-encoding");

	if (m == NULL || head->status < 200 || ex->t.upstream == NULL)
		return STAGE_CONTINUE;
	if (head->status >= 300 || !has_body || (!m->sure && !may_tell(head))) {
		meter_drop(m);
		return STAGE_CONTINUE;
	}
	m->answered = true;
	m->is_plain = !http_head_is_packed(head);
	/* A response with a very long list of codings cannot be read either. */
	m->reads = m->is_plain || (ex->courier->inspect != NULL && coding.len < sizeof(m->coding));
	if (m->reads && coding.len > 0)
		snprintf(m->coding, sizeof(m->coding), "%.*s", (int)coding.len, coding.at);
	return STAGE_CONTINUE;
}

static void
meter_open(struct meter *m)
{
	struct courier *c = m->courier;
	OWN(buf_free) struct buf body = {0};

	m->stream = c->inspect != NULL ? mux_open(c->inspect, m) : NULL;
	m->reads = m->stream != NULL;
	if (m->stream == NULL)
		return;
	buf_init(&body, MUX_FRAME_MAX);
	buf_put_str(&body, m->coding);
	mux_send(c->inspect, m->stream->id, INSPECT_USAGE, &body);
}

/* Push what cloister-inspect takes.  The response itself does not wait for it. */
static void
meter_push(struct meter *m)
{
	unsigned char complete[4] = { m->complete && !m->lost };
	struct buf body;
	size_t n = buf_left(&m->pending);

	if (m->stream == NULL)
		return;
	if (n > 0) {
		m->pending.pos += mux_send_data(m->stream, m->pending.data + m->pending.pos, n);
		if (buf_left(&m->pending) == 0)
			buf_reset(&m->pending);
	}
	if (m->ended && !m->told && buf_left(&m->pending) == 0) {
		buf_init_borrowed(&body, complete, sizeof(complete));
		mux_send(m->courier->inspect, m->stream->id, INSPECT_USAGE_END, &body);
		m->told = true;
	}
}

static void
feed(struct exchange *ex, const void *data, size_t len)
{
	struct meter *m = ex->budget.meter;
	size_t taken = 0;

	if (m == NULL || m->ended || len == 0)
		return;
	m->received += len;
	if (!m->reads || m->lost)
		return;
	if (m->stream == NULL && len + buf_left(&m->pending) > METER_LAZY_MAX) {
		meter_open(m);
		meter_push(m);
		if (m->stream == NULL)
			return;
	}
	if (m->stream != NULL && buf_left(&m->pending) == 0)
		taken = mux_send_data(m->stream, data, len);
	if (len - taken > METER_PENDING_MAX - buf_left(&m->pending))
		m->lost = true;
	else if (taken < len)
		courier_queue(&m->pending, (const char *)data + taken, len - taken);
}

/* Before the bytes are changed. */
enum stage_answer
meter_data(struct exchange *ex, const void *data, size_t len)
{
	/* Our own responses cost nothing. */
	if (ex->t.upstream == NULL)
		return STAGE_CONTINUE;
	feed(ex, data, len);
	exchange_used(ex, POLICY_BYTES_IN, len);
	return STAGE_CONTINUE;
}

/* ---- the result ---- */

/* Estimate what the response does not report, and rather too much.  The estimate counts the bytes
 * sent and received as small tokens, the conversation that the provider keeps, and the tokens that
 * a model can generate unseen in that time. */
static void
estimate(const struct meter *m, struct usage_found *f)
{
	uint64_t context = m->courier->budgets.context;
	uint64_t unseen = (loop_now_ms() - m->began_ms) * USAGE_TOKENS_PER_S / 1000;

	if (!f->found) {
		f->tokens.input = m->sent / USAGE_BYTES_PER_TOKEN;
		if (f->kept)
			f->tokens.input += context > 0 ? context : USAGE_KEPT_TOKENS;
		else if (!m->answered && m->usage == POLICY_USAGE_OPENAI)
			f->tokens.input += context;
		f->tokens.output = (f->text > 0 ? f->text : m->received) / USAGE_BYTES_PER_TOKEN;
	}
	if (f->later)
		unseen = USAGE_LATER_TOKENS;
	if (f->tokens.output < unseen)
		f->tokens.output = unseen;
}

static void
put_usage(struct events *e, const struct meter *m)
{
	if (!m->costs)
		return;
	event_str(e, "model", m->model);
	event_u64(e, "input_tokens", m->tokens.input);
	event_u64(e, "output_tokens", m->tokens.output);
	if (m->tokens.cache_read > 0)
		event_u64(e, "cache_read_tokens", m->tokens.cache_read);
	if (m->tokens.cache_write > 0)
		event_u64(e, "cache_write_tokens", m->tokens.cache_write);
	event_u64(e, "nano_usd", m->price);
	if (m->estimated)
		event_true(e, "estimated");
}

/* The cost is part of the exchange's record, which is still to come or waits for it.  An exchange
 * that was cut off is recorded at once, and its cost separately. */
static void
tell(struct meter *m)
{
	struct courier *c = m->courier;

	if (m->exchange != NULL && !m->exchange->outcome.recorded)
		return;
	if (m->record != NULL) {
		event_resume(&c->events, m->record);
	} else if (m->costs) {
		event_begin(&c->events, "usage");
		event_str(&c->events, "host", m->host);
	}
	if (m->record != NULL || m->costs) {
		put_usage(&c->events, m);
		event_done(&c->events, false, NULL);
	}
	meter_free(m);
}

static void
settle(struct meter *m, struct usage_found *found)
{
	struct courier *c = m->courier;
	struct budgets *b = &c->budgets;
	uint64_t context;

	m->costs = found->found || m->sure;
	m->estimated = m->sure && (!found->found || !found->whole);
	if (m->estimated)
		estimate(m, found);
	m->tokens = found->tokens;
	context = m->tokens.input + m->tokens.cache_read + m->tokens.cache_write + m->tokens.output;
	if (found->found && context > b->context)
		b->context = context;
	if (found->model[0] != '\0')
		memcpy(m->model, found->model, sizeof(m->model));
	m->price = m->costs ? courier_price_of(m->policy, m->model, &m->tokens) : 0;
	courier_settle(c, m->policy, m->slots, m->n_slots, m->most, m->price);
	m->settled = true;
	tell(m);
}

/* A client that leaves early has still made the request, and so has one that gets our timeout: the
 * model may have worked all that time.  A request that the server itself refused was dropped
 * before. */
static bool
came_to_nothing(const struct exchange *ex, const struct meter *m)
{
	if (m->answered)
		return false;
	return ex->t.sent == 0 || (ex->t.status >= 300 && !ex->t.sent_all) || (ex->t.answered && ex->t.status < 200);
}

void
exchange_meter_end(struct exchange *ex, bool complete)
{
	struct meter *m = ex->budget.meter;
	struct usage_found found = {0};

	if (m == NULL || m->ended)
		return;
	m->sent = ex->t.sent;
	/* A server may answer before it has the whole body. */
	if (m->answered && ex->t.has_body && ex->request.length != HTTP_LENGTH_UNKNOWN && ex->request.length > m->sent)
		m->sent = ex->request.length;
	if (came_to_nothing(ex, m)) {
		meter_drop(m);
		return;
	}
	m->ended = true;
	m->complete = complete;
	if (m->stream != NULL) {
		meter_push(m);
	} else if (!m->reads || (m->is_plain && usage_read((const char *)m->pending.data, m->pending.len,
	                                                   complete, &found))) {
		settle(m, &found);
	} else {
		m->is_lazy = true;
		if (++m->courier->budgets.n_lazy >= METERS_LAZY_MAX || m->courier->budgets.waits != NULL)
			courier_meters_hurry(m->courier);
		else if (m->courier->budgets.lazy.at_ms == 0)
			loop_set_timer(m->courier->loop, &m->courier->budgets.lazy, METER_LAZY_MS);
	}
}

/* ---- its record ---- */

bool
exchange_meter_record(struct exchange *ex)
{
	struct events *e = &ex->courier->events;
	struct meter *m = ex->budget.meter;

	if (m == NULL || !m->ended)
		return false;
	exchange_meter_forget(ex);
	if (m->settled) {
		put_usage(e, m);
		meter_free(m);
		return false;
	}
	m->record = ex->outcome.refused ? NULL : malloc(sizeof(*m->record));
	if (m->record == NULL)
		return false;
	members_init(m->record, EVENT_MAX);
	members_copy(m->record, &e->line, e->line.n);
	return true;
}

void
exchange_meter_forget(struct exchange *ex)
{
	struct meter *m = TAKE(ex->budget.meter);

	if (m != NULL)
		m->exchange = NULL;
}

void
courier_meters_finish(struct courier *c)
{
	struct meter *m, *next;

	for (m = c->budgets.meters; m != NULL; m = next) {
		struct usage_found nothing = {0};

		next = m->next;
		if (m->ended && !m->settled)
			settle(m, &nothing);
	}
}

/* ---- all meters ---- */

/* Many at once cost little more than one: their results come back together too. */
void
courier_meters_hurry(struct courier *c)
{
	struct meter *m, *next;

	for (m = c->budgets.meters; m != NULL && c->budgets.n_lazy > 0; m = next) {
		struct usage_found nothing = {0};

		next = m->next;
		if (!m->is_lazy)
			continue;
		m->is_lazy = false;
		c->budgets.n_lazy--;
		meter_open(m);
		if (m->stream == NULL)
			settle(m, &nothing);
		else
			meter_push(m);
	}
}

/* ---- cloister-inspect ---- */

static struct meter *
find_meter(struct courier *c, const struct mux_stream *stream)
{
	struct meter *m = c->budgets.meters;

	while (m != NULL && (stream == NULL || m->stream != stream))
		m = m->next;
	return m;
}

static int
take_used(struct meter *m, struct buf *body)
{
	struct usage_found found = {0};
	const char *model;
	uint32_t flags;

	if (!m->told || buf_get_u32(body, &flags) < 0 ||
	    (flags & ~(INSPECT_FOUND | INSPECT_KEPT | INSPECT_LATER | INSPECT_WHOLE)) != 0 ||
	    buf_get_str(body, &model) < 0 || strlen(model) > POLICY_MODEL_MAX ||
	    buf_get_u64(body, &found.tokens.input) < 0 || buf_get_u64(body, &found.tokens.output) < 0 ||
	    buf_get_u64(body, &found.tokens.cache_read) < 0 ||
	    buf_get_u64(body, &found.tokens.cache_write) < 0 ||
	    buf_get_u64(body, &found.text) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	found.found = (flags & INSPECT_FOUND) != 0;
	found.kept = (flags & INSPECT_KEPT) != 0;
	found.later = (flags & INSPECT_LATER) != 0;
	found.whole = (flags & INSPECT_WHOLE) != 0;
	memcpy(found.model, model, strlen(model) + 1);
	settle(m, &found);
	return 0;
}

bool
meter_hears(struct courier *c, struct mux_stream *stream, uint32_t type, struct buf *body, int *ret_r)
{
	struct meter *m = find_meter(c, stream);

	if (m == NULL && type != INSPECT_USED)
		return false;
	*ret_r = m == NULL ? 0 : type == INSPECT_USED ? take_used(m, body) : -EBADMSG;
	return true;
}

bool
meter_owns(struct courier *c, const struct mux_stream *stream)
{
	return find_meter(c, stream) != NULL;
}

bool
meter_writable(struct courier *c, struct mux_stream *stream)
{
	struct meter *m = find_meter(c, stream);

	if (m != NULL)
		meter_push(m);
	return m != NULL;
}
