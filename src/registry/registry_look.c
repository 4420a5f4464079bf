/* registry_look.c - see registry_look.h. */
#include "registry/registry_look.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "registry/registry_parts.h"
#include "store/store_url.h"

#define OLDEST 120000                   /* Postgres 12: what migrations and sessions need */
#define NAME_MAX_SHOWN 64
#define DOCS "docs/store.md has the rights that services and workers need"

/* All tables but that of the migrations. */
#define TABLES "names,versions,dispatches,graves,notes,events,places,fleets,reserves,workers"
/* What docs/store.md grants workers beside SELECT: columns of dispatches to change, and rows elsewhere. */
#define WORKERS_COLUMNS "state,home,claims,lease_ms,cell,boot,attempts,started_ms,ended_ms,not_before_ms,exit_code,reason," \
	"result,token_hash"
#define WORKERS_ROWS "('INSERT', 'events'), ('INSERT', 'graves'), ('DELETE', 'graves'), ('INSERT', 'workers'), " \
	"('UPDATE', 'workers'), ('DELETE', 'workers')"

/* Tables by the catalogue, which every role may read. */
#define FROM_TABLES "pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS s ON s.oid = c.relnamespace AND s.nspname = 'cloister' " \
	"AND c.relkind = 'r' AND (c.relname = 'migrations' OR c.relname = ANY (string_to_array('" TABLES "', ',')))"

struct look {
	struct db *db;
	struct registry_look *at;
	size_t n;
	char role[NAME_MAX_SHOWN + 1], database[NAME_MAX_SHOWN + 1];
};

static struct registry_look *
add(struct look *l, const char *name, enum registry_look_state state, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static struct registry_look *
add(struct look *l, const char *name, enum registry_look_state state, const char *fmt, ...)
{
	struct registry_look *at = &l->at[l->n++];
	va_list args;

	*at = (struct registry_look){ .name = name, .state = state };
	va_start(args, fmt);
	vsnprintf(at->found, sizeof(at->found), fmt, args);
	va_end(args);
	return at;
}

static void advise(struct registry_look *at, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
advise(struct registry_look *at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(at->todo, sizeof(at->todo), fmt, args);
	va_end(args);
}

/* The one row that SQL asks for. */
static int
ask_row(struct look *l, const char *sql, struct db_query *ret_query, struct err *err)
{
	int r = db_ask(l->db, ret_query, err, sql, "");

	r = r == 0 ? db_next(ret_query, err) : r;
	return r < 0 ? r : 0;
}

/* ---- the server ---- */

/* 1: there is nothing more to look at. */
static int
look_at_server(struct look *l, const char *shown, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = ask_row(l, "SELECT current_setting('server_version'), current_setting('server_version_num')::bigint, current_user::text, "
	                "current_database()::text, pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'", &q, err);

	if (r < 0)
		return r;
	snprintf(l->role, sizeof(l->role), "%s", db_text(&q, 2));
	snprintf(l->database, sizeof(l->database), "%s", db_text(&q, 3));
	if (db_int(&q, 1) < OLDEST) {
		advise(add(l, REGISTRY_LOOK_STORE, REGISTRY_LOOK_MISSING, "%.200s is PostgreSQL %.60s, which is too old", shown, db_text(&q, 0)),
		       "use PostgreSQL %d or newer", OLDEST / 10000);
		return 1;
	}
	if (db_int(&q, 4) != 0 || db_int(&q, 5) != 0) {
		bool standby = db_int(&q, 4) != 0;

		advise(add(l, REGISTRY_LOOK_STORE, REGISTRY_LOOK_MISSING, "%.200s takes no changes: %s", shown, standby ?
		           "it is a standby of another server" : "the setting default_transaction_read_only is on"), "%s", standby ?
		       "name its primary server, or all of them with the option target_session_attrs=read-write" :
		       "turn the setting off for this database and this role");
		return 1;
	}
	(void)add(l, REGISTRY_LOOK_STORE, REGISTRY_LOOK_OK, "%.200s answers as PostgreSQL %.60s, to the role '%s'", shown, db_text(&q, 0), l->role);
	return 0;
}

/* ---- its tables ---- */

static size_t
newest_version(void)
{
	size_t n = 0;

	while (registry_migrations.postgres[n] != NULL)
		n++;
	return n;
}

static void
report_none(struct look *l, bool may_make, bool has_schema)
{
	const char *where = has_schema ? "SCHEMA cloister" : l->database;
	struct registry_look *at;

	if (may_make) {
		(void)add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_OK, "there are none yet: the first command that needs them makes them");
		return;
	}
	at = add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_MISSING, "there are none yet, and the role '%s' may not make them", l->role);
	advise(at, "GRANT CREATE ON %s%s TO %s, or start a service with another role first", has_schema ? "" : "DATABASE ", where, l->role);
}

static void
report_version(struct look *l, size_t version, bool is_owner, const char *lacking)
{
	size_t newest = newest_version();
	struct registry_look *at;

	if (version > newest) {
		at = add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_MISSING, "they were made by a newer cloister: their version is %zu, and this one "
		         "knows %zu", version, newest);
		advise(at, "install that version of cloister");
	} else if (version < newest && is_owner)
		(void)add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_OK, "they have version %zu of %zu: the next command that needs them updates them",
		          version, newest);
	else if (version < newest) {
		at = add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_MISSING, "they have version %zu of %zu, and the role '%s' may not update them",
		         version, newest, l->role);
		advise(at, "start this version of cloister once with the role that owns them");
	} else if (*lacking != '\0') {
		at = add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_MISSING, "they have version %zu, but these are missing: %.200s", version, lacking);
		advise(at, "restore the schema 'cloister' of the database '%s'", l->database);
	} else
		(void)add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_OK, "they are complete, in version %zu", version);
}

