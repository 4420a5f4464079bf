/* registry_note.c - keeps events about changes until somebody has recorded them. */
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "registry/registry_parts.h"

int
registry_note(struct registry *r, const char *note, struct err *err)
{
	int n = note == NULL ? 0 : db_do(r->db, err, "INSERT INTO notes (event, home) VALUES (?, ?)", "ss", note, db_home(r->db));

	return n < 0 ? n : 0;
}

/* 1: there is one. */
static int
is_any(struct registry *r, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_ask(r->db, &q, err, "SELECT 1 FROM notes WHERE home = ? LIMIT 1", "s", db_home(r->db));

	return n < 0 ? n : db_next(&q, err);
}

/* *ret_last: the last that was recorded. */
static int
tell_all(struct registry *r, registry_tell *tell, void *arg, int64_t *ret_last, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_ask(r->db, &q, err, "SELECT id, event FROM notes WHERE home = ? ORDER BY id", "s", db_home(r->db));

	while (n == 0 && (n = db_next(&q, err)) > 0) {
		const char *event = db_text(&q, 1);

		n = tell(arg, event, strlen(event), err);
		if (n == 0)
			*ret_last = db_int(&q, 0);
	}
	return n;
}

int
registry_tell_notes(struct registry *r, registry_tell *tell, void *arg, struct err *err)
{
	int64_t last = 0;
	int told, n = is_any(r, err);

	if (n <= 0)
		return n;
	/* Nobody else records the same meanwhile. */
	n = db_begin(r->db, err);
	if (n < 0)
		return n;
	told = tell_all(r, tell, arg, &last, err);
	n = db_do(r->db, err, "DELETE FROM notes WHERE id <= ? AND home = ?", "is", last, db_home(r->db));
	n = db_end(r->db, n < 0 ? n : 0, err);
	return told < 0 ? told : n;
}
