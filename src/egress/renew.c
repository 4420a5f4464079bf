/* renew.c - receives new values of expiring secrets while the cell runs, from
 * cloister-vault, which watches their lifetimes.
 *
 * The placeholder stays.  Running requests keep the values that they began with. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "ipc/keeper_channel.h"
#include "sign/scheme_parts.h"

#define FIRST_ANSWER_MS 40000           /* a program that provides a value has 30 s */

struct renewed *
renewed_use(struct renewed *renewed)
{
	if (renewed != NULL)
		renewed->users++;
	return renewed;
}

void
renewed_release(struct renewed *renewed)
{
	if (renewed == NULL || --renewed->users > 0)
		return;
	guard_free(&renewed->memory);
	free(renewed);
}

bool
secrets_named(const struct secrets *s, const char *name, size_t *ret_at)
{
	for (size_t i = 0; i < s->bound.n; i++)
		if (strcmp(s->bound.at[i].secret->name, name) == 0) {
			*ret_at = i;
			return true;
		}
	return false;
}

int
secrets_renew(struct secrets *s, const char *name, uint64_t expires,
              const struct http_text real[SECRET_FIELDS], struct guard *memory, struct err *err)
{
	struct renewed *renewed, *before, *oldest, **former;
	const struct bound_secret *b;
	size_t at;
	int r;

	if (!secrets_named(s, name, &at))
		return err_set(err, ENOENT, "the cell has no secret '%.64s'", name);
	b = &s->bound.at[at];
	/* A placeholder without a value would be sent unreplaced. */
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		if (b->placeholder[i].len > 0 && real[i].len == 0)
			return err_set(err, EBADMSG, "the new value of '%.64s' has no %s", name,
			               secret_field_names[i]);
	renewed = calloc(1, sizeof(*renewed));
	if (renewed == NULL)
		return err_set(err, ENOMEM, "there is no memory for a new value");
	renewed->known = *b;
	renewed->known.expires = expires;
	memcpy(renewed->known.real, real, sizeof(renewed->known.real));
	renewed->memory = guard_take(memory);
	renewed->users = 1;
	before = s->renewed[at];
	former = s->former[at];
	oldest = before != NULL ? former[SECRETS_FORMER - 1] : NULL;
	if (before != NULL) {
		for (size_t i = SECRETS_FORMER - 1; i > 0; i--)
			former[i] = former[i - 1];
		former[0] = before;
	}
	s->renewed[at] = renewed;
	r = secrets_look_again(s, err);
	if (r < 0) {
		s->renewed[at] = before;
		for (size_t i = 0; before != NULL && i < SECRETS_FORMER; i++)
			former[i] = i + 1 < SECRETS_FORMER ? former[i + 1] : oldest;
		*memory = guard_take(&renewed->memory);
	}
	renewed_release(r < 0 ? renewed : oldest);
	return r;
}

bool
secret_has_ended(const struct bound_secret *known)
{
	return known->expires != 0 && known->expires <= (uint64_t)time(NULL);
}

/* ---- the keeper ---- */

static void
record(struct courier *c, const char *name, const char *why)
{
	event_begin(&c->events, "secret");
	event_str(&c->events, "verdict", why == NULL ? "allow" : "deny");
	event_str(&c->events, "secret", name);
	event_str(&c->events, "why", why == NULL ? NULL : "not-renewed");
	event_str(&c->events, "note", why == NULL ? "it has a new value" : why);
	event_done(&c->events, false, NULL);
	events_flush(&c->events, true);
}

