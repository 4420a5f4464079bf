/* supervisor_approvals.c - see supervisor_approvals.h: from the question to its end. */
#include "proc/supervisor/supervisor_approvals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_tools.h"
#include "proc/supervisor/supervisor.h"

struct approval *
approval_find(const struct supervisor *sv, uint64_t n)
{
	struct approval *a = sv->approvals.first;

	while (a != NULL && a->n != n)
		a = a->next;
	return a;
}

static void
approval_free(struct approval *a)
{
	buf_free(&a->body);
	free(a);
}

/* ---- one more ---- */

/* Drops the oldest answered approval to make room. */
static void
forget_oldest(struct approvals *all)
{
	struct approval **at = &all->first, *a;

	if (all->n - all->n_pending < APPROVALS_KEPT_MAX)
		return;
	while ((*at)->state == APPROVAL_PENDING)
		at = &(*at)->next;
	a = *at;
	*at = a->next;
	all->n--;
	approval_free(a);
}

static void
refuse_request(struct approval *a, const char *text)
{
	static const struct steer_who nobody;
	struct steer *s = steer_begin(a->sv, NULL, STEER_ANSWER, &nobody, NULL, NULL);
	char id[APPROVAL_ID_MAX];

	/* The courier's own timeout refuses it a little later. */
	if (s == NULL)
		return;
	approval_id(a, id);
	buf_put_u64(&s->message, a->q.number);
	buf_put_u32(&s->message, 0);
	buf_put_str(&s->message, id);
	buf_put_str(&s->message, "");
	buf_put_str(&s->message, text);
	(void)steer_send(a->sv, s);
}

/* Refuses A to whoever holds it; no client waits for that. */
static void
answer_no(struct approval *a, const char *text)
{
	snprintf(a->why, sizeof(a->why), "%s", text);
	switch (a->of) {
	case APPROVAL_OF_REQUEST:
		refuse_request(a, text);
		break;
	case APPROVAL_OF_RESULT:
		approval_answer_result(a, false, text);
		break;
	case APPROVAL_OF_CELL:
		approval_refuse_cell(a, text);
		break;
	}
}

static void
time_is_up(void *arg)
{
	struct approval *a = arg;
	char time[NUM_TEXT_MAX], text[128];

	/* The courier puts the rule's own reason in front, if there is one. */
	snprintf(text, sizeof(text), "%s within %s", a->q.reason[0] != '\0' ? "nobody approved it" :
	         "a person has to approve this, and nobody did", num_format_duration(time, a->q.ms));
	if (a->n_given > 0)
		snprintf(text, sizeof(text), "%u people have to approve this, and within %s only %zu did",
		         a->q.needs, num_format_duration(time, a->q.ms), a->n_given);
	answer_no(a, text);
	approval_close(a, APPROVAL_TIMED_OUT);
}

/* Freezes the cell if the rule requires it.  If that fails, A is refused. */
static bool
stand_still(struct approval *a)
{
	char id[APPROVAL_ID_MAX], text[300];
	struct err err = {0};

	if (a->q.freeze == 0)
		return true;
	approval_id(a, id);
	if (supervisor_freeze_for(a->sv, id, &err) == 0) {
		a->froze = true;
		return true;
	}
	snprintf(text, sizeof(text), "the cell has to stand still while it waits for approval, and "
	         "cannot: %.150s", err.text);
	answer_no(a, text);
	approval_close(a, APPROVAL_REFUSED);
	return false;
}

/* Prints to the terminal of the cell, of commands in it, and to its dispatch. */
static void
say_asked(const struct approval *a, const char *id)
{
	const char *method = a->q.method[0] != '\0' ? a->q.method : a->q.protocol;
	struct step step;
	char text[ERR_TEXT_MAX];

	snprintf(text, sizeof(text), "a person has to approve %s %s: `cloister approvals`, then `cloister "
	         "approve %s` or `cloister refuse %s --reason TEXT`", method, a->q.host, id, id);
	supervisor_say(a->sv, "%s", text);
	supervisor_say_to_execs(a->sv, text);
	if (a->n > STEPS_ASKED_MAX || !supervisor_step_begin(a->sv, &step, "approval.asked"))
		return;
	json_str(&step.w, "approval", id);
	json_str(&step.w, "method", method);
	json_str(&step.w, "host", a->q.host);
	supervisor_step_end(a->sv, &step);
}

