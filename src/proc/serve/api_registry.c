/* api_registry.c - capabilities, agents, envs, policies and targets over the API: the same for each kind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "dispatch/dispatch.h"
#include "proc/serve/api.h"
#include "registry/object.h"

/* "/v1/agents/..." has the kind agent. */
static enum registry_kind
kind_of(const struct api_call *c)
{
	const char *at = c->route->path + strlen("/v1/");
	int kind = 0;

	while (strncmp(at, registry_plurals[kind], strlen(registry_plurals[kind])) != 0)
		kind++;
	return kind;
}

static int
no_memory(struct api_call *c)
{
	err_set(&c->err, ENOMEM, "out of memory");
	return api_fail(c);
}

/* ---- registering ---- */

static int
put_object(struct api_call *c, struct registry *r, const struct object *o)
{
	OWN(buf_free) struct buf note = {0};
	struct registry_version v;
	char type[64];
	bool created;
	int n;

	snprintf(type, sizeof(type), "%s.registered", registry_kinds[o->kind]);
	if (api_note_text(c, type, (const char *const[][2]){ { "name", o->name }, { "hash", o->hash } }, 2,
	                  &note) < 0)
		return -EIO;
	n = registry_put(r, o, (char *)note.data, &v, &created, &c->err);
	if (n < 0)
		return api_fail(c);
	/* Also for an older version, to which the name refers again. */
	if (api_tell_notes(c) < 0)
		return -EIO;
	c->answer = registry_version_json(&v);
	if (c->answer == NULL || json_object_set_new(c->answer, "new", json_boolean(created)) < 0)
		return no_memory(c);
	c->status = created ? 201 : 200;
	return 0;
}

int
api_register(struct api_call *c)
{
	OWN(object_freep) struct object *o = NULL;
	struct registry *r = api_registry(c);

	if (r == NULL)
		return -EIO;
	if (object_read_json(r, kind_of(c), c->body, &o, c->pointer, &c->err) < 0)
		return c->err.code == EEXIST ? api_fail_as(c, 400, "invalid") : api_fail(c);
	return put_object(c, r, o);
}

int
api_assign(struct api_call *c)
{
	static const struct api_member members[] = {
		{ "capabilities", API_TEXTS, false }, { "env", API_TEXTS, false }, { "secrets", API_TEXTS, false }, {0}
	};
	OWN(object_freep) struct object *o = NULL;
	struct registry *r = api_registry(c);

	if (r == NULL || api_body_check(c, members) < 0)
		return -EIO;
	if (registry_assign(r, c->params.at[0], c->body, &o, &c->err) < 0)
		return c->err.code == EEXIST ? api_fail_as(c, 400, "invalid") : api_fail(c);
	return put_object(c, r, o);
}

/* ---- looking ---- */

/* An agent may see the purpose of others, not their contents. */
static json_t *
shown_content(const struct api_call *c, json_t *content)
{
	if (c->q->role == SERVE_OPERATOR)
		return json_incref(content);
	return json_pack("{s:O?}", "description", json_object_get(content, "description"));
}

static json_t *
shown_item(struct api_call *c, const struct registry_version *v)
{
	OWN(json_decrefp) json_t *content = NULL;
	json_t *item = registry_version_json(v);
	char ref[REGISTRY_REF_MAX + 1];

	snprintf(ref, sizeof(ref), "%s@%s", v->name, v->hash);
	if (item != NULL && registry_resolve(api_registry(c), v->kind, ref, REGISTRY_ALL,
	                                     &(struct registry_version){0}, &content, NULL) == 0 &&
	    json_is_string(json_object_get(content, "description")))
		json_object_set(item, "description", json_object_get(content, "description"));
	return item;
}

