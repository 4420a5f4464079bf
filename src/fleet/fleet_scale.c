/* fleet_scale.c - see fleet_scale.h. */
#include "fleet/fleet_scale.h"

unsigned
fleet_scale_want(const struct fleet_need *n)
{
	uint64_t all = n->waiting + n->taken + n->reserved, want = all / n->slots + (all % n->slots != 0);

	want = want > n->max ? n->max : want;
	return want < n->min ? n->min : (unsigned)want;
}

uint64_t
fleet_scale_pause_ms(unsigned failures)
{
	uint64_t ms = FLEET_PAUSE_MS;

	while (--failures > 0 && ms < FLEET_PAUSE_MAX_MS)
		ms *= 2;
	return ms < FLEET_PAUSE_MAX_MS ? ms : FLEET_PAUSE_MAX_MS;
}
