/* policy.c - a policy's memory, and facts about its rules. */
#include "policy/policy.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_parts.h"

#define CHUNK 4096

struct policy_chunk {
	struct policy_chunk *next;
	size_t used, size;
	alignas(max_align_t) unsigned char data[];
};

struct policy *
policy_new_empty(void)
{
	return calloc(1, sizeof(struct policy));
}

void
policy_free(struct policy *p)
{
	struct policy_chunk *next;

	if (p == NULL)
		return;
	for (struct policy_chunk *c = p->chunks; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
	free(p->rules);
	free(p->entries);
	free(p->buckets);
	policy_free(p->within);         /* POLICY_LAYERS_MAX deep at most */
	free(p);
}

void *
policy_alloc(struct policy *p, size_t n, size_t size)
{
	struct policy_chunk *c = p->chunks;
	size_t want;
	void *at;

	if (__builtin_mul_overflow(n, size, &want) || want > POLICY_MEMORY_MAX - p->used)
		return NULL;
	want = (want + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
	if (c == NULL || want > c->size - c->used) {
		size_t room = want > CHUNK - sizeof(*c) ? want : CHUNK - sizeof(*c);

		c = calloc(1, sizeof(*c) + room);
		if (c == NULL)
			return NULL;
		c->size = room;
		c->next = p->chunks;
		p->chunks = c;
	}
	at = c->data + c->used;
	c->used += want;
	p->used += want;
	return at;
}

char *
policy_copy(struct policy *p, const char *text, size_t len)
{
	char *copy = policy_alloc(p, len + 1, 1);

	if (copy != NULL && len > 0)
		memcpy(copy, text, len);
	return copy;
}

struct policy_rule *
policy_add_rule(struct policy *p)
{
	struct policy_rule *grown;
	size_t cap;

	if (p->n_rules == POLICY_RULES_MAX)
		return NULL;
	if (p->n_rules == p->cap_rules) {
		cap = p->cap_rules == 0 ? 8 : p->cap_rules * 2;
		grown = realloc(p->rules, cap * sizeof(*grown));
		if (grown == NULL)
			return NULL;
		p->rules = grown;
		p->cap_rules = cap;
	}
	memset(&p->rules[p->n_rules], 0, sizeof(*p->rules));
	return &p->rules[p->n_rules++];
}

const struct policy_rule *
policy_rule_at(const struct policy *p, size_t i)
{
	for (; i >= p->n_rules; p = p->within)
		i -= p->n_rules;
	return &p->rules[i];
}

size_t
policy_n_rules(const struct policy *p)
{
	size_t n = 0;

	for (; p != NULL; p = p->within)
		n += p->n_rules;
	return n;
}

static bool
has_rule(const struct policy *p, int rule)
{
	return rule >= 0 && (size_t)rule < policy_n_rules(p);
}

const char *
policy_rule_place(const struct policy *p, int rule)
{
	return has_rule(p, rule) ? policy_rule_at(p, (size_t)rule)->place : "";
}

const char *
policy_rule_text(const struct policy *p, int rule)
{
	return has_rule(p, rule) ? policy_rule_at(p, (size_t)rule)->text : "";
}

bool
policy_rule_is_built_in(const struct policy *p, int rule)
{
	return has_rule(p, rule) && policy_rule_at(p, (size_t)rule)->call.others != POLICY_OTHERS_NONE;
}

const char *
policy_rule_reason(const struct policy *p, int rule)
{
	return has_rule(p, rule) ? policy_rule_at(p, (size_t)rule)->reason : NULL;
}

bool
policy_rule_wants_body(const struct policy_rule *rule)
{
	return rule->body.n_json > 0 || rule->body.regex.n > 0 || rule->body.graphql ||
	       rule->body.jsonrpc || rule->git.push.n > 0 ||
	       (rule->call.present && rule->call.others != POLICY_OTHERS_BODILESS);
}

/* Whether the rule names a port; a rule that names none has 80 and 443. */
static bool
names_port(const struct policy_rule *rule)
{
	for (size_t i = 0; i < rule->n_hosts; i++)
		if (rule->hosts[i].port != 0)
			return true;
	for (size_t i = 0; i < rule->n_ports; i++)
		if (rule->ports[i].first != rule->ports[i].last ||
		    (rule->ports[i].first != 80 && rule->ports[i].first != 443))
			return true;
	return false;
}

/* Also through a profile: policy_add_short_from(). */
static bool
is_of_preset(const char *place)
{
	if (strncmp(place, POLICY_OF_PROFILE, strlen(POLICY_OF_PROFILE)) == 0 && strstr(place, ", preset:") != NULL)
		return true;
	return strncmp(place, "preset:", 7) == 0;
}

int
policy_rule_of_any_scheme(const struct policy *p, size_t from)
{
	for (size_t i = from; i < policy_n_own(p); i++) {
		const struct policy_rule *rule = policy_rule_at(p, i);

		if ((rule->verb == POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ASK) &&
		    rule->protocols == 1u << POLICY_HTTP &&
		    rule->schemes == (POLICY_SCHEME_PLAIN | POLICY_SCHEME_TLS) && names_port(rule) &&
		    !is_of_preset(rule->place))
			return (int)i;
	}
	return -1;
}