/* SAYS: print it too, not only notify. */
static void
announce(struct approval *a, bool says)
{
	OWN(buf_free) struct buf json;
	char id[APPROVAL_ID_MAX];

	approval_id(a, id);
	if (says)
		say_asked(a, id);
	buf_init(&json, IPC_MESSAGE_MAX);
	approval_json(a, &json);
	supervisor_notify(a->sv, "ask", &json);
}

static size_t
count_pending(const struct approvals *all, enum approval_of of)
{
	size_t n = 0;

	for (const struct approval *a = all->first; a != NULL; a = a->next)
		n += a->state == APPROVAL_PENDING && a->of == of;
	return n;
}

/* Takes BODY. */
static int
ask(struct supervisor *sv, struct buf *body, enum approval_of of)
{
	struct approvals *all = &sv->approvals;
	struct approval *a = calloc(1, sizeof(*a)), **at = &all->first;
	bool recorded;

	if (a == NULL)
		return -ENOMEM;
	*a = (struct approval){ .sv = sv, .of = of, .body = *body, .how = CONTROL_APPROVE_RULE,
	                        .timer = { .due = time_is_up, .arg = a } };
	*body = (struct buf){0};
	if (approval_question_get(&a->body, &a->q) < 0 || count_pending(all, of) == APPROVALS_PENDING_MAX) {
		approval_free(a);
		return -EBADMSG;
	}
	forget_oldest(all);
	a->n = ++all->last;
	a->asked_ns = supervisor_now_ns();
	a->until_ns = a->asked_ns + a->q.ms * 1000000;
	while (*at != NULL)
		at = &(*at)->next;
	*at = a;
	all->n++;
	all->n_pending++;
	recorded = approval_record(a, "asked");
	if (!stand_still(a))
		return 0;
	loop_set_timer(sv->loop, &a->timer, a->q.ms);
	approval_changed(a);
	announce(a, recorded);
	return 0;
}

int
supervisor_asked(struct supervisor *sv, struct ipc_message *message)
{
	return ask(sv, &message->body, APPROVAL_OF_REQUEST);
}

/* ---- questions of the supervisor's own, and of cloister-tools ---- */

/* Rules that were open for a time. */
static void
drop_ended(struct approvals *all)
{
	uint64_t now = loop_now_ms();

	for (size_t i = all->n_open; i-- > 0;)
		if (all->open[i].until_ms != 0 && all->open[i].until_ms <= now)
			all->open[i] = all->open[--all->n_open];
}

static bool
is_open(struct approvals *all, enum approval_of of, const unsigned char rule[COURIER_ASK_RULE])
{
	drop_ended(all);
	for (size_t i = 0; i < all->n_open; i++)
		if (all->open[i].of == of && memcmp(all->open[i].rule, rule, COURIER_ASK_RULE) == 0)
			return true;
	return false;
}

static bool
is_settled(struct supervisor *sv, const unsigned char rule[COURIER_ASK_RULE])
{
	for (const struct approval *a = sv->approvals.first; a != NULL; a = a->next)
		if (a->state == APPROVAL_PENDING && a->of == APPROVAL_OF_CELL && memcmp(a->q.rule, rule, COURIER_ASK_RULE) == 0)
			return true;
	return is_open(&sv->approvals, APPROVAL_OF_CELL, rule);
}

static void
put_cut(struct buf *b, const char *text, int max)
{
	char cut[COURIER_ASK_TEXT + 1];

	snprintf(cut, sizeof(cut), "%.*s", max, text);
	buf_put_str(b, cut);
}

/* What is asked about, if it is no request. */
struct subject {
	uint64_t number, ms, size;      /* SIZE: UINT64_MAX if there is no body */
	bool freeze;
	const unsigned char *rule;
	const char *protocol, *method, *scheme, *host, *path;
	uint32_t port;
	const char *text, *place, *reason, *type, *shape;
};

