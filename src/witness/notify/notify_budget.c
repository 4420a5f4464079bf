/* notify_budget.c - bounds the processor time of the witness, which is not among the cell's limits.
 *
 * An agent can have the witness work: by very many calls, long lists of arguments, or programs to hash.  So over time
 * it works for a part of each second only.  Then calls wait: nothing is left out, and the agent is what gets slower. */
#include <time.h>

#include "witness/notify/notify.h"

#define MS_NS 1000000
#define PAUSE_MAX_MS 1000

static uint64_t
used_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

void
notify_budget_begin(struct notify_budget *b)
{
	*b = (struct notify_budget){ .left_ns = NOTIFY_CPU_BURST_NS, .at_ns = notify_now_ns(), .used_ns = used_ns() };
}

uint64_t
notify_budget_spend(struct notify_budget *b)
{
	const uint64_t now = notify_now_ns(), used = used_ns();
	const int64_t longest = (int64_t)PAUSE_MAX_MS * MS_NS / NOTIFY_CPU_SHARE;

	b->left_ns += (int64_t)((now - b->at_ns) / NOTIFY_CPU_SHARE) - (int64_t)(used - b->used_ns);
	b->left_ns = b->left_ns > NOTIFY_CPU_BURST_NS ? NOTIFY_CPU_BURST_NS : b->left_ns < -longest ? -longest : b->left_ns;
	b->at_ns = now;
	b->used_ns = used;
	return b->left_ns >= 0 ? 0 : (uint64_t)-b->left_ns * NOTIFY_CPU_SHARE / MS_NS + 1;
}
