/* supervisor_events.c - writes the courier's events to the cell's timeline.
 *
 * The courier reads the world's answers and may be compromised.  Its messages must not be able to
 * forge or break a record, or to affect a terminal. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/members.h"
#include "ipc/courier_channel.h"
#include "proc/supervisor/supervisor.h"

#define BATCH_MAX 16                    /* messages in one round */

bool
supervisor_is_event(const char *text, const char *const *types, size_t n)
{
	const char *type;
	size_t len;

	/* A longer one could not be recorded, and would be held here for ever. */
	if (strlen(text) > AUDIT_EVENT_MAX - 2 || !members_check(text, strlen(text), &type, &len))
		return false;
	for (size_t i = 0; i < n; i++)
		if (strlen(types[i]) == len && memcmp(types[i], type, len) == 0)
			return true;
	return false;
}

/* Notifies people of budgets. */
static void
notify_of(struct supervisor *sv, const char *event)
{
	OWN(buf_free) struct buf data = {0};
	const char *type;
	size_t len;

	/* Nearly all events are something else. */
	if (strstr(event, "\"type\":\"budget\"") == NULL ||
	    !members_check(event, strlen(event), &type, &len) || len != 6 || memcmp(type, "budget", 6) != 0)
		return;
	buf_init(&data, AUDIT_EVENT_MAX);
	buf_put(&data, "{", 1);
	buf_put(&data, event, strlen(event));
	buf_put(&data, "}", 1);
	if (!buf_failed(&data))
		supervisor_notify_own(sv, "budget", &data);
}

/* Adds the process that made the connection, if the witness knows it. */
static int
put_event(struct supervisor *sv, const char *event)
{
	const size_t len = strlen(event);
	OWN(buf_free) struct buf more = BUF(AUDIT_EVENT_MAX);
	uint64_t port;
	uint32_t pid = 0;

	if (sv->witness.next_port > 0 && members_find_u64(event, len, "from", &port))
		pid = supervisor_witness_process(sv, port);
	if (pid == 0)
		return supervisor_timeline_put(sv, event, len);
	members_add_u64(&more, event, len, "pid", pid);
	return buf_failed(&more) || more.len > AUDIT_EVENT_MAX - 2 ? supervisor_timeline_put(sv, event, len) :
	       supervisor_timeline_put(sv, (char *)more.data, more.len);
}

/* Checks the event; with RECORD, records it. */
static int
take_event(struct supervisor *sv, struct buf *body, bool record)
{
	static const char *const types[] = { COURIER_TYPES };
	const char *what, *event;
	uint32_t refused;

	if (buf_get_u32(body, &refused) < 0 || refused > 1 || buf_get_str(body, &what) < 0 ||
	    buf_get_str(body, &event) < 0 || strlen(what) > COURIER_WHAT_MAX ||
	    (!record && !supervisor_is_event(event, types, ARRAY_LEN(types))))
		return -EBADMSG;
	if (!record)
		return 0;
	/* An allowed request that succeeded has no "why". */
	if (refused == 1 || strstr(event, "\"why\":") != NULL)
		cell_refusals_note(&sv->timeline.refusals, event);
	if (refused == 0)
		notify_of(sv, event);
	return put_event(sv, event);
}

/* Called twice, so that a message is recorded as a whole or rejected as a whole. */
static int
read_events(struct supervisor *sv, struct buf body, bool record)
{
	uint64_t awaited;
	uint32_t n;
	int r = 0;

	if (buf_get_u32(&body, &n) < 0 || n == 0 || n > COURIER_EVENTS_MAX ||
	    buf_get_u64(&body, &awaited) < 0 || (awaited != 0 && !sv->spec.audit_strict))
		return -EBADMSG;
	if (!record && awaited != 0 && awaited <= sv->timeline.awaited)
		return -EBADMSG;
	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = take_event(sv, &body, record);
	if (r == 0 && buf_left(&body) != 0)
		r = -EBADMSG;
	if (r == 0 && record && awaited != 0)
		sv->timeline.awaited = awaited;
	return r;
}

/* 0, or negative if there is no room. */
static int
record_events(struct supervisor *sv, const struct buf *body)
{
	uint64_t awaited = sv->timeline.awaited;
	struct buf b = *body;
	uint32_t n = 0;
	int r;

	(void)buf_get_u32(&b, &n);
	if (!supervisor_timeline_has_room(sv, buf_left(body) + (size_t)n * SUPERVISOR_WRAP_MAX))
		return -ENOSPC;
	r = read_events(sv, *body, true);
	if (r == 0)
		r = supervisor_timeline_write(sv);
	if (r < 0)
		sv->timeline.awaited = awaited;
	else
		supervisor_timeline_sync(sv);
	return r;
}

