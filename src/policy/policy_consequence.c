/* policy_consequence.c - implements policy_consequence.h, and encodes consequences and tripwires. */
#include "policy/policy_consequence.h"

#include <string.h>

#include "base/own.h"
#include "policy/policy_calls.h"
#include "policy/policy_parts.h"

const struct policy_consequence *
policy_consequence(const struct policy *p, int rule)
{
	for (; p != NULL && rule >= 0; p = p->within) {
		if ((size_t)rule < p->n_rules)
			return p->rules[rule].then;
		rule -= (int)p->n_rules;
	}
	return NULL;
}

uint64_t
policy_consequence_key(const struct policy_consequence *c)
{
	return c->key;
}

const void *
policy_consequence_narrow(const struct policy_consequence *c, size_t *ret_len)
{
	*ret_len = c->n_narrow;
	return c->narrow;
}

const char *
policy_consequence_revokes(const struct policy_consequence *c, size_t i)
{
	return i < c->revoke.n ? c->revoke.at[i] : NULL;
}

bool
policy_consequence_freezes(const struct policy_consequence *c)
{
	return c->freeze;
}

bool
policy_consequence_notifies(const struct policy_consequence *c)
{
	return c->notify;
}

const char *
policy_trip_name(enum policy_trip trip)
{
	static const char *const names[] = { "", "notify", "refuse", "freeze", "kill", "rollback" };

	return names[trip];
}

static bool
says_nothing(const struct policy_tripwires *t)
{
	return t->credential == POLICY_TRIP_UNSAID && t->transfer.then == POLICY_TRIP_UNSAID &&
	       t->refusals.then == POLICY_TRIP_UNSAID;
}

const struct policy_tripwires *
policy_tripwires(const struct policy *p)
{
	return says_nothing(&p->tripwires) ? NULL : &p->tripwires;
}

bool
policy_leads_on(const struct policy *p)
{
	while (p != NULL && p->n_consequences == 0)
		p = p->within;
	return p != NULL;
}

bool
policy_has_tripwires(const struct policy *p)
{
	while (p != NULL && policy_tripwires(p) == NULL)
		p = p->within;
	return p != NULL;
}

bool
policy_has_consequences(const struct policy *p)
{
	return p->open || p->n_consequences > 0 || policy_tripwires(p) != NULL;
}

static uint64_t
hash_more(uint64_t hash, const void *data, size_t len)
{
	for (const unsigned char *at = data; len > 0; at++, len--)
		hash = (hash ^ *at) * 0x100000001b3u;
	return hash;
}

uint64_t
policy_bytes_hash(const void *data, size_t len)
{
	return hash_more(0xcbf29ce484222325u, data, len);
}

/* Hashes the text, which stays the same when the rule moves in a newer version of the file. */
uint64_t
policy_consequence_hash(const char *text, const struct policy_consequence *c)
{
	uint64_t hash = hash_more(0xcbf29ce484222325u, text, strlen(text));

	hash = hash_more(hash, &c->meaning, sizeof(c->meaning));
	return hash != 0 ? hash : 1;
}

uint64_t
policy_narrow_hash(const struct policy *narrow)
{
	OWN(buf_free) struct buf b = BUF(POLICY_NARROW_MAX);

	for (size_t i = 0; i < narrow->n_rules; i++)
		policy_put_meaning(&b, narrow, (int)i);
	return hash_more(narrow->open ? 1 : 2, b.data, b.len);
}

/* ---- writing ---- */

void
policy_put_consequence(struct buf *b, const struct policy_consequence *c)
{
	buf_put_u32(b, (uint32_t)c->n_narrow);
	buf_put(b, c->narrow, c->n_narrow);
	policy_put_list(b, &c->revoke);
	buf_put_u32(b, c->freeze);
	buf_put_u32(b, c->notify);
	buf_put_u64(b, c->key);
}

