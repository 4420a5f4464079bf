/* policy_explain.h - explains why each rule matches a request or does not. */
#ifndef CLOISTER_POLICY_EXPLAIN_H
#define CLOISTER_POLICY_EXPLAIN_H
#include "policy/policy.h"

enum policy_step_kind {
	POLICY_STEP_BEHIND,             /* not evaluated: an earlier rule decided */
	POLICY_STEP_HOST,               /* the rule is for other hosts */
	POLICY_STEP_PORT, POLICY_STEP_PROTOCOL,
	POLICY_STEP_KEY,                /* KEY does not fit the head, or the cell */
	POLICY_STEP_SIZE,               /* the body is too large for it */
	POLICY_STEP_BODY,               /* the body does not fit */
	POLICY_STEP_OPEN,               /* depends on the body, which is not known */
	POLICY_STEP_LOGS,               /* matches, and evaluation continues */
	POLICY_STEP_DECIDES,
};
struct policy_step {
	enum policy_step_kind kind;
	const char *key;                /* POLICY_STEP_KEY: "methods", "paths" ... */
};

/* Fill one step for each rule.  Each layer is evaluated on its own.  RET_STEPS has room for
 * policy_n_rules(). */
void policy_explain(const struct policy *p, const struct policy_request *req,
                    struct policy_step *ret_steps);
/* Whether a timeline has what the key NAME is about. */
bool policy_key_is_recorded(const char *name);
#endif
