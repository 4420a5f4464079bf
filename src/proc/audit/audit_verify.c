/* audit_verify.c - `cloister audit verify`: checks that timelines are as they were written. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/audit_request.h"
#include "audit/operator.h"
#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/audit/audit_verifier.h"

/* ---- reports ---- */

/* How many records there are before the fault, or in all. */
static uint64_t
sound_records(const struct audit_verify *seen)
{
	return seen->chain.tree.size - seen->about_before;
}

static void
tell_json(struct audit_verifier *v, const struct audit_check *check, const char *path, const char *state)
{
	const struct audit_verify *seen = &check->verify;
	struct json *w = &v->out;

	json_open(w, NULL, '{');
	json_str(w, "timeline", seen->timeline);
	json_str(w, "state", state);
	json_u64(w, "records", sound_records(seen));
	json_u64(w, "first", seen->first);
	json_u64(w, "signed", seen->signed_n);
	json_u64(w, "checkpoints", seen->checkpoints);
	json_u64(w, "torn_bytes", check->torn);
	if (seen->fault == AUDIT_SOUND) {
		json_none(w, "finding");
	} else {
		json_open(w, "finding", '{');
		json_str(w, "what", audit_fault_name(seen->fault));
		json_str(w, "file", path);
		json_u64(w, "line", check->line);
		json_u64(w, "record", seen->fault_n);
		json_str(w, "message", seen->finding);
		json_close(w, '}');
	}
	json_close(w, '}');
}

static void
tell_fault(const struct audit_check *check, const char *called, const char *path)
{
	const struct audit_verify *seen = &check->verify;
	char where[32] = "";

	if (check->line > 0)
		snprintf(where, sizeof(where), ":%" PRIu64, check->line);
	/* If its first line is not a record, the owner of a file is unknown. */
	if (seen->timeline[0] == '\0')
		text_print_safe(stdout, check->file, strlen(check->file), false);
	printf("%s%s: %s\n  ", seen->timeline, called, audit_fault_name(seen->fault));
	text_print_safe(stdout, path, strlen(path), false);
	printf("%s: ", where);
	if (seen->fault_n > 0)
		printf("record %" PRIu64 ": ", seen->fault_n);
	text_print_safe(stdout, seen->finding, strlen(seen->finding), false);
	if (sound_records(seen) > 0)
		printf("\n  sound before that: %" PRIu64 " record%s, of which %" PRIu64 " are signed",
		       sound_records(seen), text_plural(sound_records(seen)), seen->signed_n);
	printf("\n");
}

static void
tell_sound(const struct audit_check *check, const char *called, const char *state)
{
	const struct audit_verify *seen = &check->verify;
	uint64_t n = seen->chain.tree.size;

	printf("%s%s: sound, %s, %" PRIu64 " record%s", seen->timeline, called, state, n, text_plural(n));
	if (seen->first > 1)
		printf(" (the first %" PRIu64 " dropped, as recorded)", seen->first - 1);
	if (n > seen->signed_n)
		printf(", the last %" PRIu64 " not signed yet", n - seen->signed_n);
	if (check->torn > 0)
		printf("; half a line of %" PRIu64 " bytes behind them, as a crash leaves it", check->torn);
	printf("\n");
}

void
audit_tell(struct audit_verifier *v, const struct audit_check *check, int dir, const char *state)
{
	char path[AUDIT_PATH_TEXT], called[CELL_NAME_MAX + 4] = "";
	size_t len;

	if (v->name != NULL && v->name[0] != '\0')
		snprintf(called, sizeof(called), " (%s)", v->name);
	audit_path_of(dir, path);
	len = strlen(path);
	snprintf(path + len, sizeof(path) - len, "%s%s", len > 0 ? "/" : "", check->file);
	v->timelines++;
	v->found += check->verify.fault != AUDIT_SOUND;
	if (v->args->json)
		tell_json(v, check, path, state);
	else if (check->verify.fault != AUDIT_SOUND)
		tell_fault(check, called, path);
	else
		tell_sound(check, called, state);
}

/* ---- the operator's ---- */

/* One pass collects what several checks compare. */
static int
note_all(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	struct audit_verifier *v = arg;
	int r = audit_programs_note(&v->programs, record, line, len);

	return r < 0 ? r : audit_states_note(&v->states, record);
}

static int
note_states(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	(void)line, (void)len;
	return audit_states_note(arg, record);
}

int
audit_see_states(struct audit_verifier *v)
{
	struct audit_seen seen = { .note = note_states, .arg = &v->states };
	int r;

	audit_states_free(&v->states);
	r = audit_see_operator(v->operator, &seen, NULL);
	v->states.is_whole = seen.check.verify.first <= 1;
	return r;
}

