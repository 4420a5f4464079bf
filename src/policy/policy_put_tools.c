/* policy_put_tools.c - encodes `tools`: see policy_tools.h. */
#include <string.h>

#include "policy/policy_parts.h"
#include "policy/policy_tools_parts.h"

enum { LOCK_NONE, LOCK_TOOLS, LOCK_PINS, LOCKS };

bool
policy_has_tools(const struct policy *p)
{
	return policy_tools_of(p) != NULL;
}

/* ---- writing ---- */

static void
put_optional(struct buf *b, const char *text)
{
	buf_put_u32(b, text != NULL);
	if (text != NULL)
		buf_put_str(b, text);
}

static void
put_server(struct buf *b, const struct policy_tools_server *s)
{
	const struct policy_list command = { s->command, s->n_command };

	buf_put_str(b, s->name);
	policy_put_list(b, &command);
	put_optional(b, s->image);
	put_optional(b, s->url);
	put_optional(b, s->wasm);
	put_optional(b, s->folder);
	policy_put_list(b, &s->env);
	policy_put_list(b, &s->read);
	policy_put_list(b, &s->write);
	buf_put_u32(b, s->per_call);
	buf_put_u64(b, s->idle_ms);
	buf_put_u64(b, s->timeout_ms);
	buf_put_u64(b, s->result_max);
	buf_put_str(b, s->policy);
	buf_put_str(b, s->start);
}

static void
put_pins(struct buf *b, const struct policy_tools *tools)
{
	buf_put_u32(b, (uint32_t)tools->n_pins);
	for (size_t i = 0; i < tools->n_pins; i++) {
		buf_put_str(b, tools->pins[i].server);
		buf_put_str(b, tools->pins[i].file);
		buf_put_str(b, tools->pins[i].hash);
	}
}

static void
put_layer(struct buf *b, const struct policy *layer)
{
	const struct policy_tools *tools = layer->tools;

	buf_put_u32(b, tools != NULL);
	if (tools == NULL)
		return;
	buf_put_u32(b, (uint32_t)tools->n_servers);
	for (size_t i = 0; i < tools->n_servers; i++)
		put_server(b, &tools->servers[i]);
	buf_put_u32(b, !tools->has_lock ? LOCK_NONE : tools->n_pins == 0 ? LOCK_TOOLS : LOCK_PINS);
	buf_put_u32(b, (uint32_t)tools->n_locked);
	for (size_t i = 0; i < tools->n_locked; i++) {
		buf_put_str(b, tools->locked[i].name);
		buf_put_str(b, tools->locked[i].hash);
		buf_put_u32(b, tools->locked[i].hints);
		buf_put_str(b, tools->locked[i].scope);
	}
	if (tools->n_pins > 0)
		put_pins(b, tools);
	buf_put_u32(b, tools->injection);
	buf_put_u32(b, tools->ask_results);
	buf_put_u64(b, tools->ask_ms);
}

void
policy_put_tools(struct buf *b, const struct policy *p)
{
	policy_put_layers(b, p, put_layer);
}

/* ---- reading: after the first error, BAD stays set and is checked once ---- */

static const char *
get_optional(struct policy_getting *g)
{
	return policy_get_bool(g) ? policy_get_text(g, POLICY_TEXT_MAX) : NULL;
}

static void
get_command(struct policy_getting *g, struct policy_tools_server *s)
{
	uint32_t n = policy_get_upto(g, POLICY_TOOLS_WORDS_MAX);
	const char **at = policy_get_room(g, n + 1u, sizeof(*at));

	for (uint32_t i = 0; !g->bad && i < n; i++)
		at[i] = policy_get_text(g, POLICY_TEXT_MAX);
	s->command = at;
	s->n_command = g->bad ? 0 : n;
}

static void
get_server(struct policy_getting *g, struct policy_tools_server *s)
{
	const char *member;

	s->name = policy_get_text(g, POLICY_TOOLS_SERVER_MAX);
	get_command(g, s);
	s->image = get_optional(g);
	s->url = get_optional(g);
	s->wasm = get_optional(g);
	s->folder = get_optional(g);
	s->env = policy_get_list(g, POLICY_TOOLS_WORDS_MAX);
	s->read = policy_get_list(g, POLICY_TOOLS_WORDS_MAX);
	s->write = policy_get_list(g, POLICY_TOOLS_WORDS_MAX);
	s->per_call = policy_get_bool(g);
	s->idle_ms = policy_get_u64(g);
	s->timeout_ms = policy_get_u64(g);
	s->result_max = policy_get_u64(g);
	s->policy = policy_get_text(g, POLICY_TOOLS_POLICY_MAX);
	s->start = policy_get_text(g, POLICY_TOOLS_SCOPE_MAX);
	g->bad = g->bad || !policy_tools_is_server(s->name, strlen(s->name)) ||
	         policy_tools_check_server(s, &member, NULL) < 0;
}

