/* operator_objects.c - see operator.h: the objects of all four kinds, as the server has them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fleet/fleet.h"
#include "loop/loop.h"
#include "proc/fleet/operator.h"

#define ROUND_MS 2000                   /* the Lease is looked at between rounds */
#define RETRY_MS 100ull                 /* after a failure, and twice that after each other */
#define RETRIES 8

static const struct {
	const char *group, *plural;
} kinds[OP_KINDS] = {
	[OP_SANDBOX] = { OP_GROUP, "sandboxes" },
	[OP_CLAIM] = { OP_EXTENSIONS, "sandboxclaims" },
	[OP_TEMPLATE] = { OP_EXTENSIONS, "sandboxtemplates" },
	[OP_POOL] = { OP_EXTENSIONS, "sandboxwarmpools" },
};

/* ---- what is known ---- */

static struct op_object **
bucket_of(struct op *op, enum op_kind kind, const char *key)
{
	uint32_t hash = 2166136261u ^ op->seed;

	for (; *key != '\0'; key++)
		hash = (hash ^ (unsigned char)*key) * 16777619u;
	return &op->kinds[kind].buckets[hash % OP_BUCKETS];
}

static struct op_object **
place_of(struct op *op, enum op_kind kind, const char *key)
{
	struct op_object **at = bucket_of(op, kind, key);

	while (*at != NULL && strcmp((*at)->key, key) != 0)
		at = &(*at)->next;
	return at;
}

struct op_object *
op_find(struct op *op, enum op_kind kind, const char *namespace, const char *name)
{
	OWN(freep) char *key = str_format("%s/%s", namespace, name);

	return key == NULL ? NULL : *place_of(op, kind, key);
}

static void
forget(struct op *op, struct op_object **at)
{
	struct op_object *o = *at;

	*at = o->next;
	op->kinds[o->kind].n--;
	json_decref(o->json);
	free(o->key);
	free(o->refused);
	free(o);
}

static void
wake_all(struct op *op, enum op_kind kind, const char *namespace)
{
	const size_t len = strlen(namespace);

	for (size_t i = 0; i < OP_BUCKETS; i++)
		for (struct op_object *o = op->kinds[kind].buckets[i]; o != NULL; o = o->next)
			if (strncmp(o->key, namespace, len) == 0 && o->key[len] == '/')
				o->due_ms = 0;
}

/* A claim follows its Sandbox, its template and its pool, and a pool its template: they are of its namespace. */
static void
wake(struct op *op, enum op_kind kind, const char *namespace, const char *name)
{
	struct op_object *claim = kind == OP_SANDBOX ? op_find(op, OP_CLAIM, namespace, name) : NULL;

	if (claim != NULL)
		claim->due_ms = 0;
	if (kind == OP_TEMPLATE || kind == OP_POOL)
		wake_all(op, OP_CLAIM, namespace);
	if (kind == OP_TEMPLATE)
		wake_all(op, OP_POOL, namespace);
}

/* ---- what the server says ---- */

const char *
op_meta(const struct op_object *o, const char *name)
{
	return kube_text(o->json, "metadata", name, NULL);
}

const char *
op_annotation(const struct op_object *o, const char *name)
{
	return kube_text(o->json, "metadata", "annotations", name);
}

bool
op_is_deleted(const struct op_object *o)
{
	return *op_meta(o, "deletionTimestamp") != '\0';
}

/* What users may write there without a use is not kept. */
static int
trim_metadata(json_t *meta)
{
	static const char *const read[] = { OP_AGENT, OP_DISPATCH };
	const json_t *all = json_object_get(meta, "annotations");
	json_t *few = json_object();

	for (size_t i = 0; i < ARRAY_LEN(read); i++)
		if (json_object_get(all, read[i]) != NULL)
			json_object_set(few, read[i], json_object_get(all, read[i]));
	(void)json_object_del(meta, "managedFields");
	(void)json_object_del(meta, "labels");
	return json_object_set_new(meta, "annotations", few);
}

