/* tools_list.c - lists: reads those of each server to their end, and puts them together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/tools/tools_worker.h"
#include "tools/could_allow.h"
#include "tools/definition.h"

/* ---- one server ---- */

struct fetch {
	struct instance *instance;
	const char *method, *key;
	struct call *call;
	json_t *items;
	unsigned pages;
	struct ask *ask;
	fetch_done *done;
	void *arg;
};

static void page(void *arg, json_t *result, json_t *error, bool is_ours);

static void
fetch_free(struct fetch *f)
{
	json_decref(f->items);
	free(f);
}

void
fetch_drop(struct fetch *f)
{
	if (f->ask != NULL)
		ask_drop(TAKE(f->ask), NULL);
	fetch_free(f);
}

static void
fetch_end(struct fetch *f, const char *why)
{
	fetch_done *done = f->done;
	void *arg = f->arg;
	json_t *items = why == NULL ? json_incref(f->items) : NULL;

	/* A call waits for one ask at a time. */
	if (f->call != NULL && f->call->listing == NULL)
		f->call->ask = NULL;
	fetch_free(f);
	done(arg, items, why);
	json_decref(items);
}

static bool
ask_page(struct fetch *f, const char *cursor)
{
	f->ask = instance_ask(f->instance, f->method, json_pack("{s:s*}", "cursor", cursor),
	                      f->instance->server->timeout_ms, NULL, page, f);
	if (f->ask != NULL && f->call != NULL && f->call->listing == NULL)
		f->call->ask = f->ask;
	return f->ask != NULL;
}

static void
page(void *arg, json_t *result, json_t *error, bool is_ours)
{
	struct fetch *f = arg;
	const char *why = json_string_value(json_object_get(error, "message"));
	const char *cursor = json_string_value(json_object_get(result, "nextCursor"));
	json_t *items = json_object_get(result, f->key);

	(void)is_ours;
	f->ask = NULL;
	if (error != NULL || !json_is_array(items)) {
		fetch_end(f, why != NULL ? why : "its answer has no list");
		return;
	}
	(void)json_array_extend(f->items, items);
	if (json_array_size(f->items) > GATEWAY_ITEMS_MAX || ++f->pages > GATEWAY_PAGES_MAX)
		fetch_end(f, "its list is too long");
	else if (cursor == NULL)
		fetch_end(f, NULL);
	else if (!ask_page(f, cursor))
		fetch_end(f, "it does not take the question");
}

struct fetch *
fetch_begin(struct instance *i, const char *method, const char *key, struct call *call, fetch_done *done, void *arg)
{
	struct fetch *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return NULL;
	*f = (struct fetch){ .instance = i, .method = method, .key = key, .call = call, .items = json_array(),
	                     .done = done, .arg = arg };
	if (f->items != NULL && ask_page(f, NULL))
		return f;
	fetch_free(f);
	return NULL;
}

/* ---- tools: which exist ---- */

#define SUSPECT "it looks like instructions to the model"

/* Why it does not exist, or NULL. */
static const char *
hidden(const struct instance *i, json_t *tool, const char *name)
{
	OWN(freep) char *full = NULL;
	const struct policy_tool *locked;
	char hash[HASH_HEX + 1];
	struct err err = {0};

	if (name == NULL || !definition_is_name(name))
		return "its name is none";
	if (json_object_get(i->known, name) != NULL)
		return "there are two by this name";
	if (!gateway_tools->has_lock || !CONTROL_ON("tools-lock"))
		return result_is_suspect(tool) ? SUSPECT : NULL;
	if (asprintf(&full, "%s.%s", i->server->name, name) < 0) {
		full = NULL;
		return "out of memory";
	}
	locked = policy_tools_locked(gateway_tools, full);
	if (locked == NULL)
		return "it is not in the lock";
	if (definition_hash(tool, hash, &err) < 0)
		return "it has no valid definition";
	return strcmp(hash, locked->hash) == 0 ? NULL : "it has changed since it was locked";
}

/* A call of it goes to the courier all the same: rules may have changed since the cell's start. */
static bool
is_refused(const struct instance *i, const char *name)
{
	OWN(freep) char *full = str_format("%s.%s", i->server->name, name);

	return gateway_policy != NULL && full != NULL && !could_allow(gateway_policy, full);
}

/* With a lock, the agent gets what is locked and nothing else. */
static json_t *
exposed(const struct instance *i, json_t *tool)
{
	json_t *copy = NULL;
	struct err err = {0};

	if (!gateway_tools->has_lock)
		copy = json_copy(tool);
	else if (definition_pin(tool, &copy, &err) < 0)
		copy = NULL;
	names_mark(i->server, copy, "name", '.');
	return copy;
}

