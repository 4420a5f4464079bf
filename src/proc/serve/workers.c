/* workers.c - see workers.h: starts cloister-link, and keeps the streams that it brings. */
#include "proc/serve/workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "ipc/link_channel.h"
#include "proc/serve/workers_parts.h"
#include "registry/registry.h"
#include "store/keyless.h"

#define AGAIN_MS 1000                   /* after cloister-link was killed */

/* ---- workers ---- */

static void
sweep(void *arg)
{
	struct workers *w = arg;
	struct member **at = &w->members, *m;

	while ((m = *at) != NULL) {
		if (!m->over) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		workers_drop_loans(w, m);
		workers_lose_cells(w, m);
		workers_lose_timelines(w, m);
		link_line_free(m->line);
		free(m->followed);
		free(m);
	}
	workers_sweep_loans(w);
	workers_sweep_cells(w);
	workers_sweep_timelines(w);
}

static void
let_go(struct member *m)
{
	m->over = true;
	loop_at_round_end(m->workers->loop, &m->workers->sweep);
}

static void
line_ended(void *arg)
{
	struct member *m = arg;

	if (!m->over)
		fprintf(stderr, "cloister: worker %s (%s) is gone\n", m->who.id, m->who.name);
	let_go(m);
}

static int
talk_opened(void *arg, struct link_talk *talk, struct buf *body)
{
	return talk->kind == WORKER_SECRETS ? workers_lend(arg, talk, body) :
	       talk->kind == WORKER_CELLS ? workers_take_cells(arg, talk, body) : -EBADMSG;
}

static const struct link_line_handler line_handler = { .opened = talk_opened, .ended = line_ended };

