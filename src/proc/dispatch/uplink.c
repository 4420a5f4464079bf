/* uplink.c - see uplink.h: starts cloister-link, and keeps the streams that it brings. */
#include "proc/dispatch/uplink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "ipc/link_channel.h"
#include "proc/dispatch/uplink_parts.h"
#include "store/keyless.h"

#define AGAIN_MS 1000                   /* after cloister-link was killed */

/* ---- streams ---- */

static void
sweep(void *arg)
{
	struct uplink *u = arg;

	uplink_sweep_visits(u);
	uplink_sweep_deliveries(u);
	uplink_sweep_loans(u);
	for (size_t i = 0; i < u->n; i++)
		if (u->services[i].over) {
			u->services[i].over = false;
			link_line_free(TAKE(u->services[i].line));
		}
}

static void
line_ended(void *arg)
{
	struct service *s = arg;

	s->over = true;
	loop_at_round_end(s->uplink->loop, &s->uplink->sweep);
}

static int
talk_opened(void *arg, struct link_talk *talk, struct buf *body)
{
	return talk->kind == WORKER_CONTROL ? uplink_visit(arg, talk, body) :
	       talk->kind == WORKER_FETCH ? uplink_deliver(arg, talk, body) : -EBADMSG;
}

static const struct link_line_handler line_handler = { .opened = talk_opened, .ended = line_ended };

static struct service *
find(struct uplink *u, const char *home)
{
	for (size_t i = 0; i < u->n; i++)
		if (strcmp(u->services[i].known.home, home) == 0)
			return &u->services[i];
	return NULL;
}

bool
uplink_knows(struct uplink *u, const char *home)
{
	return find(u, home) != NULL;
}

struct link_line *
uplink_line(struct uplink *u, const char *home)
{
	struct service *s = find(u, home);

	return s == NULL || s->over ? NULL : s->line;
}

static void
note_heard(struct uplink *u, struct service *s)
{
	void (*heard)(void *arg) = u->heard;

	s->heard = true;
	for (size_t i = 0; i < u->n; i++)
		if (!u->services[i].heard)
			return;
	u->heard = NULL;
	if (heard != NULL)
		heard(u->arg);
}

static int
take_service(struct uplink *u, struct ipc_message *message)
{
	struct service *s;
	const char *home;

	if (message->n_fds != 1 || buf_get_str(&message->body, &home) < 0 || (s = find(u, home)) == NULL)
		return -EBADMSG;
	s->over = false;
	uplink_forget_talks(u, home);
	uplink_drop_visits(u, s);
	uplink_drop_deliveries(u, s);
	s->cells = NULL;
	link_line_free(TAKE(s->line));
	if (link_line_new(u->loop, ipc_take_fd(message, 0), false, &line_handler, s, &s->line, NULL) < 0)
		return 0;
	fprintf(stderr, "cloister: connected to the service at %s\n", s->known.address);
	uplink_ask_again(u);
	uplink_tell_all(s);
	note_heard(u, s);
	return 0;
}

static int
take_away(struct uplink *u, struct ipc_message *message)
{
	const char *home, *why;
	struct service *s;

	if (buf_get_str(&message->body, &home) < 0 || buf_get_str(&message->body, &why) < 0 || (s = find(u, home)) == NULL)
		return -EBADMSG;
	if (message->type == LINK_REMOVED) {
		fprintf(stderr, "cloister: the service at %s has removed this worker\n", s->known.address);
		u->removed(u->arg);
	} else {
		fprintf(stderr, "cloister: the service at %s cannot be reached, and is tried again: %.500s\n", s->known.address, why);
	}
	note_heard(u, s);
	return 0;
}

/* ---- cloister-link ---- */

static void
drop_channel(struct uplink *u)
{
	loop_unwatch(u->loop, &u->channel);
	close_fd(&u->channel.fd);
}

static void
channel_ready(void *arg, uint32_t events)
{
	struct uplink *u = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(u->channel.fd, &message, NULL);

	(void)events;
	if (r == 0)
		r = message.type == LINK_SERVICE ? take_service(u, &message) :
		    message.type == LINK_AWAY || message.type == LINK_REMOVED ? take_away(u, &message) : -EBADMSG;
	if (r < 0 && r != -EAGAIN)
		drop_channel(u);
}

static int
spawn(struct uplink *u, struct err *err)
{
	char *argv[] = { (char[]){ "cloister-link" }, (char[]){ "dial" }, (char[]){ "--" }, NULL };
	OWN(freep) char **inherited = NULL;
	OWN(closep) int theirs = -1;
	int ends[2], r = keyless_env(&inherited, err);

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot create a channel");
	theirs = ends[1];
	u->channel.fd = ends[0];
	r = loop_watch(u->loop, &u->channel, EPOLLIN, err);
	return r < 0 ? r : child_start(&u->link, u->loop, &(struct spawn){ .argv = argv, .env = inherited, .flags = SPAWN_APART,
		.fds = (const struct spawn_fd[]){ { SPAWN_NULL, 0 }, { theirs, LINK_CHANNEL_FD } }, .n_fds = 2 }, err);
}

static void
start_again(void *arg)
{
	struct uplink *u = arg;
	struct err err = {0};

	if (spawn(u, &err) == 0)
		return;
	fprintf(stderr, "cloister: %s\n", err.text);
	drop_channel(u);
	loop_set_timer(u->loop, &u->again, AGAIN_MS);
}

static void
link_ended(void *arg, bool exited, int status)
{
	struct uplink *u = arg;

	(void)exited, (void)status;
	drop_channel(u);
	fputs("cloister: cloister-link has ended, and is started again\n", stderr);
	loop_set_timer(u->loop, &u->again, AGAIN_MS);
}

int
uplink_new(struct loop *loop, const char *home, void (*removed)(void *arg), void (*heard)(void *arg), void *arg, struct uplink **ret_uplink,
           struct err *err)
{
	OWN(closep) int dir = data_folder(LINK_SERVICES, false, err);
	struct link_service services[LINK_SERVICES_MAX];
	struct uplink *u;
	size_t n = 0;
	int r = dir == -ENOENT ? 0 : dir < 0 ? dir : link_services_list(dir, services, &n, err);

	if (r < 0 || n == 0)
		return r;
	u = calloc(1, sizeof(*u));
	if (u == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*u = (struct uplink){ .loop = loop, .n = n, .removed = removed, .heard = heard, .arg = arg, .link = { .ended = link_ended, .arg = u },
		.channel = { .ready = channel_ready, .arg = u }, .again = { .due = start_again, .arg = u },
		.sweep = { .run = sweep, .arg = u } };
	snprintf(u->home, sizeof(u->home), "%s", home);
	for (size_t i = 0; i < n; i++)
		u->services[i] = (struct service){ .uplink = u, .known = services[i] };
	r = uplink_begin_loans(u, err);
	r = r == 0 ? spawn(u, err) : r;
	if (r < 0) {
		uplink_free(u);
		return r;
	}
	*ret_uplink = u;
	return 0;
}

void
uplink_free(struct uplink *u)
{
	if (u == NULL)
		return;
	uplink_drop_visits(u, NULL);
	uplink_drop_deliveries(u, NULL);
	uplink_free_cells(u);
	for (size_t i = 0; i < u->n; i++)
		link_line_free(u->services[i].line);
	uplink_free_loans(u);
	loop_cancel_round(u->loop, &u->sweep);
	loop_cancel_timer(u->loop, &u->again);
	drop_channel(u);
	child_drop(&u->link);
	free(u);
}
