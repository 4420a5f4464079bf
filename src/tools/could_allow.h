/* could_allow.h - whether a policy could allow a call of a tool, before its arguments are known.
 *
 * Pure. */
#ifndef CLOISTER_TOOLS_COULD_ALLOW_H
#define CLOISTER_TOOLS_COULD_ALLOW_H
#include <stdbool.h>

struct policy;

/* NAME is "server.tool"; P is bound (policy_bind).  True also if that depends on the arguments. */
bool could_allow(const struct policy *p, const char *name);
#endif
