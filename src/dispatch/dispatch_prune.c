/* dispatch_prune.c - removes old dispatches, and blobs that only they refer to. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "registry/registry.h"

#define PAUSE_MS 20                     /* after each batch */

/* Over, and either too old or one of too many.  One whose children go on stays. */
#define OLD "FROM dispatches d WHERE origin = ? AND state >= 3 AND (ended_ms < ? OR seq <= ?) AND seq > ? AND NOT " \
	"EXISTS (SELECT 1 FROM dispatches c WHERE c.parent = d.id AND c.state < 3)"

struct bounds {
	int64_t before_ms, last_seq;
};

static int
find_bounds(struct db *db, const struct dispatch_pruning *how, struct bounds *ret, struct err *err)
{
	OWN(db_finish) struct db_query q = {0}, clock = {0};
	OWN(freep) char *ask = str_format("SELECT %s", db_now(db));
	uint64_t now = 0;
	int r = ask == NULL ? err_set(err, ENOMEM, "out of memory") : db_ask(db, &clock, err, ask, "");

	/* That of a shared database is no single machine's. */
	r = r == 0 ? db_next(&clock, err) : r;
	if (r > 0)
		now = (uint64_t)db_int(&clock, 0);
	db_finish(&clock);
	r = r < 0 ? r : db_ask(db, &q, err, "SELECT seq FROM dispatches WHERE origin = ? AND state >= 3 ORDER BY seq "
	                       "DESC LIMIT 1 OFFSET ?", "si", db_home(db), (int64_t)how->keep);

	if (r == 0)
		r = db_next(&q, err);
	if (r < 0)
		return r;
	ret->last_seq = r > 0 ? db_int(&q, 0) : 0;
	ret->before_ms = how->older_ms < now ? (int64_t)(now - how->older_ms) : 0;
	return 0;
}

/* ---- rows and folders ---- */

struct batch {
	char ids[DISPATCH_PRUNE_BATCH][DISPATCH_ID_LEN + 1];
	int locks[DISPATCH_PRUNE_BATCH];
	size_t n;
};

static void
batch_free(struct batch *b)
{
	while (b->n > 0)
		close(b->locks[--b->n]);
}

/* The next ones that have no driver; 1 if there may be more. */
static int
take_batch(struct db *db, const struct bounds *bounds, int64_t *seq, struct batch *b, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT id, seq " OLD " ORDER BY seq LIMIT ?", "siiii",
	               db_home(db), bounds->before_ms, bounds->last_seq, *seq, (int64_t)DISPATCH_PRUNE_BATCH);
	bool any = false;

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		snprintf(b->ids[b->n], sizeof(b->ids[0]), "%s", db_text(&q, 0));
		*seq = db_int(&q, 1);
		any = true;
		b->locks[b->n] = dispatch_lock(b->ids[b->n], NULL);
		b->n += b->locks[b->n] >= 0;
		r = 0;
	}
	return r < 0 ? r : any;
}

static int
remove_rows(struct db *db, const struct batch *b, struct err *err)
{
	int r = db_begin(db, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < b->n; i++) {
		/* After a crash, the rest of the folder looks young, and the cleanup of such
		 * folders finds it. */
		(void)futimens(b->locks[i], NULL);
		r = db_do(db, err, "DELETE FROM events WHERE dispatch = ?", "s", b->ids[i]);
		r = r < 0 ? r : db_do(db, err, "DELETE FROM dispatches WHERE id = ? AND state >= 3", "s", b->ids[i]);
	}
	return db_end(db, r < 0 ? r : 0, err);
}

static int
prune_rows(struct registry *reg, const struct dispatch_pruning *how, const struct bounds *bounds,
           struct dispatch_pruned *pruned, struct err *err)
{
	int64_t seq = 0;
	int r = 1;

	while (r > 0) {
		OWN(batch_free) struct batch b = {0};
		const char *ids[DISPATCH_PRUNE_BATCH];
		int more = take_batch(registry_db(reg), bounds, &seq, &b, err);

		for (size_t i = 0; i < b.n; i++)
			ids[i] = b.ids[i];
		r = more < 0 || b.n == 0 ? 0 : how->note(how->arg, ids, b.n, err);
		if (r == 0 && more >= 0)
			r = remove_rows(registry_db(reg), &b, err);
		for (size_t i = 0; r == 0 && i < b.n; i++)
			dispatch_remove_folder(b.ids[i]);
		pruned->dispatches += r == 0 ? b.n : 0;
		r = r < 0 ? r : more;
		/* SQLite's other writers look whether they can go on only now and then. */
		if (r > 0)
			(void)poll(NULL, 0, PAUSE_MS);
	}
	return r;
}

