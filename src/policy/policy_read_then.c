/* policy_read_then.c - reads a rule's consequences (`then`), and `tripwires`. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_load.h"

/* ---- narrowing ---- */

int
policy_set_narrow(struct policy *p, struct policy_consequence *c, const struct node *node,
                  const struct policy *narrow, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_NARROW_MAX);

	if (policy_has_budgets(narrow))
		return node_err(err, node, "what `narrow` leads to has rules only, and no budgets or prices");
	if (++p->n_narrows > POLICY_NARROWS_MAX)
		return node_err(err, node, "at most %d rules of a policy may narrow it", POLICY_NARROWS_MAX);
	policy_put(&b, narrow);
	if (buf_failed(&b))
		return node_err(err, node, "what `narrow` leads to is too large: it is at most %d KiB",
		                POLICY_NARROW_MAX / 1024);
	c->narrow = (const unsigned char *)policy_copy(p, (const char *)b.data, b.len);
	c->n_narrow = b.len;
	c->meaning = policy_narrow_hash(narrow);
	return c->narrow != NULL ? 0 : err_set(err, ENOMEM, "the policy is too large");
}

int
policy_finish_narrow(struct policy *narrow, const struct policy *of, bool is_whole, struct err *err)
{
	int r;

	/* The lock is that of the policy around it, as far as it is read. */
	narrow->tools = of->tools;
	r = policy_settle_annotations(narrow, err);
	narrow->tools = NULL;
	return r == 0 && is_whole ? policy_add_uncalled(narrow, err) : r;
}

/* The narrowing decides only what it mentions.  The other layers set sizes and similar limits. */
static void
leave_to_others(struct policy *p)
{
	for (size_t i = 0; i < p->n_rules; i++) {
		struct policy_rule *rule = &p->rules[i];

		if (rule->verb != POLICY_VERB_ALLOW && rule->verb != POLICY_VERB_ASK)
			continue;
		rule->secrets = rule->placeholders = rule->private = true;
		if (!rule->upload_said)
			rule->upload_max = UINT64_MAX;
	}
	p->open = true;
}

static int
add_rules(struct policy_draft *d, struct policy *narrow, const struct node *list)
{
	int r = 0;

	if (list->kind != NODE_LIST)
		return node_err(d->err, list, "here stands a list of rules: `- deny: api.example.com`");
	for (size_t i = 0; r == 0 && i < list->n; i++)
		r = policy_read_rule(narrow, list->items[i], d->shown, d->err);
	return r;
}

/* A list of rules is put in front of the existing ones.  A map with `egress` and a file are whole
 * policies: they refuse what they do not allow.  The policy's loader reads the file. */
static int
read_narrow(struct policy_draft *d, struct policy_consequence *c, const struct node *node)
{
	OWN(policy_freep) struct policy *narrow = policy_new_empty();
	const struct node *list = node->kind == NODE_MAP ? node_get(node, "egress") : node;
	int r;

	if (narrow == NULL)
		return policy_read_oom(d);
	if (node->kind == NODE_SCALAR && !node_is_null(node)) {
		c->narrow_file = node;
		return 0;
	}
	if (node_is_null(node) || list == NULL || (node->kind == NODE_MAP && node->n != 1))
		return node_err(d->err, node, "`narrow` is a list of rules that are put in front, the name of a "
		                "policy, or {egress: [...]}");
	narrow->is_narrow = true;
	r = add_rules(d, narrow, list);
	r = r == 0 ? policy_finish_narrow(narrow, d->p, node->kind == NODE_MAP, d->err) : r;
	if (r == 0 && node->kind == NODE_LIST)
		leave_to_others(narrow);
	return r == 0 ? policy_set_narrow(d->p, c, node, narrow, d->err) : r;
}

