/* audit_files.c - `cloister audit verify` with files: exported timelines, statements and proofs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/proof.h"
#include "audit/reader.h"
#include "audit/statement.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/audit/audit_verifier.h"

/* ---- proofs ---- */

static int
verify_proof(struct audit_verifier *v, const char *path, const char *text, size_t len,
             const unsigned char *key, struct err *err)
{
	OWN(audit_proof_free) struct audit_proof proof = {0};
	OWN(audit_proof_free) struct audit_proof anchor = {0};
	struct err why = {0};
	int r = audit_proof_read(text, len, &proof, &anchor, &why);

	if (key == NULL)
		return err_set(err, EINVAL, "a proof is only as good as its key: give the operator's key "
		               "with --key");
	if (r == 0)
		r = audit_proof_check(&proof, &anchor, key, &why);
	v->timelines++;
	v->found += r < 0;
	if (v->args->json) {
		json_open(&v->out, NULL, '{');
		json_str(&v->out, "timeline", proof.timeline);
		json_u64(&v->out, "record", proof.index + 1);
		json_bool(&v->out, "proved", r == 0);
		json_str(&v->out, "message", r == 0 ? NULL : why.text);
		json_close(&v->out, '}');
		return 0;
	}
	text_print_safe(stdout, path, strlen(path), false);
	if (r == 0)
		printf(": proves record %" PRIu64 " of %s\n", proof.index + 1, proof.timeline);
	else
		printf(": proves nothing: %s\n", why.text);
	return 0;
}

static bool
begins_with(int fd, const char *front)
{
	char first[16];

	return pread(fd, first, strlen(front), 0) == (ssize_t)strlen(front) &&
	       memcmp(first, front, strlen(front)) == 0;
}

/* ---- timelines ---- */

#define CELL_PREFIX "cell/"

static bool
is_cells(const char *timeline)
{
	return strncmp(timeline, CELL_PREFIX, strlen(CELL_PREFIX)) == 0;
}

static const struct audit_cell *
given_cell(const struct audit_verifier *v, const char *timeline, const unsigned char *key)
{
	const struct audit_cell *cell = audit_cells_pick(&v->given, timeline + strlen(CELL_PREFIX), key);

	return cell != NULL && cell->started_n != 0 ? cell : NULL;
}

static bool
get_key(const struct audit_verifier *v, unsigned char ret_key[AUDIT_KEY])
{
	return v->args->key[0] != '\0' && strlen(v->args->key) == 2 * AUDIT_KEY &&
	       codec_unhex_lower(v->args->key, ret_key, AUDIT_KEY);
}

/* The given key is the operator's, whose timeline has those of cells. */
static void
pick(struct audit_verify *seen, const unsigned char *key)
{
	const struct audit_verifier *v = seen->arg;
	const struct audit_cell *cell;

	if (!is_cells(seen->timeline)) {
		seen->has_key = get_key(v, seen->key);
		return;
	}
	cell = given_cell(v, seen->timeline, key);
	if (cell == NULL)
		return;
	memcpy(seen->key, cell->key, AUDIT_KEY);
	seen->has_key = true;
	audit_cell_anchor(cell, &seen->anchor);
}

static int
note(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	struct audit_verifier *v = arg;

	(void)line;
	(void)len;
	return record->n > v->given_through || is_cells(record->timeline) ? 0 :
	       audit_cells_note(&v->given, record);
}

/* Checks what the timeline itself cannot show: whether it belongs to a cell that the operator
 * knows, and with which key.  Returns the state to print. */
static const char *
judge_cell(const struct audit_verifier *v, struct audit_check *check, const char *file)
{
	const struct audit_verify *seen = &check->verify;
	unsigned char key[AUDIT_KEY];
	bool has_key = get_key(v, key);

	if (v->is_given) {
		if (given_cell(v, seen->timeline, seen->key) == NULL)
			audit_check_fault(check, AUDIT_UNTIED, file, v->is_given_bad ? "this cannot be "
			                  "matched with the given operator's timeline, which is not "
			                  "sound" : "the given operator's timeline has no cell with this "
			                  "id: if the cell is newer, export that timeline again");
		return "by the key that the operator's timeline tells";
	}
	if (has_key && (seen->checkpoints == 0 || memcmp(key, seen->key, AUDIT_KEY) != 0))
		audit_check_fault(check, AUDIT_UNTIED, file, "this is a cell's timeline, and its key is in "
		                  "the operator's timeline: give that too, as `cloister audit export "
		                  "--operator` prints it");
	return has_key ? "by that key" : "by the key it names itself";
}

static const char *
judge(struct audit_verifier *v, struct audit_check *check, const char *file, bool is_operators)
{
	if (is_cells(check->verify.timeline))
		return judge_cell(v, check, file);
	if (is_operators) {
		v->is_given = true;
		v->is_given_bad |= check->verify.fault != AUDIT_SOUND;
	}
	return v->args->key[0] != '\0' ? "by that key" : "by the key it names itself";
}

/* Anybody could have appended unsigned records, so they prove nothing about cells. */
static int
find_signed(struct audit_verifier *v, int dir, const char *name, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	struct audit_check check = { .verify = { .pick = pick, .arg = v } };
	int code = audit_reader_open(&r, dir, name, err);

	if (code == 0)
		code = audit_check_next(&check, &r, err);
	v->given_through = check.verify.signed_n;
	return code < 0 ? code : 0;
}