static int
take_worker(struct workers *w, struct ipc_message *message)
{
	const char *id, *name, *home, *pool;
	struct member *m;

	if (message->n_fds != 1 || buf_get_str(&message->body, &id) < 0 || buf_get_str(&message->body, &name) < 0 ||
	    buf_get_str(&message->body, &home) < 0 || buf_get_str(&message->body, &pool) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return 0;
	*m = (struct member){ .workers = w };
	snprintf(m->who.id, sizeof(m->who.id), "%s", id);
	snprintf(m->who.name, sizeof(m->who.name), "%s", name);
	snprintf(m->who.home, sizeof(m->who.home), "%s", home);
	snprintf(m->who.pool, sizeof(m->who.pool), "%s", pool);
	if (link_line_new(w->loop, ipc_take_fd(message, 0), true, &line_handler, m, &m->line, NULL) < 0) {
		free(m);
		return 0;
	}
	for (struct member *other = w->members; other != NULL; other = other->next)
		if (strcmp(other->who.id, id) == 0)
			let_go(other);
	m->next = w->members;
	w->members = m;
	fprintf(stderr, "cloister: worker %s (%s) is connected\n", m->who.id, m->who.name);
	return 0;
}

/* ---- cloister-link ---- */

static int
spawn(struct workers *w, struct err *err)
{
	char *argv[] = { (char[]){ "cloister-link" }, (char[]){ "serve" }, (char[]){ "--" }, w->address, NULL };
	OWN(freep) char **inherited = NULL;
	OWN(closep) int theirs = -1;
	int ends[2], r = keyless_env(&inherited, err);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot create a channel");
	theirs = ends[1];
	w->channel.fd = ends[0];
	r = child_start(&w->link, w->loop, &(struct spawn){ .argv = argv, .env = inherited, .flags = SPAWN_APART,
		.fds = (const struct spawn_fd[]){ { SPAWN_NULL, 0 }, { theirs, LINK_CHANNEL_FD } }, .n_fds = 2 }, err);
	return r;
}

static void
print_address(const struct workers *w)
{
	struct link_address where;

	if (link_address_parse(w->address, true, &where, NULL) == 0 && link_address_is_any(&where))
		fprintf(stderr, "cloister: workers find this service at port %u of each address of this machine: `cloister worker token "
		        "--address HOST:%u` names one\n", where.port, where.port);
	else
		fprintf(stderr, "cloister: workers find this service at %s\n", w->address);
}

/* Its first message: where it listens, or why it does not. */
static int
hear_first(struct workers *w, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *why;
	uint32_t port;
	int r = ipc_receive(w->channel.fd, &message, err);

	if (r == 0 && message.type == LINK_FAILED && buf_get_str(&message.body, &why) == 0)
		return err_set(err, EADDRNOTAVAIL, "%s", why);
	if (r < 0 || message.type != LINK_LISTENS || buf_get_u32(&message.body, &port) < 0)
		return err_set(err, EIO, "cloister-link does not start");
	/* The port stays the same if it is started again. */
	snprintf(strrchr(w->address, ':'), 8, ":%u", port & 0xffffu);
	if (!w->listens)
		print_address(w);
	w->listens = true;
	return loop_watch(w->loop, &w->channel, EPOLLIN, err);
}

static void
drop_channel(struct workers *w)
{
	loop_unwatch(w->loop, &w->channel);
	close_fd(&w->channel.fd);
}

static void
channel_ready(void *arg, uint32_t events)
{
	struct workers *w = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(w->channel.fd, &message, NULL);

	(void)events;
	if (r == 0 && message.type == LINK_WORKER)
		r = take_worker(w, &message);
	else if (r == 0)
		r = -EBADMSG;
	/* It ends when this end is closed. */
	if (r < 0 && r != -EAGAIN)
		drop_channel(w);
}

static void
start_again(void *arg)
{
	struct workers *w = arg;
	struct err err = {0};
	int r = spawn(w, &err);

	r = r == 0 ? hear_first(w, &err) : r;
	if (r == 0)
		return;
	fprintf(stderr, "cloister: %s\n", err.text);
	if (!child_runs(&w->link))
		loop_set_timer(w->loop, &w->again, AGAIN_MS);
}

static void
link_ended(void *arg, bool exited, int status)
{
	struct workers *w = arg;

	(void)exited, (void)status;
	drop_channel(w);
	if (w->stopping)
		return;
	fputs("cloister: cloister-link has ended, and is started again\n", stderr);
	loop_set_timer(w->loop, &w->again, AGAIN_MS);
}

int
workers_start(struct loop *loop, struct registry *reg, const char *address, struct workers **ret_workers, struct err *err)
{
	struct workers *w = calloc(1, sizeof(*w));
	int r = w == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	if (r < 0)
		return r;
	*w = (struct workers){ .loop = loop, .reg = reg, .link = { .ended = link_ended, .arg = w },
		.channel = { .ready = channel_ready, .arg = w }, .again = { .due = start_again, .arg = w },
		.sweep = { .run = sweep, .arg = w } };
	if (strrchr(address, ':') == NULL || strlen(address) >= LINK_ADDRESS_MAX)
		r = err_set(err, EINVAL, "'%.128s' is no address to listen at: write ADDRESS:PORT", address);
	else if (registry_store() == NULL)
		r = err_set(err, EINVAL, "workers need a registry that they can reach: add --store postgres://USER@HOST/DATABASE");
	snprintf(w->address, sizeof(w->address), "%s", address);
	r = r == 0 ? spawn(w, err) : r;
	r = r == 0 ? hear_first(w, err) : r;
	if (r < 0) {
		workers_stop(w);
		return err_wrap(err, "--workers");
	}
	workers_begin_cells(w);
	*ret_workers = w;
	return 0;
}

void
workers_stop(struct workers *w)
{
	if (w == NULL)
		return;
	w->stopping = true;
	workers_drop_loans(w, NULL);
	workers_lose_timelines(w, NULL);
	for (struct member *m = w->members; m != NULL; m = m->next)
		m->over = true;
	sweep(w);
	workers_free_cells(w);
	loop_cancel_round(w->loop, &w->sweep);
	loop_cancel_timer(w->loop, &w->again);
	drop_channel(w);
	child_drop(&w->link);
	free(w);
}
