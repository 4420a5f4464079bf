/* plan_read.c - reads plans, and checks their form. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/envelope.h"
#include "audit/fields.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "plan/plan.h"

void
plan_free(struct plan *plan)
{
	for (size_t i = 0; i < plan->n_states; i++)
		free(plan->states[i].refs);
	free(plan->objects);
	free(plan->states);
	free(plan->volumes);
	free(plan->runs);
	free(plan->secrets);
	json_decref(plan->root);
	*plan = (struct plan){0};
}

/* ---- members ---- */

struct reading {
	struct plan *plan;
	struct err *err;
};

static int
bad(struct reading *r, const char *where, const char *what)
{
	return err_set(r->err, EBADMSG, "%s %s", where, what);
}

/* NAMES ends with NULL. */
static int
check_members(struct reading *r, const json_t *object, const char *const *names, const char *where)
{
	size_t n = 0;

	if (!json_is_object(object))
		return bad(r, where, "is not an object");
	for (; names[n] != NULL; n++)
		if (json_object_get(object, names[n]) == NULL)
			return err_set(r->err, EBADMSG, "%s has no '%s'", where, names[n]);
	return json_object_size(object) == n ? 0 : bad(r, where, "has a member that this cloister does not know");
}

static int
read_text(struct reading *r, const json_t *object, const char *name, size_t max, const char *where, const char **ret_text)
{
	const json_t *value = json_object_get(object, name);

	if (!json_is_string(value) || json_string_length(value) > max)
		return err_set(r->err, EBADMSG, "%s has a '%s' that is not text of at most %zu bytes", where, name, max);
	*ret_text = json_string_value(value);
	return 0;
}

static int
read_number(struct reading *r, const json_t *object, const char *name, const char *where, uint64_t *ret_number)
{
	const json_t *value = json_object_get(object, name);

	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return err_set(r->err, EBADMSG, "%s has a '%s' that is not a number", where, name);
	*ret_number = (uint64_t)json_integer_value(value);
	return 0;
}

static bool
is_hex(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, "0123456789abcdef") == len;
}

static int
read_hex(struct reading *r, const json_t *object, const char *name, size_t len, const char *where, const char **ret_text)
{
	int n = read_text(r, object, name, len, where, ret_text);

	return n < 0 ? n : is_hex(*ret_text, len) ? 0 :
	       err_set(r->err, EBADMSG, "%s has a '%s' that is not %zu hexadecimal digits", where, name, len);
}

/* "sha256:..." of TEXT. */
static int
check_hash(struct reading *r, const char *text, const char *hash, const char *where)
{
	unsigned char digest[HASH_LEN];
	char name[HASH_NAME + 1];

	hash_of(text, strlen(text), digest);
	hash_name(digest, name);
	return strcmp(name, hash) == 0 ? 0 : bad(r, where, "is not what its hash says");
}

static int
check_list(struct reading *r, const char *name, size_t max, json_t **ret_list)
{
	json_t *list = json_object_get(r->plan->root, name);

	if (!json_is_array(list) || json_array_size(list) > max)
		return err_set(r->err, EBADMSG, "its '%s' is not a list of at most %zu", name, max);
	*ret_list = list;
	return 0;
}

/* Names are sorted and occur once. */
static int
check_order(struct reading *r, const char *before, const char *name, const char *where)
{
	return before == NULL || strcmp(before, name) < 0 ? 0 :
	       err_set(r->err, EBADMSG, "%s '%.80s' is there twice, or not in its place", where, name);
}

/* ---- objects ---- */

static int
read_object(struct reading *r, const json_t *from, struct plan_object *o)
{
	static const char *const names[] = { "content", "hash", "kind", "name", "newest", NULL };
	const char *kind, *name, *where = "an object of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_text(r, from, "content", 4u << 20, where, &o->text) : n;
	n = n == 0 ? read_text(r, from, "hash", HASH_NAME, where, &o->hash) : n;
	n = n == 0 ? read_text(r, from, "kind", 16, where, &kind) : n;
	n = n == 0 ? read_text(r, from, "name", REGISTRY_NAME_MAX, where, &name) : n;
	if (n == 0 && (!registry_name_ok(name) || !json_is_boolean(json_object_get(from, "newest"))))
		n = bad(r, where, "has no proper name, or does not say whether it is the newest");
	if (n < 0)
		return n;
	for (o->kind = 0; o->kind < REGISTRY_KINDS && strcmp(registry_kinds[o->kind], kind) != 0; o->kind++)
		;
	if (o->kind == REGISTRY_KINDS)
		return err_set(r->err, EBADMSG, "%s is of the kind '%.16s', which does not exist", where, kind);
	snprintf(o->name, sizeof(o->name), "%s", name);
	o->newest = json_is_true(json_object_get(from, "newest"));
	return check_hash(r, o->text, o->hash, where);
}