/* What is kept of OBJECT; NULL: it is too large, or none. */
static json_t *
trim(const json_t *object, char **ret_refused)
{
	const json_t *whole = json_object_get(object, "spec");
	OWN(json_decrefp) json_t *kept = json_copy((json_t *)(uintptr_t)object), *meta = NULL, *spec = NULL;
	struct err err = {0};

	meta = json_copy(json_object_get(object, "metadata"));
	spec = json_copy((json_t *)(uintptr_t)whole);
	if (kept == NULL || meta == NULL)
		return NULL;
	if (json_object_get(whole, "podTemplate") != NULL &&
	    op_spec_check(whole, kube_text(meta, "annotations", OP_AGENT, NULL), &err) < 0)
		*ret_refused = strdup(err.text);
	(void)json_object_del(spec, "podTemplate");
	if (trim_metadata(meta) < 0)
		return NULL;
	json_object_set(kept, "metadata", meta);
	if (spec != NULL)
		json_object_set(kept, "spec", spec);
	return json_dumpb(kept, NULL, 0, JSON_COMPACT) <= OP_OBJECT_MAX ? TAKE(kept) : NULL;
}

/* One namespace has at most half of the room, if it is not the only one that is served. */
static bool
is_full(const struct op *op, enum op_kind kind, const char *key)
{
	const struct op_kind_state *k = &op->kinds[kind];
	const size_t len = strcspn(key, "/") + 1;
	size_t n = 0;

	if (k->n < OP_OBJECTS_MAX / 2 || (*op->scope != '\0' && k->n < OP_OBJECTS_MAX))
		return false;
	for (size_t i = 0; i < OP_BUCKETS && k->n < OP_OBJECTS_MAX; i++)
		for (const struct op_object *o = k->buckets[i]; o != NULL; o = o->next)
			n += strncmp(o->key, key, len) == 0;
	return k->n >= OP_OBJECTS_MAX || n >= OP_OBJECTS_MAX / 2;
}

static struct op_object *
add(struct op *op, enum op_kind kind, const char *key)
{
	struct op_kind_state *k = &op->kinds[kind];
	struct op_object *o, **at = bucket_of(op, kind, key);

	if (is_full(op, kind, key)) {
		if (!k->too_many)
			fprintf(stderr, "cloister: there are over %d %s, or over %d in one namespace: others are left alone, as %s\n",
			        OP_OBJECTS_MAX, kinds[kind].plural, OP_OBJECTS_MAX / 2, key);
		k->too_many = true;
		return NULL;
	}
	o = calloc(1, sizeof(*o));
	if (o == NULL || (o->key = strdup(key)) == NULL) {
		free(o);
		return NULL;
	}
	o->kind = kind;
	o->next = *at;
	*at = o;
	k->n++;
	return o;
}

/* As Kubernetes has names: they are printed. */
static bool
is_name(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len <= NAME_MAX && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len;
}

/* The answer to a change came before its event, or all are listed again. */
static bool
is_known(const struct op_object *o, const json_t *object)
{
	const char *version = kube_text(object, "metadata", "resourceVersion", NULL);

	return *version != '\0' && strcmp(version, op_meta(o, "resourceVersion")) == 0 &&
	       strcmp(kube_text(object, "metadata", "uid", NULL), op_meta(o, "uid")) == 0;
}

static void
take(struct op *op, enum op_kind kind, json_t *object, bool is_gone)
{
	const char *namespace = kube_text(object, "metadata", "namespace", NULL);
	const char *name = kube_text(object, "metadata", "name", NULL);
	OWN(freep) char *key = !is_name(namespace) || !is_name(name) ? NULL : str_format("%s/%s", namespace, name), *refused = NULL;
	struct op_object **at = key != NULL ? place_of(op, kind, key) : NULL, *o = at != NULL ? *at : NULL;
	json_t *kept;

	if (key == NULL)
		return;
	if (!is_gone && o != NULL && is_known(o, object)) {
		o->seen = true;
		return;
	}
	kept = is_gone ? NULL : trim(object, &refused);
	if (is_gone && o != NULL) {
		op_ghost_add(op, o);
		forget(op, at);
	} else if (kept == NULL) {
		/* One that has become too large stays as it was. */
		if (o != NULL)
			o->seen = true;
		return;
	} else if (o != NULL || (o = add(op, kind, key)) != NULL) {
		/* Another one of the same name. */
		if (o->json != NULL && strcmp(op_meta(o, "uid"), kube_text(kept, "metadata", "uid", NULL)) != 0) {
			op_ghost_add(op, o);
			o->id[0] = '\0';
			o->started = o->over = false;
			o->reserved = 0;
			o->observed = 0;
		}
		json_decref(o->json);
		free(o->refused);
		o->json = TAKE(kept);
		o->refused = TAKE(refused);
		o->seen = true;
		o->due_ms = 0;
	}
	json_decref(kept);
	wake(op, kind, namespace, name);
}

