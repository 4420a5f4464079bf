/* policy_check.c - refuses rules that are impossible or never reached. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_rewrite.h"

/* ---- keys that exclude each other ---- */

static int
refuse(const struct policy_draft *d, const struct node *key, const char *why)
{
	return key == NULL ? 0 : node_err(d->err, key, "'%s' %s", key->text, why);
}

static int
check_raw(const struct policy_draft *d)
{
	const struct policy_rule *rule = &d->rule;
	bool tcp = rule->protocols == 1u << POLICY_TCP;
	const struct node *where = d->values[rule->verb];
	int r = refuse(d, policy_draft_key(d, POLICY_KEY_OF_HTTP), tcp ?
	               "needs HTTP, which raw TCP is not: leave it or `protocol: tcp` out" :
	               "needs HTTP, which is hidden in TLS that is passed through: leave it or "
	               "`protocol: tls` out");

	for (size_t i = 0; r == 0 && i < rule->n_hosts; i++) {
		const struct node *item = where->kind == NODE_LIST ? where->items[i] : where;

		if (tcp && rule->hosts[i].port == 0 && rule->n_ports == 0 &&
		    rule->verb != POLICY_VERB_DENY && rule->verb != POLICY_VERB_LOG)
			return node_err(d->err, item, "raw TCP needs a port: write %.64s:PORT", item->text);
		if (!tcp && rule->hosts[i].kind == POLICY_HOST_NET)
			return node_err(d->err, item, "TLS is passed through by its server name, which an "
			                "address has not: use `protocol: tcp`");
	}
	return r;
}

static bool
only_methods(const struct policy_rule *rule, const char *const *names)
{
	for (size_t i = 0; i < rule->methods.n; i++) {
		size_t k = 0;

		while (names[k] != NULL && strcmp(names[k], rule->methods.at[i]) != 0)
			k++;
		if (names[k] == NULL)
			return false;
	}
	return rule->methods.n > 0;
}

static bool
has_method(const struct policy_rule *rule, const char *name)
{
	for (size_t i = 0; i < rule->methods.n; i++)
		if (strcmp(rule->methods.at[i], name) == 0)
			return true;
	return rule->methods.n == 0;
}

static int
check_http(const struct policy_draft *d)
{
	static const char *const bodyless[] = { "GET", "HEAD", "OPTIONS", "TRACE", NULL };
	const struct policy_rule *rule = &d->rule;
	bool looks = rule->body.n_json > 0 || rule->body.regex.n > 0 || rule->body.jsonrpc;
	int r = 0;

	if (d->keys[POLICY_KEY_GIT] != NULL)
		r = refuse(d, policy_draft_key(d, POLICY_KEY_NOT_GIT),
		           "does not go with `git`, which says all of it");
	if (r == 0 && d->keys[POLICY_KEY_GIT] != NULL && (looks || rule->body.graphql))
		r = node_err(d->err, d->keys[POLICY_KEY_BODY], "of a body only `max` goes with `git`");
	if (r == 0 && d->keys[POLICY_KEY_GRPC] != NULL)
		r = refuse(d, policy_draft_key(d, POLICY_KEY_NOT_GRPC),
		           "does not go with `grpc`, which says all of it");
	if (r == 0 && rule->grpc && (looks || rule->body.graphql))
		r = node_err(d->err, d->keys[POLICY_KEY_BODY], "of a body only `max` goes with `grpc`");
	if (r == 0 && looks && only_methods(rule, bodyless))
		r = node_err(d->err, d->keys[POLICY_KEY_BODY], "requests of these methods have no body");
	if (r == 0 && d->keys[POLICY_KEY_UPGRADE] != NULL)
		r = refuse(d, d->keys[d->keys[POLICY_KEY_WEBSOCKET] != NULL ? POLICY_KEY_WEBSOCKET :
		                      POLICY_KEY_BODY], "does not go with `upgrade: websocket`");
	if (r == 0 && rule->upgrade != POLICY_UPGRADE_NO && !has_method(rule, "GET"))
		r = node_err(d->err, d->keys[POLICY_KEY_METHODS], "a WebSocket begins with GET");
	return r;
}

static int
refuse_resolver(const struct policy_draft *d, const struct node *where)
{
	return node_err(d->err, where, "nothing is ever sent to this host: it resolves names over HTTPS, which "
	                "would hide them; the cell's own resolver needs no rule");
}

