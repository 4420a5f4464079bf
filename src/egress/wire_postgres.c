/* wire_postgres.c - see wire.h: logins to Postgres (upstream/postgres.h). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "egress/wire_parts.h"
#include "wire/pg.h"

static bool
is_asked_for(const struct exchange *ex)
{
	return ex->wire != NULL && ex->wire->kind == EGRESS_POSTGRES && !ex->wire->asked &&
	       ex->state == EXCHANGE_WAITS;
}

/* Everything that the agent wrote, except its password. */
static bool
judge_login(struct exchange *ex, const struct pg_start *start, const char *password)
{
	struct http_text others[2 + 2 * PG_PARAMETERS_MAX];
	struct wire_attempt a = { .password = { password, strlen(password) },
	                          .user = { start->user, strlen(start->user) }, .others = others };

	others[a.n_others++] = a.user;
	others[a.n_others++] = (struct http_text){ start->database, strlen(start->database) };
	for (size_t i = 0; i < start->n; i++) {
		const struct pg_parameter *p = &start->parameters[i];

		others[a.n_others++] = (struct http_text){ p->name, strlen(p->name) };
		others[a.n_others++] = (struct http_text){ p->value, strlen(p->value) };
	}
	return wire_judge(ex, &a, &ex->wire->secret);
}

int
wire_take_postgres(struct exchange *ex, struct buf *body)
{
	struct exchange_wire *w = ex->wire;
	struct pg_start start;
	const char *password;

	if (ex->state == EXCHANGE_DRAINS)
		return 0;
	if (!is_asked_for(ex))
		return -EBADMSG;
	buf_put(&ex->request.frame, body->data, body->len);
	if (buf_failed(&ex->request.frame))
		return -ENOMEM;
	if (pg_start_decode(&ex->request.frame, &start, &password) < 0)
		return -EBADMSG;
	w->asked = true;
	snprintf(w->database, sizeof(w->database), "%s", start.database);
	if (!judge_login(ex, &start, password))
		return 0;
	w->postgres.tls = wire_wants_tls(wire_secret(ex, w->secret));
	exchange_resume(ex);
	return 0;
}

int
exchange_wire_cancel(struct exchange *ex, struct buf *body)
{
	if (ex->state == EXCHANGE_DRAINS)
		return 0;
	if (!is_asked_for(ex) || body->len <= 4 || body->len > 4 + PG_KEY_MAX)
		return -EBADMSG;
	buf_put(&ex->request.frame, body->data, body->len);
	if (buf_failed(&ex->request.frame))
		return -ENOMEM;
	ex->wire->asked = ex->wire->postgres.is_cancel = true;
	exchange_resume(ex);
	return 0;
}

/* ---- the server ---- */

static const char *
password(struct transfer *t)
{
	const struct exchange *ex = exchange_of(t);

	return wire_secret(ex, ex->wire->secret)->real[SECRET_SECRET].at;
}

static void
logged_in(struct transfer *t, bool told)
{
	struct exchange *ex = exchange_of(t);
	struct buf *out = &ex->courier->out;

	ex->wire->done = true;
	if (ex->wire->postgres.is_cancel)
		return;
	/* A server that got the password could send it back. */
	ex->secrets->carries = told;
	buf_reset(out);
	pg_put_ok(out);
	exchange_give_plain(ex, out->data, out->len);
}

void
wire_begin_postgres(struct exchange *ex, bool tls)
{
	ex->wire->postgres = (struct postgres){ .asked = &ex->request.frame, .tls = tls,
	                                        .password = password, .logged_in = logged_in };
	ex->t.postgres = &ex->wire->postgres;
}