void
policy_put_consequences(struct buf *b, const struct policy *p)
{
	const struct policy_tripwires *t = &p->tripwires;

	buf_put_u32(b, p->open);
	buf_put_u32(b, (uint32_t)p->n_consequences);
	for (size_t i = 0; i < p->n_rules; i++) {
		if (p->rules[i].then == NULL)
			continue;
		buf_put_u32(b, (uint32_t)i);
		policy_put_consequence(b, p->rules[i].then);
	}
	buf_put_u32(b, t->credential);
	buf_put_u32(b, t->transfer.then);
	buf_put_u64(b, t->transfer.times);
	buf_put_u64(b, t->transfer.least);
	buf_put_u32(b, t->refusals.then);
	buf_put_u64(b, t->refusals.count);
	buf_put_u64(b, t->refusals.within_ms);
}

/* ---- reading ---- */

/* A valid narrowing is one layer without consequences of its own. */
static bool
is_narrow(const unsigned char *at, size_t len)
{
	OWN(policy_freep) struct policy *p = NULL;
	static _Thread_local bool inside;
	struct buf b;
	int r;

	/* Our writer never nests one narrowing in another. */
	if (inside)
		return false;
	buf_init_borrowed(&b, at, len);
	inside = true;
	r = policy_get(&b, &p, NULL);
	inside = false;
	return r == 0 && buf_left(&b) == 0 && p->within == NULL &&
	       p->n_consequences == 0 && p->n_behaviours == 0 && !policy_narrows_calls(p) && policy_tripwires(p) == NULL &&
	       !policy_has_budgets(p);
}

void
policy_get_consequence(struct policy_getting *g, struct policy_consequence *c)
{
	unsigned char *narrow;

	c->n_narrow = policy_get_upto(g, POLICY_NARROW_MAX);
	if (!g->bad && c->n_narrow > 0) {
		narrow = policy_alloc(g->p, c->n_narrow, 1);
		g->bad |= narrow == NULL || buf_left(g->b) < c->n_narrow;
		if (!g->bad) {
			memcpy(narrow, g->b->data + g->b->pos, c->n_narrow);
			g->b->pos += c->n_narrow;
			g->bad |= !is_narrow(narrow, c->n_narrow);
		}
		c->narrow = narrow;
		g->bad |= ++g->p->n_narrows > POLICY_NARROWS_MAX;
	}
	c->revoke = policy_get_list(g, POLICY_REVOKES_MAX);
	c->freeze = policy_get_upto(g, 1) != 0;
	c->notify = policy_get_upto(g, 1) != 0;
	c->key = policy_get_u64(g);
	g->bad |= c->key == 0;
}

static void
get_tripwires(struct policy_getting *g)
{
	struct policy_tripwires *t = &g->p->tripwires;

	t->credential = policy_get_upto(g, POLICY_TRIPS - 1);
	t->transfer.then = policy_get_upto(g, POLICY_TRIPS - 1);
	t->transfer.times = policy_get_u64(g);
	t->transfer.least = policy_get_u64(g);
	t->refusals.then = policy_get_upto(g, POLICY_TRIPS - 1);
	t->refusals.count = policy_get_u64(g);
	t->refusals.within_ms = policy_get_u64(g);
	g->bad |= t->refusals.count > POLICY_REFUSALS_MAX ||
	          (t->refusals.then != POLICY_TRIP_UNSAID) != (t->refusals.count > 0) ||
	          (t->transfer.then != POLICY_TRIP_UNSAID) != (t->transfer.times > 0);
}

void
policy_get_consequences(struct policy_getting *g)
{
	struct policy *p = g->p;
	uint32_t n, next = 0;

	p->open = policy_get_upto(g, 1) != 0;
	n = policy_get_upto(g, POLICY_CONSEQUENCES_MAX);
	for (uint32_t i = 0; !g->bad && i < n; i++) {
		uint32_t at = policy_get_upto(g, POLICY_RULES_MAX - 1);
		struct policy_consequence *c = policy_alloc(p, 1, sizeof(*c));

		if (g->bad || c == NULL || at < next || at >= p->n_rules) {
			g->bad = true;
			return;
		}
		next = at + 1;
		policy_get_consequence(g, c);
		g->bad |= c->n_narrow == 0 && c->revoke.n == 0 && !c->freeze && !c->notify;
		p->rules[at].then = c;
		p->n_consequences++;
	}
	get_tripwires(g);
}