/* In the form of COURIER_ASK, so that one parser and one list serve all. */
static int
ask_of(struct supervisor *sv, const struct subject *s, enum approval_of of)
{
	struct buf b = BUF(IPC_MESSAGE_MAX);
	int r;

	buf_put_u64(&b, s->number);
	buf_put_u64(&b, s->ms);
	buf_put_u32(&b, 1);
	buf_put_u32(&b, s->freeze);
	buf_put(&b, s->rule, COURIER_ASK_RULE);
	buf_put_str(&b, s->protocol);
	put_cut(&b, s->method, 32);
	buf_put_str(&b, s->scheme);
	put_cut(&b, s->host, 300);
	buf_put_u32(&b, s->port);
	put_cut(&b, s->path, COURIER_ASK_PATH);
	buf_put_str(&b, "");
	put_cut(&b, s->text, COURIER_ASK_TEXT);
	put_cut(&b, s->place, COURIER_ASK_TEXT);
	put_cut(&b, s->reason, COURIER_ASK_TEXT);
	buf_put_str(&b, s->type);
	buf_put_u64(&b, s->size);
	buf_put_str(&b, s->shape);
	buf_put_u32(&b, 0);
	buf_put_u32(&b, 0);
	buf_put_str(&b, "");
	r = ask(sv, &b, of);
	buf_free(&b);
	return r;
}

int
supervisor_ask_of_cell(struct supervisor *sv, const struct approval_act *act)
{
	unsigned char rule[COURIER_ASK_RULE] = {0};
	const struct subject s = {
		.number = 1, .ms = act->ms, .size = UINT64_MAX, .freeze = true, .rule = rule, .protocol = "watch",
		.method = act->kind, .scheme = "", .host = act->what, .path = "", .text = act->text, .place = act->place,
		.reason = act->reason, .type = "", .shape = "",
	};

	memcpy(rule, &act->key, sizeof(act->key));
	return is_settled(sv, rule) ? 0 : ask_of(sv, &s, APPROVAL_OF_CELL);
}

int
supervisor_asked_of_result(struct supervisor *sv, struct ipc_message *message)
{
	struct subject s = { .protocol = "tool", .method = "RESULT", .scheme = "http", .host = POLICY_TOOLS_HOST,
	                     .port = POLICY_TOOLS_PORT, .place = "", .type = "application/json" };
	struct buf *b = &message->body;
	char path[COURIER_ASK_PATH + 1];
	const char *of;

	if (buf_get_u64(b, &s.number) < 0 || buf_get_u64(b, &s.ms) < 0 || buf_left(b) < COURIER_ASK_RULE)
		return -EBADMSG;
	s.rule = b->data + b->pos;
	b->pos += COURIER_ASK_RULE;
	if (buf_get_str(b, &of) < 0 || buf_get_str(b, &s.text) < 0 || buf_get_str(b, &s.reason) < 0 ||
	    buf_get_u64(b, &s.size) < 0 || buf_get_str(b, &s.shape) < 0 || buf_left(b) != 0)
		return -EBADMSG;
	if (is_open(&sv->approvals, APPROVAL_OF_RESULT, s.rule)) {
		supervisor_tools_answer(sv, s.number, true, "");
		return 0;
	}
	if (sv->dead || count_pending(&sv->approvals, APPROVAL_OF_RESULT) == APPROVALS_PENDING_MAX) {
		supervisor_tools_answer(sv, s.number, false, sv->dead ? "the cell has ended" :
		                        "too many results wait for approval already");
		return 0;
	}
	snprintf(path, sizeof(path), POLICY_TOOLS_PATH "#%s", of);
	s.path = path;
	return ask_of(sv, &s, APPROVAL_OF_RESULT);
}

void
approval_answer_result(struct approval *a, bool yes, const char *text)
{
	supervisor_tools_answer(a->sv, a->q.number, yes, text);
}

void
approval_refuse_cell(struct approval *a, const char *why)
{
	char what[300];

	snprintf(what, sizeof(what), "%.100s: %.150s", a->q.method, why);
	supervisor_stop_cell(a->sv, false, "watch", what);
}

/* ---- the end of one ---- */

void
approval_changed(struct approval *a)
{
	a->change = ++a->sv->approvals.change;
	supervisor_tell_approvals(a->sv);
}

static bool
others_froze(const struct supervisor *sv)
{
	for (const struct approval *a = sv->approvals.first; a != NULL; a = a->next)
		if (a->froze)
			return true;
	return false;
}