/* The hosts of the rule, and the one to which its rewrite sends requests. */
static int
check_resolvers(const struct policy_draft *d)
{
	const struct policy_rule *rule = &d->rule;
	const struct policy_rewrite *rw = rule->rewrite;
	const struct node *where = d->values[rule->verb];

	for (size_t i = 0; i < rule->n_hosts; i++)
		if (policy_rule_is_doh(rule, &rule->hosts[i]))
			return refuse_resolver(d, where->kind == NODE_LIST ? where->items[i] : where);
	for (size_t i = 0; rw != NULL && i < rw->n; i++)
		if (rw->edits[i].kind == POLICY_EDIT_HOST && policy_is_resolver(rw->edits[i].name))
			return refuse_resolver(d, node_get(d->values[POLICY_KEY_REWRITE], "host"));
	return 0;
}

int
policy_check_rule(const struct policy_draft *d)
{
	const struct policy_rule *rule = &d->rule;
	int r = policy_check_ask(d);

	r = r == 0 ? policy_check_call(d) : r;
	if (r == 0 && (rule->verb == POLICY_VERB_ALLOW || rule->verb == POLICY_VERB_ASK))
		r = check_resolvers(d);

	if (r == 0 && (rule->verb == POLICY_VERB_DENY || rule->verb == POLICY_VERB_LOG))
		r = refuse(d, policy_draft_key(d, POLICY_KEY_PERMITS),
		           "permits something: it belongs to allow or ask");
	if (r == 0 && (rule->verb == POLICY_VERB_DENY || rule->verb == POLICY_VERB_LOG))
		r = refuse(d, policy_draft_key(d, POLICY_KEY_SENDS),
		           "is about requests that are sent: it belongs to allow or ask");
	r = r == 0 ? policy_check_rewrite(d) : r;
	if (r < 0)
		return r;
	if (rule->protocols == 1u << POLICY_TCP || rule->protocols == 1u << POLICY_TLS)
		return check_raw(d);
	return check_http(d);
}

/* ---- rules that are never reached ----
 *
 * "A covers B" means that A matches everything that B matches.  If that is not certain, A does not
 * cover B. */

static bool
same_or_none(const struct policy_list *a, const struct policy_list *b)
{
	if (a->n == 0)
		return true;
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->at[i], b->at[i]) != 0)
			return false;
	return true;
}

static bool
glob_covers(const char *a, const char *b, char separator)
{
	size_t n = strlen(a);

	if (strcmp(a, b) == 0 || strcmp(a, "**") == 0)
		return true;
	if (policy_glob_is_plain(b))
		return policy_glob(a, b, strlen(b), separator);
	/* A is "/x/" and "**", and B begins with "/x/". */
	return n > 2 && strcmp(a + n - 2, "**") == 0 && memchr(a, '*', n - 2) == NULL &&
	       strncmp(a, b, n - 2) == 0;
}

static bool
globs_cover(const struct policy_list *a, const struct policy_list *b, char separator)
{
	size_t i;

	if (a->n == 0)
		return true;
	for (size_t k = 0; k < b->n; k++) {
		for (i = 0; i < a->n && !glob_covers(a->at[i], b->at[k], separator); i++)
			;
		if (i == a->n)
			return false;
	}
	return b->n > 0;
}

static bool
names_cover(const struct policy_list *a, const struct policy_list *b)
{
	size_t i;

	if (a->n == 0)
		return true;
	for (size_t k = 0; k < b->n; k++) {
		for (i = 0; i < a->n && strcmp(a->at[i], b->at[k]) != 0; i++)
			;
		if (i == a->n)
			return false;
	}
	return b->n > 0;
}

static bool
fields_cover(const struct policy_field *a, size_t n_a, const struct policy_field *b, size_t n_b)
{
	size_t k;

	for (size_t i = 0; i < n_a; i++) {
		for (k = 0; k < n_b; k++)
			if (strcmp(a[i].name, b[k].name) == 0 && a[i].absent == b[k].absent &&
			    same_or_none(&a[i].globs, &b[k].globs))
				break;
		if (k == n_b)
			return false;
	}
	return true;
}

static bool
host_covers(const struct policy_host *a, const struct policy_host *b)
{
	size_t n = strlen(a->name), m = strlen(b->name);

	if (b->kind == POLICY_HOST_NET)
		return a->kind == POLICY_HOST_NET && a->bits <= b->bits && policy_net_has(a, b->address);
	if (b->kind == POLICY_HOST_NAME)
		return policy_host_fits(a, b->name);
	if (a->kind == POLICY_HOST_ANY || (a->kind == b->kind && strcmp(a->name, b->name) == 0))
		return true;
	/* **.x includes *.x, *.y.x and **.y.x. */
	return a->kind == POLICY_HOST_UNDER && b->kind != POLICY_HOST_ANY && m >= n &&
	       strcmp(a->name, b->name + m - n) == 0 && (m == n || b->name[m - n - 1] == '.');
}