enum telling { TELL_NOT, TELL_FAULTS, TELL_ALL };

static int
verify_operator(struct audit_verifier *v, enum telling telling, struct err *err)
{
	struct audit_seen seen = { .cells = &v->cells, .note = note_all, .arg = v };
	unsigned char key[AUDIT_KEY];
	int r;

	audit_cells_free(&v->cells);
	audit_states_free(&v->states);
	v->untied = "there is no operator's timeline that could show whose cell this is";
	if (v->operator < 0)
		return 0;
	r = audit_see_operator(v->operator, &seen, err);
	if (r == -ENOENT && !audit_operator_key(v->operator, key))
		return v->args->operator ? err_set(err, ENOENT, "there is no operator's timeline yet") : 0;
	if (r == -ENOENT) {
		seen.check.verify.fault = AUDIT_MISSING;
		snprintf(seen.check.verify.finding, sizeof(seen.check.verify.finding), "the operator has a "
		         "key, but there are no records");
		snprintf(seen.check.file, sizeof(seen.check.file), OPERATOR_LOG);
		r = 0;
	}
	v->untied = seen.check.verify.fault == AUDIT_SOUND ? NULL : "this cannot be matched with the "
	            "operator's timeline, which is not sound: see the result for that timeline";
	if (r == 0 && (telling == TELL_ALL ||
	               (telling == TELL_FAULTS && seen.check.verify.fault != AUDIT_SOUND)))
		audit_tell(v, &seen.check, v->operator, "open");
	return r;
}

/* ---- cells ---- */

static const char *
state_of(const struct audit_cell *cell, int dir)
{
	if (cell != NULL && cell->end != AUDIT_CELL_OPEN)
		return cell->end == AUDIT_CELL_ENDED ? "ended" : "lost";
	return dir >= 0 && cell_state_is_live(dir) ? "running" : "open";
}

/* The timeline is known, but has no file in the cell's entry, which is DIR or (-1) gone too. */
static void
tell_missing(struct audit_verifier *v, const struct audit_cell *cell, int dir)
{
	OWN(closep) int state = dir < 0 ? cell_state_open(false, NULL) : -1;
	struct audit_check check = { .file = CELL_EVENTS };

	snprintf(check.verify.timeline, sizeof(check.verify.timeline), "cell/%s", cell->id);
	check.verify.fault = AUDIT_MISSING;
	snprintf(check.verify.finding, sizeof(check.verify.finding), "the timeline is gone, and %s%s",
	         v->untied == NULL ? "no record says that it was removed" : "it is unknown whether it was "
	         "removed, because the operator's timeline is not sound",
	         cell->has_chain ? "" : "; its length is unknown");
	/* The entry's name contains the cell's name, which is unknown now. */
	if (dir < 0)
		snprintf(check.file, sizeof(check.file), "%s.*/" CELL_EVENTS, cell->id);
	audit_tell(v, &check, dir < 0 ? state : dir, state_of(cell, -1));
}

/* A cell that has not ended must have an entry as well: it was made first. */
static bool
is_owed(const struct audit_cell *cell)
{
	return cell != NULL && cell->started_n != 0 && !cell->pruned &&
	       (cell->has_chain ? cell->size > 0 : cell->end != AUDIT_CELL_LOST);
}

static bool
is_there(const struct audit_verifier *v, const struct audit_cell *cell)
{
	size_t i = (size_t)(cell - v->cells.at);

	return i < v->n_there && v->there[i];
}

static int
note_there(struct audit_verifier *v, const struct audit_cell *cell, struct err *err)
{
	bool *more = v->there;

	if (v->n_there < v->cells.n) {
		more = realloc(v->there, v->cells.n * sizeof(*more));
		if (more == NULL)
			return err_set(err, ENOMEM, "out of memory");
		memset(more + v->n_there, 0, (v->cells.n - v->n_there) * sizeof(*more));
		v->there = more;
		v->n_there = v->cells.n;
	}
	more[cell - v->cells.at] = true;
	return 0;
}

/* From before there were records; no excuse for a cell that is known to have written some. */
static bool
is_old(const struct audit_cell *cell, int dir)
{
	return (cell == NULL || cell->started_n == 0) && audit_is_old(dir, CELL_EVENTS);
}

