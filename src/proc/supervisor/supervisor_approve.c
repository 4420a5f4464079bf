/* supervisor_approve.c - applies the answers of people to approvals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

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

/* ---- answers ---- */

static void
note_answer(struct approval *a, const struct steer_who *who)
{
	supervisor_name_person(who, a->last.by);
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
		if (b == a || b->state != APPROVAL_PENDING || b->of != a->of ||
		    memcmp(a->q.rule, b->q.rule, COURIER_ASK_RULE) != 0)
			continue;
		s = b->of == APPROVAL_OF_REQUEST ? steer_begin(a->sv, NULL, STEER_ANSWER, who, NULL, NULL) : NULL;
		if (s == NULL && b->of == APPROVAL_OF_REQUEST)
			return;
		b->last = a->last;
		b->how = a->how;
		/* The people who opened the rule have approved this request, too. */
		memcpy(b->given, a->given, sizeof(b->given));
		b->n_given = a->n_given;
		snprintf(b->why, sizeof(b->why), "%s", a->why);
		if (b->of == APPROVAL_OF_RESULT) {
			approval_answer_result(b, true, "");
		} else {
			put_answer(s, b, true, "");
			(void)steer_send(a->sv, s);
		}
		approval_record_answer(b, VERB_APPROVE, who);
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
	approval_record_answer(a, VERB_APPROVE, who);
	approval_close(a, APPROVAL_APPROVED);
	if (a->how != CONTROL_APPROVE_ONCE)
		answer_others(a, who);
	return steer_send(sv, s);
}

/* The client has its answer at once: the courier knows nothing of the question. */
static int
done(struct client *client, const uint32_t *enough)
{
	OWN(buf_free) struct buf answer = {0};

	ipc_begin(&answer, CONTROL_DONE);
	if (enough != NULL)
		buf_put_u32(&answer, *enough);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

/* The same for a result, or for the cell: closing that thaws it. */
static int
approve_other(struct approval *a, struct client *client, const struct steer_who *who, struct err *err)
{
	static const uint32_t enough = 1;

	if (a->how != CONTROL_APPROVE_ONCE &&
	    approval_open_rule(a, a->how == CONTROL_APPROVE_FOR ? a->for_ms : 0) < 0) {
		a->n_given--;
		return err_set(err, E2BIG, "%d rules are open already: approve it --once", APPROVALS_OPEN_MAX);
	}
	if (a->of == APPROVAL_OF_RESULT)
		approval_answer_result(a, true, "");
	approval_record_answer(a, VERB_APPROVE, who);
	approval_close(a, APPROVAL_APPROVED);
	if (a->of == APPROVAL_OF_RESULT && a->how != CONTROL_APPROVE_ONCE)
		answer_others(a, who);
	return done(client, &enough);
}

static int
refuse_other(struct approval *a, struct client *client, const struct steer_who *who, const char *text)
{
	if (a->of == APPROVAL_OF_RESULT)
		approval_answer_result(a, false, text);
	approval_record_answer(a, VERB_REFUSE, who);
	if (a->of == APPROVAL_OF_CELL)
		approval_refuse_cell(a, who->why[0] != '\0' ? who->why : "a person refused that the cell goes on");
	approval_close(a, APPROVAL_REFUSED);
	return done(client, NULL);
}

int
supervisor_answer_approve(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	uint64_t n = call->q.n[0], how = call->q.n[1], ms = call->q.n[2];
	struct approval *a = approval_find(sv, n);
	static const uint32_t not_enough = 0;
	char person[COURIER_ASK_BY + 1];
	struct err err = {0};
	int r;

	if (how > CONTROL_APPROVE_RULE || (how == CONTROL_APPROVE_FOR) != (ms != 0) || ms > CONTROL_APPROVE_MS)
		return -EBADMSG;
	r = check_pending(sv, a, n, &err);
	supervisor_name_person(&call->who, person);
	for (size_t i = 0; r == 0 && i < a->n_given; i++)
		if (strcmp(a->given[i].by, person) == 0)
			r = err_set(&err, EALREADY, "%s has approved it already: %u different people have to", person,
			            a->q.needs);
	if (r < 0)
		return steer_refuse(client, &err);
	note_answer(a, &call->who);
	give(a, (enum control_approve)how, ms);
	if (a->n_given >= a->q.needs) {
		r = a->of == APPROVAL_OF_REQUEST ? approve(a, client, &call->who, &err) :
		    approve_other(a, client, &call->who, &err);
		return r < 0 && err.code != 0 ? steer_refuse(client, &err) : r;
	}
	approval_record_answer(a, VERB_APPROVE, &call->who);
	approval_changed(a);
	return done(client, &not_enough);
}

int
supervisor_answer_refuse_asked(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct approval *a = approval_find(sv, call->q.n[0]);
	char text[CONTROL_WHY_MAX + COURIER_ASK_BY + 32];
	const struct steer_who *who = &call->who;
	struct err err = {0};
	struct steer *s;

	if (check_pending(sv, a, call->q.n[0], &err) < 0)
		return steer_refuse(client, &err);
	s = a->of == APPROVAL_OF_REQUEST ? steer_begin(sv, client, STEER_ANSWER, who, NULL, NULL) : NULL;
	if (s == NULL && a->of == APPROVAL_OF_REQUEST) {
		(void)steer_busy(&err);
		return steer_refuse(client, &err);
	}
	note_answer(a, who);
	snprintf(text, sizeof(text), "%s refused this%s%s", a->last.by, who->why[0] != '\0' ? ": " : "",
	         who->why);
	if (a->of != APPROVAL_OF_REQUEST)
		return refuse_other(a, client, who, text);
	put_answer(s, a, false, text);
	approval_record_answer(a, VERB_REFUSE, who);
	approval_close(a, APPROVAL_REFUSED);
	return steer_send(sv, s);
}
