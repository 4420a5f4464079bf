/* db.h - the database behind the registry: SQLite in the data folder, or Postgres for many machines.
 *
 * SQL is what both understand.  Every commit is on the disk; prepared statements only.
 *
 * OWN(db_finish) struct db_query q = {0};
 * r = db_ask(db, &q, err, "SELECT id FROM t WHERE name = ? AND n > ?", "si", name, n);
 * while (r == 0 && (r = db_next(&q, err)) > 0) use(db_int(&q, 0)), r = 0; */
#ifndef CLOISTER_DB_H
#define CLOISTER_DB_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct err;
struct db;                              /* opaque */

#define DB_BUSY_MS 10000                /* how long to wait for another process's change */
#define DB_KEPT_MAX 64                  /* prepared statements that are kept */
#define DB_VALUES_MAX 256               /* of one question */

/* SQL scripts in the order in which they are done, with NULL at the end.  A database records how many
 * were done.  These have run on users' disks: never change an entry, only add one to each list. */
struct db_migrations {
	const char *const *sqlite, *const *postgres;
};

/* Opens db.sqlite in FOLDER (borrowed; PATH is its name), creates it if it is missing, and migrates
 * it to the newest version. */
int db_open_sqlite(int folder, const char *path, const struct db_migrations *migrations, struct db **ret_db,
                   struct err *err);
/* Connects to the Postgres of URL (postgres://...); tables are in its schema "cloister".  Lost
 * connections are made again.  HOME is the name of this data folder, since others may use the same database. */
int db_open_postgres(const char *url, const char *home, const struct db_migrations *migrations, struct db **ret_db,
                     struct err *err);
/* Connects, and neither makes nor migrates anything: names in questions have their schema. */
int db_reach_postgres(const char *url, struct db **ret_db, struct err *err);
void db_close(struct db *db);           /* NULL is fine */
OWN_BY(db_closep, struct db *, db_close)

#define DB_HOME_MAX 33                  /* with its NUL */
/* Whose rows are this data folder's own; "" where nobody else has rows. */
const char *db_home(const struct db *db);

/* 1: A, within a transaction, and B are the same database, whatever their addresses say; 0: they are two. */
int db_is_same(struct db *a, struct db *b, struct err *err);

/* An expression of SQL: milliseconds since 1970 by the database's clock, which all that share it have. */
const char *db_now(const struct db *db);

struct db_query {
	struct db *db;                  /* NULL: there is nothing to finish */
	void *rows, *kept;              /* the engine's */
	int row;
};
/* TYPES has a letter for each value: s a string (NULL is null), i an int64_t. */
int db_ask(struct db *db, struct db_query *ret_query, struct err *err, const char *sql,
           const char *types, ...);
/* The same, with N values. */
struct db_value {
	bool is_text;
	const char *text;               /* NULL: null */
	int64_t number;
};
int db_ask_values(struct db *db, struct db_query *ret_query, struct err *err, const char *sql,
                  const struct db_value *values, size_t n);
int db_next(struct db_query *q, struct err *err);       /* 1: a row, 0: no more */
void db_finish(struct db_query *q);     /* for OWN() */
int64_t db_int(const struct db_query *q, int column);   /* a condition is 0 or 1 */
/* Valid until the next db_next(); "" for null. */
const char *db_text(const struct db_query *q, int column);
bool db_is_null(const struct db_query *q, int column);
/* Runs it to the end and ignores its rows; returns how many rows it changed. */
int db_do(struct db *db, struct err *err, const char *sql, const char *types, ...);

/* From now on others' db_tell() of these kinds wakes this process: its db_news_fd() is readable, and db_take_news() is
 * true, once for each.  Only where several may share the database: elsewhere there is no descriptor (-1). */
enum db_news { DB_WORK = 1, DB_EVENTS = 2 };
#define DB_ABOUT_MAX 64                 /* with its NUL */
int db_listen(struct db *db, unsigned kinds, struct err *err);
int db_news_fd(const struct db *db);    /* another one after each lost connection */
bool db_take_news(struct db *db, char ret_about[DB_ABOUT_MAX]);
/* Tells the others, once the transaction is over, what has news: a dispatch's id, or "". */
int db_tell(struct db *db, unsigned kinds, const char *about, struct err *err);

/* A transaction: nobody else begins one meanwhile.  db_end() commits if R is 0, and rolls
 * back otherwise; returns R or the commit's failure. */
int db_begin(struct db *db, struct err *err);
int db_end(struct db *db, int r, struct err *err);
#endif