static int
verify_entry(struct audit_verifier *v, int dir, const struct cell_entry *entry,
             const struct audit_cell *cell, struct err *err)
{
	struct audit_seen seen = { .untied = v->untied };
	int r;

	if (is_old(cell, dir)) {
		v->old++;
		return v->args->all ? 0 : err_set(err, EINVAL, "the records of cell '%s' cannot be "
		                                  "verified: an older cloister did not chain them",
		                                  entry->id);
	}
	r = audit_see_cell(dir, entry, cell, &seen, err);
	if (r == 0) {
		v->name = entry->name;
		audit_tell(v, &seen.check, dir, state_of(cell, dir));
		v->name = NULL;
		return cell == NULL ? 0 : note_there(v, cell, err);
	}
	/* With --all, missing ones are reported at the end. */
	if (r != -ENOENT || v->args->all)
		return r == -ENOENT ? 0 : r;
	if (is_owed(cell)) {
		tell_missing(v, cell, dir);
		return 0;
	}
	return err_set(err, ENOENT, "the cell '%s' has no records",
	               entry->name[0] != '\0' ? entry->name : entry->id);
}

static int
verify_cell(struct audit_verifier *v, const char *word, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int dir = audit_open_cell(word, &entry, err);
	const struct audit_cell *cell = dir < 0 ? audit_cells_find(&v->cells, word) : NULL;

	if (dir >= 0)
		return verify_entry(v, dir, &entry, audit_pick_cell(&v->cells, dir, entry.id), err);
	if (is_owed(cell)) {
		tell_missing(v, cell, -1);
		return 0;
	}
	if (cell != NULL && cell->pruned)
		return err_set(err, ENOENT, "the timeline of cell '%s' was removed, as the operator's "
		               "timeline records", word);
	return dir;
}

/* AGAIN: only those that were not there before. */
static int
verify_entries(struct audit_verifier *v, const struct audit_list *list, bool again, struct err *err)
{
	int r = 0;

	for (int place = 0; place < AUDIT_PLACES; place++) {
		for (size_t i = 0; r == 0 && i < list->n[place]; i++) {
			OWN(closep) int dir = audit_list_open(list, place, i);
			const struct cell_entry *entry = &list->entries[place][i];
			const struct audit_cell *cell = dir < 0 ? NULL :
				audit_pick_cell(&v->cells, dir, entry->id);

			if (dir >= 0 && (!again || (cell != NULL && !is_there(v, cell))))
				r = verify_entry(v, dir, entry, cell, err);
		}
	}
	return r;
}

static bool
any_absent(const struct audit_verifier *v)
{
	for (size_t i = 0; i < v->cells.n; i++)
		if (is_owed(&v->cells.at[i]) && !is_there(v, &v->cells.at[i]))
			return true;
	return false;
}

/* Cells come and go meanwhile.  A known cell has an entry, unless a later record notes its removal.
 * So missing entries are looked for between two readings of the operator's timeline. */
static int
verify_absent(struct audit_verifier *v, struct err *err)
{
	OWN(audit_list_free) struct audit_list list = { .folder = { -1, -1 } };
	size_t known;
	int r = verify_operator(v, TELL_NOT, err);

	known = v->cells.n;
	r = r == 0 ? audit_list_cells(&list, err) : r;
	r = r == 0 ? verify_entries(v, &list, true, err) : r;
	r = r == 0 ? verify_operator(v, TELL_NOT, err) : r;
	for (size_t i = 0; r == 0 && i < known && i < v->cells.n; i++)
		if (is_owed(&v->cells.at[i]) && !is_there(v, &v->cells.at[i]))
			tell_missing(v, &v->cells.at[i], -1);
	return r;
}

static int
verify_all(struct audit_verifier *v, struct err *err)
{
	OWN(audit_list_free) struct audit_list list = { .folder = { -1, -1 } };
	/* Listed first: then the operator's timeline has every listed cell. */
	int r = audit_list_cells(&list, err);

	r = r == 0 ? verify_operator(v, TELL_ALL, err) : r;
	r = r == 0 ? verify_entries(v, &list, false, err) : r;
	return r == 0 && any_absent(v) ? verify_absent(v, err) : r;
}

/* ---- all together ---- */

/* No cell's name contains these. */
static bool
is_file(const struct audit_args *args, int i)
{
	return args->key[0] != '\0' || strpbrk(args->words[i], "/.") != NULL;
}

static int
verify_words(struct audit_verifier *v, struct err *err)
{
	const struct audit_args *args = v->args;
	bool wants_cells = false;
	int r = 0;

	for (int i = 0; i < args->n_words; i++)
		wants_cells |= !is_file(args, i);
	if (args->operator || wants_cells)
		r = verify_operator(v, args->operator ? TELL_ALL : TELL_FAULTS, err);
	/* The operator's come first, since they have the keys of the others. */
	for (int i = 0; r == 0 && i < args->n_words; i++)
		if (is_file(args, i) && audit_is_operators(args->words[i]))
			r = audit_verify_file(v, args->words[i], true, err);
	for (int i = 0; r == 0 && i < args->n_words; i++) {
		if (!is_file(args, i))
			r = verify_cell(v, args->words[i], err);
		else if (!audit_is_operators(args->words[i]))
			r = audit_verify_file(v, args->words[i], false, err);
	}
	return r;
}

