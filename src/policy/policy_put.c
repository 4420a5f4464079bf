/* policy_put.c - encodes a policy as a message, from the process that loads it to the one that
 * decides. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_calls.h"
#include "policy/policy_parts.h"
#include "policy/policy_tools_parts.h"

/* These numbers change with the format.  Vaults store policies too.  A policy without layers,
 * principals or approvals therefore keeps the oldest encoding, and only a policy that has a key
 * with a `has` in policy_table.h gets the newest. */
#define FORMAT_PLAIN 0x706f6c32u
#define FORMAT 0x706f6c35u
#define FORMAT_ADDED 0x706f6c36u

/* ---- writing ---- */

void
policy_put_host(struct buf *b, const struct policy_host *host)
{
	uint64_t halves[2];

	memcpy(halves, host->address, sizeof(halves));
	buf_put_u32(b, host->kind);
	buf_put_str(b, host->name);
	buf_put_u64(b, halves[0]);
	buf_put_u64(b, halves[1]);
	buf_put_u32(b, host->bits);
	buf_put_u32(b, host->port);
}

static void
put_rule(struct buf *b, const struct policy_rule *rule, uint32_t format)
{
	bool plain = format == FORMAT_PLAIN;

	buf_put_u32(b, rule->verb);
	buf_put_u32(b, rule->protocols);
	buf_put_u32(b, (uint32_t)rule->n_hosts);
	for (size_t i = 0; i < rule->n_hosts; i++)
		policy_put_host(b, &rule->hosts[i]);
	buf_put_u32(b, (uint32_t)rule->n_ports);
	for (size_t i = 0; i < rule->n_ports; i++) {
		buf_put_u32(b, rule->ports[i].first);
		buf_put_u32(b, rule->ports[i].last);
	}
	policy_put_keys(b, rule, plain);
	if (!plain) {
		buf_put_u32(b, rule->off);
		policy_put_ask(b, rule);
	}
	if (format == FORMAT_ADDED)
		policy_put_added(b, rule);
	buf_put_str(b, rule->reason != NULL ? rule->reason : "");
	buf_put_str(b, rule->place);
	buf_put_str(b, rule->text);
}

void
policy_put_meaning(struct buf *b, const struct policy *p, int rule)
{
	struct policy_rule copy = *policy_rule_at(p, (size_t)rule);

	copy.place = copy.text = "";
	copy.off = POLICY_ON;
	put_rule(b, &copy, policy_n_added(&copy) > 0 ? FORMAT_ADDED : FORMAT);
	buf_put_u64(b, copy.then != NULL ? copy.then->key : 0);
}

static uint32_t
format_of(const struct policy *p)
{
	uint32_t format = FORMAT_PLAIN;

	if (p->within != NULL)
		format = FORMAT;
	for (; p != NULL; p = p->within) {
		if (policy_has_budgets(p) || policy_has_consequences(p))
			format = format == FORMAT_PLAIN ? FORMAT : format;
		for (size_t i = 0; i < p->n_rules; i++) {
			const struct policy_rule *rule = &p->rules[i];

			if (policy_n_added(rule) > 0)
				return FORMAT_ADDED;
			if (rule->principals.n > 0 || rule->chains.n > 0 || !policy_ask_is_default(rule))
				format = FORMAT;
		}
	}
	return format;
}

void
policy_put(struct buf *b, const struct policy *p)
{
	uint32_t format = format_of(p);
	size_t layers = 0;

	if (policy_n_behaviours(p) > 0 || policy_narrows_calls(p)) {
		buf_put_u32(b, POLICY_FORMAT_WATCH);
		policy_put_behaviours(b, p);
		policy_put_calls(b, p);
	}
	if (policy_has_tools(p)) {
		buf_put_u32(b, POLICY_FORMAT_TOOLS);
		policy_put_tools(b, p);
	}
	for (const struct policy *at = p; at != NULL; at = at->within)
		layers++;
	buf_put_u32(b, format);
	if (format != FORMAT_PLAIN)
		buf_put_u32(b, (uint32_t)layers);
	for (; p != NULL; p = p->within) {
		buf_put_u32(b, (uint32_t)p->n_rules);
		for (size_t i = 0; i < p->n_rules; i++)
			put_rule(b, &p->rules[i], format);
		if (format == FORMAT_PLAIN)
			continue;
		policy_put_budgets(b, p);
		policy_put_consequences(b, p);
	}
}

/* ---- reading: after the first error, BAD stays set and is checked once ---- */

static bool
is_name(const char *name)
{
	return *name != '\0' && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(name);
}

void
policy_get_host(struct policy_getting *g, struct policy_host *host)
{
	uint64_t halves[2];

	host->kind = policy_get_upto(g, POLICY_HOST_KINDS - 1);
	host->name = policy_get_text(g, HTTP_HOST_MAX);
	halves[0] = policy_get_u64(g);
	halves[1] = policy_get_u64(g);
	memcpy(host->address, halves, sizeof(host->address));
	host->bits = (uint8_t)policy_get_upto(g, 128);
	host->port = (uint16_t)policy_get_upto(g, UINT16_MAX);
	if (host->kind == POLICY_HOST_ANY || host->kind == POLICY_HOST_NET)
		g->bad |= *host->name != '\0';
	else
		g->bad |= !is_name(host->name);
}

