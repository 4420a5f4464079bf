/* policy_text.c - writes a rule as one line for people. */
#include <arpa/inet.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "policy/policy_hook.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_load.h"
#include "policy/policy_tools.h"

struct line {
	char text[POLICY_RULE_TEXT_MAX + 1];
	size_t len;
};

__attribute__((format(printf, 2, 3))) static void
add(struct line *line, const char *fmt, ...)
{
	size_t room = sizeof(line->text) - line->len;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line->text + line->len, room, fmt, args);
	va_end(args);
	line->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

const char *const policy_call_kinds[POLICY_CALL_KINDS] = { "tool:", "prompt:", "resource:" };

static void
add_list(struct line *line, const char *name, const struct policy_list *list)
{
	if (list->n == 0)
		return;
	add(line, "%s%s [", *name != '\0' ? " " : "", name);
	for (size_t i = 0; i < list->n; i++)
		add(line, "%s%s", i > 0 ? ", " : "", *list->at[i] != '\0' ? list->at[i] : "\"\"");
	add(line, "]");
}

static void
add_host(struct line *line, const struct policy_host *host)
{
	char text[INET6_ADDRSTRLEN];
	bool v4;

	switch (host->kind) {
	case POLICY_HOST_NET:
		v4 = policy_net_is_ipv4(host);
		inet_ntop(v4 ? AF_INET : AF_INET6, host->address + (v4 ? 12 : 0), text, sizeof(text));
		add(line, "%s%s", !v4 && host->port != 0 ? "[" : "", text);
		if (host->bits != 128)
			add(line, "/%d", host->bits - (v4 ? 96 : 0));
		add(line, "%s", !v4 && host->port != 0 ? "]" : "");
		break;
	case POLICY_HOST_ANY:
		add(line, "*");
		break;
	default:
		add(line, "%s%s", host->kind == POLICY_HOST_LABEL ? "*." :
		    host->kind == POLICY_HOST_UNDER ? "**." : "", host->name);
		break;
	}
	if (host->port != 0)
		add(line, ":%d", host->port);
}

static const char *const verbs[] = { "allow", "deny", "ask", "log" };

/* "allow tool:github.get_*, resource:fs/x" */
static void
add_calls(struct line *line, const struct policy_rule *rule)
{
	const struct policy_call *call = &rule->call;

	add(line, "%s%s", verbs[rule->verb], call->others == POLICY_OTHERS_MESSAGES ? " messages that call no tool" :
	    call->others == POLICY_OTHERS_BODILESS ? " streams of tools" : "");
	for (size_t i = 0; i < call->n; i++)
		add(line, "%s%s%s", i > 0 ? ", " : " ", policy_call_kinds[call->at[i].kind], call->at[i].glob);
}

static void
add_where(struct line *line, const struct policy_rule *rule)
{
	bool raw = rule->protocols == 1u << POLICY_TCP || rule->protocols == 1u << POLICY_TLS;
	bool usual = true;

	add(line, "%s", verbs[rule->verb]);
	for (size_t i = 0; i < rule->n_hosts; i++) {
		add(line, "%s", i > 0 ? ", " : " ");
		add_host(line, &rule->hosts[i]);
	}
	for (size_t i = 0; i < rule->n_ports; i++)
		usual &= rule->ports[i].last == (rule->ports[i].first == 80 ? 80 : 443) &&
		         (rule->ports[i].first == 80 || rule->ports[i].first == 443);
	if (!usual) {
		add(line, " ports [");
		for (size_t i = 0; i < rule->n_ports; i++)
			add(line, rule->ports[i].first == rule->ports[i].last ? "%s%d" : "%s%d-%d",
			    i > 0 ? ", " : "", rule->ports[i].first, rule->ports[i].last);
		add(line, "]");
	}
	if (raw)
		add(line, " protocol %s", rule->protocols == 1u << POLICY_TCP ? "tcp" : "tls");
}

static void
add_fields(struct line *line, const char *name, const struct policy_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		add(line, " %s %s", name, fields[i].name);
		if (fields[i].absent)
			add(line, " absent");
		else
			add_list(line, "", &fields[i].globs);
	}
}

/* ---- the keys, in the order of the table ---- */

static void
print_scheme(struct line *line, const struct policy_rule *rule)
{
	if (rule->schemes == POLICY_SCHEME_PLAIN || rule->schemes == POLICY_SCHEME_TLS)
		add(line, " scheme %s", rule->schemes == POLICY_SCHEME_PLAIN ? "http" : "https");
}

