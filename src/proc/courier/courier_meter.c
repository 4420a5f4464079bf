/* courier_meter.c - what models' answers cost: a copy of them goes to cloister-inspect, which reads
 * how many tokens there were.
 *
 * A guess is counted when the request leaves, so that it is not for nothing if the courier dies
 * before it knows better.  Whoever is to know what something cost need not wait for it to be
 * over: a meter outlives its exchange. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "inspect/usage.h"
#include "ipc/inspect_channel.h"
#include "proc/courier/courier.h"

struct meter {
	struct courier *courier;
	struct meter *next, **at;
	struct exchange *exchange;      /* NULL once that is over */
	struct courier_policy *policy;
	struct ledger_slot *slots[BUDGET_SLOTS_MAX];
	size_t n_slots;
	uint64_t guess;                 /* what was counted for it so far */
	bool sure;                      /* it is known to be a model's answer */
	struct mux_stream *stream;      /* while it is read */
	bool reads;                     /* it is to be read; */
	bool is_lazy;                   /* in its time, with others */
	char coding[64];                /* of the answer */
	struct buf pending;             /* of the answer, for STREAM */
	bool lost;                      /* not all of it could be kept */
	bool ended, complete, told;     /* the answer is; all of it came; cloister-inspect knows */
	uint64_t sent, received;
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
	if (m->ended)
		c->budgets.n_settling--;
	if (m->is_lazy)
		c->budgets.n_lazy--;
	if (m->exchange != NULL)
		m->exchange->budget.meter = NULL;
	if (m->stream != NULL)
		mux_close(m->stream);
	courier_policy_release(m->policy);
	buf_free(&m->pending);
	free(m);
}

static void
lazy_due(void *arg)
{
	courier_meters_hurry(arg);
}

void
courier_meters_init(struct courier *c)
{
	c->budgets.lazy = (struct loop_timer){ .due = lazy_due, .arg = c };
}

void
courier_meters_close(struct courier *c)
{
	if (c->loop != NULL)
		loop_cancel_timer(c->loop, &c->budgets.lazy);
	while (c->budgets.meters != NULL)
		meter_free(c->budgets.meters);
}

static uint64_t
price_of(struct courier_policy *p, const char *model, const struct policy_tokens *tokens)
{
	struct courier_budgets *b = &p->budgets;

	if (b->n_prices == 0 || strcmp(b->model, model) != 0) {
		snprintf(b->model, sizeof(b->model), "%s", model);
		b->n_prices = policy_find_prices(p->policy, model, b->prices, ARRAY_LEN(b->prices));
	}
	return policy_dearest(b->prices, b->n_prices, tokens);
}

static uint64_t
guess(const struct exchange *ex)
{
	struct policy_tokens tokens = {0};

	if (ex->has_body && ex->length != HTTP_LENGTH_UNKNOWN)
		tokens.input = ex->length / USAGE_BYTES_PER_TOKEN;
	return price_of(ex->policy, ex->courier->budgets.model, &tokens);
}

static struct meter *
meter_new(struct exchange *ex, bool sure)
{
	struct courier *c = ex->courier;
	struct meter *m = c->budgets.n_meters < METERS_MAX ? calloc(1, sizeof(*m)) : NULL;

	if (m == NULL)
		return NULL;
	m->courier = c;
	m->exchange = ex;
	m->policy = courier_policy_use(ex->policy);
	m->sure = sure;
	m->n_slots = ex->budget.n;
	memcpy(m->slots, ex->budget.slots, ex->budget.n * sizeof(m->slots[0]));
	memcpy(m->host, ex->host, strlen(ex->host) + 1);
	buf_init(&m->pending, METER_PENDING_MAX + MUX_FRAME_MAX);
	m->next = c->budgets.meters;
	m->at = &c->budgets.meters;
	if (m->next != NULL)
		m->next->at = &m->next;
	c->budgets.meters = m;
	c->budgets.n_meters++;
	return m;
}

