/* policy_tools_text.c - a policy's `tools` as YAML: see policy_tools.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy/policy_tools.h"
#include "policy/policy_tools_parts.h"
#include "policy/policy_yaml.h"

static void
put_word(struct buf *b, const char *text)
{
	node_put_quoted(b, text, strlen(text));
}

static void
put_words(struct buf *b, const char *key, const char *const *at, size_t n)
{
	if (n == 0)
		return;
	buf_put_text(b, ", ");
	buf_put_text(b, key);
	for (size_t i = 0; i < n; i++) {
		buf_put_text(b, i == 0 ? ": [" : ", ");
		put_word(b, at[i]);
	}
	buf_put_text(b, "]");
}

static void
put_member(struct buf *b, const char *key, const char *value)
{
	if (value == NULL)
		return;
	buf_put_text(b, ", ");
	buf_put_text(b, key);
	buf_put_text(b, ": ");
	put_word(b, value);
}

static void
put_env(struct buf *b, const struct policy_list *env)
{
	for (size_t i = 0; i < env->n; i++) {
		size_t n = strcspn(env->at[i], "=");

		buf_put_text(b, i == 0 ? ", env: {" : ", ");
		node_put_quoted(b, env->at[i], n);
		buf_put_text(b, ": ");
		put_word(b, env->at[i] + n + 1);
	}
	buf_put_text(b, env->n > 0 ? "}" : "");
}

static void
put_server(struct buf *b, const struct policy_tools_server *s)
{
	char numbers[128];

	put_word(b, s->name);
	snprintf(numbers, sizeof(numbers), ": {per: %s, idle: %" PRIu64 "ms, timeout: %" PRIu64 "ms, result: %" PRIu64,
	         s->per_call ? "call" : "session", s->idle_ms, s->timeout_ms, s->result_max);
	buf_put_text(b, numbers);
	put_words(b, "command", s->command, s->n_command);
	put_member(b, "image", s->image);
	put_member(b, "url", s->url);
	put_member(b, "wasm", s->wasm);
	put_env(b, &s->env);
	put_words(b, "read", s->read.at, s->read.n);
	put_words(b, "write", s->write.at, s->write.n);
	put_member(b, "folder", s->folder);
	if (s->policy[0] != '\0') {
		buf_put_text(b, ", policy: ");
		buf_put_text(b, s->policy);
	}
	if (s->start[0] != '\0') {
		buf_put_text(b, ", start: ");
		buf_put_text(b, s->start);
	}
	buf_put_text(b, "}");
}

static void
put_tool(struct buf *b, const struct policy_tool *tool, size_t server)
{
	put_word(b, tool->name + server + 1);
	buf_put_text(b, ": {sha256: '");
	buf_put_text(b, tool->hash);
	buf_put_text(b, "'");
	for (unsigned i = 0; i < POLICY_TOOL_N_HINTS; i++) {
		buf_put_text(b, i == 0 ? ", annotations: {" : ", ");
		buf_put_text(b, policy_tool_hints[i]);
		buf_put_text(b, (tool->hints >> i & 1) != 0 ? ": true" : ": false");
	}
	buf_put_text(b, "}");
	if (tool->scope[0] != '\0') {
		buf_put_text(b, ", scope: ");
		buf_put_text(b, tool->scope);
	}
	buf_put_text(b, "}");
}

/* "server: {program: {sha256: '...'}, files: {server.py: '...'}, tools: {": of a server whose name has N bytes. */
static void
put_locked_server(struct buf *b, const struct policy_tools *tools, const char *name, size_t n)
{
	char server[POLICY_TOOLS_SERVER_MAX + 1];
	const struct policy_tools_pin *pins;
	size_t n_pins, n_files = 0;

	snprintf(server, sizeof(server), "%.*s", (int)n, name);
	pins = policy_tools_pins(tools, server, &n_pins);
	node_put_quoted(b, name, n);
	buf_put_text(b, ": {");
	for (size_t i = 0; i < n_pins; i++) {
		const bool is_program = pins[i].file[0] == '\0';

		buf_put_text(b, is_program ? "program: {sha256" : n_files++ == 0 ? "files: {" : ", ");
		if (!is_program)
			put_word(b, pins[i].file);
		buf_put_text(b, ": '");
		buf_put_text(b, pins[i].hash);
		buf_put_text(b, is_program ? "'}, " : "'");
	}
	buf_put_text(b, n_files > 0 ? "}, tools: {" : "tools: {");
}

static bool
has_locked(const struct policy_tools *tools, const char *server)
{
	size_t n = strlen(server);

	for (size_t i = 0; i < tools->n_locked; i++)
		if (strncmp(tools->locked[i].name, server, n) == 0 && tools->locked[i].name[n] == '.')
			return true;
	return false;
}

/* Servers of which the lock has files, and no tools. */
static void
put_pinned_servers(struct buf *b, const struct policy_tools *tools)
{
	bool is_first = tools->n_locked == 0;

	for (size_t i = 0; i < tools->n_pins; i++) {
		const char *server = tools->pins[i].server;

		if ((i > 0 && strcmp(server, tools->pins[i - 1].server) == 0) || has_locked(tools, server))
			continue;
		buf_put_text(b, is_first ? "" : ", ");
		put_locked_server(b, tools, server, strlen(server));
		buf_put_text(b, "}}");
		is_first = false;
	}
}

static void
put_lock(struct buf *b, const struct policy_tools *tools)
{
	const char *before = "";
	size_t n_before = 0;

	buf_put_text(b, "lock: {version: 1, servers: {");
	for (size_t i = 0; i < tools->n_locked; i++) {
		const char *name = tools->locked[i].name;
		size_t n = strcspn(name, ".");

		if (i > 0 && n == n_before && memcmp(name, before, n) == 0) {
			buf_put_text(b, ", ");
		} else {
			buf_put_text(b, i > 0 ? "}}, " : "");
			put_locked_server(b, tools, name, n);
		}
		put_tool(b, &tools->locked[i], n);
		before = name;
		n_before = n;
	}
	buf_put_text(b, tools->n_locked > 0 ? "}}" : "");
	put_pinned_servers(b, tools);
	buf_put_text(b, "}}, ");
}

void
policy_tools_put_yaml(struct buf *b, const struct policy_tools *tools)
{
	char timeout[64];

	snprintf(timeout, sizeof(timeout), ", ask_timeout: %" PRIu64 "ms", tools->ask_ms);
	buf_put_text(b, "{");
	if (tools->has_lock)
		put_lock(b, tools);
	buf_put_text(b, "injection: ");
	buf_put_text(b, policy_tools_injections[tools->injection]);
	buf_put_text(b, tools->ask_results ? ", results: ask" : ", results: allow");
	buf_put_text(b, timeout);
	buf_put_text(b, ", servers: {");
	for (size_t i = 0; i < tools->n_servers; i++) {
		buf_put_text(b, i > 0 ? ", " : "");
		put_server(b, &tools->servers[i]);
	}
	buf_put_text(b, "}}");
}
