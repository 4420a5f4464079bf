/* registry_schema.c - the tables of the registry, and the migrations from older ones.
 *
 * These have already run on users' disks: never change an entry, only add one to each list. */
#include "registry/registry_parts.h"

static const char *const sqlite[] = {
	/* 1: names and versions.  TURN is the order in which versions were last registered: the
	 * newest of a name has the highest that is not retired. */
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

	/* 2: dispatches; STATE is enum dispatch_state, below 3 while it is not over.  PARENT is ""
	 * for an operator's own.  Cells that must never start are buried. */
	"CREATE TABLE dispatches ("
	"	seq INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	id TEXT NOT NULL UNIQUE,"
	"	state INTEGER NOT NULL,"
	"	agent TEXT NOT NULL,"
	"	agent_hash TEXT NOT NULL,"
	"	principal TEXT NOT NULL,"
	"	parent TEXT NOT NULL,"
	"	chain TEXT NOT NULL,"
	"	depth INTEGER NOT NULL,"
	"	target TEXT NOT NULL,"
	"	policy_hash TEXT NOT NULL,"
	"	build_hash TEXT NOT NULL,"
	"	key TEXT,"
	"	request_hash TEXT NOT NULL,"
	"	resolved TEXT NOT NULL,"
	"	retries INTEGER NOT NULL,"
	"	attempts INTEGER NOT NULL DEFAULT 0,"
	"	timeout_ms INTEGER NOT NULL,"
	"	cell TEXT NOT NULL DEFAULT '',"
	"	boot TEXT NOT NULL DEFAULT '',"
	"	cancel INTEGER NOT NULL DEFAULT 0,"
	"	not_before_ms INTEGER NOT NULL DEFAULT 0,"
	"	created_ms INTEGER NOT NULL,"
	"	started_ms INTEGER NOT NULL DEFAULT 0,"
	"	ended_ms INTEGER NOT NULL DEFAULT 0,"
	"	exit_code INTEGER NOT NULL DEFAULT -1,"
	"	reason TEXT NOT NULL DEFAULT '',"
	"	result TEXT"
	") STRICT;"
	"CREATE UNIQUE INDEX dispatches_by_key ON dispatches (parent, key) WHERE key IS NOT NULL;"
	"CREATE INDEX dispatches_by_state ON dispatches (state, seq);"
	"CREATE INDEX dispatches_by_parent ON dispatches (parent, seq);"
	"CREATE TABLE graves ("
	"	cell TEXT PRIMARY KEY,"
	"	buried_ms INTEGER NOT NULL"
	") STRICT;",

	/* 3: the SHA-256 of the token by which a dispatch's agent dispatches others, while the
	 * agent runs; else "". */
	"ALTER TABLE dispatches ADD COLUMN token_hash TEXT NOT NULL DEFAULT '';",

	/* 4: events for the operator's timeline that are not in it yet. */
	"CREATE TABLE notes ("
	"	id INTEGER PRIMARY KEY AUTOINCREMENT,"
	"	event TEXT NOT NULL"
	") STRICT;",

	/* 5: whose data folder a dispatch or note belongs to, where several share the registry; ""
	 * where it is the only one. */
	"ALTER TABLE dispatches ADD COLUMN home TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE notes ADD COLUMN home TEXT NOT NULL DEFAULT '';",

	/* 6: dispatches that workers take (Postgres only): who asked, and until when whose they are;
	 * their events, for the other machines. */
	"ALTER TABLE dispatches ADD COLUMN origin TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE dispatches ADD COLUMN claims INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE dispatches ADD COLUMN lease_ms INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE events ("
	"	dispatch TEXT NOT NULL,"
	"	n INTEGER NOT NULL,"
	"	line TEXT NOT NULL,"
	"	UNIQUE (dispatch, n)"
	") STRICT;",

	/* 7: under which name this database owns a place of blobs. */
	"CREATE TABLE places ("
	"	place TEXT PRIMARY KEY,"
	"	owner TEXT NOT NULL"
	") STRICT;",

	/* 8: which service scales a registered target, until when, and what it knows of it.  TAG marks the target's
	 * workers at its engine. */
	"CREATE TABLE fleets ("
	"	target TEXT PRIMARY KEY,"
	"	tag TEXT NOT NULL,"
	"	home TEXT NOT NULL DEFAULT '',"
	"	lease_ms INTEGER NOT NULL DEFAULT 0,"
	"	workers INTEGER NOT NULL DEFAULT 0,"
	"	wanted INTEGER NOT NULL DEFAULT 0,"
	"	error TEXT NOT NULL DEFAULT '',"
	"	since_ms INTEGER NOT NULL DEFAULT 0"
	") STRICT;",

	/* 9: slots that are kept ready, until when; and workers that are there, each with its data folder. */
	"CREATE TABLE reserves ("
	"	name TEXT PRIMARY KEY,"
	"	place TEXT NOT NULL,"
	"	agent TEXT NOT NULL,"
	"	slots INTEGER NOT NULL,"
	"	until_ms INTEGER NOT NULL"
	") STRICT;"
	"CREATE TABLE workers ("
	"	home TEXT PRIMARY KEY,"
	"	pool TEXT NOT NULL,"
	"	slots INTEGER NOT NULL,"
	"	seen_ms INTEGER NOT NULL"
	") STRICT;",
	NULL
};

