/* scope.c - reads the scope of a tool, and decides with it. */
#include "tools/scope.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_tools.h"
#include "policy/policy_yaml.h"

static const struct node *
list_of(const struct node *map, const char *name)
{
	const struct node *value = node_get(map, name);

	return value != NULL && value->kind == NODE_LIST ? value : NULL;
}

static int
put_egress(struct buf *b, const struct node *node, struct err *err)
{
	const struct node *rules = list_of(node, "egress");

	buf_put_text(b, "version: 1\n");
	if (rules != NULL) {
		buf_put_text(b, "egress: ");
		policy_flat_put_node(b, rules);
		buf_put_text(b, "\n");
	}
	return buf_failed(b) ? err_set(err, E2BIG, "the scope is too large") : 0;
}

static int
load_egress(const struct node *node, struct policy **ret_egress, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	int r = put_egress(&b, node, err);

	return r < 0 ? r : policy_load_text("scope", (const char *)b.data, b.len, ret_egress, NULL, err);
}

int
scope_rules(const struct node *node, struct node **ret_rules, struct err *err)
{
	OWN(policy_flat_free) struct policy_flat flat;
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	int r = put_egress(&b, node, err);

	policy_flat_init(&flat);
	r = r < 0 ? r : policy_flat_load(&flat, "scope", (const char *)b.data, b.len, NULL, NULL, err);
	if (r < 0)
		return r;
	return flat.rules.len > 0 ? node_parse("scope", (const char *)flat.rules.data, flat.rules.len, ret_rules, err) :
	       node_parse("scope", "[]", 2, ret_rules, err);
}

int
scope_read(const struct node *node, struct scope *ret_scope, struct err *err)
{
	const struct node *time = node_get(node, "time");
	struct scope s = { .read = list_of(node, "read"), .write = list_of(node, "write"),
	                   .secrets = list_of(node, "secrets"), .programs = list_of(node, "programs"),
	                   .time_ms = SCOPE_TIME_MS };
	int r = 0;

	if (time != NULL)
		r = time->kind == NODE_SCALAR ? num_parse_duration(time->text, &s.time_ms, err) :
		    err_set(err, EINVAL, "`time` of a scope is how long a call may take: 30s");
	r = r == 0 ? load_egress(node, &s.egress, err) : r;
	r = r == 0 ? scope_rules(node, &s.rules, err) : r;
	if (r < 0)
		scope_free(&s);
	else
		*ret_scope = s;
	return r;
}

void
scope_free(struct scope *s)
{
	policy_free(s->egress);
	s->egress = NULL;
	node_free(s->rules);
	s->rules = NULL;
}

/* ---- what it lets a call change ---- */

bool
scope_is_reading(const char *method)
{
	return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 || strcmp(method, "OPTIONS") == 0;
}

static bool
is_word(const struct node *node, const char *word)
{
	return node != NULL && ((node->kind == NODE_SCALAR && strcmp(node->text, word) == 0) ||
	       (node->kind == NODE_LIST && node->n == 1 && is_word(node->items[0], word)));
}

/* A rule for requests that read, whatever their method is. */
static bool
reads_by_content(const struct node *rule)
{
	const struct node *body = node_get(rule, "body"), *git = node_get(rule, "git");
	const struct node *graphql = body != NULL && body->kind == NODE_MAP ? node_get(body, "graphql") : NULL;

	if (graphql != NULL && graphql->kind == NODE_MAP && is_word(node_get(graphql, "operations"), "query"))
		return true;
	return git != NULL && (is_word(git, "fetch") ||
	       (git->kind == NODE_MAP && git->n == 1 && node_get(git, "fetch") != NULL));
}

static bool
rule_writes(const struct node *rule, char ret_what[SCOPE_WHAT_MAX])
{
	const struct node *methods;

	if (rule->kind != NODE_MAP || (node_get(rule, "allow") == NULL && node_get(rule, "ask") == NULL) ||
	    reads_by_content(rule))
		return false;
	methods = node_get(rule, "methods");
	if (methods == NULL) {
		snprintf(ret_what, SCOPE_WHAT_MAX, "a rule without `methods`, so that it allows any");
		return true;
	}
	for (size_t i = 0; methods->kind == NODE_LIST && i < methods->n; i++)
		if (methods->items[i]->kind != NODE_SCALAR || !scope_is_reading(methods->items[i]->text)) {
			snprintf(ret_what, SCOPE_WHAT_MAX, "a rule for %.20s", methods->items[i]->kind == NODE_SCALAR ?
			         methods->items[i]->text : "");
			return true;
		}
	if (methods->kind == NODE_SCALAR && !scope_is_reading(methods->text)) {
		snprintf(ret_what, SCOPE_WHAT_MAX, "a rule for %.20s", methods->text);
		return true;
	}
	return false;
}

bool
scope_writes(const struct scope *s, char ret_what[SCOPE_WHAT_MAX])
{
	if (s->write != NULL && s->write->n > 0) {
		snprintf(ret_what, SCOPE_WHAT_MAX, "paths that it may write");
		return true;
	}
	for (size_t i = 0; s->rules != NULL && i < s->rules->n; i++)
		if (rule_writes(s->rules->items[i], ret_what))
			return true;
	return false;
}

/* ---- decisions ---- */

bool
scope_allows(const struct scope *s, const char *method, const char *host, uint16_t port, const char *path, bool tls,
             bool *ret_reads)
{
	const struct http_head head = { .method = { method, strlen(method) }, .host = { host, strlen(host) },
	                                .path = { path, strlen(path) }, .port = port,
	                                .scheme = tls ? HTTP_TLS : HTTP_PLAIN };
	const struct policy_request request = { .protocol = POLICY_HTTP, .head = &head, .host = host, .port = port };
	struct policy_decision d = {0};

	policy_decide(s->egress, &request, &d, NULL);
	*ret_reads = d.rule >= 0 && s->rules != NULL && (size_t)d.rule < s->rules->n &&
	             s->rules->items[d.rule]->kind == NODE_MAP && reads_by_content(s->rules->items[d.rule]);
	return d.verdict != POLICY_DENY;
}

bool
scope_allows_raw(const struct scope *s, enum policy_protocol protocol, const char *host, uint16_t port)
{
	const struct policy_request request = { .protocol = protocol, .host = host, .port = port };
	struct policy_decision d = {0};

	policy_decide(s->egress, &request, &d, NULL);
	return d.verdict != POLICY_DENY;
}

bool
scope_has_host(const struct scope *s, const char *host)
{
	return policy_mentions_host(s->egress, host);
}

bool
scope_has_path(const struct node *list, const char *path, const char *folder, const char *home)
{
	char granted[PATH_MAX];

	for (size_t i = 0; list != NULL && i < list->n; i++) {
		size_t len;

		if (list->items[i]->kind != NODE_SCALAR ||
		    policy_tools_path(list->items[i]->text, folder, home, granted, sizeof(granted), NULL) < 0)
			continue;
		len = strlen(granted);
		while (len > 1 && granted[len - 1] == '/')
			len--;
		if (strncmp(granted, path, len) == 0 && (len == 1 || path[len] == '\0' || path[len] == '/'))
			return true;
	}
	return false;
}
