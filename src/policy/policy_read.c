/* policy_read.c - reads one rule by a table of keys. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "policy/policy_load.h"

/* ---- scalars and lists ---- */

int
policy_read_oom(struct policy_draft *d)
{
	return err_set(d->err, ENOMEM, "%s: the policy is too large", d->at->file);
}

static int
check_text(struct policy_draft *d, const struct node *node, const char *what)
{
	if (node->kind != NODE_SCALAR)
		return node_err(d->err, node, "%s is a word, not a %s", what,
		                node->kind == NODE_MAP ? "map" : "list");
	if (node_is_null(node))
		return node_err(d->err, node, "%s is missing here", what);
	if (strlen(node->text) > POLICY_TEXT_MAX)
		return node_err(d->err, node, "%s is longer than %d bytes", what, POLICY_TEXT_MAX);
	return 0;
}

int
policy_read_text(struct policy_draft *d, const struct node *node, const char *what,
                 const char **ret_text)
{
	const char *copy;
	int r = check_text(d, node, what);

	if (r < 0)
		return r;
	copy = policy_copy(d->p, node->text, strlen(node->text));
	if (copy == NULL)
		return policy_read_oom(d);
	*ret_text = copy;
	return 0;
}

int
policy_read_bool(struct policy_draft *d, const struct node *node, const char *what,
                 bool *ret_truth)
{
	if (!node_is_bool(node, ret_truth))
		return node_err(d->err, node, "'%s' is true or false", what);
	return 0;
}

int
policy_read_list(struct policy_draft *d, const struct node *node, const char *what,
                 policy_fix *fix, struct policy_list *ret_list)
{
	bool is_list = node->kind == NODE_LIST;
	size_t n = is_list ? node->n : 1;
	const char **at;
	char *copy;
	int r;

	if (n == 0)
		return node_err(d->err, node, "an empty list matches nothing: leave the key out");
	if (n > POLICY_LIST_MAX)
		return node_err(d->err, node, "a rule takes at most %d of these", POLICY_LIST_MAX);
	at = policy_alloc(d->p, n, sizeof(*at));
	for (size_t i = 0; at != NULL && i < n; i++) {
		const struct node *item = is_list ? node->items[i] : node;

		r = check_text(d, item, what);
		if (r < 0)
			return r;
		at[i] = copy = policy_copy(d->p, item->text, strlen(item->text));
		if (copy == NULL)
			return policy_read_oom(d);
		r = fix != NULL ? fix(d, item, copy) : 0;
		if (r < 0)
			return r;
	}
	if (at == NULL)
		return policy_read_oom(d);
	*ret_list = (struct policy_list){ at, n };
	return 0;
}

int
policy_read_unknown(const struct node *key, const char *const *names, const char *where,
                    struct err *err)
{
	const char *nearest = text_nearest(key->text, names);
	char all[512] = "";

	if (strcmp(key->text, "preset") == 0)
		return node_err(err, key, "a preset is included: `- include: NAME`");
	if (nearest != NULL)
		return node_err(err, key, "there is no key '%.64s' %s: did you mean '%s'?", key->text,
		                where, nearest);
	for (size_t len = 0; *names != NULL && len < sizeof(all); names++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", len > 0 ? ", " : "",
		                        *names);
	return node_err(err, key, "there is no key '%.64s' %s: it takes %s", key->text, where, all);
}

/* ---- permissions ---- */

static int
read_websocket(struct policy_draft *d, const struct node *node)
{
	bool truth;
	int r = policy_read_bool(d, node, "websocket", &truth);

	if (r == 0 && truth)
		d->rule.upgrade = POLICY_UPGRADE_ALSO;
	return r;
}

static int
read_upgrade(struct policy_draft *d, const struct node *node)
{
	const char *text;
	int r = policy_read_text(d, node, "an upgrade", &text);

	if (r < 0)
		return r;
	if (strcmp(text, "websocket") != 0)
		return node_err(d->err, node, "'%.32s' cannot be passed on: only websocket can", text);
	d->rule.upgrade = POLICY_UPGRADE_ONLY;
	return 0;
}

static int
read_secrets(struct policy_draft *d, const struct node *node)
{
	const char *text;
	int r = policy_read_text(d, node, "what is done with secrets", &text);

	if (r < 0)
		return r;
	d->rule.secrets = strcmp(text, "allow") == 0;
	if (!d->rule.secrets && strcmp(text, "deny") != 0)
		return node_err(d->err, node, "'secrets' is allow or deny");
	return 0;
}

