/* registry_put.c - registers versions, and retires them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "registry/object.h"
#include "registry/registry_parts.h"

static void
format_now(char ret_text[REGISTRY_TIME_MAX])
{
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	n = strftime(ret_text, REGISTRY_TIME_MAX, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &tm));
	snprintf(ret_text + n, REGISTRY_TIME_MAX - n, ".%03uZ", (unsigned)(now.tv_nsec / 1000000) % 1000);
}

/* ---- registering ---- */

/* A version without its files would be lost. */
static int
check_blobs(struct registry *r, const struct object *o, struct err *err)
{
	json_t *files = json_object_get(o->content, "files");

	for (size_t i = 0; i < json_array_size(files); i++) {
		json_t *file = json_array_get(files, i);
		const char *hash = json_string_value(json_object_get(file, "hash"));
		unsigned char bytes[HASH_LEN];
		uint64_t size;
		int n = hash != NULL && hash_parse_name(hash, bytes) ? registry_touch_blob(r, bytes, &size, err) :
		        err_set(err, EINVAL, "'%.80s' is not the hash of a blob", hash != NULL ? hash : "");

		if (n < 0) {
			(void)err_wrap(err, "the file '%s'", json_string_value(json_object_get(file, "path")));
			return n;
		}
	}
	return 0;
}

/* *ret_id: the name's row, created if it is missing. */
static int
put_name(struct registry *r, const struct object *o, int64_t *ret_id, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_do(r->db, err, "INSERT INTO names (kind, name) VALUES (?, ?) ON CONFLICT DO NOTHING",
	              "ss", registry_kinds[o->kind], o->name);

	n = n < 0 ? n : db_ask(r->db, &q, err, "SELECT id FROM names WHERE kind = ? AND name = ?", "ss",
	                       registry_kinds[o->kind], o->name);
	n = n < 0 ? n : db_next(&q, err);
	if (n > 0)
		*ret_id = db_int(&q, 0);
	return n < 0 ? n : 0;
}

enum { NOT_THERE, IS_NEWEST, IS_NEWEST_NOW };

/* Whether the version exists already; if so, makes it the newest. */
static int
renew(struct registry *r, const struct object *o, int64_t name, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_ask(r->db, &q, err, "SELECT retired, turn = (SELECT max(turn) FROM versions WHERE "
	               "name = ?1) FROM versions WHERE name = ?1 AND hash = ?2", "is", name, o->hash);

	n = n < 0 ? n : db_next(&q, err);
	if (n <= 0)
		return n;
	if (!db_is_null(&q, 0))
		return err_set(err, EIDRM, "this version of the %s '%s' was retired on %s: "
		               "`cloister %s retire --undo %s@%.15s` takes that back", registry_kinds[o->kind],
		               o->name, db_text(&q, 0), registry_kinds[o->kind], o->name, o->hash);
	if (db_int(&q, 1) != 0)
		return IS_NEWEST;
	n = db_do(r->db, err, "UPDATE versions SET turn = (SELECT max(turn) + 1 FROM versions WHERE "
	          "name = ?1) WHERE name = ?1 AND hash = ?2", "is", name, o->hash);
	return n < 0 ? n : IS_NEWEST_NOW;
}

static int
add(struct registry *r, const struct object *o, int64_t name, struct err *err)
{
	char now[REGISTRY_TIME_MAX];
	int n;

	format_now(now);
	n = db_do(r->db, err, "INSERT INTO versions (name, number, turn, hash, size, created, content) "
	          "SELECT ?1, coalesce(max(number), 0) + 1, coalesce(max(turn), 0) + 1, ?2, ?3, ?4, ?5 "
	          "FROM versions WHERE name = ?1", "isiss", name, o->hash, (int64_t)o->len, now, o->text);
	return n < 0 ? n : 0;
}

int
registry_put(struct registry *r, const struct object *o, const char *note,
             struct registry_version *ret_version, bool *ret_created, struct err *err)
{
	char ref[REGISTRY_REF_MAX + 1];
	int64_t name = 0;
	int n = registry_settle_staged(r, err), there = NOT_THERE;

	n = n < 0 ? n : check_blobs(r, o, err);
	n = n < 0 ? n : db_begin(r->db, err);
	if (n < 0)
		return n;
	n = put_name(r, o, &name, err);
	if (n == 0) {
		there = renew(r, o, name, err);
		n = there < 0 ? there : there != NOT_THERE ? 0 : add(r, o, name, err);
	}
	if (n == 0 && there != IS_NEWEST)
		n = registry_note(r, note, err);
	n = db_end(r->db, n, err);
	if (n < 0)
		return n;
	*ret_created = there == NOT_THERE;
	snprintf(ref, sizeof(ref), "%s@%s", o->name, o->hash);
	n = registry_resolve(r, o->kind, ref, REGISTRY_ALL, ret_version, NULL, err);
	return n < 0 ? n : there != IS_NEWEST;
}

/* ---- retiring ---- */

int
registry_retire(struct registry *r, enum registry_kind kind, const char *text, bool back,
                const char *note, size_t *ret_n, struct err *err)
{
	struct registry_version version;
	char now[REGISTRY_TIME_MAX];
	bool all = strchr(text, '@') == NULL;
	int noted = 0, n = registry_resolve(r, kind, text, REGISTRY_ALL, &version, NULL, err);

	if (n < 0)
		return n;
	format_now(now);
	n = db_begin(r->db, err);
	if (n < 0)
		return n;
	n = db_do(r->db, err, "UPDATE versions SET retired = ? WHERE name = (SELECT id FROM names WHERE "
	          "kind = ? AND name = ?) AND (hash = ? OR ? <> 0) AND CASE WHEN retired IS NULL THEN 1 ELSE 0 END = ?", "ssssii",
	          back ? NULL : now, registry_kinds[kind], version.name, version.hash, (int64_t)all,
	          (int64_t)!back);
	if (n > 0)
		noted = registry_note(r, note, err);
	noted = db_end(r->db, n < 0 ? n : noted, err);
	if (noted < 0)
		return noted;
	*ret_n = (size_t)n;
	return 0;
}
