/* gate_conn.c - the life of a connection: lists, deadlines, collected writes, the end. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "proc/gate/gate.h"

/* ---- lists ---- */

static void
list_add(struct gate_list *list, struct gate_conn *gc)
{
	gc->next = NULL;
	gc->prev = list->last;
	if (list->last != NULL)
		list->last->next = gc;
	else
		list->first = gc;
	list->last = gc;
}

static void
list_remove(struct gate_list *list, struct gate_conn *gc)
{
	if (gc->prev != NULL)
		gc->prev->next = gc->next;
	else
		list->first = gc->next;
	if (gc->next != NULL)
		gc->next->prev = gc->prev;
	else
		list->last = gc->prev;
}

void
gate_conn_set_idle(struct gate_conn *gc, bool idle)
{
	struct gate *g = gc->gate;

	if (gc->is_dead || gc->is_idle == idle)
		return;
	list_remove(gc->is_idle ? &g->idle : &g->busy, gc);
	gc->is_idle = idle;
	list_add(idle ? &g->idle : &g->busy, gc);
	if (idle && g->n_conns == g->conns_max)
		gate_listen_again(g);
}

/* ---- deadlines ---- */

static void
conn_late(void *arg)
{
	struct gate_conn *gc = arg;

	if (gc->protocol->late != NULL)
		gc->protocol->late(gc);
	else
		gate_conn_drop(gc, true);
}

void
gate_conn_set_late(struct gate_conn *gc, uint64_t ms)
{
	if (gc->is_dead)
		return;
	if (ms == 0)
		loop_cancel_timer(gc->gate->loop, &gc->late);
	else
		loop_set_timer(gc->gate->loop, &gc->late, ms);
}

static size_t
conn_left(const struct gate_conn *gc)
{
	return gc->conn.held.len + gc->conn.out.len - gc->conn.out_at;
}

static void
conn_stalled(void *arg)
{
	struct gate_conn *gc = arg;
	size_t left = conn_left(gc);

	if (left != 0 && left >= gc->stall_left) {
		gate_conn_drop(gc, true);
		return;
	}
	gc->stall_left = left;
	if (left != 0)
		loop_set_timer(gc->gate->loop, &gc->stall, GATE_STALL_MS);
}

/* ---- when the courier is slow ---- */

void
gate_conn_wait_for_mux(struct gate_conn *gc)
{
	struct gate *g = gc->gate;

	conn_pause_reading(&gc->conn);
	gc->waits_for_mux = true;
	if (g->unblock.at_ms == 0)
		loop_set_timer(g->loop, &g->unblock, GATE_UNBLOCK_MS);
}

static void
conn_unblock_list(struct gate_list *list)
{
	for (struct gate_conn *gc = list->first; gc != NULL; gc = gc->next)
		if (gc->waits_for_mux) {
			gc->waits_for_mux = false;
			conn_resume_reading(&gc->conn);
		}
}

/* The mux informs only connections that have a stream. */
static void
conn_unblock(void *arg)
{
	struct gate *g = arg;

	if (mux_is_full(g->mux)) {
		loop_set_timer(g->loop, &g->unblock, GATE_UNBLOCK_MS);
		return;
	}
	conn_unblock_list(&g->busy);
	conn_unblock_list(&g->idle);
}

/* ---- callbacks of tls/conn.h ---- */

static void
conn_on_ready(void *arg)
{
	struct gate_conn *gc = arg;

	if (gc->is_dead)
		return;
	if (gc->protocol->secured != NULL)
		gc->protocol->secured(gc);
	else
		gate_route_secured(gc);
}

static void
conn_on_readable(void *arg)
{
	struct gate_conn *gc = arg;

	gc->heard_ms = loop_now_ms();
	if (!gc->is_dead)
		gc->protocol->readable(gc);
}

