/* dispatch_store.c - reads dispatches from the registry's database. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_spec.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "registry/registry.h"

static const char *const state_names[DISPATCH_STATES] = {
	"queued", "starting", "running", "finished", "failed", "cancelled", "timed_out",
};

const char *
dispatch_state_name(enum dispatch_state state)
{
	return state_names[state];
}

int
dispatch_state_parse(const char *name, enum dispatch_state *ret_state)
{
	for (int i = 0; i < DISPATCH_STATES; i++)
		if (strcmp(state_names[i], name) == 0) {
			*ret_state = (enum dispatch_state)i;
			return 0;
		}
	return -EINVAL;
}

bool
dispatch_state_is_over(enum dispatch_state state)
{
	return state >= DISPATCH_FINISHED;
}

void
dispatch_free(struct dispatch *d)
{
	char *const fields[] = { d->agent, d->agent_hash, d->principal, d->parent, d->chain, d->target,
	                         d->policy_hash, d->build_hash, d->cell, d->reason, d->resolved };

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		free(fields[i]);
	*d = (struct dispatch){0};
}

/* ---- one row ---- */

int
dispatch_read_row(const struct db_query *q, struct dispatch *ret_d, struct err *err)
{
	struct dispatch d = {
		.seq = db_int(q, 0), .state = (enum dispatch_state)db_int(q, 2),
		.agent = strdup(db_text(q, 3)), .agent_hash = strdup(db_text(q, 4)),
		.principal = strdup(db_text(q, 5)), .parent = strdup(db_text(q, 6)),
		.chain = strdup(db_text(q, 7)), .depth = (unsigned)db_int(q, 8),
		.target = strdup(db_text(q, 9)), .policy_hash = strdup(db_text(q, 10)),
		.build_hash = strdup(db_text(q, 11)), .retries = (unsigned)db_int(q, 12),
		.attempts = (unsigned)db_int(q, 13), .timeout_ms = (uint64_t)db_int(q, 14),
		.cell = strdup(db_text(q, 15)), .cancel = db_int(q, 16) != 0,
		.cancel_now = db_int(q, 16) > 1,
		.created_ms = (uint64_t)db_int(q, 17), .started_ms = (uint64_t)db_int(q, 18),
		.ended_ms = (uint64_t)db_int(q, 19), .exit_code = (int)db_int(q, 20),
		.reason = strdup(db_text(q, 21)), .away = strcmp(db_text(q, 23), db_home(q->db)) != 0,
		.mine = strcmp(db_text(q, 24), db_home(q->db)) == 0, .claim = (uint64_t)db_int(q, 25),
	};

	/* Folders and sockets have its name. */
	if (d.cell != NULL && !cell_id_ok(d.cell))
		d.cell[0] = '\0';
	snprintf(d.id, sizeof(d.id), "%s", db_text(q, 1));
	snprintf(d.boot, sizeof(d.boot), "%s", db_text(q, 22));
	snprintf(d.home, sizeof(d.home), "%s", db_text(q, 23));
	snprintf(d.origin, sizeof(d.origin), "%s", db_text(q, 24));
	if (d.agent == NULL || d.agent_hash == NULL || d.principal == NULL || d.parent == NULL ||
	    d.chain == NULL || d.target == NULL || d.policy_hash == NULL || d.build_hash == NULL ||
	    d.cell == NULL || d.reason == NULL) {
		dispatch_free(&d);
		return err_set(err, ENOMEM, "out of memory");
	}
	*ret_d = d;
	return 0;
}

int
dispatch_target(const struct dispatch *d, const struct target **ret_target, struct err *err)
{
	return target_find(d->target, ret_target, err);
}

static void
set_time(json_t *o, const char *name, uint64_t ms)
{
	char text[DISPATCH_TIME_MAX];

	json_object_set_new(o, name, ms == 0 ? json_null() : json_string(dispatch_show_time(text, ms)));
}

static json_t *
or_null(const char *text)
{
	return text[0] != '\0' ? json_string(text) : json_null();
}

