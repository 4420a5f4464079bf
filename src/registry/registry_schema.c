/* registry_schema.c - the tables of the registry, and how older ones become these.
 *
 * What stands here was done on somebody's disk: never change an entry, only add one. */
#include "registry/registry_parts.h"

const char *const registry_migrations[] = {
	/* 1: names and versions.  TURN is the order in which versions were last registered: the
	 * newest of a name is the highest that is not retired. */
	"CREATE TABLE names ("
	"	id INTEGER PRIMARY KEY,"
	"	kind TEXT NOT NULL,"
	"	name TEXT NOT NULL,"
	"	UNIQUE (kind, name)"
	") STRICT;"
	"CREATE TABLE versions ("
	"	id INTEGER PRIMARY KEY,"
	"	name INTEGER NOT NULL REFERENCES names (id),"
	"	number INTEGER NOT NULL,"
	"	turn INTEGER NOT NULL,"
	"	hash TEXT NOT NULL,"
	"	size INTEGER NOT NULL,"
	"	created TEXT NOT NULL,"
	"	retired TEXT,"
	"	content TEXT NOT NULL,"
	"	UNIQUE (name, number),"
	"	UNIQUE (name, hash)"
	") STRICT;"
	"CREATE UNIQUE INDEX versions_by_turn ON versions (name, turn);"
	"CREATE INDEX versions_live ON versions (name, turn) WHERE retired IS NULL;",
	NULL
};