void
op_take(struct op *op, enum op_kind kind, json_t *object)
{
	take(op, kind, object, false);
}

/* ---- following ---- */

static void
begins(void *arg)
{
	struct op_kind_state *k = arg;

	for (size_t i = 0; i < OP_BUCKETS; i++)
		for (struct op_object *o = k->buckets[i]; o != NULL; o = o->next)
			o->seen = false;
	k->too_many = false;
}

static void
listed(void *arg)
{
	struct op_kind_state *k = arg;

	for (size_t i = 0; i < OP_BUCKETS; i++)
		for (struct op_object **at = &k->buckets[i]; *at != NULL;)
			if ((*at)->seen) {
				at = &(*at)->next;
			} else {
				op_ghost_add(k->op, *at);
				forget(k->op, at);
			}
}

struct op_event {
	struct op_event *next;
	enum op_kind kind;
	json_t *object;
	bool is_gone;
};

static void
take_events(struct op *op)
{
	struct op_event *e;

	while ((e = op->events) != NULL) {
		op->events = e->next;
		take(op, e->kind, e->object, e->is_gone);
		json_decref(e->object);
		free(e);
	}
	op->events_end = &op->events;
	op->n_events = 0;
}

static void
object(void *arg, json_t *one, bool is_gone)
{
	struct op_kind_state *k = arg;
	struct op *op = k->op;
	struct op_event *e;

	if (!op->looks) {
		take(op, k->kind, one, is_gone);
		return;
	}
	e = op->n_events < OP_EVENTS_MAX ? calloc(1, sizeof(*e)) : NULL;
	if (e == NULL) {
		/* What is lost is listed again. */
		op->n_events = OP_EVENTS_MAX;
		return;
	}
	*e = (struct op_event){ .kind = k->kind, .object = json_incref(one), .is_gone = is_gone };
	*op->events_end = e;
	op->events_end = &e->next;
	op->n_events++;
}

static const struct kube_watch_handler handler = { .begins = begins, .listed = listed, .object = object };

void
op_objects_begin(struct op *op)
{
	if (getrandom(&op->seed, sizeof(op->seed), 0) < 0)
		op->seed = 0;
	for (int i = 0; i < OP_KINDS; i++) {
		struct op_kind_state *k = &op->kinds[i];

		op->events_end = &op->events;
		k->op = op;
		k->kind = (enum op_kind)i;
		k->watch = (struct kube_watch){ .kube = &op->kube, .handler = &handler, .arg = k };
		snprintf(k->watch.path, sizeof(k->watch.path), "/apis/%s/" OP_VERSION "%s/%s", kinds[i].group, op->scope,
		         kinds[i].plural);
	}
}

void
op_objects_end(struct op *op)
{
	take_events(op);
	for (int i = 0; i < OP_KINDS; i++) {
		begins(&op->kinds[i]);
		listed(&op->kinds[i]);
		kube_watch_close(&op->kinds[i].watch);
	}
	/* They are another operator's. */
	op_ghosts_forget(op);
}

void
op_objects_tend(struct op *op, uint64_t now_ms)
{
	for (int i = 0; i < OP_KINDS; i++) {
		struct err err = {0};

		if (kube_watch_tend(&op->kinds[i].watch, now_ms, &err) < 0)
			fprintf(stderr, "cloister: %s\n", err.text);
		/* A long list takes its time. */
		op_lease_tend(op, loop_now_ms());
	}
}

/* ---- looking ---- */

static int (*const lookers[OP_KINDS])(struct op *op, struct op_object *o, uint64_t now_ms, struct err *err) = {
	[OP_SANDBOX] = op_sandbox_look, [OP_CLAIM] = op_claim_look, [OP_POOL] = op_pool_look,
};

