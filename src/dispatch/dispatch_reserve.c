/* dispatch_reserve.c - slots that are kept ready for dispatches to come, and the workers that have them.
 *
 * A reserve only makes the autoscaler start workers, and workers stay: it holds a slot against nobody.  Reserves and the
 * presence of workers are rows with a short time, by the database's clock.  One that lasts longer than any can was made before
 * that clock was set back, and counts as over. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "fleet/fleet_rows.h"
#include "registry/registry.h"
#include "store/db.h"

#define SQL_MAX 1024
#define PLACE_MAX (sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX + DB_HOME_MAX)
#define HERE "home:"                    /* of a place: cells of the machine with this data folder */

/* ---- who shares what ---- */

/* Reserves of one place share its slots: a pool's, or those of this data folder's machine. */
static void
place_of(struct db *db, const char *target, char ret_place[PLACE_MAX])
{
	if (target_pool(target) != NULL)
		snprintf(ret_place, PLACE_MAX, "%s", target);
	else
		snprintf(ret_place, PLACE_MAX, HERE "%s", db_home(db));
}

static int
ask_number(struct db *db, const char *sql, const char *text, int64_t *ret_n, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, sql, "s", text);

	r = r == 0 ? db_next(&q, err) : r;
	*ret_n = r > 0 ? db_int(&q, 0) : 0;
	return r < 0 ? r : 0;
}

/* Slots at PLACE without a dispatch; those that wait will take theirs.  LOCAL: how many this machine has. */
static int
count_free(struct db *db, const char *place, unsigned local, int64_t *ret_free, struct err *err)
{
	bool here = target_pool(place) == NULL;
	int64_t has = local, busy = 0;
	char sql[SQL_MAX];
	int r = 0;

	if (!here) {
		snprintf(sql, sizeof(sql), "SELECT coalesce(sum(slots), 0) FROM workers WHERE pool = ? AND seen_ms BETWEEN %s - %d AND %s",
		         db_now(db), DISPATCH_SEEN_MS, db_now(db));
		r = ask_number(db, sql, target_pool(place), &has, err);
	}
	r = r == 0 ? ask_number(db, here ? "SELECT count(*) FROM dispatches WHERE home = ? AND state < 3 AND target NOT LIKE 'pool:%'" :
	                        "SELECT count(*) FROM dispatches WHERE target = ? AND state < 3", here ? db_home(db) : place, &busy, err) : r;
	*ret_free = has > busy ? has - busy : 0;
	return r;
}

/* ---- reserves ---- */

#define LIVE "until_ms BETWEEN %s AND %s + %d"

static int
drop_over(struct db *db, struct err *err)
{
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql), "DELETE FROM reserves WHERE NOT (" LIVE ")", db_now(db), db_now(db), DISPATCH_RESERVE_MS);
	r = db_do(db, err, sql, "");
	return r < 0 ? r : 0;
}

static int
put_row(struct db *db, const struct dispatch_reserve *ask, const char *place, unsigned slots, struct err *err)
{
	const bool is_agents = strncmp(ask->name, DISPATCH_RESERVE_AGENTS, strlen(DISPATCH_RESERVE_AGENTS)) == 0;
	const int most = is_agents ? DISPATCH_RESERVES_MAX / 2 : DISPATCH_RESERVES_MAX;
	char sql[SQL_MAX];
	int64_t others;
	int r = ask_number(db, is_agents ? "SELECT count(*) FROM reserves WHERE name <> ? AND name LIKE '" DISPATCH_RESERVE_AGENTS "%'" :
	                   "SELECT count(*) FROM reserves WHERE name <> ?", ask->name, &others, err);

	if (r == 0 && others >= most)
		r = err_set(err, EDQUOT, "there are %d reserves already, which is the maximum: release one", most);
	if (r < 0)
		return r;
	snprintf(sql, sizeof(sql), "INSERT INTO reserves (name, place, agent, slots, until_ms) VALUES (?, ?, ?, ?, %s + %d) ON CONFLICT "
	         "(name) DO UPDATE SET place = excluded.place, agent = excluded.agent, slots = excluded.slots, until_ms = "
	         "excluded.until_ms", db_now(db), DISPATCH_RESERVE_MS);
	r = db_do(db, err, sql, "sssi", ask->name, place, ask->agent, (int64_t)slots);
	return r < 0 ? r : 0;
}

