/* db.c - see db.h. */
#include "registry/db.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"

#define DB_FILE "db.sqlite"

/* Preparing SQL takes longer than most queries, and the same ones are repeated. */
struct kept {
	sqlite3_stmt *statement;        /* NULL: none */
	bool lent;
};

struct db {
	sqlite3 *sqlite;
	struct kept kept[DB_KEPT_MAX];  /* the first ones that were used */
};

/* ---- errors ---- */

static int
errno_of(int code)
{
	switch (code & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return EBUSY;
	case SQLITE_NOMEM:
		return ENOMEM;
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_AUTH:
		return EACCES;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return EUCLEAN;
	case SQLITE_CONSTRAINT:
		return EEXIST;
	case SQLITE_TOOBIG:
		return EFBIG;
	default:
		return EIO;
	}
}

static int
fail(struct db *db, struct err *err)
{
	int code = sqlite3_extended_errcode(db->sqlite);

	if (errno_of(code) == EBUSY)
		return err_set(err, EBUSY, "the registry has been busy with another change for %d s: "
		               "try again", DB_BUSY_MS / 1000);
	return err_set(err, errno_of(code), "the registry's database: %s", sqlite3_errmsg(db->sqlite));
}

/* ---- questions ---- */

static int
db_bind(struct db_query *q, const char *types, va_list args)
{
	int code = SQLITE_OK;
	const void *data;

	for (int i = 1; code == SQLITE_OK && types[i - 1] != '\0'; i++) {
		if (types[i - 1] == 's') {
			code = sqlite3_bind_text(q->statement, i, va_arg(args, const char *), -1,
			                         SQLITE_TRANSIENT);
		} else if (types[i - 1] == 'i') {
			code = sqlite3_bind_int64(q->statement, i, va_arg(args, int64_t));
		} else {
			assert(types[i - 1] == 'b');
			data = va_arg(args, const void *);
			code = sqlite3_bind_blob64(q->statement, i, data, va_arg(args, size_t),
			                           SQLITE_TRANSIENT);
		}
	}
	return code;
}

/* The statement for SQL, borrowed from the kept ones if it is not in use. */
static int
prepare(struct db *db, const char *sql, struct db_query *q)
{
	struct kept *k = db->kept, *end = k + DB_KEPT_MAX;

	while (k < end && k->statement != NULL &&
	       (k->lent || strcmp(sqlite3_sql(k->statement), sql) != 0))
		k++;
	if (k < end && k->statement == NULL) {
		int code = sqlite3_prepare_v3(db->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT,
		                              &k->statement, NULL);

		if (code != SQLITE_OK)
			return code;
	}
	if (k == end)
		return sqlite3_prepare_v2(db->sqlite, sql, -1, &q->statement, NULL);
	k->lent = true;
	q->statement = k->statement;
	q->kept = k;
	return SQLITE_OK;
}

static int
ask(struct db *db, struct db_query *ret_query, struct err *err, const char *sql, const char *types,
    va_list args)
{
	struct db_query q = { .db = db };

	if (prepare(db, sql, &q) != SQLITE_OK || db_bind(&q, types, args) != SQLITE_OK) {
		int r = fail(db, err);

		db_finish(&q);
		return r;
	}
	*ret_query = q;
	return 0;
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
	int code = sqlite3_step(q->statement);

	if (code == SQLITE_ROW)
		return 1;
	return code == SQLITE_DONE ? 0 : fail(q->db, err);
}

void
db_finish(struct db_query *q)
{
	if (q->kept == NULL) {
		sqlite3_finalize(q->statement);
	} else {
		/* Its failure was reported when it happened. */
		(void)sqlite3_reset(q->statement);
		(void)sqlite3_clear_bindings(q->statement);
		q->kept->lent = false;
	}
	q->statement = NULL;
	q->kept = NULL;
}

int64_t
db_int(const struct db_query *q, int column)
{
	return sqlite3_column_int64(q->statement, column);
}

