/* policy_behaviour.c - see policy_behaviour.h. */
#include "policy/policy_behaviour.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"

const char *
policy_behaviour_name(enum policy_behaviour_kind kind)
{
	static const char *const names[] = { "exec", "write", "read", "connect", "refused" };

	return names[kind];
}

size_t
policy_n_behaviours(const struct policy *p)
{
	size_t n = 0;

	for (; p != NULL; p = p->within)
		n += p->n_behaviours;
	return n;
}

const struct policy_behaviour *
policy_behaviour_at(const struct policy *p, size_t i)
{
	for (; p != NULL; p = p->within) {
		if (i < p->n_behaviours)
			return &p->behaviours[i];
		i -= p->n_behaviours;
	}
	return NULL;
}

const struct policy_behaviour *
policy_behaviour_find(const struct policy *p, uint64_t key)
{
	for (; p != NULL; p = p->within)
		for (size_t i = 0; i < p->n_behaviours; i++)
			if (p->behaviours[i].key == key)
				return &p->behaviours[i];
	return NULL;
}

const char *
policy_behaviour_leads(const struct policy_behaviour *rule, char ret_text[POLICY_LEADS_MAX])
{
	const struct policy_consequence *c = rule->then;
	const struct {
		bool is;
		const char *name;
	} all[] = {
		{ c->n_narrow > 0, "narrow" }, { c->revoke.n > 0, "revoke" }, { c->notify, "notify" },
		{ rule->ask, "ask" }, { c->freeze, "freeze" }, { rule->kill, "kill" },
	};
	size_t n = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].is)
			n += (size_t)snprintf(ret_text + n, POLICY_LEADS_MAX - n, "%s%s", n > 0 ? ", " : "",
			                      all[i].name);
	return ret_text;
}

struct policy_behaviour *
policy_add_behaviour(struct policy *p)
{
	if (p->behaviours == NULL)
		p->behaviours = policy_alloc(p, POLICY_BEHAVIOURS_MAX, sizeof(*p->behaviours));
	return p->behaviours == NULL || p->n_behaviours == POLICY_BEHAVIOURS_MAX ? NULL :
	       &p->behaviours[p->n_behaviours++];
}

/* As many as there are: P gets layers for them. */
static struct policy_behaviour *
add_any(struct policy *p)
{
	while (p != NULL && p->n_behaviours == POLICY_BEHAVIOURS_MAX) {
		if (p->within == NULL)
			p->within = policy_new_empty();
		p = p->within;
	}
	return p == NULL ? NULL : policy_add_behaviour(p);
}

/* ---- writing ---- */

static void
put_matcher(struct buf *b, const struct policy_behaviour *rule)
{
	buf_put_u64(b, rule->key);
	buf_put_u32(b, rule->kind);
	buf_put_u32(b, rule->memory);
	buf_put_u32(b, rule->downloaded);
	buf_put_u32(b, rule->refused);
	buf_put_u32(b, rule->stops);
	policy_put_list(b, &rule->patterns);
	buf_put_u32(b, (uint32_t)rule->n_nets);
	for (size_t i = 0; i < rule->n_nets; i++)
		policy_put_host(b, &rule->nets[i]);
}

/* The text may be cut: the hash covers all of the rule. */
uint64_t
policy_behaviour_hash(const struct policy_behaviour *rule)
{
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX);
	struct policy_consequence c = *rule->then;
	struct policy_behaviour copy = *rule;

	copy.key = 0;
	put_matcher(&b, &copy);
	policy_put_list(&b, &c.revoke);
	buf_put_u64(&b, c.meaning);
	c.meaning = policy_bytes_hash(b.data, b.len);
	return policy_consequence_hash(rule->text, &c);
}

void
policy_put_matchers(struct buf *b, const struct policy *rules)
{
	buf_put_u32(b, (uint32_t)policy_n_behaviours(rules));
	for (size_t i = 0; i < policy_n_behaviours(rules); i++)
		put_matcher(b, policy_behaviour_at(rules, i));
}

void
policy_put_behaviours(struct buf *b, const struct policy *p)
{
	uint32_t layer = 0;

	buf_put_u32(b, (uint32_t)policy_n_behaviours(p));
	for (; p != NULL; p = p->within, layer++)
		for (size_t i = 0; i < p->n_behaviours; i++) {
			const struct policy_behaviour *rule = &p->behaviours[i];

			buf_put_u32(b, layer);
			put_matcher(b, rule);
			policy_put_consequence(b, rule->then);
			buf_put_u32(b, rule->ask);
			buf_put_u32(b, rule->kill);
			buf_put_str(b, rule->reason != NULL ? rule->reason : "");
			buf_put_str(b, rule->place);
			buf_put_str(b, rule->text);
		}
}

/* ---- reading ---- */

