/* policy_read_tools.c - reads `tools`: see policy_tools.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_load.h"
#include "policy/policy_tools_parts.h"

struct reading {
	struct policy_draft d;
	struct policy_tools_server server;
	const struct policy_reader *reader;
};

/* ---- a policy inside another ---- */

int
policy_read_within(const struct node *node, const struct policy_reader *reader, const char *what, size_t max,
                   struct buf *b, struct err *err)
{
	static char version[] = "version", one[] = "1";
	struct node key = { .kind = NODE_SCALAR, .text = version, .plain = true };
	struct node value = { .kind = NODE_SCALAR, .text = one, .plain = true };
	struct node *items[32] = { &key }, *values[32] = { &value }, root = *node;
	/* Its hooks run with the operator's rights, too. */
	const struct policy_reader inner = { .hook = reader != NULL ? reader->hook : NULL,
	                                     .arg = reader != NULL ? reader->arg : NULL };
	OWN(policy_freep) struct policy *p = NULL;
	size_t before = b->len;
	int r;

	if (node->kind != NODE_MAP)
		return node_err(err, node, "%s is a map: {egress: [{allow: api.example.com}]}", what);
	if (node_get(node, "tools") != NULL)
		return node_err(err, node, "a server has no servers of its own: leave `tools` out");
	if (node->n >= ARRAY_LEN(items))
		return node_err(err, node, "%s has too many members", what);
	root.n = 1;
	if (node_get(node, "version") != NULL)
		root.n = 0;
	for (size_t i = 0; i < node->n; i++) {
		items[root.n] = node->items[i];
		values[root.n++] = node->values[i];
	}
	root.items = items;
	root.values = values;
	key.file = value.file = node->file;
	key.line = value.line = node->line;
	key.column = value.column = node->column;
	r = policy_load_node(&root, &inner, &p, NULL, err);
	if (r < 0)
		return r;
	policy_flat_put_node(b, &root);
	if (buf_failed(b) || b->len - before > max)
		return node_err(err, node, "%s is larger than %zu KiB", what, max / 1024);
	return 0;
}

/* ---- the members of a server ---- */

static int
read_words(struct reading *rd, const struct node *node, const char *what, struct policy_list *ret_list)
{
	if (node->kind == NODE_LIST && node->n > POLICY_TOOLS_WORDS_MAX)
		return node_err(rd->d.err, node, "there are at most %d of these", POLICY_TOOLS_WORDS_MAX);
	return policy_read_list(&rd->d, node, what, NULL, ret_list);
}

static int
read_command(struct reading *rd, const struct node *node)
{
	struct policy_list words;
	const char **at;
	int r = read_words(rd, node, "a program or an argument", &words);

	if (r < 0)
		return r;
	at = policy_alloc(rd->d.p, words.n + 1, sizeof(*at));
	if (at == NULL)
		return policy_read_oom(&rd->d);
	memcpy(at, words.at, words.n * sizeof(*at));
	rd->server.command = at;
	rd->server.n_command = words.n;
	return 0;
}

static int
read_image(struct reading *rd, const struct node *node)
{
	return policy_read_text(&rd->d, node, "an image", &rd->server.image);
}

static int
read_url(struct reading *rd, const struct node *node)
{
	return policy_read_text(&rd->d, node, "a URL", &rd->server.url);
}

static int
read_wasm(struct reading *rd, const struct node *node)
{
	return policy_read_text(&rd->d, node, "a WASI module", &rd->server.wasm);
}

static int
read_env(struct reading *rd, const struct node *node)
{
	const char **at;
	char text[2 * POLICY_TEXT_MAX + 2];

	if (node->kind != NODE_MAP || node->n == 0 || node->n > POLICY_TOOLS_WORDS_MAX)
		return node_err(rd->d.err, node, "`env` is a map of 1 to %d variables: {LEVEL: quiet}", POLICY_TOOLS_WORDS_MAX);
	at = policy_alloc(rd->d.p, node->n, sizeof(*at));
	for (size_t i = 0; at != NULL && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];
		int n = snprintf(text, sizeof(text), "%s=%s", key->text, value->kind == NODE_SCALAR ? value->text : "");

		if (value->kind != NODE_SCALAR || node_is_null(value))
			return node_err(rd->d.err, value, "the value of a variable is a word");
		if (n < 0 || (size_t)n > POLICY_TEXT_MAX)
			return node_err(rd->d.err, value, "a variable has at most %d bytes", POLICY_TEXT_MAX);
		at[i] = policy_copy(rd->d.p, text, (size_t)n);
		if (at[i] == NULL)
			return policy_read_oom(&rd->d);
	}
	rd->server.env = (struct policy_list){ at, node->n };
	return at != NULL ? 0 : policy_read_oom(&rd->d);
}

static int
read_read(struct reading *rd, const struct node *node)
{
	return read_words(rd, node, "a path", &rd->server.read);
}

