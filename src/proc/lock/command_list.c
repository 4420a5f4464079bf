/* command_list.c - `cloister tools list`: the servers of a policy, and what the lock has of them.  It starts nothing. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "tools/server_run.h"

struct state {
	const struct node *locked, *tools;      /* in the lock; NULL: not there */
	size_t n_tools, n_without_scope;
	const char *server, *lock;      /* words of `--json` */
};

static const char *
state_of_server(const struct policy_tools_server *server, const struct server_program *program)
{
	OWN(freep) char *token = server->url != NULL ? server_run_token(server->name, "_TOKEN") : NULL;

	if (server->url != NULL)
		return token != NULL && strstr(server->policy, token) != NULL && !token_is_in_vault(token) ? "not-logged-in" : "ready";
	return server->image == NULL && program->path[0] == '\0' ? "not-found" : "ready";
}

static const char *
state_of_lock(const struct node *locked, const struct server_program *program)
{
	const struct node *at = locked != NULL ? node_get(locked, "program") : NULL;
	const struct node *hash = at != NULL && at->kind == NODE_MAP ? node_get(at, "sha256") : NULL;

	if (locked == NULL)
		return "not-locked";
	return hash != NULL && hash->kind == NODE_SCALAR && program->sha256[0] != '\0' && strcmp(hash->text, program->sha256) != 0 ?
	       "program-changed" : "locked";
}

static struct state
state_of(const struct keeper *k, const struct policy_tools_server *server)
{
	struct state s = { .locked = lock_server(&k->lock, server->name) };
	struct server_program program;

	keeper_find_program(k, server, &program);
	s.server = state_of_server(server, &program);
	s.lock = state_of_lock(s.locked, &program);
	s.tools = s.locked != NULL ? node_get(s.locked, "tools") : NULL;
	if (s.tools != NULL && s.tools->kind != NODE_MAP)
		s.tools = NULL;
	s.n_tools = s.tools != NULL ? s.tools->n : 0;
	for (size_t i = 0; i < s.n_tools; i++)
		s.n_without_scope += lock_scope(s.tools->values[i]) == NULL;
	return s;
}

/* ---- text ---- */

static void
print_server(const struct policy_tools_server *server, const struct state *s)
{
	printf("%-16s ", server->name);
	if (server->url != NULL)
		printf("%s", server->url);
	else if (server->image != NULL)
		printf("image %s", server->image);
	else if (server->wasm != NULL)
		printf("module %s", server->wasm);
	for (size_t i = 0; i < server->n_command; i++)
		printf("%s%s", i > 0 || server->image != NULL ? " " : "", server->command[i]);
	if (s->locked == NULL)
		printf("  (not locked");
	else
		printf("  (%zu tool%s locked", s->n_tools, s->n_tools == 1 ? "" : "s");
	if (s->n_without_scope > 0)
		printf(", %zu without a scope", s->n_without_scope);
	if (strcmp(s->lock, "program-changed") == 0)
		printf("; the program has changed since");
	if (strcmp(s->server, "not-found") == 0)
		printf("; the program is not on this machine");
	if (strcmp(s->server, "not-logged-in") == 0)
		printf("; `cloister tools login %s` first", server->name);
	printf(")\n");
}

/* ---- JSON ---- */

static void
put_tool(struct json *w, const char *name, const struct node *tool)
{
	const struct definition_hints hints = lock_hints(tool);
	size_t examples = 0;

	while (lock_example(tool, examples) != NULL)
		examples++;
	json_open(w, NULL, '{');
	json_str(w, "name", name);
	json_str(w, "sha256", lock_hash(tool));
	json_open(w, "annotations", '{');
	for (unsigned i = 0; i < POLICY_TOOL_N_HINTS; i++)
		if ((hints.stated >> i & 1) != 0)
			json_bool(w, policy_tool_hints[i], (hints.values >> i & 1) != 0);
	json_close(w, '}');
	json_bool(w, "scope", lock_scope(tool) != NULL);
	json_u64(w, "examples", examples);
	json_close(w, '}');
}

static void
put_server(struct json *w, const struct policy_tools_server *server, const struct state *s)
{
	json_open(w, NULL, '{');
	json_str(w, "name", server->name);
	if (server->n_command > 0)
		json_strv(w, "command", server->command);
	if (server->image != NULL)
		json_str(w, "image", server->image);
	if (server->wasm != NULL)
		json_str(w, "wasm", server->wasm);
	if (server->url != NULL)
		json_str(w, "url", server->url);
	json_str(w, "per", server->per_call ? "call" : "session");
	json_str(w, "state", s->server);
	json_str(w, "lock", s->lock);
	json_open(w, "tools", '[');
	for (size_t i = 0; i < s->n_tools; i++)
		put_tool(w, s->tools->items[i]->text, s->tools->values[i]);
	json_close(w, ']');
	json_close(w, '}');
}

int
command_list(const struct args *args, struct err *err)
{
	const bool json = args_get(args, "json") != NULL;
	struct json w = { .out = stdout };
	OWN(keeper_close) struct keeper k;
	int r = keeper_open(&k, args, err);

	if (r < 0)
		return r;
	if (json) {
		json_open(&w, NULL, '{');
		json_str(&w, "policy", k.file);
		json_str(&w, "lock", k.lock.root != NULL ? k.lock_path : NULL);
		json_open(&w, "servers", '[');
	}
	for (size_t i = 0; i < k.tools->n_servers; i++) {
		const struct policy_tools_server *server = &k.tools->servers[i];
		struct state s;

		if (!keeper_wants(&k, server->name))
			continue;
		s = state_of(&k, server);
		if (json)
			put_server(&w, server, &s);
		else
			print_server(server, &s);
	}
	if (json) {
		json_close(&w, ']');
		json_close(&w, '}');
		putchar('\n');
	}
	return 0;
}