const char *
db_text(const struct db_query *q, int column)
{
	const char *text = (const char *)sqlite3_column_text(q->statement, column);

	return text != NULL ? text : "";
}

bool
db_is_null(const struct db_query *q, int column)
{
	return sqlite3_column_type(q->statement, column) == SQLITE_NULL;
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
	return r < 0 ? r : sqlite3_changes(db->sqlite);
}

/* ---- changes ---- */

int
db_begin(struct db *db, struct err *err)
{
	int r = db_do(db, err, "BEGIN IMMEDIATE", "");

	return r < 0 ? r : 0;
}

int
db_end(struct db *db, int r, struct err *err)
{
	if (r >= 0) {
		r = db_do(db, err, "COMMIT", "");
		if (r >= 0)
			return 0;
	}
	db_do(db, NULL, "ROLLBACK", "");
	return r;
}

/* ---- opening ---- */

/* SQL of several statements, none with text from outside. */
static int
run_script(struct db *db, const char *sql, struct err *err)
{
	return sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(db, err);
}

static int
get_version(struct db *db, size_t *ret_version, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "PRAGMA user_version", "");

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		*ret_version = (size_t)db_int(&q, 0);
	return r < 0 ? r : 0;
}

static int
migrate_one(struct db *db, const char *sql, size_t version, struct err *err)
{
	char done[64];
	int r = db_begin(db, err);

	if (r < 0)
		return r;
	snprintf(done, sizeof(done), "PRAGMA user_version = %zu", version);
	r = run_script(db, sql, err);
	r = r == 0 ? run_script(db, done, err) : r;
	return db_end(db, r, err);
}

static int
migrate(struct db *db, const char *const *migrations, struct err *err)
{
	size_t version = 0, newest = 0;
	int r = get_version(db, &version, err);

	while (migrations[newest] != NULL)
		newest++;
	if (r == 0 && version > newest)
		return err_set(err, ENOTSUP, "the registry was made by a newer cloister (its version is %zu, "
		               "this one knows %zu): use that one", version, newest);
	for (; r == 0 && version < newest; version++)
		r = migrate_one(db, migrations[version], version + 1, err);
	return r;
}

static int
set_up(struct db *db, const char *const *migrations, struct err *err)
{
	int r;

	sqlite3_extended_result_codes(db->sqlite, 1);
	sqlite3_busy_timeout(db->sqlite, DB_BUSY_MS);
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(db->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	r = run_script(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
	               "PRAGMA foreign_keys = ON;", err);
	return r == 0 ? migrate(db, migrations, err) : r;
}

int
db_open(int folder, const char *path, const char *const *migrations, struct db **ret_db,
        struct err *err)
{
	char file[PATH_MAX];
	struct db *db = calloc(1, sizeof(*db));
	mode_t mask;
	int r;

	if (db == NULL)
		return err_set(err, ENOMEM, "out of memory");
	/* If two processes create it, one would fail as busy without waiting. */
	if (flock(folder, LOCK_EX) < 0) {
		free(db);
		return err_errno(err, "cannot lock '%s'", path);
	}
	snprintf(file, sizeof(file), "%s/" DB_FILE, path);
	mask = umask(077);
	r = sqlite3_open_v2(file, &db->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
	                    NULL) == SQLITE_OK ? 0 : fail(db, err);
	r = r == 0 ? set_up(db, migrations, err) : r;
	umask(mask);
	flock(folder, LOCK_UN);
	if (r < 0) {
		db_close(db);
		err_wrap(err, "cannot open '%s'", file);
		return r;
	}
	*ret_db = db;
	return 0;
}

void
db_close(struct db *db)
{
	if (db == NULL)
		return;
	for (size_t i = 0; i < DB_KEPT_MAX; i++)
		sqlite3_finalize(db->kept[i].statement);
	sqlite3_close(db->sqlite);
	free(db);
}
