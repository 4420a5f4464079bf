/* dispatch_confine.c - what a dispatch may have that was made by another one. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "dispatch/dispatch_parts.h"

static bool
may_ask_for(const json_t *agents, const char *name)
{
	json_t *agent;
	size_t i;

	json_array_foreach(agents, i, agent)
		if (json_is_string(agent) && strcmp(json_string_value(agent), name) == 0)
			return true;
	return false;
}

int
dispatch_confine(const struct dispatch *parent, const json_t *parent_resolved,
                 unsigned n_children, struct dispatch_plan *plan, struct err *err)
{
	const json_t *delegate = json_object_get(parent_resolved, "delegate");
	const char *name = dispatch_text(json_object_get(plan->resolved, "agent"), "name");

	if (!may_ask_for(json_object_get(delegate, "agents"), name))
		return err_set(err, EPERM, "the agent '%s' may not dispatch '%s'", parent->agent, name);
	if ((json_int_t)n_children >= json_integer_value(json_object_get(delegate, "fan_out")))
		return err_set(err, EPERM, "the agent '%s' has dispatched %u others, and may not dispatch "
		               "more", parent->agent, n_children);
	/* Without the intersection of policies a child could do more than its parent. */
	return err_set(err, ENOTSUP, "an agent cannot dispatch another one yet");
}
