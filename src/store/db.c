/* db.c - see db.h. */
#include "store/db.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/err.h"
#include "store/db_engine.h"

#define DB_ARGS_MAX 24                  /* of a function with '...' */

int
db_ask_values(struct db *db, struct db_query *ret_query, struct err *err, const char *sql,
              const struct db_value *values, size_t n)
{
	struct db_query q = { .db = db, .row = -1 };
	int r;

	assert(n <= DB_VALUES_MAX);
	r = db->engine->ask(db, &q, sql, values, n, err);
	if (r < 0) {
		db_finish(&q);
		return r;
	}
	*ret_query = q;
	return 0;
}

static int
ask(struct db *db, struct db_query *ret_query, struct err *err, const char *sql, const char *types,
    va_list args)
{
	struct db_value values[DB_ARGS_MAX] = {0};
	size_t n = strlen(types);

	assert(n <= DB_ARGS_MAX);
	for (size_t i = 0; i < n; i++) {
		assert(types[i] == 's' || types[i] == 'i');
		values[i].is_text = types[i] == 's';
		if (types[i] == 's')
			values[i].text = va_arg(args, const char *);
		else
			values[i].number = va_arg(args, int64_t);
	}
	return db_ask_values(db, ret_query, err, sql, values, n);
}

int
db_ask(struct db *db, struct db_query *ret_query, struct err *err, const char *sql,
       const char *types, ...)
{
	va_list args;
	int r;

	va_start(args, types);
	r = ask(db, ret_query, err, sql, types, args);
	va_end(args);
	return r;
}

int
db_next(struct db_query *q, struct err *err)
{
	return q->db->engine->next(q, err);
}

void
db_finish(struct db_query *q)
{
	if (q->db != NULL)
		q->db->engine->finish(q);
	*q = (struct db_query){0};
}

int64_t
db_int(const struct db_query *q, int column)
{
	return q->db->engine->integer(q, column);
}

const char *
db_text(const struct db_query *q, int column)
{
	const char *text = q->db->engine->text(q, column);

	return text != NULL ? text : "";
}

bool
db_is_null(const struct db_query *q, int column)
{
	return q->db->engine->text(q, column) == NULL;
}

int
db_do(struct db *db, struct err *err, const char *sql, const char *types, ...)
{
	OWN(db_finish) struct db_query q = {0};
	va_list args;
	int r;

	va_start(args, types);
	r = ask(db, &q, err, sql, types, args);
	va_end(args);
	if (r < 0)
		return r;
	while ((r = db_next(&q, err)) > 0)
		;
	return r < 0 ? r : db->engine->changed(&q);
}

int
db_listen(struct db *db, unsigned kinds, struct err *err)
{
	return db->engine->listen == NULL ? 0 : db->engine->listen(db, kinds, err);
}

int
db_news_fd(const struct db *db)
{
	return db->engine->news_fd == NULL ? -1 : db->engine->news_fd(db);
}

bool
db_take_news(struct db *db, char ret_about[DB_ABOUT_MAX])
{
	return db->engine->take_news != NULL && db->engine->take_news(db, ret_about);
}

int
db_tell(struct db *db, unsigned kinds, const char *about, struct err *err)
{
	return db->engine->tell == NULL ? 0 : db->engine->tell(db, kinds, about, err);
}

int
db_begin(struct db *db, struct err *err)
{
	return db->engine->begin(db, err);
}

int
db_end(struct db *db, int r, struct err *err)
{
	if (r >= 0) {
		r = db->engine->commit(db, err);
		if (r >= 0)
			return 0;
	}
	db->engine->rollback(db);
	return r;
}

int
db_migrate(struct db *db, const char *const *scripts, struct err *err)
{
	size_t version = 0, newest = 0;
	int r = db->engine->get_version(db, &version, err);

	while (scripts[newest] != NULL)
		newest++;
	if (r == 0 && version > newest)
		return err_set(err, ENOTSUP, "the registry was made by a newer cloister (its version is %zu, "
		               "this one knows %zu): use that one", version, newest);
	while (r == 0 && version < newest) {
		r = db_begin(db, err);
		if (r < 0)
			return r;
		r = db->engine->script(db, scripts[version++], err);
		r = r == 0 ? db->engine->set_version(db, version, err) : r;
		r = db_end(db, r, err);
	}
	return r;
}

int
db_is_same(struct db *a, struct db *b, struct err *err)
{
	return a->engine != b->engine || a->engine->is_same == NULL ? 0 : a->engine->is_same(a, b, err);
}

const char *
db_now(const struct db *db)
{
	return db->engine->now;
}

const char *
db_home(const struct db *db)
{
	return db->home;
}

void
db_close(struct db *db)
{
	if (db != NULL)
		db->engine->close(db);
}
