/* db.h - SQLite as cloister uses it: WAL, every commit on the disk, prepared statements only.
 *
 * OWN(db_finish) struct db_query q = {0};
 * r = db_ask(db, &q, err, "SELECT id FROM t WHERE name = ? AND n > ?", "si", name, n);
 * while (r == 0 && (r = db_next(&q, err)) > 0) use(db_int(&q, 0)), r = 0; */
#ifndef CLOISTER_DB_H
#define CLOISTER_DB_H
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct db;                              /* opaque */
struct kept;

#define DB_BUSY_MS 10000                /* how long to wait for another process's change */
#define DB_KEPT_MAX 64                  /* prepared statements that are kept */

/* Opens db.sqlite in FOLDER (borrowed; PATH is its name), creates it if it is missing, and migrates
 * it to the newest version.  MIGRATIONS (NULL at the end) are SQL; the database records how many
 * were done. */
int db_open(int folder, const char *path, const char *const *migrations, struct db **ret_db,
            struct err *err);
void db_close(struct db *db);           /* NULL is fine */

struct db_query {
	struct db *db;
	sqlite3_stmt *statement;
	struct kept *kept;              /* its owner; NULL: the query itself */
};
/* TYPES has a letter for each "?": s a string (NULL is null), i an int64_t, b a const void *
 * and a size_t. */
int db_ask(struct db *db, struct db_query *ret_query, struct err *err, const char *sql,
           const char *types, ...);
int db_next(struct db_query *q, struct err *err);       /* 1: a row, 0: no more */
void db_finish(struct db_query *q);     /* for OWN() */
int64_t db_int(const struct db_query *q, int column);
/* Valid until the next db_next(); "" for null. */
const char *db_text(const struct db_query *q, int column);
bool db_is_null(const struct db_query *q, int column);
/* Runs it to the end and ignores its rows; returns how many rows it changed. */
int db_do(struct db *db, struct err *err, const char *sql, const char *types, ...);

/* A transaction: nobody else changes anything in between.  db_end() commits if R is 0, and rolls
 * back otherwise; returns R or the commit's failure. */
int db_begin(struct db *db, struct err *err);
int db_end(struct db *db, int r, struct err *err);
#endif