/* Why nobody could tell what it costs, or NULL. */
static const char *
cannot_meter(const struct exchange *ex)
{
	if (ex->is_upgrade)
		return "what a model says over a WebSocket cannot be metered, and there is a budget of money";
	if (!http_text_is(ex->method, "GET") && policy_costs_later(ex->path.at, ex->path.len) &&
	    policy_price_of_request(ex->policy->policy, &ex->decision.way) == 0)
		return "what a batch costs is known only later, and there is a budget of money: its rule needs "
		       "a price";
	return NULL;
}

void
exchange_meter_begin(struct exchange *ex)
{
	enum policy_usage usage;
	bool sure;

	if (ex->kind != EXCHANGE_HTTP || !ex->policy->budgets.money)
		return;
	usage = policy_usage_of(ex->policy->policy, &ex->decision.way, ex->host, ex->path.at,
	                        ex->path.len, &sure);
	if (usage == POLICY_USAGE_NONE || http_text_is(ex->method, "HEAD"))
		return;
	if (cannot_meter(ex) != NULL) {
		exchange_refuse(ex, "budget", cannot_meter(ex));
		return;
	}
	/* What is fetched may be the answer to what was asked before, or anything else. */
	sure = sure && !http_text_is(ex->method, "GET");
	ex->budget.meter = meter_new(ex, sure);
	if (ex->budget.meter == NULL) {
		exchange_refuse_with(ex, 429, "budget", "too many answers are being metered at once");
		return;
	}
	if (!sure)
		return;
	ex->budget.meter->guess = guess(ex);
	courier_spend(ex->courier, ex->policy, ex->budget.slots, ex->budget.n, ex->budget.meter->guess, 0);
}

/* It came to nothing that costs. */
static void
meter_drop(struct meter *m)
{
	courier_spend(m->courier, m->policy, m->slots, m->n_slots, 0, m->guess);
	meter_free(m);
}

/* ---- the answer ---- */

/* What answers that tell of tokens are: JSON, lines of it, or events. */
static bool
may_tell(const struct http_head *head)
{
	struct http_text type = http_head_get(head, "content-type");

	return type.len == 0 || http_text_has_nocase(type, "json") ||
	       http_text_has_nocase(type, "event-stream");
}

void
exchange_meter_head(struct exchange *ex, const struct http_head *head, bool has_body)
{
	struct meter *m = ex->budget.meter;
	struct http_text coding = http_head_get(head, "content-encoding");

	if (m == NULL || head->status < 200 || ex->upstream == NULL)
		return;
	if (head->status >= 300 || !has_body || (!m->sure && !may_tell(head))) {
		meter_drop(m);
		return;
	}
	/* Of what is packed so often that it takes more words, nothing is known either. */
	m->reads = ex->courier->inspect != NULL && coding.len < sizeof(m->coding);
	if (m->reads)
		snprintf(m->coding, sizeof(m->coding), "%.*s", (int)coding.len, coding.len > 0 ? coding.at : "");
}

static void
meter_open(struct meter *m)
{
	struct courier *c = m->courier;
	OWN(buf_free) struct buf body;

	m->stream = mux_open(c->inspect, m);
	m->reads = m->stream != NULL;
	if (m->stream == NULL)
		return;
	buf_init(&body, MUX_FRAME_MAX);
	buf_put_str(&body, m->coding);
	mux_send(c->inspect, m->stream->id, INSPECT_USAGE, &body);
}

/* As far as it is taken; the answer itself does not wait for it. */
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

void
exchange_meter_feed(struct exchange *ex, const void *data, size_t len)
{
	struct meter *m = ex->budget.meter;
	size_t taken = 0;

	if (m == NULL || len == 0)
		return;
	m->received += len;
	if (!m->reads || m->lost)
		return;
	if (m->stream == NULL && len + buf_left(&m->pending) > METER_LAZY_MAX) {
		meter_open(m);
		meter_push(m);
	}
	if (m->stream != NULL && buf_left(&m->pending) == 0)
		taken = mux_send_data(m->stream, data, len);
	if (len - taken > METER_PENDING_MAX - buf_left(&m->pending))
		m->lost = true;
	else if (taken < len)
		courier_queue(&m->pending, (const char *)data + taken, len - taken);
}

