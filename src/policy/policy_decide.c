/* policy_decide.c - finds the first rule that matches, without allocating memory. */
#include <string.h>

#include "policy/policy_parts.h"
#include "policy/policy_rewrite.h"

struct deciding {
	const struct policy_request *req;
	struct policy_facts facts;
	struct policy_decision *out;
	struct policy_logged *logged;
	int too_large;                  /* the first rule that only the size excludes */
	int base;                       /* number of rules in the layers before this one */
	size_t n_before;                /* entries of LOGGED from those layers */
};

static enum policy_verdict
verdict_of(const struct policy_rule *rule)
{
	return rule->verb == POLICY_VERB_ALLOW ? POLICY_ALLOW :
	       rule->verb == POLICY_VERB_ASK ? POLICY_ASK : POLICY_DENY;
}

static bool
may_use_private(const struct policy_rule *rule, const struct policy_host *host)
{
	return rule->private || (host->kind == POLICY_HOST_NAME && strcmp(host->name, POLICY_HOST_OF_MACHINE) == 0);
}

static void
settle(struct deciding *d, const struct policy_rule *rule, const struct policy_host *host,
       int index)
{
	struct policy_decision *out = d->out;

	out->verdict = verdict_of(rule);
	out->rule = d->base + index;
	out->way.rule[0] = (int16_t)index;
	out->reason = rule->reason;
	out->may_carry_secrets = rule->secrets;
	out->may_pass_placeholders = rule->placeholders;
	out->may_use_private = may_use_private(rule, host);
	out->named_bits = host->kind == POLICY_HOST_NET ? (unsigned char)host->bits : 0;
	out->must_look = out->verdict != POLICY_DENY && d->req->protocol == POLICY_HTTP &&
	                 !rule->secrets;
	out->upload_max = rule->upload_max;
	/* Do not fall through to the next rule, which might allow it without asking. */
	if (out->verdict == POLICY_ASK && d->req->protocol == POLICY_HTTP &&
	    d->req->head->length != HTTP_LENGTH_UNKNOWN && d->req->head->length > rule->upload_max) {
		out->verdict = POLICY_DENY;
		out->too_large = true;
	}
}

enum body_fit { BODY_NO, BODY_YES, BODY_ASK };

static enum body_fit
body_fits(const struct deciding *d, const struct policy_rule *rule, int index)
{
	const struct policy_request *req = d->req;
	size_t i = (size_t)d->base + (size_t)index;

	if (!policy_rule_wants_body(rule))
		return BODY_YES;
	if (rule->git.present && d->facts.git != POLICY_GIT_PUSH)
		return BODY_YES;
	if (req->body_fits != NULL)
		return i / 8 < req->n_body_fits && (req->body_fits[i / 8] >> (i % 8) & 1) != 0 ?
		       BODY_YES : BODY_NO;
	/* GraphQL may be in the query.  No other body matcher fits without a body. */
	return req->head->length == 0 && !rule->body.graphql ? BODY_NO : BODY_ASK;
}

static void
ask_for_body(struct deciding *d, const struct policy_rule *rule, const struct policy_host *host,
             int index)
{
	struct policy_decision *out = d->out;
	uint64_t held = rule->upload_said || rule->git.present || rule->call.present ? rule->upload_max :
	                                                                                POLICY_HELD_MAX;

	if (held > POLICY_INSPECTED_MAX)
		held = POLICY_INSPECTED_MAX;
	if (rule->verb != POLICY_VERB_LOG && out->rule < 0)
		settle(d, rule, host, index);
	out->needs_body = true;
	if (held > out->held_max)
		out->held_max = held;
}

static void
note_log(struct deciding *d, int index)
{
	struct policy_logged *logged = d->logged;

	if (logged == NULL || (logged->n > 0 && logged->rules[logged->n - 1] == d->base + index))
		return;
	if (logged->n - d->n_before < POLICY_LOGGED_LAYER)
		logged->rules[logged->n++] = d->base + index;
}

