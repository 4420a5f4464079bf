/* supervisor_approve.c - identifies the person who answers an approval, checks that they may, and
 * applies the answer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_user.h"
#include "proc/supervisor/supervisor.h"

/* ---- who ---- */

/* The names by which a rule, or the cell's principal, may refer to a person.  The first is unique,
 * and is used for people and records. */
struct person {
	char names[APPROVAL_NAMES][COURIER_ASK_BY + 1];
	size_t n;
};

static void
add_name(struct person *p, const char *before, const char *name)
{
	snprintf(p->names[p->n++], COURIER_ASK_BY + 1, "%s%s", before, name);
}

/* The service writes "uid N" and "token NAME" for the people it acts for. */
static void
find_person(const struct steer_who *who, struct person *ret_person)
{
	char number[32], name[CELL_USER_MAX];
	uid_t uid = who->uid;

	*ret_person = (struct person){0};
	if (who->named && strncmp(who->by, "token ", 6) == 0) {
		add_name(ret_person, "token:", who->by + 6);
		return;
	}
	if (who->named && sscanf(who->by, "uid %u", &uid) != 1) {
		add_name(ret_person, "", who->by);
		return;
	}
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (cell_user_name(uid, name)) {
		add_name(ret_person, "user:", name);
		add_name(ret_person, "", name);
	}
	add_name(ret_person, "uid:", number);
}

static bool
is_named(const struct person *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->names[i], name) == 0)
			return true;
	return false;
}

/* With `--principal`, a token may also be given by its bare name. */
static bool
is_principal(const struct person *p, const char *principal)
{
	return principal[0] != '\0' && (is_named(p, principal) ||
	       (strncmp(p->names[0], "token:", 6) == 0 && strcmp(p->names[0] + 6, principal) == 0));
}

static bool
may_answer(const struct approval *a, const struct person *p)
{
	for (uint32_t i = 0; i < a->q.n_approvers; i++)
		if (is_named(p, a->q.approvers[i]))
			return true;
	return a->q.n_approvers == 0;
}

/* ---- which ---- */

static struct approval *
find(struct supervisor *sv, uint64_t n)
{
	struct approval *a = sv->approvals.first;

	while (a != NULL && a->n != n)
		a = a->next;
	return a;
}

static int
check_pending(const struct supervisor *sv, const struct approval *a, uint64_t n, struct err *err)
{
	static const char *const ends[] = {
		[APPROVAL_APPROVED] = "was approved", [APPROVAL_REFUSED] = "was refused",
		[APPROVAL_TIMED_OUT] = "has timed out",
		[APPROVAL_GONE] = "is of something that no longer waits",
	};

	if (a == NULL)
		return err_set(err, ENOENT, "there is no approval %s-%llu%s", sv->spec.id,
		               (unsigned long long)n, n != 0 && n <= sv->approvals.last ?
		               " any more: it was answered long ago" : ": see `cloister approvals`");
	if (a->state == APPROVAL_PENDING)
		return 0;
	return err_set(err, EALREADY, "approval %s-%llu %s%s%s: there is nothing left to answer",
	               sv->spec.id, (unsigned long long)n, ends[a->state],
	               a->last.by[0] != '\0' && a->state != APPROVAL_GONE ? " by " : "",
	               a->state != APPROVAL_GONE ? a->last.by : "");
}

static int
check_person(const struct approval *a, const struct person *p, struct err *err)
{
	const struct supervisor *sv = a->sv;
	char id[APPROVAL_ID_MAX];

	approval_id(a, id);
	if (is_principal(p, sv->spec.principal))
		return err_set(err, EPERM, "%s cannot answer %s: the cell acts for %s, and nobody approves "
		               "their own requests", p->names[0], id, sv->spec.principal);
	if (!may_answer(a, p))
		return err_set(err, EPERM, "%s is not among the approvers of %s that its rule names: see "
		               "`cloister approvals`", p->names[0], id);
	return 0;
}

/* ---- answers ---- */

