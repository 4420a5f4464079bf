/* api_secrets.c - revokes and replaces secrets of running cells, sets their time to live, and acts
 * on every cell at once.
 *
 * No value is ever in this process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/own.h"
#include "boundary/halt.h"
#include "cell/cell_series.h"
#include "cell/cell_secrets.h"
#include "dispatch/dispatch.h"
#include "proc/serve/api.h"
#include "proc/serve/api_steer.h"
#include "proc/serve/vault_child.h"

/* ---- looking ---- */

static json_t *
one_secret(const struct cell_secret *s)
{
	json_t *hosts = json_array();

	for (char **host = s->hosts; host != NULL && *host != NULL; host++)
		json_array_append_new(hosts, json_string(*host));
	return json_pack("{s:s, s:s, s:o, s:b, s:I}", "name", s->name, "scheme", s->scheme, "hosts", hosts,
	                 "revoked", (int)s->revoked, "used", (json_int_t)s->used);
}

int
api_cell_secrets(struct api_call *c)
{
	OWN(closep) int fd = api_reach(c, API_PATIENCE_S);
	struct cell_secret *secrets = NULL;
	size_t n = 0;
	json_t *list;

	if (fd < 0)
		return fd;
	if (cell_list_secrets(fd, &secrets, &n, &c->err) < 0)
		return api_fail(c);
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, one_secret(&secrets[i]));
	cell_secrets_free(secrets, n);
	c->answer = json_pack("{s:o}", "secrets", list);
	return 0;
}

int
api_secrets_list(struct api_call *c)
{
	json_t *list;

	if (vault_child_list(&list, &c->err) < 0)
		return api_fail_as(c, 409, "no_vault");
	c->answer = json_pack("{s:o}", "secrets", list);
	return 0;
}

/* ---- revoking and replacing ---- */

static int
answer_done(struct api_call *c, const struct cell_every *every, const char *secret)
{
	json_t *failed = json_array();

	if (every->failed > 0)
		json_array_append_new(failed, json_sprintf("%zu %s: %s", every->failed,
		                                           every->failed == 1 ? "cell" : "cells", every->first.text));
	if (secret != NULL && every->failed == 0 && every->n == 0) {
		json_decref(failed);
		return api_fail_with(c, 404, "not_found", "no running cell has a secret '%.64s'", secret);
	}
	c->answer = json_pack("{s:I, s:o}", "cells", (json_int_t)every->n, "failed", failed);
	return 0;
}

static int
answer_one(struct api_call *c)
{
	return answer_done(c, &(struct cell_every){ .n = 1 }, NULL);
}

/* Connects to the cell, and gets for whom the change is made. */
static int
reach_for(struct api_call *c, struct cell_steer_who *ret_who)
{
	return api_steer_who(c, NULL, ret_who) < 0 ? -EINVAL : api_reach(c, API_PATIENCE_S);
}

/* The same for a secret to be revoked. */
static const struct api_member revokes[] = { { "why", API_TEXT, false }, { "quiet", API_TRUTH, false }, {0} };

static bool
is_quiet(struct api_call *c)
{
	return c->body != NULL && json_is_true(api_body_get(c, "quiet"));
}