/* Whether this rule settles the decision. */
static bool
consider(struct deciding *d, const struct policy_rule *rule, const struct policy_host *host,
         int index)
{
	const struct policy_request *req = d->req;

	if ((rule->protocols >> req->protocol & 1) == 0 ||
	    !policy_port_fits(rule, host, req->port) ||
	    (req->protocol != POLICY_HTTP && d->facts.for_tools && rule->verb != POLICY_VERB_DENY))
		return false;
	if (req->protocol == POLICY_HTTP) {
		if (policy_head_differs(rule, &d->facts) != NULL)
			return false;
		if (rule->verb == POLICY_VERB_ALLOW && req->head->length != HTTP_LENGTH_UNKNOWN &&
		    req->head->length > rule->upload_max) {
			if (d->too_large < 0)
				d->too_large = index;
			return false;
		}
		switch (body_fits(d, rule, index)) {
		case BODY_NO:
			return false;
		case BODY_ASK:
			ask_for_body(d, rule, host, index);
			return false;
		case BODY_YES:
			break;
		}
	}
	if (rule->verb == POLICY_VERB_LOG) {
		note_log(d, index);
		return false;
	}
	if (d->out->rule < 0)
		settle(d, rule, host, index);
	return true;
}

static void
decide(const struct policy *p, struct deciding *d, struct policy_decoded *decoded)
{
	const struct policy_request *req = d->req;
	struct policy_decision *out = d->out;
	const struct policy_entry *entry;
	struct policy_walk walk;

	if (req->protocol == POLICY_HTTP)
		policy_facts_init(&d->facts, req->head, decoded);
	d->facts.for_tools = policy_is_tools_host(req->host);
	policy_walk_init(&walk, p, req->host, req->protocol == POLICY_HTTP ? &d->facts : NULL);
	while ((entry = policy_walk_next(&walk)) != NULL) {
		const struct policy_rule *rule = &p->rules[entry->rule];

		if (consider(d, rule, &rule->hosts[entry->host], entry->rule))
			break;
	}
	if (out->rule < 0 && d->too_large < 0 && p->open) {
		out->verdict = POLICY_ALLOW;
		out->may_carry_secrets = out->may_use_private = out->may_pass_placeholders = true;
		out->named_bits = POLICY_NAMED_WHOLE;
		out->upload_max = UINT64_MAX;
	}
	if (out->rule < 0 && d->too_large >= 0) {
		out->rule = d->base + d->too_large;
		out->too_large = true;
		out->upload_max = p->rules[d->too_large].upload_max;
	}
	/* A body that no rule inspects may still be held: it is compressed, or has to be signed. */
	if (!out->needs_body)
		out->held_max = out->upload_max < POLICY_INSPECTED_MAX ? out->upload_max :
		                                                         POLICY_INSPECTED_MAX;
}

__attribute__((noinline)) static void
decide_decoding(const struct policy *p, struct deciding *d)
{
	struct policy_decoded decoded;

	decide(p, d, &decoded);
}

/* Decide as if P were the only layer; only its rule numbers start at BASE. */
static void
decide_layer(const struct policy *p, const struct policy_request *req, int base,
             struct policy_decision *ret_decision, struct policy_logged *logged)
{
	struct deciding d = { .req = req, .out = ret_decision, .logged = logged, .too_large = -1,
	                      .base = base, .n_before = logged != NULL ? logged->n : 0 };

	*ret_decision = (struct policy_decision){ .rule = -1, .upload_max = POLICY_UPLOAD_MAX,
	                                          .way = {{ -1 }} };
	if (req->protocol == POLICY_HTTP && policy_wants_decoded(req->head))
		decide_decoding(p, &d);
	else
		decide(p, &d, NULL);
}

/* ---- layers ---- */