static bool
ports_cover(const struct policy_rule *a, const struct policy_host *on,
            const struct policy_rule *b, const struct policy_host *host)
{
	static const struct policy_ports usual[] = { { 80, 80 }, { 443, 443 } };
	struct policy_ports one = { on->port, on->port }, other = { host->port, host->port };
	const struct policy_ports *of_a = on->port != 0 ? &one : a->ports;
	const struct policy_ports *of_b = host->port != 0 ? &other : b->ports;
	size_t n_a = on->port != 0 ? 1 : a->n_ports, n_b = host->port != 0 ? 1 : b->n_ports, i;

	if (n_a == 0)
		return true;
	/* An author who denies a host without naming ports means these. */
	if (n_b == 0) {
		of_b = usual;
		n_b = ARRAY_LEN(usual);
	}
	for (size_t k = 0; k < n_b; k++) {
		for (i = 0; i < n_a; i++)
			if (of_a[i].first <= of_b[k].first && of_a[i].last >= of_b[k].last)
				break;
		if (i == n_a)
			return false;
	}
	return n_b > 0;
}

static bool
places_cover(const struct policy_rule *a, const struct policy_rule *b,
             const struct policy_host *host)
{
	for (size_t i = 0; i < a->n_hosts; i++)
		if (host_covers(&a->hosts[i], host) && ports_cover(a, &a->hosts[i], b, host))
			return true;
	return false;
}

static bool
git_covers(const struct policy_rule *a, const struct policy_rule *b)
{
	const struct policy_git *x = &a->git, *y = &b->git;

	if (!x->present)
		return true;
	if (!y->present || (y->fetch && !x->fetch))
		return false;
	if (y->push.n > 0 && (a->verb != b->verb || x->push.n == 0 || x->force != y->force ||
	    x->delete != y->delete || x->options != y->options ||
	    !globs_cover(&x->push, &y->push, '/')))
		return false;
	return globs_cover(&x->repos, &y->repos, '/');
}

/* No two conditions on bodies are compared.  A rule without `max` counts as allowing bodies of any
 * size.  A later rule is hardly written for the few larger bodies, unless it sets a size. */
static bool
body_covers(const struct policy_rule *a, const struct policy_rule *b)
{
	if (policy_rule_wants_body(a) && !a->git.present && !a->call.present)
		return false;
	if (a->verb != POLICY_VERB_ALLOW)
		return true;
	if (b->upload_said && b->upload_max > a->upload_max)
		return false;
	return !a->upload_said || b->upload_said;
}

static bool
upgrades_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	if (a->upgrade == POLICY_UPGRADE_ONLY)
		return b->upgrade == POLICY_UPGRADE_ONLY;
	return a->upgrade == POLICY_UPGRADE_ALSO || a->verb != POLICY_VERB_ALLOW ||
	       b->upgrade == POLICY_UPGRADE_NO;
}

static bool
schemes_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return (a->schemes & b->schemes) == b->schemes;
}

static bool
methods_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return names_cover(&a->methods, &b->methods);
}

static bool
paths_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return globs_cover(&a->paths, &b->paths, '/');
}

static bool
queries_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return (!a->has_query || (b->has_query && same_or_none(&a->query, &b->query))) &&
	       fields_cover(a->params, a->n_params, b->params, b->n_params);
}

static bool
headers_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return fields_cover(a->headers, a->n_headers, b->headers, b->n_headers);
}

static bool
cookies_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return fields_cover(a->cookies, a->n_cookies, b->cookies, b->n_cookies);
}

static bool
content_types_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return same_or_none(&a->content_types, &b->content_types);
}

static bool
grpc_covers(const struct policy_rule *a, const struct policy_rule *b)
{
	return !a->grpc || b->grpc;
}

static bool
principals_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return globs_cover(&a->principals, &b->principals, '\0');
}

static bool
chains_cover(const struct policy_rule *a, const struct policy_rule *b)
{
	return globs_cover(&a->chains, &b->chains, '\0');
}

static bool
patterns_cover(const struct policy_call *a, const struct policy_pattern *b)
{
	char separator = b->kind == POLICY_CALL_RESOURCE ? '/' : '.';

	for (size_t i = 0; i < a->n; i++)
		if (a->at[i].kind == b->kind && glob_covers(a->at[i].glob, b->glob, separator))
			return true;
	return false;
}

