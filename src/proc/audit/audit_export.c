/* audit_export.c - `cloister audit export`: writes timelines unchanged, for other systems (OCSF,
 * OpenTelemetry), or as in-toto statements about ended cells in DSSE envelopes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/envelope.h"
#include "audit/export.h"
#include "audit/operator.h"
#include "audit/reader.h"
#include "audit/statement.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "canon/members.h"
#include "http/json_walk.h"
#include "proc/audit/audit_proc.h"

#define TYPES_MAX MEMBERS_MAX           /* types of events that are counted by name */

/* ---- unchanged, or in the format of another system ---- */

/* X: the format, or NULL. */
static int
export_lines(int dir, const char *name, struct audit_export *x, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	const char *line;
	size_t len;
	int code = audit_reader_open(&r, dir, name, err);
	struct err odd = {0};

	if (code < 0)
		return code;
	while (audit_reader_any(&r, &line, &len, &odd)) {
		if (x != NULL) {
			audit_export_line(x, line, len);
			continue;
		}
		fwrite(line, 1, len, stdout);
		putchar('\n');
	}
	if (x != NULL)
		audit_export_finish(x);
	if (odd.code != 0)
		*err = odd;
	return -odd.code;
}

/* ---- statements ---- */

struct counts {
	char type[TYPES_MAX][32];
	uint64_t n[TYPES_MAX], refused, others;
	size_t n_types;
};

static void
count_type(struct counts *c, const char *type)
{
	size_t i = 0;

	while (i < c->n_types && strcmp(c->type[i], type) != 0)
		i++;
	if (i == TYPES_MAX) {
		c->others++;
		return;
	}
	if (i == c->n_types)
		snprintf(c->type[c->n_types++], sizeof(c->type[0]), "%s", type);
	c->n[i]++;
}

static int
count(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	struct counts *c = arg;
	struct json_walk_item item;
	char type[32];
	size_t n;

	(void)line;
	(void)len;
	if (json_walk_member(record->event, "type", &item) == 1 && item.kind == JSON_WALK_STRING &&
	    json_walk_decode(item.raw, type, sizeof(type) - 1, &n) == 0 &&
	    canon_text_plain(type, n) == n) {
		type[n] = '\0';
		count_type(c, type);
	} else {
		c->others++;
	}
	if (json_walk_member(record->event, "verdict", &item) == 1 &&
	    item.kind == JSON_WALK_STRING && json_walk_is(item.raw, "deny"))
		c->refused++;
	return 0;
}

static void
put_counts(struct buf *b, const struct counts *c)
{
	struct audit_member members[TYPES_MAX];

	for (size_t i = 0; i < c->n_types; i++)
		members[i] = (struct audit_member){ .name = c->type[i], .kind = AUDIT_NUMBER,
		                                    .number = c->n[i] };
	audit_event_put(b, members, c->n_types);
	buf_put(b, "", 1);
}

/* TEXT is a NUL-terminated buf. */
static void
put_predicate(struct buf *b, const struct audit_cell *cell, const struct counts *c)
{
	char key[AUDIT_HEX + 1], root[AUDIT_HEX + 1];
	OWN(buf_free) struct buf counts = BUF(AUDIT_STATEMENT_MAX / 2);

	put_counts(&counts, c);
	codec_hex(cell->key, AUDIT_KEY, key);
	codec_hex(cell->root, AUDIT_HASH, root);
	struct audit_member members[] = {
		{ .name = "cell", .text = cell->id },
		{ .name = "ended", .text = cell->ended },
		{ .name = "events", .kind = AUDIT_JSON, .text = (const char *)counts.data },
		{ .name = "grant", .text = cell->grant[0] == '\0' ? NULL : cell->grant },
		{ .name = "key", .text = key },
		{ .name = "refused", .kind = AUDIT_NUMBER, .number = c->refused },
		{ .name = "root", .text = root },
		{ .name = "size", .kind = AUDIT_NUMBER, .number = cell->size },
		{ .name = "started", .text = cell->started },
		{ .name = "status", .kind = AUDIT_NUMBER, .number = cell->status },
	};
	audit_event_put(b, members, ARRAY_LEN(members));
	if (buf_failed(&counts))
		b->failed = true;
}