/* By kind, name, with the newest last, and by hash. */
static int
order_objects(const struct plan_object *a, const struct plan_object *b)
{
	int order = a->kind != b->kind ? (a->kind < b->kind ? -1 : 1) : strcmp(a->name, b->name);

	return order != 0 ? order : a->newest != b->newest ? (a->newest ? 1 : -1) : strcmp(a->hash, b->hash);
}

static int
read_objects(struct reading *r)
{
	struct plan *plan = r->plan;
	json_t *list;
	int n = check_list(r, "objects", PLAN_OBJECTS_MAX, &list);

	if (n < 0)
		return n;
	plan->objects = calloc(json_array_size(list) + 1, sizeof(*plan->objects));
	if (plan->objects == NULL)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++) {
		struct plan_object *o = &plan->objects[i];

		n = read_object(r, json_array_get(list, i), o);
		if (n == 0 && i > 0 && (order_objects(o - 1, o) >= 0 ||
		                        (o->newest && o[-1].newest && o[-1].kind == o->kind && strcmp(o[-1].name, o->name) == 0)))
			n = err_set(r->err, EBADMSG, "the %s '%s' is there twice, or not in its place", registry_kinds[o->kind], o->name);
		plan->n_objects += n == 0;
	}
	return n;
}

/* ---- states ---- */

static int
read_limits(struct reading *r, const json_t *from, struct state_limits *l)
{
	static const char *const names[] = { "bytes", "depth", "disk", "file_bytes", "files", "path", NULL };
	const char *where = "the limits of a state of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_number(r, from, "bytes", where, &l->bytes) : n;
	n = n == 0 ? read_number(r, from, "depth", where, &l->depth) : n;
	n = n == 0 ? read_number(r, from, "disk", where, &l->disk) : n;
	n = n == 0 ? read_number(r, from, "file_bytes", where, &l->file_bytes) : n;
	n = n == 0 ? read_number(r, from, "files", where, &l->files) : n;
	return n == 0 ? read_number(r, from, "path", where, &l->path) : n;
}

static bool
is_ref(const char *ref)
{
	return (strncmp(ref, "refs/heads/", 11) == 0 && state_is_name(ref + 11)) ||
	       (strncmp(ref, "refs/tags/", 10) == 0 && state_is_name(ref + 10));
}

static int
read_ref(struct reading *r, const json_t *from, struct plan_ref *ref)
{
	static const char *const names[] = { "commit", "files", "ref", NULL };
	const char *where = "a branch or tag of a state of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_hex(r, from, "commit", STATE_ID, where, &ref->commit) : n;
	n = n == 0 ? read_hex(r, from, "files", STATE_SUM, where, &ref->files) : n;
	n = n == 0 ? read_text(r, from, "ref", STATE_REF_MAX - 1, where, &ref->ref) : n;
	return n < 0 ? n : is_ref(ref->ref) ? 0 : bad(r, where, "has no proper name");
}

static int
read_state(struct reading *r, const json_t *from, struct plan_state *s)
{
	static const char *const names[] = { "limits", "name", "refs", NULL };
	const json_t *list = json_object_get(from, "refs");
	const char *where = "a state of the plan";
	bool has_main = false;
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_text(r, from, "name", STATE_NAME_MAX - 1, where, &s->name) : n;
	n = n == 0 ? read_limits(r, json_object_get(from, "limits"), &s->limits) : n;
	if (n == 0 && (!state_is_name(s->name) || !json_is_array(list) || json_array_size(list) > STATE_REFS_MAX))
		n = bad(r, where, "has no proper name, or no list of branches and tags");
	s->refs = n < 0 ? NULL : calloc(json_array_size(list) + 1, sizeof(*s->refs));
	if (n < 0 || s->refs == NULL)
		return n < 0 ? n : err_set(r->err, ENOMEM, "out of memory");
	for (; n == 0 && s->n_refs < json_array_size(list); s->n_refs++) {
		struct plan_ref *ref = &s->refs[s->n_refs];

		n = read_ref(r, json_array_get(list, s->n_refs), ref);
		n = n == 0 ? check_order(r, s->n_refs > 0 ? ref[-1].ref : NULL, ref->ref, "the branch or tag") : n;
		has_main |= n == 0 && strcmp(ref->ref, "refs/heads/" STATE_MAIN) == 0;
	}
	return n < 0 || has_main ? n : err_set(r->err, EBADMSG, "the state '%s' of the plan has no branch '" STATE_MAIN "'", s->name);
}

static int
read_states(struct reading *r)
{
	struct plan *plan = r->plan;
	json_t *list;
	int n = check_list(r, "states", PLAN_STATES_MAX, &list);

	plan->states = n < 0 ? NULL : calloc(json_array_size(list) + 1, sizeof(*plan->states));
	if (n == 0 && plan->states == NULL)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++) {
		plan->n_states++;
		n = read_state(r, json_array_get(list, i), &plan->states[i]);
		n = n == 0 ? check_order(r, i > 0 ? plan->states[i - 1].name : NULL, plan->states[i].name, "the state") : n;
	}
	return n;
}