static int
count_rows(struct db *db, const struct bounds *bounds, struct dispatch_pruned *pruned,
           struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT count(*) " OLD, "siii", db_home(db), bounds->before_ms,
	               bounds->last_seq, (int64_t)0);

	if (r == 0)
		r = db_next(&q, err);
	if (r > 0)
		pruned->dispatches = (uint64_t)db_int(&q, 0);
	return r < 0 ? r : 0;
}

/* ---- marking blobs in use ---- */

/* The files of a result are in a list, which is a blob. */
static int
mark_files(struct registry *reg, const char *result, struct registry_marks *marks, struct err *err)
{
	OWN(json_decrefp) json_t *value = NULL;
	OWN(freep) char *text = NULL;
	const char *hash;
	size_t len;
	int r;

	if (result[0] == '\0' || canon_read(result, strlen(result), &value, NULL) < 0)
		return 0;
	hash = dispatch_text(json_object_get(value, "files"), "hash");
	r = hash[0] == '\0' ? -ENOENT : registry_read_blob(reg, hash, DISPATCH_JSON_MAX, &text, &len, err);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : registry_mark_text(marks, text, len, err);
}

static int
mark_result(struct registry *reg, const char *result, struct registry_marks *marks, struct err *err)
{
	int r = registry_mark_text(marks, result, strlen(result), err);

	return r < 0 ? r : mark_files(reg, result, marks, err);
}

/* An unfinished dispatch may have a result that is not in its row yet. */
static int
mark_open(struct registry *reg, const char *id, struct registry_marks *marks, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(id, false, NULL);
	OWN(json_decrefp) json_t *end = dispatch_peek_end(id);
	OWN(freep) char *text = NULL, *told = NULL;
	size_t len;
	int r = 0;

	if (end != NULL)
		r = canon_dump(json_object_get(end, "result"), DISPATCH_RESULT_MAX, &told, &len, err);
	if (r == 0 && told != NULL)
		r = mark_result(reg, told, marks, err);
	if (r == 0 && folder >= 0 &&
	    read_file_at(folder, DISPATCH_RESULT_FILE, DISPATCH_RESULT_MAX, &text, &len, NULL) == 0)
		r = mark_result(reg, text, marks, err);
	return r;
}

struct marking {
	struct registry *reg;
	bool dry_run;
	struct bounds bounds;
};

static int
mark_dispatches(void *arg, struct registry_marks *marks, struct err *err)
{
	const struct marking *m = arg;
	OWN(db_finish) struct db_query q = {0};
	/* Counts as if those to be removed were gone. */
	int r = db_ask(registry_db(m->reg), &q, err, "SELECT id, state, resolved, policy_hash, "
	               "coalesce(result, '') FROM dispatches WHERE ? = 0 OR id NOT IN (SELECT id " OLD ")",
	               "isiii", (int64_t)m->dry_run, db_home(registry_db(m->reg)), m->bounds.before_ms, m->bounds.last_seq, (int64_t)0);

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		r = registry_mark_text(marks, db_text(&q, 2), strlen(db_text(&q, 2)), err);
		if (r == 0)
			r = registry_mark_text(marks, db_text(&q, 3), strlen(db_text(&q, 3)), err);
		if (r == 0)
			r = mark_result(m->reg, db_text(&q, 4), marks, err);
		if (r == 0 && !dispatch_state_is_over((enum dispatch_state)db_int(&q, 1)))
			r = mark_open(m->reg, db_text(&q, 0), marks, err);
	}
	return r;
}

int
dispatch_prune(struct registry *reg, const struct dispatch_pruning *how,
               struct dispatch_pruned *ret_pruned, struct err *err)
{
	struct marking marking = { .reg = reg, .dry_run = how->dry_run };
	const struct registry_collecting collecting = { .dry_run = how->dry_run, .arg = &marking,
	                                                .more = mark_dispatches };
	struct registry_collected collected;
	struct dispatch_pruned pruned = {0};
	struct bounds *bounds = &marking.bounds;
	int r = find_bounds(registry_db(reg), how, bounds, err);

	if (r == 0)
		r = how->dry_run ? count_rows(registry_db(reg), bounds, &pruned, err) :
		    prune_rows(reg, how, bounds, &pruned, err);
	if (r == 0)
		r = registry_collect(reg, &collecting, &collected, err);
	if (r < 0)
		return r;
	pruned.blobs = collected.n;
	pruned.bytes = collected.bytes;
	*ret_pruned = pruned;
	return 0;
}