json_t *
dispatch_to_json(const struct dispatch *d)
{
	json_t *o = json_pack("{s:s,s:s,s:{s:s,s:s},s:s,s:i,s:s,s:i,s:i,s:b}",
	                      "id", d->id, "state", dispatch_state_name(d->state),
	                      "agent", "name", d->agent, "hash", d->agent_hash, "chain", d->chain,
	                      "depth", (int)d->depth, "target", d->target, "retries", (int)d->retries,
	                      "attempts", (int)d->attempts, "cancel", (int)d->cancel);

	if (o == NULL)
		return NULL;
	json_object_set_new(o, "seq", json_integer(d->seq));
	json_object_set_new(o, "principal", or_null(d->principal));
	json_object_set_new(o, "parent", or_null(d->parent));
	json_object_set_new(o, "policy", or_null(d->policy_hash));
	json_object_set_new(o, "build", or_null(d->build_hash));
	json_object_set_new(o, "cell", or_null(d->cell));
	json_object_set_new(o, "reason", or_null(d->reason));
	json_object_set_new(o, "timeout_ms", d->timeout_ms == 0 ? json_null() :
	                    json_integer((json_int_t)d->timeout_ms));
	json_object_set_new(o, "exit_code", d->state == DISPATCH_FINISHED ?
	                    json_integer(d->exit_code) : json_null());
	set_time(o, "created", d->created_ms);
	set_time(o, "started", d->started_ms);
	set_time(o, "ended", d->ended_ms);
	return o;
}

int
dispatch_read(struct db *db, const char *id, struct dispatch *ret_d, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT " DISPATCH_COLUMNS " FROM dispatches WHERE id = ?", "s", id);

	if (r == 0)
		r = db_next(&q, err);
	if (r == 0)
		return err_set(err, ENOENT, "there is no dispatch '%.64s': see `cloister dispatches`", id);
	return r < 0 ? r : dispatch_read_row(&q, ret_d, err);
}

/* ---- public queries ---- */

/* Its end is in its events, but not yet in its row. */
static int
anticipate(struct dispatch *d, struct err *err)
{
	OWN(json_decrefp) json_t *end = dispatch_state_is_over(d->state) ? NULL : dispatch_peek_end(d->id);
	struct dispatch_ending ending;
	char *reason;

	if (end == NULL || dispatch_state_parse(dispatch_text(end, "state"), &d->state) < 0)
		return 0;
	dispatch_ending_of(end, &ending);
	reason = strdup(ending.reason);
	if (reason == NULL)
		return err_set(err, ENOMEM, "out of memory");
	free(d->reason);
	d->reason = reason;
	d->exit_code = ending.exit_code;
	d->ended_ms = ending.ended_ms;
	return 0;
}

int
dispatch_get(struct registry *reg, const char *id, struct dispatch *ret_d, struct err *err)
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(db_finish) struct db_query q = {0};
	char end[DISPATCH_ID_LEN + 2];
	size_t len = strlen(id);
	int r, n = 0;

	if (len > 0 && len < DISPATCH_PREFIX_MIN)
		return err_set(err, ENOENT, "there is no dispatch '%s': write %d letters of its id at least",
		               id, DISPATCH_PREFIX_MIN);
	if (len == 0 || len > DISPATCH_ID_LEN)
		return err_set(err, ENOENT, "there is no dispatch '%.64s': see `cloister dispatches`", id);
	snprintf(end, sizeof(end), "%s~", id);          /* sorts behind every letter of an id */
	r = db_ask(registry_db(reg), &q, err, "SELECT " DISPATCH_COLUMNS ", resolved FROM dispatches WHERE id >= ? AND "
	           "id < ? LIMIT 2", "ss", id, end);
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		n++;
		dispatch_free(&d);
		r = dispatch_read_row(&q, &d, err);
		if (r == 0 && (d.resolved = strdup(db_text(&q, DISPATCH_N_COLUMNS))) == NULL)
			r = err_set(err, ENOMEM, "out of memory");
	}
	if (r < 0)
		return r;
	if (n == 0)
		return err_set(err, ENOENT, "there is no dispatch '%.64s': see `cloister dispatches`", id);
	if (n > 1)
		return err_set(err, ENOTUNIQ, "'%s' could be several dispatches: give more of the id", id);
	r = anticipate(&d, err);
	if (r < 0)
		return r;
	*ret_d = d;
	d = (struct dispatch){0};
	return 0;
}

