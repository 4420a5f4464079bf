/* supervisor_timeline.c - writes records to the cell's timeline, chained and signed with a key of its
 * own (audit/log.h). */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

int
supervisor_timeline_write(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	size_t len = t->log.pending.len;
	char time[AUDIT_TIME_LEN + 1];
	struct err err = {0};
	int r;

	if (t->log.unsigned_n >= AUDIT_UNSIGNED_MAX) {
		audit_time_now(time);
		(void)audit_log_checkpoint(&t->log, time);
		len = t->log.pending.len;
	}
	r = audit_log_write(&t->log, false, &err);
	if (r < 0) {
		if (!t->failed)
			supervisor_say(sv, "the cell's timeline is incomplete: %s", err.text);
		t->failed = true;
		return r;
	}
	t->bytes += len;
	if (t->log.unsigned_n == 0)
		loop_cancel_timer(sv->loop, &t->sign);
	else if (t->sign.at_ms == 0)
		loop_set_timer(sv->loop, &t->sign, AUDIT_UNSIGNED_MS);
	return 0;
}

int
supervisor_timeline_put(struct supervisor *sv, const char *members, size_t len)
{
	struct timeline *t = &sv->timeline;
	char time[AUDIT_TIME_LEN + 1];
	int r;

	buf_reset(&t->event);
	buf_put(&t->event, "{", 1);
	buf_put(&t->event, members, len);
	buf_put(&t->event, "}", 1);
	if (buf_failed(&t->event))
		return -EMSGSIZE;
	audit_time_now(time);
	/* The members come from members_put(), or were checked to look as if they did. */
	r = audit_log_put_known(&t->log, time, (char *)t->event.data, t->event.len);
	/* Write earlier than planned, to make room. */
	if (r == -ENOBUFS && supervisor_timeline_write(sv) == 0)
		r = audit_log_put_known(&t->log, time, (char *)t->event.data, t->event.len);
	return r;
}

int
supervisor_put_members(struct supervisor *sv, const struct members *members)
{
	struct timeline *t = &sv->timeline;
	OWN(buf_free) struct buf text = {0};
	int r;

	if (t->log.fd < 0 || t->ended)
		return -EPIPE;
	buf_init(&text, AUDIT_EVENT_MAX);
	members_put(members, &text);
	r = buf_failed(&text) ? -EMSGSIZE : supervisor_timeline_put(sv, (char *)text.data, text.len);
	if (r == 0)
		memcpy(t->last, t->log.chain.head, sizeof(t->last));
	return r;
}

void
supervisor_record_members(struct supervisor *sv, const struct members *members)
{
	if (supervisor_put_members(sv, members) == 0)
		(void)supervisor_timeline_write(sv);
}

void
supervisor_record(struct supervisor *sv, const char *did, const char *by, const char *note)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell");
	members_str(&m, "verdict", "allow");
	members_str(&m, "did", did);
	members_str(&m, "by", by);
	members_str(&m, "note", note);
	supervisor_record_members(sv, &m);
}
