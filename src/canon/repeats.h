/* repeats.h - records that come in floods: the first are told one by one, the rest are counted, so
 * that nobody can wash a timeline away with what costs nothing. */
#ifndef CLOISTER_REPEATS_H
#define CLOISTER_REPEATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/members.h"

#define REPEATS_EVERY_MS 10000          /* then what was counted is told */
#define REPEATS_EACH 8                  /* of one kind are told in that time, as a rule, */
#define REPEATS_ALL 512                 /* and of all kinds; */
#define REPEATS_ALL_AGAIN 64            /* so many right after a time with more */
#define REPEATS_KINDS_MAX 64            /* that are counted each for itself */
#define REPEATS_TEXT_MAX 4096           /* of the text of a kind; longer ones are counted
                                         * together */

struct repeats {
	struct repeat {
		struct members members;
		uint64_t times, each;
	} kinds[REPEATS_KINDS_MAX];
	size_t n;
	uint64_t told, untold;          /* UNTOLD: those that are counted together */
	bool flooded;                   /* the last time had too many */
};

/* One more, TIMES over, of the kind that the first N of EVENT make, of which EACH are told.  True:
 * it is to be told; otherwise it was counted. */
bool repeats_take(struct repeats *r, const struct members *event, size_t n, uint64_t times,
                  uint64_t each);
/* How many of KIND were counted and not told. */
uint64_t repeats_untold(const struct repeat *kind);
/* Begin anew. */
void repeats_reset(struct repeats *r);
void repeats_free(struct repeats *r);
#endif
