/* object_target.c - reads a target: an engine on other machines, which starts workers for a pool. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "http/http_head.h"
#include "policy/policy_boundary.h"
#include "policy/policy_load.h"
#include "registry/object_parts.h"

#define TEXT_MAX 1024
#define VALUES_MAX 64                   /* of a map or list */
#define SLOTS 4
#define SLOTS_MAX 1024
#define IDLE "5m"
#define IDLE_MIN_MS 1000
#define IDLE_MAX_MS (7ull * 24 * 3600 * 1000)

enum key_type { KEY_TEXT, KEY_TEXTS, KEY_TRUTH, KEY_MAP, KEY_HOST };

/* The keys of each engine's own member.  A missing one is left out of the object.  A new engine is a row here, and one
 * in fleet/fleet.c. */
static const struct engine {
	const char *name;
	struct key {
		const char *name;
		enum key_type type;
	} keys[16];
} engines[] = {
	{ "docker", {
		{ "host", KEY_HOST }, { "network", KEY_TEXT }, { "runtime", KEY_TEXT }, { "seccomp", KEY_TEXT },
		{ "apparmor", KEY_TEXT },
	} },
	{ "swarm", {
		{ "host", KEY_HOST }, { "network", KEY_TEXT }, { "constraints", KEY_TEXTS }, { "seccomp", KEY_TEXT },
		{ "apparmor", KEY_TEXT }, { "hostProc", KEY_TRUTH },
	} },
	{ "kubernetes", {
		{ "context", KEY_TEXT }, { "namespace", KEY_TEXT }, { "serviceAccount", KEY_TEXT },
		{ "runtimeClass", KEY_TEXT }, { "nodeSelector", KEY_MAP }, { "seccomp", KEY_TEXT },
		{ "apparmor", KEY_TEXT }, { "hostUsers", KEY_TRUTH }, { "pullSecrets", KEY_TEXTS },
		{ "hostProc", KEY_TRUTH }, { "grace", KEY_TEXT },
	} },
	{ "ecs", {
		{ "region", KEY_TEXT }, { "cluster", KEY_TEXT }, { "subnets", KEY_TEXTS }, { "securityGroups", KEY_TEXTS },
		{ "assignPublicIp", KEY_TRUTH }, { "launchType", KEY_TEXT }, { "taskDefinition", KEY_TEXT },
		{ "container", KEY_TEXT }, { "taskRole", KEY_TEXT }, { "executionRole", KEY_TEXT },
		{ "platformVersion", KEY_TEXT }, { "logGroup", KEY_TEXT },
	} },
};

/* A target that is being read: each function adds what it has read to `content`. */
struct reading {
	const struct node *root;
	const struct engine *engine;
	const char *name;
	json_t *content;
	struct err *err;
};

static int
put(struct reading *t, json_t *to, const char *name, json_t *value)
{
	return json_object_set_new(to, name, value) < 0 ? err_set(t->err, ENOMEM, "out of memory") : 0;
}

/* The member NAME, or NULL if it is missing or null. */
static const struct node *
member(const struct reading *t, const char *name)
{
	const struct node *node = node_get(t->root, name);

	return node == NULL || node_is_null(node) ? NULL : node;
}

/* ---- values ---- */

