/* review_read.c - gathers what runs were given and what they used. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/since.h"
#include "base/tree.h"
#include "cli/review.h"
#include "cli/timeline_acts.h"

#define PLACES (4 * REVIEW_SEEN_MAX)

const char *const review_limit_names[REVIEW_LIMITS] = { "memory", "pids", "time" };

static void
free_list(struct review_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		struct review_item *item = &list->at[i];

		for (size_t k = 0; k < item->hosts.n; k++)
			free(item->hosts.at[k]);
		for (size_t k = 0; k < item->methods.n; k++)
			free(item->methods.at[k]);
		free(item->key);
		free(item->text);
	}
	free(list->at);
}

void
review_free(struct review *v)
{
	free_list(&v->rules);
	free_list(&v->refusals);
	free_list(&v->grants);
	free_list(&v->secrets);
	for (size_t i = 0; i < v->n_seen; i++)
		timeline_event_free(&v->events[i]);
	free(v->events);
	free(v->places);
}

struct review_item *
review_item(struct review_list *list, const char *key, const char *text)
{
	struct review_item *more;

	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->at[i].key, key) == 0 && strcmp(list->at[i].text, text) == 0)
			return &list->at[i];
	if (list->n == REVIEW_ITEMS_MAX) {
		list->more++;
		return NULL;
	}
	if (list->n == list->cap) {
		size_t cap = list->cap == 0 ? 16 : list->cap * 2;

		more = realloc(list->at, cap * sizeof(*more));
		if (more == NULL)
			return NULL;
		list->at = more;
		list->cap = cap;
	}
	list->at[list->n] = (struct review_item){ .key = strdup(key), .text = strdup(text), .only_http = true };
	if (list->at[list->n].key == NULL || list->at[list->n].text == NULL) {
		free(list->at[list->n].key);
		free(list->at[list->n].text);
		return NULL;
	}
	return &list->at[list->n++];
}

static void
add_name(struct review_names *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->at[i], name) == 0)
			return;
	if (names->n == REVIEW_NAMES_MAX || (names->at[names->n] = strdup(name)) == NULL)
		names->more = true;
	else
		names->n++;
}

static void
use(const struct review *v, struct review_item *item, uint64_t times)
{
	if (item == NULL)
		return;
	item->uses += times;
	item->runs += item->last_run != v->n_runs;
	item->last_run = v->n_runs;
}

int
review_add_rules(struct review *v, const struct policy *p, struct err *err)
{
	for (size_t i = 0; i < policy_n_own(p); i++) {
		struct review_item *rule = review_item(&v->rules, policy_rule_place(p, (int)i), policy_rule_text(p, (int)i));

		if (rule == NULL)
			return err_set(err, E2BIG, "the policy has too many rules to review");
		rule->is_given = true;
	}
	return 0;
}

/* ---- requests ---- */

static uint32_t
hash_text(uint32_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return (hash ^ 0xffu) * 16777619u;
}

static bool
is_same(const struct timeline_event *a, const struct timeline_event *b)
{
	return strcmp(a->type, b->type) == 0 && strcmp(a->method, b->method) == 0 && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->path, b->path) == 0 && strcmp(a->scheme, b->scheme) == 0 && a->port == b->port &&
	       a->is_upgrade == b->is_upgrade;
}

/* Keeps the first of equal requests.  The list owns E if this returns true. */
static bool
keep_seen(struct review *v, const struct timeline_event *e)
{
	uint32_t at = hash_text(hash_text(hash_text(2166136261u, e->method), e->host), e->path) % PLACES;

	if (v->places == NULL)
		v->places = calloc(PLACES, sizeof(*v->places));
	while (v->places != NULL && v->places[at] != 0 && !is_same(&v->events[v->places[at] - 1], e))
		at = (at + 1) % PLACES;
	if (v->places != NULL && v->places[at] != 0)
		return false;
	if (v->n_seen == v->cap_seen && v->cap_seen < REVIEW_SEEN_MAX) {
		size_t cap = v->cap_seen == 0 ? 256 : v->cap_seen * 2;
		struct timeline_event *events = realloc(v->events, cap * sizeof(*events));

		if (events != NULL) {
			v->events = events;
			v->cap_seen = cap;
		}
	}
	if (v->places == NULL || v->n_seen == v->cap_seen) {
		v->seen_more = true;
		return false;
	}
	v->events[v->n_seen++] = *e;
	v->places[at] = (uint32_t)v->n_seen;
	return true;
}

static void
note_rule(struct review *v, const struct timeline_event *e)
{
	struct review_item *rule = e->rule[0] == '\0' ? NULL : review_item(&v->rules, e->rule, e->rule_text);
	const bool http = strcmp(e->type, "http") == 0;

	if (rule == NULL || timeline_number(e, "layer") > 0)
		return;
	use(v, rule, e->count > 0 ? e->count : 1);
	if (e->host[0] != '\0')
		add_name(&rule->hosts, e->host);
	if (http)
		add_name(&rule->methods, e->method);
	rule->only_http = rule->only_http && http && !e->is_upgrade;
	if (timeline_has(e, "approved_by"))
		rule->approved++;
	else if (strcmp(e->verdict, "ask") == 0)
		rule->refused++;
}

static void
note_refusal(struct review *v, const struct timeline_event *e)
{
	use(v, review_item(&v->refusals, e->why[0] != '\0' ? e->why : "refused", e->host), e->count > 0 ? e->count : 1);
}

static void
note_secrets(struct review *v, const struct timeline_event *e)
{
	const json_t *list = json_object_get(e->json, "secrets");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *name = json_string_value(json_array_get(list, i));

		if (name != NULL)
			use(v, review_item(&v->secrets, name, ""), 1);
	}
	if (e->secret[0] != '\0' && json_array_size(list) == 0)
		use(v, review_item(&v->secrets, e->secret, ""), 1);
}