static void
conn_on_writable(void *arg)
{
	struct gate_conn *gc = arg;

	if (gc->is_dead)
		return;
	if (gc->stall.at_ms != 0 && conn_left(gc) == 0)
		loop_cancel_timer(gc->gate->loop, &gc->stall);
	if (gc->protocol->writable != NULL)
		gc->protocol->writable(gc);
}

static void
conn_on_shut(void *arg)
{
	struct gate_conn *gc = arg;

	if (!gc->is_dead && gc->protocol->shut != NULL)
		gc->protocol->shut(gc);
}

static void
conn_on_broken(void *arg, const struct err *error)
{
	(void)error;
	gate_conn_drop(arg, true);
}

static const struct conn_handler conn_handler = {
	.ready = conn_on_ready, .readable = conn_on_readable,
	.writable = conn_on_writable, .shut = conn_on_shut, .broken = conn_on_broken,
};

/* ---- beginning and end ---- */

struct gate_conn *
gate_conn_new(struct gate *g, int fd)
{
	struct gate_conn *gc = g->spare;

	if (gc != NULL) {
		g->spare = gc->next;
		g->n_spare--;
		memset(gc, 0, sizeof(*gc));
	} else {
		gc = calloc(1, sizeof(*gc));
	}
	if (gc == NULL) {
		close(fd);
		return NULL;
	}
	gc->gate = g;
	gc->heard_ms = loop_now_ms();
	loop_prepare_timer(&gc->late, conn_late, gc);
	loop_prepare_timer(&gc->stall, conn_stalled, gc);
	g->n_conns++;
	list_add(&g->busy, gc);
	conn_init(&gc->conn, g->loop, fd, NULL, &conn_handler, gc);
	gc->conn.resets = true;         /* as its listener does */
	return gc;
}

void
gate_conn_use(struct gate_conn *gc, const struct gate_protocol *protocol, void *state)
{
	gc->protocol = protocol;
	gc->state = state;
}

void
gate_conn_drop(struct gate_conn *gc, bool abrupt)
{
	struct gate *g = gc->gate;

	if (gc->is_dead)
		return;
	gc->is_dead = true;
	loop_cancel_timer(g->loop, &gc->late);
	loop_cancel_timer(g->loop, &gc->stall);
	if (gc->protocol != NULL && gc->protocol->ended != NULL)
		gc->protocol->ended(gc);
	gate_stream_reset(&gc->route, EGRESS_RESET_CANCEL);
	conn_close(&gc->conn, abrupt);
	free(gc->refusal);
	free(gc->hint);
	list_remove(gc->is_idle ? &g->idle : &g->busy, gc);
	gc->next = g->dead;
	g->dead = gc;
	if (g->n_conns-- == g->conns_max)
		gate_listen_again(g);
	loop_at_round_end(g->loop, &g->round);
}

/* ---- writing ---- */

void
gate_conn_touch(struct gate_conn *gc)
{
	struct gate *g = gc->gate;

	if (gc->is_touched || gc->is_dead)
		return;
	gc->is_touched = true;
	gc->touched = g->touched;
	g->touched = gc;
	conn_cork(&gc->conn);
	loop_at_round_end(g->loop, &g->round);
}

bool
gate_conn_write(struct gate_conn *gc, const void *data, size_t len)
{
	if (gc->is_dead)
		return false;
	if (conn_write(&gc->conn, data, len) == 0)
		return true;
	gate_conn_drop(gc, true);
	return false;
}

static void
conn_flush(struct gate_conn *gc)
{
	gc->is_touched = false;
	if (gc->is_dead)
		return;
	if (gc->protocol->flush != NULL)
		gc->protocol->flush(gc);
	if (gc->is_dead)
		return;
	conn_uncork(&gc->conn);
	if (!gc->is_dead && gc->stall.at_ms == 0 && conn_left(gc) != 0) {
		gc->stall_left = conn_left(gc);
		loop_set_timer(gc->gate->loop, &gc->stall, GATE_STALL_MS);
	}
	if (!gc->is_dead && gc->protocol->writable != NULL && !conn_is_full(&gc->conn))
		gc->protocol->writable(gc);
}