static void
note_answer(struct approval *a, const struct person *p, const struct steer_who *who)
{
	snprintf(a->last.by, sizeof(a->last.by), "%s", p->names[0]);
	a->last.ns = supervisor_now_ns();
	snprintf(a->why, sizeof(a->why), "%s", who->why);
}

static void
put_answer(struct steer *s, const struct approval *a, bool yes, const char *text)
{
	char id[APPROVAL_ID_MAX];

	approval_id(a, id);
	buf_put_u64(&s->message, a->q.number);
	buf_put_u32(&s->message, yes);
	buf_put_str(&s->message, id);
	buf_put_str(&s->message, a->last.by);
	buf_put_str(&s->message, text);
}

/* Approves the others that wait for the rule that A opened. */
static void
answer_others(struct approval *a, const struct steer_who *who)
{
	struct steer *s;

	for (struct approval *b = a->sv->approvals.first; b != NULL; b = b->next) {
		if (b == a || b->state != APPROVAL_PENDING ||
		    memcmp(a->q.rule, b->q.rule, COURIER_ASK_RULE) != 0)
			continue;
		s = steer_begin(a->sv, NULL, STEER_ANSWER, who, NULL, NULL);
		if (s == NULL)
			return;
		b->last = a->last;
		b->how = a->how;
		/* The people who opened the rule have approved this request, too. */
		memcpy(b->given, a->given, sizeof(b->given));
		b->n_given = a->n_given;
		snprintf(b->why, sizeof(b->why), "%s", a->why);
		put_answer(s, b, true, "");
		(void)steer_send(a->sv, s);
		approval_record(b, "approve", who);
		approval_close(b, APPROVAL_APPROVED);
	}
}

static void
give(struct approval *a, enum control_approve how, uint64_t ms)
{
	a->given[a->n_given++] = a->last;
	/* The narrowest of all answers counts. */
	if (how < a->how || (how == a->how && ms < a->for_ms)) {
		a->how = how;
		a->for_ms = ms;
	}
}

/* Enough people have approved. */
static int
approve(struct approval *a, struct client *client, const struct steer_who *who, struct err *err)
{
	struct supervisor *sv = a->sv;
	struct steer *s;
	int r = 0;

	/* Open the rule and send the answer, or do neither: a refused request must not open a rule. */
	if (a->how != CONTROL_APPROVE_ONCE)
		r = steer_has_room(sv, 2) ?
		    approval_open_rule(a, a->how == CONTROL_APPROVE_FOR ? a->for_ms : 0) : -EBUSY;
	s = r == 0 ? steer_begin(sv, client, STEER_ANSWER, who, NULL, NULL) : NULL;
	if (s == NULL) {
		a->n_given--;
		return r == -E2BIG ? err_set(err, E2BIG, "%d rules are open already: approve it --once",
		                             APPROVALS_OPEN_MAX) :
		       steer_busy(err);
	}
	put_answer(s, a, true, "");
	buf_put_u32(&s->answer, 1);
	approval_record(a, "approve", who);
	approval_close(a, APPROVAL_APPROVED);
	if (a->how != CONTROL_APPROVE_ONCE)
		answer_others(a, who);
	return steer_send(sv, s);
}

static int
check_answer(struct supervisor *sv, const struct approval *a, uint64_t n, const struct person *p,
             struct err *err)
{
	int r = sv->dead ? err_set(err, ESRCH, "the cell is ending") : check_pending(sv, a, n, err);

	return r == 0 ? check_person(a, p, err) : r;
}

