/* fleet_rows.c - see fleet_rows.h. */
#include "fleet/fleet_rows.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/err.h"
#include "store/db.h"

#define SQL_MAX 512

/* The row of TARGET, made if it is missing. */
static int
make_row(struct db *db, const char *target, struct err *err)
{
	unsigned char random[FLEET_TAG_LEN / 2];
	char tag[FLEET_TAG_LEN + 1];
	int r;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), tag);
	r = db_do(db, err, "INSERT INTO fleets (target, tag) VALUES (?, ?) ON CONFLICT DO NOTHING", "ss", target, tag);
	return r < 0 ? r : 0;
}

static int
get_tag(struct db *db, const char *target, char ret_tag[FLEET_TAG_LEN + 1], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT tag FROM fleets WHERE target = ?", "s", target);

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0 && strlen(db_text(&q, 0)) != FLEET_TAG_LEN)
		return err_set(err, EUCLEAN, "the database's table 'fleets' is damaged");
	if (r > 0)
		snprintf(ret_tag, FLEET_TAG_LEN + 1, "%s", db_text(&q, 0));
	return r;
}

int
fleet_row_tag(struct db *db, const char *target, char ret_tag[FLEET_TAG_LEN + 1], struct err *err)
{
	int r = get_tag(db, target, ret_tag, err);

	if (r == 0) {
		r = make_row(db, target, err);
		r = r == 0 ? get_tag(db, target, ret_tag, err) : r;
	}
	return r < 0 ? r : 0;
}

int
fleet_lease_take(struct db *db, const char *target, char ret_tag[FLEET_TAG_LEN + 1], struct err *err)
{
	char sql[SQL_MAX];
	int r = fleet_row_tag(db, target, ret_tag, err);

	if (r < 0)
		return r;
	snprintf(sql, sizeof(sql), "UPDATE fleets SET home = ?, lease_ms = %s + ? WHERE target = ? AND (home = ? OR lease_ms < %s)",
	         db_now(db), db_now(db));
	r = db_do(db, err, sql, "siss", db_home(db), (int64_t)FLEET_LEASE_MS, target, db_home(db));
	return r > 0 ? 1 : r;
}

void
fleet_lease_drop_all(struct db *db)
{
	(void)db_do(db, NULL, "UPDATE fleets SET lease_ms = 0 WHERE home = ?", "s", db_home(db));
}

int
fleet_row_put(struct db *db, const char *target, const struct fleet_row *row, struct err *err)
{
	char sql[SQL_MAX];
	int r;

	snprintf(sql, sizeof(sql), "UPDATE fleets SET workers = ?, wanted = ?, since_ms = CASE WHEN error = ? THEN since_ms ELSE %s "
	         "END, error = ? WHERE target = ? AND home = ?", db_now(db));
	r = db_do(db, err, sql, "iissss", (int64_t)row->workers, (int64_t)row->wanted, row->error, row->error, target, db_home(db));
	return r < 0 ? r : 0;
}

int
fleet_row_get(struct db *db, const char *target, struct fleet_row *ret_row, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT workers, wanted, error, since_ms FROM fleets WHERE target = ?", "s",
	               target);

	r = r == 0 ? db_next(&q, err) : r;
	if (r <= 0)
		return r;
	*ret_row = (struct fleet_row){ .workers = (unsigned)db_int(&q, 0), .wanted = (unsigned)db_int(&q, 1),
	                               .since_ms = (uint64_t)db_int(&q, 3) };
	fleet_say(ret_row->error, sizeof(ret_row->error), db_text(&q, 2));
	return 1;
}

int
fleet_rows_each(struct db *db, void (*each)(void *arg, const char *target, const struct fleet_row *row), void *arg,
                struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT target, workers, wanted, error FROM fleets ORDER BY target", "");

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		struct fleet_row row = { .workers = (unsigned)db_int(&q, 1), .wanted = (unsigned)db_int(&q, 2) };

		fleet_say(row.error, sizeof(row.error), db_text(&q, 3));
		each(arg, db_text(&q, 0), &row);
		r = 0;
	}
	return r;
}

json_t *
fleet_row_json(struct db *db, const char *target)
{
	struct fleet_row row;

	if (fleet_row_get(db, target, &row, NULL) <= 0)
		return json_null();
	return json_pack("{s:i, s:i, s:s?, s:o}", "workers", (int)row.workers, "wanted", (int)row.wanted, "error",
	                 *row.error != '\0' ? row.error : NULL, "since",
	                 *row.error != '\0' ? json_integer((json_int_t)row.since_ms) : json_null());
}