json_t *
listing_tools(struct instance *i, json_t *items)
{
	json_t *out = json_array(), *tool;
	bool again = items == i->known;
	size_t n;

	if (again)
		return out;
	json_decref(i->known);
	i->known = json_object();
	json_array_foreach(items, n, tool) {
		const char *name = json_string_value(json_object_get(tool, "name"));
		const char *why = hidden(i, tool, name);

		if (why != NULL) {
			gateway_record(i->server, i->cell, "hidden", name != NULL && definition_is_name(name) ? name : NULL, why);
			continue;
		}
		(void)json_object_set_new(i->known, name, json_true());
		if (is_refused(i, name))
			gateway_record(i->server, i->cell, "hidden", name, "no rule of the policy could allow it");
		else
			(void)json_array_append_new(out, exposed(i, tool));
	}
	return out;
}

/* ---- all servers ---- */

struct part {
	struct listing *listing;
	struct instance *instance;
	struct fetch *fetch;            /* NULL: it is over */
	json_t *items;
};
struct listing {
	struct call *call;
	const char *key;
	size_t from;                    /* the first item of the answer */
	size_t n_open;
	bool begins;
	struct part parts[POLICY_TOOLS_SERVERS_MAX];
};

void
tools_listing_free(struct listing *l)
{
	for (size_t i = 0; i < gateway_tools->n_servers; i++) {
		struct part *p = &l->parts[i];

		if (p->fetch != NULL)
			fetch_drop(TAKE(p->fetch));
		if (p->instance != NULL && p->instance->server->per_call)
			instance_end(p->instance);
		json_decref(p->items);
	}
	free(l);
}

static void
answer(struct listing *l)
{
	struct call *c = l->call;
	OWN(json_decrefp) json_t *all = json_array(), *page = json_array();
	json_t *result;
	size_t n;
	char next[24];

	for (size_t i = 0; i < gateway_tools->n_servers; i++)
		if (l->parts[i].items != NULL)
			(void)json_array_extend(all, l->parts[i].items);
	n = json_array_size(all);
	for (size_t i = l->from; i < n && i < l->from + GATEWAY_PAGE; i++)
		(void)json_array_append(page, json_array_get(all, i));
	snprintf(next, sizeof(next), "%zu", l->from + GATEWAY_PAGE);
	result = json_pack("{s:O, s:s*}", l->key, page, "nextCursor", n > l->from + GATEWAY_PAGE ? next : NULL);
	call_result(c, result);
}

static json_t *
marked(const struct policy_tools_server *server, json_t *items)
{
	json_t *out = json_array(), *one;
	size_t n;

	json_array_foreach(items, n, one) {
		json_t *copy = json_copy(one);

		if (result_is_suspect(one)) {
			gateway_record(server, NULL, "hidden", NULL, SUSPECT);
			json_decref(copy);
			continue;
		}
		names_mark(server, copy, "uri", '/');
		names_mark(server, copy, "uriTemplate", '/');
		if (json_object_get(copy, "uri") == NULL && json_object_get(copy, "uriTemplate") == NULL)
			names_mark(server, copy, "name", '.');
		(void)json_array_append_new(out, copy);
	}
	return out;
}

static void
part_done(void *arg, json_t *items, const char *why)
{
	struct part *p = arg;
	struct listing *l = p->listing;

	p->fetch = NULL;
	(void)why;
	if (items != NULL)
		p->items = strcmp(l->key, "tools") == 0 ? listing_tools(p->instance, items) :
		           marked(p->instance->server, items);
	/* The instance may go before the others have answered. */
	if (p->instance->server->per_call)
		instance_end(p->instance);
	p->instance = NULL;
	l->n_open--;
	if (l->n_open == 0 && !l->begins)
		answer(l);
}

/* A server without the ability is not asked: it may answer with anything. */
static const char *const abilities[][2] = {
	{ "tools", "tools" }, { "resources", "resources" }, { "resourceTemplates", "resources" },
	{ "prompts", "prompts" },
};

static bool
cannot(const struct instance *i, const char *key)
{
	for (size_t n = 0; n < ARRAY_LEN(abilities); n++)
		if (strcmp(abilities[n][0], key) == 0)
			return i->step == INSTANCE_READY && !instance_can(i, abilities[n][1]);
	return false;
}

void
listing_begin(struct call *c, const char *method, const char *key, const json_t *params)
{
	const char *cursor = json_string_value(json_object_get(params, "cursor"));
	struct listing *l = calloc(1, sizeof(*l));

	if (l == NULL) {
		call_error(c, GATEWAY_FAILED, "out of memory");
		return;
	}
	*l = (struct listing){ .call = c, .key = key, .begins = true,
	                       .from = cursor != NULL ? strtoul(cursor, NULL, 10) : 0 };
	c->listing = l;
	for (size_t i = 0; i < gateway_tools->n_servers; i++) {
		struct part *p = &l->parts[i];
		struct instance *in = gateway_tools->servers[i].per_call ? instance_new(c->session, i, c) :
		                      gateway_session_instance(c->session, i);

		p->listing = l;
		if (in == NULL || in->frozen[0] != '\0' || cannot(in, key))
			continue;
		p->instance = in;
		p->fetch = fetch_begin(in, method, key, c, part_done, p);
		l->n_open += p->fetch != NULL;
	}
	l->begins = false;
	if (l->n_open == 0)
		answer(l);
}
