/* api_note.c - records actions through the service in the operator's timeline. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "audit/log.h"
#include "audit/operator.h"
#include "base/own.h"
#include "loop/loop.h"
#include "proc/serve/api.h"
#include "proc/serve/api_thread.h"
#include "registry/registry.h"

#define MEMBERS_MAX 8
#define SETTLE_MS AUDIT_UNSIGNED_MS

void *
api_thread_new(struct err *err)
{
	struct api_thread *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	if (registry_open(true, &t->registry, err) < 0 || operator_open(&t->op, err) < 0) {
		api_thread_free(t);
		return NULL;
	}
	return t;
}

void
api_thread_free(void *own)
{
	struct api_thread *t = own;

	registry_close(t->registry);
	operator_close(&t->op);
	free(t);
}

struct registry *
api_registry(struct api_call *c)
{
	return ((struct api_thread *)c->own)->registry;
}

/* The requester, and MEMBERS. */
static size_t
put_members(const struct api_call *c, const char *const (*members)[2], size_t n,
            struct audit_member ret_all[MEMBERS_MAX])
{
	size_t count = 0;

	ret_all[count++] = (struct audit_member){ .name = "peer", .text = c->q->who };
	for (size_t i = 0; i < n && count < MEMBERS_MAX; i++)
		ret_all[count++] = (struct audit_member){ .name = members[i][0], .text = members[i][1] };
	return count;
}

static int
append(struct api_call *c, enum operator_when when, const char *type, const char *const (*members)[2],
       size_t n)
{
	struct api_thread *t = c->own;
	struct audit_member all[MEMBERS_MAX];
	size_t count = put_members(c, members, n, all);

	return operator_append_members(&t->op, when, type, all, count, &c->err);
}

int
api_note_first(struct api_call *c, const char *type, const char *const (*members)[2], size_t n)
{
	return append(c, OPERATOR_LATER, type, members, n);
}

int
api_note(struct api_call *c, bool now, const char *type, const char *const (*members)[2], size_t n)
{
	if (append(c, now ? OPERATOR_NOW : OPERATOR_LATER, type, members, n) == 0)
		return 0;
	err_wrap(&c->err, "the change is made, but cannot be recorded");
	return api_fail_as(c, 500, "not_recorded");
}

/* ---- events that wait in the registry ---- */

int
api_note_text(struct api_call *c, const char *type, const char *const (*members)[2], size_t n,
              struct buf *ret_text)
{
	struct audit_member all[MEMBERS_MAX];
	size_t count = put_members(c, members, n, all);

	if (operator_event(type, all, count, ret_text, &c->err) < 0)
		return api_fail(c);
	buf_put(ret_text, "", 1);
	return 0;
}

static int
tell(void *arg, const char *event, size_t len, struct err *err)
{
	return operator_append(arg, OPERATOR_NOW, event, len, err);
}

int
api_tell_notes(struct api_call *c)
{
	struct api_thread *t = c->own;

	if (registry_tell_notes(t->registry, tell, &t->op, &c->err) >= 0)
		return 0;
	err_wrap(&c->err, "the change is made, and will be recorded as soon as possible");
	return api_fail_as(c, 500, "not_recorded");
}

/* ---- background work ---- */

static void
settle(struct serve_job *job, void *own)
{
	struct api_thread *t = own;

	(void)job;
	(void)registry_tell_notes(t->registry, tell, &t->op, NULL);
	(void)operator_checkpoint(&t->op, NULL);
}

static void
settled(struct serve_job *job)
{
	struct api *api = (struct api *)((char *)job - offsetof(struct api, settle));

	if (!api->stopping)
		loop_set_timer(api->loop, &api->settle_due, SETTLE_MS);
}

static void
settle_due(void *arg)
{
	struct api *api = arg;

	api->settle = (struct serve_job){ .work = settle, .done = settled };
	serve_pool_add(api->pool, &api->settle);
}

void
api_settle_begin(struct api *api)
{
	loop_prepare_timer(&api->settle_due, settle_due, api);
	/* At once: the last service may have been killed. */
	loop_set_timer(api->loop, &api->settle_due, 0);
}

void
api_settle(struct registry *registry)
{
	OWN(operator_close) struct operator op = {0};

	if (operator_open(&op, NULL) < 0)
		return;
	(void)registry_tell_notes(registry, tell, &op, NULL);
	(void)operator_checkpoint(&op, NULL);
}