/* What ASK gets of the free slots of PLACE: small reserves come first, so that a large one takes nothing from them. */
static int
share(struct db *db, const struct dispatch_reserve *ask, const char *place, int64_t spare, struct dispatch_reserved *reserved,
      struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT coalesce(sum(slots), 0) FROM reserves WHERE place = ? AND (slots < ? OR (slots = ? AND name < ?))",
	               "siis", place, (int64_t)reserved->slots, (int64_t)reserved->slots, ask->name);

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		spare = spare > db_int(&q, 0) ? spare - db_int(&q, 0) : 0;
	reserved->free = spare < (int64_t)reserved->slots ? (unsigned)spare : reserved->slots;
	return r < 0 ? r : 0;
}

static int
had_slots(struct db *db, const char *name, int64_t *ret_slots, struct err *err)
{
	return ask_number(db, "SELECT slots FROM reserves WHERE name = ?", name, ret_slots, err);
}

static int
change(struct db *db, const struct dispatch_reserve *ask, const char *place, int64_t spare, struct dispatch_reserved *reserved,
       struct err *err)
{
	int64_t had = 0;
	int r = drop_over(db, err);

	r = r == 0 ? had_slots(db, ask->name, &had, err) : r;
	if (r < 0)
		return r;
	reserved->changed = had != (int64_t)reserved->slots;
	if (reserved->slots == 0) {
		r = db_do(db, err, "DELETE FROM reserves WHERE name = ?", "s", ask->name);
		return r < 0 ? r : 0;
	}
	r = put_row(db, ask, place, reserved->slots, err);
	return r == 0 ? share(db, ask, place, spare, reserved, err) : r;
}

static unsigned
least(uint64_t a, uint64_t b)
{
	return (unsigned)(a < b ? a : b);
}

int
dispatch_reserve(struct registry *reg, const struct dispatch_reserve *ask, struct dispatch_reserved *ret_reserved, struct err *err)
{
	struct dispatch_reserved reserved = {0};
	struct db *db = registry_db(reg);
	char place[PLACE_MAX] = "";
	uint64_t most = ask->local;
	int64_t spare = 0;
	int r = 0;

	if (ask->slots > 0) {
		r = dispatch_find_place(reg, ask->agent, reserved.target, &most, err);
		place_of(db, reserved.target, place);
		most = target_pool(reserved.target) != NULL ? most : ask->local;
		r = r == 0 ? count_free(db, place, ask->local, &spare, err) : r;
	}
	reserved.slots = least(ask->slots, most);
	r = r == 0 ? db_begin(db, err) : r;
	if (r < 0)
		return r;
	r = db_end(db, change(db, ask, place, spare, &reserved, err), err);
	if (r == 0)
		*ret_reserved = reserved;
	return r;
}

int
dispatch_count_reserves(struct registry *reg, const char *pool, uint64_t *ret_slots, uint64_t *ret_free, struct err *err)
{
	char sql[SQL_MAX], target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX];
	struct db *db = registry_db(reg);
	int64_t slots = 0, spare = 0;
	int r;

	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	snprintf(sql, sizeof(sql), "SELECT coalesce(sum(slots), 0) FROM reserves WHERE place = ? AND " LIVE, db_now(db), db_now(db),
	         DISPATCH_RESERVE_MS);
	r = ask_number(db, sql, target, &slots, err);
	r = r == 0 && ret_free != NULL ? count_free(db, target, 0, &spare, err) : r;
	if (r < 0)
		return r;
	*ret_slots = (uint64_t)slots;
	if (ret_free != NULL)
		*ret_free = (uint64_t)spare;
	return 0;
}

int
dispatch_each_reserved(struct registry *reg, void (*each)(void *arg, const char *pool, uint64_t slots), void *arg, struct err *err)
{
	struct db *db = registry_db(reg);
	OWN(db_finish) struct db_query q = {0};
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql), "SELECT place, sum(slots) FROM reserves WHERE place LIKE 'pool:%%' AND " LIVE " GROUP BY place ORDER BY "
	         "place", db_now(db), db_now(db), DISPATCH_RESERVE_MS);
	r = db_ask(db, &q, err, sql, "");
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		each(arg, db_text(&q, 0) + strlen(TARGET_POOL), (uint64_t)db_int(&q, 1));
		r = 0;
	}
	return r;
}