/* ---- what it was ---- */

static void
record_usage(const struct meter *m, const struct usage_found *found, uint64_t price, bool estimated)
{
	struct events *e = &m->courier->events;

	event_begin(e, "usage");
	event_str(e, "host", m->host);
	event_str(e, "model", found->model);
	event_u64(e, "input", found->tokens.input);
	event_u64(e, "output", found->tokens.output);
	event_u64(e, "cache_read", found->tokens.cache_read);
	event_u64(e, "cache_write", found->tokens.cache_write);
	event_u64(e, "nano_usd", price);
	if (estimated)
		event_true(e, "estimated");
	event_done(e, false, NULL);
	courier_at_round_end(m->courier);
}

static void
settle(struct meter *m, struct usage_found *found)
{
	struct courier *c = m->courier;
	bool estimated = !found->found && m->sure;
	uint64_t price = 0;

	if (estimated) {
		/* A quarter of the bytes, which is about what tokens are; of a stream, only of those
		 * that the model wrote. */
		found->tokens.input = m->sent / USAGE_BYTES_PER_TOKEN;
		found->tokens.output = (found->text > 0 ? found->text : m->received) / USAGE_BYTES_PER_TOKEN;
	}
	if (found->found || estimated) {
		price = price_of(m->policy, found->model, &found->tokens);
		record_usage(m, found, price, estimated);
	}
	if (found->model[0] != '\0')
		memcpy(c->budgets.model, found->model, sizeof(c->budgets.model));
	if (price > c->budgets.dearest)
		c->budgets.dearest = price;
	courier_spend(c, m->policy, m->slots, m->n_slots, price, m->guess);
	meter_free(m);
	/* Who waits for it goes on then. */
	courier_at_round_end(c);
}

void
exchange_meter_end(struct exchange *ex, bool complete)
{
	struct meter *m = ex->budget.meter;
	struct usage_found nothing = {0};

	if (m == NULL)
		return;
	m->exchange = NULL;
	ex->budget.meter = NULL;
	m->sent = ex->sent;
	/* Who does not wait for an answer has asked for it all the same; but what says that there is
	 * none costs nothing. */
	if ((!ex->answered && ex->sent == 0) || ex->status >= 300 || (ex->answered && ex->status < 200)) {
		meter_drop(m);
		return;
	}
	m->ended = true;
	m->complete = complete;
	m->courier->budgets.n_settling++;
	if (!m->reads) {
		settle(m, &nothing);
	} else if (m->stream != NULL) {
		meter_push(m);
	} else {
		m->is_lazy = true;
		if (++m->courier->budgets.n_lazy >= METERS_LAZY_MAX)
			courier_meters_hurry(m->courier);
		else if (m->courier->budgets.lazy.at_ms == 0)
			loop_set_timer(m->courier->loop, &m->courier->budgets.lazy, METER_LAZY_MS);
	}
}

/* Many at once cost little more than one: the answers come back together, too. */
void
courier_meters_hurry(struct courier *c)
{
	struct usage_found nothing = {0};
	struct meter *m, *next;

	for (m = c->budgets.meters; m != NULL && c->budgets.n_lazy > 0; m = next) {
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
	uint32_t is_found;

	if (!m->told || buf_get_u32(body, &is_found) < 0 || is_found > 1 ||
	    buf_get_str(body, &model) < 0 || strlen(model) > POLICY_MODEL_MAX ||
	    buf_get_u64(body, &found.tokens.input) < 0 || buf_get_u64(body, &found.tokens.output) < 0 ||
	    buf_get_u64(body, &found.tokens.cache_read) < 0 ||
	    buf_get_u64(body, &found.tokens.cache_write) < 0 ||
	    buf_get_u64(body, &found.text) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	found.found = is_found == 1;
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
meter_writable(struct courier *c, struct mux_stream *stream)
{
	struct meter *m = find_meter(c, stream);

	if (m != NULL)
		meter_push(m);
	return m != NULL;
}