static void
put_statement(struct buf *b, const struct audit_cell *cell, const struct counts *c)
{
	char head[AUDIT_HEX + 1];

	codec_hex(cell->head, AUDIT_HASH, head);
	buf_put_text(b, "{\"_type\":\"" AUDIT_STATEMENT_TYPE "\",\"predicate\":");
	put_predicate(b, cell, c);
	buf_put_text(b, ",\"predicateType\":\"" AUDIT_PREDICATE_TYPE "\",\"subject\":[{\"digest\":{\"sha256\":\"");
	buf_put_text(b, head);
	buf_put_text(b, "\"},\"name\":\"cell/");
	buf_put_text(b, cell->id);
	buf_put_text(b, "\"}]}");
}

static int
put_envelope(struct buf *b, const struct buf *statement, const struct audit_key *key)
{
	if (buf_failed(statement))
		return -ENOMEM;
	audit_envelope_put(b, AUDIT_PAYLOAD_TYPE, statement->data, statement->len, key);
	return buf_failed(b) ? -ENOMEM : 0;
}

/* A timeline that is not sound gets no statement. */
static int
export_statement(int dir, const struct cell_entry *entry, const struct audit_cell *cell,
                 const struct audit_key *key, struct err *err)
{
	OWN(freep) struct counts *counts = calloc(1, sizeof(*counts));
	OWN(buf_free) struct buf statement = BUF(AUDIT_STATEMENT_MAX), envelope = BUF(AUDIT_ENVELOPE_MAX);
	struct audit_seen seen = { .note = count, .arg = counts };
	int r;

	if (counts == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = audit_see_cell(dir, entry, cell, &seen, err);
	if (r < 0)
		return r;
	if (seen.check.verify.fault != AUDIT_SOUND)
		return err_set(err, EBADMSG, "the timeline of cell '%s' is not sound: see `cloister audit "
		               "verify %s`", entry->id, entry->id);
	put_statement(&statement, cell, counts);
	if (put_envelope(&envelope, &statement, key) < 0)
		return err_set(err, ENOMEM, "out of memory");
	fwrite(envelope.data, 1, envelope.len, stdout);
	return 0;
}

/* ---- selection ---- */

struct export {
	const struct audit_args *args;
	struct audit_cells cells;
	struct operator op;
	bool dsse;
	struct audit_export *format;    /* NULL: lines as they are, or DSSE */
	size_t n_bad;                   /* timelines, or parts of them, that were left out */
	struct err bad;                 /* of the first */
};

/* If a file is not a regular file, or cannot be read, the rest is exported. */
static int
export_timeline(const struct export *x, int dir, const struct cell_entry *entry, struct err *err)
{
	int r = export_lines(dir, CELL_EVENTS, x->format, err);
	char why[ERR_TEXT_MAX];

	if (r == 0 || r == -ENOENT || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return r;
	memcpy(why, err->text, sizeof(why));
	return err_set(err, EBADMSG, "not all of the timeline of cell '%s' can be read: %s", entry->id, why);
}

static int
export_entry(struct export *x, int dir, const struct cell_entry *entry, struct err *err)
{
	const struct audit_cell *cell = x->dsse ? audit_pick_cell(&x->cells, dir, entry->id) : NULL;

	if (!x->dsse)
		return export_timeline(x, dir, entry, err);
	if (cell == NULL || cell->end != AUDIT_CELL_ENDED || !cell->has_chain)
		return x->args->all ? 0 : err_set(err, EAGAIN, "the operator's timeline does not record "
		                                  "the end of the cell '%s': a statement is about an ended "
		                                  "cell", entry->id);
	return export_statement(dir, entry, cell, &x->op.key, err);
}

/* A damaged timeline does not keep the others from being exported. */
static int
export_or_note(struct export *x, int dir, const struct cell_entry *entry, struct err *err)
{
	int r = export_entry(x, dir, entry, err);

	if (r != -EBADMSG)
		return r;
	if (x->n_bad++ == 0)
		x->bad = *err;
	return 0;
}

static int
tell_bad(const struct export *x, struct err *err)
{
	if (x->n_bad > 1)
		return err_set(err, EBADMSG, "%zu timelines are not sound, and %s: see `cloister audit "
		               "verify`", x->n_bad, x->dsse ? "got no statement" : "not exported as a whole");
	if (x->n_bad == 1)
		*err = x->bad;
	return x->n_bad == 1 ? -EBADMSG : 0;
}

static int
export_all(struct export *x, struct err *err)
{
	OWN(audit_list_free) struct audit_list list = { .folder = { -1, -1 } };
	int r = audit_list_cells(&list, err);

	for (int place = 0; place < AUDIT_PLACES; place++) {
		for (size_t i = 0; r == 0 && i < list.n[place]; i++) {
			OWN(closep) int dir = audit_list_open(&list, place, i);

			r = dir < 0 ? 0 : export_or_note(x, dir, &list.entries[place][i], err);
			r = r == -ENOENT ? 0 : r;       /* nothing was recorded of it */
		}
	}
	return r == 0 ? tell_bad(x, err) : r;
}

static int
export_words(struct export *x, struct err *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < x->args->n_words; i++) {
		struct cell_entry entry;
		OWN(closep) int dir = audit_open_cell(x->args->words[i], &entry, err);

		r = dir < 0 ? dir : export_or_note(x, dir, &entry, err);
	}
	return r == 0 ? tell_bad(x, err) : r;
}

static int
learn_of_cells(struct export *x, struct err *err)
{
	struct audit_seen seen = { .cells = &x->cells };
	int r = operator_open(&x->op, err);

	if (r == 0 && x->dsse)
		r = operator_load_key(&x->op, err);
	r = r == 0 ? audit_see_operator(x->op.dir, &seen, err) : r;
	if (r == 0 && seen.check.verify.fault != AUDIT_SOUND)
		r = err_set(err, EBADMSG, "the operator's timeline is not sound: see `cloister audit verify "
		            "--operator`");
	return r;
}

/* Everything that leaves the machine is signed to its end. */
static int
sign_all(struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	return r < 0 ? r : operator_checkpoint(&op, err);
}

/* NULL: it is not a format of another system. */
static struct audit_export *
open_format(const struct audit_args *args)
{
	bool ocsf = strcmp(args->format, "ocsf") == 0;
	struct audit_export *x = ocsf || strcmp(args->format, "otel") == 0 ? calloc(1, sizeof(*x)) : NULL;

	if (x != NULL) {
		x->format = ocsf ? AUDIT_OCSF : AUDIT_OTEL;
		x->out = stdout;
		x->host = args->host;
	}
	return x;
}

/* Lines that are no records would be missing in silence. */
static int
tell_left_out(const struct audit_export *x, struct err *err)
{
	return x == NULL || x->left_out == 0 ? 0 : err_set(err, EBADMSG, "%llu lines are no records, and were not exported: "
	                                                   "see `cloister audit verify`", (unsigned long long)x->left_out);
}

int
audit_do_export(const struct audit_args *args, struct err *err)
{
	OWN(freep) struct audit_export *format = open_format(args);
	struct export x = { .args = args, .dsse = strcmp(args->format, "dsse") == 0, .format = format };
	int r = 0;

	if (x.dsse && args->operator)
		return err_set(err, EINVAL, "statements are about cells: export the operator's timeline as "
		               "jsonl");
	if (x.dsse)
		r = learn_of_cells(&x, err);
	if (r == 0 && args->operator) {
		OWN(closep) int dir = audit_open_operator(err);

		r = dir < 0 ? dir : sign_all(err);
		r = r == 0 ? export_lines(dir, OPERATOR_LOG, format, err) : r;
	}
	if (r == 0)
		r = args->all ? export_all(&x, err) : export_words(&x, err);
	audit_cells_free(&x.cells);
	operator_close(&x.op);
	return r == 0 ? tell_left_out(format, err) : r;
}