static void
conn_bury(struct gate *g, struct gate_conn *gc)
{
	if (g->n_spare == GATE_SPARE_MAX) {
		free(gc);
		return;
	}
	gc->next = g->spare;
	g->spare = gc;
	g->n_spare++;
}

static void
conn_round_end(void *arg)
{
	struct gate *g = arg;
	struct gate_conn *gc;

	while ((gc = g->touched) != NULL) {
		g->touched = gc->touched;
		conn_flush(gc);
	}
	while ((gc = g->dead) != NULL) {
		g->dead = gc->next;
		conn_bury(g, gc);
	}
	if (g->busy.first == NULL && g->trim.at_ms == 0)
		loop_set_timer(g->loop, &g->trim, GATE_TRIM_MS);
	/* Frames written in this round may come after the mux's own flush. */
	mux_flush(g->mux);
}

/* Free memory after some idle time. */
static void
conn_trim(void *arg)
{
	struct gate *g = arg;
	struct gate_conn *gc;

	if (g->busy.first != NULL)
		return;
	while ((gc = g->spare) != NULL) {
		g->spare = gc->next;
		free(gc);
	}
	g->n_spare = 0;
	gate_h1_trim(g);
	gate_h2_trim(g);
	buf_free(&g->frame);
	buf_free(&g->text);
	malloc_trim(0);
}

/* A connection may have been silent for long enough by now. */
static void
conn_pressed(void *arg)
{
	gate_listen_again(arg);
}

void
gate_conn_init(struct gate *g)
{
	loop_prepare_round(&g->round, conn_round_end, g);
	loop_prepare_timer(&g->pressed, conn_pressed, g);
	loop_prepare_timer(&g->unblock, conn_unblock, g);
	loop_prepare_timer(&g->trim, conn_trim, g);
}

/* ---- closing ---- */

static void
linger_writable(struct gate_conn *gc)
{
	if (gc->has_ended && conn_left(gc) == 0)
		gate_conn_drop(gc, false);
}

/* Closing with unread bytes would reset the connection, and the agent might never see the response.
 * So the gate reads and discards what the agent still sends, for a while. */
static void
linger_readable(struct gate_conn *gc)
{
	ssize_t n;

	gate_conn_set_late(gc, GATE_LINGER_MS);
	for (int i = 0; i < 8; i++) {
		n = conn_read(&gc->conn, gc->gate->in, sizeof(gc->gate->in));
		if (n == -EAGAIN)
			return;
		if (n < 0) {
			gate_conn_drop(gc, true);
			return;
		}
		if (n == 0) {
			gc->has_ended = true;
			conn_pause_reading(&gc->conn);
			linger_writable(gc);
			return;
		}
	}
	if (loop_now_ms() > gc->linger_until)
		gate_conn_drop(gc, true);
}

static void
linger_late(struct gate_conn *gc)
{
	/* If nothing moves at all, conn_stalled() gives up. */
	if (conn_left(gc) != 0)
		gate_conn_set_late(gc, GATE_LINGER_MS);
	else
		gate_conn_drop(gc, false);
}

static const struct gate_protocol linger = {
	.readable = linger_readable, .writable = linger_writable, .late = linger_late,
};

void
gate_conn_finish(struct gate_conn *gc)
{
	if (gc->is_dead)
		return;
	if (gc->protocol != NULL && gc->protocol->ended != NULL)
		gc->protocol->ended(gc);
	gate_stream_reset(&gc->route, EGRESS_RESET_CANCEL);
	gate_conn_use(gc, &linger, NULL);
	gate_conn_set_idle(gc, true);
	gc->linger_until = loop_now_ms() + GATE_LINGER_ALL_MS;
	gate_conn_set_late(gc, GATE_LINGER_MS);
	gate_conn_touch(gc);
	conn_shut(&gc->conn);
	conn_resume_reading(&gc->conn);
}
