/* gate_postgres.c - a Postgres client until it has logged in: the courier gets one frame for the
 * login, and then the client's bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/gate/gate.h"
#include "proc/gate/gate_tls.h"
#include "wire/pg.h"

struct gate_postgres {
	struct buf first, password;     /* messages, as far as they have come */
	bool asks_password;             /* FIRST is complete, and names the user */
	bool saw_ssl, saw_gss;
};

static void
postgres_free(struct gate_postgres *pg)
{
	buf_free(&pg->first);
	buf_free(&pg->password);
	free(pg);
}

static void
postgres_ended(struct gate_conn *gc)
{
	postgres_free(TAKE(gc->state));
}

/* ---- refusing ---- */

static void
postgres_refuse(struct gate_conn *gc, const char *reason)
{
	struct gate *g = gc->gate;

	gate_note(g, gc, EGRESS_NOTE_TCP, 0, reason);
	buf_reset(&g->text);
	/* protocol_violation */
	pg_put_error(&g->text, "08P01", reason);
	if (gate_conn_write(gc, g->text.data, g->text.len))
		gate_conn_finish(gc);
}

/* ---- the client's messages ---- */

/* False: it continues elsewhere, or is over. */
static bool
postgres_secure(struct gate_conn *gc, struct gate_postgres *pg)
{
	if (pg->saw_ssl || gc->conn.ssl != NULL) {
		postgres_refuse(gc, "the client asks for TLS twice");
		return false;
	}
	pg->saw_ssl = true;
	if (gate_tls_get(gc->gate) == NULL)
		return gate_conn_write(gc, "N", 1);
	/* Any bytes that follow are taken for TLS: none of them was read before. */
	if (gate_conn_write(gc, "S", 1))
		(void)gate_wire_secure(gc);
	return false;
}

static bool
postgres_ask_password(struct gate_conn *gc, struct gate_postgres *pg,
                      const struct pg_first *first)
{
	struct gate *g = gc->gate;

	pg->asks_password = true;
	buf_reset(&g->text);
	if (first->minor > 0 || first->n_options > 0)
		pg_put_negotiate(&g->text, first);
	pg_put_ask_password(&g->text);
	return gate_conn_write(gc, g->text.data, g->text.len);
}

/* From here on bytes pass through. */
static void
postgres_go_on(struct gate_conn *gc, uint32_t type)
{
	struct gate *g = gc->gate;

	mux_send(g->mux, gc->route.mux->id, type, &g->frame);
	postgres_free(TAKE(gc->state));
	gate_tunnel_start(gc, &gc->route, NULL, 0);
}

/* True: there is more to read. */
static bool
postgres_take_first(struct gate_conn *gc, struct gate_postgres *pg, const struct pg_first *first)
{
	struct gate *g = gc->gate;

	switch (first->kind) {
	case PG_SSL:
		buf_reset(&pg->first);
		return postgres_secure(gc, pg);
	case PG_GSS:
		buf_reset(&pg->first);
		if (pg->saw_gss) {
			postgres_refuse(gc, "the client asks for GSSAPI twice");
			return false;
		}
		pg->saw_gss = true;
		return gate_conn_write(gc, "N", 1);
	case PG_CANCEL:
		buf_reset(&g->frame);
		buf_put_u32(&g->frame, first->pid);
		buf_put(&g->frame, first->key, first->n_key);
		postgres_go_on(gc, EGRESS_CANCEL);
		return false;
	default:
		return postgres_ask_password(gc, pg, first);
	}
}

static void
postgres_log_in(struct gate_conn *gc, struct gate_postgres *pg, const char *password)
{
	struct gate *g = gc->gate;
	struct pg_first first;
	size_t need;

	/* It was valid before. */
	if (pg_first_read(pg->first.data, pg->first.len, &need, &first, NULL) < 0)
		abort();
	buf_reset(&g->frame);
	pg_start_encode(&g->frame, &first.start, password);
	if (buf_failed(&g->frame))
		gate_conn_drop(gc, true);
	else
		postgres_go_on(gc, EGRESS_LOGIN);
}

/* ---- reading ---- */

/* Read until B has NEED bytes.  False: not yet. */
static bool
postgres_fill(struct gate_conn *gc, struct buf *b, size_t need)
{
	size_t have = b->len;
	unsigned char *room = buf_add(b, need - have);
	ssize_t n = room == NULL ? -ENOMEM : conn_read(&gc->conn, room, need - have);

	b->len = have + (n > 0 ? (size_t)n : 0);
	if (n <= 0 && n != -EAGAIN)
		gate_conn_drop(gc, true);
	return n > 0;
}

static void
postgres_readable(struct gate_conn *gc)
{
	struct gate_postgres *pg = gc->state;
	const char *password;
	struct pg_first first;
	struct err err = {0};
	struct buf *b;
	size_t need;
	int r;

	for (;;) {
		b = pg->asks_password ? &pg->password : &pg->first;
		r = pg->asks_password ? pg_password_read(b->data, b->len, &need, &password, &err)
		                      : pg_first_read(b->data, b->len, &need, &first, &err);
		if (r == -EAGAIN) {
			if (!postgres_fill(gc, b, need))
				return;
		} else if (r < 0) {
			postgres_refuse(gc, err.text);
			return;
		} else if (pg->asks_password) {
			postgres_log_in(gc, pg, password);
			return;
		} else if (!postgres_take_first(gc, pg, &first)) {
			return;
		}
	}
}

static void
postgres_secured(struct gate_conn *gc)
{
	if (!gate_tls_agrees(gc)) {
		gate_conn_drop(gc, true);
		return;
	}
	conn_resume_reading(&gc->conn);
	postgres_readable(gc);
}

/* Everything that it sends until then is its login. */
static bool
postgres_waits(const struct gate_conn *gc)
{
	(void)gc;
	return true;
}

static const struct gate_protocol postgres = {
	.readable = postgres_readable, .ended = postgres_ended, .waits = postgres_waits,
	.secured = postgres_secured,
};

void
gate_postgres_start(struct gate_conn *gc)
{
	struct gate_postgres *pg = calloc(1, sizeof(*pg));

	if (pg == NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	buf_init(&pg->first, PG_FIRST_MAX);
	buf_init(&pg->password, PG_PASSWORD_MAX + 16);
	gate_conn_use(gc, &postgres, pg);
	gate_conn_set_late(gc, GATE_HEAD_MS);
	conn_resume_reading(&gc->conn);
	postgres_readable(gc);
}
