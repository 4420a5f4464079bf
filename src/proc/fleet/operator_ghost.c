/* operator_ghost.c - see operator.h: what the service still has of objects that are gone.
 *
 * A finalizer holds a Sandbox until its dispatch is over, and users can remove it: the dispatch is cancelled all the same.  So is the
 * reserve of a SandboxWarmPool, which has none. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "loop/loop.h"
#include "proc/fleet/operator.h"

#define AGAIN_MS 5000

struct op_ghost {
	struct op_ghost *next;
	enum op_kind kind;
	char uid[OP_UID_MAX + 1], id[OP_ID_MAX + 1];
};

void
op_ghost_add(struct op *op, const struct op_object *o)
{
	bool has = o->kind == OP_SANDBOX ? o->id[0] != '\0' && !o->over : o->kind == OP_POOL && o->reserved > 0;
	struct op_ghost *g = has && op->n_ghosts < OP_GHOSTS_MAX ? calloc(1, sizeof(*g)) : NULL;

	if (g == NULL)
		return;
	g->kind = o->kind;
	snprintf(g->uid, sizeof(g->uid), "%s", op_meta(o, "uid"));
	snprintf(g->id, sizeof(g->id), "%s", o->id);
	g->next = op->ghosts;
	op->ghosts = g;
	op->n_ghosts++;
	op->ghosts_due_ms = 0;
}

static void
drop(struct op *op, struct op_ghost **at)
{
	struct op_ghost *g = *at;

	*at = g->next;
	op->n_ghosts--;
	free(g);
}

/* What the service refuses is no more. */
static bool
is_done(struct op *op, const struct op_ghost *g)
{
	unsigned slots, ready;
	int r = g->kind == OP_SANDBOX ? op_service_cancel(op, g->id, NULL) :
	        op_service_reserve(op, NULL, g->uid, 0, &slots, &ready, NULL);

	return r == 0 || r == -ENOENT || r == -EINVAL || r == -EEXIST;
}

void
op_ghosts_tend(struct op *op, uint64_t now_ms, uint64_t until_ms)
{
	struct op_ghost **at = &op->ghosts;

	if (now_ms < op->ghosts_due_ms)
		return;
	op->ghosts_due_ms = now_ms + AGAIN_MS;
	while (*at != NULL && loop_now_ms() < until_ms)
		if (is_done(op, *at))
			drop(op, at);
		else
			at = &(*at)->next;
	if (*at != NULL)
		op->ghosts_due_ms = 0;
}

void
op_ghosts_forget(struct op *op)
{
	while (op->ghosts != NULL)
		drop(op, &op->ghosts);
}
