/* rebuild_objects.c - registers the objects of a plan. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/own.h"
#include "proc/plan/plan_proc.h"
#include "registry/object.h"

int
rebuild_check_objects(struct rebuild *b, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->plan.n_objects; i++) {
		const struct plan_object *o = &b->plan.objects[i];
		OWN(object_freep) struct object *object = NULL;
		json_t *files, *file;
		size_t k;

		r = object_read_canonical(o->kind, o->text, strlen(o->text), &object, err);
		if (r == 0 && strcmp(object->name, o->name) != 0)
			r = err_set(err, EBADMSG, "its content is that of '%s'", object->name);
		files = r == 0 && b->data >= 0 ? json_object_get(object->content, "files") : NULL;
		json_array_foreach(files, k, file) {
			const char *hash = json_string_value(json_object_get(file, "hash"));

			r = r == 0 ? plan_check_file(b->data, hash + strlen(HASH_PREFIX), err) : r;
			r = r == -ENOENT ? 0 : r;
		}
		if (r < 0)
			return err_wrap(err, "the %s '%s' of the plan", registry_kinds[o->kind], o->name);
	}
	return r;
}

/* ---- one object ---- */

/* -ENODATA: a file is neither here nor among the plan's. */
static int
put_blobs(struct rebuild *b, const json_t *content, struct err *err)
{
	json_t *files = json_object_get(content, "files"), *file;
	size_t i;

	json_array_foreach(files, i, file) {
		const char *name = json_string_value(json_object_get(file, "hash"));
		OWN(closep) int fd = -1;
		char hash[HASH_NAME + 1];
		uint64_t size;
		int r;

		if (registry_has_blob(b->registry, name))
			continue;
		fd = b->data < 0 ? -ENOENT : plan_open_file(b->data, name + strlen(HASH_PREFIX), err);
		if (fd < 0)
			return fd == -ENOENT ? err_set(err, ENODATA, "a file of it is not in the plan: export it with --with-data") : fd;
		r = registry_put_blob_fd(b->registry, fd, REGISTRY_BLOB_MAX, hash, &size, err);
		if (r == 0 && strcmp(hash, name) != 0)
			r = err_set(err, EBADMSG, "a file of it was changed while it was read");
		if (r < 0)
			return r;
	}
	return 0;
}

static int
tell(void *arg, const char *event, size_t len, struct err *err)
{
	struct operator *op = arg;
	int r = op->dir <= 0 ? operator_open(op, err) : 0;

	return r < 0 ? r : operator_append(op, OPERATOR_NOW, event, len, err);
}

static int
put_object(struct rebuild *b, const struct plan_object *o, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "hash", .text = o->hash }, { .name = "name", .text = o->name },
		{ .name = "uid", .kind = AUDIT_NUMBER, .number = getuid() },
	};
	OWN(operator_close) struct operator op = {0};
	OWN(object_freep) struct object *object = NULL;
	OWN(buf_free) struct buf note = {0};
	struct registry_version v;
	char type[64];
	bool created;
	int r = b->registry == NULL ? registry_open(true, &b->registry, err) : 0;

	r = r == 0 ? object_read_canonical(o->kind, o->text, strlen(o->text), &object, err) : r;
	r = r == 0 ? put_blobs(b, object->content, err) : r;
	if (r < 0)
		return r;
	snprintf(type, sizeof(type), "%s.registered", registry_kinds[o->kind]);
	r = operator_event(type, members, ARRAY_LEN(members), &note, err);
	buf_put(&note, "", 1);
	r = r == 0 ? registry_put(b->registry, object, (char *)note.data, &v, &created, err) : r;
	return r < 0 ? r : registry_tell_notes(b->registry, tell, &op, err);
}

/* ---- all of one name ---- */

enum standing { IS_ABSENT, IS_OTHER, IS_SAME };

