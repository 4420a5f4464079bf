/* profile_mcp.c - reads `mcp` of a profile: the MCP servers of an agent, and how it is told of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy.h"
#include "policy/policy_load.h"
#include "policy/policy_yaml.h"
#include "profile/profile_parts.h"

#define SERVER_NAME_MAX 32
#define HTTPS "https://"
#define METHODS "GET,POST,DELETE "      /* of MCP over HTTP */

static const char *const forms[PROFILE_MCP_FORMS + 1] = { "none", "claude", "codex", "gemini", "opencode", NULL };

void
profile_free_mcp(struct profile_mcp *mcp)
{
	for (size_t i = 0; i < mcp->n; i++) {
		free(mcp->servers[i].name);
		free(mcp->servers[i].url);
		free(mcp->servers[i].allow);
		strv_free(mcp->servers[i].command);
		strv_free(mcp->servers[i].env);
	}
	mcp->n = 0;
}

static int
read_form(struct profile_mcp *mcp, const struct node *node, struct err *err)
{
	for (size_t i = 0; node->kind == NODE_SCALAR && i < PROFILE_MCP_FORMS; i++)
		if (strcmp(node->text, forms[i]) == 0) {
			mcp->form = (enum profile_mcp_form)i;
			return 0;
		}
	return node_err(err, node, "`as` is claude, codex, gemini or opencode");
}

/* The rule is for the path alone: what stands behind it in a URL is no part of a rule. */
static int
read_url(struct profile_server *s, const struct node *node, struct err *err)
{
	OWN(policy_freep) struct policy *policy = NULL;
	struct err why = {0};
	int r = profile_read_text(node, "`url`", &s->url, err);
	const char *rest = r < 0 ? NULL : s->url + strlen(HTTPS);

	if (r < 0)
		return r;
	if (strncmp(s->url, HTTPS, strlen(HTTPS)) != 0 || strpbrk(rest, " @*'\"\\") != NULL)
		return node_err(err, node, "`url` is the address of a server: https://mcp.example.com/mcp");
	s->allow = str_format(METHODS "%.*s%s", (int)strcspn(s->url, "?#"), s->url, strchr(rest, '/') != NULL ? "" : "/");
	if (s->allow == NULL)
		return err_set(err, ENOMEM, "out of memory");
	s->line = node->line;
	return policy_add_short(&policy, s->allow, &why) == 0 ? 0 : node_err(err, node, "%s", why.text);
}

static int
read_server_key(struct profile_server *s, const struct node *key, const struct node *value, struct err *err)
{
	static const char *const names[] = { "url", "command", "env", NULL };

	if (strcmp(key->text, names[0]) == 0)
		return read_url(s, value, err);
	if (strcmp(key->text, names[1]) == 0)
		return profile_read_list(value, "`command`", NULL, &s->command, err);
	if (strcmp(key->text, names[2]) == 0)
		return profile_read_env(value, &s->env, err);
	return policy_read_unknown(key, names, "of a server", err);
}

static bool
is_server_name(const char *name)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
	const size_t len = strlen(name);

	return len > 0 && len <= SERVER_NAME_MAX && strspn(name, ok) == len && name[0] != '-';
}

static int
read_server(struct profile_mcp *mcp, const struct node *key, const struct node *node, struct err *err)
{
	struct profile_server *s = &mcp->servers[mcp->n];
	int r = 0;

	if (!is_server_name(key->text))
		return node_err(err, key, "'%.64s' cannot be the name of a server: use up to %d letters, digits, '-' and '_'",
		                key->text, SERVER_NAME_MAX);
	if (node->kind != NODE_MAP)
		return node_err(err, node, "a server has a `url`, or a `command`");
	mcp->n++;
	s->name = strdup(key->text);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_server_key(s, node->items[i], node->values[i], err);
	if (r == 0 && ((s->url == NULL) == (s->command == NULL) || (s->url != NULL && s->env != NULL) ||
	               (s->command != NULL && s->command[0] == NULL)))
		r = node_err(err, node, "a server has a `url`, or a `command` and perhaps `env`");
	return r == 0 && s->name == NULL ? err_set(err, ENOMEM, "out of memory") : r;
}

static int
read_servers(struct profile_mcp *mcp, const struct node *node, struct err *err)
{
	int r = 0;

	if (node->kind != NODE_MAP || node->n > PROFILE_SERVERS_MAX)
		return node_err(err, node, "`servers` is a map of at most %d servers", PROFILE_SERVERS_MAX);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_server(mcp, node->items[i], node->values[i], err);
	return r;
}

int
profile_read_mcp(struct profile *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "as", "servers", NULL };
	int r = node->kind == NODE_MAP ? 0 : node_err(err, node, "`mcp` has the keys as and servers");

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		if (strcmp(node->items[i]->text, names[0]) == 0)
			r = read_form(&p->mcp, node->values[i], err);
		else if (strcmp(node->items[i]->text, names[1]) == 0)
			r = read_servers(&p->mcp, node->values[i], err);
		else
			r = policy_read_unknown(node->items[i], names, "in `mcp`", err);
	}
	if (r == 0 && p->mcp.n > 0 && p->mcp.form == PROFILE_MCP_NONE)
		r = node_err(err, node, "`mcp` needs `as`, the way in which the agent is told of its servers: claude, codex, "
		             "gemini or opencode");
	return r;
}
