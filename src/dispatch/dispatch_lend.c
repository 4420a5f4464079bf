/* dispatch_lend.c - which secrets the service lends to a worker, for one claim. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "registry/registry.h"
#include "store/db.h"
#include "target/target.h"

/* The database's clock is the one of claims. */
#define NOW "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"

static int
add_name(char **names, const char *word, struct err *err)
{
	OWN(freep) char *name = strndup(word, strcspn(word, "=:@"));
	size_t n = strv_len(names);

	if (name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return 0;
	if (n == DISPATCH_LENT_MAX)
		return err_set(err, E2BIG, "a cell has at most %d secrets", DISPATCH_LENT_MAX);
	names[n] = TAKE(name);
	return 0;
}

/* SECRETS: a list of words, or a map of definitions. */
static int
add_names(char **names, const json_t *secrets, struct err *err)
{
	const char *name;
	json_t *other;
	size_t i;
	int r = 0;

	json_array_foreach(secrets, i, other)
		if (r == 0 && json_is_string(other))
			r = add_name(names, json_string_value(other), err);
	json_object_foreach((json_t *)(uintptr_t)secrets, name, other)
		r = r == 0 ? add_name(names, name, err) : r;
	return r;
}

/* Those that its MCP servers get in cells of their own. */
static int
add_servers(char **names, const json_t *policy, struct err *err)
{
	json_t *servers = json_object_get(json_object_get(policy, "tools"), "servers"), *server;
	const char *name;
	int r = 0;

	json_object_foreach(servers, name, server)
		r = r == 0 ? add_names(names, json_object_get(json_object_get(server, "policy"), "secrets"), err) : r;
	return r;
}

/* Those that the policy in force gives. */
static int
add_policys(struct registry *reg, char **names, const json_t *resolved, struct err *err)
{
	const char *hash = dispatch_text(json_object_get(resolved, "policy"), "hash");
	OWN(json_decrefp) json_t *policy = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = *hash == '\0' ? 0 : registry_read_blob(reg, hash, POLICY_FILE_MAX, &text, &len, err);

	if (r < 0 || text == NULL)
		return r;
	r = canon_read(text, len, &policy, err);
	r = r == 0 ? add_names(names, json_object_get(policy, "secrets"), err) : r;
	return r < 0 ? r : add_servers(names, policy, err);
}

#define NOT_ITS "the service lends secrets to the worker that has the dispatch, and to no other"

/* 1: the claim is the worker's; -EAGAIN: its time is over, and nobody else has it yet. */
static int
find_claim(struct db *db, const struct dispatch_claimed *c, char ret_id[DISPATCH_ID_LEN + 1], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	char target[sizeof(TARGET_POOL) + TARGET_POOL_NAME_MAX] = "";
	int r;

	if (*c->pool != '\0')
		snprintf(target, sizeof(target), TARGET_POOL "%s", c->pool);
	r = db_ask(db, &q, err, "SELECT id, CAST(lease_ms > " NOW " AS INTEGER) FROM dispatches WHERE id = ? AND home = ? AND origin = ? AND claims = ? AND state < 3 "
	           "AND cancel = 0 AND target LIKE 'pool:%' AND (? = '' OR target = ?)", "sssiss", c->id,
	           c->worker, db_home(db), (int64_t)c->claim, target, target);
	r = r == 0 ? db_next(&q, err) : r;
	if (r > 0)
		snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", db_text(&q, 0));
	return r > 0 && db_int(&q, 1) == 0 ? err_set(err, EAGAIN, NOT_ITS) : r;
}

int
dispatch_lent_names(struct registry *reg, const struct dispatch_claimed *claimed, char ***ret_names, struct err *err)
{
	OWN(strv_freep) char **names = calloc(DISPATCH_LENT_MAX + 1, sizeof(*names));
	OWN(json_decrefp) json_t *resolved = NULL;
	char id[DISPATCH_ID_LEN + 1];
	int r = names == NULL ? err_set(err, ENOMEM, "out of memory") :
	        find_claim(registry_db(reg), claimed, id, err);

	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, EPERM, NOT_ITS);
	r = dispatch_get_asked(reg, id, &resolved, err);
	r = r == 0 ? add_names(names, json_object_get(resolved, "secrets"), err) : r;
	r = r == 0 ? add_policys(reg, names, resolved, err) : r;
	if (r == 0)
		*ret_names = TAKE(names);
	return r;
}
