/* steer.c - see steer.h. */
#include "egress/steer.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/ipc.h"

#define AGAIN_MS 5

static const struct {
	enum courier_steer kind;
	courier_steer_take *take;
} kinds[] = {
	{ STEER_POLICY, courier_take_policy },
	{ STEER_COUNTS, courier_take_counts },
	{ STEER_REVOKE, courier_take_revoke },
	{ STEER_ROTATE, courier_take_rotate },
	{ STEER_FIRED, courier_take_fired },
	{ STEER_LEDGER, courier_take_ledger },
	{ STEER_ANSWER, courier_take_answer },
	{ STEER_OPEN, courier_take_open },
};

struct steered {
	struct steered *next;
	struct buf message;
};

/* Messages keep their order: if the supervisor does not read, all of them wait. */
static void
send_waiting(struct courier *c)
{
	struct steered_queue *q = &c->steered;
	struct steered *s;
	ssize_t n = 0;

	c->events.urgent = true;
	events_flush(&c->events, false);
	while ((s = q->first) != NULL && c->events.n == 0) {
		do
			n = send(c->events.fd, s->message.data, s->message.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN)
			break;
		q->first = s->next;
		q->n--;
		buf_free(&s->message);
		free(s);
	}
	if (q->first == NULL)
		q->end = &q->first;
	else
		loop_set_timer(c->loop, &q->again, AGAIN_MS);
}

static void
again_due(void *arg)
{
	send_waiting(arg);
}

void
courier_steer_init(struct courier *c)
{
	c->steered = (struct steered_queue){ .again = { .due = again_due, .arg = c } };
	c->steered.end = &c->steered.first;
}

void
courier_steer_close(struct courier *c)
{
	struct steered *s;

	if (c->loop != NULL)
		loop_cancel_timer(c->loop, &c->steered.again);
	while ((s = c->steered.first) != NULL) {
		c->steered.first = s->next;
		buf_free(&s->message);
		free(s);
	}
}

void
courier_say_all(struct courier *c)
{
	struct pollfd pollfd = { .fd = c->events.fd, .events = POLLOUT };

	while (c->steered.first != NULL) {
		(void)poll(&pollfd, 1, -1);
		send_waiting(c);
	}
}

void
courier_say(struct courier *c, struct buf *message)
{
	struct steered_queue *q = &c->steered;
	struct steered *s = calloc(1, sizeof(*s));

	/* An agent can cause more messages than a supervisor with a slow disk reads. */
	if (q->n >= STEERED_WAITING_MAX)
		courier_say_all(c);
	/* Without this message, its receiver would wait for ever. */
	assert(s != NULL && !buf_failed(message));
	s->message = *message;
	*message = (struct buf){0};
	*q->end = s;
	q->end = &s->next;
	q->n++;
	send_waiting(c);
}

void
courier_steered(struct courier *c, uint64_t number, const struct err *err)
{
	char text[COURIER_STEERED_MAX + 1];
	struct buf message;

	if (number == 0)
		return;
	snprintf(text, sizeof(text), "%.*s", COURIER_STEERED_MAX, err->code == 0 ? "" : err->text);
	ipc_begin(&message, COURIER_STEERED);
	buf_put_u64(&message, number);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, text);
	courier_say(c, &message);
}

int
courier_steer(struct courier *c, struct ipc_message *message)
{
	struct err err = {0};
	uint64_t number;
	uint32_t kind;
	int r = -EBADMSG;

	if (buf_get_u64(&message->body, &number) < 0 || buf_get_u32(&message->body, &kind) < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].kind == kind)
			r = kinds[i].take(c, number, message, &err);
	if (r == -EBADMSG)
		return r;
	/* Changes handed over at the start are all required. */
	if (r < 0 && number == 0)
		return r;
	if (r < 0 && err.code == 0)
		(void)err_set(&err, -r, "%s", strerrordesc_np(-r));
	if (r != COURIER_STEER_LATER)
		courier_steered(c, number, &err);
	return 0;
}