int
supervisor_answer_approve(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer = {0};
	struct steer_who who;
	struct person person;
	struct err err = {0};
	struct approval *a;
	uint64_t n, ms;
	uint32_t how;
	int r;

	if (steer_take_who(client, &message->body, &who) < 0 || buf_get_u64(&message->body, &n) < 0 ||
	    buf_get_u32(&message->body, &how) < 0 || how > CONTROL_APPROVE_RULE ||
	    buf_get_u64(&message->body, &ms) < 0 || (how == CONTROL_APPROVE_FOR) != (ms != 0) ||
	    ms > CONTROL_APPROVE_MS || buf_left(&message->body) != 0)
		return -EBADMSG;
	a = find(sv, n);
	find_person(&who, &person);
	r = check_answer(sv, a, n, &person, &err);
	for (size_t i = 0; r == 0 && i < a->n_given; i++)
		if (strcmp(a->given[i].by, person.names[0]) == 0)
			r = err_set(&err, EALREADY, "%s has approved it already: %u different people have to",
			            person.names[0], a->q.needs);
	if (r < 0)
		return steer_refuse(client, &err);
	note_answer(a, &person, &who);
	give(a, how, ms);
	if (a->n_given >= a->q.needs) {
		r = approve(a, client, &who, &err);
		return r < 0 && err.code != 0 ? steer_refuse(client, &err) : r;
	}
	approval_record(a, "approve", &who);
	approval_changed(a);
	ipc_begin(&answer, CONTROL_DONE);
	buf_put_u32(&answer, 0);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

int
supervisor_answer_refuse_asked(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	char text[CONTROL_WHY_MAX + COURIER_ASK_BY + 32];
	struct steer_who who;
	struct person person;
	struct err err = {0};
	struct approval *a;
	struct steer *s;
	uint64_t n;

	if (steer_take_who(client, &message->body, &who) < 0 || buf_get_u64(&message->body, &n) < 0 ||
	    buf_left(&message->body) != 0)
		return -EBADMSG;
	a = find(sv, n);
	find_person(&who, &person);
	if (check_answer(sv, a, n, &person, &err) < 0)
		return steer_refuse(client, &err);
	s = steer_begin(sv, client, STEER_ANSWER, &who, NULL, NULL);
	if (s == NULL) {
		(void)steer_busy(&err);
		return steer_refuse(client, &err);
	}
	note_answer(a, &person, &who);
	snprintf(text, sizeof(text), "%s refused this%s%s", a->last.by, who.why[0] != '\0' ? ": " : "",
	         who.why);
	put_answer(s, a, false, text);
	approval_record(a, "refuse", &who);
	approval_close(a, APPROVAL_REFUSED);
	return steer_send(sv, s);
}

/* ---- listing ---- */

/* The approval that changed first after SEEN. */
static struct approval *
next_change(struct supervisor *sv, uint64_t seen)
{
	struct approval *next = NULL;

	for (struct approval *a = sv->approvals.first; a != NULL; a = a->next)
		if (a->change > seen && (next == NULL || a->change < next->change))
			next = a;
	return next;
}

/* False if the client has seen every change. */
static bool
show_next(struct client *client)
{
	struct approval *a = next_change(client->sv, client->seen);
	OWN(buf_free) struct buf answer, json;

	ipc_begin(&answer, CONTROL_APPROVAL);
	buf_init(&json, IPC_MESSAGE_MAX);
	if (a == NULL)
		return false;
	approval_json(a, &json);
	buf_put(&json, "", 1);
	buf_put_u64(&answer, a->change);
	buf_put_str(&answer, buf_failed(&json) ? "{}" : (char *)json.data);
	supervisor_client_send(client, &answer, NULL, 0);
	client->follows = false;
	return true;
}

int
supervisor_answer_approvals(struct client *client, struct ipc_message *message)
{
	OWN(buf_free) struct buf answer = {0};
	struct steer_who who;
	uint32_t wait;

	if (steer_take_who(client, &message->body, &who) < 0 ||
	    buf_get_u64(&message->body, &client->seen) < 0 || buf_get_u32(&message->body, &wait) < 0 ||
	    wait > 1 || buf_left(&message->body) != 0)
		return -EBADMSG;
	client->state = CLIENT_APPROVALS;
	client->follows = wait == 1;
	ipc_begin(&answer, CONTROL_DONE);
	if (!show_next(client) && wait == 0)
		supervisor_client_send(client, &answer, NULL, 0);
	return 0;
}

void
supervisor_tell_approvals(struct supervisor *sv)
{
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->state == CLIENT_APPROVALS && c->follows)
			(void)show_next(c);
}
