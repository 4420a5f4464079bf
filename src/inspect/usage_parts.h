/* usage_parts.h - what an answer has said so far, for the parts of usage only. */
#ifndef CLOISTER_USAGE_PARTS_H
#define CLOISTER_USAGE_PARTS_H
#include <sys/types.h>

#include "inspect/usage.h"

/* WITHIN is part of INPUT and was cached; LONG is part of CACHE_WRITE and is kept for an hour. */
enum usage_field { USAGE_INPUT, USAGE_OUTPUT, USAGE_CACHE_READ, USAGE_CACHE_WRITE, USAGE_LONG,
                   USAGE_WITHIN, USAGE_THOUGHTS, USAGE_TOOL, USAGE_FIELDS };

struct usage_said {
	bool seen[USAGE_FIELDS];
	uint64_t said[USAGE_FIELDS];
	uint64_t text;
	bool kept, background, over;
	char model[POLICY_MODEL_MAX + 1];
};

/* A whole answer, or what stands in one event. */
void usage_said_json(struct usage_said *s, const char *at, size_t len);
/* A line of a stream of events, without its end. */
void usage_said_line(struct usage_said *s, const char *at, size_t len);
/* The first frame of an event stream of AWS's, which is changed: how long it was; 0 if there is
 * not all of it, -EBADMSG if it is none. */
ssize_t usage_said_frame(struct usage_said *s, unsigned char *at, size_t len);
/* What that comes to. */
void usage_said_sum(const struct usage_said *s, bool complete, struct usage_found *ret_found);
#endif
