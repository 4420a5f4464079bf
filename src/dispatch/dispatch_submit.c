/* dispatch_submit.c - accepts a request: once it is answered, nothing loses it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "store/db.h"
#include "registry/registry.h"

static void
put_words(json_t *o, const char *name, const char *const *words, size_t n)
{
	OWN(json_decrefp) json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(words[i]));
	if (n > 0)
		json_object_set(o, name, list);
}

/* Hashes the request as it was written: a key must mean the same request both times. */
static int
hash_request(const struct dispatch_request *request, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(json_decrefp) json_t *o = json_object(), *envs = json_array();
	unsigned char hash[HASH_LEN];

	for (size_t i = 0; i < request->n_envs; i++)
		json_array_append_new(envs, json_string(request->envs[i]));
	if (request->input != NULL) {
		hash_of(request->input, request->input_len, hash);
		hash_name(hash, ret_hash);
		json_object_set_new(o, "input", json_string(ret_hash));
	}
	json_object_set_new(o, "agent", json_string(request->agent));
	json_object_set(o, "env", envs);
	json_object_set_new(o, "on_behalf_of",
	                    json_string(request->principal != NULL ? request->principal : ""));
	json_object_set_new(o, "retries", json_integer((json_int_t)request->retries));
	json_object_set_new(o, "timeout_ms", json_integer((json_int_t)request->timeout_ms));
	/* Left out if they are not used, as requests were hashed before they existed. */
	put_words(o, "capabilities", request->capabilities, request->n_capabilities);
	put_words(o, "secrets", request->secrets, request->n_secrets);
	if (request->image != NULL)
		json_object_set_new(o, "image", json_string(request->image));
	if (request->record != NULL)
		json_object_set_new(o, "record", json_string(request->record));
	if (request->sandbox)
		json_object_set_new(o, "sandbox", json_true());
	if (request->target != NULL && strcmp(request->target, DISPATCH_TARGET) != 0)
		json_object_set_new(o, "target", json_string(request->target));
	return dispatch_hash_json(o, DISPATCH_JSON_MAX, ret_hash, err);
}

/* 1: that key was used for that request; *ret_id is the dispatch. */
static int
find_key(struct db *db, const struct dispatch_request *request, const char *hash,
         char ret_id[DISPATCH_ID_LEN + 1], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r;

	if (request->key == NULL)
		return 0;
	r = db_ask(db, &q, err, "SELECT id, request_hash FROM dispatches WHERE parent = ? AND key = ?",
	           "ss", request->parent != NULL ? request->parent : "", request->key);
	if (r == 0)
		r = db_next(&q, err);
	if (r <= 0)
		return r;
	if (strcmp(db_text(&q, 1), hash) != 0)
		return err_set(err, EEXIST, "the idempotency key '%s' was used for another request, which "
		               "became dispatch %s: choose another key", request->key, db_text(&q, 0));
	snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", db_text(&q, 0));
	return 1;
}

/* ---- delegation ---- */

void
dispatch_descent_free(struct dispatch_descent *descent)
{
	dispatch_free(&descent->parent);
}

static int
count_children(struct db *db, const char *parent, unsigned *ret_n, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT count(*) FROM dispatches WHERE parent = ?", "s", parent);

	if (r == 0)
		r = db_next(&q, err);
	if (r > 0)
		*ret_n = (unsigned)db_int(&q, 0);
	return r < 0 ? r : 0;
}

/* For a dispatch_parent; ARG is the registry. */
static int
read_policy(void *arg, const char *hash, char **ret_text, size_t *ret_len, struct err *err)
{
	return registry_read_blob(arg, hash, POLICY_FILE_MAX, ret_text, ret_len, err);
}

/* Whether the cell of D, the requesting dispatch or one above it, still has all rights that it was given. */
static int
check_has_all(const struct dispatch *d, bool is_parent, struct err *err)
{
	struct target_order ask = { .verb = TARGET_LOST_RIGHTS };
	const struct target *target;
	enum target_state state;
	struct err reason = {0};
	int r;

	if (d->state == DISPATCH_QUEUED)
		return 0;
	r = dispatch_target(d, &target, err);
	if (r < 0)
		return r;
	state = target->look(d->cell);
	if (d->state == DISPATCH_STARTING && (state == TARGET_NONE || state == TARGET_BURIED))
		return 0;
	/* The cell is gone, so its last state cannot be asked for.  A dispatch that finishes leaves
	 * its children their rights, and they leave them to theirs. */
	if (state != TARGET_LIVE)
		return is_parent ? err_set(err, EPERM, "the dispatch that asks for this is over") : 0;
	if (target->control(d->cell, &ask, &reason) < 0)
		return err_set(err, EPERM, "the agent '%s' may not dispatch others now: its cell %s cannot be "
		               "asked what it still has: %s", d->agent, d->cell, reason.text);
	return ask.lost == 0 ? 0 : err_set(err, EPERM, "the agent '%s' may not dispatch others any more%s: %s",
	                                d->agent, is_parent ? "" : ", and so may none that it dispatched",
	                                dispatch_lost_text(ask.lost));
}