static int
read_write(struct reading *rd, const struct node *node)
{
	return read_words(rd, node, "a path", &rd->server.write);
}

static int
read_folder(struct reading *rd, const struct node *node)
{
	return policy_read_text(&rd->d, node, "a folder", &rd->server.folder);
}

static int
read_per(struct reading *rd, const struct node *node)
{
	rd->server.per_call = node->kind == NODE_SCALAR && strcmp(node->text, "call") == 0;
	return rd->server.per_call || (node->kind == NODE_SCALAR && strcmp(node->text, "session") == 0) ? 0 :
	       node_err(rd->d.err, node, "a server is made for a `session`, or for each `call` anew: `per: call`");
}

static int
read_time(struct reading *rd, const struct node *node, const char *what, uint64_t *ret_ms)
{
	const char *text;
	int r = policy_read_text(&rd->d, node, what, &text);

	return r < 0 ? r : num_parse_duration(text, ret_ms, NULL) == 0 ? 0 :
	       node_err(rd->d.err, node, "'%.32s' is not a time such as 60s", text);
}

static int
read_idle(struct reading *rd, const struct node *node)
{
	return read_time(rd, node, "a time", &rd->server.idle_ms);
}

static int
read_timeout(struct reading *rd, const struct node *node)
{
	return read_time(rd, node, "a time", &rd->server.timeout_ms);
}

static int
read_result(struct reading *rd, const struct node *node)
{
	const char *text;
	int r = policy_read_text(&rd->d, node, "a size", &text);

	return r < 0 ? r : num_parse_size(text, &rd->server.result_max, NULL) == 0 ? 0 :
	       node_err(rd->d.err, node, "'%.32s' is not a size such as 1M", text);
}

static int
read_policy(struct reading *rd, const struct node *node)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FLAT_MAX);
	int r = policy_read_within(node, rd->reader, "the policy of a server", POLICY_TOOLS_POLICY_MAX, &b, rd->d.err);

	if (r < 0)
		return r;
	rd->server.policy = policy_copy(rd->d.p, (const char *)b.data, b.len);
	return rd->server.policy != NULL ? 0 : policy_read_oom(&rd->d);
}

/* Rules, as in a policy that has nothing else. */
static int
read_start(struct reading *rd, const struct node *node)
{
	static char egress[] = "egress";
	OWN(buf_free) struct buf unused = BUF(POLICY_FLAT_MAX), b = BUF(POLICY_FLAT_MAX);
	struct node key = { .kind = NODE_SCALAR, .text = egress, .plain = true, .file = node->file, .line = node->line };
	struct node *items[] = { &key }, *values[] = { (struct node *)(uintptr_t)node }, rules = *node;
	int r;

	rules.kind = NODE_MAP;
	rules.items = items;
	rules.values = values;
	rules.n = 1;
	r = policy_read_within(&rules, NULL, "`start` of a server", POLICY_TOOLS_SCOPE_MAX, &unused, rd->d.err);
	if (r < 0)
		return r;
	policy_flat_put_node(&b, node);
	if (buf_failed(&b) || b.len > POLICY_TOOLS_SCOPE_MAX)
		return policy_read_oom(&rd->d);
	rd->server.start = policy_copy(rd->d.p, (const char *)b.data, b.len);
	return rd->server.start != NULL ? 0 : policy_read_oom(&rd->d);
}

static const struct {
	const char *name;
	int (*read)(struct reading *rd, const struct node *node);
} members[] = {
	{ "command", read_command }, { "image", read_image }, { "url", read_url }, { "wasm", read_wasm },
	{ "env", read_env },
	{ "read", read_read }, { "write", read_write }, { "folder", read_folder }, { "per", read_per },
	{ "idle", read_idle }, { "timeout", read_timeout }, { "result", read_result }, { "policy", read_policy },
	{ "start", read_start },
};

/* ---- servers ---- */

static int
read_member(struct reading *rd, const struct node *key, const struct node *value)
{
	const char *names[ARRAY_LEN(members) + 1] = { NULL };

	for (size_t k = 0; k < ARRAY_LEN(members); k++) {
		if (strcmp(key->text, members[k].name) == 0)
			return members[k].read(rd, value);
		names[k] = members[k].name;
	}
	return policy_read_unknown(key, names, "of a server", rd->d.err);
}

static int
read_server(struct policy *p, const struct node *key, const struct node *node, const struct policy_reader *reader,
            struct policy_tools_server *ret_server, struct err *err)
{
	static const char *const nothing[] = { NULL };
	struct reading rd = {
		.d = { .p = p, .at = node, .err = err }, .reader = reader,
		.server = { .command = nothing, .idle_ms = POLICY_TOOLS_IDLE_MS, .timeout_ms = POLICY_TOOLS_TIMEOUT_MS,
		            .result_max = POLICY_TOOLS_RESULT, .policy = "", .start = "" },
	};
	const struct node *at;
	const char *member;
	struct err why = {0};
	int r = 0;