/* Read directly into guarded memory: the message contains values. */
static int
receive(int fd, struct guard *ret_message, struct err *err)
{
	OWN(guard_free) struct guard g = {0};
	ssize_t n = recv(fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	int r;

	if (n < 0)
		return err_errno(err, "cannot hear from cloister-vault");
	if (n < 4 || n > KEEPER_MESSAGE_MAX)
		return err_set(err, EPIPE, "cloister-vault has gone");
	r = guard_alloc(&g, (size_t)n, err);
	if (r < 0)
		return r;
	n = recv(fd, g.at, g.cap, MSG_DONTWAIT);
	if (n != (ssize_t)g.cap)
		return err_set(err, EPIPE, "cloister-vault has gone");
	g.len = (size_t)n;
	*ret_message = guard_take(&g);
	return 0;
}

/* Whether the message repeats the current values, as an answer to a question does. */
static bool
is_same(struct secrets *s, const char *name, uint64_t expires,
        const struct http_text real[SECRET_FIELDS])
{
	const struct bound_secret *known;
	size_t at;

	if (!secrets_named(s, name, &at))
		return false;
	known = s->view->at[at];
	/* A keeper that has not heard of the rotation may still have the old value. */
	if (s->rotated[at] && !secret_has_ended(known))
		return true;
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		if (!scheme_same(known->real[i], real[i]))
			return false;
	return known->expires == expires;
}

static int
take_values(struct courier *c, struct buf *b, struct guard *memory, struct err *err)
{
	struct http_text real[SECRET_FIELDS];
	const char *name, *text;
	uint64_t expires;
	int r;

	if (buf_get_str(b, &name) < 0 || buf_get_u64(b, &expires) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		if (buf_get_str(b, &text) < 0)
			return -EBADMSG;
		real[i] = (struct http_text){ text, strlen(text) };
	}
	if (buf_left(b) != 0)
		return -EBADMSG;
	if (is_same(&c->secrets, name, expires, real))
		return 0;
	/* NAME points into the memory that the secret takes over, so it stays valid. */
	r = secrets_renew(&c->secrets, name, expires, real, memory, err);
	record(c, name, r == 0 ? NULL : err->text);
	return 0;
}

/* Receive one message.  Returns its type, or a negative errno. */
static int
hear(struct courier *c, uint32_t *ret_number)
{
	OWN(guard_free) struct guard g = {0};
	const char *name, *why;
	struct err err = {0};
	uint32_t type;
	struct buf b;
	int r = receive(COURIER_KEEPER_FD, &g, &err);

	if (r < 0)
		return r;
	buf_init_borrowed(&b, g.at, g.len);
	if (buf_get_u32(&b, &type) < 0)
		return -EBADMSG;
	if (type == KEEPER_VALUES)
		r = take_values(c, &b, &g, &err);
	else if (type == KEEPER_FAILED)
		r = buf_get_str(&b, &name) < 0 || buf_get_str(&b, &why) < 0 ? -EBADMSG : 0;
	else if (type == KEEPER_CURRENT)
		r = buf_get_u32(&b, ret_number);
	else
		r = -EBADMSG;
	if (r == 0 && type == KEEPER_FAILED)
		record(c, name, why);
	return r < 0 ? r : (int)type;
}

static int
ask(struct courier *c)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, KEEPER_ASK);
	buf_put_u32(&message, ++c->keeper_asked);
	return ipc_send(COURIER_KEEPER_FD, &message, NULL, 0, NULL);
}

void
courier_ask_keeper(struct courier *c)
{
	if (c->keeper.fd >= 0 && c->keeper_asked == c->keeper_answered)
		(void)ask(c);
}

static void
keeper_ready(void *arg, uint32_t events)
{
	struct courier *c = arg;
	int type = hear(c, &c->keeper_answered);

	(void)events;
	if (type >= 0 || type == -EAGAIN)
		return;
	/* The keeper has gone: secrets with an expiry will expire. */
	loop_unwatch(c->loop, &c->keeper);
	c->keeper.fd = -1;
}

/* The values given to the cell may have expired since. */
static void
await_first(struct courier *c)
{
	struct pollfd p = { .fd = COURIER_KEEPER_FD, .events = POLLIN };
	uint64_t deadline = loop_now_ms() + FIRST_ANSWER_MS, now;
	int type = ask(c);

	while (type >= 0 && c->keeper_answered != c->keeper_asked) {
		now = loop_now_ms();
		if (now >= deadline || poll(&p, 1, (int)(deadline - now)) == 0)
			return;
		type = hear(c, &c->keeper_answered);
		if (type == -EAGAIN)
			type = 0;
	}
}

int
courier_start_keeper(struct courier *c, struct err *err)
{
	await_first(c);
	c->keeper = (struct loop_source){ .fd = COURIER_KEEPER_FD, .ready = keeper_ready, .arg = c };
	return loop_watch(c->loop, &c->keeper, EPOLLIN, err);
}
