/* workers_cells.c - cells of workers, as entries of this machine's runtime folder: every command steers them there.
 *
 * What a worker says of a cell is believed only as far as the database has it so, and its answers are checked before
 * commands of this machine read them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_far.h"
#include "dispatch/dispatch.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "link/link_control.h"
#include "proc/serve/workers_answers.h"
#include "proc/serve/workers_parts.h"
#include "registry/registry.h"
#include "steer/steer.h"

#define FARS_MAX 4096                   /* of one worker */
#define VISITS_MAX 64                   /* of one cell */
#define SAID_MAX 16384                  /* bytes of what a worker says of one cell */
#define LOOK_MS 5000                    /* how often cells of workers that are away are looked for in the database */

struct far {
	struct workers *workers;
	struct far *next;
	struct member *member;          /* NULL: its worker is away */
	struct loop_source listener;    /* owns its descriptor */
	int dir;                        /* holds the entry's lock */
	char id[DISPATCH_ID_LEN + 1], cell[CELL_ID_LEN + 1], home[LINK_HOME_MAX + 1];
	bool over;
};

/* A command's connection. */
struct visit {
	struct visit *next;
	struct far *far;                /* NULL: the cell is gone */
	struct member *member;
	struct link_control *control;
	struct workers *workers;
	char cell[CELL_ID_LEN + 1], by[CONTROL_BY_MAX + 1];
	bool over;
};

/* ---- a command's connection ---- */

static int
check(void *arg, bool out, uint32_t type, struct buf *body, size_t n_fds, struct err *err)
{
	const struct visit *v = arg;

	return out ? workers_check_request(v->by, type, body, n_fds, err) : workers_check_answer(v->cell, type, body, n_fds);
}

static void
visit_over(void *arg)
{
	struct visit *v = arg;

	v->over = true;
	loop_at_round_end(v->workers->loop, &v->workers->sweep);
}

static const struct link_control_handler handler = { .check = check, .over = visit_over };

/* Other users cannot reach the socket, and would be shut out if they did. */
static bool
describe_client(int fd, char ret_by[CONTROL_BY_MAX + 1])
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || (peer.uid != geteuid() && peer.uid != 0))
		return false;
	snprintf(ret_by, CONTROL_BY_MAX + 1, "uid %u", (unsigned)peer.uid);
	return true;
}

static void
visit(struct far *far, int fd)
{
	struct workers *w = far->workers;
	struct visit *v = calloc(1, sizeof(*v));
	OWN(buf_free) struct buf body = BUF(64);
	struct link_talk *talk;

	buf_put_str(&body, far->cell);
	talk = v == NULL || !describe_client(fd, v->by) ? NULL : link_line_open(far->member->line, WORKER_CONTROL, &body);
	if (talk == NULL) {
		free(v);
		close(fd);
		return;
	}
	v->far = far;
	v->member = far->member;
	v->workers = w;
	snprintf(v->cell, sizeof(v->cell), "%s", far->cell);
	if (link_control_new(w->loop, fd, talk, &handler, v, &v->control, NULL) < 0) {
		free(v);
		return;
	}
	v->next = w->visits;
	w->visits = v;
}

