/* scope.h - the scope of a locked tool: which requests, files and programs a call may use.
 *
 * Pure.  A scope is the operator's; policy/policy_tools.h describes its form. */
#ifndef CLOISTER_TOOLS_SCOPE_H
#define CLOISTER_TOOLS_SCOPE_H
#include <stdbool.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;
struct node;

#define SCOPE_WHAT_MAX 160
#define SCOPE_TIME_MS 30000             /* unless a scope has another `time` */

struct scope {
	struct policy *egress;          /* owned */
	struct node *rules;             /* owned; see scope_rules() */
	const struct node *read, *write, *secrets, *programs;   /* lists, or NULL */
	uint64_t time_ms;
};
/* The rules of the scope NODE, a list which the caller frees: each `include` is replaced by the rules that it names. */
int scope_rules(const struct node *node, struct node **ret_rules, struct err *err);
int scope_read(const struct node *node, struct scope *ret_scope, struct err *err);
void scope_free(struct scope *s);       /* for OWN() too */
/* Whether it lets a call change something; then WHAT says by what. */
bool scope_writes(const struct scope *s, char ret_what[SCOPE_WHAT_MAX]);
/* Whether METHOD is one that only reads. */
bool scope_is_reading(const char *method);
/* Whether it lets an HTTP request through, and whether by a rule for POSTs that only read: GraphQL queries, git fetch. */
bool scope_allows(const struct scope *s, const char *method, const char *host, uint16_t port, const char *path, bool tls,
                  bool *ret_reads);
bool scope_allows_raw(const struct scope *s, enum policy_protocol protocol, const char *host, uint16_t port);
/* Whether a rule has the host. */
bool scope_has_host(const struct scope *s, const char *host);
/* Whether PATH is one of LIST, or beneath one.  LIST may be NULL.  FOLDER and HOME: see policy_tools_path(). */
bool scope_has_path(const struct node *list, const char *path, const char *folder, const char *home);
#endif