static int
answer_page(struct api_call *c, const struct registry_page *page, const char *next)
{
	json_t *items = json_array();

	for (size_t i = 0; i < page->n; i++)
		if (json_array_append_new(items, shown_item(c, &page->at[i])) < 0)
			return no_memory(c);
	c->answer = json_pack("{s:o, s:s?}", "items", items, "next", next);
	return c->answer == NULL ? no_memory(c) : 0;
}

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The agents that an agent may dispatch: those of its `delegate` that exist. */
static int
list_delegate(struct api_call *c, const char *after, uint64_t limit)
{
	const json_t *agents = json_object_get(c->delegate, "agents");
	size_t n = json_array_size(agents);
	OWN(freep) const char **refs = calloc(n + 1, sizeof(*refs));
	const char *last = NULL;
	json_t *items = json_array();
	bool more = false;

	for (size_t i = 0; refs != NULL && i < n; i++)
		refs[i] = json_string_value(json_array_get(agents, i));
	if (refs != NULL)
		qsort(refs, n, sizeof(*refs), compare_texts);
	for (size_t i = 0; refs != NULL && i < n && !more; i++) {
		struct registry_version v;

		if ((after != NULL && strcmp(refs[i], after) <= 0) ||
		    registry_resolve(api_registry(c), REGISTRY_AGENT, refs[i], REGISTRY_LIVE, &v, NULL,
		                     NULL) < 0)
			continue;
		more = json_array_size(items) == limit;
		if (more)
			break;
		last = refs[i];
		if (json_array_append_new(items, shown_item(c, &v)) < 0)
			break;
	}
	c->answer = refs == NULL ? NULL :
	            json_pack("{s:O, s:s?}", "items", items, "next", more ? last : NULL);
	json_decref(items);
	return c->answer == NULL ? no_memory(c) : 0;
}

int
api_list(struct api_call *c)
{
	OWN(registry_page_free) struct registry_page page = {0};
	struct registry *r = api_registry(c);
	const char *after = api_query(c, "after");
	uint64_t limit;
	bool retired = false;

	if (r == NULL || api_query_number(c, "limit", 1, API_PAGE_MAX, API_PAGE, &limit) < 0 ||
	    api_query_bool(c, "retired", false, &retired) < 0)
		return -EIO;
	if (c->parent[0] != '\0')
		return list_delegate(c, after, limit);
	if (registry_list(r, kind_of(c), retired ? REGISTRY_ALL : REGISTRY_LIVE, after != NULL ? after : "",
	                  limit, &page, &c->err) < 0)
		return api_fail(c);
	return answer_page(c, &page, page.more ? page.at[page.n - 1].name : NULL);
}

int
api_versions(struct api_call *c)
{
	OWN(registry_page_free) struct registry_page page = {0};
	struct registry *r = api_registry(c);
	uint64_t limit, before;
	char next[24];

	if (r == NULL || api_query_number(c, "limit", 1, API_PAGE_MAX, API_PAGE, &limit) < 0 ||
	    api_query_number(c, "after", 1, INT64_MAX, 0, &before) < 0)
		return -EIO;
	if (registry_history(r, kind_of(c), c->params.at[0], before, limit, &page, &c->err) < 0)
		return api_fail(c);
	if (page.more)
		snprintf(next, sizeof(next), "%llu", (unsigned long long)page.at[page.n - 1].number);
	return answer_page(c, &page, page.more ? next : NULL);
}

static int
refuse_agent(struct api_call *c)
{
	return api_fail_with(c, 404, "not_found", "there is no agent '%.*s' that you may dispatch",
	                     (int)REGISTRY_REF_MAX, c->params.at[0]);
}