/* A child is held to its parent's resolution, and so on up.  All of their cells must still have
 * those rights. */
static int
check_in_force(struct registry *reg, const struct dispatch_request *request, struct err *err)
{
	char id[DISPATCH_ID_LEN + 1];
	int r = 0;

	snprintf(id, sizeof(id), "%s", request->parent != NULL ? request->parent : "");
	for (bool is_parent = true; r == 0 && id[0] != '\0'; is_parent = false) {
		OWN(dispatch_free) struct dispatch d = {0};

		r = dispatch_read(registry_db(reg), id, &d, err);
		r = r == 0 ? check_has_all(&d, is_parent, err) : r;
		if (r == 0)
			snprintf(id, sizeof(id), "%s", d.parent);
	}
	return r;
}

int
dispatch_descend(struct registry *reg, const struct dispatch_request *request,
                 struct dispatch_plan *plan, struct dispatch_descent *ret, struct err *err)
{
	const char *name = dispatch_text(json_object_get(plan->resolved, "agent"), "name");
	struct dispatch_parent parent = { .d = &ret->parent, .chain = ret->chain, .read = read_policy,
	                                  .arg = reg, .now_ms = dispatch_now_ms() };
	OWN(json_decrefp) json_t *resolved = NULL;
	int r;

	if (request->parent == NULL) {
		snprintf(ret->chain, sizeof(ret->chain), "%s", name);
		return dispatch_mcp_offer(NULL, plan, err);
	}
	r = dispatch_read(registry_db(reg), request->parent, &ret->parent, err);
	if (r == 0)
		r = dispatch_get_resolved(reg, request->parent, &resolved, err);
	if (r == 0)
		r = count_children(registry_db(reg), request->parent, &parent.n_children, err);
	if (r < 0)
		return r;
	if (dispatch_state_is_over(ret->parent.state))
		return err_set(err, EPERM, "the dispatch that asks for this is over");
	if (request->principal != NULL && request->principal[0] != '\0' &&
	    strcmp(request->principal, ret->parent.principal) != 0)
		return err_set(err, EPERM, "an agent acts for the principal of its own dispatch");
	ret->depth = ret->parent.depth + 1;
	if (ret->depth >= DISPATCH_DEPTH_MAX ||
	    snprintf(ret->chain, sizeof(ret->chain), "%s/%s", ret->parent.chain, name) >=
	    (int)sizeof(ret->chain))
		return err_set(err, EPERM, "agents dispatch one another %d deep at most",
		               DISPATCH_DEPTH_MAX);
	json_object_set_new(plan->resolved, "principal", json_string(ret->parent.principal));
	parent.resolved = resolved;
	/* Before confining: this rule, too, holds only if its parent has it. */
	r = dispatch_mcp_offer(resolved, plan, err);
	r = r == 0 ? dispatch_confine(&parent, request, plan, err) : r;
	r = r == 0 ? dispatch_root_require(plan->resolved, err) : r;
	return r < 0 ? r : check_in_force(reg, request, err);
}

/* ---- storing it ---- */

struct entry {
	struct registry *reg;
	const struct dispatch_request *request;
	const struct dispatch_plan *plan;
	const struct dispatch_descent *descent;
	const char *id, *request_hash;
	char *resolved, resolved_hash[HASH_NAME + 1];   /* canonical JSON */
	uint64_t now;
};

static void
entry_free(struct entry *e)
{
	free(e->resolved);
}

static int
dump_resolved(struct entry *e, struct err *err)
{
	unsigned char hash[HASH_LEN];
	size_t len;
	int r = canon_dump(e->plan->resolved, DISPATCH_JSON_MAX, &e->resolved, &len, err);

	if (r < 0)
		return r;
	hash_of(e->resolved, len, hash);
	hash_name(hash, e->resolved_hash);
	return 0;
}