json_t *
dispatch_target_status(struct registry *reg, const char *name, const json_t *content)
{
	json_t *status = fleet_row_json(registry_db(reg), name);
	uint64_t slots, spare;

	if (json_is_object(status) && dispatch_count_reserves(reg, dispatch_text(content, "pool"), &slots, &spare, NULL) == 0) {
		json_object_set_new(status, "reserved", json_integer((json_int_t)slots));
		json_object_set_new(status, "free", json_integer((json_int_t)spare));
	}
	return status;
}

int
dispatch_list_reserves(struct registry *reg, json_t **ret_list, struct err *err)
{
	struct db *db = registry_db(reg);
	OWN(json_decrefp) json_t *list = json_array();
	OWN(db_finish) struct db_query q = {0};
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql), "SELECT name, place, agent, slots, until_ms - %s FROM reserves WHERE " LIVE " ORDER BY name LIMIT %d",
	         db_now(db), db_now(db), db_now(db), DISPATCH_RESERVE_MS, DISPATCH_RESERVES_MAX);
	r = db_ask(db, &q, err, sql, "");
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		const char *place = db_text(&q, 1);

		(void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", db_text(&q, 0), "target",
			target_pool(place) != NULL ? place : DISPATCH_TARGET, "agent", db_text(&q, 2), "slots",
			(json_int_t)db_int(&q, 3), "left_ms", (json_int_t)db_int(&q, 4)));
		r = 0;
	}
	if (r == 0)
		*ret_list = TAKE(list);
	return r;
}

/* ---- workers ---- */

int
dispatch_worker_stays(struct db *db, const char *pool, unsigned slots, struct err *err)
{
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql), "DELETE FROM workers WHERE seen_ms NOT BETWEEN %s - %d AND %s", db_now(db), DISPATCH_SEEN_MS, db_now(db));
	r = db_do(db, err, sql, "");
	snprintf(sql, sizeof(sql), "INSERT INTO workers (home, pool, slots, seen_ms) VALUES (?, ?, ?, %s) ON CONFLICT (home) DO UPDATE SET "
	         "pool = excluded.pool, slots = excluded.slots, seen_ms = excluded.seen_ms", db_now(db));
	r = r < 0 ? r : db_do(db, err, sql, "ssi", db_home(db), pool, (int64_t)slots);
	return r < 0 ? r : 0;
}

void
dispatch_worker_leaves(struct db *db)
{
	(void)db_do(db, NULL, "DELETE FROM workers WHERE home = ?", "s", db_home(db));
}

/* Whether the other workers have slots enough for what is reserved, and for what runs or waits. */
static int
is_spare(struct registry *reg, const char *pool, struct err *err)
{
	char sql[SQL_MAX], target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX];
	struct db *db = registry_db(reg);
	uint64_t reserved = 0;
	int64_t open = 0;
	OWN(db_finish) struct db_query q = {0};
	int r = dispatch_count_reserves(reg, pool, &reserved, NULL, err);

	if (r < 0 || reserved == 0)
		return r < 0 ? r : 1;
	snprintf(target, sizeof(target), TARGET_POOL "%s", pool);
	r = ask_number(db, "SELECT count(*) FROM dispatches WHERE target = ? AND state < 3", target, &open, err);
	snprintf(sql, sizeof(sql), "SELECT coalesce(sum(slots), 0) FROM workers WHERE pool = ? AND home <> ? AND seen_ms BETWEEN %s - %d "
	         "AND %s", db_now(db), DISPATCH_SEEN_MS, db_now(db));
	r = r == 0 ? db_ask(db, &q, err, sql, "ss", pool, db_home(db)) : r;
	r = r == 0 ? db_next(&q, err) : r;
	return r < 0 ? r : r > 0 && (uint64_t)db_int(&q, 0) >= reserved + (uint64_t)open;
}

bool
dispatch_worker_may_leave(struct registry *reg, const char *pool)
{
	struct db *db = registry_db(reg);
	int r = db_begin(db, NULL);

	if (r < 0)
		return true;
	r = is_spare(reg, pool, NULL);
	/* In the same transaction: of two, the second one sees that the first has left. */
	if (r > 0)
		dispatch_worker_leaves(db);
	return db_end(db, r < 0 ? r : 0, NULL) < 0 || r != 0;
}