static int
read_placeholders(struct policy_draft *d, const struct node *node)
{
	const char *text;
	int r = policy_read_text(d, node, "what is done with placeholders", &text);

	if (r < 0)
		return r;
	d->rule.placeholders = strcmp(text, "pass") == 0;
	if (!d->rule.placeholders && strcmp(text, "refuse") != 0)
		return node_err(d->err, node, "'placeholders' is pass or refuse");
	return 0;
}

static int
read_private(struct policy_draft *d, const struct node *node)
{
	return policy_read_bool(d, node, "private", &d->rule.private);
}

static int
read_principal(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "a principal", NULL, &d->rule.principals);
}

static int
fix_agent(struct policy_draft *d, const struct node *node, char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789._-*";

	if (*text != '\0' && strspn(text, letters) == strlen(text))
		return 0;
	return node_err(d->err, node, strchr(text, '/') != NULL ?
	                "one agent of the chain is enough: '%.64s' names several" :
	                "'%.64s' is not the name of an agent: small letters, digits and '._-'", text);
}

static int
read_chain(struct policy_draft *d, const struct node *node)
{
	return policy_read_list(d, node, "an agent", fix_agent, &d->rule.chains);
}

/* An empty list is one, too: no secret. */
static int
read_uses(struct policy_draft *d, const struct node *node)
{
	d->rule.bounds_uses = true;
	return node->kind == NODE_LIST && node->n == 0 ? 0 : policy_read_list(d, node, "the name of a secret", NULL, &d->rule.uses);
}

static int
read_reason(struct policy_draft *d, const struct node *node)
{
	char *c;
	int r = policy_read_text(d, node, "a reason", &d->rule.reason);

	if (r < 0)
		return r;
	/* The reason is shown on one line. */
	for (c = (char *)(uintptr_t)d->rule.reason; *c != '\0'; c++)
		if (*c == '\n' || *c == '\t')
			*c = ' ';
	while (c > d->rule.reason && c[-1] == ' ')
		*--c = '\0';
	return *d->rule.reason != '\0' ? 0 : node_err(d->err, node, "the reason is empty");
}

/* ---- the rule ---- */

static const struct {
	const char *name;
	int (*read)(struct policy_draft *d, const struct node *value);
	unsigned flags;
} keys[POLICY_KEYS] = {
#define CONDITION(id, name, flags, read, ...) { name, read, flags },
#define SETTING(id, name, flags, read, ...) { name, read, flags },
#include "policy/policy_table.h"
};

const struct node *
policy_draft_key(const struct policy_draft *d, unsigned flag)
{
	for (size_t k = 0; k < POLICY_KEYS; k++)
		if (d->keys[k] != NULL && (keys[k].flags & flag) != 0)
			return d->keys[k];
	return NULL;
}

static int
unknown_key(const struct node *key, struct err *err)
{
	static const char *const in_body[] = { "json", "regex", "graphql", "jsonrpc", "max", NULL };
	static const char *const include[] = { "include", NULL };
	const char *names[POLICY_KEYS + 1];

	for (size_t i = 0; in_body[i] != NULL; i++)
		if (strcmp(key->text, in_body[i]) == 0)
			return node_err(err, key, "'%s' belongs under `body:`", key->text);
	for (size_t i = 0; i < POLICY_KEYS; i++)
		names[i] = keys[i].name;
	names[POLICY_KEYS] = NULL;
	if (strcmp(key->text, "host") == 0 || strcmp(key->text, "hosts") == 0)
		return node_err(err, key, "hosts stand behind the verb: `allow: api.example.com`");
	if (text_nearest(key->text, names) == NULL && text_nearest(key->text, include) != NULL)
		return policy_read_unknown(key, include, "in `egress`", err);
	return policy_read_unknown(key, names, "in a rule", err);
}

static int
find_keys(struct policy_draft *d)
{
	const struct node *node = d->at;
	size_t k;

	for (size_t i = 0; i < node->n; i++) {
		for (k = 0; k < POLICY_KEYS && strcmp(keys[k].name, node->items[i]->text) != 0; k++)
			;
		if (k == POLICY_KEYS)
			return unknown_key(node->items[i], d->err);
		d->keys[k] = node->items[i];
		d->values[k] = node->values[i];
	}
	return 0;
}

