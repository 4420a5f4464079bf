/* The table of requests to a running cell, and the messages that follow from it. */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "ipc/ipc.h"
#include "steer/steer.h"
#include "test.h"

#define LETTERS "wWnsuUox"

static size_t
count(const char *fields, const char *letters)
{
	size_t n = 0;

	for (; *fields != '\0'; fields++)
		n += strchr(letters, *fields) != NULL;
	return n;
}

/* Its record is named like the request: "cell.freeze", "cells.freeze". */
static bool
is_named(const char *record, const char *name)
{
	const char *dot = record == NULL ? NULL : strchr(record, '.');

	return record == NULL || (dot != NULL && strcmp(dot + 1, name) == 0);
}

TEST(steer_rows)
{
	for (int i = 0; i < STEER_VERBS; i++) {
		const struct steer_row *row = &steer_rows[i];

		CHECK(row->name != NULL && row->message != 0 && row->fields != NULL);
		CHECK(row->who == STEER_OPERATOR || row->who == STEER_APPROVER);
		CHECK(count(row->fields, LETTERS) == strlen(row->fields));
		CHECK(count(row->fields, "uUo") <= STEER_NUMBERS_MAX);
		CHECK(count(row->fields, "s") <= STEER_TEXTS_MAX);
		CHECK(is_named(row->record, row->name) && is_named(row->record_every, row->name));
		/* A change is recorded with the name of the person who made it. */
		CHECK(row->record == NULL || count(row->fields, "wW") == 1);
		CHECK(row->one.method == NULL || strcmp(row->one.method, "GET") == 0 || row->record != NULL);
		CHECK(row->every.method == NULL || strcmp(row->every.method, "GET") == 0 ||
		      row->record_every != NULL);
		for (int k = 0; k < i; k++) {
			CHECK(strcmp(steer_rows[k].name, row->name) != 0);
			CHECK(steer_rows[k].message != row->message || strchr(row->fields, 'n') != NULL);
		}
	}
}

/* The number of descriptors that a request needs. */
static size_t
fds_of(enum steer_verb verb)
{
	return steer_rows[verb].n_fds < 0 ? 0 : (size_t)steer_rows[verb].n_fds;
}

static int
take(const struct buf *message, size_t n_fds, struct steer_request *ret_q)
{
	struct buf b;
	uint32_t type;

	buf_init_borrowed(&b, message->data, message->len);
	CHECK(buf_get_u32(&b, &type) == 0);
	return steer_get(type, &b, n_fds, ret_q);
}

static void
fill(struct steer_request *q)
{
	const char *fields = steer_rows[q->verb].fields;

	for (size_t i = 0; i < count(fields, "uUo"); i++)
		q->n[i] = 7 + i;
	for (size_t i = 0; i < count(fields, "s"); i++)
		q->text[i] = i == 0 ? "first" : "second";
}

TEST(steer_round_trip)
{
	for (int i = 0; i < STEER_VERBS; i++) {
		struct steer_request q = { .verb = (enum steer_verb)i, .by = "uid 5", .why = "because", .tells = true };
		bool has_who = count(steer_rows[i].fields, "wW") == 1;
		OWN(buf_free) struct buf message;
		struct steer_request got;

		fill(&q);
		steer_put(&message, &q);
		CHECK(!buf_failed(&message) && take(&message, fds_of(q.verb), &got) == 0);
		CHECK(got.verb == q.verb && memcmp(got.n, q.n, sizeof(q.n)) == 0);
		for (size_t k = 0; k < STEER_TEXTS_MAX; k++)
			CHECK((got.text[k] == NULL) == (q.text[k] == NULL) &&
			      (q.text[k] == NULL || strcmp(got.text[k], q.text[k]) == 0));
		CHECK(strcmp(got.by, has_who ? "uid 5" : "") == 0 && got.tells == has_who);
		CHECK(strcmp(got.why, has_who ? "because" : "") == 0);
		/* With other descriptors it is another request. */
		CHECK(steer_rows[i].n_fds < 0 || take(&message, fds_of(q.verb) + 1, &got) == -EBADMSG);
	}
}

