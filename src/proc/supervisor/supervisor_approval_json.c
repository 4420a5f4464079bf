/* supervisor_approval_json.c - writes an approval as a JSON object, for answers and notifications,
 * and as a record in the cell's timeline. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/own.h"
#include "canon/members.h"
#include "proc/supervisor/supervisor.h"

#define JSON_MAX (48 * 1024)
#define APPROVAL_KIND 2                 /* members that form a record's kind: type, did */

static const char *const states[] = {
	[APPROVAL_PENDING] = "pending", [APPROVAL_APPROVED] = "approved",
	[APPROVAL_REFUSED] = "refused", [APPROVAL_TIMED_OUT] = "timed_out",
	[APPROVAL_GONE] = "gone",
};
static const char *const hows[] = {
	[CONTROL_APPROVE_ONCE] = "once", [CONTROL_APPROVE_FOR] = "for", [CONTROL_APPROVE_RULE] = "rule",
};

void
approval_id(const struct approval *a, char ret_id[APPROVAL_ID_MAX])
{
	snprintf(ret_id, APPROVAL_ID_MAX, "%s-%llu", a->sv->spec.id, (unsigned long long)a->n);
}

static void
put_time(struct members *m, const char *key, uint64_t ns)
{
	time_t s = (time_t)(ns / 1000000000);
	char text[64], part[32];
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(part, sizeof(part), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof(text), "%s.%03uZ", part, (unsigned)(ns / 1000000 % 1000));
	members_str(m, key, text);
}

static void
put_object(struct members *m, const char *key, const struct members *inner)
{
	OWN(buf_free) struct buf text;

	buf_init(&text, JSON_MAX);
	members_put_object(inner, &text);
	members_raw(m, key, text.data, text.len);
}

static void
put_text(struct members *m, const char *key, const char *text)
{
	members_text(m, key, text, strlen(text), COURIER_ASK_SHAPE);
}

static void
put_body(struct members *m, const struct approval_question *q)
{
	OWN(members_free) struct members body;

	members_init(&body, JSON_MAX);
	members_str(&body, "type", q->type);
	if (q->size != UINT64_MAX)
		members_u64(&body, "size", q->size);
	if (q->shape[0] != '\0')
		put_text(&body, "shape", q->shape);
	put_object(m, "body", &body);
}

static void
put_given(struct members *m, const struct approval *a)
{
	OWN(buf_free) struct buf list;

	buf_init(&list, JSON_MAX);
	buf_put(&list, "[", 1);
	for (size_t i = 0; i < a->n_given; i++) {
		OWN(members_free) struct members one;

		members_init(&one, JSON_MAX);
		members_str(&one, "by", a->given[i].by);
		put_time(&one, "time", a->given[i].ns);
		if (i > 0)
			buf_put(&list, ",", 1);
		members_put_object(&one, &list);
	}
	buf_put(&list, "]", 1);
	members_raw(m, "given", list.data, list.len);
}

static void
put_asked(struct members *m, const struct approval_question *q)
{
	members_str(m, "protocol", q->protocol);
	members_str(m, "method", q->method);
	members_str(m, "scheme", q->scheme);
	members_str(m, "host", q->host);
	members_u64(m, "port", q->port);
	members_str(m, "path", q->path);
	members_str(m, "rule", q->text);
	members_str(m, "place", q->place);
	members_str(m, "reason", q->reason);
}

static void
put_answer(struct members *m, const struct approval *a)
{
	OWN(members_free) struct members answer = {0};

	if (a->state == APPROVAL_PENDING)
		return;
	members_init(&answer, JSON_MAX);
	members_str(&answer, "by", a->last.by);
	members_str(&answer, "why", a->why);
	if (a->last.ns != 0)
		put_time(&answer, "time", a->last.ns);
	if (a->state == APPROVAL_APPROVED)
		members_str(&answer, "how", hows[a->how]);
	put_object(m, "answer", &answer);
}

void
approval_json(const struct approval *a, struct buf *out)
{
	const struct supervisor *sv = a->sv;
	const struct approval_question *q = &a->q;
	OWN(members_free) struct members m;
	char id[APPROVAL_ID_MAX];

	members_init(&m, JSON_MAX);
	approval_id(a, id);
	members_str(&m, "id", id);
	members_str(&m, "cell", sv->spec.id);
	members_str(&m, "name", sv->spec.name);
	members_str(&m, "principal", sv->spec.principal);
	members_str(&m, "chain", sv->spec.chain);
	members_str(&m, "state", states[a->state]);
	put_time(&m, "asked", a->asked_ns);
	put_time(&m, "until", a->until_ns);
	put_asked(&m, q);
	if (q->query[0] != '\0')
		put_text(&m, "query", q->query);
	if (q->headers[0] != '\0')
		put_text(&m, "headers", q->headers);
	put_body(&m, q);
	members_list(&m, "secrets", q->secrets, q->n_secrets, COURIER_ASK_APPROVER);
	members_list(&m, "approvers", q->approvers, q->n_approvers, COURIER_ASK_APPROVER);
	members_u64(&m, "needs", q->needs);
	put_given(&m, a);
	members_bool(&m, "frozen", a->froze);
	put_answer(&m, a);
	members_put_object(&m, out);
}

static void
put_which(struct members *m, const struct approval *a)
{
	char id[APPROVAL_ID_MAX];

	approval_id(a, id);
	members_str(m, "approval", id);
	put_asked(m, &a->q);
}

bool
approval_record(const struct approval *a, const char *did)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "approval");
	members_str(&m, "did", did);
	members_str(&m, "note", a->why);
	put_which(&m, a);
	/* As many as can be pending at once get a record each. */
	return supervisor_record_repeated(a->sv, &m, APPROVAL_KIND, APPROVALS_PENDING_MAX);
}

void
approval_record_answer(const struct approval *a, enum steer_verb verb, const struct steer_who *who)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, steer_rows[verb].name, who);
	members_str(&m, "approver", a->last.by);
	if (verb == VERB_APPROVE) {
		members_str(&m, "how", hows[a->how]);
		members_bool(&m, "enough", a->n_given >= a->q.needs);
	}
	put_which(&m, a);
	steer_record(a->sv, verb, who, &m);
}
