/* why.h - the parts of `cloister why`. */
#ifndef CLOISTER_CLI_WHY_H
#define CLOISTER_CLI_WHY_H
#include <stdbool.h>

struct timeline;
struct timeline_event;

/* Which rules of the cell's policy are about E's host, and what keeps each from matching.
 * Nothing, if the policy is not kept or none is. */
void why_print_near(const struct timeline *t, const struct timeline_event *e);
/* Whether it lies within others, so that a rule of its own does not suffice. */
bool why_is_layered(const struct timeline *t);
#endif