/* Cells of other versions read these bytes. */
TEST(steer_bytes)
{
	static const struct {
		struct steer_request q;
		const char *bytes;
		size_t len;
	} cases[] = {
		{ { .verb = VERB_FREEZE }, "\14\0\0\0", 4 },
		{ { .verb = VERB_STOP, .n = { 5 } }, "\4\0\0\0\5\0\0\0", 8 },
		{ { .verb = VERB_KILL, .tells = true },
		  "\5\0\0\0" "\0\0\0\0\0" "\0\0\0\0\0" "\1\0\0\0", 18 },
		{ { .verb = VERB_REVOKE, .text = { "K" } },
		  "\70\0\0\0" "\0\0\0\0\0" "\0\0\0\0\0" "\0\0\0\0" "\1\0\0\0K\0", 24 },
		{ { .verb = VERB_REVOKE, .text = { "K" }, .n = { 1 } },
		  "\70\0\0\0" "\0\0\0\0\0" "\0\0\0\0\0" "\0\0\0\0" "\1\0\0\0K\0" "\1\0\0\0", 28 },
		{ { .verb = VERB_TTL, .why = "y", .n = { 2 } },
		  "\73\0\0\0" "\0\0\0\0\0" "\1\0\0\0y\0" "\0\0\0\0" "\2\0\0\0\0\0\0\0", 27 },
		{ { .verb = VERB_DENY, .text = { "r", "" }, .n = { 1, 2, 3 } },
		  "\40\0\0\0" "\0\0\0\0\0" "\0\0\0\0\0" "\0\0\0\0" "\4\0\0\0deny\0" "\1\0\0\0r\0" "\0\0\0\0\0"
		  "\1\0\0\0" "\2\0\0\0" "\3\0\0\0", 50 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf message;

		steer_put(&message, &cases[i].q);
		CHECK(message.len == cases[i].len && memcmp(message.data, cases[i].bytes, message.len) == 0);
	}
}

TEST(steer_malformed)
{
	for (int i = 0; i < STEER_VERBS; i++) {
		struct steer_request q = { .verb = (enum steer_verb)i, .by = "b", .why = "w" }, got;
		const char *fields = steer_rows[i].fields;
		OWN(buf_free) struct buf message;
		size_t whole;

		fill(&q);
		steer_put(&message, &q);
		whole = message.len;
		if (strchr(fields, 'x') != NULL)
			continue;
		buf_put(&message, "", 1);
		CHECK(take(&message, fds_of(q.verb), &got) == -EBADMSG);
		/* Cut anywhere, except before a field that may be missing. */
		for (message.len = 4; message.len < whole; message.len++)
			CHECK(take(&message, fds_of(q.verb), &got) == -EBADMSG || count(fields, "Wo") == 1);
	}
}

TEST(steer_limits)
{
	char by[CONTROL_BY_MAX + 2], why[CONTROL_WHY_MAX + 2];
	struct steer_request q = { .verb = VERB_SECRETS, .by = by, .why = why }, got;
	OWN(buf_free) struct buf fits, too_long, flags;

	memset(by, 'b', sizeof(by) - 1);
	memset(why, 'w', sizeof(why) - 1);
	by[CONTROL_BY_MAX] = why[CONTROL_WHY_MAX] = '\0';
	steer_put(&fits, &q);
	CHECK(take(&fits, 0, &got) == 0);
	by[CONTROL_BY_MAX] = 'b';
	by[CONTROL_BY_MAX + 1] = '\0';
	steer_put(&too_long, &q);
	CHECK(take(&too_long, 0, &got) == -EBADMSG);
	steer_put(&flags, &(struct steer_request){ .verb = VERB_SECRETS });
	flags.data[flags.len - 4] = 2;
	CHECK(take(&flags, 0, &got) == -EBADMSG);
}

TEST(steer_unknown)
{
	static const uint32_t types[] = { 0, CONTROL_IS, CONTROL_DONE, CONTROL_REFUSED, CONTROL_APPROVAL, 1000 };
	struct steer_request got;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		OWN(buf_free) struct buf message;

		ipc_begin(&message, types[i]);
		CHECK(take(&message, 0, &got) == -EBADMSG);
	}
}
