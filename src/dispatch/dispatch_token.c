/* dispatch_token.c - the token by which a running agent dispatches others: "ID.RANDOM", of which
 * only the hash is stored. */
#include <errno.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "store/db.h"
#include "registry/registry.h"

#define RANDOM_LEN 32

int
dispatch_token_mint(struct db *db, const struct dispatch *d, char ret_token[DISPATCH_TOKEN_MAX],
                    struct err *err)
{
	unsigned char random[RANDOM_LEN], hash[HASH_LEN];
	char hex[2 * RANDOM_LEN + 1], name[HASH_NAME + 1];
	int n;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), hex);
	snprintf(ret_token, DISPATCH_TOKEN_MAX, "%s.%s", d->id, hex);
	hash_of(ret_token, strlen(ret_token), hash);
	hash_name(hash, name);
	n = db_do(db, err, "UPDATE dispatches SET token_hash = ? WHERE id = ? AND state IN (1, 2)", "ss",
	          name, d->id);
	return n == 1 ? 0 : n < 0 ? n : err_set(err, ESTALE, "dispatch %s is not what it was", d->id);
}

/* *ret_hash is "" if there is none. */
static int
read_hash(struct db *db, const char *id, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int r = db_ask(db, &q, err, "SELECT token_hash FROM dispatches WHERE id = ? AND "
	               "state IN (1, 2)", "s", id);

	r = r == 0 ? db_next(&q, err) : r;
	snprintf(ret_hash, HASH_NAME + 1, "%s", r > 0 ? db_text(&q, 0) : "");
	return r < 0 ? r : 0;
}

int
dispatch_token_drop(struct db *db, const char *id, struct err *err)
{
	char hash[HASH_NAME + 1];
	int r = read_hash(db, id, hash, err);

	/* Most have none, and need no commit. */
	if (r < 0 || hash[0] == '\0')
		return r;
	r = db_do(db, err, "UPDATE dispatches SET token_hash = '' WHERE id = ?", "s", id);
	return r < 0 ? r : 0;
}

int
dispatch_token_find(struct registry *reg, const char *token, struct dispatch *ret_d,
                    json_t **ret_resolved, struct err *err)
{
	unsigned char shown[HASH_LEN], kept[HASH_LEN] = {0};
	OWN(dispatch_free) struct dispatch d = {0};
	char id[DISPATCH_ID_LEN + 1], hash[HASH_NAME + 1];
	bool is_set;
	int r;

	/* The id is no secret; the rest is compared as a whole. */
	snprintf(id, sizeof(id), "%s", token);
	r = read_hash(registry_db(reg), id, hash, err);
	if (r < 0)
		return r;
	is_set = hash_parse_name(hash, kept);
	hash_of(token, strlen(token), shown);
	if (!memeql_sec(shown, kept, HASH_LEN) || !is_set)
		return err_set(err, EACCES, "the token belongs to no running dispatch");
	r = dispatch_read(registry_db(reg), id, &d, err);
	r = r == 0 ? dispatch_get_resolved(reg, id, ret_resolved, err) : r;
	if (r < 0)
		return r;
	*ret_d = d;
	d = (struct dispatch){0};
	return 0;
}
