/* audit_timeline.c - verifies one timeline of the operator's or a cell's. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "audit/reader.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/audit/audit_proc.h"

#define HEAD_FILE_MAX 256

static int
note(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	struct audit_seen *seen = arg;
	int r = seen->cells == NULL ? 0 : audit_cells_note(seen->cells, record);

	if (seen->wants_policy)
		audit_policy_note(&seen->policy, record);
	return r == 0 && seen->note != NULL ? seen->note(seen->arg, record, line, len) : r;
}

static void
progress(void *arg, uint64_t done, uint64_t total)
{
	audit_progress_show(&((struct audit_seen *)arg)->progress, done, total);
}

static int
run(struct audit_seen *seen, int dir, const char *name, struct err *err)
{
	int r;

	seen->check.note = note;
	seen->check.progress = progress;
	seen->check.arg = seen;
	audit_progress_begin(&seen->progress, seen->check.verify.timeline);
	r = audit_check_run(&seen->check, dir, name, err);
	audit_progress_end(&seen->progress);
	return r;
}

/* ---- the operator's ---- */

/* {"head":"...","log":"operator","n":N} */
static bool
read_head(const char *text, struct audit_anchor *ret_anchor)
{
	static const char front[] = "{\"head\":\"", middle[] = "\",\"log\":\"" AUDIT_OPERATOR "\",\"n\":";
	unsigned long long n;
	int end = 0;

	if (strncmp(text, front, strlen(front)) != 0)
		return false;
	text += strlen(front);
	if (strnlen(text, AUDIT_HEX) < AUDIT_HEX || !codec_unhex_lower(text, ret_anchor->head, AUDIT_HASH) ||
	    strncmp(text + AUDIT_HEX, middle, strlen(middle)) != 0)
		return false;
	text += AUDIT_HEX + strlen(middle);
	if (*text < '1' || *text > '9' || sscanf(text, "%16llu%n", &n, &end) != 1 ||
	    strcmp(text + end, "}\n") != 0)
		return false;
	ret_anchor->is_there = true;
	ret_anchor->n = n;
	return true;
}

int
audit_see_operator(int dir, struct audit_seen *seen, struct err *err)
{
	struct audit_verify *v = &seen->check.verify;
	OWN(freep) char *head = NULL;
	bool bad_head = false, has_key = audit_operator_key(dir, v->key);
	int r;

	snprintf(v->timeline, sizeof(v->timeline), "%s", AUDIT_OPERATOR);
	v->has_key = has_key;
	seen->check.may_be_torn = true;
	/* Read first: records that are added meanwhile come after it. */
	if (read_file_at(dir, OPERATOR_HEAD, HEAD_FILE_MAX, &head, NULL, NULL) == 0)
		bad_head = !read_head(head, &v->anchor);
	r = run(seen, dir, OPERATOR_LOG, err);
	if (r < 0)
		return r;
	if (!has_key)
		audit_check_fault(&seen->check, AUDIT_MISSING, OPERATOR_KEY, "the operator's key is "
		                  "missing or unusable, so anybody may have signed this");
	if (bad_head)
		audit_check_fault(&seen->check, AUDIT_CHANGED, OPERATOR_HEAD, "this is not the number and "
		                  "hash of a record");
	/* A crash can come between the first checkpoint and the first operator.head, but no later. */
	if (head == NULL && v->checkpoints > 1)
		audit_check_fault(&seen->check, AUDIT_MISSING, OPERATOR_HEAD, "the note of the timeline's "
		                  "end is missing, so records may be missing there too");
	return 0;
}

/* ---- a cell's ---- */

bool
audit_is_old(int dir, const char *name)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char first[8];

	return fd >= 0 && pread(fd, first, 5, 0) == 5 && memcmp(first, "{\"n\":", 5) == 0;
}

/* The key in the timeline itself. */
static bool
first_key(int dir, unsigned char ret_key[AUDIT_KEY])
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	struct audit_checkpoint checkpoint;
	struct audit_record record;
	const char *line;
	size_t len;

	if (audit_reader_open(&r, dir, CELL_EVENTS, NULL) < 0)
		return false;
	while (audit_reader_next(&r, &line, &len, NULL) == 1) {
		if (audit_record_read(line, len, &record, NULL) < 0 || !record.is_checkpoint ||
		    audit_checkpoint_read(&record, &checkpoint, NULL) < 0)
			continue;
		memcpy(ret_key, checkpoint.key, AUDIT_KEY);
		return true;
	}
	return false;
}

const struct audit_cell *
audit_pick_cell(const struct audit_cells *cells, int dir, const char *id)
{
	const struct audit_cell *newest = audit_cells_find(cells, id);
	unsigned char key[AUDIT_KEY];

	if (newest == NULL || newest->before == 0 || !first_key(dir, key))
		return newest;
	return audit_cells_pick(cells, id, key);
}

int
audit_see_cell(int dir, const struct cell_entry *entry, const struct audit_cell *cell,
               struct audit_seen *seen, struct err *err)
{
	struct audit_verify *v = &seen->check.verify;
	bool is_live = cell_state_is_live(dir), is_known = cell != NULL && cell->started_n != 0;
	int r;

	snprintf(v->timeline, sizeof(v->timeline), "cell/%s", entry->id);
	if (is_known) {
		memcpy(v->key, cell->key, AUDIT_KEY);
		v->has_key = true;
	}
	if (cell != NULL)
		audit_cell_anchor(cell, &v->anchor);
	seen->wants_policy = cell != NULL && cell->end == AUDIT_CELL_ENDED;
	seen->check.may_be_torn = !seen->wants_policy;
	r = run(seen, dir, CELL_EVENTS, err);
	if (r < 0)
		return r;
	/* The cell may have been started after the operator's timeline was read.  If its supervisor
	 * was killed earlier, it has an empty file. */
	if (!is_known && !is_live && v->chain.tree.size > 0 && seen->untied != NULL)
		audit_check_fault(&seen->check, AUDIT_UNTIED, CELL_EVENTS, seen->untied);
	else if (!is_known && !is_live && v->chain.tree.size > 0)
		audit_check_fault(&seen->check, AUDIT_SWAPPED, CELL_EVENTS, "the operator's timeline has "
		                  "no start of a cell with this id");
	if (seen->wants_policy)
		audit_policy_check(&seen->policy, dir, &seen->check);
	return 0;
}