/* A name that refers to nothing any more differs, too: somebody has retired it. */
static enum standing
stands(struct rebuild *b, const struct plan_object *o, bool *ret_retired)
{
	char ref[REGISTRY_REF_MAX + 1];
	struct registry_version v;

	*ret_retired = false;
	if (b->registry == NULL)
		return IS_ABSENT;
	snprintf(ref, sizeof(ref), "%s@%s", o->name, o->hash);
	if (registry_resolve(b->registry, o->kind, ref, REGISTRY_ALL, &v, NULL, NULL) == 0 && v.retired[0] != '\0') {
		*ret_retired = true;
		return IS_OTHER;
	}
	if (!o->newest)
		return registry_resolve(b->registry, o->kind, ref, REGISTRY_LIVE, &v, NULL, NULL) == 0 ? IS_SAME : IS_ABSENT;
	if (registry_resolve(b->registry, o->kind, o->name, REGISTRY_ALL, &v, NULL, NULL) < 0)
		return IS_ABSENT;
	return strcmp(v.hash, o->hash) == 0 ? IS_SAME : IS_OTHER;
}

static int
note(struct rebuild *b, const struct plan_object *o, enum result result, const char *text, struct err *err)
{
	return rebuild_note(b, registry_kinds[o->kind], o->name, result, text, err);
}

/* The newest comes last, also if it was here.  Meanwhile the name refers to an older version. */
static int
put_name(struct rebuild *b, size_t from, size_t to, struct err *err)
{
	const struct plan_object *newest = &b->plan.objects[to - 1];
	const char *kind = registry_kinds[newest->kind];
	int r = to - from > 1 ? rebuild_begin(b, kind, newest->name, err) : 0;

	for (size_t i = from; r == 0 && i < to; i++)
		r = put_object(b, &b->plan.objects[i], err);
	return r == 0 ? rebuild_end(b, kind, newest->name, err) : r;
}

/* The objects FROM to TO - 1 have one name; the last may be its newest. */
static int
rebuild_name(struct rebuild *b, size_t from, size_t to, struct err *err)
{
	const struct plan_object *newest = &b->plan.objects[to - 1];
	const char *kind = registry_kinds[newest->kind];
	enum standing standing = IS_SAME;
	bool retired = false, all = true;
	struct err why = {0};
	int r = 0;

	for (size_t i = from; i < to && !retired; i++) {
		standing = stands(b, &b->plan.objects[i], &retired);
		all &= standing == IS_SAME;
	}
	if (all) {
		r = b->dry ? 0 : rebuild_end(b, kind, newest->name, err);
		return r < 0 ? r : note(b, newest, ITEM_SAME, NULL, err);
	}
	if (retired)
		return note(b, newest, ITEM_DIFFERS, "it is retired here: see `retire --undo`", err);
	if (newest->newest && standing == IS_OTHER && !rebuild_may_change(b, kind, newest->name))
		return note(b, newest, ITEM_DIFFERS, "another version is registered here: --replace makes the plan's the newest", err);
	if (b->dry)
		return note(b, newest, standing == IS_OTHER ? ITEM_DIFFERS : ITEM_ABSENT, NULL, err);
	r = put_name(b, from, to, &why);
	return note(b, newest, r == -ENODATA ? ITEM_MISSING : r < 0 ? ITEM_FAILED :
	            standing == IS_OTHER && b->replace ? ITEM_REPLACED : ITEM_MADE, r < 0 ? why.text : NULL, err);
}

int
rebuild_objects(struct rebuild *b, struct err *err)
{
	const struct plan_object *o = b->plan.objects;
	size_t from = 0;
	int r = registry_open(false, &b->registry, err);

	r = r == -ENOENT ? 0 : r;
	for (size_t i = 0; r == 0 && i < b->plan.n_objects; i++) {
		if (i + 1 < b->plan.n_objects && o[i].kind == o[i + 1].kind && strcmp(o[i].name, o[i + 1].name) == 0)
			continue;
		r = rebuild_name(b, from, i + 1, err);
		from = i + 1;
	}
	return r;
}
