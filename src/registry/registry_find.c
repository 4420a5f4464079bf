/* registry_find.c - looks registered objects up: by reference, by name, all of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/canon.h"
#include "registry/registry_parts.h"

/* NEWEST: whether the bare name refers to it. */
#define COLUMNS \
	"n.name, v.hash, v.number, v.size, v.created, v.retired, v.id = (SELECT w.id FROM versions w " \
	"WHERE w.name = v.name AND w.retired IS NULL ORDER BY w.turn DESC LIMIT 1)"
#define N_COLUMNS 7

static void
take_version(const struct db_query *q, enum registry_kind kind, struct registry_version *ret_version)
{
	struct registry_version v = { .kind = kind, .number = (uint64_t)db_int(q, 2),
		.size = (uint64_t)db_int(q, 3), .newest = db_int(q, 6) != 0 };

	snprintf(v.name, sizeof(v.name), "%s", db_text(q, 0));
	snprintf(v.hash, sizeof(v.hash), "%s", db_text(q, 1));
	snprintf(v.created, sizeof(v.created), "%s", db_text(q, 4));
	snprintf(v.retired, sizeof(v.retired), "%s", db_text(q, 5));
	*ret_version = v;
}

/* ---- one ---- */

static int
no_such_name(struct registry *r, enum registry_kind kind, const char *name, struct err *err)
{
	OWN(registry_page_free) struct registry_page page = {0};
	OWN(freep) const char **names = NULL;
	const char *nearest = NULL;

	if (registry_list(r, kind, REGISTRY_LIVE, "", REGISTRY_PAGE_MAX, &page, NULL) == 0)
		names = calloc(page.n + 1, sizeof(*names));
	for (size_t i = 0; names != NULL && i < page.n; i++)
		names[i] = page.at[i].name;
	if (names != NULL)
		nearest = text_nearest(name, names);
	if (nearest != NULL)
		return err_set(err, ENOENT, "there is no %s '%s': did you mean '%s'?",
		               registry_kinds[kind], name, nearest);
	return err_set(err, ENOENT, "there is no %s '%s': see `cloister %s list`", registry_kinds[kind],
	               name, registry_kinds[kind]);
}

static int
name_is_there(struct registry *r, enum registry_kind kind, const char *name, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_ask(r->db, &q, err, "SELECT 1 FROM names WHERE kind = ? AND name = ?", "ss",
	               registry_kinds[kind], name);

	n = n == 0 ? db_next(&q, err) : n;
	return n == 0 ? no_such_name(r, kind, name, err) : n < 0 ? n : 0;
}

/* The content must match the hash, whatever somebody did to the database. */
static int
take_content(const struct db_query *q, const struct registry_version *version,
             json_t **ret_content, struct err *err)
{
	const char *text = db_text(q, N_COLUMNS);
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];

	if (ret_content == NULL)
		return 0;
	hash_of(text, strlen(text), hash);
	hash_name(hash, name);
	if (strcmp(name, version->hash) != 0)
		return err_set(err, EUCLEAN, "the registry's database is damaged: what it has for %s '%s@%s' "
		               "has another hash", registry_kinds[version->kind], version->name,
		               version->hash);
	return canon_read(text, strlen(text), ret_content, err);
}

/* The newest, or if all are retired, the last. */
static int
ask_newest(struct registry *r, enum registry_kind kind, const char *name, struct db_query *q,
           struct err *err)
{
	int n = db_ask(r->db, q, err, "SELECT " COLUMNS ", v.content FROM names n JOIN versions v "
	               "ON v.id = coalesce("
	               "(SELECT id FROM versions WHERE name = n.id AND retired IS NULL "
	               "ORDER BY turn DESC LIMIT 1),"
	               "(SELECT id FROM versions WHERE name = n.id ORDER BY turn DESC LIMIT 1)) "
	               "WHERE n.kind = ? AND n.name = ?", "ss", registry_kinds[kind], name);

	n = n == 0 ? db_next(q, err) : n;
	return n == 0 ? no_such_name(r, kind, name, err) : n;
}

static int
ask_hash(struct registry *r, enum registry_kind kind, const struct registry_ref *ref,
         struct db_query *q, struct err *err)
{
	int n = db_ask(r->db, q, err, "SELECT " COLUMNS ", v.content FROM names n JOIN versions v "
	               "ON v.name = n.id WHERE n.kind = ? AND n.name = ? AND v.hash = ?", "sss",
	               registry_kinds[kind], ref->name, ref->hash);

	n = n == 0 ? db_next(q, err) : n;
	if (n != 0)
		return n;
	n = name_is_there(r, kind, ref->name, err);
	return n < 0 ? n : err_set(err, ENOENT, "the %s '%s' has no version %s: see `cloister %s history "
	                           "%s`", registry_kinds[kind], ref->name, ref->hash,
	                           registry_kinds[kind], ref->name);
}