/* Denied for good: no body can change the verdict. */
static bool
is_denied(const struct policy_decision *d)
{
	return d->verdict == POLICY_DENY && !d->needs_body;
}

static int
strictness(enum policy_verdict verdict)
{
	return verdict == POLICY_DENY ? 2 : verdict == POLICY_ASK ? 1 : 0;
}

/* Neither layer denies yet: keep only what both permit. */
static void
narrow(struct policy_decision *out, const struct policy_decision *outer)
{
	/* A layer that needs no body must not limit how much is held for a layer that does. */
	if (outer->needs_body == out->needs_body ? outer->held_max < out->held_max
	                                         : outer->needs_body)
		out->held_max = outer->held_max;
	if (strictness(outer->verdict) > strictness(out->verdict)) {
		out->verdict = outer->verdict;
		out->rule = outer->rule;
		out->layer = outer->layer;
		out->reason = outer->reason;
		out->too_large = outer->too_large;
	}
	out->needs_body |= outer->needs_body;
	out->must_look |= outer->must_look;
	out->may_carry_secrets &= outer->may_carry_secrets;
	out->may_pass_placeholders &= outer->may_pass_placeholders;
	out->may_use_private &= outer->may_use_private;
	if (outer->named_bits < out->named_bits)
		out->named_bits = outer->named_bits;
	if (outer->upload_max < out->upload_max)
		out->upload_max = outer->upload_max;
}

/* Add to OUT, the decision of layers before, the decisions of P, the layer LAYER, and of all layers
 * around it.  If several layers refuse equally, the nearest one is named: its reason was written
 * for this agent. */
__attribute__((noinline)) static void
decide_outer(const struct policy *p, unsigned layer, int base, const struct policy_request *req,
             struct policy_decision *out, struct policy_logged *logged)
{
	for (; p != NULL; base += (int)p->n_rules, p = p->within, layer++) {
		struct policy_way way = out->way;
		struct policy_decision outer;

		decide_layer(p, req, base, &outer, logged);
		outer.layer = layer;
		way.rule[layer] = outer.way.rule[0];
		if (is_denied(&outer) && !is_denied(out))
			*out = outer;
		else if (!is_denied(out))
			narrow(out, &outer);
		out->way = way;
	}
}

void
policy_decide(const struct policy *p, const struct policy_request *req,
              struct policy_decision *ret_decision, struct policy_logged *ret_logged)
{
	if (ret_logged != NULL)
		ret_logged->n = 0;
	decide_layer(p, req, 0, ret_decision, ret_logged);
	if (p->within != NULL)
		decide_outer(p->within, 1, (int)p->n_rules, req, ret_decision, ret_logged);
}

static void
join_inner(struct policy_decision *d, const struct policy_decision *inner, unsigned n)
{
	memcpy(d->way.rule, inner->way.rule, n * sizeof(d->way.rule[0]));
	d->may_carry_secrets &= inner->may_carry_secrets;
	d->may_pass_placeholders &= inner->may_pass_placeholders;
	d->may_use_private &= inner->may_use_private;
	d->named_bits = inner->named_bits < d->named_bits ? inner->named_bits : d->named_bits;
	d->must_look |= inner->must_look;
	d->upload_max = inner->upload_max < d->upload_max ? inner->upload_max : d->upload_max;
	d->held_max = inner->held_max < d->held_max ? inner->held_max : d->held_max;
	if (d->verdict != POLICY_ALLOW)
		return;
	/* The inner layers have decided, if the outer ones have nothing against it. */
	d->verdict = inner->verdict;
	d->rule = inner->rule;
	d->layer = inner->layer;
	d->reason = inner->reason;
}