/* A JSON column of ID (in full); null if it is empty. */
static int
get_json(struct registry *reg, const char *sql, const char *id, json_t **ret_value, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	const char *text;
	int r = db_ask(registry_db(reg), &q, err, sql, "s", id);

	if (r == 0)
		r = db_next(&q, err);
	if (r == 0)
		return err_set(err, ENOENT, "there is no dispatch '%.64s': see `cloister dispatches`", id);
	if (r < 0)
		return r;
	text = db_text(&q, 0);
	if (text[0] == '\0') {
		*ret_value = json_null();
		return 0;
	}
	return canon_read(text, strlen(text), ret_value, err);
}

int
dispatch_get_resolved(struct registry *reg, const char *id, json_t **ret_resolved, struct err *err)
{
	return get_json(reg, "SELECT resolved FROM dispatches WHERE id = ?", id, ret_resolved, err);
}

int
dispatch_get_asked(struct registry *reg, const char *id, json_t **ret_resolved, struct err *err)
{
	OWN(closep) int folder = -1;
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (registry_store() == NULL)
		return dispatch_get_resolved(reg, id, ret_resolved, err);
	folder = dispatch_folder(id, false, NULL);
	r = folder < 0 ? -ENOENT : read_file_at(folder, DISPATCH_ASKED_FILE, DISPATCH_JSON_MAX, &text, &len, err);
	if (r == -ENOENT)
		return err_set(err, EPERM, "dispatch %s was not asked for on this machine, although the database says so", id);
	return r < 0 ? r : canon_read(text, len, ret_resolved, err);
}

int
dispatch_get_to_run(struct registry *reg, const struct dispatch *d, json_t **ret_resolved, struct err *err)
{
	/* A worker has no record of its own of what others asked for. */
	if (d->mine && target_pool(d->target) == NULL)
		return dispatch_get_asked(reg, d->id, ret_resolved, err);
	return d->resolved != NULL ? dispatch_read_resolved(d, ret_resolved, err) :
	       dispatch_get_resolved(reg, d->id, ret_resolved, err);
}

int
dispatch_read_resolved(const struct dispatch *d, json_t **ret_resolved, struct err *err)
{
	return canon_read(d->resolved, strlen(d->resolved), ret_resolved, err);
}

int
dispatch_get_result(struct registry *reg, const char *id, json_t **ret_result, struct err *err)
{
	OWN(json_decrefp) json_t *end = NULL;
	OWN(dispatch_free) struct dispatch d = {0};
	int r = dispatch_get(reg, id, &d, err);

	if (r == 0)
		r = get_json(reg, "SELECT result FROM dispatches WHERE id = ?", d.id, ret_result, err);
	if (r == 0 && json_is_null(*ret_result) && dispatch_state_is_over(d.state) &&
	    (end = dispatch_peek_end(d.id)) != NULL)
		*ret_result = json_incref(json_object_get(end, "result"));
	return r;
}

/* Each database finds the rows by an index of COLUMN and seq, in their order, if it is asked in its own way. */
#define BY_EACH(column) column " = ?1 AND seq < ?2"
#define BY_BOTH(column) "(" column ", seq) > (?1, 0) AND (" column ", seq) < (?1, ?2)"
#define NEWEST(which, first) "SELECT " DISPATCH_COLUMNS " FROM dispatches WHERE " which " AND (?3 < 0 OR state = ?3) ORDER BY " \
	first "seq DESC LIMIT ?4"

int
dispatch_list(struct registry *reg, const struct dispatch_filter *filter,
              int (*each)(void *arg, const struct dispatch *d), void *arg, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int64_t limit = filter->limit == 0 || filter->limit > DISPATCH_LIST_MAX ? DISPATCH_LIST_MAX :
	                filter->limit;
	int64_t before = filter->before > 0 ? filter->before : INT64_MAX;
	bool is_shared = *db_home(registry_db(reg)) != '\0';
	int r;

	/* A separate query for each, so that each uses its index. */
	if (filter->parent != NULL)
		r = db_ask(registry_db(reg), &q, err, is_shared ? NEWEST(BY_BOTH("parent"), "parent DESC, ") : NEWEST(BY_EACH("parent"), ""),
		           "siii", filter->parent, before, (int64_t)filter->state, limit);
	else if (filter->state >= 0)
		r = db_ask(registry_db(reg), &q, err, is_shared ? NEWEST(BY_BOTH("state"), "state DESC, ") : NEWEST(BY_EACH("state"), ""),
		           "iiii", (int64_t)filter->state, before, (int64_t)filter->state, limit);
	else
		r = db_ask(registry_db(reg), &q, err, "SELECT " DISPATCH_COLUMNS " FROM dispatches WHERE seq < ? "
		           "ORDER BY seq DESC LIMIT ?", "ii", before, limit);
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		OWN(dispatch_free) struct dispatch d = {0};

		r = dispatch_read_row(&q, &d, err);
		if (r == 0)
			r = each(arg, &d);
	}
	return r;
}

