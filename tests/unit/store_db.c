/* store_db.c - tests of the database: statements that are kept, and questions within questions. */
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

static const char *const scripts[] = { "CREATE TABLE t (n INTEGER PRIMARY KEY, name TEXT)", NULL };
static const struct db_migrations migrations = { .sqlite = scripts };

static struct db *
open_db(void)
{
	OWN(closep) int folder = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct db *db = NULL;

	CHECK_OK(db_open_sqlite(folder, test_dir(), &migrations, &db, NULL));
	return db;
}

static int
put(struct db *db, int64_t n, const char *name)
{
	return db_do(db, NULL, "INSERT INTO t VALUES (?, ?)", "is", n, name);
}

static const char by_number[] = "SELECT name FROM t WHERE n >= ? ORDER BY n";

/* What was said the last time is not there the next time, nor what it failed with. */
TEST(db_statements_are_used_again)
{
	struct db *db = open_db();

	for (int64_t i = 0; i < 3; i++)
		CHECK(put(db, i, i == 1 ? NULL : "some") == 1);
	CHECK_ERR(put(db, 1, "again"), EEXIST);
	CHECK(put(db, 3, "after") == 1);
	for (int64_t i = 0; i < 4; i++) {
		OWN(db_finish) struct db_query q = {0};

		CHECK_OK(db_ask(db, &q, NULL, by_number, "i", i));
		CHECK(db_next(&q, NULL) == 1);
		CHECK(db_is_null(&q, 0) == (i == 1));
	}
	db_close(db);
}

/* The same question while its answer is still being read is another one. */
TEST(db_questions_within_questions)
{
	struct db *db = open_db();
	OWN(db_finish) struct db_query outer = {0};
	int rows = 0;

	for (int64_t i = 0; i < 5; i++)
		CHECK(put(db, i, "x") == 1);
	CHECK_OK(db_ask(db, &outer, NULL, by_number, "i", (int64_t)0));
	for (; db_next(&outer, NULL) > 0; rows++) {
		OWN(db_finish) struct db_query inner = {0};

		CHECK_OK(db_ask(db, &inner, NULL, by_number, "i", (int64_t)4));
		CHECK(db_next(&inner, NULL) == 1);
		CHECK(db_next(&inner, NULL) == 0);
	}
	CHECK(rows == 5);
	db_finish(&outer);
	db_close(db);
}

/* More of them than are kept, and a write lock that none of them holds on to. */
TEST(db_statements_are_bounded)
{
	struct db *db = open_db(), *other = open_db();
	char sql[64];

	for (int i = 0; i < 2 * DB_KEPT_MAX; i++) {
		OWN(db_finish) struct db_query q = {0};

		snprintf(sql, sizeof(sql), "SELECT n FROM t WHERE n > %d", i);
		CHECK_OK(db_ask(db, &q, NULL, sql, ""));
		CHECK(db_next(&q, NULL) == 0);
	}
	CHECK(put(db, 1, "one") == 1);
	CHECK(put(other, 2, "two") == 1);
	CHECK_OK(db_begin(db, NULL));
	CHECK_OK(db_end(db, 0, NULL));
	CHECK(put(other, 3, "three") == 1);
	db_close(other);
	db_close(db);
}