static int
take_events(struct supervisor *sv, struct ipc_message *message)
{
	struct timeline *t = &sv->timeline;
	int r = read_events(sv, message->body, false);

	if (r < 0)
		return r;
	/* A courier may go on until it has read that nothing may leave any more, but not for long. */
	if (t->bytes > sv->spec.audit_max + TIMELINE_SLACK)
		return -EBADMSG;
	/* The witness has sent whose connection it is before the request was made, but on a channel of its own. */
	supervisor_witness_catch_up(sv);
	if (record_events(sv, &message->body) == 0)
		return 0;
	/* Hold the message here, and let the courier wait. */
	t->held = message->body;
	message->body = (struct buf){0};
	t->holds = true;
	(void)loop_watch(sv->loop, &sv->egress.courier, 0, NULL);
	return 0;
}

void
supervisor_hear_held(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	if (!t->holds || record_events(sv, &t->held) < 0)
		return;
	buf_free(&t->held);
	t->holds = false;
	if (sv->egress.courier.fd >= 0)
		(void)loop_watch(sv->loop, &sv->egress.courier, EPOLLIN, NULL);
}

/* The held message's numbers would be taken for requests of the next courier.  Those would then
 * leave before their records are written. */
void
supervisor_held_is_anothers(struct supervisor *sv)
{
	struct buf *held = &sv->timeline.held;

	if (!sv->timeline.holds)
		return;
	/* The field behind the number of events: see COURIER_EVENTS. */
	memset(held->data + held->pos + 4, 0, 8);
	(void)loop_watch(sv->loop, &sv->egress.courier, 0, NULL);
}

static int
take_alarm(struct supervisor *sv, struct ipc_message *message)
{
	if (buf_left(&message->body) != 0 || sv->spec.exfiltration == CELL_REFUSE)
		return -EBADMSG;
	supervisor_alarm(sv);
	return 0;
}

/* The messages that the courier may send.  Any other kills it. */
static const struct {
	uint32_t type;
	int (*take)(struct supervisor *sv, struct ipc_message *message);
} courier_may_say[] = {
	{ COURIER_EVENTS, take_events },
	{ COURIER_ALARM, take_alarm },
	{ COURIER_REACHED, supervisor_reached },
	{ COURIER_ASK, supervisor_asked },
	{ COURIER_WITHDRAW, supervisor_withdrawn },
	{ COURIER_STEERED, supervisor_steered },
	{ COURIER_USED, supervisor_secrets_used },
	{ COURIER_FIRED, supervisor_take_fired },
	{ COURIER_TRIPPED, supervisor_take_tripped },
};

static int
take_message(struct supervisor *sv, struct ipc_message *message)
{
	for (size_t i = 0; i < ARRAY_LEN(courier_may_say); i++)
		if (courier_may_say[i].type == message->type && message->n_fds == 0)
			return courier_may_say[i].take(sv, message);
	return -EBADMSG;
}

int
supervisor_hear_courier(struct supervisor *sv)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = sv->timeline.holds ? -EAGAIN : ipc_receive(sv->egress.courier.fd, &message, NULL);

	if (r == -EAGAIN)
		return r;
	if (r == 0)
		r = take_message(sv, &message);
	if (r < 0)
		supervisor_egress_hung_up(sv, &sv->egress.courier);
	if (r == -EBADMSG) {
		supervisor_say(sv, "the cell's courier broke the rules, so it was killed");
		supervisor_egress_stop(sv);
	}
	return r;
}

void
supervisor_courier_ready(void *arg, uint32_t events)
{
	(void)events;
	for (int i = 0; i < BATCH_MAX && supervisor_hear_courier(arg) == 0; i++)
		;
}

/* For the dispatch that started the cell. */
static void
note_refusals(const struct supervisor *sv)
{
	const struct cell_refusals *refusals = &sv->timeline.refusals;
	struct step step;

	if (refusals->total == 0 || !supervisor_step_begin(sv, &step, "cell.refused"))
		return;
	json_str(&step.w, "cell", sv->spec.id);
	json_u64(&step.w, "times", refusals->total);
	json_open(&step.w, "refusals", '[');
	for (size_t i = 0; i < refusals->n; i++) {
		json_open(&step.w, NULL, '{');
		json_str(&step.w, "what", refusals->kinds[i].what);
		json_str(&step.w, "why", refusals->kinds[i].why);
		json_u64(&step.w, "times", refusals->kinds[i].times);
		json_close(&step.w, '}');
	}
	json_close(&step.w, ']');
	supervisor_step_end(sv, &step);
}

void
supervisor_tell_refusals(const struct supervisor *sv, const char *cell)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	FILE *out;

	note_refusals(sv);
	out = sv->spec.quiet || sv->spec.detached ? NULL : open_memstream(&text, &len);
	if (out == NULL)
		return;
	cell_refusals_print(out, &sv->timeline.refusals, cell);
	if (fclose(out) == 0)
		supervisor_print(text, len);
}
