/* audit_show.c - `cloister audit show`, `key` and `prove`: prints records unchanged, and proofs for
 * single records. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "audit/proof.h"
#include "audit/reader.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/audit/audit_proc.h"

static int
open_timeline(const struct audit_args *args, struct cell_entry *ret_entry, struct err *err)
{
	if (args->operator) {
		int dir = audit_open_operator(err);

		return dir == -ENOENT ? err_set(err, ENOENT, "there is no operator's timeline yet") : dir;
	}
	return audit_open_cell(args->words[0], ret_entry, err);
}

static int
get_number(const struct audit_args *args, uint64_t *ret_n, struct err *err)
{
	int i = args->operator ? 0 : 1;

	*ret_n = 0;
	return i >= args->n_words ? 0 : num_parse_count(args->words[i], 1, UINT64_C(1) << 53, ret_n, err);
}

/* ---- show ---- */

static void
show_line(const char *line, size_t len, bool is_terminal)
{
	/* An agent chose names and paths in it. */
	if (is_terminal)
		text_print_safe(stdout, line, len, false);
	else
		fwrite(line, 1, len, stdout);
	putchar('\n');
}

/* A line that is no record has no time, and is shown. */
static bool
is_before(const char *line, size_t len, const char *since)
{
	struct audit_record record;

	return since[0] != '\0' && audit_record_read(line, len, &record, NULL) == 0 &&
	       strncmp(record.time.at, since, record.time.len) < 0;
}

int
audit_do_show(const struct audit_args *args, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	struct cell_entry entry;
	OWN(closep) int dir = open_timeline(args, &entry, err);
	bool is_terminal = isatty(1), shown = false;
	struct audit_record record;
	struct err odd = {0};
	const char *line;
	uint64_t n = 0, last = 0;
	size_t len;
	int code = dir < 0 ? dir : get_number(args, &n, err);

	if (code == 0)
		code = audit_reader_open(&r, dir, args->operator ? OPERATOR_LOG : CELL_EVENTS, err);
	if (code < 0)
		return code;
	while (audit_reader_any(&r, &line, &len, &odd)) {
		if (n != 0 && audit_record_read(line, len, &record, NULL) < 0)
			continue;
		if (n != 0)
			last = record.n;
		if (last != n || is_before(line, len, args->key))
			continue;
		show_line(line, len, is_terminal);
		shown = true;
	}
	/* If one record was requested and found, nothing is missing. */
	if (odd.code != 0 && (n == 0 || !shown)) {
		*err = odd;
		return err_wrap(err, "not all of the timeline can be read");
	}
	if (n != 0 && !shown)
		return err_set(err, ENOENT, "there is no record %" PRIu64 ": the last one is %" PRIu64, n, last);
	return 0;
}

int
audit_do_key(const struct audit_args *args, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	char hex[2 * AUDIT_KEY + 1];
	int r = operator_open(&op, err);

	if (r == 0)
		r = operator_load_key(&op, err);
	if (r < 0)
		return r;
	codec_hex(op.key.public, AUDIT_KEY, hex);
	printf(args->json ? "{\"key\":\"%s\"}\n" : "%s\n", hex);
	return 0;
}

/* ---- prove ---- */

/* For a record of the operator's: signs it now, if it is unsigned. */
static int
prove_operator(uint64_t n, struct audit_proof *ret_proof, struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	if (r < 0)
		return r;
	r = audit_proof_make(op.dir, OPERATOR_LOG, n, ret_proof, err);
	if (r != -EAGAIN)
		return r;
	r = operator_checkpoint(&op, err);
	r = r == 0 ? audit_proof_make(op.dir, OPERATOR_LOG, n, ret_proof, err) : r;
	return r == -EAGAIN ? err_set(err, EAGAIN, "record %" PRIu64 " is the last checkpoint, which "
	                              "signs those before it", n) : r;
}

static int
prove_cell(const struct audit_args *args, uint64_t n, struct audit_proof *ret_proof,
           struct audit_proof *ret_anchor, struct err *err)
{
	OWN(audit_cells_free) struct audit_cells cells = {0};
	struct audit_seen seen = { .cells = &cells };
	struct cell_entry entry;
	OWN(closep) int dir = audit_open_cell(args->words[0], &entry, err);
	OWN(closep) int operator = dir < 0 ? -1 : audit_open_operator(err);
	const struct audit_cell *cell;
	int r;

	if (dir < 0)
		return dir;
	r = audit_proof_make(dir, CELL_EVENTS, n, ret_proof, err);
	if (r == -EAGAIN)
		return err_set(err, EAGAIN, "no checkpoint signs record %" PRIu64 " yet: the next comes "
		               "within seconds, or when the cell ends", n);
	if (r < 0)
		return r;
	if (operator < 0)
		return operator;
	r = audit_see_operator(operator, &seen, err);
	if (r == 0 && seen.check.verify.fault != AUDIT_SOUND)
		return err_set(err, EBADMSG, "the operator's timeline is not sound: see `cloister audit "
		               "verify --operator`");
	cell = r == 0 ? audit_pick_cell(&cells, dir, entry.id) : NULL;
	if (r == 0 && (cell == NULL || cell->started_n == 0))
		return err_set(err, ENOENT, "the operator's timeline has no cell '%s'", entry.id);
	return r < 0 ? r : prove_operator(cell->started_n, ret_anchor, err);
}

int
audit_do_prove(const struct audit_args *args, struct err *err)
{
	OWN(audit_proof_free) struct audit_proof proof = {0};
	OWN(audit_proof_free) struct audit_proof anchor = {0};
	OWN(buf_free) struct buf b = BUF(AUDIT_PROOF_MAX);
	uint64_t n;
	int r = get_number(args, &n, err);

	if (r < 0)
		return r;
	r = args->operator ? prove_operator(n, &proof, err) : prove_cell(args, n, &proof, &anchor, err);
	if (r < 0)
		return r;
	audit_proof_put(&b, &proof, anchor.record != NULL ? &anchor : NULL);
	if (buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	fwrite(b.data, 1, b.len, stdout);
	return 0;
}
