/* dispatch_queue.c - decides which dispatch is next, and updates the rows of those under way.
 *
 * Only the driver of a dispatch, which holds its lock, changes its state. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"

/* After this time no process can still be about to start a buried cell. */
#define GRAVE_MS (24ull * 3600 * 1000)
#define ROOM_PARTS 32
#define ROOM_MS 1000                    /* after which there is another count */

static int
change(int n, const char *id, struct err *err)
{
	return n == 1 ? 0 : n < 0 ? n : err_set(err, ESTALE, "dispatch %s is not what it was", id);
}

static int
ask_number(struct db *db, int64_t *ret_n, struct err *err, const char *sql, int64_t a, int64_t b)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, sql, "sii", db_home(db), a, b);

	if (r == 0)
		r = db_next(&q, err);
	if (r > 0)
		*ret_n = db_int(&q, 0);
	return r < 0 ? r : 0;
}

/* Its place in the queue: how many run, or come before it.  A dispatch that waits for its children
 * lends them its place.  Otherwise waiting dispatches could take all places. */
static int
count_before(struct db *db, int64_t seq, int64_t *ret_n, struct err *err)
{
	OWN(freep) char *due = str_format("SELECT count(*) FROM dispatches WHERE home = ? AND state = 0 AND seq < ? AND (not_before_ms "
	                                  "- %1$s <= 0 OR not_before_ms - %1$s > ?)", db_now(db));
	int64_t running = 0, ahead = 0;
	int r = ask_number(db, &running, err, "SELECT count(*) FROM dispatches d WHERE home = ? AND "
	                   "state > 0 AND state < 3 AND ? = ? AND NOT EXISTS (SELECT 1 FROM dispatches c WHERE c.parent = d.id "
	                   "AND c.state < 3)", 0, 0);

	if (r == 0)
		r = due == NULL ? err_set(err, ENOMEM, "out of memory") : ask_number(db, &ahead, err, due, seq, DISPATCH_BACKOFF_MAX_MS);
	*ret_n = running + ahead;
	return r;
}

/* What one thread may add without another count, which is slow where thousands wait: a small part of the room, as others add,
 * too. */
struct room {
	unsigned max;
	int64_t left;
	uint64_t until_ms;
};

int
dispatch_check_room(struct db *db, unsigned max, struct err *err)
{
	static _Thread_local struct room room;
	uint64_t now = dispatch_now_ms();
	int64_t n = 0;
	int r;

	if (room.max == max && room.left > 0 && now < room.until_ms) {
		room.left--;
		return 0;
	}
	r = ask_number(db, &n, err, "SELECT count(*) FROM dispatches WHERE origin = ? AND "
	               "state < 3 AND ? = ?", 0, 0);
	room = (struct room){ max, r == 0 && *db_home(db) != '\0' ? ((int64_t)max - n) / ROOM_PARTS : 0, now + ROOM_MS };
	if (r == 0 && n >= (int64_t)max)
		r = err_set(err, EAGAIN, "%lld dispatches wait or run already: try again when some of them "
		            "are over", (long long)n);
	return r;
}

int
dispatch_begin_inside(struct db *db, const char *id, const char *cell, unsigned limit,
                      uint64_t *ret_wait_ms, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	/* By the clock that set it. */
	OWN(freep) char *look = str_format("SELECT seq, not_before_ms - %s, cancel FROM dispatches WHERE id = ? AND state = 0",
	                                   db_now(db));
	int64_t seq, wait_ms, n = 0;
	char boot[DISPATCH_BOOT_MAX];
	int r = look == NULL ? err_set(err, ENOMEM, "out of memory") : db_ask(db, &q, err, look, "s", id);

	if (r == 0)
		r = db_next(&q, err);
	if (r == 0)
		r = err_set(err, EALREADY, "dispatch %s is not waiting", id);
	if (r > 0 && db_int(&q, 2) != 0)
		r = err_set(err, ECANCELED, "dispatch %s was cancelled", id);
	if (r < 0)
		return r;
	*ret_wait_ms = 0;
	seq = db_int(&q, 0);
	wait_ms = db_int(&q, 1);
	db_finish(&q);
	/* No attempt waits longer: the clock was set back. */
	if (wait_ms > 0 && wait_ms <= DISPATCH_BACKOFF_MAX_MS) {
		*ret_wait_ms = (uint64_t)wait_ms;
		return 0;
	}
	r = count_before(db, seq, &n, err);
	if (r < 0 || n >= (int64_t)limit)
		return r;
	(void)dispatch_boot(boot);
	r = db_do(db, err, "UPDATE dispatches SET state = 1, cell = ?, boot = ?, token_hash = '', "
	          "attempts = attempts + 1, started_ms = CASE started_ms WHEN 0 THEN ? ELSE started_ms END WHERE id = ? "
	          "AND home = ?", "ssiss", cell, boot, (int64_t)dispatch_now_ms(), id, db_home(db));
	r = change(r, id, err);
	return r < 0 ? r : 1;
}

