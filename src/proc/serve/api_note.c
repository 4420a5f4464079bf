/* api_note.c - what operators do through the service, in their timeline. */
#include <errno.h>
#include <string.h>

#include "audit/operator.h"
#include "base/own.h"
#include "proc/serve/api.h"
#include "proc/serve/api_thread.h"
#include "registry/registry.h"

#define MEMBERS_MAX 8

void *
api_thread_new(struct err *err)
{
	struct api_thread *t = calloc(1, sizeof(*t));

	if (t == NULL) {
		err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	t->op.dir = -1;
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

int
api_note(struct api_call *c, bool now, const char *type, const char *const (*members)[2], size_t n)
{
	struct api_thread *t = c->own;
	struct audit_member all[MEMBERS_MAX] = { { .name = "peer", .text = c->q->who } };
	int r;

	for (size_t i = 0; i < n && i + 1 < MEMBERS_MAX; i++)
		all[i + 1] = (struct audit_member){ .name = members[i][0], .text = members[i][1] };
	r = operator_append_members(&t->op, now ? OPERATOR_NOW : OPERATOR_LATER, type, all, n + 1,
	                            &c->err);
	if (r == 0)
		return 0;
	err_wrap(&c->err, "it was done, but cannot be recorded");
	return api_fail_as(c, 500, "not_recorded");
}
