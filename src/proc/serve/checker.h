/* checker.h - whether all timelines are as they were written: found out in the background, again and
 * again while somebody wants to know, by cloister-audit, whose word it is.
 *
 * How long it waits between two times is by how long one takes, so that it is never much of the
 * machine.  All of this is the loop's. */
#ifndef CLOISTER_CHECKER_H
#define CLOISTER_CHECKER_H
#include <jansson.h>
#include <stdint.h>

struct api;
struct checker;                         /* opaque */
struct err;

#define CHECKER_PAUSE_MS 60000          /* between two times, at least */
#define CHECKER_SHARE 20                /* and one in so many of its time at most */
#define CHECKER_ANSWER_MAX (64u << 20)

int checker_new(struct api *api, struct checker **ret_checker, struct err *err);
/* What is under way is ended. */
void checker_stop(struct checker *c);   /* NULL is fine */
void checker_free(struct checker *c);   /* likewise; the pool is gone */
/* Somebody wants to know: {"state","at","records","timelines","detail"}; the caller's.  It is begun
 * with, if it is time. */
json_t *checker_state(struct checker *c);
/* Counts up with each new word. */
uint64_t checker_version(const struct checker *c);
#endif
