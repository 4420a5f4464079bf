/* registry_copy_rows.c - copies the tables of a database to an empty one, and compares both.
 *
 * The two may be of different kinds.  A row that belongs to this data folder has another name for it there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "registry/registry_parts.h"

#define PAGE_ROWS "32"                  /* a row may have megabytes */
#define COLUMNS_MAX 40
#define KEY_MAX 2
#define SQL_MAX 2048

/* A type is i (a number), s (a text) or h (whose data folder it is). */
static const struct table {
	const char *name, *key, *columns, *types;       /* the columns of the key are the first */
	size_t n_key;
	bool counts;                    /* the database numbers its rows */
} tables[REGISTRY_TABLES] = {
	{ "names", "id", "id, kind, name", "iss", 1, true },
	{ "versions", "id", "id, name, number, turn, hash, size, created, retired, content", "iiiisisss", 1, true },
	{ "dispatches", "seq", "seq, id, state, agent, agent_hash, principal, parent, chain, depth, target, policy_hash, "
	  "build_hash, key, request_hash, resolved, retries, attempts, timeout_ms, cell, boot, cancel, not_before_ms, "
	  "created_ms, started_ms, ended_ms, exit_code, reason, result, token_hash, home, origin, claims, lease_ms",
	  "isisssss" "issssss" "iiissii" "iiiisss" "hhii", 1, true },
	{ "graves", "cell", "cell, buried_ms", "si", 1, false },
	{ "notes", "id", "id, event, home", "ish", 1, true },
	{ "events", "dispatch, n", "dispatch, n, line", "sis", 2, false },
};

struct row {
	struct db_value at[COLUMNS_MAX];
	size_t n;
};

/* ---- reading ---- */

static int
ask_page(struct db *db, const struct table *t, const struct row *after, struct db_query *ret_page, struct err *err)
{
	char sql[SQL_MAX], where[KEY_MAX * 16 + 16] = "";

	if (after->n > 0)
		snprintf(where, sizeof(where), "WHERE (%s) > (%s)", t->key, t->n_key == 1 ? "?" : "?, ?");
	snprintf(sql, sizeof(sql), "SELECT %s FROM %s %s ORDER BY %s LIMIT " PAGE_ROWS, t->columns, t->name, where, t->key);
	return db_ask_values(db, ret_page, err, sql, after->at, after->n);
}

static void
take_row(const struct db_query *q, const struct table *t, struct row *ret_row)
{
	ret_row->n = strlen(t->types);
	for (size_t i = 0; i < ret_row->n; i++) {
		struct db_value *v = &ret_row->at[i];

		v->is_text = t->types[i] != 'i';
		v->text = v->is_text && !db_is_null(q, (int)i) ? db_text(q, (int)i) : NULL;
		v->number = v->is_text ? 0 : db_int(q, (int)i);
	}
}

static void
free_texts(struct db_value *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)values[i].text);
}

static int
copy_values(struct db_value *to, const struct db_value *from, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		to[i] = from[i];
		if (from[i].text == NULL)
			continue;
		to[i].text = strdup(from[i].text);
		if (to[i].text == NULL) {
			free_texts(to, i);
			return err_set(err, ENOMEM, "out of memory");
		}
	}
	return 0;
}

static int
keep_key(const struct table *t, const struct row *row, struct row *last, struct err *err)
{
	free_texts(last->at, last->n);
	last->n = 0;
	if (copy_values(last->at, row->at, t->n_key, err) < 0)
		return -ENOMEM;
	last->n = t->n_key;
	return 0;
}

/* Calls USE for each row of T, in the order of its key. */
static int
walk(struct db *db, const struct table *t, int (*use)(void *arg, struct row *row, struct err *err), void *arg,
     struct err *err)
{
	struct row last = {0}, row = {0};
	bool any = true;
	int r = 0;

	while (r == 0 && any) {
		OWN(db_finish) struct db_query q = {0};

		any = false;
		r = ask_page(db, t, &last, &q, err);
		while (r == 0 && (r = db_next(&q, err)) > 0) {
			any = true;
			take_row(&q, t, &row);
			r = keep_key(t, &row, &last, err);
			r = r == 0 ? use(arg, &row, err) : r;
		}
	}
	free_texts(last.at, last.n);
	return r;
}

/* ---- the hash of a table ---- */

static void
hash_row(struct hash *h, const struct row *row)
{
	hash_add(h, &row->n, sizeof(row->n));
	for (size_t i = 0; i < row->n; i++) {
		const struct db_value *v = &row->at[i];
		uint64_t len = v->text == NULL ? UINT64_MAX : strlen(v->text);

		if (!v->is_text) {
			hash_add(h, &v->number, sizeof(v->number));
			continue;
		}
		hash_add(h, &len, sizeof(len));
		hash_add(h, v->text == NULL ? "" : v->text, v->text == NULL ? 0 : len);
	}
}

struct seen {
	struct hash hash;
	uint64_t rows;
};

static int
look_at(void *arg, struct row *row, struct err *err)
{
	struct seen *seen = arg;

	(void)err;
	hash_row(&seen->hash, row);
	seen->rows++;
	return 0;
}

/* ---- writing ---- */

struct copying {
	const struct table *table;
	struct db *from, *to;
	struct seen seen;
	struct db_value values[DB_VALUES_MAX];  /* of rows that are not written yet; their texts are ours */
	size_t n_values;
	uint64_t *bytes;                /* written, of all tables */
	void (*show)(const char *what, uint64_t done, uint64_t total);
};