/* ---- volumes ---- */

static int
read_snapshot(struct reading *r, const json_t *from, struct plan_volume *v)
{
	static const char *const names[] = { "files", "label", NULL };
	struct plan_snapshot *s = &v->snapshots[v->n_snapshots];
	const char *where = "a snapshot of a volume of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_hex(r, from, "files", HASH_HEX, where, &s->files) : n;
	n = n == 0 ? read_text(r, from, "label", VOLUME_NAME_MAX, where, &s->label) : n;
	if (n == 0 && !volume_name_ok(s->label))
		n = bad(r, where, "has no proper label");
	for (size_t i = 0; n == 0 && i < v->n_snapshots; i++)
		if (strcmp(v->snapshots[i].label, s->label) == 0)
			n = err_set(r->err, EBADMSG, "the snapshot '%s' is there twice", s->label);
	v->n_snapshots += n == 0;
	return n;
}

static int
read_volume(struct reading *r, const json_t *from, struct plan_volume *v)
{
	static const char *const names[] = { "files", "name", "size", "snapshots", "ttl_ms", NULL };
	const json_t *list = json_object_get(from, "snapshots");
	const char *where = "a volume of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_hex(r, from, "files", HASH_HEX, where, &v->files) : n;
	n = n == 0 ? read_text(r, from, "name", VOLUME_NAME_MAX, where, &v->name) : n;
	n = n == 0 ? read_number(r, from, "size", where, &v->size) : n;
	n = n == 0 ? read_number(r, from, "ttl_ms", where, &v->ttl_ms) : n;
	if (n == 0 && (!volume_name_ok(v->name) || !json_is_array(list) || json_array_size(list) > VOLUME_SNAPSHOTS_MAX ||
	               v->size < VOLUME_SIZE_LEAST || v->size > VOLUME_SIZE_MAX))
		n = bad(r, where, "has no proper name or size, or no list of snapshots");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++)
		n = read_snapshot(r, json_array_get(list, i), v);
	return n;
}

static int
read_volumes(struct reading *r)
{
	struct plan *plan = r->plan;
	json_t *list;
	int n = check_list(r, "volumes", VOLUMES_MAX, &list);

	plan->volumes = n < 0 ? NULL : calloc(json_array_size(list) + 1, sizeof(*plan->volumes));
	if (n == 0 && plan->volumes == NULL)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++) {
		n = read_volume(r, json_array_get(list, i), &plan->volumes[i]);
		n = n == 0 ? check_order(r, i > 0 ? plan->volumes[i - 1].name : NULL, plan->volumes[i].name, "the volume") : n;
		plan->n_volumes += n == 0;
	}
	return n;
}

/* ---- runs and secrets ---- */

static bool
is_restart(const char *text)
{
	size_t digits;

	if (strncmp(text, "always", 6) == 0) {
		if (text[6] == '\0')
			return true;
		if (text[6] != ':')
			return false;
		text += 7;
	}
	digits = strspn(text, "0123456789");
	return text[digits] == '\0';
}

/* It is a word of a command line. */
static bool
is_run_name(const char *name)
{
	return *name != '\0' && *name != '-' &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == '\0';
}

static int
read_run(struct reading *r, const json_t *from, struct plan_run *run)
{
	static const char *const names[] = { "document", "hash", "name", "restart", NULL };
	const char *where = "a run of the plan";
	int n = check_members(r, from, names, where);

	n = n == 0 ? read_text(r, from, "document", 16u << 20, where, &run->document) : n;
	n = n == 0 ? read_text(r, from, "hash", HASH_NAME, where, &run->hash) : n;
	n = n == 0 ? read_text(r, from, "name", PLAN_RUN_NAME_MAX, where, &run->name) : n;
	n = n == 0 ? read_text(r, from, "restart", PLAN_RESTART_MAX, where, &run->restart) : n;
	if (n == 0 && (!is_run_name(run->name) || !is_restart(run->restart)))
		n = bad(r, where, "has no proper name or 'restart'");
	return n == 0 ? check_hash(r, run->document, run->hash, where) : n;
}

static int
read_runs(struct reading *r)
{
	struct plan *plan = r->plan;
	json_t *list;
	int n = check_list(r, "runs", PLAN_RUNS_MAX, &list);

	plan->runs = n < 0 ? NULL : calloc(json_array_size(list) + 1, sizeof(*plan->runs));
	if (n == 0 && plan->runs == NULL)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++) {
		n = read_run(r, json_array_get(list, i), &plan->runs[i]);
		n = n == 0 ? check_order(r, i > 0 ? plan->runs[i - 1].name : NULL, plan->runs[i].name, "the run") : n;
		plan->n_runs += n == 0;
	}
	return n;
}

