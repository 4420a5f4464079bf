/* fleet_scale.h - how many workers a target is to have, and when to try again after a failure.  Pure. */
#ifndef CLOISTER_FLEET_SCALE_H
#define CLOISTER_FLEET_SCALE_H
#include <stdint.h>

#define FLEET_PAUSE_MS 2000             /* after the first failure, and twice that after each other */
#define FLEET_PAUSE_MAX_MS 300000

struct fleet_need {
	uint64_t waiting, taken;        /* dispatches of its pool */
	uint64_t reserved;              /* slots that are to be free beside these */
	unsigned slots, min, max;
};
/* Workers that were started by hand for the same pool are not known here: a few more may be started than are needed. */
unsigned fleet_scale_want(const struct fleet_need *need);
/* For FAILURES in a row, at least 1. */
uint64_t fleet_scale_pause_ms(unsigned failures);
#endif