int
dispatch_count(struct registry *reg, uint64_t ret_counts[DISPATCH_STATES], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(registry_db(reg), &q, err, "SELECT state, count(*) FROM dispatches GROUP BY state",
	               "");

	memset(ret_counts, 0, DISPATCH_STATES * sizeof(*ret_counts));
	while (r == 0 && (r = db_next(&q, err)) > 0) {
		int64_t state = db_int(&q, 0);

		if (state >= 0 && state < DISPATCH_STATES)
			ret_counts[state] = (uint64_t)db_int(&q, 1);
		r = 0;
	}
	return r;
}

int
dispatch_count_pools(struct registry *reg, void (*each)(void *arg, const char *pool, uint64_t waiting, uint64_t taken,
                     uint64_t oldest_ms), void *arg, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(registry_db(reg), &q, err, "SELECT target, sum(CASE WHEN home = '' THEN 1 ELSE 0 END), sum(CASE WHEN home "
	               "= '' THEN 0 ELSE 1 END), min(CASE WHEN home = '' THEN created_ms END) FROM dispatches WHERE state < 3 AND "
	               "target LIKE 'pool:%' GROUP BY target ORDER BY target", "");

	while (r == 0 && (r = db_next(&q, err)) > 0) {
		each(arg, db_text(&q, 0) + strlen(TARGET_POOL), (uint64_t)db_int(&q, 1), (uint64_t)db_int(&q, 2),
		     (uint64_t)db_int(&q, 3));
		r = 0;
	}
	return r;
}

/* All of the first column. */
static int
take_ids(struct db_query *q, char ***ret_ids, struct err *err)
{
	OWN(strv_freep) char **ids = NULL;
	size_t n = 0;
	int r = 0;

	while (r == 0 && (r = db_next(q, err)) > 0) {
		char **more = reallocarray(ids, n + 2, sizeof(*ids));

		if (more == NULL)
			return err_set(err, ENOMEM, "out of memory");
		ids = more;
		ids[n] = strdup(db_text(q, 0));
		ids[++n] = NULL;
		r = ids[n - 1] == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	if (r < 0)
		return r;
	if (ids == NULL && (ids = calloc(1, sizeof(*ids))) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_ids = TAKE(ids);
	return 0;
}

int
dispatch_list_open(struct db *db, bool held, char ***ret_ids, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	/* "+ 0": else SQLite and Postgres may go through all rows, which are in that order. */
	int r = db_ask(db, &q, err, "SELECT id FROM dispatches WHERE (home = ?1 OR (?2 = 0 AND origin = ?1)) AND "
	               "state < 3 ORDER BY seq + 0", "si", db_home(db), (int64_t)held);

	return r < 0 ? r : take_ids(&q, ret_ids, err);
}

static int
newest_seq(struct db *db, int64_t *ret_seq, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT coalesce(max(seq), 0) FROM dispatches", "");

	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		*ret_seq = db_int(&q, 0);
	return r < 0 ? r : 0;
}

int
dispatch_list_ended(struct db *db, int64_t *seq, char ***ret_ids, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int64_t newest = 0;
	int r = newest_seq(db, &newest, err);

	r = r == 0 ? db_ask(db, &q, err, "SELECT id FROM dispatches WHERE seq > ? AND seq <= ? AND origin = ? AND state >= 3 AND "
	                    "target LIKE 'pool:%' ORDER BY seq", "iis", *seq >= 0 ? *seq : newest, newest, db_home(db)) : r;
	r = r == 0 ? take_ids(&q, ret_ids, err) : r;
	if (r == 0)
		*seq = newest;
	return r;
}
