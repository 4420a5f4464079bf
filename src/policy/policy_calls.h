/* policy_calls.h - `syscalls` and `programs`: the system calls that a policy takes away from the agent, and the programs
 * that it leaves.
 *
 * The compiled filter holds in any case, so this can only narrow.  All layers apply. */
#ifndef CLOISTER_POLICY_CALLS_H
#define CLOISTER_POLICY_CALLS_H
#include "base/call.h"

struct buf;
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
#define POLICY_PROGRAMS_MAX 256         /* in one list of `programs` */
#define POLICY_PROGRAM_MAX 1024         /* bytes of one of them */

/* Whether any layer has `syscalls` or `programs`. */
bool policy_narrows_calls(const struct policy *p);
/* Whether any layer denies `exec`, or lists programs. */
bool policy_narrows_exec(const struct policy *p);
void policy_call_set(const struct policy *p, enum call_arch arch, struct call_set *ret_set);
/* Whether any layer lists programs. */
bool policy_lists_programs(const struct policy *p);
/* Append u32 layers, and for each layer that lists programs a strv of these. */
void policy_put_programs(struct buf *b, const struct policy *p);
/* Whether NODE may stand in `programs`: a name, or a path that begins with '/' or '~/'. */
bool policy_is_program(const char *text);
#endif