/* The files that the driver needs besides the row.  The row is what counts, so it comes last. */
static int
write_folder(const struct entry *e, struct err *err)
{
	OWN(closep) int folder = dispatch_new_folder(e->id, err);
	OWN(dispatch_log_close) struct dispatch_log log = {0};
	char hash[HASH_NAME + 1];
	int r = folder < 0 ? folder : 0;

	if (r == 0 && e->request->input != NULL)
		r = registry_put_blob(e->reg, e->request->input, e->request->input_len, hash, err);
	if (r == 0 && e->plan->policy != NULL)
		r = registry_put_blob(e->reg, e->plan->policy, e->plan->policy_len, hash, err);
	if (r == 0 && e->plan->outer != NULL)
		r = registry_put_blob(e->reg, e->plan->outer, e->plan->outer_len, hash, err);
	if (r == 0 && e->plan->policy != NULL)
		r = dispatch_write_file(folder, DISPATCH_POLICY_FILE, e->plan->policy, e->plan->policy_len,
		                        false, err);
	if (r == 0)
		r = dispatch_write_file(folder, DISPATCH_ASKED_FILE, e->resolved, strlen(e->resolved),
		                        registry_store() != NULL, err);
	if (r == 0)
		r = dispatch_log_make(folder, e->id, &log, err);
	if (r == 0)
		r = dispatch_log_put(&log, "dispatch.queued", NULL, false, err);
	if (r == 0)
		r = dispatch_log_put(&log, "dispatch.resolved", json_deep_copy(e->plan->resolved), false,
		                     err);
	return r;
}

static bool
is_for_pool(const struct entry *e)
{
	return target_pool(dispatch_text(e->plan->resolved, "target")) != NULL;
}

#define INSERT "INSERT INTO dispatches (id, state, agent, agent_hash, principal, parent, chain, depth, " \
	"target, policy_hash, build_hash, key, request_hash, resolved, retries, timeout_ms, " \
	"created_ms, home, origin) VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
/* With its events, for a worker.  Workers listen, unless they have more than enough to do: then each looks when it has a place. */
#define OFFER "WITH d AS (" INSERT " RETURNING id), " \
	"e AS (INSERT INTO events (dispatch, n, line) SELECT d.id, l.n, l.line FROM d, unnest(string_to_array(?19, ',')::bigint[], " \
	"string_to_array(?20, chr(10))) AS l (n, line)) " \
	"SELECT pg_notify('cloister_work', id) FROM d WHERE (SELECT count(*) FROM (SELECT 1 FROM dispatches WHERE target = ?8 AND " \
	"state = 0 AND home = '' LIMIT ?21) AS w) < ?21"

static int
write_row(const struct entry *e, struct err *err)
{
	json_t *resolved = e->plan->resolved, *agent = json_object_get(resolved, "agent");
	struct db *db = registry_db(e->reg);
	bool offers = is_for_pool(e);
	OWN(buf_free) struct buf numbers = {0}, lines = {0};
	int r = offers ? dispatch_offer_events(e->id, &numbers, &lines, err) : 0;

	r = r < 0 ? r : db_do(db, err, offers ? OFFER : INSERT, offers ? "ssssssissssssiiissssi" : "ssssssissssssiiiss",
	          e->id, dispatch_text(agent, "name"), dispatch_text(agent, "hash"),
	          dispatch_text(resolved, "principal"),
	          e->request->parent != NULL ? e->request->parent : "", e->descent->chain,
	          (int64_t)e->descent->depth, dispatch_text(resolved, "target"),
	          dispatch_text(json_object_get(resolved, "policy"), "hash"),
	          dispatch_text(resolved, "build"), e->request->key, e->request_hash, e->resolved,
	          (int64_t)e->request->retries, (int64_t)e->request->timeout_ms, (int64_t)e->now,
	          offers ? "" : db_home(db), db_home(db), (const char *)numbers.data, (const char *)lines.data,
	          (int64_t)DISPATCH_BACKLOG);
	return r < 0 ? r : 0;
}

/* In the same transaction, if it need not wait: the caller starts this cell next. */
static int
begin(const struct entry *e, struct err *err)
{
	char cell[CELL_ID_LEN + 1];
	uint64_t wait_ms;
	int r;

	if (e->request->begin == 0 || is_for_pool(e))
		return 0;
	r = cell_make_id(cell, err);
	if (r == 0)
		r = dispatch_begin_inside(registry_db(e->reg), e->id, cell, e->request->begin, &wait_ms, err);
	return r < 0 ? r : 0;
}

/* Since the request, others may have been quicker, or the parent may have been cancelled. */
static int
check_parent(const struct entry *e, struct err *err)
{
	struct db *db = registry_db(e->reg);
	OWN(dispatch_free) struct dispatch parent = {0};
	OWN(json_decrefp) json_t *resolved = NULL;
	unsigned n = 0;
	int r;

	if (e->request->parent == NULL)
		return 0;
	r = dispatch_read(db, e->request->parent, &parent, err);
	r = r == 0 ? dispatch_get_resolved(e->reg, e->request->parent, &resolved, err) : r;
	r = r == 0 ? count_children(db, e->request->parent, &n, err) : r;
	if (r < 0)
		return r;
	if (parent.cancel || dispatch_state_is_over(parent.state))
		return err_set(err, EPERM, "the dispatch that asks for this is over");
	if ((json_int_t)n >= json_integer_value(json_object_get(json_object_get(resolved, "delegate"),
	                                                        "fan_out")))
		return err_set(err, EPERM, "the agent '%s' has dispatched %u others, and may not dispatch "
		               "more", parent.agent, n);
	return 0;
}

