/* timing.h - notes when each step of a cell's start and end was done, for `cloister run --timing`.
 *
 * All processes of a cell write to one shared page.  Without --timing there is no page, and a mark
 * costs one comparison.  init, behind the wall, has the page too: what is in it is a time or
 * nonsense, and never more than a number. */
#ifndef CLOISTER_TIMING_H
#define CLOISTER_TIMING_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;

/* Each is marked once, when it is done.  timing.c has their names and the step that each follows. */
enum timing_step {
	TIMING_BEGUN,
	TIMING_DESCRIBED,
	TIMING_SUPERVISOR, TIMING_PLACED, TIMING_LIMITED, TIMING_PREPARED, TIMING_CLONED, TIMING_MAPPED, TIMING_CAPTURED,
	TIMING_RECORDED, TIMING_READY, TIMING_LISTENS, TIMING_CLEARED, TIMING_LOCKED,
	TIMING_ENTERED, TIMING_SKELETON, TIMING_DEVICES, TIMING_PROC, TIMING_SCRATCH,
	TIMING_GRANTED, TIMING_ROOT, TIMING_NETWORK, TIMING_DROPPED,
	TIMING_INIT, TIMING_CONFINED, TIMING_AGENT, TIMING_AGENT_ENDED,
	TIMING_DEAD, TIMING_KEPT, TIMING_REMOVED,
	TIMING_STEPS
};

extern uint64_t *timing_page;           /* TIMING_STEPS times in ns, 0: not done; NULL: no --timing */
extern int timing_file;                 /* the memory file of the page; -1: none */

void timing_note(enum timing_step step);
static inline void
timing_mark(enum timing_step step)
{
	if (__builtin_expect(timing_page != NULL, 0))
		timing_note(step);
}

uint64_t timing_now_ns(void);
/* Makes the page, for a cell that was begun at BEGUN_NS. */
int timing_make(uint64_t begun_ns, struct err *err);
/* Uses the page in the memory file FD, which stays open and is not inherited. */
int timing_attach(int fd, struct err *err);

/* The steps that were done, in the order in which they were: as a table, or as one JSON array. */
void timing_print(FILE *out, const uint64_t at[TIMING_STEPS]);
struct json;
void timing_put_json(struct json *w, const char *key, const uint64_t at[TIMING_STEPS]);
#endif