int
api_cell_revoke(struct api_call *c)
{
	const char *name = c->params.at[1];
	struct cell_steer_who who;
	OWN(closep) int fd = api_steer_who(c, revokes, &who) < 0 ? -EINVAL : api_reach(c, API_PATIENCE_S);

	if (fd < 0)
		return fd;
	if (cell_revoke(fd, &who, name, is_quiet(c), &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "secret", name);
	return answer_one(c);
}

/* The new value is in the vault: `cloister secret rotate` put it there. */
int
api_cell_rotate(struct api_call *c)
{
	const char *name = c->params.at[1];
	struct cell_steer_who who;
	OWN(closep) int fd = reach_for(c, &who), value = -1;

	if (fd < 0)
		return fd;
	value = vault_child_value(name, &c->err);
	if (value < 0 || cell_rotate(fd, &who, name, value, &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "secret", name);
	return answer_one(c);
}

int
api_secret_revoke(struct api_call *c)
{
	const char *name = c->params.at[0];
	OWN(closep) int runtime = -1;
	struct cell_every every;
	struct cell_steer_who who;

	if (api_steer_who(c, revokes, &who) < 0)
		return -EINVAL;
	runtime = cell_runtime_open(&c->err);
	if (runtime < 0 || cell_revoke_every(runtime, &who, name, is_quiet(c), &every, &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "secret", name);
	return answer_done(c, &every, name);
}

int
api_secret_rotate(struct api_call *c)
{
	const char *name = c->params.at[0];
	OWN(closep) int runtime = -1, value = -1;
	struct cell_every every;
	struct cell_steer_who who;

	if (api_steer_who(c, NULL, &who) < 0)
		return -EINVAL;
	runtime = cell_runtime_open(&c->err);
	value = runtime < 0 ? -1 : vault_child_value(name, &c->err);
	if (value < 0 || cell_rotate_every(runtime, &who, name, value, &every, &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "secret", name);
	return answer_done(c, &every, name);
}

/* ---- time to live ---- */

int
api_cell_ttl(struct api_call *c)
{
	static const struct api_member members[] = { { "ttl", API_TEXT, true }, { "why", API_TEXT, false }, {0} };
	OWN(closep) int fd = -1;
	struct cell_steer_who who;
	const char *ttl;
	uint64_t ms = 0;

	if (api_steer_who(c, members, &who) < 0)
		return -EINVAL;
	ttl = json_string_value(api_body_get(c, "ttl"));
	if (strcmp(ttl, "none") != 0 && (num_parse_duration(ttl, &ms, NULL) < 0 || ms == 0))
		return api_body_wrong(c, "ttl", api_fail_with(c, 400, "invalid", "'ttl' is a time such as 2h, "
		                                              "or 'none'"));
	fd = api_reach(c, API_PATIENCE_S);
	if (fd < 0)
		return fd;
	if (cell_set_ttl(fd, &who, ms, &c->err) < 0)
		return api_fail(c);
	api_steer_note(c, "ttl", ttl);
	return answer_one(c);
}

/* ---- every cell ---- */

int
api_cells_freeze_or_thaw(struct api_call *c)
{
	const struct cell_steer_who who = { .by = c->q->who };
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	struct cell_every every;

	if (runtime < 0)
		return api_fail(c);
	/* Recorded before the action, which happens even if it cannot be recorded. */
	api_steer_note(c, NULL, NULL);
	if (cell_do_every(runtime, c->route->verb, &who, &every, &c->err) < 0)
		return api_fail(c);
	return answer_done(c, &every, NULL);
}

/* All are dead before the first connection is closed: then its supervisor goes on to tidy up. */
static int
kill_every(struct api_call *c)
{
	const struct cell_steer_who who = { .by = c->q->who, .tells = true };
	OWN(closep) int runtime = cell_runtime_open(&c->err);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) struct halt *halts = NULL;
	struct cell_every every = {0};
	size_t n;

	if (runtime < 0)
		return api_fail(c);
	api_steer_note(c, NULL, NULL);
	/* Any cell of theirs that is not listed yet does not start. */
	(void)cell_series_end_each(runtime, NULL);
	if (cell_list(runtime, true, &entries, &n, &c->err) < 0)
		return api_fail(c);
	halts = calloc(n + 1, sizeof(*halts));
	if (halts == NULL)
		return api_fail_with(c, 503, "unavailable", "out of memory");
	for (size_t i = 0; i < n; i++)
		halts[i].entry = entries[i];
	halt_kill(runtime, halts, n, &who);
	for (size_t i = 0; i < n; i++) {
		every.n += halts[i].state == HALT_DEAD;
		if (halts[i].state == HALT_FAILED && every.failed++ == 0)
			every.first = halts[i].err;
	}
	halt_close(halts, n);
	return answer_done(c, &every, NULL);
}

int
api_cells_kill(struct api_call *c)
{
	struct err why = {0};
	unsigned n = 0;
	int r = kill_every(c);

	/* Otherwise a dispatch that waits for a place would start next. */
	if (dispatch_cancel_all(api_registry(c), &n, &why) < 0 && r == 0)
		json_array_append_new(json_object_get(c->answer, "failed"),
		                      json_sprintf("dispatches could not be cancelled: %s", why.text));
	/* The cells are dead already, even if this cannot be recorded. */
	if (n > 0 && api_note(c, true, "dispatches.cancelled", NULL, 0) < 0)
		c->code = NULL;
	return r;
}