void
policy_decide_outside(const struct policy *p, unsigned n, const struct policy_request *req,
                      const struct policy_decision *inner, struct policy_decision *ret_decision)
{
	/* The layers inside have nothing against it. */
	struct policy_decision out = { .verdict = POLICY_ALLOW, .rule = -1, .may_carry_secrets = true,
	                               .may_pass_placeholders = true, .may_use_private = true, .named_bits = POLICY_NAMED_WHOLE,
	                               .upload_max = UINT64_MAX, .held_max = POLICY_INSPECTED_MAX };
	unsigned layer = 0;
	int base = 0;

	for (size_t i = 0; i < POLICY_LAYERS_MAX; i++)
		out.way.rule[i] = -1;
	for (; p != NULL && layer < n; base += (int)p->n_rules, p = p->within)
		layer++;
	decide_outer(p, layer, base, req, &out, NULL);
	join_inner(&out, inner, n);
	*ret_decision = out;
}

/* ---- before there is a request ---- */

static bool
layer_mentions_host(const struct policy *p, const char *host)
{
	struct policy_walk walk;
	const struct policy_entry *entry;

	policy_walk_init(&walk, p, host, NULL);
	while ((entry = policy_walk_next(&walk)) != NULL) {
		const struct policy_rule *rule = &p->rules[entry->rule];

		/* A denied request gets the rule's reason in its response, so the agent must be
		 * able to make it.  The same holds for a rule with a consequence. */
		if (rule->verb == POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ASK ||
		    (rule->verb == POLICY_VERB_DENY && (rule->reason != NULL || rule->then != NULL)))
			return true;
	}
	return false;
}

bool
policy_mentions_host(const struct policy *p, const char *host)
{
	while (p != NULL && (p->open || layer_mentions_host(p, host)))
		p = p->within;
	return p == NULL;
}

static enum policy_route
layer_route(const struct policy *p, const char *host, uint16_t port)
{
	struct policy_walk walk;
	const struct policy_entry *entry;

	policy_walk_init(&walk, p, host, NULL);
	while ((entry = policy_walk_next(&walk)) != NULL) {
		const struct policy_rule *rule = &p->rules[entry->rule];

		if (rule->verb == POLICY_VERB_LOG ||
		    !policy_port_fits(rule, &rule->hosts[entry->host], port))
			continue;
		if (rule->verb == POLICY_VERB_DENY && rule->protocols == POLICY_ANY_PROTOCOL)
			return POLICY_ROUTE_NONE;
		return rule->protocols == 1u << POLICY_TCP ? POLICY_ROUTE_TCP :
		       rule->protocols == 1u << POLICY_TLS ? POLICY_ROUTE_TLS : POLICY_ROUTE_HTTP;
	}
	return POLICY_ROUTE_NONE;
}

enum policy_route
policy_route(const struct policy *p, const char *host, uint16_t port)
{
	enum policy_route route = layer_route(p, host, port);

	while ((p = p->within) != NULL && route != POLICY_ROUTE_NONE)
		if (!p->open && layer_route(p, host, port) != route)
			route = POLICY_ROUTE_NONE;
	return route;
}

static int
layer_denies_address(const struct policy *p, int before, const char *address, uint16_t port)
{
	struct policy_walk walk;
	const struct policy_entry *entry;

	policy_walk_init(&walk, p, address, NULL);
	while (walk.is_address && (entry = policy_walk_next(&walk)) != NULL) {
		const struct policy_rule *rule = &p->rules[entry->rule];

		if (before >= 0 && entry->rule >= before)
			break;
		/* A rule about requests is decided when there is a request. */
		if (rule->verb == POLICY_VERB_DENY && rule->protocols == POLICY_ANY_PROTOCOL &&
		    policy_port_fits(rule, &rule->hosts[entry->host], port))
			return entry->rule;
	}
	return -1;
}

int
policy_denies_address(const struct policy *p, const struct policy_way *way, const char *address,
                      uint16_t port)
{
	int base = 0, rule;

	for (size_t layer = 0; p != NULL; base += (int)p->n_rules, p = p->within, layer++) {
		rule = layer_denies_address(p, way->rule[layer], address, port);
		if (rule >= 0)
			return base + rule;
	}
	return -1;
}
