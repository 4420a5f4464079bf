/* why.h - the parts of `cloister why`. */
#ifndef CLOISTER_CLI_WHY_H
#define CLOISTER_CLI_WHY_H
#include <stdbool.h>

struct timeline;
struct timeline_event;

/* Prints the rules of the cell's policy about E's host, and what keeps each from matching.  Prints
 * nothing if the policy is not kept or no rule is about the host. */
void why_print_near(const struct timeline *t, const struct timeline_event *e);
/* Whether the policy is within others, so that a rule of its own does not suffice. */
bool why_is_layered(const struct timeline *t);
/* Whether E is a connection to the SSH port of a host that the policy opens to git over HTTPS.  A rule for it would
 * let every push through. */
bool why_is_git_over_ssh(const struct timeline *t, const struct timeline_event *e);
#endif
