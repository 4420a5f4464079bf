/* statement.c - see statement.h. */
#include "audit/statement.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/envelope.h"
#include "audit/fields.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon_check.h"

void
audit_statement_pae(struct buf *b, const void *payload, size_t len)
{
	audit_envelope_pae(b, AUDIT_PAYLOAD_TYPE, payload, len);
}

static int
bad(const char *what, struct err *err)
{
	return err_set(err, EBADMSG, "its %s is missing, or none", what);
}

/* ---- the statement ---- */

/* One subject: the cell, identified by the last record of its timeline. */
static int
read_subject(struct http_text array, struct audit_cell *said, struct err *err)
{
	char name[AUDIT_TIMELINE_MAX];
	struct json_walk_item subject = {0}, item;
	struct json_walk w;
	size_t n = 0;

	json_walk_begin(&w, array);
	while (json_walk_next(&w, &item) == 1)
		if (item.depth == 1) {
			n += item.kind != JSON_WALK_CLOSE;
			subject = item;
		}
	if (n != 1 || !audit_field_text(subject.raw, "name", name, sizeof(name)) ||
	    strncmp(name, "cell/", 5) != 0 || strcmp(name + 5, said->id) != 0)
		return err_set(err, EBADMSG, "its subject is not the cell that its predicate is about");
	if (!audit_field(subject.raw, "digest", JSON_WALK_OBJECT, &item) ||
	    !audit_field_hash(item.raw, "sha256", said->head))
		return bad("subject's sha256", err);
	return 0;
}

/* No type of event may have more records than the timeline, and neither may their sum. */
static bool
events_fit(struct http_text object, uint64_t size)
{
	struct json_walk_item item;
	uint64_t n, sum = 0;
	struct json_walk w;

	json_walk_begin(&w, object);
	(void)json_walk_next(&w, &item);
	while (json_walk_next(&w, &item) == 1 && item.kind != JSON_WALK_CLOSE) {
		if (item.kind != JSON_WALK_NUMBER || !audit_number(item.raw, &n) || n > size - sum)
			return false;
		sum += n;
	}
	return true;
}

static bool
is_id(const char *text)
{
	for (const char *p = text; *p != '\0'; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9')))
			return false;
	return *text != '\0';
}

static int
read_predicate(struct http_text p, struct audit_cell *said, struct err *err)
{
	struct json_walk_item item;
	uint64_t refused;

	if (!audit_field_text(p, "cell", said->id, sizeof(said->id)) || !is_id(said->id))
		return bad("predicate's cell", err);
	if (!audit_field_text(p, "started", said->started, sizeof(said->started)))
		return bad("predicate's started", err);
	if (!audit_field_text(p, "ended", said->ended, sizeof(said->ended)))
		return bad("predicate's ended", err);
	if (json_walk_member(p, "grant", &item) != 0 &&
	    !audit_field_text(p, "grant", said->grant, sizeof(said->grant)))
		return bad("predicate's grant", err);
	if (!audit_field_hash(p, "key", said->key))
		return bad("predicate's key", err);
	if (!audit_field_hash(p, "root", said->root))
		return bad("predicate's root", err);
	if (!audit_field_number(p, "size", &said->size))
		return bad("predicate's size", err);
	if (!audit_field_number(p, "status", &said->status))
		return bad("predicate's status", err);
	if (!audit_field_number(p, "refused", &refused) || refused > said->size)
		return bad("predicate's refused", err);
	if (!audit_field(p, "events", JSON_WALK_OBJECT, &item) || !events_fit(item.raw, said->size))
		return bad("predicate's events", err);
	return 0;
}

static int
read_statement(struct http_text text, struct audit_cell *said, struct err *err)
{
	struct json_walk_item item;
	int r;

	if (!canon_check_object(text.at, text.len))
		return err_set(err, EBADMSG, "its payload is no canonical JSON object");
	if (!audit_field(text, "_type", JSON_WALK_STRING, &item) ||
	    !json_walk_is(item.raw, AUDIT_STATEMENT_TYPE))
		return err_set(err, EBADMSG, "its _type is not " AUDIT_STATEMENT_TYPE);
	if (!audit_field(text, "predicateType", JSON_WALK_STRING, &item) ||
	    !json_walk_is(item.raw, AUDIT_PREDICATE_TYPE))
		return err_set(err, EBADMSG, "its predicateType is not " AUDIT_PREDICATE_TYPE);
	if (!audit_field(text, "predicate", JSON_WALK_OBJECT, &item))
		return bad("predicate", err);
	r = read_predicate(item.raw, said, err);
	if (r < 0)
		return r;
	return audit_field(text, "subject", JSON_WALK_ARRAY, &item) ? read_subject(item.raw, said, err) :
	       bad("subject", err);
}

int
audit_statement_read(const char *text, size_t len, const unsigned char key[AUDIT_KEY],
                     struct audit_cell *ret_said, struct err *err)
{
	struct audit_cell said = { .end = AUDIT_CELL_ENDED, .has_chain = true };
	OWN(buf_free) struct buf payload = BUF(AUDIT_ENVELOPE_MAX);
	int r;

	if (len > AUDIT_ENVELOPE_MAX)
		return err_set(err, EBADMSG, "an envelope is not that long");
	r = audit_envelope_read(text, len, AUDIT_PAYLOAD_TYPE, key, &payload, err);
	if (r == 0)
		r = read_statement((struct http_text){ (const char *)payload.data, payload.len }, &said, err);
	if (r == 0)
		*ret_said = said;
	return r;
}

/* ---- the operator's timeline ---- */

int
audit_statement_check(const struct audit_cell *said, const struct audit_cell *cell, struct err *err)
{
	const struct { bool is_same; const char *name; } claims[] = {
		{ memcmp(said->key, cell->key, AUDIT_KEY) == 0, "key" },
		{ cell->end == AUDIT_CELL_ENDED && cell->has_chain, "end" },
		{ said->size == cell->size, "size" },
		{ memcmp(said->head, cell->head, AUDIT_HASH) == 0, "subject's sha256" },
		{ memcmp(said->root, cell->root, AUDIT_HASH) == 0, "root" },
		{ said->status == cell->status, "status" },
		{ strcmp(said->grant, cell->grant) == 0, "grant" },
		{ strcmp(said->started, cell->started) == 0, "started" },
		{ strcmp(said->ended, cell->ended) == 0, "ended" },
	};

	for (size_t i = 0; i < ARRAY_LEN(claims); i++)
		if (!claims[i].is_same)
			return err_set(err, EBADMSG, "the operator's timeline tells another %s of cell/%s",
			               claims[i].name, said->id);
	return 0;
}