static void
get_where(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_host *hosts;
	struct policy_ports *ports;

	rule->n_hosts = policy_get_upto(g, POLICY_LIST_MAX);
	rule->hosts = hosts = policy_get_room(g, rule->n_hosts, sizeof(*hosts));
	for (size_t i = 0; !g->bad && i < rule->n_hosts; i++)
		policy_get_host(g, &hosts[i]);
	rule->n_ports = policy_get_upto(g, POLICY_LIST_MAX);
	rule->ports = ports = policy_get_room(g, rule->n_ports, sizeof(*ports));
	for (size_t i = 0; !g->bad && i < rule->n_ports; i++) {
		ports[i].first = (uint16_t)policy_get_upto(g, UINT16_MAX);
		ports[i].last = (uint16_t)policy_get_upto(g, UINT16_MAX);
		g->bad |= ports[i].first == 0 || ports[i].first > ports[i].last;
	}
	g->bad |= rule->n_hosts == 0;
}

static void
get_rule(struct policy_getting *g, struct policy_rule *rule, uint32_t format)
{
	bool plain = format == FORMAT_PLAIN;

	rule->verb = policy_get_upto(g, POLICY_VERBS - 1);
	rule->protocols = policy_get_upto(g, POLICY_ANY_PROTOCOL);
	get_where(g, rule);
	policy_get_keys(g, rule, plain);
	if (!plain) {
		rule->off = policy_get_upto(g, POLICY_OFFS - 1);
		policy_get_ask(g, rule);
	}
	policy_ask_default(rule);
	if (format == FORMAT_ADDED)
		policy_get_added(g, rule);
	rule->reason = policy_get_text(g, POLICY_TEXT_MAX);
	rule->reason = *rule->reason != '\0' ? rule->reason : NULL;
	rule->place = policy_get_text(g, POLICY_PLACE_MAX);
	rule->text = policy_get_text(g, POLICY_RULE_TEXT_MAX);
	g->bad |= (rule->off == POLICY_OFF_PRINCIPAL && rule->principals.n == 0) ||
	          (rule->off == POLICY_OFF_CHAIN && rule->chains.n == 0);
	g->bad |= rule->protocols == 0;
}

static int
get_layer(struct buf *b, uint32_t format, struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = policy_new_empty();
	struct policy_getting g = { .b = b, .p = p };
	struct policy_rule *rule;
	uint32_t n;
	int r;

	if (p == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = policy_get_upto(&g, POLICY_RULES_MAX);
	for (uint32_t i = 0; !g.bad && i < n; i++) {
		rule = policy_add_rule(p);
		if (rule == NULL)
			return err_set(err, ENOMEM, "out of memory");
		get_rule(&g, rule, format);
	}
	if (format != FORMAT_PLAIN) {
		policy_get_budgets(&g);
		policy_get_consequences(&g);
	}
	if (g.bad)
		return err_set(err, EBADMSG, "the policy is not as this version writes it");
	r = policy_seal(p, err);
	if (r == 0)
		*ret_policy = TAKE(p);
	return r;
}

/* They stand in front of the layers that they belong to: skip them, and read them into the layers afterwards. */
static int
skip_behaviours(struct buf *b, struct err *err)
{
	OWN(policy_freep) struct policy *none = NULL;
	int r = policy_get_behaviours_only(b, &none, err);

	return r == 0 && policy_n_behaviours(none) == 0 && !policy_narrows_calls(none) ?
	       err_set(err, EBADMSG, "the policy is not as this version writes it") : r;
}

static int
skip_tools(struct buf *b, struct err *err)
{
	OWN(policy_freep) struct policy *none = policy_new_empty();
	struct policy_getting g = { .b = b, .p = none };

	if (none == NULL)
		return err_set(err, ENOMEM, "out of memory");
	policy_get_tools(&g, false);
	return g.bad ? err_set(err, EBADMSG, "the policy is not as this version writes it") : 0;
}

/* Read what stands in front into the layers of P, behind which it is known how many there are. */
static bool
get_front(struct buf front, struct policy *p, bool watches, bool has_tools)
{
	struct policy_getting g = { .b = &front, .p = p };

	(void)policy_get_upto(&g, UINT32_MAX);
	if (watches) {
		policy_get_behaviours(&g);
		policy_get_calls(&g, true);
	}
	if (watches && has_tools)
		(void)policy_get_upto(&g, UINT32_MAX);
	if (has_tools)
		policy_get_tools(&g, true);
	return !g.bad;
}

int
policy_get(struct buf *b, struct policy **ret_policy, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	struct policy **last = &p;
	struct buf front = *b;
	struct policy_getting g = { .b = b };
	uint32_t format = policy_get_upto(&g, UINT32_MAX), layers;
	bool watches = format == POLICY_FORMAT_WATCH, has_tools;
	int r = 0;

	if (watches) {
		*b = front;
		r = skip_behaviours(b, err);
		format = r == 0 ? policy_get_upto(&g, UINT32_MAX) : 0;
	}
	has_tools = r == 0 && format == POLICY_FORMAT_TOOLS;
	if (has_tools) {
		r = skip_tools(b, err);
		format = r == 0 ? policy_get_upto(&g, UINT32_MAX) : 0;
	}
	if (r < 0)
		return r;

	g.bad |= format != FORMAT_PLAIN && format != FORMAT && format != FORMAT_ADDED;
	layers = format == FORMAT_PLAIN ? 1 : policy_get_upto(&g, POLICY_LAYERS_MAX);
	for (uint32_t i = 0; r == 0 && !g.bad && i < layers; i++) {
		r = get_layer(b, format, last, err);
		last = r == 0 ? &(*last)->within : last;
	}
	if (r < 0)
		return r;
	if ((watches || has_tools) && !g.bad && p != NULL)
		g.bad |= !get_front(front, p, watches, has_tools);
	if (g.bad || p == NULL || format != format_of(p))
		return err_set(err, EBADMSG, "the policy is not as this version writes it");
	*ret_policy = TAKE(p);
	return 0;
}