static void
look(struct op *op, struct op_object *o, uint64_t now_ms)
{
	struct err err = {0};
	int r;

	op->looks = true;
	r = lookers[o->kind](op, o, now_ms, &err);
	op->looks = false;
	if (r == 0) {
		o->failures = 0;
		return;
	}
	o->due_ms = now_ms + (o->failures < RETRIES ? RETRY_MS << o->failures : RETRY_MS << RETRIES);
	o->failures += o->failures < RETRIES;
	/* Another one has changed it, or it is gone: an event says so. */
	if (r != -EEXIST && r != -ENOENT)
		fprintf(stderr, "cloister: %s %s: %s\n", kinds[o->kind].plural, o->key, err.text);
}

static void
list_again(struct op *op)
{
	for (int i = 0; i < OP_KINDS; i++)
		kube_watch_close(&op->kinds[i].watch);
}

/* Those of one bucket.  False: the round is over before all of them. */
static bool
look_at_bucket(struct op *op, struct op_object *o, uint64_t now_ms, uint64_t *next)
{
	bool all = true;

	for (; o != NULL; o = o->next) {
		bool late = loop_now_ms() - now_ms >= ROUND_MS;

		if (o->due_ms <= now_ms && !late)
			look(op, o, now_ms);
		all = all && (o->due_ms > now_ms || !late);
		*next = o->due_ms < *next ? o->due_ms : *next;
	}
	return all;
}

/* A round that is over too early goes on where it stopped: those who make many objects hold up nobody else's. */
uint64_t
op_objects_look(struct op *op, uint64_t now_ms)
{
	const size_t all = (size_t)OP_KINDS * OP_BUCKETS, first = op->turn;
	uint64_t next = OP_NEVER;
	bool lost, stopped = false;

	for (size_t i = 0; i < all; i++) {
		size_t at = (first + i) % all, kind = at % OP_KINDS;

		if (lookers[kind] != NULL && !look_at_bucket(op, op->kinds[kind].buckets[at / OP_KINDS], now_ms, &next) && !stopped) {
			op->turn = at;
			stopped = true;
		}
	}
	op_ghosts_tend(op, now_ms, now_ms + 2ull * ROUND_MS);
	lost = op->n_events == OP_EVENTS_MAX;
	take_events(op);
	if (lost)
		list_again(op);
	return next;
}

/* ---- changing ---- */

char *
op_path(const struct op *op, enum op_kind kind, const char *namespace, const char *name, const char *sub)
{
	OWN(freep) char *in = fleet_http_escape(namespace), *escaped = fleet_http_escape(name);

	(void)op;
	return in == NULL || escaped == NULL ? NULL : str_format("/apis/%s/" OP_VERSION "/namespaces/%s/%s%s%s%s",
	       kinds[kind].group, in, kinds[kind].plural, *escaped != '\0' ? "/" : "", escaped, sub);
}

int
op_patch(struct op *op, struct op_object *o, const char *sub, json_t *patch, struct err *err)
{
	OWN(freep) char *path = op_path(op, o->kind, op_meta(o, "namespace"), op_meta(o, "name"), sub);
	OWN(json_decrefp) json_t *answer = NULL;
	json_t *meta = json_object_get(patch, "metadata");
	int r;

	if (meta == NULL) {
		meta = json_object();
		json_object_set_new(patch, "metadata", meta);
	}
	json_object_set_new(meta, "resourceVersion", json_string(op_meta(o, "resourceVersion")));
	r = path == NULL ? err_set(err, ENOMEM, "out of memory") : kube_ask(&op->kube, "PATCH", path, patch, &answer, err);
	if (r == 0)
		op_take(op, o->kind, answer);
	return r;
}

int
op_delete(struct op *op, enum op_kind kind, const char *namespace, const char *name, const char *uid, const char *how,
          struct err *err)
{
	OWN(freep) char *path = op_path(op, kind, namespace, name, "");
	OWN(json_decrefp) json_t *body = json_pack("{s:s, s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
	                                           "propagationPolicy", how, "preconditions", "uid", uid);
	int r = path == NULL || body == NULL ? err_set(err, ENOMEM, "out of memory") :
	        kube_ask(&op->kube, "DELETE", path, body, NULL, err);

	return r == -ENOENT ? 0 : r;
}