/* Text without control characters: it becomes a part of questions to engines. */
static int
read_text(struct reading *t, const struct node *node, const char *what, const char **ret_text)
{
	int r = object_read_text(node, what, TEXT_MAX, ret_text, t->err);

	if (r < 0)
		return r;
	for (const char *at = *ret_text; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			return node_err(t->err, node, "%s has a character that it cannot have", what);
	return **ret_text != '\0' ? 0 : node_err(t->err, node, "%s is missing here", what);
}

static int
put_text(struct reading *t, json_t *to, const char *name, const struct node *node)
{
	const char *text = NULL;
	int r = read_text(t, node, name, &text);

	return r < 0 ? r : put(t, to, name, json_string(text));
}

/* Where an engine is: what fleet/fleet_engine.c can open, and no other scheme, path or name of a user. */
static int
put_host(struct reading *t, json_t *to, const char *name, const struct node *node)
{
	static const char here[] = "unix:///", tls[] = "tcp://";
	const char *text = NULL;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port;
	int r = read_text(t, node, name, &text);

	if (r < 0)
		return r;
	if (strncmp(text, here, strlen(here)) != 0 && (strncmp(text, tls, strlen(tls)) != 0 ||
	    http_authority_parse((struct http_text){ text + strlen(tls), strlen(text + strlen(tls)) }, host, &port, NULL) < 0))
		return node_err(t->err, node, "`%s` is unix:///PATH, or tcp://HOST:PORT for an engine behind TLS", name);
	return put(t, to, name, json_string(text));
}

static int
put_texts(struct reading *t, json_t *to, const char *name, const struct node *node)
{
	json_t *list = json_array();
	const char *text = NULL;
	int r = put(t, to, name, list);

	if (r == 0 && (node->kind != NODE_LIST || node->n > VALUES_MAX))
		return node_err(t->err, node, "`%s` is a list of at most %d texts", name, VALUES_MAX);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		r = read_text(t, node->items[i], name, &text);
		if (r == 0 && json_array_append_new(list, json_string(text)) < 0)
			r = err_set(t->err, ENOMEM, "out of memory");
	}
	return r;
}

/* A map of texts; with VARIABLES its keys are names of variables. */
static int
put_map(struct reading *t, json_t *to, const char *name, const struct node *node, bool variables)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	json_t *map = json_object();
	const char *text = NULL;
	int r = put(t, to, name, map);

	if (r < 0 || node == NULL)
		return r;
	if (node->kind != NODE_MAP || node->n > VALUES_MAX)
		return node_err(t->err, node, "`%s` is a map of at most %d texts", name, VALUES_MAX);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *key = node->items[i]->text;

		if (variables && (strspn(key, letters) != strlen(key) || (*key >= '0' && *key <= '9')))
			return node_err(t->err, node->items[i], "'%.64s' cannot be the name of a variable: letters, digits and "
			                "'_', no digit first", key);
		r = read_text(t, node->values[i], "a value", &text);
		r = r == 0 ? put(t, map, key, json_string(text)) : r;
	}
	return r;
}

static int
put_truth(struct reading *t, json_t *to, const char *name, const struct node *node)
{
	bool plain = node != NULL && node->kind == NODE_SCALAR && node->plain;
	bool yes = plain && strcmp(node->text, "true") == 0;

	if (node != NULL && !yes && !(plain && strcmp(node->text, "false") == 0))
		return node_err(t->err, node, "`%s` is true or false", name);
	return put(t, to, name, json_boolean(yes));
}

static int
read_count(struct reading *t, const struct node *node, const char *name, unsigned min, unsigned max, unsigned *n)
{
	double number = 0;

	if (node == NULL)
		return 0;
	if (!node_is_number(node, &number) || number < min || number > max || number != (double)(unsigned)number)
		return node_err(t->err, node, "`%s` is a number from %u to %u", name, min, max);
	*n = (unsigned)number;
	return 0;
}

static int
check_keys(struct reading *t, const struct node *node, const char *const *names, const char *where)
{
	for (size_t i = 0; i < node->n; i++) {
		size_t k = 0;

		while (names[k] != NULL && strcmp(names[k], node->items[i]->text) != 0)
			k++;
		if (names[k] == NULL)
			return policy_read_unknown(node->items[i], names, where, t->err);
	}
	return 0;
}

/* ---- members ---- */

