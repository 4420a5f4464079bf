/* db_sqlite.c - SQLite as cloister uses it: WAL, every commit on the disk. */
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "store/db_engine.h"

#define DB_FILE "db.sqlite"

/* Preparing SQL takes longer than most queries, and the same ones are repeated. */
struct kept {
	sqlite3_stmt *statement;        /* NULL: none */
	bool lent;
};

struct lite {
	struct db db;
	sqlite3 *sqlite;
	struct kept kept[DB_KEPT_MAX];  /* the first ones that were used */
};

static struct lite *
lite_of(struct db *db)
{
	return (struct lite *)db;
}

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
fail(struct lite *lite, struct err *err)
{
	int code = sqlite3_extended_errcode(lite->sqlite);

	if (errno_of(code) == EBUSY)
		return err_set(err, EBUSY, "the registry has been busy with another change for %d s: "
		               "try again", DB_BUSY_MS / 1000);
	return err_set(err, errno_of(code), "the registry's database: %s", sqlite3_errmsg(lite->sqlite));
}

/* ---- questions ---- */

/* The statement for SQL, borrowed from the kept ones if it is not in use. */
static int
prepare(struct lite *lite, const char *sql, struct db_query *q)
{
	struct kept *k = lite->kept, *end = k + DB_KEPT_MAX;
	sqlite3_stmt *statement = NULL;
	int code;

	while (k < end && k->statement != NULL &&
	       (k->lent || strcmp(sqlite3_sql(k->statement), sql) != 0))
		k++;
	if (k < end && k->statement == NULL) {
		code = sqlite3_prepare_v3(lite->sqlite, sql, -1, SQLITE_PREPARE_PERSISTENT,
		                          &k->statement, NULL);
		if (code != SQLITE_OK)
			return code;
	}
	if (k == end) {
		code = sqlite3_prepare_v2(lite->sqlite, sql, -1, &statement, NULL);
		q->rows = statement;
		return code;
	}
	k->lent = true;
	q->rows = k->statement;
	q->kept = k;
	return SQLITE_OK;
}

static int
lite_ask(struct db *db, struct db_query *q, const char *sql, const struct db_value *values, size_t n, struct err *err)
{
	struct lite *lite = lite_of(db);
	int code = prepare(lite, sql, q);

	for (size_t i = 0; code == SQLITE_OK && i < n; i++) {
		if (values[i].is_text)
			code = sqlite3_bind_text(q->rows, (int)i + 1, values[i].text, -1, SQLITE_TRANSIENT);
		else
			code = sqlite3_bind_int64(q->rows, (int)i + 1, values[i].number);
	}
	return code == SQLITE_OK ? 0 : fail(lite, err);
}

static int
lite_next(struct db_query *q, struct err *err)
{
	int code = sqlite3_step(q->rows);

	if (code == SQLITE_ROW)
		return 1;
	return code == SQLITE_DONE ? 0 : fail(lite_of(q->db), err);
}

static void
lite_finish(struct db_query *q)
{
	struct kept *kept = q->kept;

	if (kept == NULL) {
		sqlite3_finalize(q->rows);
		return;
	}
	/* Its failure was reported when it happened. */
	(void)sqlite3_reset(q->rows);
	(void)sqlite3_clear_bindings(q->rows);
	kept->lent = false;
}

static int64_t
lite_integer(const struct db_query *q, int column)
{
	return sqlite3_column_int64(q->rows, column);
}

static const char *
lite_text(const struct db_query *q, int column)
{
	return (const char *)sqlite3_column_text(q->rows, column);
}

static int
lite_changed(const struct db_query *q)
{
	return sqlite3_changes(lite_of(q->db)->sqlite);
}

static int
lite_script(struct db *db, const char *sql, struct err *err)
{
	struct lite *lite = lite_of(db);

	return sqlite3_exec(lite->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(lite, err);
}

/* ---- changes ---- */

static int
lite_begin(struct db *db, struct err *err)
{
	int r = db_do(db, err, "BEGIN IMMEDIATE", "");

	return r < 0 ? r : 0;
}

static int
lite_commit(struct db *db, struct err *err)
{
	return db_do(db, err, "COMMIT", "");
}

static void
lite_rollback(struct db *db)
{
	(void)db_do(db, NULL, "ROLLBACK", "");
}

/* ---- opening ---- */

static int
lite_get_version(struct db *db, size_t *ret_version, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "PRAGMA user_version", "");

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		*ret_version = (size_t)db_int(&q, 0);
	return r < 0 ? r : 0;
}

static int
lite_set_version(struct db *db, size_t version, struct err *err)
{
	char done[64];

	snprintf(done, sizeof(done), "PRAGMA user_version = %zu", version);
	return lite_script(db, done, err);
}

static void
lite_close(struct db *db)
{
	struct lite *lite = lite_of(db);

	for (size_t i = 0; i < DB_KEPT_MAX; i++)
		sqlite3_finalize(lite->kept[i].statement);
	sqlite3_close(lite->sqlite);
	free(lite);
}

static const struct db_engine engine = {
	.now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
	.ask = lite_ask, .next = lite_next, .finish = lite_finish,
	.integer = lite_integer, .text = lite_text, .changed = lite_changed,
	.script = lite_script, .get_version = lite_get_version, .set_version = lite_set_version,
	.begin = lite_begin, .commit = lite_commit, .rollback = lite_rollback, .close = lite_close,
};

static int
set_up(struct lite *lite, const struct db_migrations *migrations, struct err *err)
{
	int r;

	sqlite3_extended_result_codes(lite->sqlite, 1);
	sqlite3_busy_timeout(lite->sqlite, DB_BUSY_MS);
	sqlite3_db_config(lite->sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(lite->sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	r = lite_script(&lite->db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
	                "PRAGMA foreign_keys = ON;", err);
	return r == 0 ? db_migrate(&lite->db, migrations->sqlite, err) : r;
}

int
db_open_sqlite(int folder, const char *path, const struct db_migrations *migrations, struct db **ret_db,
               struct err *err)
{
	char file[PATH_MAX];
	struct lite *lite = calloc(1, sizeof(*lite));
	mode_t mask;
	int r;

	if (lite == NULL)
		return err_set(err, ENOMEM, "out of memory");
	lite->db.engine = &engine;
	/* If two processes create it, one would fail as busy without waiting. */
	if (flock(folder, LOCK_EX) < 0) {
		free(lite);
		return err_errno(err, "cannot lock '%s'", path);
	}
	snprintf(file, sizeof(file), "%s/" DB_FILE, path);
	mask = umask(077);
	r = sqlite3_open_v2(file, &lite->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
	                    NULL) == SQLITE_OK ? 0 : fail(lite, err);
	r = r == 0 ? set_up(lite, migrations, err) : r;
	umask(mask);
	flock(folder, LOCK_UN);
	if (r < 0) {
		lite_close(&lite->db);
		err_wrap(err, "cannot open '%s'", file);
		return r;
	}
	*ret_db = &lite->db;
	return 0;
}