static bool
is_full_name(const char *name)
{
	size_t n = strcspn(name, ".");

	return name[n] == '.' && policy_tools_is_server(name, n) &&
	       policy_tools_is_tool(name + n + 1, strlen(name + n + 1));
}

static void
get_locked(struct policy_getting *g, struct policy_tool *tool, const char *before)
{
	tool->name = policy_get_text(g, POLICY_TOOLS_NAME_MAX);
	tool->hash = policy_get_text(g, POLICY_TOOLS_HASH);
	tool->hints = policy_get_upto(g, POLICY_TOOL_HINTS);
	tool->scope = policy_get_text(g, POLICY_TOOLS_SCOPE_MAX);
	g->bad = g->bad || !is_full_name(tool->name) || strcmp(before, tool->name) >= 0 ||
	         !policy_tools_is_hash(tool->hash);
}

static void
get_pins(struct policy_getting *g, struct policy_tools *tools)
{
	size_t n = policy_get_upto(g, POLICY_TOOLS_PINS_MAX);
	struct policy_tools_pin *pins = policy_get_room(g, n, sizeof(*pins));

	g->bad |= n == 0;
	for (size_t i = 0; !g->bad && i < n; i++) {
		pins[i].server = policy_get_text(g, POLICY_TOOLS_SERVER_MAX);
		pins[i].file = policy_get_text(g, POLICY_TEXT_MAX);
		pins[i].hash = policy_get_text(g, POLICY_TOOLS_HASH);
		g->bad = g->bad || !policy_tools_is_server(pins[i].server, strlen(pins[i].server)) ||
		         !policy_tools_is_hash(pins[i].hash) ||
		         (i > 0 && policy_tools_compare_pins(&pins[i - 1], &pins[i]) >= 0);
	}
	tools->pins = pins;
	tools->n_pins = g->bad ? 0 : n;
}

static const struct policy_tools *
get_tools(struct policy_getting *g)
{
	struct policy_tools *tools = policy_get_room(g, 1, sizeof(*tools));
	size_t n = policy_get_upto(g, POLICY_TOOLS_SERVERS_MAX), n_locked, lock;
	struct policy_tools_server *servers = policy_get_room(g, n, sizeof(*servers));
	struct policy_tool *locked;

	for (size_t i = 0; !g->bad && i < n; i++) {
		get_server(g, &servers[i]);
		for (size_t k = 0; !g->bad && k < i; k++)
			g->bad |= strcmp(servers[i].name, servers[k].name) == 0;
	}
	if (g->bad)
		return NULL;
	tools->servers = servers;
	tools->n_servers = n;
	lock = policy_get_upto(g, LOCKS - 1);
	tools->has_lock = lock != LOCK_NONE;
	n_locked = policy_get_upto(g, POLICY_TOOLS_LOCKED_MAX);
	locked = policy_get_room(g, n_locked, sizeof(*locked));
	for (size_t i = 0; !g->bad && i < n_locked; i++)
		get_locked(g, &locked[i], i > 0 ? locked[i - 1].name : "");
	if (lock == LOCK_PINS)
		get_pins(g, tools);
	tools->injection = policy_get_upto(g, POLICY_INJECTIONS - 1);
	tools->ask_results = policy_get_bool(g);
	tools->ask_ms = policy_get_u64(g);
	g->bad |= tools->ask_ms < POLICY_TIMEOUT_LEAST_MS || tools->ask_ms > POLICY_TIMEOUT_MOST_MS;
	g->bad |= !tools->has_lock && n_locked > 0;
	if (g->bad)
		return NULL;
	tools->locked = locked;
	tools->n_locked = n_locked;
	return tools;
}

static void
get_layer(struct policy_getting *g)
{
	if (policy_get_bool(g))
		g->p->tools = get_tools(g);
}

/* One of the layers has some: else the message would not have this part. */
void
policy_get_tools(struct policy_getting *g, bool layers)
{
	policy_get_layers(g, layers, get_layer);
	g->bad = g->bad || !policy_has_tools(g->p);
}