static void
begin_json(struct audit_verifier *v)
{
	json_open(&v->out, NULL, '{');
	json_open(&v->out, "timelines", '[');
}

static void
end_json(struct audit_verifier *v)
{
	json_close(&v->out, ']');
	json_u64(&v->out, "not_verifiable", v->old);
	json_u64(&v->out, "not_recomputed", v->lost_programs);
	json_bool(&v->out, "all_programs", !v->programs.has_more);
	json_bool(&v->out, "sound", v->found == 0 && v->bad_trees == 0 && v->bad_programs == 0 && v->bad_states == 0);
	json_close(&v->out, '}');
	fputc('\n', v->out.out);
}

static void
end_text(const struct audit_verifier *v)
{
	if (v->old > 0)
		printf("%u timeline%s cannot be verified: an older cloister did not chain records\n", v->old,
		       v->old == 1 ? "" : "s");
	else if (v->timelines == 0)
		printf("nothing was recorded yet\n");
	if (v->bad_trees > 0)
		printf("%u of %u capabilities' folders are not what was registered\n", v->bad_trees, v->trees);
	if (v->bad_states > 0)
		printf("%u branch%s or tags of states %s not where their last records have them\n", v->bad_states,
		       v->bad_states == 1 ? "" : "es", v->bad_states == 1 ? "is" : "are");
	if (v->bad_programs > 0)
		printf("%u file%s of images %s not what ran\n", v->bad_programs, v->bad_programs == 1 ? "" : "s",
		       v->bad_programs == 1 ? "is" : "are");
	if (v->lost_programs > 0)
		printf("%u program%s cannot be computed again: the record is sound, and this machine has changed since\n",
		       v->lost_programs, v->lost_programs == 1 ? "" : "s");
	if (v->programs.has_more)
		printf("only the first %d programs were computed again: there are more\n", AUDIT_PROGRAMS_MAX);
	if (v->args->all && v->timelines > 0 && v->found == 0)
		printf("%u timeline%s, all sound\n", v->timelines, v->timelines == 1 ? "" : "s");
	else if (v->args->all && v->timelines > 0)
		printf("%u timeline%s, %u not sound\n", v->timelines, v->timelines == 1 ? "" : "s", v->found);
}

int
audit_do_verify(const struct audit_args *args, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	struct audit_verifier v = { .args = args, .operator = audit_open_operator(err) };
	int r;

	if (v.operator < 0 && v.operator != -ENOENT)
		return v.operator;
	if (v.operator == -ENOENT && args->operator)
		return err_set(err, ENOENT, "there is no operator's timeline yet");
	audit_programs_begin(&v.programs);
	/* All or nothing: half of it is not JSON. */
	v.out.out = args->json ? open_memstream(&text, &len) : stdout;
	if (v.out.out == NULL)
		return err_errno(err, "cannot verify");
	if (args->json)
		begin_json(&v);
	r = args->all ? verify_all(&v, err) : verify_words(&v, err);
	if (args->json) {
		json_close(&v.out, ']');
		json_open(&v.out, "capabilities", '[');
	}
	if (r == 0 && args->all)
		r = audit_verify_trees(&v, err);
	if (args->json) {
		json_close(&v.out, ']');
		json_open(&v.out, "states", '[');
	}
	if (r == 0 && args->all)
		r = audit_verify_states(&v, err);
	if (args->json) {
		json_close(&v.out, ']');
		json_open(&v.out, "programs", '[');
	}
	if (r == 0 && args->all)
		r = audit_verify_programs(&v, err);
	if (args->json) {
		end_json(&v);
		if (fclose(v.out.out) != 0 && r == 0)
			r = err_errno(err, "cannot verify");
		else if (r == 0)
			fwrite(text, 1, len, stdout);
	} else if (r == 0) {
		end_text(&v);
	}
	audit_cells_free(&v.cells);
	audit_cells_free(&v.given);
	audit_programs_free(&v.programs);
	audit_states_free(&v.states);
	free(v.there);
	if (v.operator >= 0)
		close(v.operator);
	return r < 0 ? r : v.found + v.bad_trees + v.bad_programs + v.bad_states > 0 ? AUDIT_EXIT_FOUND : AUDIT_EXIT_SOUND;
}