/* Returns whether E is kept. */
static bool
note_decision(struct review *v, const struct timeline_event *e)
{
	bool is_request = strcmp(e->type, "http") == 0 || strcmp(e->type, "tcp") == 0 || strcmp(e->type, "tls") == 0;

	note_rule(v, e);
	if (timeline_is_refusal(e)) {
		/* A name that was looked up in vain is refused again as a request, if it comes to that. */
		if (strcmp(e->verdict, "deny") == 0)
			note_refusal(v, e);
		return false;
	}
	note_secrets(v, e);
	return is_request && keep_seen(v, e);
}

/* ---- grants and limits ---- */

static const char *
member(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static void
give_limit(struct review *v, enum review_limit limit, const json_t *limits, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(limits, key));

	if (n > 0 && (uint64_t)n > v->limits[limit].given)
		v->limits[limit].given = (uint64_t)n;
}

static void
use_limit(struct review *v, enum review_limit limit, uint64_t n)
{
	v->limits[limit].known |= n > 0;
	if (n > v->limits[limit].used)
		v->limits[limit].used = n;
}

static void
note_boot(struct review *v, const struct timeline_event *e)
{
	const json_t *grant = json_object_get(e->json, "grant"), *list = json_object_get(grant, "grants");

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *given = json_array_get(list, i);
		struct review_item *item = review_item(&v->grants, member(given, "cell"), member(given, "host"));

		if (item != NULL)
			snprintf(item->access, sizeof(item->access), "%.7s", member(given, "access"));
	}
	list = json_object_get(grant, "secrets");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (json_is_string(json_array_get(list, i)))
			(void)review_item(&v->secrets, json_string_value(json_array_get(list, i)), "");
	give_limit(v, REVIEW_MEMORY, json_object_get(grant, "limits"), "memory");
	give_limit(v, REVIEW_PIDS, json_object_get(grant, "limits"), "pids");
	give_limit(v, REVIEW_TIME, json_object_get(grant, "limits"), "time_ms");
}

static void
note_file(struct review *v, const struct timeline_event *e)
{
	const char *grant = timeline_text(e, "grant");

	for (size_t i = 0; grant[0] != '\0' && i < v->grants.n; i++) {
		struct review_item *item = &v->grants.at[i];

		if (strcmp(item->key, grant) != 0)
			continue;
		use(v, item, e->count > 0 ? e->count : 1);
		item->writes += strcmp(timeline_text(e, "act"), "read") != 0;
	}
}

/* The grant that has PATH: the innermost. */
static struct review_item *
grant_of(struct review *v, const char *path)
{
	struct review_item *best = NULL;

	for (size_t i = 0; path[0] == '/' && i < v->grants.n; i++) {
		struct review_item *item = &v->grants.at[i];

		if (tree_is_beneath(path, item->key) && (best == NULL || strlen(item->key) > strlen(best->key)))
			best = item;
	}
	return best;
}

/* The kernel reads a program that it starts. */
static void
note_exec(struct review *v, const struct timeline_event *e)
{
	if (timeline_has(e, "error"))
		return;
	use(v, grant_of(v, timeline_text(e, "path")), 1);
	use(v, grant_of(v, timeline_text(e, "script")), 1);
}

/* ---- one run ---- */

static void
note_time(struct review *v, const char *time)
{
	if (v->first[0] == '\0' || strcmp(time, v->first) < 0)
		snprintf(v->first, sizeof(v->first), "%.*s", AUDIT_TIME_LEN, time);
	if (strcmp(time, v->last) > 0)
		snprintf(v->last, sizeof(v->last), "%.*s", AUDIT_TIME_LEN, time);
}

struct run_times { uint64_t first_ms, last_ms; };

/* Returns whether E is kept. */
static bool
note(struct review *v, const struct timeline_event *e, struct run_times *times)
{
	const enum timeline_act act = timeline_act(e);
	uint64_t ms;

	note_time(v, e->time);
	if (since_parse(e->time, 0, &ms, NULL) == 0) {
		times->first_ms = times->first_ms == 0 ? ms : times->first_ms;
		times->last_ms = ms;
	}
	if (act == TIMELINE_RECORD && strcmp(timeline_text(e, "level"), "off") != 0)
		v->n_recorded++;
	if (act == TIMELINE_FILE)
		note_file(v, e);
	if (act == TIMELINE_EXEC)
		note_exec(v, e);
	if (act == TIMELINE_REFUSED)
		use(v, review_item(&v->refusals, "call", timeline_text(e, "call")), e->count > 0 ? e->count : 1);
	if (act == TIMELINE_RESOURCES || strcmp(e->type, "cell.end") == 0) {
		use_limit(v, REVIEW_MEMORY, timeline_number(e, "peak"));
		use_limit(v, REVIEW_PIDS, timeline_number(e, "processes"));
	}
	if (strcmp(e->type, "cell.boot") == 0)
		note_boot(v, e);
	return timeline_is_decision(e) && strcmp(e->type, "intent") != 0 && note_decision(v, e);
}

int
review_read(struct review *v, const char *cell, struct err *err)
{
	OWN(timeline_close) struct timeline t = {0};
	struct run_times times = {0};
	struct timeline_event e;
	int r = timeline_open(cell, &t, err);

	if (r < 0)
		return r;
	v->n_runs++;
	while ((r = timeline_next(&t, &e, err)) > 0)
		if (!note(v, &e, &times))
			timeline_event_free(&e);
	use_limit(v, REVIEW_TIME, times.last_ms - times.first_ms);
	return r;
}