static int
read_engine(struct reading *t)
{
	const struct node *node = member(t, "engine");
	const char *text = NULL;
	int r;

	if (node == NULL)
		return node_err(t->err, t->root, "a target has an `engine`: docker, swarm, kubernetes or ecs");
	r = object_read_text(node, "an engine", TEXT_MAX, &text, t->err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (strcmp(engines[i].name, text) == 0)
			t->engine = &engines[i];
	if (t->engine == NULL)
		return node_err(t->err, node, "there is no engine '%.64s': use docker, swarm, kubernetes or ecs", text);
	return put(t, t->content, "engine", json_string(text));
}

static int
read_pool(struct reading *t)
{
	const struct node *node = member(t, "pool"), *name = node_get(t->root, "name");
	const char *text = t->name != NULL ? t->name : name != NULL && name->kind == NODE_SCALAR ? name->text : "";
	int r = node == NULL ? 0 : object_read_text(node, "a pool", TEXT_MAX, &text, t->err);
	size_t len = strlen(text);

	if (r == 0 && (len == 0 || len > OBJECT_POOL_MAX || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != len))
		r = node_err(t->err, node != NULL ? node : t->root, "'%.64s' is no name of a pool: give it a `pool` of 1 to %d of "
		             "a-z, 0-9 and '-'", text, OBJECT_POOL_MAX);
	return r < 0 ? r : put(t, t->content, "pool", json_string(text));
}

static int
read_workers(struct reading *t)
{
	static const char *const names[] = { "min", "max", NULL };
	const struct node *node = member(t, "workers");
	unsigned min = 0, max = 10;
	int r = 0;

	if (node != NULL && node->kind != NODE_MAP)
		return node_err(t->err, node, "`workers` is a map: {min: 0, max: 10}");
	if (node != NULL) {
		r = check_keys(t, node, names, "in `workers`");
		r = r == 0 ? read_count(t, node_get(node, "min"), "min", 0, OBJECT_WORKERS_MAX, &min) : r;
		r = r == 0 ? read_count(t, node_get(node, "max"), "max", 1, OBJECT_WORKERS_MAX, &max) : r;
	}
	if (r == 0 && min > max)
		r = node_err(t->err, node, "`min` is more than `max`");
	return r < 0 ? r : put(t, t->content, "workers", json_pack("{s:i,s:i}", "max", (int)max, "min", (int)min));
}

static int
read_slots(struct reading *t)
{
	const struct node *node = member(t, "slots");
	unsigned n = SLOTS;
	int r = put_truth(t, t->content, "once", member(t, "once"));

	if (r < 0)
		return r;
	if (json_is_true(json_object_get(t->content, "once"))) {
		if (node != NULL)
			return node_err(t->err, node, "with `once` a worker runs one dispatch: leave `slots` out");
		n = 1;
	}
	r = read_count(t, node, "slots", 1, SLOTS_MAX, &n);
	return r < 0 ? r : put(t, t->content, "slots", json_integer(n));
}

/* Left out where it is missing. */
static int
read_walls(struct reading *t)
{
	const struct node *node = member(t, "boundary");
	char text[POLICY_BOUNDARY_TEXT_MAX + 1];
	struct policy_boundary b;
	int r = node == NULL ? 0 : policy_boundary_read(node, &b, t->err);

	return node == NULL || r < 0 ? r : put(t, t->content, "boundary", json_string(policy_boundary_text(&b, text)));
}

static int
read_idle(struct reading *t)
{
	const struct node *node = member(t, "idle");
	const char *text = IDLE;
	uint64_t ms = 0;
	int r = node == NULL ? 0 : object_read_text(node, "`idle`", TEXT_MAX, &text, t->err);

	if (r == 0 && (num_parse_duration(text, &ms, NULL) < 0 || ms < IDLE_MIN_MS || ms > IDLE_MAX_MS))
		r = node_err(t->err, node, "`idle` is how long a worker without work stays, from 1s to 7d: 5m");
	return r < 0 ? r : put(t, t->content, "idle", json_string(text));
}

/* Cannot be checked further here: src/link knows addresses. */
static int
read_service(struct reading *t)
{
	const struct node *node = member(t, "service");
	const char *text = NULL;
	int r;

	if (node == NULL)
		return put(t, t->content, "service", json_null());
	r = read_text(t, node, "a service", &text);
	if (r == 0 && (strrchr(text, ':') == NULL || strspn(strrchr(text, ':') + 1, "0123456789") !=
	               strlen(strrchr(text, ':') + 1) || strchr(text, '/') != NULL))
		r = node_err(t->err, node, "`service` is where workers find the service: HOST:PORT");
	return r < 0 ? r : put(t, t->content, "service", json_string(text));
}

static int
read_image(struct reading *t)
{
	const struct node *node = member(t, "image"), *own = member(t, t->engine->name);

	if (node != NULL)
		return put_text(t, t->content, "image", node);
	/* A task definition names its image. */
	if (own == NULL || own->kind != NODE_MAP || node_get(own, "taskDefinition") == NULL)
		return node_err(t->err, t->root, "a target has the `image` of its workers, which `make image` makes");
	return put(t, t->content, "image", json_null());
}

static int
read_resources(struct reading *t)
{
	const struct node *cpus = member(t, "cpus"), *memory = member(t, "memory");
	const char *text = NULL;
	uint64_t n = 0;
	int r = cpus == NULL ? put(t, t->content, "cpus", json_null()) : 0;

	if (cpus != NULL) {
		/* 2 and "2" are the same. */
		if (cpus->kind != NODE_SCALAR || num_parse_milli(cpus->text, &n, NULL) < 0 || n == 0)
			return node_err(t->err, cpus, "`cpus` is a number of processors: 2 or 0.5");
		r = put(t, t->content, "cpus", json_string(cpus->text));
	}
	if (r == 0 && memory == NULL)
		return put(t, t->content, "memory", json_null());
	r = r == 0 ? object_read_text(memory, "`memory`", TEXT_MAX, &text, t->err) : r;
	if (r == 0 && (num_parse_size(text, &n, NULL) < 0 || n == 0))
		r = node_err(t->err, memory, "`memory` is a number of bytes: 2G");
	return r < 0 ? r : put(t, t->content, "memory", json_string(text));
}

static int
read_key(struct reading *t, json_t *own, const struct key *key, const struct node *node)
{
	switch (key->type) {
	case KEY_TEXT:  return put_text(t, own, key->name, node);
	case KEY_TEXTS: return put_texts(t, own, key->name, node);
	case KEY_TRUTH: return put_truth(t, own, key->name, node);
	case KEY_MAP:   return put_map(t, own, key->name, node, false);
	case KEY_HOST:  return put_host(t, own, key->name, node);
	}
	return 0;
}

/* The engine's own member; those of other engines are refused. */
static int
read_own(struct reading *t)
{
	const struct node *node = member(t, t->engine->name), *value;
	const char *names[ARRAY_LEN(t->engine->keys) + 1] = { NULL };
	json_t *own = json_object();
	int r = put(t, t->content, t->engine->name, own);

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(engines); i++)
		if (&engines[i] != t->engine && (value = node_get(t->root, engines[i].name)) != NULL)
			r = node_err(t->err, value, "`%s` is for another engine than `%s`", engines[i].name, t->engine->name);
	if (r < 0 || node == NULL)
		return r;
	if (node->kind != NODE_MAP)
		return node_err(t->err, node, "`%s` is a map", t->engine->name);
	for (size_t i = 0; i < ARRAY_LEN(t->engine->keys) && t->engine->keys[i].name != NULL; i++)
		names[i] = t->engine->keys[i].name;
	r = check_keys(t, node, names, "for this engine");
	for (size_t i = 0; r == 0 && names[i] != NULL; i++)
		if ((value = node_get(node, names[i])) != NULL && !node_is_null(value))
			r = read_key(t, own, &t->engine->keys[i], value);
	return r;
}

int
object_read_target(const struct node *root, const char *name, json_t **ret_members, struct err *err)
{
	OWN(json_decrefp) json_t *content = json_object();
	struct reading t = { .root = root, .name = name, .content = content, .err = err };
	int r = content == NULL ? err_set(err, ENOMEM, "out of memory") : read_engine(&t);

	r = r == 0 ? read_pool(&t) : r;
	r = r == 0 ? read_workers(&t) : r;
	r = r == 0 ? read_slots(&t) : r;
	r = r == 0 ? read_walls(&t) : r;
	r = r == 0 ? read_idle(&t) : r;
	r = r == 0 ? read_image(&t) : r;
	r = r == 0 ? read_service(&t) : r;
	r = r == 0 ? read_resources(&t) : r;
	r = r == 0 ? put_map(&t, content, "env", member(&t, "env"), true) : r;
	r = r == 0 ? put_map(&t, content, "secrets", member(&t, "secrets"), true) : r;
	r = r == 0 ? read_own(&t) : r;
	if (r < 0)
		return r;
	*ret_members = TAKE(content);
	return 0;
}
