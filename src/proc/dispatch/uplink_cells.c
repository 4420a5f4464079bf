/* uplink_cells.c - see uplink.h: cells of this worker, for the services that asked for them.
 *
 * A service steers the cells of its own dispatches, and no other cell of this machine.  What it asks is checked here again,
 * whatever its own process has checked. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "cell/cell_control.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "link/link_control.h"
#include "proc/dispatch/uplink_parts.h"
#include "steer/steer.h"

#define VISITS_MAX 256                  /* of one service */

/* A cell that runs here. */
struct held {
	struct held *next;
	char id[DISPATCH_ID_LEN + 1], cell[CELL_ID_LEN + 1], service[LINK_HOME_MAX + 1];
	uint64_t claim;
};

/* A connection of a service to one of them. */
struct visit {
	struct visit *next;
	struct service *service;
	struct link_control *control;
	uint32_t first;                 /* its request; 0: none yet */
	struct cell_entry entry;
	struct uplink_value *value;     /* of a secret, which is being fetched; NULL: none */
	struct buf waiting;             /* CONTROL_ROTATE, without that value */
	char id[DISPATCH_ID_LEN + 1];
	uint64_t claim;
	bool over;
};

/* ---- what runs here ---- */

static void
say(struct service *s, uint32_t type, const struct held *held)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, type);
	if (type == WORKER_HAS)
		buf_put_str(&message, held->id);
	buf_put_str(&message, held->cell);
	if (s->cells != NULL && !s->over)
		link_talk_send(s->cells, &message);
}

static struct service *
service_of(struct uplink *u, const char *home)
{
	for (size_t i = 0; i < u->n; i++)
		if (strcmp(u->services[i].known.home, home) == 0)
			return &u->services[i];
	return NULL;
}

static struct held **
find(struct uplink *u, const char *id)
{
	struct held **at = &u->held;

	while (*at != NULL && strcmp((*at)->id, id) != 0)
		at = &(*at)->next;
	return at;
}

bool
uplink_wants(const struct uplink *u, const char *id)
{
	const struct held *held = u->held;

	while (held != NULL && strcmp(held->id, id) != 0)
		held = held->next;
	return held == NULL;
}

void
uplink_tell_over(struct uplink *u, const char *id)
{
	struct held **at = find(u, id), *held = *at;
	struct service *s = held == NULL ? NULL : service_of(u, held->service);

	if (held == NULL)
		return;
	if (s != NULL)
		say(s, WORKER_HAS_NOT, held);
	*at = held->next;
	free(held);
	uplink_look_at_deliveries(u);
}

void
uplink_tell(struct uplink *u, const struct dispatch *d)
{
	struct service *s = service_of(u, d->origin);
	struct held *held;

	if (!uplink_wants(u, d->id) || s == NULL || strlen(d->cell) != CELL_ID_LEN || (held = calloc(1, sizeof(*held))) == NULL)
		return;
	held->next = u->held;
	snprintf(held->id, sizeof(held->id), "%s", d->id);
	snprintf(held->cell, sizeof(held->cell), "%s", d->cell);
	snprintf(held->service, sizeof(held->service), "%s", d->origin);
	held->claim = d->claim;
	u->held = held;
	uplink_owe(held->service, held->id, held->cell);
	say(s, WORKER_HAS, held);
}

static void
hear_nothing(void *arg, uint32_t type, struct buf *body)
{
	(void)arg, (void)type, (void)body;
}

static void
cells_closed(void *arg)
{
	struct service *s = arg;

	s->cells = NULL;
}

/* It ended while the service was away, or this worker. */
static void
say_owed(void *arg, const char *id, const char *cell)
{
	struct service *s = arg;
	const struct held *held = s->uplink->held;
	OWN(buf_free) struct buf message = {0};

	while (held != NULL && strcmp(held->cell, cell) != 0)
		held = held->next;
	if (held != NULL)
		return;
	ipc_begin(&message, WORKER_HAD);
	buf_put_str(&message, id);
	buf_put_str(&message, cell);
	if (s->cells != NULL && !s->over)
		link_talk_send(s->cells, &message);
}

void
uplink_tell_all(struct service *s)
{
	s->cells = link_line_open(s->line, WORKER_CELLS, NULL);
	if (s->cells == NULL)
		return;
	s->cells->max = sizeof(uint32_t);
	s->cells->heard = hear_nothing;
	s->cells->closed = cells_closed;
	s->cells->arg = s;
	for (const struct held *held = s->uplink->held; held != NULL; held = held->next)
		if (strcmp(held->service, s->known.home) == 0)
			say(s, WORKER_HAS, held);
	uplink_each_owed(s->known.home, say_owed, s);
}

/* ---- steering ---- */

/* Folders do not pass, and a cell that was made to wait is its own operator's. */
static bool
may_pass(enum steer_verb verb)
{
	return verb != VERB_COPY && verb != VERB_START;
}

static void
value_fetched(void *arg, int fd, const struct err *err)
{
	struct visit *v = arg;

	if (fd < 0)
		link_control_refuse(v->control, err);
	else
		link_control_pass(v->control, CONTROL_ROTATE, &v->waiting, &fd, 1);
}

