/* tools_reverse.c - questions of servers to the agent: sampling, elicitation, roots. */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "proc/tools/tools_worker.h"

#define TIME_MS (10 * 60 * 1000)        /* a person may have to answer */

struct reverse {
	struct reverse *next;
	struct session *session;
	struct instance *instance;
	json_t *id;                     /* the server's */
	uint64_t number;                /* ours */
	struct loop_timer late;
};

/* Which ability of the client a question needs. */
static const struct {
	const char *method, *ability;
	bool any_time;                  /* else only while the server works for the agent */
	bool is_plain;                  /* it takes no words of the server's to the agent */
} questions[] = {
	{ "sampling/createMessage", "sampling", false, false },
	{ "elicitation/create", "elicitation", false, false },
	{ "roots/list", "roots", true, true },
};

static void
reverse_free(struct reverse *r)
{
	struct reverse **at = &r->session->reverses;

	loop_cancel_timer(gateway_loop, &r->late);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	json_decref(r->id);
	free(r);
}

static void
refuse(struct instance *i, json_t *id, int code, const char *why)
{
	instance_send(i, jsonrpc_error(id, code, "%s", why));
}

static void
late(void *arg)
{
	struct reverse *r = arg;

	refuse(r->instance, r->id, GATEWAY_FAILED, "the client did not answer in time");
	reverse_free(r);
}

size_t
reverse_count(const struct instance *i)
{
	size_t n = 0;

	if (i->session != NULL)
		for (const struct reverse *r = i->session->reverses; r != NULL; r = r->next)
			n += r->instance == i;
	return n;
}

/* The call that the server works for: the last one, if there are several. */
static struct call *
call_of(const struct instance *i)
{
	for (const struct ask *a = i->asks; a != NULL; a = a->next)
		if (a->call != NULL && a->params == NULL)
			return a->call;
	return NULL;
}

/* Why the question may not be asked, or NULL. */
static const char *
objection(struct instance *i, const struct jsonrpc *m, size_t which, struct call *c, int *ret_code)
{
	*ret_code = JSONRPC_NO_METHOD;
	if (json_object_get(i->session->abilities, questions[which].ability) == NULL)
		return "the client cannot do this";
	if (!questions[which].is_plain && result_is_withheld(m->root)) {
		gateway_record(i->server, i->cell, "withheld", c != NULL ? c->tool : NULL, m->method);
		return "a person would have to see this first";
	}
	*ret_code = GATEWAY_BUSY;
	if (reverse_count(i) >= GATEWAY_REVERSE_MAX || (c != NULL && c->n_reverse >= GATEWAY_REVERSE_CALL_MAX)) {
		gateway_record(i->server, i->cell, "refused", c != NULL ? c->tool : NULL, m->method);
		return "the server asks too much";
	}
	if (c == NULL && (!questions[which].any_time || i->session->listener == NULL))
		return "nobody waits for this server";
	return NULL;
}

/* NUMBER is its id. */
static json_t *
question_of(const struct jsonrpc *m, size_t which, uint64_t number)
{
	if (questions[which].is_plain)
		return json_pack("{s:s, s:I, s:s}", "jsonrpc", "2.0", "id", (json_int_t)number, "method", questions[which].method);
	(void)json_object_set_new(m->root, "id", json_integer((json_int_t)number));
	return json_incref(m->root);
}

static void
pass_on(struct instance *i, const struct jsonrpc *m, size_t which, struct call *c)
{
	struct session *s = i->session;
	struct reverse *r = calloc(1, sizeof(*r));
	struct channel *channel = c != NULL ? c->channel : s->listener;

	if (r == NULL) {
		refuse(i, m->id, GATEWAY_FAILED, "out of memory");
		return;
	}
	*r = (struct reverse){ .next = s->reverses, .session = s, .instance = i, .id = json_incref(m->id),
	                       .number = ++s->n_reverse, .late = { .due = late, .arg = r } };
	s->reverses = r;
	loop_set_timer(gateway_loop, &r->late, TIME_MS);
	if (c != NULL) {
		c->n_reverse++;
		/* The server waits for the agent now, not the agent for the server. */
		if (c->ask != NULL)
			ask_renew(c->ask, TIME_MS + call_time(c));
	}
	(void)channel_send(channel, question_of(m, which, r->number));
}

void
reverse_ask(struct instance *i, const struct jsonrpc *m)
{
	struct call *c = call_of(i);
	const char *why;
	int code;

	if (strcmp(m->method, "ping") == 0) {
		instance_send(i, jsonrpc_result(m->id, json_object()));
		return;
	}
	for (size_t n = 0; i->session != NULL && n < ARRAY_LEN(questions); n++) {
		if (strcmp(m->method, questions[n].method) != 0)
			continue;
		why = objection(i, m, n, c, &code);
		if (why != NULL)
			refuse(i, m->id, code, why);
		else
			pass_on(i, m, n, c);
		return;
	}
	refuse(i, m->id, JSONRPC_NO_METHOD, "there is no such method");
}

static struct reverse *
find(const struct session *s, const json_t *id)
{
	for (struct reverse *r = s->reverses; r != NULL; r = r->next)
		if (json_is_integer(id) && (json_int_t)r->number == json_integer_value(id))
			return r;
	return NULL;
}

void
reverse_answer(struct session *s, const struct jsonrpc *m)
{
	struct reverse *r = find(s, m->id);
	struct call *c;

	if (r == NULL)
		return;
	c = call_of(r->instance);
	if (c != NULL && c->ask != NULL)
		ask_renew(c->ask, call_time(c));
	(void)json_object_set(m->root, "id", r->id);
	instance_send(r->instance, json_incref(m->root));
	reverse_free(r);
}

void
reverse_cancel(struct instance *i, json_t *id, const char *reason)
{
	for (struct reverse *r = i->session->reverses; r != NULL; r = r->next) {
		if (r->instance != i || !json_equal(r->id, id))
			continue;
		gateway_session_tell(i->session, i, jsonrpc_notification("notifications/cancelled", json_pack("{s:I, s:s*}",
			"requestId", (json_int_t)r->number, "reason", reason)));
		reverse_free(r);
		return;
	}
}

void
reverse_drop_instance(struct instance *i)
{
	struct reverse *r, *next;

	for (r = i->session != NULL ? i->session->reverses : NULL; r != NULL; r = next) {
		next = r->next;
		if (r->instance == i)
			reverse_free(r);
	}
}