static int
insert(struct copying *c, struct err *err)
{
	OWN(buf_free) struct buf sql = BUF(SQL_MAX);
	OWN(db_finish) struct db_query q = {0};
	size_t n = strlen(c->table->types);
	char begin[SQL_MAX];
	int r;

	snprintf(begin, sizeof(begin), "INSERT INTO %s (%s)%s VALUES", c->table->name, c->table->columns,
	         c->table->counts && *db_home(c->to) != '\0' ? " OVERRIDING SYSTEM VALUE" : "");
	buf_put_text(&sql, begin);
	for (size_t i = 0; i < c->n_values; i++)
		buf_put_text(&sql, i == 0 ? " (?" : i % n == 0 ? "), (?" : ", ?");
	buf_put(&sql, ")", 2);
	if (buf_failed(&sql))
		return err_set(err, ENOMEM, "out of memory");
	r = db_ask_values(c->to, &q, err, (char *)sql.data, c->values, c->n_values);
	return r < 0 ? r : db_next(&q, err);
}

static int
flush(struct copying *c, struct err *err)
{
	int r = c->n_values == 0 ? 0 : insert(c, err);

	free_texts(c->values, c->n_values);
	c->n_values = 0;
	return r;
}

/* In a database of several data folders each has a name, in one of its own it is "". */
static void
rename_home(const struct copying *c, struct row *row)
{
	for (size_t i = 0; i < row->n; i++)
		if (c->table->types[i] == 'h' && strcmp(row->at[i].text, db_home(c->from)) == 0)
			row->at[i].text = db_home(c->to);
}

static int
copy_row(void *arg, struct row *row, struct err *err)
{
	struct copying *c = arg;
	int r = c->n_values + row->n > DB_VALUES_MAX ? flush(c, err) : 0;

	if (r < 0)
		return r;
	rename_home(c, row);
	look_at(&c->seen, row, err);
	for (size_t i = 0; i < row->n; i++)
		*c->bytes += row->at[i].text == NULL ? sizeof(int64_t) : strlen(row->at[i].text);
	c->show("copying the database", *c->bytes, 0);
	r = copy_values(c->values + c->n_values, row->at, row->n, err);
	c->n_values += r == 0 ? row->n : 0;
	return r;
}

/* The next row gets a number of its own there. */
static int
go_on_counting(struct copying *c, struct err *err)
{
	const struct table *t = c->table;
	char sql[SQL_MAX];
	int r;

	/* SQLite does by itself. */
	if (!t->counts || *db_home(c->to) == '\0')
		return 0;
	snprintf(sql, sizeof(sql), "SELECT setval(pg_get_serial_sequence('%s', '%s'), max(%s)) FROM %s", t->name, t->key,
	         t->key, t->name);
	r = db_do(c->to, err, sql, "");
	return r < 0 ? r : 0;
}

static int
copy_table(struct copying *c, struct registry_copied *copied, struct err *err)
{
	unsigned char there[HASH_LEN];
	struct seen back = {0};
	size_t i = copied->n_tables;
	int r;

	hash_begin(&c->seen.hash);
	r = walk(c->from, c->table, copy_row, c, err);
	if (r < 0)
		free_texts(c->values, c->n_values);
	r = r == 0 ? flush(c, err) : r;
	r = r == 0 ? go_on_counting(c, err) : r;
	hash_begin(&back.hash);
	r = r == 0 ? walk(c->to, c->table, look_at, &back, err) : r;
	if (r < 0)
		return err_wrap(err, "the table '%s'", c->table->name);
	copied->tables[i].table = c->table->name;
	copied->tables[i].rows = c->seen.rows;
	hash_end(&c->seen.hash, copied->tables[i].hash);
	hash_end(&back.hash, there);
	copied->n_tables++;
	if (c->seen.rows != back.rows || memcmp(there, copied->tables[i].hash, HASH_LEN) != 0)
		return err_set(err, EIO, "the table '%s' is not there as it is here: nothing of it was kept. Does a trigger "
		               "change its rows, or has the database another encoding than UTF-8?", c->table->name);
	return 0;
}

/* ---- all of them ---- */

int
registry_check_over(struct db *db, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT id FROM dispatches WHERE state < 3 ORDER BY seq + 0 LIMIT 1", "");

	r = r == 0 ? db_next(&q, err) : r;
	return r <= 0 ? r : err_set(err, EBUSY, "the dispatch '%s' is not over: wait for it, or cancel it", db_text(&q, 0));
}

int
registry_check_empty(struct db *db, struct err *err)
{
	for (size_t i = 0; i < REGISTRY_TABLES; i++) {
		OWN(db_finish) struct db_query q = {0};
		char sql[SQL_MAX];
		int r;

		snprintf(sql, sizeof(sql), "SELECT 1 FROM %s LIMIT 1", tables[i].name);
		r = db_ask(db, &q, err, sql, "");
		r = r == 0 ? db_next(&q, err) : r;
		if (r < 0)
			return r;
		if (r > 0)
			return err_set(err, EEXIST, "there is something in it already (in the table '%s'): name an empty one",
			               tables[i].name);
	}
	return 0;
}

int
registry_copy_rows(struct db *from, struct db *to, void (*show)(const char *what, uint64_t done, uint64_t total),
                   struct registry_copied *copied, struct err *err)
{
	uint64_t bytes = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < REGISTRY_TABLES; i++) {
		OWN(freep) struct copying *c = calloc(1, sizeof(*c));

		if (c == NULL)
			return err_set(err, ENOMEM, "out of memory");
		*c = (struct copying){ .table = &tables[i], .from = from, .to = to, .bytes = &bytes, .show = show };
		r = copy_table(c, copied, err);
	}
	return r;
}