static int
find_verb(struct policy_draft *d)
{
	const struct node *verb = NULL;

	for (unsigned k = POLICY_KEY_ALLOW; k <= POLICY_KEY_LOG; k++) {
		if (d->keys[k] == NULL)
			continue;
		if (verb != NULL)
			return node_err(d->err, d->keys[k], "a rule has one verb: '%s' is already there",
			                verb->text);
		verb = d->keys[k];
		d->rule.verb = POLICY_VERB_ALLOW + (k - POLICY_KEY_ALLOW);
	}
	if (verb == NULL)
		return node_err(d->err, d->at, "a rule begins with allow, deny, ask or log: "
		                "`- allow: api.example.com`");
	return 0;
}

/* Set the defaults of keys that are absent. */
static int
fill_in(struct policy_draft *d)
{
	struct policy_rule *rule = &d->rule;
	bool refuses = rule->verb == POLICY_VERB_DENY || rule->verb == POLICY_VERB_LOG;
	struct policy_ports *ports;

	policy_ask_default(rule);
	if (rule->protocols == 0) {
		rule->protocols = 1u << POLICY_HTTP;
		if (refuses)
			rule->protocols = POLICY_ANY_PROTOCOL;
		if (policy_draft_key(d, POLICY_KEY_IS_HTTP) != NULL)
			rule->protocols = 1u << POLICY_HTTP;
	}
	if (rule->n_ports > 0 || refuses || rule->protocols == 1u << POLICY_TCP)
		return 0;
	ports = policy_alloc(d->p, 2, sizeof(*ports));
	if (ports == NULL)
		return policy_read_oom(d);
	rule->ports = ports;
	if (rule->protocols == 1u << POLICY_HTTP && (rule->schemes & POLICY_SCHEME_PLAIN) != 0)
		ports[rule->n_ports++] = (struct policy_ports){ 80, 80 };
	if ((rule->schemes & POLICY_SCHEME_TLS) != 0)
		ports[rule->n_ports++] = (struct policy_ports){ 443, 443 };
	return 0;
}

static int
finish_rule(struct policy_draft *d, const char *shown)
{
	struct policy_rule *rule;
	char place[POLICY_PLACE_MAX];
	int n = snprintf(place, sizeof(place), "%s:%zu:%zu", shown, d->at->line, d->at->column);

	d->rule.place = n > 0 && (size_t)n < sizeof(place) ?
	                policy_copy(d->p, place, (size_t)n) : NULL;
	if (d->p->is_narrow && (d->rule.principals.n > 0 || d->rule.chains.n > 0))
		return node_err(d->err, d->at, "what a narrowing leads to is for everybody: leave `principal` "
		                "and `chain` out");
	d->rule.text = policy_text_of(d->p, &d->rule);
	if (d->rule.then != NULL && d->rule.text != NULL)
		d->rule.then->key = policy_consequence_hash(d->rule.text, d->rule.then);
	d->rule.off = policy_off_for(&d->rule, "", "");
	if (d->rule.place == NULL || d->rule.text == NULL || policy_name_budget(d) < 0)
		return policy_read_oom(d);
	rule = policy_add_rule(d->p);
	if (rule == NULL)
		return node_err(d->err, d->at, "a policy has at most %d rules", POLICY_RULES_MAX);
	*rule = d->rule;
	return 0;
}

int
policy_read_rule(struct policy *p, const struct node *node, const char *shown,
                 struct err *err)
{
	struct policy_draft d = { .p = p, .at = node, .shown = shown, .err = err };
	int r;

	d.rule.schemes = POLICY_SCHEME_PLAIN | POLICY_SCHEME_TLS;
	d.rule.upload_max = POLICY_UPLOAD_MAX;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "a rule is a map: `- allow: api.example.com`");
	r = find_keys(&d);
	r = r == 0 ? find_verb(&d) : r;
	for (size_t k = 0; r == 0 && k < POLICY_KEYS; k++)
		if (d.keys[k] != NULL)
			r = keys[k].read(&d, d.values[k]);
	r = r == 0 ? policy_check_rule(&d) : r;
	r = r == 0 ? fill_in(&d) : r;
	return r == 0 ? finish_rule(&d, shown) : r;
}
