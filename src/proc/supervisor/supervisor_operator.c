/* supervisor_operator.c - copies operators' actions on the cell to the operator's timeline: before
 * they are answered if nobody else writes there, otherwise soon after. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/hash.h"
#include "proc/supervisor/supervisor.h"

#define AGAIN_MS 4                      /* plus up to as much again, so that cells do not retry together */

static void
drop_first(struct acts *a)
{
	buf_free(&a->at[0]);
	a->n--;
	memmove(a->at, a->at + 1, a->n * sizeof(a->at[0]));
}

/* Writes them in order.  PATIENT: wait however long others write. */
static void
append(struct supervisor *sv, bool patient)
{
	struct timeline *t = &sv->timeline;
	struct err err = {0};
	int r = 0;

	while (t->acts.n > 0 && r != -EAGAIN) {
		const struct buf *event = &t->acts.at[0];

		r = patient ? operator_append(&t->operator, OPERATOR_LATER, (char *)event->data, event->len,
		                              &err) :
		    operator_try_append(&t->operator, OPERATOR_LATER, (char *)event->data, event->len, &err);
		if (r < 0 && r != -EAGAIN)
			supervisor_say(sv, "what was done to the cell is in its own timeline only: %s", err.text);
		if (r != -EAGAIN)
			drop_first(&t->acts);
	}
	if (t->acts.n > 0)
		loop_set_timer(sv->loop, &t->acts.again, AGAIN_MS + (uint64_t)getpid() % AGAIN_MS);
}

static void
again_due(void *arg)
{
	append(arg, false);
}

/* The event: TYPE, the cell, the hash of its record, and that record's members but "type" and "did". */
static void
put_event(struct supervisor *sv, const char *type, const struct members *m, struct buf *ret_event)
{
	const char *text = (const char *)m->text.data;
	char key[MEMBERS_KEY_MAX + 1], hash[AUDIT_HEX + 1];
	OWN(members_free) struct members all;

	members_init(&all, AUDIT_EVENT_MAX);
	members_str(&all, "type", type);
	members_str(&all, "cell", sv->spec.id);
	codec_hex(sv->timeline.last, AUDIT_HASH, hash);
	if (sv->timeline.log.fd >= 0)
		members_str(&all, "record", hash);
	for (size_t i = 0; i < m->n; i++) {
		const struct member *at = &m->at[i];

		memcpy(key, text + at->at + 1, at->key_len);
		key[at->key_len] = '\0';
		if (strcmp(key, "type") != 0 && strcmp(key, "did") != 0)
			members_raw(&all, key, text + at->at + at->key_len + 3, at->len - at->key_len - 3);
	}
	buf_init(ret_event, AUDIT_EVENT_MAX);
	members_put_object(&all, ret_event);
}

void
supervisor_tell_operator(struct supervisor *sv, const char *type, const struct members *m)
{
	struct acts *a = &sv->timeline.acts;

	if (sv->timeline.operator.dir <= 0)
		return;
	if (a->n == ACTS_MAX)
		append(sv, true);
	a->again.due = again_due;
	a->again.arg = sv;
	put_event(sv, type, m, &a->at[a->n++]);
	if (buf_failed(&a->at[a->n - 1])) {
		a->n--;
		buf_free(&a->at[a->n]);
	}
	append(sv, false);
}

void
supervisor_tell_operator_all(struct supervisor *sv)
{
	if (sv->timeline.operator.dir <= 0)
		return;
	append(sv, true);
	loop_cancel_timer(sv->loop, &sv->timeline.acts.again);
}
