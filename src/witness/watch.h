/* watch.h - the rules of `watch`, over acts.
 *
 * Pure but for the counts that keep a flood of one act from being a flood of messages.  An act's
 * texts are the agent's: a path is compared as it is, after its dots and double slashes are gone. */
#ifndef CLOISTER_WITNESS_WATCH_H
#define CLOISTER_WITNESS_WATCH_H
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "witness/act.h"

struct buf;
struct err;
struct witness_watch;

#define WATCH_WHAT_MAX 512              /* bytes of an act's description, with the NUL */
#define WATCH_HOME_MAX 1024
#define WATCH_EACH 16                   /* firings of a rule in a second, unless the rule stops the cell */

/* Parse MATCHERS, as policy_put_matchers() writes them; "~" is HOME.  The caller owns *ret_watch. */
int witness_watch_new(struct buf *matchers, const char *home, struct witness_watch **ret_watch, struct err *err);
void witness_watch_free(struct witness_watch *w);       /* NULL is fine */
OWN_BY(witness_watch_freep, struct witness_watch *, witness_watch_free)

/* The first rule at or after FROM that fits ACT, or -1. */
int witness_watch_next(const struct witness_watch *w, const struct act *act, size_t from);
/* What the supervisor knows the rule by. */
uint64_t witness_watch_key(const struct witness_watch *w, size_t rule);
/* Rule fits an act at TIME_NS.  False: it fired too often just now, and is only counted.  *ret_more is
 * the number of those counted since it last was not. */
bool witness_watch_fires(struct witness_watch *w, size_t rule, uint64_t time_ns, uint32_t *ret_more);
/* "write /home/agent/.ssh/config", for people.  Not cleaned. */
void witness_watch_what(const struct act *act, char ret_what[WATCH_WHAT_MAX]);
#endif
