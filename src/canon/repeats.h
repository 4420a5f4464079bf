/* repeats.h - limits floods of records: the first are recorded one by one, the rest are counted.
 * So nobody can flush the timeline with cheap events. */
#ifndef CLOISTER_REPEATS_H
#define CLOISTER_REPEATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "canon/members.h"

#define REPEATS_EVERY_MS 10000          /* then the counts are recorded */
#define REPEATS_EACH 8                  /* recorded of one kind in that time, by default, */
#define REPEATS_ALL 512                 /* and of all kinds together; */
#define REPEATS_ALL_AGAIN 64            /* all kinds, right after a flooded period */
#define REPEATS_KINDS_MAX 64            /* kinds that are counted separately */
#define REPEATS_TEXT_MAX 4096           /* bytes of a kind's text; longer ones are counted together */

struct repeats {
	struct repeat {
		struct members members;
		uint64_t times, each;
	} kinds[REPEATS_KINDS_MAX];
	size_t n;
	uint64_t told, untold;          /* recorded; counted together */
	bool flooded;                   /* the last period had too many */
};

/* Take an event that happened TIMES over.  Its first N members are its kind, of which EACH are
 * recorded in a period.  True: record it; false: it was counted. */
bool repeats_take(struct repeats *r, const struct members *event, size_t n, uint64_t times,
                  uint64_t each);
/* How many of KIND were counted and not recorded. */
uint64_t repeats_untold(const struct repeat *kind);
/* Begin a new period. */
void repeats_reset(struct repeats *r);
void repeats_free(struct repeats *r);
#endif