	if (!policy_tools_is_server(key->text, strlen(key->text)))
		return node_err(err, key, "'%.64s' is not the name of a server: up to %d of a-z, 0-9, '_' and '-'", key->text,
		                POLICY_TOOLS_SERVER_MAX);
	if (node->kind != NODE_MAP)
		return node_err(err, node, "a server is a map: {command: [npx, -y, some-server]}");
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_member(&rd, node->items[i], node->values[i]);
	if (r < 0)
		return r;
	/* A module has nothing to keep between calls. */
	rd.server.per_call = rd.server.per_call || (rd.server.wasm != NULL && node_get(node, "per") == NULL);
	rd.server.name = policy_copy(p, key->text, strlen(key->text));
	if (rd.server.name == NULL)
		return policy_read_oom(&rd.d);
	if (policy_tools_check_server(&rd.server, &member, &why) < 0) {
		at = member != NULL ? node_get(node, member) : NULL;
		return node_err(err, at != NULL ? at : key, "%s", why.text);
	}
	*ret_server = rd.server;
	return 0;
}

static int
read_servers(struct policy *p, const struct node *node, const struct policy_reader *reader, struct policy_tools *tools,
             struct err *err)
{
	struct policy_tools_server *servers;
	int r = 0;

	if (node->kind != NODE_MAP || node->n == 0)
		return node_err(err, node, "`servers` is a map of names: {github: {command: [npx, -y, some-server]}}");
	if (node->n > POLICY_TOOLS_SERVERS_MAX)
		return node_err(err, node, "a policy has at most %d servers", POLICY_TOOLS_SERVERS_MAX);
	servers = policy_alloc(p, node->n, sizeof(*servers));
	if (servers == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_server(p, node->items[i], node->values[i], reader, &servers[i], err);
	tools->servers = servers;
	tools->n_servers = node->n;
	return r;
}

static int
read_injection(const struct node *node, struct policy_tools *tools, struct err *err)
{
	for (unsigned k = 0; node->kind == NODE_SCALAR && k < POLICY_INJECTIONS; k++)
		if (strcmp(node->text, policy_tools_injections[k]) == 0) {
			tools->injection = k;
			return 0;
		}
	return node_err(err, node, "a result that looks like instructions is flagged in the record, waits for a person, or "
	                "passes: `flag`, `ask` or `off`");
}

static int
read_results(const struct node *node, struct policy_tools *tools, struct err *err)
{
	tools->ask_results = node->kind == NODE_SCALAR && strcmp(node->text, "ask") == 0;
	return tools->ask_results || (node->kind == NODE_SCALAR && strcmp(node->text, "allow") == 0) ? 0 :
	       node_err(err, node, "results are passed on, or wait for a person: `allow` or `ask`");
}

static int
read_ask_timeout(const struct node *node, struct policy_tools *tools, struct err *err)
{
	uint64_t ms;

	if (node->kind != NODE_SCALAR || num_parse_duration(node->text, &ms, NULL) < 0 || ms < POLICY_TIMEOUT_LEAST_MS ||
	    ms > POLICY_TIMEOUT_MOST_MS)
		return node_err(err, node, "`ask_timeout` is how long a result waits for an answer, from 1s to 24h: "
		                "`ask_timeout: 10m`");
	tools->ask_ms = ms;
	return 0;
}

int
policy_read_tools(struct policy *p, const struct node *node, const struct policy_reader *reader,
                  struct policy_tools **ret_tools, const struct node **ret_lock, struct err *err)
{
	static const char *const names[] = { "servers", "lock", "injection", "results", "ask_timeout", NULL };
	struct policy_tools *tools = policy_alloc(p, 1, sizeof(*tools));
	int r = 0;

	*ret_lock = NULL;
	if (tools == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	tools->injection = POLICY_INJECTION_FLAG;
	tools->ask_ms = POLICY_TOOLS_ASK_MS;
	if (node->kind != NODE_MAP || node_get(node, "servers") == NULL)
		return node_err(err, node, "`tools` is a map with `servers`: {servers: {github: {command: [npx, -y, some-server]}}}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, "servers") == 0)
			r = read_servers(p, value, reader, tools, err);
		else if (strcmp(key->text, "injection") == 0)
			r = read_injection(value, tools, err);
		else if (strcmp(key->text, "results") == 0)
			r = read_results(value, tools, err);
		else if (strcmp(key->text, "ask_timeout") == 0)
			r = read_ask_timeout(value, tools, err);
		else if (strcmp(key->text, "lock") == 0)
			*ret_lock = value;
		else
			r = policy_read_unknown(key, names, "in `tools`", err);
	}
	*ret_tools = r == 0 ? tools : NULL;
	return r;
}