int
api_show(struct api_call *c)
{
	OWN(json_decrefp) json_t *content = NULL;
	struct registry *r = api_registry(c);
	struct registry_version v;
	enum registry_scope scope = c->q->role == SERVE_OPERATOR ? REGISTRY_ALL : REGISTRY_LIVE;

	if (r == NULL)
		return -EIO;
	if (registry_resolve(r, kind_of(c), c->params.at[0], scope, &v, &content, &c->err) < 0) {
		/* The existence of agents that it may not request is not revealed either. */
		return c->parent[0] == '\0' ? api_fail(c) : refuse_agent(c);
	}
	if (c->parent[0] != '\0' && !dispatch_may_ask_for(json_object_get(c->delegate, "agents"), v.name,
	                                                  v.hash, c->params.at[0]))
		return refuse_agent(c);
	c->answer = registry_version_json(&v);
	if (c->answer == NULL || json_object_set_new(c->answer, "content", shown_content(c, content)) < 0 ||
	    (v.kind == REGISTRY_TARGET && json_object_set_new(c->answer, "status", dispatch_target_status(r, v.name, content)) < 0))
		return no_memory(c);
	return 0;
}

/* ---- comparing ---- */

/* The version HASH of NAME, or without a hash the newest but SKIP. */
static int
resolve_one(struct api_call *c, const char *hash, uint64_t skip, struct registry_version *ret_v,
            json_t **ret_content)
{
	OWN(registry_page_free) struct registry_page page = {0};
	enum registry_kind kind = kind_of(c);
	struct registry *r = api_registry(c);
	const char *name = c->params.at[0];
	OWN(freep) char *ref = NULL;

	if (hash == NULL) {
		if (registry_history(r, kind, name, 0, 1 + skip, &page, &c->err) < 0)
			return api_fail(c);
		if (page.n <= skip)
			return api_fail_with(c, 404, "not_found", "the %s '%s' has one version only: there is nothing "
			                     "to compare it with", registry_kinds[kind], name);
		hash = page.at[skip].hash;
	}
	if (asprintf(&ref, "%s@%s", name, hash) < 0) {
		ref = NULL;
		return no_memory(c);
	}
	if (registry_resolve(r, kind, ref, REGISTRY_ALL, ret_v, ret_content, &c->err) < 0)
		return api_fail(c);
	return 0;
}

int
api_diff(struct api_call *c)
{
	OWN(json_decrefp) json_t *from = NULL, *to = NULL, *diff = NULL;
	struct registry_version old, new;

	if (api_registry(c) == NULL || resolve_one(c, api_query(c, "to"), 0, &new, &to) < 0 ||
	    resolve_one(c, api_query(c, "from"), 1, &old, &from) < 0)
		return -EIO;
	if (registry_diff(from, to, &diff, &c->err) < 0)
		return api_fail(c);
	c->answer = json_pack("{s:o, s:o, s:O}", "from", registry_version_json(&old), "to",
	                      registry_version_json(&new), "diff", diff);
	return c->answer == NULL ? no_memory(c) : 0;
}

/* ---- retiring ---- */

int
api_retire(struct api_call *c)
{
	struct registry *r = api_registry(c);
	enum registry_kind kind = kind_of(c);
	const char *hash = api_query(c, "hash");
	OWN(buf_free) struct buf note = {0};
	OWN(freep) char *ref = NULL;
	char type[64];
	size_t n = 0;

	if (r == NULL)
		return -EIO;
	if (asprintf(&ref, "%s%s%s", c->params.at[0], hash != NULL ? "@" : "", hash != NULL ? hash : "") < 0) {
		ref = NULL;
		return no_memory(c);
	}
	snprintf(type, sizeof(type), "%s.retired", registry_kinds[kind]);
	if (api_note_text(c, type, (const char *const[][2]){ { "ref", ref } }, 1, &note) < 0)
		return -EIO;
	if (registry_retire(r, kind, ref, false, (char *)note.data, &n, &c->err) < 0)
		return api_fail(c);
	if (api_tell_notes(c) < 0)
		return -EIO;
	c->answer = json_pack("{s:s, s:s, s:b, s:I}", "kind", registry_kinds[kind], "ref", ref,
	                      "retired", 1, "changed", (json_int_t)n);
	return c->answer == NULL ? no_memory(c) : 0;
}
