/* checker.h - verifies all timelines in the background, again and again while somebody wants to
 * know, by running cloister-audit.
 *
 * The pause between two runs depends on how long one takes, so that it never uses much of the
 * machine.  Call all of this from the loop. */
#ifndef CLOISTER_CHECKER_H
#define CLOISTER_CHECKER_H
#include <jansson.h>
#include <stdint.h>

struct api;
struct checker;                         /* opaque */
struct err;

#define CHECKER_PAUSE_MS 60000          /* between two runs, at least */
#define CHECKER_SHARE 20                /* at most one part in so many of the time */
#define CHECKER_ANSWER_MAX (64u << 20)

int checker_new(struct api *api, struct checker **ret_checker, struct err *err);
/* Ends a run that is under way. */
void checker_stop(struct checker *c);   /* NULL is fine */
void checker_free(struct checker *c);   /* likewise; the pool is gone */
/* The last result: {"state","at","records","timelines","detail"}; the caller owns it.  Starts a
 * run, if one is due. */
json_t *checker_state(struct checker *c);
/* Increases with each new result. */
uint64_t checker_version(const struct checker *c);
#endif
