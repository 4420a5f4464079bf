/* consequence.c - see consequence.h. */
#include "egress/consequence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/ipc.h"

static int
add_layer(struct policy *p, const struct buf *encoded, struct err *err)
{
	OWN(policy_freep) struct policy *layer = NULL;
	struct buf b;
	int r;

	buf_init_borrowed(&b, encoded->data, encoded->len);
	r = policy_get(&b, &layer, err);
	return r < 0 ? r : policy_within(p, &layer, err);
}

int
courier_narrow_again(struct courier *c, struct policy *policy, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < c->fires.n; i++)
		if (c->fires.at[i].narrow.len > 0)
			r = add_layer(policy, &c->fires.at[i].narrow, err);
	return r;
}

void
courier_fires_free(struct courier *c)
{
	while (c->fires.n > 0)
		buf_free(&c->fires.at[--c->fires.n].narrow);
}

static bool
is_fired(const struct courier *c, uint64_t key)
{
	for (size_t i = 0; i < c->fires.n; i++)
		if (c->fires.at[i].key == key)
			return true;
	return false;
}

/* Once: its layer is in force from here on. */
static int
fire(struct courier *c, uint64_t key, const void *narrow, size_t len, struct err *err)
{
	struct fires *f = &c->fires;
	int r;

	if (f->n == FIRED_MAX)
		return err_set(err, ENOSPC, "more than %d rules have led to something", FIRED_MAX);
	buf_init(&f->at[f->n].narrow, POLICY_NARROW_MAX);
	buf_put(&f->at[f->n].narrow, narrow, len);
	r = buf_failed(&f->at[f->n].narrow) ? err_set(err, ENOMEM, "there is no memory") :
	    len > 0 ? courier_narrow(c, narrow, len, err) : 0;
	if (r < 0) {
		buf_free(&f->at[f->n].narrow);
		return r;
	}
	f->at[f->n++].key = key;
	return 0;
}

/* ---- reports ---- */

static void
put_cut(struct buf *b, const char *text)
{
	char cut[COURIER_FIRED_TEXT + 1];

	snprintf(cut, sizeof(cut), "%.*s", COURIER_FIRED_TEXT, text);
	buf_put_str(b, cut);
}

static void
tell(struct exchange *ex, int rule, const struct policy_consequence *q, const char *why, bool again)
{
	const struct policy *p = ex->policy->policy;
	char what[HTTP_HOST_MAX + 64];
	struct buf message;
	const void *narrow;
	size_t len, n = 0;

	if (ex->kind == EXCHANGE_HTTP)
		snprintf(what, sizeof(what), "%.*s %s", ex->t.method.len < 32 ? (int)ex->t.method.len : 32,
		         ex->t.method.at, ex->host);
	else
		snprintf(what, sizeof(what), "%s:%u", ex->host, ex->t.port);
	ipc_begin(&message, COURIER_FIRED);
	buf_put_u64(&message, policy_consequence_key(q));
	buf_put_u32(&message, (policy_consequence_freezes(q) ? COURIER_FIRED_FREEZE : 0) |
	                      (policy_consequence_notifies(q) ? COURIER_FIRED_NOTIFY : 0) |
	                      (again ? COURIER_FIRED_AGAIN : 0));
	put_cut(&message, policy_rule_place(p, rule));
	put_cut(&message, policy_rule_text(p, rule));
	put_cut(&message, what);
	put_cut(&message, why);
	while (policy_consequence_revokes(q, n) != NULL)
		n++;
	buf_put_u32(&message, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_cut(&message, policy_consequence_revokes(q, i));
	narrow = policy_consequence_narrow(q, &len);
	buf_put_u32(&message, again ? 0 : (uint32_t)len);
	buf_put(&message, narrow, again ? 0 : len);
	courier_say(ex->courier, &message);
	courier_say_all(ex->courier);
}

/* ---- consequences ---- */

static int
fire_rule(struct exchange *ex, int rule, struct err *err)
{
	const struct policy_consequence *q = policy_consequence(ex->policy->policy, rule);
	struct courier *c = ex->courier;
	char why[SECRETS_WHY_MAX];
	const void *narrow;
	const char *name;
	bool again;
	size_t len;
	int r = 0;

	if (q == NULL)
		return 0;
	again = is_fired(c, policy_consequence_key(q));
	narrow = policy_consequence_narrow(q, &len);
	if (again && !policy_consequence_freezes(q) && !policy_consequence_notifies(q))
		return 0;
	if (!again)
		r = fire(c, policy_consequence_key(q), narrow, len, err);
	if (r < 0)
		return r;
	snprintf(why, sizeof(why), "a request to %.100s led to that", ex->host);
	for (size_t i = 0; !again && (name = policy_consequence_revokes(q, i)) != NULL; i++)
		/* A secret that the cell does not have needs no revocation. */
		(void)courier_revoke(c, name, why, false, ex, NULL);
	tell(ex, rule, q, why, again);
	/* An exchange that began earlier could send out what EX brings in. */
	if (!again && len > 0)
		courier_decide_what_sends(c, ex);
	return 0;
}

enum stage_answer
stage_consequence(struct exchange *ex)
{
	return exchange_apply_consequences(ex) ? STAGE_CONTINUE : STAGE_REFUSE;
}

bool
exchange_apply_consequences(struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	struct courier_policy *p = ex->policy;
	struct err err = {0};
	int r = 0;

	if (ex->consequence.fired || ex->learned || !p->fires)
		return true;
	ex->consequence.fired = true;
	for (size_t i = 0; r == 0 && i < ex->logged.n; i++)
		r = fire_rule(ex, ex->logged.rules[i], &err);
	if (r == 0 && d->verdict == POLICY_DENY)
		r = fire_rule(ex, d->rule, &err);
	for (unsigned i = 0; r == 0 && d->verdict != POLICY_DENY && i < POLICY_LAYERS_MAX; i++)
		r = fire_rule(ex, policy_way_rule(p->policy, &d->way, i), &err);
	if (r == 0)
		return true;
	snprintf(ex->note, sizeof(ex->note), "what the rule leads to cannot be: %.200s", err.text);
	exchange_refuse(ex, "consequence", ex->note);
	return false;
}

/* At the start: the consequence was caused under a former courier.  Later: by what a process of the cell did. */
int
courier_take_fired(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	struct buf *b = &message->body;
	uint64_t key;
	uint32_t len;

	int r;

	(void)number;
	if (message->n_fds != 0 || buf_get_u64(b, &key) < 0 || key == 0 ||
	    buf_get_u32(b, &len) < 0 || buf_left(b) != len || len > POLICY_NARROW_MAX || is_fired(c, key))
		return -EBADMSG;
	r = fire(c, key, b->data + b->pos, len, err);
	if (r == 0 && len > 0)
		courier_decide_what_sends(c, NULL);
	return r;
}
