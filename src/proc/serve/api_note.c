/* api_note.c - what operators do through the service, in their timeline. */
#include <errno.h>
#include <string.h>

#include "audit/operator.h"
#include "base/own.h"
#include "proc/serve/api.h"
#include "proc/serve/api_thread.h"
#include "registry/registry.h"

#define MEMBERS_MAX 8

static struct api_thread *
thread_of(struct api_call *c)
{
	if (*c->own == NULL) {
		struct api_thread *t = calloc(1, sizeof(*t));

		if (t != NULL)
			t->op.dir = -1;
		*c->own = t;
	}
	return *c->own;
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
	struct api_thread *t = thread_of(c);

	if (t == NULL) {
		err_set(&c->err, ENOMEM, "out of memory");
		api_fail(c);
		return NULL;
	}
	if (t->registry == NULL && registry_open(true, &t->registry, &c->err) < 0) {
		api_fail(c);
		return NULL;
	}
	return t->registry;
}

int
api_note(struct api_call *c, bool now, const char *type, const char *const (*members)[2], size_t n)
{
	struct api_thread *t = thread_of(c);
	struct audit_member all[MEMBERS_MAX] = { { .name = "peer", .text = c->q->who } };
	int r = t == NULL ? err_set(&c->err, ENOMEM, "out of memory") : 0;

	for (size_t i = 0; i < n && i + 1 < MEMBERS_MAX; i++)
		all[i + 1] = (struct audit_member){ .name = members[i][0], .text = members[i][1] };
	if (r == 0 && t->op.dir < 0) {
		r = operator_open(&t->op, &c->err);
		if (r < 0)
			t->op.dir = -1;
	}
	r = r == 0 ? operator_append_members(&t->op, now ? OPERATOR_NOW : OPERATOR_LATER, type, all,
	                                     n + 1, &c->err) : r;
	if (r == 0)
		return 0;
	err_wrap(&c->err, "it was done, but cannot be recorded");
	return api_fail_as(c, 500, "not_recorded");
}