/* `ask: [hosts]`: asks for everything that goes there, in any protocol. */
static int
read_ask(struct policy_draft *d, struct policy_consequence *c, const struct node *node)
{
	OWN(policy_freep) struct policy *narrow = policy_new_empty();
	struct node key = { .kind = NODE_SCALAR, .text = (char[]){ "ask" }, .file = node->file,
	                    .line = node->line, .column = node->column };
	struct node *keys[] = { &key }, *values[] = { (struct node *)(uintptr_t)node };
	const struct node rule = { .kind = NODE_MAP, .file = node->file, .line = node->line,
	                           .column = node->column, .items = keys, .values = values, .n = 1 };
	int r;

	if (c->n_narrow > 0 || c->narrow_file != NULL)
		return node_err(d->err, node, "`narrow` says it all: put the rules that ask there");
	if (narrow == NULL)
		return policy_read_oom(d);
	narrow->is_narrow = true;
	r = policy_read_rule(narrow, &rule, d->shown, d->err);
	if (r < 0)
		return r;
	if (!narrow->rules[0].call.present) {
		narrow->rules[0].protocols = POLICY_ANY_PROTOCOL;
		narrow->rules[0].n_ports = 0;
	}
	leave_to_others(narrow);
	return policy_set_narrow(d->p, c, node, narrow, d->err);
}

/* ---- then ---- */

static int
read_member(struct policy_draft *d, struct policy_consequence *c, const struct node *key,
            const struct node *value)
{
	static const char *const names[] = { "narrow", "revoke", "freeze", "notify", "ask", NULL };

	if (strcmp(key->text, "narrow") == 0)
		return c->n_narrow == 0 ? read_narrow(d, c, value) :
		       node_err(d->err, key, "`narrow` says it all: put the rules that ask there");
	if (strcmp(key->text, "ask") == 0)
		return read_ask(d, c, value);
	if (strcmp(key->text, "revoke") == 0)
		return policy_read_list(d, value, "a secret", NULL, &c->revoke);
	if (strcmp(key->text, "freeze") == 0)
		return policy_read_bool(d, value, "freeze", &c->freeze);
	if (strcmp(key->text, "notify") == 0)
		return policy_read_bool(d, value, "notify", &c->notify);
	return policy_read_unknown(key, names, "in `then`", d->err);
}

/* Whether READ_MEMBER has set anything. */
static bool
does_something(const struct policy_consequence *c)
{
	return c->n_narrow > 0 || c->narrow_file != NULL || c->revoke.n > 0 || c->freeze || c->notify;
}

int
policy_read_consequence(struct policy_draft *d, const struct node *node, struct policy_consequence *c)
{
	int r = 0;

	if (d->p->is_narrow)
		return node_err(d->err, node, "what a narrowing leads to has no `then` of its own");
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_member(d, c, node->items[i], node->values[i]);
	if (r == 0 && c->revoke.n > POLICY_REVOKES_MAX)
		return node_err(d->err, node, "at most %d secrets are revoked at once", POLICY_REVOKES_MAX);
	return r;
}

int
policy_read_then(struct policy_draft *d, const struct node *node)
{
	struct policy_consequence *c = policy_alloc(d->p, 1, sizeof(*c));
	int r;

	if (c == NULL)
		return policy_read_oom(d);
	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(d->err, node, "`then` is a map: {revoke: GITHUB_TOKEN, freeze: true}");
	r = policy_read_consequence(d, node, c);
	if (r < 0)
		return r;
	if (!does_something(c))
		return node_err(d->err, node, "this `then` does nothing");
	if (++d->p->n_consequences > POLICY_CONSEQUENCES_MAX)
		return node_err(d->err, node, "at most %d rules of a policy have a `then`",
		                POLICY_CONSEQUENCES_MAX);
	d->rule.then = c;
	return 0;
}

/* ---- tripwires ---- */

static int
read_trip(const struct node *node, bool of_request, enum policy_trip *ret_trip, struct err *err)
{
	for (unsigned i = POLICY_TRIP_NOTIFY; i < POLICY_TRIPS; i++)
		if (node->kind == NODE_SCALAR && strcmp(node->text, policy_trip_name(i)) == 0 &&
		    (of_request || i != POLICY_TRIP_REFUSE)) {
			if (*ret_trip == POLICY_TRIP_UNSAID)
				*ret_trip = i;
			return 0;
		}
	return node_err(err, node, of_request ? "a tripwire does one of `notify`, `refuse`, `freeze`, `kill` or "
	                "`rollback`" : "a tripwire of refusals does one of `notify`, `freeze`, `kill` or `rollback`");
}

