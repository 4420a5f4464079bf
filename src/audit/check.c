/* check.c - see check.h. */
#include "audit/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/reader.h"
#include "base/err.h"
#include "base/own.h"

#define PROGRESS_LINES 8192

static void
stand_at(struct audit_check *check, const struct audit_reader *r)
{
	memcpy(check->file, r->file, sizeof(check->file));
	check->line = r->line;
}

static void
set_fault(struct audit_check *check, enum audit_fault fault, uint64_t n, const char *text)
{
	check->verify.fault = fault;
	check->verify.fault_n = n;
	snprintf(check->verify.finding, sizeof(check->verify.finding), "%.*s",
	         AUDIT_FINDING_MAX - 1, text);
}

static void
find_out_more(struct audit_check *check, struct audit_reader *r)
{
	const char *line;
	size_t len;

	stand_at(check, r);
	if (audit_reader_next(r, &line, &len, NULL) == 1) {
		audit_verify_refine(&check->verify, line, len);
		audit_reader_back(r);
	}
	if (check->verify.about_before && check->line > 1)
		check->line--;
}

/* An incomplete line is the trace of a crash, unless it is known that there was none. */
static void
check_torn(struct audit_check *check, const struct audit_reader *r)
{
	const struct audit_verify *v = &check->verify;
	char text[AUDIT_FINDING_MAX];

	check->torn = r->torn;
	if (r->torn == 0 || v->fault != AUDIT_SOUND || (check->may_be_torn && r->at_newest))
		return;
	snprintf(text, sizeof(text), "the file ends in the middle of a line, after %" PRIu64 " bytes of "
	         "it%s", r->torn, v->anchor.is_there ? "" : ": it was cut, or its writer crashed");
	stand_at(check, r);
	set_fault(check, v->anchor.is_there && v->anchor.n <= v->chain.tree.size ? AUDIT_ADDED :
	          AUDIT_TRUNCATED, v->chain.tree.size + 1, text);
}

void
audit_check_fault(struct audit_check *check, enum audit_fault fault, const char *file, const char *text)
{
	if (check->verify.fault != AUDIT_SOUND)
		return;
	set_fault(check, fault, 0, text);
	snprintf(check->file, sizeof(check->file), "%s", file);
	check->line = 0;
}

/* A fault of one file is reported for it, and does not stop the check of the others. */
static int
find_unreadable(struct audit_check *check, const char *file, int code, struct err *err)
{
	if (code == -ENOENT || code == -ENOMEM || code == -EMFILE || code == -ENFILE)
		return code;
	audit_check_fault(check, AUDIT_UNREADABLE, file, err->text);
	*err = (struct err){0};
	return 0;
}

/* ---- several timelines in a row ---- */

static bool
is_beginning(const struct audit_record *record)
{
	return record->n == 1 || record->is_checkpoint;
}

/* Whether the record that does not fit is the first of another timeline. */
static bool
begins_another(const struct audit_verify *v)
{
	if (v->refine == AUDIT_REFINE_OWNER)
		return is_beginning(&v->failed);
	/* A chosen id can be chosen again; but the same record is not another timeline. */
	return v->refine == AUDIT_REFINE_ORDER && v->failed.n == 1 &&
	       strcmp(v->timeline, AUDIT_OPERATOR) != 0 &&
	       memcmp(v->failed_hash, v->first_hash, AUDIT_HASH) != 0;
}

/* Skips from the fault to the next timeline. */
static int
skip_rest(const struct audit_check *check, struct audit_reader *r)
{
	struct audit_record record;
	const char *line;
	size_t len;

	while (audit_reader_next(r, &line, &len, NULL) == 1)
		if (audit_record_read(line, len, &record, NULL) == 0 && is_beginning(&record) &&
		    strcmp(record.timeline, check->verify.timeline) != 0) {
			audit_reader_back(r);
			return 1;
		}
	return 0;
}

static void
end_here(struct audit_check *check, const struct audit_reader *r)
{
	if (audit_verify_end(&check->verify) < 0)
		stand_at(check, r);
	check_torn(check, r);
}

/* MANY: as for audit_check_next(). */
static int
check_lines(struct audit_check *check, struct audit_reader *r, bool many, struct err *err)
{
	struct audit_verify *v = &check->verify;
	const char *line;
	uint64_t lines = 0;
	size_t len;
	int code;

	while ((code = audit_reader_next(r, &line, &len, err)) == 1) {
		if (audit_verify_line(v, line, len) < 0) {
			if (many && begins_another(v)) {
				audit_reader_back(r);
				v->fault = AUDIT_SOUND;
				v->fault_n = 0;
				end_here(check, r);
				return 1;
			}
			find_out_more(check, r);
			return many ? skip_rest(check, r) : 0;
		}
		code = check->note == NULL ? 0 : check->note(check->arg, &v->failed, line, len);
		if (code < 0)
			return err_set(err, -code, "cannot go through '%s': %s", r->file,
			               strerrordesc_np(-code));
		if (check->progress != NULL && ++lines % PROGRESS_LINES == 0)
			check->progress(check->arg, r->bytes, r->total);
	}
	if (code < 0)
		return find_unreadable(check, r->file, code, err);
	end_here(check, r);
	return 0;
}

int
audit_check_next(struct audit_check *check, struct audit_reader *r, struct err *err)
{
	return check_lines(check, r, true, err);
}

int
audit_check_run(struct audit_check *check, int dir, const char *name, struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	int code = audit_reader_open(&r, dir, name, err);

	return code < 0 ? find_unreadable(check, name, code, err) : check_lines(check, &r, false, err);
}