static int
look_at_version(struct look *l, bool is_owner, const char *lacking, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = ask_row(l, "SELECT n FROM cloister.migrations", &q, err);

	if (r == 0)
		report_version(l, (size_t)db_int(&q, 0), is_owner, lacking);
	return r;
}

/* 1: there is nothing more to look at. */
static int
look_at_tables(struct look *l, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = ask_row(l, "SELECT s.oid IS NOT NULL, coalesce(has_schema_privilege(s.oid, 'USAGE'), false), "
	                "CASE WHEN s.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE') ELSE has_schema_privilege(s.oid, "
	                "'CREATE') END, m.oid IS NOT NULL, coalesce(has_table_privilege(m.oid, 'SELECT'), false), "
	                "NOT EXISTS (SELECT FROM " FROM_TABLES " WHERE NOT pg_has_role(c.relowner, 'USAGE')), "
	                "(SELECT string_agg(t, ', ') FROM unnest(string_to_array('" TABLES "', ',')) AS t WHERE t NOT IN (SELECT relname FROM "
	                FROM_TABLES ")) "
	                "FROM (VALUES (1)) AS one LEFT JOIN pg_catalog.pg_namespace AS s ON s.nspname = 'cloister' "
	                "LEFT JOIN pg_catalog.pg_class AS m ON m.relnamespace = s.oid AND m.relname = 'migrations'", &q, err);

	if (r < 0)
		return r;
	if (db_int(&q, 3) == 0) {
		report_none(l, db_int(&q, 2) != 0, db_int(&q, 0) != 0);
		return 1;
	}
	if (db_int(&q, 1) == 0 || db_int(&q, 4) == 0) {
		advise(add(l, REGISTRY_LOOK_TABLES, REGISTRY_LOOK_MISSING, "the role '%s' may not read them: it lacks %s", l->role, db_int(&q, 1) == 0 ?
		           "USAGE on the schema 'cloister'" : "SELECT on migrations"), DOCS);
		return 1;
	}
	r = look_at_version(l, db_int(&q, 5) != 0, db_text(&q, 6), err);
	return r < 0 ? r : l->at[l->n - 1].state != REGISTRY_LOOK_OK;
}

/* ---- rights ---- */

static int
look_at_rights(struct look *l, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = ask_row(l, "SELECT (SELECT string_agg(p || ' on ' || c.relname, ', ' ORDER BY c.relname, p) FROM " FROM_TABLES ", "
	                "unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p WHERE c.relname <> 'migrations' AND "
	                "NOT has_table_privilege(c.oid, p)), "
	                "(SELECT string_agg(what, ', ' ORDER BY what) FROM ("
	                "SELECT 'SELECT on ' || c.relname AS what FROM " FROM_TABLES " WHERE NOT has_table_privilege(c.oid, 'SELECT') UNION ALL "
	                "SELECT p || ' on ' || c.relname FROM " FROM_TABLES " JOIN (VALUES " WORKERS_ROWS ") AS w (p, name) ON w.name = c.relname "
	                "WHERE NOT has_table_privilege(c.oid, p) UNION ALL "
	                "SELECT 'UPDATE (' || name || ') on dispatches' FROM " FROM_TABLES ", unnest(string_to_array('" WORKERS_COLUMNS "', ',')) "
	                "AS name WHERE c.relname = 'dispatches' AND NOT has_column_privilege(c.oid, name, 'UPDATE')) AS missing)", &q, err);

	if (r < 0)
		return r;
	if (db_is_null(&q, 0))
		(void)add(l, REGISTRY_LOOK_RIGHTS, REGISTRY_LOOK_OK, "the role '%s' has those of a service", l->role);
	else if (db_is_null(&q, 1))
		advise(add(l, REGISTRY_LOOK_RIGHTS, REGISTRY_LOOK_LIMITED, "the role '%s' has those of a worker: it may run dispatches, and neither "
		           "register anything nor ask for a dispatch", l->role), "for anything else, use the role that owns the tables");
	else
		advise(add(l, REGISTRY_LOOK_RIGHTS, REGISTRY_LOOK_MISSING, "the role '%s' has too few even for a worker: it lacks %.300s", l->role,
		           db_text(&q, 1)), DOCS);
	return 0;
}

int
registry_look(const char *store, struct registry_look ret_at[REGISTRY_LOOK_MAX], size_t *ret_n, struct err *err)
{
	OWN(db_closep) struct db *db = NULL;
	OWN(freep) char *shown = store_url_shown(store);
	struct look l = { .at = ret_at };
	int r = shown == NULL ? err_set(err, ENOMEM, "out of memory") : registry_check_store(store, err);

	r = r == 0 ? db_reach_postgres(store, &db, err) : r;
	l.db = db;
	r = r == 0 ? look_at_server(&l, shown, err) : r;
	r = r == 0 ? look_at_tables(&l, err) : r;
	r = r == 0 ? look_at_rights(&l, err) : r;
	*ret_n = l.n;
	return r < 0 ? r : 0;
}