/* The service sends no value: its vault lends it, as it has lent those with which the cell began. */
static int
fetch_value(struct visit *v, const char *name, const struct buf *body)
{
	const struct uplink *u = v->service->uplink;
	const struct lend_claim claim = { .dispatch = v->id, .number = v->claim, .service = v->service->known.home,
	                                  .worker = u->home };

	buf_init(&v->waiting, IPC_MESSAGE_MAX);
	buf_put(&v->waiting, body->data, body->len);
	return buf_failed(&v->waiting) ||
	       uplink_value_fetch(u->loop, &claim, name, value_fetched, v, &v->value, NULL) < 0 ? -EBADMSG : 1;
}

/* The supervisor checks what is within a request. */
static int
check(void *arg, bool out, uint32_t type, struct buf *body, size_t n_fds, struct err *err)
{
	struct visit *v = arg;
	const bool rotates = type == CONTROL_ROTATE;
	struct steer_request q;
	struct buf b = *body;
	const struct steer_row *row;

	(void)err;
	if (out)
		return 0;
	/* With the value that is fetched here. */
	if ((rotates && n_fds != 0) || steer_get(type, &b, rotates ? 1 : n_fds, &q) < 0 || !may_pass(q.verb))
		return -EBADMSG;
	row = &steer_rows[q.verb];
	if (v->first != 0 ? row->after != (enum control_message)v->first : row->later)
		return -EBADMSG;
	v->first = v->first == 0 ? type : v->first;
	return rotates ? fetch_value(v, q.text[0], body) : 0;
}

/* A command in the cell may open its own streams again, as with a client of this machine. */
static void
made(void *arg, int fd)
{
	const struct visit *v = arg;
	OWN(closep) int runtime = cell_runtime_open(NULL);
	const struct boundary *boundary;
	struct cell_info info;

	if (runtime < 0 || cell_control_info(runtime, &v->entry, &info, NULL) < 0)
		return;
	boundary = info.state == CONTROL_STATE_SILENT ? NULL : boundary_find(info.spec.boundary, NULL);
	if (boundary != NULL)
		boundary->give_to_agent(fd, v->entry.slot, &info.spec);
	cell_spec_free(&info.spec);
}

static void
visit_over(void *arg)
{
	struct visit *v = arg;
	struct uplink *u = v->service->uplink;

	v->over = true;
	loop_at_round_end(u->loop, &u->sweep);
}

static const struct link_control_handler handler = { .check = check, .made = made, .over = visit_over };

void
uplink_sweep_visits(struct uplink *u)
{
	struct visit **at = &u->visits, *v;

	while ((v = *at) != NULL) {
		if (!v->over) {
			at = &v->next;
			continue;
		}
		*at = v->next;
		link_control_free(v->control);
		uplink_value_drop(v->value);
		buf_free(&v->waiting);
		free(v);
	}
}

void
uplink_drop_visits(struct uplink *u, const struct service *s)
{
	for (struct visit *v = u->visits; v != NULL; v = v->next)
		if (s == NULL || v->service == s) {
			link_control_forget(v->control);
			v->over = true;
		}
	uplink_sweep_visits(u);
}

static int
connect_to(const char *cell, struct cell_entry *ret_entry)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	if (runtime < 0 || cell_find(runtime, true, cell, ret_entry, NULL) < 0 || ret_entry->far ||
	    strcmp(ret_entry->id, cell) != 0)
		return -ENOENT;
	return cell_connect_now(runtime, ret_entry, NULL);
}

int
uplink_visit(struct service *s, struct link_talk *talk, struct buf *body)
{
	struct uplink *u = s->uplink;
	const struct held *held = u->held;
	struct visit *v;
	struct cell_entry entry = {0};
	const char *cell;
	size_t n = 0;
	int fd;

	if (buf_get_str(body, &cell) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	while (held != NULL && (strcmp(held->cell, cell) != 0 || strcmp(held->service, s->known.home) != 0))
		held = held->next;
	for (v = u->visits; v != NULL; v = v->next)
		n += v->service == s;
	fd = held == NULL || n >= VISITS_MAX ? -ENOENT : connect_to(cell, &entry);
	v = fd < 0 ? NULL : calloc(1, sizeof(*v));
	if (v == NULL) {
		if (fd >= 0)
			close(fd);
		/* It has just ended, or never was. */
		link_talk_finish(talk);
		return 0;
	}
	*v = (struct visit){ .service = s, .next = u->visits, .entry = entry, .claim = held->claim };
	snprintf(v->id, sizeof(v->id), "%s", held->id);
	if (link_control_new(u->loop, fd, talk, &handler, v, &v->control, NULL) < 0) {
		free(v);
		return 0;
	}
	u->visits = v;
	return 0;
}

void
uplink_free_cells(struct uplink *u)
{
	while (u->held != NULL) {
		struct held *held = u->held;

		u->held = held->next;
		free(held);
	}
}