static int
verify_timelines(struct audit_verifier *v, int dir, const char *name, bool is_operators, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	int more = is_operators ? find_signed(v, dir, name, err) : 0;

	if (more == 0)
		more = audit_reader_open(&r, dir, name, err) < 0 ? -err->code : 1;
	for (bool first = is_operators; more == 1; first = false) {
		struct audit_check check = { .verify = { .pick = pick, .arg = v }, .note = first ? note : NULL,
		                             .arg = v };

		more = audit_check_next(&check, &r, err);
		if (more >= 0) {
			const char *state = judge(v, &check, name, first);

			audit_tell(v, &check, dir, state);
		}
	}
	return more;
}

/* ---- statements ---- */

/* Checks the signature, and, if the operator's timeline was given, the content. */
static int
judge_statement(const struct audit_verifier *v, const char *line, size_t len, const unsigned char *key,
                struct audit_cell *ret_said, struct err *err)
{
	const struct audit_cell *cell;
	int r = audit_statement_read(line, len, key, ret_said, err);

	if (r < 0 || !v->is_given)
		return r;
	cell = audit_cells_pick(&v->given, ret_said->id, ret_said->key);
	if (cell == NULL || cell->started_n == 0)
		return err_set(err, EBADMSG, v->is_given_bad ? "the given operator's timeline is not "
		               "sound, and has no cell/%s" : "the given operator's timeline has no "
		               "cell/%s", ret_said->id);
	return audit_statement_check(ret_said, cell, err);
}

/* SAID is set if there is no finding. */
static void
tell_statement(struct audit_verifier *v, const char *path, uint64_t line, const struct audit_cell *said,
               const char *finding)
{
	char timeline[AUDIT_TIMELINE_MAX] = "";

	if (said->id[0] != '\0')
		snprintf(timeline, sizeof(timeline), CELL_PREFIX "%s", said->id);
	v->timelines++;
	v->found += finding != NULL;
	if (v->args->json) {
		json_open(&v->out, NULL, '{');
		json_str(&v->out, "timeline", timeline);
		json_str(&v->out, "file", path);
		json_u64(&v->out, "line", line);
		json_bool(&v->out, "stated", finding == NULL);
		json_str(&v->out, "message", finding);
		json_close(&v->out, '}');
		return;
	}
	text_print_safe(stdout, path, strlen(path), false);
	if (finding == NULL)
		printf(":%" PRIu64 ": states that %s ended with status %" PRIu64 ", after %" PRIu64
		       " records\n", line, timeline, said->status, said->size);
	else
		printf(":%" PRIu64 ": states nothing: %s\n", line, finding);
}

static int
verify_statements(struct audit_verifier *v, int dir, const char *name, const char *path, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	unsigned char key[AUDIT_KEY];
	const char *line;
	size_t len;
	int more;

	if (!get_key(v, key) && (v->operator < 0 || !audit_operator_key(v->operator, key)))
		return err_set(err, EINVAL, "a statement is only as good as its key: give the operator's "
		               "key with --key");
	more = audit_reader_open(&r, dir, name, err) < 0 ? -err->code : 1;
	while (more == 1 && (more = audit_reader_next(&r, &line, &len, err)) >= 0) {
		struct audit_cell said = {0};
		struct err why = {0};

		/* The last line may lack its newline, but nothing else. */
		if (more == 0 && r.torn > 0) {
			line = r.data + r.at;
			len = r.torn;
		} else if (more == 0) {
			break;
		}
		tell_statement(v, path, r.line, &said,
		               judge_statement(v, line, len, key, &said, &why) < 0 ? why.text : NULL);
	}
	return more;
}

bool
audit_is_operators(const char *path)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	OWN(freep) char *copy = strdup(path), *base = strdup(path);
	OWN(closep) int dir = copy == NULL ? -1 : open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct audit_record record;
	const char *line;
	size_t len;

	return dir >= 0 && base != NULL && audit_reader_open(&r, dir, basename(base), NULL) == 0 &&
	       audit_reader_next(&r, &line, &len, NULL) == 1 &&
	       audit_record_read(line, len, &record, NULL) == 0 && !is_cells(record.timeline);
}

int
audit_verify_file(struct audit_verifier *v, const char *path, bool is_operators, struct err *err)
{
	OWN(freep) char *copy = strdup(path), *base = strdup(path), *text = NULL;
	OWN(closep) int dir = -1, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	unsigned char key[AUDIT_KEY];
	size_t len;
	int r;

	if (copy == NULL || base == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	if (begins_with(fd, "{\"anchor\":")) {
		r = read_file_at(AT_FDCWD, path, AUDIT_PROOF_MAX, &text, &len, err);
		return r < 0 ? r : verify_proof(v, path, text, len, get_key(v, key) ? key : NULL, err);
	}
	dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "cannot open the folder of '%s'", path);
	/* Whichever of the two members comes first. */
	if (begins_with(fd, "{\"payload"))
		return verify_statements(v, dir, basename(base), path, err);
	return verify_timelines(v, dir, basename(base), is_operators, err);
}