/* As secret_name_ok() has it.  It is printed, as a word of a command line, too. */
static bool
is_secret_name(const json_t *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
	const char *text = json_string_value(name);

	return text != NULL && *text != '\0' && strchr("-./", *text) == NULL && json_string_length(name) <= PLAN_SECRET_MAX &&
	       strspn(text, ok) == json_string_length(name);
}

static int
read_secrets(struct reading *r)
{
	struct plan *plan = r->plan;
	json_t *list;
	int n = check_list(r, "secrets", PLAN_SECRETS_MAX, &list);

	plan->secrets = n < 0 ? NULL : calloc(json_array_size(list) + 1, sizeof(*plan->secrets));
	if (n == 0 && plan->secrets == NULL)
		return err_set(r->err, ENOMEM, "out of memory");
	for (size_t i = 0; n == 0 && i < json_array_size(list); i++) {
		const json_t *name = json_array_get(list, i);

		if (!is_secret_name(name))
			return bad(r, "a secret of the plan", "is not a name");
		plan->secrets[i] = json_string_value(name);
		n = check_order(r, i > 0 ? plan->secrets[i - 1] : NULL, plan->secrets[i], "the secret");
		plan->n_secrets += n == 0;
	}
	return n;
}

/* ---- all of it ---- */

static int
read_all(struct reading *r)
{
	static const char *const names[] = { "objects", "runs", "secrets", "states", "version", "volumes", NULL };
	const json_t *version = json_object_get(r->plan->root, "version");
	int n;

	if (json_is_integer(version) && json_integer_value(version) != PLAN_VERSION)
		return err_set(r->err, EBADMSG, "it is a plan of version %lld: this cloister knows version %d",
		               (long long)json_integer_value(version), PLAN_VERSION);
	n = check_members(r, r->plan->root, names, "the plan");
	if (n == 0 && !json_is_integer(version))
		n = bad(r, "the plan", "has no proper version");
	n = n == 0 ? read_objects(r) : n;
	n = n == 0 ? read_states(r) : n;
	n = n == 0 ? read_volumes(r) : n;
	n = n == 0 ? read_runs(r) : n;
	return n == 0 ? read_secrets(r) : n;
}

int
plan_read(const char *text, size_t len, struct plan *ret_plan, struct err *err)
{
	OWN(plan_free) struct plan plan = {0};
	struct reading r = { .plan = &plan, .err = err };
	int n = len > PLAN_MAX ? err_set(err, EFBIG, "a plan is at most %zu MiB", PLAN_MAX >> 20) :
	        canon_read(text, len, &plan.root, err);

	n = n == 0 ? read_all(&r) : n;
	if (n == 0) {
		*ret_plan = plan;
		plan = (struct plan){0};
	}
	return n;
}

int
plan_open(const char *text, size_t len, const unsigned char key[AUDIT_KEY], struct plan *ret_plan, struct err *err)
{
	OWN(buf_free) struct buf payload = BUF(PLAN_ENVELOPE_MAX);
	int r = len > PLAN_ENVELOPE_MAX ? err_set(err, EFBIG, "a plan is at most %zu MiB", PLAN_ENVELOPE_MAX >> 20) :
	        audit_envelope_read(text, len, PLAN_TYPE, key, &payload, err);

	return r == 0 ? plan_read((const char *)payload.data, payload.len, ret_plan, err) : r;
}

bool
plan_find_key(const char *text, size_t len, unsigned char ret_key[AUDIT_KEY])
{
	struct json_walk_item list, item;
	struct json_walk w;

	if (len > PLAN_ENVELOPE_MAX || !audit_field((struct http_text){ text, len }, "signatures", JSON_WALK_ARRAY, &list))
		return false;
	json_walk_begin(&w, list.raw);
	while (json_walk_next(&w, &item) == 1)
		if (item.kind == JSON_WALK_CLOSE && item.depth == 1)
			return audit_field_hash(item.raw, "keyid", ret_key);
	return false;
}

int
plan_seal(json_t *root, const struct audit_key *key, struct buf *ret_envelope, struct err *err)
{
	OWN(plan_free) struct plan plan = {0};
	OWN(freep) char *text = NULL;
	size_t len;
	int r = canon_dump(root, PLAN_MAX, &text, &len, err);

	/* Nobody shall find out only when it is needed. */
	r = r == 0 ? plan_read(text, len, &plan, err) : r;
	if (r < 0)
		return err_wrap(err, "cannot write the plan");
	audit_envelope_put(ret_envelope, PLAN_TYPE, text, len, key);
	return buf_failed(ret_envelope) ? err_set(err, ENOMEM, "out of memory") : 0;
}
