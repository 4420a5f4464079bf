/* db_engine.h - what a kind of database has to be able to do for db.c. */
#ifndef CLOISTER_DB_ENGINE_H
#define CLOISTER_DB_ENGINE_H
#include "store/db.h"

struct db_engine {
	const char *now;                /* db_now() */
	/* Fills ROWS and KEPT of Q; db_finish() follows also after a failure. */
	int (*ask)(struct db *db, struct db_query *q, const char *sql, const struct db_value *values, size_t n,
	           struct err *err);
	int (*next)(struct db_query *q, struct err *err);
	void (*finish)(struct db_query *q);
	int64_t (*integer)(const struct db_query *q, int column);
	const char *(*text)(const struct db_query *q, int column);      /* NULL: null */
	int (*changed)(const struct db_query *q);       /* rows, when there is no next one */

	/* Several statements, none with text from outside. */
	int (*script)(struct db *db, const char *sql, struct err *err);
	/* How many migrations were done. */
	int (*get_version)(struct db *db, size_t *ret_version, struct err *err);
	int (*set_version)(struct db *db, size_t version, struct err *err);

	/* NULL: each handle has a database of its own.  db_is_same(), for two of this engine. */
	int (*is_same)(struct db *a, struct db *b, struct err *err);

	/* NULL: nobody else is there. */
	int (*listen)(struct db *db, unsigned kinds, struct err *err);
	int (*news_fd)(const struct db *db);
	bool (*take_news)(struct db *db, char ret_about[DB_ABOUT_MAX]);
	int (*tell)(struct db *db, unsigned kinds, const char *about, struct err *err);

	int (*begin)(struct db *db, struct err *err);
	int (*commit)(struct db *db, struct err *err);
	void (*rollback)(struct db *db);
	void (*close)(struct db *db);
};

/* The first member of an engine's own. */
struct db {
	const struct db_engine *engine;
	char home[DB_HOME_MAX];
};

/* Does those of SCRIPTS that have not been done yet, each in a transaction. */
int db_migrate(struct db *db, const char *const *scripts, struct err *err);
#endif