/* Completes an abbreviated hash, if exactly one begins with it. */
static int
complete_hash(struct registry *r, enum registry_kind kind, struct registry_ref *ref,
              struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	char behind[sizeof(ref->hash) + 1], whole[sizeof(ref->hash)];
	int n;

	/* This sorts behind every digit, so all matches lie in between. */
	snprintf(behind, sizeof(behind), "%sg", ref->hash);
	n = db_ask(r->db, &q, err, "SELECT v.hash FROM names n JOIN versions v ON v.name = n.id "
	           "WHERE n.kind = ? AND n.name = ? AND v.hash >= ? AND v.hash < ? LIMIT 2", "ssss",
	           registry_kinds[kind], ref->name, ref->hash, behind);
	n = n == 0 ? db_next(&q, err) : n;
	if (n <= 0)
		return n;
	snprintf(whole, sizeof(whole), "%s", db_text(&q, 0));
	n = db_next(&q, err);
	if (n > 0)
		return err_set(err, ENOTUNIQ, "several versions of the %s '%s' begin with %s: write more "
		               "of its digits", registry_kinds[kind], ref->name, ref->hash);
	memcpy(ref->hash, whole, sizeof(whole));
	return n;
}

int
registry_resolve(struct registry *r, enum registry_kind kind, const char *text,
                 enum registry_scope scope, struct registry_version *ret_version,
                 json_t **ret_content, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	struct registry_version version;
	struct registry_ref ref;
	int n = registry_ref_parse(text, true, &ref, err);

	if (n == 0 && *ref.hash != '\0' && strlen(ref.hash) < HASH_NAME)
		n = complete_hash(r, kind, &ref, err);
	if (n == 0)
		n = *ref.hash == '\0' ? ask_newest(r, kind, ref.name, &q, err) :
		                        ask_hash(r, kind, &ref, &q, err);
	if (n < 0)
		return n;
	take_version(&q, kind, &version);
	if (scope == REGISTRY_LIVE && *version.retired != '\0')
		return err_set(err, EIDRM, "%s %s '%s' is retired since %.10s %.8s: register another version, "
		               "or take that back with `cloister %s retire --undo %s`",
		               *ref.hash != '\0' ? "this version of the" : "the", registry_kinds[kind],
		               ref.name, version.retired, version.retired + 11, registry_kinds[kind], text);
	n = take_content(&q, &version, ret_content, err);
	if (n == 0)
		*ret_version = version;
	return n;
}

json_t *
registry_version_json(const struct registry_version *v)
{
	return json_pack("{s:s,s:s,s:s,s:I,s:b,s:I,s:s,s:s?}", "kind", registry_kinds[v->kind], "name",
	                 v->name, "hash", v->hash, "number", (json_int_t)v->number, "newest",
	                 (int)v->newest, "size", (json_int_t)v->size, "created", v->created, "retired",
	                 *v->retired != '\0' ? v->retired : NULL);
}

/* ---- several ---- */

void
registry_page_free(struct registry_page *page)
{
	free(page->at);
	page->at = NULL;
}

static int
take_page(struct db_query *q, enum registry_kind kind, size_t limit, struct registry_page *ret_page,
          struct err *err)
{
	struct registry_page page = { .at = calloc(limit + 1, sizeof(*page.at)) };
	int n = page.at == NULL ? err_set(err, ENOMEM, "out of memory") : 1;

	/* One more than requested shows whether there are more. */
	while (n > 0 && page.n <= limit && (n = db_next(q, err)) > 0)
		take_version(q, kind, &page.at[page.n++]);
	if (n < 0) {
		registry_page_free(&page);
		return n;
	}
	page.more = page.n > limit;
	if (page.more)
		page.n = limit;
	*ret_page = page;
	return 0;
}

static size_t
within_page(size_t limit)
{
	return limit == 0 || limit > REGISTRY_PAGE_MAX ? REGISTRY_PAGE_MAX : limit;
}

int
registry_list(struct registry *r, enum registry_kind kind, enum registry_scope scope,
              const char *after, size_t limit, struct registry_page *ret_page, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n;

	limit = within_page(limit);
	n = db_ask(r->db, &q, err, "SELECT " COLUMNS " FROM names n JOIN versions v ON v.id = coalesce("
	           "(SELECT id FROM versions WHERE name = n.id AND retired IS NULL "
	           "ORDER BY turn DESC LIMIT 1),"
	           "CASE WHEN ? <> 0 THEN (SELECT id FROM versions WHERE name = n.id "
	           "ORDER BY turn DESC LIMIT 1) END) "
	           "WHERE n.kind = ? AND n.name > ? ORDER BY n.name LIMIT ?", "issi",
	           (int64_t)(scope == REGISTRY_ALL), registry_kinds[kind], after, (int64_t)limit + 1);
	return n < 0 ? n : take_page(&q, kind, limit, ret_page, err);
}

int
registry_history(struct registry *r, enum registry_kind kind, const char *name, uint64_t before,
                 size_t limit, struct registry_page *ret_page, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n;

	limit = within_page(limit);
	n = name_is_there(r, kind, name, err);
	n = n < 0 ? n : db_ask(r->db, &q, err, "SELECT " COLUMNS " FROM names n JOIN versions v "
	                       "ON v.name = n.id WHERE n.kind = ? AND n.name = ? AND v.number < ? "
	                       "ORDER BY v.number DESC LIMIT ?", "ssii", registry_kinds[kind], name,
	                       before == 0 || before > INT64_MAX ? INT64_MAX : (int64_t)before,
	                       (int64_t)limit + 1);
	return n < 0 ? n : take_page(&q, kind, limit, ret_page, err);
}