static int
note(const struct entry *e, struct err *err)
{
	/* An engine's image is not in the store, where it could be compared. */
	const char *image = dispatch_root_is_engines(e->plan->resolved) ? "" :
	                    dispatch_text(json_object_get(e->plan->resolved, "image"), "digest");
	const char *programs = e->plan->programs;
	const struct dispatch_note told = { e->id, e->resolved_hash, image[0] != '\0' ? image : NULL,
	                                    programs != NULL && programs[0] != '\0' ? programs : NULL };

	return e->request->note(e->request->note_arg, &told, err);
}

/* For two requests with one key at once, the database decides which is first. */
static int
insert_among_others(const struct entry *e, char ret_id[DISPATCH_ID_LEN + 1], bool *ret_created, struct err *err)
{
	struct db *db = registry_db(e->reg);
	int found, r = db_begin(db, err);

	if (r < 0)
		return r;
	found = find_key(db, e->request, e->request_hash, ret_id, err);
	r = found != 0 ? (found < 0 ? found : 0) : check_parent(e, err);
	r = r == 0 && found == 0 ? write_row(e, err) : r;
	r = r == 0 && found == 0 ? begin(e, err) : r;
	if (r == 0 && found == 0 && e->request->note != NULL)
		r = note(e, err);
	r = db_end(db, r, err);
	*ret_created = found == 0;
	return r;
}

/* One for a pool needs one statement, and waits for nobody else's changes. */
static int
insert(const struct entry *e, char ret_id[DISPATCH_ID_LEN + 1], bool *ret_created, struct err *err)
{
	bool alone = is_for_pool(e) && e->request->key == NULL && e->request->parent == NULL;
	int r = !alone ? insert_among_others(e, ret_id, ret_created, err) : e->request->note != NULL ? note(e, err) : 0;

	if (alone) {
		r = r == 0 ? write_row(e, err) : r;
		*ret_created = true;
	}
	if (r == 0 && *ret_created)
		snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", e->id);
	return r;
}

int
dispatch_submit(struct registry *reg, const struct dispatch_request *request,
                char ret_id[DISPATCH_ID_LEN + 1], bool *ret_created, struct err *err)
{
	OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
	OWN(dispatch_descent_free) struct dispatch_descent descent = {0};
	char hash[HASH_NAME + 1], id[DISPATCH_ID_LEN + 1];
	OWN(closep) int lock = -1;
	OWN(entry_free) struct entry entry = { .reg = reg, .request = request, .plan = &plan, .descent = &descent,
	                       .id = id, .request_hash = hash, .now = dispatch_now_ms() };
	int r = dispatch_check_request(request, err);

	if (r == 0)
		r = hash_request(request, hash, err);
	if (r == 0)
		r = find_key(registry_db(reg), request, hash, ret_id, err);
	if (r != 0) {
		*ret_created = false;
		return r < 0 ? r : 0;
	}
	/* Checked before its input is stored; simultaneous requests may exceed the limit by one. */
	r = dispatch_check_room(registry_db(reg), request->by_agent ? DISPATCH_OPEN_MAX / 2 :
	                        DISPATCH_OPEN_MAX, err);
	if (r == 0)
		r = dispatch_plan_make(reg, request, &plan, err);
	if (r == 0)
		r = dispatch_descend(reg, request, &plan, &descent, err);
	if (r == 0)
		r = dump_resolved(&entry, err);
	if (r == 0)
		r = dispatch_make_id(id, err);
	if (r < 0)
		return r;
	r = write_folder(&entry, err);
	if (r == 0 && request->begin > 0)
		r = lock = dispatch_lock(id, err);
	/* Check again, because time has passed; and before waiting for the database. */
	if (r >= 0)
		r = check_in_force(reg, request, err);
	if (r >= 0)
		r = insert(&entry, ret_id, ret_created, err);
	/* With a lost connection, its row may be there all the same.  The folder of one without a row is cleared later. */
	if (r != -EPIPE && (r < 0 || !*ret_created))
		dispatch_remove_folder(id);
	else if (request->begin > 0)
		*request->lock = TAKE_FD(lock);
	return r;
}