int
dispatch_begin(struct db *db, const char *id, const char *cell, unsigned limit,
               uint64_t *ret_wait_ms, struct err *err)
{
	int begun, r = db_begin(db, err);

	if (r < 0)
		return r;
	begun = dispatch_begin_inside(db, id, cell, limit, ret_wait_ms, err);
	r = db_end(db, begun < 0 ? begun : 0, err);
	return r < 0 ? r : begun;
}

int
dispatch_replace_cell(struct db *db, const char *id, const char *cell, const char *buried,
                      struct err *err)
{
	int r = db_begin(db, err);

	if (r < 0)
		return r;
	r = db_do(db, err, "INSERT INTO graves (cell, buried_ms) VALUES (?, ?) ON CONFLICT DO NOTHING", "si", buried,
	          (int64_t)dispatch_now_ms());
	if (r >= 0)
		r = change(db_do(db, err, "UPDATE dispatches SET cell = ? WHERE id = ? AND state = 1 "
		                 "AND cell = ? AND home = ?", "ssss", cell, id, buried, db_home(db)), id, err);
	return db_end(db, r, err);
}

int
dispatch_set_running(struct db *db, const char *id, struct err *err)
{
	return change(db_do(db, err, "UPDATE dispatches SET state = 2 WHERE id = ? AND state IN (1, 2) AND "
	                    "home = ?", "ss", id, db_home(db)), id, err);
}

int
dispatch_requeue(struct db *db, const char *id, uint64_t wait_ms, struct err *err)
{
	OWN(freep) char *set = str_format("UPDATE dispatches SET state = 0, not_before_ms = %s + ?, token_hash = '' WHERE id = ? AND "
	                                  "state IN (1, 2) AND home = ?", db_now(db));

	return set == NULL ? err_set(err, ENOMEM, "out of memory") :
	       change(db_do(db, err, set, "iss", (int64_t)wait_ms, id, db_home(db)), id, err);
}

void
dispatch_ending_of(json_t *event, struct dispatch_ending *ret_end)
{
	json_t *result = json_object_get(event, "result");
	const json_t *code = json_object_get(event, "exit_code");

	*ret_end = (struct dispatch_ending){ .state = DISPATCH_FAILED, .reason = dispatch_text(event, "reason"),
		.exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1,
		.result = json_is_object(result) ? result : NULL, .left = json_is_string(json_object_get(event, "left")),
		.ended_ms = dispatch_now_ms() };
	(void)dispatch_state_parse(dispatch_text(event, "state"), &ret_end->state);
}

int
dispatch_set_end_of(struct db *db, const char *id, const char *home, const struct dispatch_ending *end, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = end->result == NULL ? 0 :
	        canon_dump(end->result, DISPATCH_RESULT_MAX, &text, &len, err);

	if (r < 0)
		return r;
	return change(db_do(db, err, "UPDATE dispatches SET state = ?, exit_code = ?, reason = ?, "
	                    "result = ?, ended_ms = ?, token_hash = '' WHERE id = ? AND state < 3 AND home = ?", "iississ",
	                    (int64_t)end->state, (int64_t)end->exit_code, end->reason, text,
	                    (int64_t)end->ended_ms, id, home), id, err);
}

int
dispatch_set_end(struct db *db, const char *id, const struct dispatch_ending *end, struct err *err)
{
	return dispatch_set_end_of(db, id, db_home(db), end, err);
}

/* A grave does not tell its target. */
static int
discard(const char *cell, struct err *err)
{
	const struct target *target;
	int r = 0;

	for (size_t i = 0; r == 0 && (target = target_nth(i)) != NULL; i++)
		r = target->discard(cell, err);
	return r;
}

int
dispatch_clear_graves(struct db *db, struct err *err)
{
	int64_t before = (int64_t)(dispatch_now_ms() - GRAVE_MS);
	OWN(db_finish) struct db_query q = {0};
	char cells[64][CELL_ID_LEN + 1];
	size_t n = 0;
	int r = db_ask(db, &q, err, "SELECT cell FROM graves WHERE buried_ms < ? LIMIT 64", "i", before);

	while (r == 0 && n < ARRAY_LEN(cells) && (r = db_next(&q, err)) > 0) {
		snprintf(cells[n++], sizeof(cells[0]), "%s", db_text(&q, 0));
		r = 0;
	}
	db_finish(&q);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		r = discard(cells[i], err);
		if (r == 0)
			r = db_do(db, err, "DELETE FROM graves WHERE cell = ?", "s", cells[i]);
	}
	return r < 0 ? r : 0;
}
