/* supervisor_steer.c - see supervisor_steer.h. */
#include "proc/supervisor/supervisor_steer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define AGAIN_MS 5                      /* until a courier that does not read gets another try */

static void
steer_free(struct steer *s)
{
	for (size_t i = 0; i < s->n_fds; i++)
		closep(&s->fds[i]);
	buf_free(&s->message);
	buf_free(&s->answer);
	free(s);
}

static void
unlink_one(struct supervisor *sv, const struct steer *s)
{
	struct steer **at = &sv->steering.first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	sv->steering.n--;
}

/* S is over, and in no list. */
static void
finish(struct supervisor *sv, struct steer *s, const struct err *err)
{
	if (s->done != NULL)
		s->done(sv, s, err);
	if (s->client != NULL && err->code != 0)
		supervisor_client_refuse(s->client, err);
	else if (s->client != NULL)
		supervisor_client_send(s->client, &s->answer, s->answer_fds, s->n_answer_fds);
}

static void
finish_and_drop(struct supervisor *sv, struct steer *s, const struct err *err)
{
	finish(sv, s, err);
	if (s->client != NULL)
		supervisor_client_drop(s->client);
	steer_free(s);
}

/* ---- on the way ---- */

static void
again_due(void *arg)
{
	supervisor_steer_flush(arg);
}

void
supervisor_steer_flush(struct supervisor *sv)
{
	struct steering *book = &sv->steering;
	struct steer *s, *next;
	int r = 0;

	if (sv->egress.courier.fd < 0)
		return;
	for (s = book->first; s != NULL && r == 0; s = next) {
		next = s->next;
		if (s->sent)
			continue;
		r = ipc_send(sv->egress.courier.fd, &s->message, s->fds, s->n_fds, NULL);
		s->sent = r == 0;
		/* The courier does not confirm this one. */
		if (r == 0 && s->number == 0) {
			unlink_one(sv, s);
			steer_free(s);
		}
	}
	book->again.due = again_due;
	book->again.arg = sv;
	/* If the courier is gone, the end of its channel is handled elsewhere. */
	if (r == -EAGAIN)
		loop_set_timer(sv->loop, &book->again, AGAIN_MS);
}

static struct steer *
add(struct supervisor *sv, enum courier_steer kind, bool answered)
{
	struct steer *s = calloc(1, sizeof(*s)), **at = &sv->steering.first;

	if (s == NULL)
		return NULL;
	s->number = answered ? ++sv->steering.number : 0;
	ipc_begin(&s->message, COURIER_STEER);
	buf_put_u64(&s->message, s->number);
	buf_put_u32(&s->message, kind);
	ipc_begin(&s->answer, CONTROL_DONE);
	while (*at != NULL)
		at = &(*at)->next;
	*at = s;
	sv->steering.n++;
	return s;
}

bool
steer_has_room(const struct supervisor *sv, size_t n)
{
	return sv->steering.n + n <= STEERS_MAX;
}

struct steer *
steer_begin(struct supervisor *sv, struct client *client, enum courier_steer kind,
            const struct steer_who *who, steer_done *done, void *arg)
{
	struct steer *s = steer_has_room(sv, 1) ? add(sv, kind, true) : NULL;

	if (s == NULL)
		return NULL;
	s->client = client;
	s->who = *who;
	s->done = done;
	s->arg = arg;
	return s;
}

int
steer_add_fd(struct steer *s, int fd)
{
	int copy = s->n_fds == IPC_FDS_MAX ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy < 0)
		return -EMFILE;
	s->fds[s->n_fds++] = copy;
	return 0;
}

int
steer_send(struct supervisor *sv, struct steer *s)
{
	struct client *client = s->client;
	struct err err = {0};

	if (buf_failed(&s->message))
		(void)err_set(&err, E2BIG, "that is too much to tell the cell's courier at once");
	if (err.code == 0 && sv->egress.running && sv->egress.courier.fd >= 0) {
		supervisor_steer_flush(sv);
		return 0;
	}
	unlink_one(sv, s);
	finish(sv, s, &err);
	steer_free(s);
	return client != NULL ? -EPIPE : 0;
}

int
steer_busy(struct err *err)
{
	return err_set(err, EBUSY, "too much is being changed about the cell at once: try again");
}

int
steer_refuse(struct client *client, const struct err *err)
{
	supervisor_client_refuse(client, err);
	return -EPIPE;
}

/* ---- and back ---- */

int
supervisor_steered(struct supervisor *sv, struct ipc_message *message)
{
	struct steer *s = sv->steering.first;
	struct err err = {0};
	const char *text;
	uint64_t number;
	uint32_t code;

	if (buf_get_u64(&message->body, &number) < 0 || buf_get_u32(&message->body, &code) < 0 ||
	    buf_get_str(&message->body, &text) < 0 || buf_left(&message->body) != 0 ||
	    number == 0 || code > 4095 || strlen(text) > COURIER_STEERED_MAX)
		return -EBADMSG;
	while (s != NULL && s->number != number)
		s = s->next;
	if (s == NULL || !s->sent)
		return -EBADMSG;
	if (code != 0)
		(void)err_set(&err, (int)code, "%s", text[0] != '\0' ? text : "the cell's courier does not say why");
	unlink_one(sv, s);
	finish_and_drop(sv, s, &err);
	supervisor_check_end(sv);
	return 0;
}

void
supervisor_steer_gone(struct supervisor *sv)
{
	static const struct err in_force;
	struct steer *s;

	loop_cancel_timer(sv->loop, &sv->steering.again);
	while ((s = sv->steering.first) != NULL) {
		unlink_one(sv, s);
		finish_and_drop(sv, s, &in_force);
	}
}

/* ---- at a courier's start ---- */

struct steer *
steer_tell(struct supervisor *sv, enum courier_steer kind)
{
	return sv->steering.n < COURIER_STEERS_FIRST ? add(sv, kind, false) : NULL;
}

/* ---- who, and why ---- */

void
steer_find_who(const struct client *client, struct steer_call *call)
{
	struct steer_who *who = &call->who;

	*who = (struct steer_who){ .named = call->q.by[0] != '\0', .tells = call->q.tells };
	who->uid = supervisor_client_describe(client, who->by, sizeof(who->by));
	if (who->named)
		snprintf(who->by, sizeof(who->by), "%s", call->q.by);
	snprintf(who->why, sizeof(who->why), "%s", call->q.why);
}

void
steer_members(struct members *m, const char *did, const struct steer_who *who)
{
	members_str(m, "type", "steer");
	members_str(m, "did", did);
	members_str(m, "by", who->by);
	members_str(m, "why", who->why);
}

void
steer_record(struct supervisor *sv, enum steer_verb verb, const struct steer_who *who,
             const struct members *m)
{
	supervisor_record_members(sv, m);
	if (!who->tells)
		supervisor_tell_operator(sv, steer_rows[verb].record, m);
}
