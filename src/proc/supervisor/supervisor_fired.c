/* supervisor_fired.c - see supervisor_fired.h. */
#include "proc/supervisor/supervisor_fired.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_consequence.h"
#include "proc/supervisor/supervisor.h"

bool
supervisor_has_fired(const struct supervisor *sv, uint64_t key)
{
	for (size_t i = 0; i < sv->fired.n; i++)
		if (sv->fired.at[i].key == key)
			return true;
	return false;
}

int
supervisor_keep_fired(struct supervisor *sv, uint64_t key, const void *data, size_t len)
{
	struct supervisor_fired *all = &sv->fired;
	struct buf *bytes;

	if (all->n == COURIER_FIRED_MAX)
		return -EBADMSG;
	bytes = &all->at[all->n].bytes;
	buf_init(bytes, COURIER_FIRED_BYTES);
	buf_put(bytes, data, len);
	if (buf_failed(bytes))
		return -ENOMEM;
	all->at[all->n++].key = key;
	return 0;
}

static int
keep(struct supervisor *sv, const struct fired_message *f, const struct buf *rest)
{
	bool again = (f->flags & COURIER_FIRED_AGAIN) != 0;

	if (supervisor_has_fired(sv, f->key) != again)
		return -EBADMSG;
	return again ? 0 : supervisor_keep_fired(sv, f->key, rest->data + rest->pos, f->len);
}

/* ---- records and notifications ---- */

void
supervisor_notify_members(struct supervisor *sv, const char *event, const struct members *m)
{
	OWN(buf_free) struct buf data;

	buf_init(&data, AUDIT_EVENT_MAX);
	members_put_object(m, &data);
	if (!buf_failed(&data))
		supervisor_notify_own(sv, event, &data);
}

static void
record(struct supervisor *sv, const struct fired_message *f)
{
	static const struct steer_who policy = { .by = "policy" };
	OWN(members_free) struct members m;
	size_t kind;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, "consequence", &policy);
	members_str(&m, "rule", f->place);
	members_str(&m, "rule_text", f->rule);
	kind = m.n;
	members_str(&m, "of", f->what);
	if (f->len > 0)
		members_bool(&m, "narrows", true);
	if (f->n_revoked > 0 && (f->flags & COURIER_FIRED_AGAIN) == 0)
		members_list(&m, "revoked", f->revoked, f->n_revoked, MEMBERS_STR_MAX);
	if ((f->flags & COURIER_FIRED_FREEZE) != 0)
		members_bool(&m, "freeze", true);
	/* Only the first time changes something. */
	if ((f->flags & COURIER_FIRED_AGAIN) == 0)
		supervisor_record_members(sv, &m);
	else
		(void)supervisor_record_repeated(sv, &m, kind, REPEATS_EACH);
	if ((f->flags & COURIER_FIRED_NOTIFY) != 0)
		supervisor_notify_members(sv, "consequence", &m);
}

void
supervisor_tell_tripped(struct supervisor *sv, const char *which, const char *then, const char *what)
{
	static const struct steer_who policy = { .by = "policy" };
	OWN(members_free) struct members m;
	size_t kind;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, "tripwire", &policy);
	members_str(&m, "tripwire", which);
	members_str(&m, "then", then);
	kind = m.n;
	members_str(&m, "note", what);
	(void)supervisor_record_repeated(sv, &m, kind, REPEATS_EACH);
	supervisor_notify_members(sv, "tripwire", &m);
}

/* ---- consequences ---- */

void
supervisor_stop_cell(struct supervisor *sv, bool freeze, const char *by, const char *what)
{
	const char *cell = sv->spec.name[0] != '\0' ? sv->spec.name : sv->spec.id;
	struct err err = {0};

	if (!supervisor_is_to_stop(sv, freeze))
		return;
	if (freeze && supervisor_freeze(sv, by, &err) == 0) {
		supervisor_say(sv, "cell %s: %s, and it is frozen: `cloister events %s`, then `cloister thaw %s` "
		               "or `cloister kill %s`", cell, what, cell, cell, cell);
		return;
	}
	snprintf(sv->not_frozen, sizeof(sv->not_frozen), "%.150s", err.text);
	supervisor_record(sv, "killed", by, sv->not_frozen);
	snprintf(sv->cause, sizeof(sv->cause), "%.150s, so it was killed%s%.80s", what,
	         err.code != 0 ? ": " : "", sv->not_frozen);
	supervisor_kill(sv, KILLED_BY_ALARM);
}