static void
print_methods(struct line *line, const struct policy_rule *rule)
{
	add_list(line, "methods", &rule->methods);
}

static void
print_paths(struct line *line, const struct policy_rule *rule)
{
	add_list(line, rule->grpc ? "grpc" : "paths", &rule->paths);
}

static void
print_query(struct line *line, const struct policy_rule *rule)
{
	add_list(line, "query", &rule->query);
	add_fields(line, "query", rule->params, rule->n_params);
}

static void
print_headers(struct line *line, const struct policy_rule *rule)
{
	add_fields(line, "header", rule->headers, rule->n_headers);
}

static void
print_content_type(struct line *line, const struct policy_rule *rule)
{
	add_list(line, "content_type", &rule->content_types);
}

static void
print_git(struct line *line, const struct policy_rule *rule)
{
	const struct policy_git *git = &rule->git;

	if (!git->present)
		return;
	add(line, " git%s", git->fetch ? " fetch" : "");
	add_list(line, "push", &git->push);
	add(line, "%s%s%s", git->force ? " force" : "", git->delete ? " delete" : "",
	    git->options ? " options" : "");
	add_list(line, "repos", &git->repos);
}

static void
print_body(struct line *line, const struct policy_rule *rule)
{
	static const char *const types[] = { "query", "mutation", "subscription" };
	const struct policy_body *body = &rule->body;

	for (size_t i = 0; i < body->n_json; i++)
		add(line, " json %s", *body->json[i].pointer != '\0' ? body->json[i].pointer : "\"\"");
	add_list(line, "regex", &body->regex);
	if (body->graphql)
		add(line, " graphql");
	for (size_t i = 0; i < 3; i++)
		if (body->graphql && (body->graphql_types >> i & 1) != 0)
			add(line, " %s", types[i]);
	add_list(line, "names", &body->graphql_names);
	add_list(line, "jsonrpc", &body->jsonrpc_methods);
}

static void
print_upgrade_and_max(struct line *line, const struct policy_rule *rule)
{
	char size[NUM_TEXT_MAX];

	if (rule->upgrade != POLICY_UPGRADE_NO)
		add(line, rule->upgrade == POLICY_UPGRADE_ONLY ? " upgrade websocket" : " websocket");
	if (rule->upload_said)
		add(line, " max %s", num_format_size(size, rule->upload_max));
}

static void
print_secrets(struct line *line, const struct policy_rule *rule)
{
	add(line, "%s", rule->secrets ? " secrets" : "");
}

static void
print_placeholders(struct line *line, const struct policy_rule *rule)
{
	add(line, "%s", rule->placeholders ? " placeholders" : "");
}

static void
print_private(struct line *line, const struct policy_rule *rule)
{
	add(line, "%s", rule->private ? " private" : "");
}

static void
print_principal(struct line *line, const struct policy_rule *rule)
{
	add_list(line, "principal", &rule->principals);
}

static void
print_chain(struct line *line, const struct policy_rule *rule)
{
	add_list(line, "chain", &rule->chains);
}

static void
print_cookies(struct line *line, const struct policy_rule *rule)
{
	add_fields(line, "cookie", rule->cookies, rule->n_cookies);
}

static void
print_rewrite(struct line *line, const struct policy_rule *rule)
{
	char text[POLICY_EDIT_TEXT_MAX];

	for (size_t i = 0; rule->rewrite != NULL && i < rule->rewrite->n; i++)
		add(line, "%s%s", i == 0 ? " rewrite [" : ", ",
		    policy_edit_text(&rule->rewrite->edits[i], text));
	add(line, "%s", rule->rewrite != NULL ? "]" : "");
}

static void
print_uses(struct line *line, const struct policy_rule *rule)
{
	if (rule->bounds_uses && rule->uses.n == 0)
		add(line, " uses []");
	else
		add_list(line, "uses", &rule->uses);
}

static void
print_hook(struct line *line, const struct policy_rule *rule)
{
	const struct policy_hook *hook = rule->hook;
	char text[NUM_TEXT_MAX];

	if (hook == NULL)
		return;
	if (hook->socket != NULL)
		add(line, " hook unix:%s", hook->socket);
	for (size_t i = 0; hook->argv != NULL && hook->argv[i] != NULL; i++)
		add(line, "%s%s", i == 0 ? " hook [" : ", ", hook->argv[i]);
	add(line, "%s", hook->argv != NULL ? "]" : "");
	if (hook->timeout_ms != POLICY_HOOK_TIMEOUT_MS)
		add(line, " timeout %s", num_format_duration(text, hook->timeout_ms));
	if (hook->body_max > 0)
		add(line, " body %s", num_format_size(text, hook->body_max));
}