void
approval_close(struct approval *a, enum approval_state state)
{
	struct supervisor *sv = a->sv;
	char id[APPROVAL_ID_MAX];

	loop_cancel_timer(sv->loop, &a->timer);
	a->state = state;
	sv->approvals.n_pending--;
	if (state == APPROVAL_TIMED_OUT || state == APPROVAL_GONE)
		approval_record(a, state == APPROVAL_GONE ? "gone" : "timed_out");
	approval_changed(a);
	if (!a->froze)
		return;
	a->froze = false;
	approval_id(a, id);
	if (!others_froze(sv))
		supervisor_thaw_after(sv, id);
}

static int
withdrawn(struct supervisor *sv, struct ipc_message *message, enum approval_of of)
{
	struct approval *a = sv->approvals.first;
	uint64_t number;

	if (buf_get_u64(&message->body, &number) < 0 || buf_left(&message->body) != 0)
		return -EBADMSG;
	while (a != NULL && (a->state != APPROVAL_PENDING || a->of != of || a->q.number != number))
		a = a->next;
	/* It was answered, and the answer is on its way. */
	if (a == NULL)
		return 0;
	snprintf(a->why, sizeof(a->why), "the cell no longer waits for it");
	approval_close(a, APPROVAL_GONE);
	return 0;
}

int
supervisor_withdrawn(struct supervisor *sv, struct ipc_message *message)
{
	return withdrawn(sv, message, APPROVAL_OF_REQUEST);
}

int
supervisor_withdrawn_of_result(struct supervisor *sv, struct ipc_message *message)
{
	return withdrawn(sv, message, APPROVAL_OF_RESULT);
}

void
supervisor_approvals_gone(struct supervisor *sv, enum approval_of of, const char *why)
{
	for (struct approval *a = sv->approvals.first; a != NULL; a = a->next) {
		if (a->state != APPROVAL_PENDING || (a->of != of && !sv->dead))
			continue;
		snprintf(a->why, sizeof(a->why), "%s", why);
		approval_close(a, APPROVAL_GONE);
	}
}

void
supervisor_approvals_free(struct supervisor *sv)
{
	struct approval *a;

	while ((a = sv->approvals.first) != NULL) {
		sv->approvals.first = a->next;
		approval_free(a);
	}
}

/* ---- rules that are open ---- */

static void
put_open(struct steer *s, const unsigned char *rule, uint64_t ms)
{
	buf_put(&s->message, rule, COURIER_ASK_RULE);
	buf_put_u64(&s->message, ms);
}

int
approval_open_rule(struct approval *a, uint64_t ms)
{
	static const struct steer_who nobody;
	bool of_request = a->of == APPROVAL_OF_REQUEST;
	struct approvals *all = &a->sv->approvals;
	struct steer *s = NULL;
	size_t i = 0;

	drop_ended(all);
	while (i < all->n_open && (all->open[i].of != a->of ||
	                           memcmp(all->open[i].rule, a->q.rule, COURIER_ASK_RULE) != 0))
		i++;
	if (i == APPROVALS_OPEN_MAX)
		return -E2BIG;
	s = of_request ? steer_begin(a->sv, NULL, STEER_OPEN, &nobody, NULL, NULL) : NULL;
	if (s == NULL && of_request)
		return -EBUSY;
	all->open[i].of = a->of;
	all->n_open += i == all->n_open;
	memcpy(all->open[i].rule, a->q.rule, COURIER_ASK_RULE);
	all->open[i].until_ms = ms == 0 ? 0 : loop_now_ms() + ms;
	if (!of_request)
		return 0;
	put_open(s, a->q.rule, ms);
	(void)steer_send(a->sv, s);
	return 0;
}

int
supervisor_approvals_tell(struct supervisor *sv)
{
	struct approvals *all = &sv->approvals;
	uint64_t now = loop_now_ms();

	drop_ended(all);
	for (size_t i = 0; i < all->n_open; i++) {
		struct steer *s;

		if (all->open[i].of != APPROVAL_OF_REQUEST)
			continue;
		s = steer_tell(sv, STEER_OPEN);
		if (s == NULL)
			return -ENOMEM;
		put_open(s, all->open[i].rule, all->open[i].until_ms == 0 ? 0 :
		         all->open[i].until_ms - now);
	}
	return 0;
}
