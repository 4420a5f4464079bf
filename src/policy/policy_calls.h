/* policy_calls.h - `syscalls`: the system calls that a policy takes away from the agent.
 *
 * The compiled filter holds in any case, so this can only narrow.  All layers apply. */
#ifndef CLOISTER_POLICY_CALLS_H
#define CLOISTER_POLICY_CALLS_H
#include "base/call.h"

struct policy;

/* A word of `syscalls` that stands for several calls; ends with a NULL name. */
struct policy_call_class {
	const char *name, *help;
	const char *calls;              /* separated by one space */
};
#define POLICY_CALL_CLASSES 10
extern const struct policy_call_class policy_call_classes[POLICY_CALL_CLASSES + 1];

/* Whether no program starts without it. */
bool policy_call_is_needed(const char *name);
/* Whether any layer has `syscalls`. */
bool policy_narrows_calls(const struct policy *p);
/* Whether any layer denies `exec`. */
bool policy_denies_exec(const struct policy *p);
void policy_call_set(const struct policy *p, enum call_arch arch, struct call_set *ret_set);
#endif