static void
print_call(struct line *line, const struct policy_rule *rule)
{
	const struct policy_call *call = &rule->call;
	unsigned all = call->hints | call->no_hints;

	for (size_t i = 0; i < call->n_args; i++)
		add(line, " args %s", *call->args[i].json.pointer != '\0' ? call->args[i].json.pointer : "\"\"");
	for (unsigned i = 0, n = 0; i < POLICY_TOOL_N_HINTS; i++)
		if ((all >> i & 1) != 0)
			add(line, "%s%s%s", n++ > 0 ? ", " : " annotations [", (call->hints >> i & 1) != 0 ? "" : "not ",
			    policy_tool_hints[i]);
	add(line, "%s", all != 0 ? "]" : "");
}

static void (*const printers[])(struct line *line, const struct policy_rule *rule) = {
#define CONDITION(id, name, flags, read, fits, covers, print, ...) print,
#define SETTING(id, name, flags, read, print, ...) print,
#include "policy/policy_table.h"
};

/* ---- the rest of a rule ---- */

static void
add_ask(struct line *line, const struct policy_rule *rule)
{
	char time[NUM_TEXT_MAX];

	if (rule->verb != POLICY_VERB_ASK)
		return;
	add_list(line, "approvers", &rule->ask.approvers);
	if (rule->ask.approvals > 1)
		add(line, " approvals %u", rule->ask.approvals);
	if (rule->ask.timeout_ms != POLICY_TIMEOUT_MS && rule->ask.timeout_ms != 0)
		add(line, " timeout %s", num_format_duration(time, rule->ask.timeout_ms));
	add(line, "%s", rule->ask.freeze ? " freeze" : "");
}

static void
add_then(struct line *line, const struct policy_consequence *then)
{
	if (then == NULL)
		return;
	add(line, " then%s", then->n_narrow > 0 || then->narrow_file != NULL ? " narrow" : "");
	add_list(line, "revoke", &then->revoke);
	add(line, "%s%s", then->freeze ? " freeze" : "", then->notify ? " notify" : "");
}

/* The line as P's own text; a cut line ends with "...". */
static const char *
finish(struct policy *p, struct line *line)
{
	if (line->len == sizeof(line->text) - 1) {
		line->len -= 3;
		/* Do not cut in the middle of a UTF-8 character. */
		while (line->len > 0 && ((unsigned char)line->text[line->len] & 0xc0) == 0x80)
			line->len--;
		add(line, "...");
	}
	return policy_copy(p, line->text, line->len);
}

const char *
policy_text_of_behaviour(struct policy *p, const struct policy_behaviour *rule)
{
	struct line line = {0};
	size_t n = 0;

	add(&line, "watch %s [", policy_behaviour_name(rule->kind));
	if (rule->memory)
		add(&line, "%smemory", n++ > 0 ? ", " : "");
	if (rule->downloaded)
		add(&line, "%sdownloaded", n++ > 0 ? ", " : "");
	if (rule->refused)
		add(&line, "%srefused", n++ > 0 ? ", " : "");
	for (size_t i = 0; i < rule->patterns.n; i++)
		add(&line, "%s%s", n++ > 0 ? ", " : "",
		    rule->patterns.at[i] + (strncmp(rule->patterns.at[i], "**/", 3) == 0 ? 3 : 0));
	for (size_t i = 0; i < rule->n_nets; i++) {
		add(&line, "%s", n++ > 0 ? ", " : "");
		add_host(&line, &rule->nets[i]);
	}
	add(&line, "]");
	add_then(&line, rule->then);
	add(&line, "%s%s", rule->ask ? " ask" : "", rule->kill ? " kill" : "");
	return finish(p, &line);
}

const char *
policy_text_of(struct policy *p, const struct policy_rule *rule)
{
	struct policy_rule shown = *rule;
	struct line line = {0};

	if (rule->call.present) {
		add_calls(&line, rule);
		/* The request that a call is. */
		shown.schemes = 0;
		shown.methods.n = shown.paths.n = 0;
		rule = &shown;
	} else {
		add_where(&line, rule);
	}
	for (size_t i = 0; i < ARRAY_LEN(printers); i++)
		if (printers[i] != NULL)
			printers[i](&line, rule);
	add_ask(&line, rule);
	add_then(&line, rule->then);
	return finish(p, &line);
}