static void
accept_ready(void *arg, uint32_t events)
{
	struct far *far = arg;
	size_t n = 0;
	int fd;

	(void)events;
	for (const struct visit *v = far->workers->visits; v != NULL; v = v->next)
		n += v->far == far && !v->over;
	while ((fd = accept4(far->listener.fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		/* Whose worker is away hears nothing: its cell is silent. */
		if (far->member == NULL || far->member->over || n++ >= VISITS_MAX)
			close(fd);
		else
			visit(far, fd);
	}
}

/* ---- the end ---- */

static void
drop_far(struct far *far)
{
	struct workers *w = far->workers;
	OWN(closep) int runtime = cell_runtime_open(NULL);

	for (struct visit *v = w->visits; v != NULL; v = v->next)
		if (v->far == far)
			v->far = NULL;
	loop_unwatch(w->loop, &far->listener);
	close(far->listener.fd);
	if (runtime >= 0)
		cell_far_remove(runtime, far->cell);
	close(far->dir);
	free(far);
}

void
workers_sweep_cells(struct workers *w)
{
	struct far **at = &w->fars, *far;
	struct visit **next = &w->visits, *v;

	while ((v = *next) != NULL) {
		if (!v->over) {
			next = &v->next;
			continue;
		}
		*next = v->next;
		link_control_free(v->control);
		free(v);
	}
	while ((far = *at) != NULL) {
		if (!far->over) {
			at = &far->next;
			continue;
		}
		*at = far->next;
		drop_far(far);
	}
}

void
workers_lose_cells(struct workers *w, const struct member *m)
{
	for (struct visit *v = w->visits; v != NULL; v = v->next)
		if (v->member == m && !v->over) {
			link_control_forget(v->control);
			v->over = true;
		}
	for (struct far *far = w->fars; far != NULL; far = far->next)
		if (far->member == m)
			far->member = NULL;
}

void
workers_free_cells(struct workers *w)
{
	loop_cancel_timer(w->loop, &w->look);
	for (struct visit *v = w->visits; v != NULL; v = v->next)
		v->over = true;
	for (struct far *far = w->fars; far != NULL; far = far->next)
		far->over = true;
	workers_sweep_cells(w);
}

/* ---- which there are ---- */

/* The worker of HOME has the cell of this data folder's dispatch ID, or (OVER) had it. */
static bool
is_so(struct workers *w, const char *id, const char *cell, const char *home, bool over)
{
	OWN(dispatch_free) struct dispatch d = {0};

	if (strlen(id) != DISPATCH_ID_LEN || dispatch_read(registry_db(w->reg), id, &d, NULL) < 0 || !d.mine)
		return false;
	if (strcmp(d.home, home) == 0 && strcmp(d.cell, cell) == 0)
		return over || !dispatch_state_is_over(d.state);
	/* Another worker has a later attempt. */
	return over && dispatch_had_cell(registry_db(w->reg), id, cell, home);
}

static void
look(void *arg)
{
	struct workers *w = arg;

	for (struct far *far = w->fars; far != NULL; far = far->next)
		if (far->member == NULL && !far->over && !is_so(w, far->id, far->cell, far->home, false))
			far->over = true;
	workers_sweep_cells(w);
	loop_set_timer(w->loop, &w->look, LOOK_MS);
}

static struct far *
add_far(struct member *m, const char *id, const char *cell)
{
	struct workers *w = m->workers;
	OWN(closep) int runtime = cell_runtime_open(NULL);
	struct far *far = runtime < 0 ? NULL : calloc(1, sizeof(*far));
	char machine[CELL_MACHINE_MAX + 1];

	if (far == NULL)
		return NULL;
	snprintf(machine, sizeof(machine), "%s", m->who.name);
	if (cell_far_make(runtime, cell, id, machine, &far->dir, &far->listener.fd, NULL) < 0) {
		free(far);
		return NULL;
	}
	far->workers = w;
	far->member = m;
	far->listener.ready = accept_ready;
	far->listener.arg = far;
	snprintf(far->id, sizeof(far->id), "%s", id);
	snprintf(far->cell, sizeof(far->cell), "%s", cell);
	snprintf(far->home, sizeof(far->home), "%s", m->who.home);
	far->next = w->fars;
	w->fars = far;
	if (loop_watch(w->loop, &far->listener, EPOLLIN, NULL) < 0)
		far->over = true;
	return far;
}

static void
take_has(struct member *m, const char *id, const char *cell)
{
	struct far *far = m->workers->fars;
	size_t n = 0;

	for (; far != NULL; far = far->next) {
		if (strcmp(far->cell, cell) == 0 && !far->over)
			break;
		n += far->member == m;
	}
	if (far != NULL) {
		/* It is back. */
		if (far->member == NULL && strcmp(far->home, m->who.home) == 0 && strcmp(far->id, id) == 0)
			far->member = m;
	} else if (n < FARS_MAX && strlen(cell) == CELL_ID_LEN && is_so(m->workers, id, cell, m->who.home, false)) {
		far = add_far(m, id, cell);
	}
	if (far != NULL && far->member == m)
		workers_follow(m, far->id, cell, true);
}

static void
take_has_not(struct member *m, const char *cell)
{
	for (struct far *far = m->workers->fars; far != NULL; far = far->next)
		if (far->member == m && strcmp(far->cell, cell) == 0)
			far->over = true;
	loop_at_round_end(m->workers->loop, &m->workers->sweep);
}

/* A cell of this machine has a timeline of its own. */
static void
take_had(struct member *m, const char *id, const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	struct cell_entry entry;

	if (strlen(cell) == CELL_ID_LEN && (state < 0 || cell_find(state, false, cell, &entry, NULL) < 0) &&
	    is_so(m->workers, id, cell, m->who.home, true))
		workers_follow(m, id, cell, false);
}

static void
heard(void *arg, uint32_t type, struct buf *body)
{
	struct member *m = arg;
	const char *id, *cell;

	if (type == WORKER_HAS && buf_get_str(body, &id) == 0 && buf_get_str(body, &cell) == 0)
		take_has(m, id, cell);
	else if (type == WORKER_HAS_NOT && buf_get_str(body, &cell) == 0)
		take_has_not(m, cell);
	else if (type == WORKER_HAD && buf_get_str(body, &id) == 0 && buf_get_str(body, &cell) == 0)
		take_had(m, id, cell);
}

static void
talk_closed(void *arg)
{
	(void)arg;
}

int
workers_take_cells(struct member *m, struct link_talk *talk, struct buf *body)
{
	if (buf_left(body) != 0 || m->has_cells)
		return -EBADMSG;
	m->has_cells = true;
	talk->max = SAID_MAX;
	talk->heard = heard;
	talk->closed = talk_closed;
	talk->arg = m;
	return 0;
}

void
workers_begin_cells(struct workers *w)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	if (runtime >= 0)
		cell_far_clear(runtime);
	loop_prepare_timer(&w->look, look, w);
	loop_set_timer(w->loop, &w->look, LOOK_MS);
}