static void
get_matcher(struct policy_getting *g, struct policy_behaviour *rule)
{
	struct policy_host *nets;

	rule->key = policy_get_u64(g);
	rule->kind = policy_get_upto(g, POLICY_BEHAVIOURS - 1);
	rule->memory = policy_get_bool(g);
	rule->downloaded = policy_get_bool(g);
	rule->refused = policy_get_bool(g);
	rule->stops = policy_get_bool(g);
	rule->patterns = policy_get_list(g, POLICY_LIST_MAX);
	rule->n_nets = policy_get_upto(g, POLICY_LIST_MAX);
	rule->nets = nets = rule->n_nets == 0 ? NULL : policy_get_room(g, rule->n_nets, sizeof(*nets));
	for (size_t i = 0; !g->bad && i < rule->n_nets; i++) {
		policy_get_host(g, &nets[i]);
		g->bad |= nets[i].kind != POLICY_HOST_NET && nets[i].kind != POLICY_HOST_ANY;
	}
	g->bad |= rule->key == 0 || ((rule->downloaded || rule->memory || rule->refused) && rule->kind != POLICY_EXEC) ||
	          (rule->n_nets > 0 && rule->kind != POLICY_CONNECT) ||
	          (rule->patterns.n == 0 && rule->n_nets == 0 && !rule->downloaded && !rule->memory && !rule->refused);
}

static void
get_rule(struct policy_getting *g, struct policy_behaviour *rule)
{
	struct policy_consequence *then;

	get_matcher(g, rule);
	rule->then = then = policy_get_room(g, 1, sizeof(*then));
	if (g->bad)
		return;
	policy_get_consequence(g, then);
	rule->ask = policy_get_bool(g);
	rule->kill = policy_get_bool(g);
	rule->reason = policy_get_text(g, POLICY_TEXT_MAX);
	rule->reason = *rule->reason != '\0' ? rule->reason : NULL;
	rule->place = policy_get_text(g, POLICY_PLACE_MAX);
	rule->text = policy_get_text(g, POLICY_RULE_TEXT_MAX);
	g->bad |= then->key != rule->key || rule->stops != (rule->ask || rule->kill || then->freeze) ||
	          !policy_behaviour_does(rule);
}

bool
policy_behaviour_does(const struct policy_behaviour *rule)
{
	const struct policy_consequence *c = rule->then;

	return c->n_narrow > 0 || c->revoke.n > 0 || c->freeze || c->notify || rule->ask || rule->kill;
}

/* LAYERS: into the layers of g->p; otherwise all of them into g->p itself. */
static void
get_behaviours(struct policy_getting *g, bool layers)
{
	struct policy *first = g->p;
	uint32_t n = policy_get_upto(g, POLICY_BEHAVIOURS_MAX * POLICY_LAYERS_MAX), last = 0;

	for (uint32_t i = 0; !g->bad && i < n; i++) {
		uint32_t layer = policy_get_upto(g, POLICY_LAYERS_MAX - 1);
		struct policy_behaviour *rule;

		g->bad |= layer < last;
		last = layer;
		g->p = first;
		for (uint32_t k = 0; layers && k < layer && g->p != NULL; k++)
			g->p = g->p->within;
		g->bad |= g->p == NULL;
		rule = g->bad ? NULL : layers ? policy_add_behaviour(g->p) : add_any(g->p);
		g->bad |= rule == NULL;
		if (!g->bad)
			get_rule(g, rule);
		/* The limit is one layer's. */
		if (!layers)
			first->n_narrows = 0;
	}
	g->p = first;
}

void
policy_get_behaviours(struct policy_getting *g)
{
	get_behaviours(g, true);
}

static int
get_alone(struct buf *b, void (*get)(struct policy_getting *g), struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = policy_new_empty();
	struct policy_getting g = { .b = b, .p = p };

	if (p == NULL)
		return err_set(err, ENOMEM, "out of memory");
	get(&g);
	if (g.bad)
		return err_set(err, EBADMSG, "the policy is not as this version writes it");
	*ret_policy = TAKE(p);
	return 0;
}

static void
get_flat(struct policy_getting *g)
{
	uint32_t format = policy_get_upto(g, UINT32_MAX);

	if (!g->bad && format == POLICY_FORMAT_WATCH) {
		get_behaviours(g, false);
		policy_get_calls(g, false);
	}
}

bool
policy_begins_with_behaviours(const unsigned char bytes[4])
{
	struct buf b;
	uint32_t format;

	buf_init_borrowed(&b, bytes, 4);
	return buf_get_u32(&b, &format) == 0 && format == POLICY_FORMAT_WATCH;
}

int
policy_get_behaviours_only(struct buf *b, struct policy **ret_policy, struct err *err)
{
	return get_alone(b, get_flat, ret_policy, err);
}

static void
get_matchers(struct policy_getting *g)
{
	uint32_t n = policy_get_upto(g, POLICY_BEHAVIOURS_MAX * POLICY_LAYERS_MAX);

	for (uint32_t i = 0; !g->bad && i < n; i++) {
		struct policy_behaviour *rule = add_any(g->p);

		g->bad |= rule == NULL;
		if (!g->bad)
			get_matcher(g, rule);
	}
	g->bad |= buf_left(g->b) != 0;
}

int
policy_get_matchers(struct buf *b, struct policy **ret_policy, struct err *err)
{
	return get_alone(b, get_matchers, ret_policy, err);
}