/* Texts compare by their bytes, as in SQLite. */
#define TEXT "TEXT COLLATE \"C\""

static const char *const postgres[] = {
	/* 1: all that SQLite has after its fifth. */
	"CREATE TABLE names ("
	"	id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	kind " TEXT " NOT NULL,"
	"	name " TEXT " NOT NULL,"
	"	UNIQUE (kind, name)"
	");"
	"CREATE TABLE versions ("
	"	id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	name BIGINT NOT NULL REFERENCES names (id),"
	"	number BIGINT NOT NULL,"
	"	turn BIGINT NOT NULL,"
	"	hash " TEXT " NOT NULL,"
	"	size BIGINT NOT NULL,"
	"	created " TEXT " NOT NULL,"
	"	retired " TEXT ","
	"	content " TEXT " NOT NULL,"
	"	UNIQUE (name, number),"
	"	UNIQUE (name, hash)"
	");"
	"CREATE UNIQUE INDEX versions_by_turn ON versions (name, turn);"
	"CREATE INDEX versions_live ON versions (name, turn) WHERE retired IS NULL;"
	"CREATE TABLE dispatches ("
	"	seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	id " TEXT " NOT NULL UNIQUE,"
	"	state BIGINT NOT NULL,"
	"	agent " TEXT " NOT NULL,"
	"	agent_hash " TEXT " NOT NULL,"
	"	principal " TEXT " NOT NULL,"
	"	parent " TEXT " NOT NULL,"
	"	chain " TEXT " NOT NULL,"
	"	depth BIGINT NOT NULL,"
	"	target " TEXT " NOT NULL,"
	"	policy_hash " TEXT " NOT NULL,"
	"	build_hash " TEXT " NOT NULL,"
	"	key " TEXT ","
	"	request_hash " TEXT " NOT NULL,"
	"	resolved " TEXT " NOT NULL,"
	"	retries BIGINT NOT NULL,"
	"	attempts BIGINT NOT NULL DEFAULT 0,"
	"	timeout_ms BIGINT NOT NULL,"
	"	cell " TEXT " NOT NULL DEFAULT '',"
	"	boot " TEXT " NOT NULL DEFAULT '',"
	"	cancel BIGINT NOT NULL DEFAULT 0,"
	"	not_before_ms BIGINT NOT NULL DEFAULT 0,"
	"	created_ms BIGINT NOT NULL,"
	"	started_ms BIGINT NOT NULL DEFAULT 0,"
	"	ended_ms BIGINT NOT NULL DEFAULT 0,"
	"	exit_code BIGINT NOT NULL DEFAULT -1,"
	"	reason " TEXT " NOT NULL DEFAULT '',"
	"	result " TEXT ","
	"	token_hash " TEXT " NOT NULL DEFAULT '',"
	"	home " TEXT " NOT NULL DEFAULT ''"
	");"
	"CREATE UNIQUE INDEX dispatches_by_key ON dispatches (parent, key) WHERE key IS NOT NULL;"
	"CREATE INDEX dispatches_by_state ON dispatches (state, seq);"
	"CREATE INDEX dispatches_by_parent ON dispatches (parent, seq);"
	"CREATE TABLE graves ("
	"	cell " TEXT " PRIMARY KEY,"
	"	buried_ms BIGINT NOT NULL"
	");"
	"CREATE TABLE notes ("
	"	id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
	"	event " TEXT " NOT NULL,"
	"	home " TEXT " NOT NULL DEFAULT ''"
	");",

	/* 2: as SQLite's sixth. */
	"ALTER TABLE dispatches ADD COLUMN origin " TEXT " NOT NULL DEFAULT '';"
	"UPDATE dispatches SET origin = home;"
	"ALTER TABLE dispatches ADD COLUMN claims BIGINT NOT NULL DEFAULT 0;"
	"ALTER TABLE dispatches ADD COLUMN lease_ms BIGINT NOT NULL DEFAULT 0;"
	"CREATE INDEX dispatches_by_target ON dispatches (target, state, seq) WHERE state < 3;"
	"CREATE TABLE events ("
	"	dispatch " TEXT " NOT NULL,"
	"	n BIGINT NOT NULL,"
	"	line " TEXT " NOT NULL,"
	"	UNIQUE (dispatch, n)"
	");",

	/* 3: as SQLite's seventh. */
	"CREATE TABLE places ("
	"	place " TEXT " PRIMARY KEY,"
	"	owner " TEXT " NOT NULL"
	");",

	/* 4: as SQLite's eighth. */
	"CREATE TABLE fleets ("
	"	target " TEXT " PRIMARY KEY,"
	"	tag " TEXT " NOT NULL,"
	"	home " TEXT " NOT NULL DEFAULT '',"
	"	lease_ms BIGINT NOT NULL DEFAULT 0,"
	"	workers BIGINT NOT NULL DEFAULT 0,"
	"	wanted BIGINT NOT NULL DEFAULT 0,"
	"	error " TEXT " NOT NULL DEFAULT '',"
	"	since_ms BIGINT NOT NULL DEFAULT 0"
	");",

	/* 5: what waits for a worker, what is whose, and what is cancelled, among any number of others. */
	"DROP INDEX dispatches_by_target;"
	"CREATE INDEX dispatches_waiting ON dispatches (target, seq) WHERE state = 0 AND home = '';"
	"CREATE INDEX dispatches_by_home ON dispatches (home, state) WHERE state < 3;"
	"CREATE INDEX dispatches_by_cancel ON dispatches (home) WHERE state < 3 AND cancel > 0;",

	/* 6: as SQLite's ninth. */
	"CREATE TABLE reserves ("
	"	name " TEXT " PRIMARY KEY,"
	"	place " TEXT " NOT NULL,"
	"	agent " TEXT " NOT NULL,"
	"	slots BIGINT NOT NULL,"
	"	until_ms BIGINT NOT NULL"
	");"
	"CREATE TABLE workers ("
	"	home " TEXT " PRIMARY KEY,"
	"	pool " TEXT " NOT NULL,"
	"	slots BIGINT NOT NULL,"
	"	seen_ms BIGINT NOT NULL"
	");",
	NULL
};

const struct db_migrations registry_migrations = { .sqlite = sqlite, .postgres = postgres };