/* No two conditions on arguments are compared. */
static bool
call_covers(const struct policy_rule *a, const struct policy_rule *b)
{
	const struct policy_call *x = &a->call, *y = &b->call;
	size_t i = 0;

	/* A rule for hosts that allows is for none of the tools' gateway. */
	if (!x->present)
		return !y->present || a->verb != POLICY_VERB_ALLOW;
	if (!y->present || x->n_args > 0 || x->others != y->others)
		return false;
	while (i < y->n && patterns_cover(x, &y->at[i]))
		i++;
	return i == y->n && (y->n > 0 || y->others != POLICY_OTHERS_NONE);
}

static const struct {
	bool (*covers)(const struct policy_rule *a, const struct policy_rule *b);
	unsigned flags;
} conditions[] = {
#define CONDITION(id, name, flags, read, fits, covers, ...) { covers, flags },
#define SETTING(...)
#include "policy/policy_table.h"
};

/* By the conditions about the cell, or by those about requests. */
static bool
conditions_cover(const struct policy_rule *a, const struct policy_rule *b, bool of_cell)
{
	for (size_t i = 0; i < ARRAY_LEN(conditions); i++)
		if (((conditions[i].flags & POLICY_KEY_OF_CELL) != 0) == of_cell &&
		    !conditions[i].covers(a, b))
			return false;
	return true;
}

static bool
covers(const struct policy_rule *a, const struct policy_rule *b, const struct policy_host *host)
{
	unsigned raw = 1u << POLICY_TCP | 1u << POLICY_TLS;
	unsigned spoken = b->protocols == POLICY_ANY_PROTOCOL ? 1u << POLICY_HTTP : b->protocols;

	if (a->verb == POLICY_VERB_LOG || !places_cover(a, b, host) || !conditions_cover(a, b, true))
		return false;
	/* The first rule for a host and port settles what the connection carries. */
	if (a->protocols != spoken && a->protocols != POLICY_ANY_PROTOCOL &&
	    b->verb != POLICY_VERB_LOG && ((a->protocols | spoken) & raw) != 0)
		return b->protocols != POLICY_ANY_PROTOCOL;
	return (a->protocols & spoken) == spoken && conditions_cover(a, b, false);
}

bool
policy_rule_covers(const struct policy_rule *a, const struct policy_rule *b)
{
	size_t h = 0;

	while (h < b->n_hosts && covers(a, b, &b->hosts[h]))
		h++;
	return h == b->n_hosts;
}

static size_t
file_len(const char *place)
{
	const char *end = place + strlen(place);

	for (int colons = 0; end > place && colons < 2;)
		colons += *--end == ':';
	return (size_t)(end - place);
}

static bool
same_file(const struct policy_rule *a, const struct policy_rule *b)
{
	size_t n = file_len(b->place);

	return file_len(a->place) == n && strncmp(a->place, b->place, n) == 0;
}

/* With ONE_FILE, only rules of the same file count: a file may override the rules of others.  A
 * rule that is there twice because its file is included twice does not count either. */
static const struct policy_rule *
who_covers(const struct policy *p, size_t index, bool one_file)
{
	const struct policy_rule *b = &p->rules[index], *by = NULL;
	size_t i;

	for (size_t h = 0; h < b->n_hosts; h++) {
		for (i = 0; i < index; i++)
			if ((!one_file || (same_file(&p->rules[i], b) &&
			                   strcmp(p->rules[i].place, b->place) != 0)) &&
			    covers(&p->rules[i], b, &b->hosts[h]))
				break;
		if (i == index)
			return NULL;
		by = by == NULL || &p->rules[i] > by ? &p->rules[i] : by;
	}
	return by;
}

const struct policy_rule *
policy_who_covers(const struct policy *p, size_t index)
{
	return who_covers(p, index, false);
}

int
policy_check_reach(const struct policy *p, size_t index, const char *name, const char *shown,
                   struct err *err)
{
	const struct policy_rule *rule = &p->rules[index], *by;
	size_t n = strlen(shown);
	bool ours = file_len(rule->place) == n && strncmp(rule->place, shown, n) == 0;

	by = who_covers(p, index, !ours);
	if (by == NULL)
		return 0;
	return err_set(err, EINVAL, "%s%s: this rule is never reached: the one at %s (%s) %s",
	               ours ? name : "", rule->place + (ours ? n : 0), by->place, by->text,
	               (by->protocols & rule->protocols) == 0 ?
	               "settles what is spoken with this host and port" :
	               "matches first; put the narrower rule in front");
}