/* "10x" */
static int
read_times(const struct node *node, uint64_t *ret_times, struct err *err)
{
	char digits[8];
	size_t len = node->kind == NODE_SCALAR ? strlen(node->text) : 0;

	if (len >= 2 && len < sizeof(digits) && node->text[len - 1] == 'x') {
		snprintf(digits, sizeof(digits), "%.*s", (int)len - 1, node->text);
		if (num_parse_count(digits, 2, 100000, ret_times, NULL) == 0)
			return 0;
	}
	return node_err(err, node, "`over` is how many times as much as usual, such as 10x");
}

static int
read_transfer(struct policy *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "over", "least", "then", NULL };
	struct policy_tripwires t = { .transfer = { .times = 10, .least = 1 << 20 } };
	struct err why = {0};
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "`transfer` is a map: {over: 10x, least: 1M, then: freeze}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, "over") == 0)
			r = read_times(value, &t.transfer.times, err);
		else if (strcmp(key->text, "then") == 0)
			r = read_trip(value, true, &t.transfer.then, err);
		else if (strcmp(key->text, "least") != 0)
			r = policy_read_unknown(key, names, "in `transfer`", err);
		else if (value->kind != NODE_SCALAR ||
		         num_parse_size(value->text, &t.transfer.least, &why) < 0)
			r = node_err(err, value, "`least` is a size, such as 1M");
	}
	if (r == 0 && t.transfer.then == POLICY_TRIP_UNSAID)
		r = node_err(err, node, "`transfer` says what happens: `then: freeze`");
	if (r == 0 && p->tripwires.transfer.then == POLICY_TRIP_UNSAID)
		p->tripwires.transfer = t.transfer;
	return r;
}

static int
read_refusals(struct policy *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "count", "within", "then", NULL };
	struct policy_tripwires t = { .refusals = { .count = 20, .within_ms = 60000 } };
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "`refusals` is a map: {count: 20, within: 1m, then: freeze}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];
		const char *text = value->kind == NODE_SCALAR ? value->text : "";

		if (strcmp(key->text, "then") == 0)
			r = read_trip(value, false, &t.refusals.then, err);
		else if (strcmp(key->text, "count") == 0)
			r = num_parse_count(text, 1, POLICY_REFUSALS_MAX, &t.refusals.count, NULL) == 0 ? 0 :
			    node_err(err, value, "`count` is a number up to %d", POLICY_REFUSALS_MAX);
		else if (strcmp(key->text, "within") == 0)
			r = num_parse_duration(text, &t.refusals.within_ms, NULL) == 0 &&
			    t.refusals.within_ms > 0 ? 0 : node_err(err, value, "`within` is a time, such as 1m");
		else
			r = policy_read_unknown(key, names, "in `refusals`", err);
	}
	if (r == 0 && t.refusals.then == POLICY_TRIP_UNSAID)
		r = node_err(err, node, "`refusals` says what happens: `then: freeze`");
	if (r == 0 && p->tripwires.refusals.then == POLICY_TRIP_UNSAID)
		p->tripwires.refusals = t.refusals;
	return r;
}

/* Tripwires of nearer files win. */
int
policy_read_tripwires(struct policy *p, const struct node *node, const struct node **ret_exfiltration,
                      struct err *err)
{
	static const char *const names[] = { "exfiltration", "credential", "transfer", "refusals", NULL };
	int r = 0;

	*ret_exfiltration = NULL;
	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`tripwires` is a map: {exfiltration: freeze, credential: freeze}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, "exfiltration") == 0)
			*ret_exfiltration = value;
		else if (strcmp(key->text, "credential") == 0)
			r = read_trip(value, true, &p->tripwires.credential, err);
		else if (strcmp(key->text, "transfer") == 0)
			r = read_transfer(p, value, err);
		else if (strcmp(key->text, "refusals") == 0)
			r = read_refusals(p, value, err);
		else
			r = policy_read_unknown(key, names, "in `tripwires`", err);
	}
	return r;
}