int
supervisor_take_fired(struct supervisor *sv, struct ipc_message *message)
{
	struct buf *b = &message->body;
	struct fired_message f = {0};
	char what[COURIER_FIRED_TEXT + 64];
	size_t at;
	int r = fired_get(b, &f);

	r = r == 0 ? keep(sv, &f, b) : r;
	if (r < 0)
		return r;
	for (uint32_t i = 0; (f.flags & COURIER_FIRED_AGAIN) == 0 && i < f.n_revoked; i++)
		if (supervisor_find_secret(sv, f.revoked[i], &at)) {
			sv->secrets.at[at].revoked = true;
			snprintf(sv->secrets.at[at].why, sizeof(sv->secrets.at[at].why), "%.*s",
			         REVOKED_WHY_MAX, f.why);
		}
	record(sv, &f);
	snprintf(what, sizeof(what), "%.200s led to it (%.200s)", f.what, f.place);
	if ((f.flags & COURIER_FIRED_FREEZE) != 0)
		supervisor_stop_cell(sv, true, "consequence", what);
	return 0;
}

static void
go_back(struct supervisor *sv, const char *which, const char *what)
{
	char cause[SAVER_CAUSE_MAX];

	snprintf(cause, sizeof(cause), "tripwire %.20s: %.200s", which, what);
	supervisor_saver_go_back(sv, cause);
}

int
supervisor_take_tripped(struct supervisor *sv, struct ipc_message *message)
{
	const char *which, *what;
	uint32_t then;

	if (buf_get_u32(&message->body, &then) < 0 || then == POLICY_TRIP_UNSAID || then >= POLICY_TRIPS ||
	    fired_get_text(&message->body, &which) < 0 || fired_get_text(&message->body, &what) < 0 ||
	    buf_left(&message->body) != 0)
		return -EBADMSG;
	supervisor_tell_tripped(sv, which, policy_trip_name(then), what);
	if (then == POLICY_TRIP_ROLLBACK)
		go_back(sv, which, what);
	if (then >= POLICY_TRIP_FREEZE)
		supervisor_stop_cell(sv, then == POLICY_TRIP_FREEZE, "tripwire", what);
	return 0;
}

void
supervisor_alarm(struct supervisor *sv)
{
	static const char what[] = "it sent a secret to where that may not go";
	const char *cell = sv->spec.name[0] != '\0' ? sv->spec.name : sv->spec.id;
	struct err err = {0};

	if (sv->spec.exfiltration == CELL_ROLLBACK)
		go_back(sv, "exfiltration", what);
	if (!supervisor_is_to_stop(sv, sv->spec.exfiltration == CELL_FREEZE))
		return;
	supervisor_tell_tripped(sv, "exfiltration", sv->spec.exfiltration == CELL_FREEZE ? "freeze" :
	                        sv->spec.exfiltration == CELL_ROLLBACK ? "rollback" : "kill", what);
	if (sv->spec.exfiltration == CELL_FREEZE && supervisor_freeze(sv, "exfiltration", &err) == 0) {
		supervisor_say(sv, "cell %s: it sent a secret to where that may not go, and is frozen: "
		               "`cloister why %s`, then `cloister thaw %s` or `cloister kill %s`", cell, cell,
		               cell, cell);
		return;
	}
	if (sv->spec.exfiltration == CELL_FREEZE)
		snprintf(sv->not_frozen, sizeof(sv->not_frozen), "%.150s", err.text);
	supervisor_record(sv, "killed", "exfiltration", sv->not_frozen);
	supervisor_kill(sv, KILLED_BY_ALARM);
}

/* ---- at a courier's start ---- */

int
supervisor_fired_tell(struct supervisor *sv)
{
	const struct supervisor_fired *all = &sv->fired;

	for (size_t i = 0; i < all->n; i++) {
		struct steer *s = steer_tell(sv, STEER_FIRED);

		if (s == NULL)
			return -ENOMEM;
		buf_put_u64(&s->message, all->at[i].key);
		buf_put_u32(&s->message, (uint32_t)all->at[i].bytes.len);
		buf_put(&s->message, all->at[i].bytes.data, all->at[i].bytes.len);
	}
	return 0;
}

void
supervisor_fired_close(struct supervisor *sv)
{
	while (sv->fired.n > 0)
		buf_free(&sv->fired.at[--sv->fired.n].bytes);
}
